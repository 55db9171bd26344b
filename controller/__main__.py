"""`python -m controller plan.json devices.json`: program the switches of a plan and keep them that way.

Prints one JSON object a line: `{"event": "ready"}` when every switch is programmed, `{"event": "error", …}` when
that is not possible. Ends on `stop` or end of file on standard input, or on a signal.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from controller.app import ControllerError, Emit, FabricController, ProgramFiles, run_controller_file
from switch.device import DeviceSpec
from switch.device_file import DeviceFileError, read_devices
from topologies.plan import FabricPlan


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop; 0, or 1 after an error."""
    options = _parser().parse_args(arguments)
    try:
        plan = _read_plan(options.plan)
        devices = read_devices(options.devices)
        return asyncio.run(_run(options, plan, devices))
    except (ControllerError, DeviceFileError) as error:
        _say({"event": "error", "message": str(error)})
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path, help="plan.json of the fabric")
    parser.add_argument("devices", type=Path, help="devices.json of the running switches")
    parser.add_argument("--records", type=Path, help="append records to this file (default: none)")
    parser.add_argument(
        "--interval", type=float, default=1.0, help="seconds between counter collections (default 1, 0 never)"
    )
    parser.add_argument("--epoch", type=int, help="monotonic ns at which the run began (default: now)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for the bring-up (default 60)")
    parser.add_argument(
        "--controller", type=Path, help="run this file's `async def main(plan, devices, emit)` instead"
    )
    return parser


def _read_plan(path: Path) -> FabricPlan:
    try:
        return FabricPlan.read(path)
    except OSError as error:
        raise ControllerError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ControllerError(f"{path} is not a plan: {error}") from error


async def _run(options: argparse.Namespace, plan: FabricPlan, devices: tuple[DeviceSpec, ...]) -> int:
    epoch = options.epoch if options.epoch is not None else time.monotonic_ns()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    listening = await _watch_stdin(stopped)
    addresses = {device.name: device.grpc_address for device in devices}
    file = options.records.open("a") if options.records else None
    try:
        emit = _writer(file, epoch)
        if options.controller is not None:
            await _until(stopped, run_controller_file(options.controller, plan, addresses, emit))
            return 0
        controller = FabricController(
            plan,
            addresses,
            ProgramFiles(devices[0].program_json, devices[0].p4info),
            emit,
            timestamp_hz=devices[0].timestamp_hz,
        )
        await _until(stopped, _follow(controller, options, stopped))
        return 0
    finally:
        if listening is not None:
            listening.cancel()
        if file is not None:
            file.close()


async def _follow(controller: FabricController, options: argparse.Namespace, stopped: asyncio.Event) -> None:
    started = time.monotonic()
    await controller.start(timeout=options.timeout)
    _say({"event": "ready", "seconds": round(time.monotonic() - started, 3)})
    try:
        while not stopped.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stopped.wait(), options.interval or None)
            if options.interval:
                await controller.collect()
    finally:
        await controller.stop()


async def _until(stopped: asyncio.Event, work: Any) -> None:
    """Run `work` to its end or until `stopped`; its error is raised."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not task.done():
        # The work sees `stopped` itself and finishes a last collection; a user's controller is cancelled.
        done, _ = await asyncio.wait([task], timeout=5.0)
        if not done:
            task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        task.result()


async def _watch_stdin(stopped: asyncio.Event) -> asyncio.Task[None] | None:
    """A task that sets `stopped` at the line `stop` or the end of standard input; None when that is a plain file.

    The caller keeps it: asyncio refers to a stream's reader, and so to who waits for it, only weakly.
    """
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    except (ValueError, OSError):
        return None  # standard input is a plain file or closed: signals still end the run

    async def watch() -> None:
        while line := await reader.readline():
            if line.strip() == b"stop":
                break
        stopped.set()

    return asyncio.create_task(watch())


def _writer(file: TextIO | None, epoch: int) -> Emit:
    def emit(record: dict[str, Any]) -> None:
        if file is not None:
            file.write(json.dumps({"t": time.monotonic_ns() - epoch, **record}) + "\n")
            file.flush()

    return emit


def _say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
