"""The switch process: command line in, JSON lines out, until its time is over.

It prints `{"event":"ready","devices":{NAME:"HOST:PORT"}}` once every switch listens, or `{"event":"error",
"message":…}` and exits with 1. Lines on stdin are commands (`COMMANDS`); each is answered with one JSON line
`{"event":"command","command":…,"ok":…}`. `{"event":"crashed","switch":NAME,"message":…}` says that a switch's
program has crashed, which ends that switch only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from switch.device import DeviceSpec
from switch.device_file import DeviceFileError, read_devices
from switch.native.binding import EngineError
from switch.native.bringup import StartError
from switch.native.build import BuildError
from switch.native.control.controlled import Controlled
from switch.native.files import FileSwitch
from switch.native.metrics import MetricsServer
from switch.native.node import SwitchHost
from switch.native.options import Options, OptionsError, parse_options
from switch.native.packetloop import PacketLoopError
from switch.native.program import ProgramError
from switch.native.sampler import RecordFile

COMMANDS = (
    "kill NAME | restart NAME | rate NAME PORT BPS | down NAME PORT | up NAME PORT | "
    "loss NAME PORT tx|rx|both PROBABILITY EVERY SEED | sample | stop"
)

_PROBLEMS = (
    BuildError,
    DeviceFileError,
    EngineError,
    OptionsError,
    PacketLoopError,
    ProgramError,
    StartError,
)
"""What is the user's or the machine's doing and told in one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process; returns its exit code."""
    try:
        options = parse_options(sys.argv[1:] if arguments is None else arguments)
        if options.text is not None:
            print(options.text)
            return 0
        return asyncio.run(_Daemon(options).run())
    except _PROBLEMS as error:
        _print_error(str(error))
        return 1


def _print_error(message: str) -> None:
    _print_event({"event": "error", "message": message})
    print(f"error: {message}", file=sys.stderr, flush=True)


def _print_event(event: dict[str, object]) -> None:
    # A reader that has gone away must not keep the switches from ending in order.
    with suppress(BrokenPipeError):
        print(json.dumps(event), flush=True)


class _Daemon:
    """The process while its event loop runs."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._over = asyncio.Event()
        self._input = b""
        self._commands: asyncio.Queue[str] = asyncio.Queue()
        self._log_file: TextIO | None = None
        self._metrics: MetricsServer | None = None
        self._metrics_address: str | None = None

    async def run(self) -> int:
        options = self._options
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        if options.use_files is not None:
            return await self._run_files(options.devices[0], options.use_files)
        devices = options.devices or read_devices(_required(options.devices_file))
        host = SwitchHost(
            threads=options.threads,
            records=self._open_records(),
            sample_s=options.sample_ms / 1000,
            log=self._logger(),
            pcap=options.pcap,
            tls=options.tls,
            links_in_memory=options.links == "memory",
            crashed=lambda name, message: _print_event(
                {"event": "crashed", "switch": name, "message": message}
            ),
        )
        try:
            await host.start()
            for device in devices:
                await host.add(device)
            for note in options.notes:
                print(f"note: {note}", file=sys.stderr, flush=True)
            await self._serve_metrics(host.running)
            self._say_ready(host.addresses())
            self._listen()
            commands = asyncio.create_task(self._obey(host))
            await self._over.wait()
            commands.cancel()
        finally:
            await self._stop_metrics()
            await host.close()
            if self._log_file is not None:
                self._log_file.close()
        return 0

    async def _run_files(self, device: DeviceSpec, wait_s: int) -> int:
        """One switch on pcap files: process them after a while, then serve on until told to end."""
        switch = FileSwitch(device, self._logger())
        try:
            address = await switch.start(self._options.tls)
            for note in self._options.notes:
                print(f"note: {note}", file=sys.stderr, flush=True)
            await self._serve_metrics(lambda: [switch])
            self._say_ready({device.name: address})
            self._listen()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), wait_s)
            if not self._over.is_set():
                await switch.process()
                _print_event(
                    {"event": "files", "frames_in": switch.frames_in, "frames_out": switch.frames_out}
                )
            commands = asyncio.create_task(self._obey(None))
            await self._over.wait()
            commands.cancel()
        finally:
            await self._stop_metrics()
            await switch.close()
            if self._log_file is not None:
                self._log_file.close()
        return 0

    async def _serve_metrics(self, switches: Callable[[], Iterable[Controlled]]) -> None:
        address = self._options.metrics_addr
        if address is None:
            return
        self._metrics = MetricsServer(switches)
        try:
            self._metrics_address = await self._metrics.start(address)
        except (OSError, ValueError) as error:
            raise StartError(f"--metrics-addr {address} cannot be listened on: {error}") from error

    def _say_ready(self, addresses: dict[str, str]) -> None:
        event: dict[str, object] = {"event": "ready", "devices": addresses}
        if self._metrics_address is not None:
            event["metrics"] = self._metrics_address
        _print_event(event)

    async def _stop_metrics(self) -> None:
        if self._metrics is not None:
            await self._metrics.close()

    def _open_records(self) -> RecordFile | None:
        options = self._options
        if options.records is None:
            return None
        epoch = time.monotonic_ns() if options.epoch is None else options.epoch
        try:
            return RecordFile(options.records, epoch)
        except OSError as error:
            raise StartError(f"records {options.records} cannot be written: {error.strerror}") from error

    def _logger(self) -> Callable[[str], None]:
        options = self._options
        if options.log_file is not None:
            try:
                self._log_file = options.log_file.open("a", buffering=1)
            except OSError as error:
                raise StartError(
                    f"log file {options.log_file} cannot be written: {error.strerror}"
                ) from error
        target = self._log_file or sys.stderr

        def log(line: str) -> None:
            print(line, file=target, flush=True)

        return log

    # ---- stdin ----
    def _listen(self) -> None:
        """Take commands from stdin; its end is the process's end when it is the lifeline."""
        try:
            os.set_blocking(0, False)
            asyncio.get_running_loop().add_reader(0, self._readable)
        except (OSError, ValueError):  # closed, or a plain file, which no event loop can watch
            if self._options.stdin_lifeline:
                self._over.set()

    def _readable(self) -> None:
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(0)
            if self._options.stdin_lifeline:
                self._over.set()
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            if text := line.decode(errors="replace").strip():
                self._commands.put_nowait(text)

    async def _obey(self, host: SwitchHost | None) -> None:
        while True:
            command = await self._commands.get()
            answer: dict[str, object] = {"event": "command", "command": command, "ok": True}
            try:
                await self._execute(host, command)
            except _PROBLEMS as error:
                answer |= {"ok": False, "message": str(error)}
            _print_event(answer)

    async def _execute(self, host: SwitchHost | None, command: str) -> None:
        if command == "stop":
            self._over.set()
            return
        if host is None:
            raise StartError(
                f"{command!r} is not a command of a switch on files; stop is, and see xoff-switch-cli"
            )
        match command.split():
            case ["kill", name]:
                await host.kill(name)
            case ["restart", name]:
                await host.restart(name)
            case ["rate", name, port, rate] if port.isdecimal() and rate.isdecimal():
                host.set_rate(name, int(port), int(rate))
            case ["down" | "up" as direction, name, port] if port.isdecimal():
                host.set_up(name, int(port), direction == "up")
            case ["loss", name, port, directions, share, every, seed] if (
                port.isdecimal() and every.isdecimal() and seed.isdecimal() and _is_number(share)
            ):
                host.set_loss(name, int(port), directions, float(share), int(every), int(seed))
            case ["sample"]:
                host.sample()
            case _:
                raise StartError(f"{command!r} is not a command; commands are {COMMANDS}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _required(path: Path | None) -> Path:
    assert path is not None
    return path
