"""The BMv2 target: real simple_switch_grpc processes, one per switch, started, configured and ended.

What the native switch has and BMv2 has not is approximated here and nowhere else: a port's rate in bit/s becomes
packets/s for a mean packet size (BMv2 knows no other rate), queue limits become packets.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from switch.bmv2_runtime import Bmv2Runtime, Bmv2RuntimeError
from switch.device import TIMER_PORT, DeviceSpec
from switch.lifeline import die_with_parent
from switch.link import wire_bytes

EXECUTABLE = "simple_switch_grpc"
DEFAULT_MEAN_FRAME_BYTES = 1082
"""A RoCEv2 packet of 1024 payload bytes without FCS: 14 + 20 + 8 + 12 + 1024 + 4."""
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
_POLL_S = 0.02


class Bmv2Error(Exception):
    """A BMv2 switch cannot be started; the message says why and where its log is."""


@dataclass(frozen=True)
class Bmv2Options:
    """How to start them."""

    log_dir: Path
    """Their logs go here, one file per switch."""
    mean_frame_bytes: int = DEFAULT_MEAN_FRAME_BYTES
    """Frame size (as AF_PACKET sees it) at which a port's packet rate equals its bit rate."""
    log_level: str = "off"
    """BMv2's own log: trace, debug, info, warn, error or off. Anything but off slows it down a lot."""
    executable: str = EXECUTABLE
    extra_arguments: tuple[str, ...] = ()
    """More arguments before `--`, for example `--pcap=DIR`."""


class Bmv2Switch:
    """One running simple_switch_grpc."""

    def __init__(
        self, spec: DeviceSpec, process: subprocess.Popen[bytes], address: str, thrift_port: int, log: Path
    ) -> None:
        self.spec = spec
        self.process = process
        self.address = address
        """`host:port` of its P4Runtime server."""
        self.thrift_port = thrift_port
        self.log = log

    def runtime(self) -> Bmv2Runtime:
        """A connection to its Thrift runtime; raises Bmv2RuntimeError."""
        return Bmv2Runtime(self.thrift_port)

    def stop(self) -> None:
        """End the process, by force when it does not go."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def find_executable(name: str = EXECUTABLE) -> Path | None:
    """Where simple_switch_grpc is, None when it is not installed."""
    found = shutil.which(name)
    return None if found is None else Path(found)


def start_switches(specs: Iterable[DeviceSpec], options: Bmv2Options) -> dict[str, Bmv2Switch]:
    """Start a BMv2 process for each switch, wait until all answer, and set their queues.

    Raises Bmv2Error; then none of them is left running.
    """
    started: dict[str, Bmv2Switch] = {}
    try:
        for spec in specs:
            started[spec.name] = _launch(spec, options)
        deadline = time.monotonic() + READY_TIMEOUT_S
        for switch in started.values():
            _wait_ready(switch, deadline)
            _set_queues(switch, options)
    except BaseException:
        stop_switches(started.values())
        raise
    return started


def stop_switches(switches: Iterable[Bmv2Switch]) -> None:
    """End them all, signalling every one before waiting for the first."""
    switches = list(switches)
    for switch in switches:
        if switch.process.poll() is None:
            switch.process.send_signal(signal.SIGTERM)
    for switch in switches:
        switch.stop()


def command_line(
    spec: DeviceSpec,
    *,
    executable: str,
    address: str,
    thrift_port: int,
    notifications: str,
    options: Bmv2Options,
    log: Path,
) -> list[str]:
    """The arguments that start simple_switch_grpc as this switch."""
    arguments = [executable]
    for port in spec.ports:
        if port.interface is not None:
            arguments += ["-i", f"{port.number}@{port.interface}"]
    arguments += ["--device-id", str(spec.device_id), "--thrift-port", str(thrift_port)]
    arguments += ["--notifications-addr", notifications]
    if options.log_level != "off":
        arguments += ["--log-file", str(log.with_suffix("")), "--log-level", options.log_level, "--log-flush"]
    arguments += options.extra_arguments
    arguments += ["--no-p4"] if str(spec.program_json) in ("", ".") else [str(spec.program_json)]
    arguments += ["--", "--grpc-server-addr", address, "--cpu-port", str(spec.cpu_port)]
    return [*arguments, "--drop-port", str(spec.drop_port), "--priority-queues", str(spec.priority_queues)]


def packets_per_second(rate_bps: int, mean_frame_bytes: int) -> int:
    """BMv2's packet rate for a port of `rate_bps`; at least 1 (0 would mean unlimited), 0 for unlimited."""
    if rate_bps == 0:
        return 0
    return max(1, round(rate_bps / (8 * wire_bytes(mean_frame_bytes))))


def _launch(spec: DeviceSpec, options: Bmv2Options) -> Bmv2Switch:
    executable = find_executable(options.executable)
    if executable is None:
        raise Bmv2Error(
            f"{options.executable} is not on PATH; install BMv2, or use the native switch (--switch native)"
        )
    # Asked for by a call: /sys shows the network namespace that it was mounted in.
    interfaces = {name for _, name in socket.if_nameindex()}
    for port in spec.ports:
        if port.interface is not None and port.interface not in interfaces:
            raise Bmv2Error(
                f"switch {spec.name}, port {port.number}: interface {port.interface} does not exist"
            )
    address = _free_address(spec)
    thrift_port = _free_port("127.0.0.1")
    # nanomsg binds a socket file there; its path must be short, and BMv2's default clashes between runs.
    notifications = f"ipc://{tempfile.gettempdir()}/xoff-bmv2-{os.getpid()}-{spec.device_id}.ipc"
    options.log_dir.mkdir(parents=True, exist_ok=True)
    log = options.log_dir / f"{spec.name}.log"
    arguments = command_line(
        spec,
        executable=str(executable),
        address=address,
        thrift_port=thrift_port,
        notifications=notifications,
        options=options,
        log=log,
    )
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*die_with_parent(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Bmv2Switch(spec, process, address, thrift_port, log)


def _wait_ready(switch: Bmv2Switch, deadline: float) -> None:
    """Wait until the P4Runtime and Thrift ports accept; there is no event to wait for, so they are tried."""
    host, _, port = switch.address.rpartition(":")
    for where in ((host, int(port)), ("127.0.0.1", switch.thrift_port)):
        while not _accepts(where):
            code = switch.process.poll()
            if code is not None:
                raise Bmv2Error(
                    f"switch {switch.spec.name}: {EXECUTABLE} ended with {_how(code)}:"
                    f" {_last_line(switch.log)} (log: {switch.log})"
                )
            if time.monotonic() > deadline:
                raise Bmv2Error(
                    f"switch {switch.spec.name}: BMv2 did not listen on {where[0]}:{where[1]} within"
                    f" {READY_TIMEOUT_S:g} s (log: {switch.log})"
                )
            time.sleep(_POLL_S)


def _set_queues(switch: Bmv2Switch, options: Bmv2Options) -> None:
    spec = switch.spec
    try:
        with switch.runtime() as runtime:
            runtime.set_queue_depth(spec.queue.limit_packets)
            for port in spec.ports:
                runtime.set_queue_depth(spec.queue.limit_packets, port.number)
                if port.rate_bps:
                    rate = packets_per_second(port.rate_bps, options.mean_frame_bytes)
                    runtime.set_queue_rate(rate, port.number)
            if spec.timer_hz > 0:
                runtime.set_queue_depth(spec.queue.limit_packets, TIMER_PORT)
                runtime.set_queue_rate(max(1, round(spec.timer_hz)), TIMER_PORT)
    except Bmv2RuntimeError as error:
        raise Bmv2Error(
            f"switch {spec.name}: its queues cannot be set: {error} (log: {switch.log})"
        ) from error


def _free_address(spec: DeviceSpec) -> str:
    host, _, port = spec.grpc_address.rpartition(":")
    if not host or not port.isdecimal():
        raise Bmv2Error(f"switch {spec.name}: gRPC address {spec.grpc_address!r} is not HOST:PORT")
    if port == "0":
        return f"{host}:{_free_port(host)}"
    try:
        with socket.create_server((host, int(port))):
            pass
    except (OSError, OverflowError) as error:
        raise Bmv2Error(
            f"switch {spec.name}: gRPC address {spec.grpc_address} is in use or not local ({error})"
        ) from error
    return spec.grpc_address


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def _accepts(where: tuple[str, int]) -> bool:
    try:
        socket.create_connection(where, 1.0).close()
    except OSError:
        return False
    return True


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _last_line(log: Path) -> str:
    lines: Sequence[str] = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
