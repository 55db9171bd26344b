"""What every way of running a switch begins with: its engine, its ports, its program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from finsy.proto import p4r
from google.protobuf import text_format

from switch.device import LOOP_PORT, TIMER_PORT, DeviceSpec, PortSpec
from switch.link import wire_bytes
from switch.native.binding import Engine
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.p4runtime.errors import P4RuntimeError
from switch.native.program import Program, ProgramError

TIMER_FRAME_BYTES = 60
"""Length of the packet that laps the timer port; its port's rate makes one lap last 1 / timer_hz."""


BMV2_QUEUE_PACKETS = 64
"""What a queue of simple_switch holds until `set_queue_depth` says otherwise."""


class StartError(Exception):
    """A switch cannot be started; the message says why."""


def new_engine(spec: DeviceSpec) -> Engine:
    """An engine without program and ports."""
    engine = Engine(
        None,
        device_id=spec.device_id,
        cpu_port=spec.cpu_port,
        drop_port=spec.drop_port,
        timestamp_hz=spec.timestamp_hz,
        priority_queues=spec.priority_queues,
        seed=spec.seed,
        bmv2_compat=spec.bmv2_compat,
    )
    packets = BMV2_QUEUE_PACKETS if spec.bmv2_compat else spec.queue.limit_packets
    engine.set_queue_limit(bytes=spec.queue.limit_bytes, packets=packets)
    return engine


def all_ports(spec: DeviceSpec) -> list[PortSpec]:
    """The ports with those that lead nowhere: the loop port, and the timer port where there is to be one."""
    ports = list(spec.ports)
    taken = {port.number for port in ports}
    if LOOP_PORT not in taken:
        ports.append(PortSpec(LOOP_PORT, None, 0))
    if spec.timer_hz > 0 and TIMER_PORT not in taken:
        rate = max(1, round(wire_bytes(TIMER_FRAME_BYTES) * 8 * spec.timer_hz))
        ports.append(PortSpec(TIMER_PORT, None, rate))
    return ports


async def load_program(spec: DeviceSpec, engine: Engine, device: P4RuntimeDevice) -> None:
    """Load the program that the switch starts with, if any."""
    if str(spec.program_json) in ("", "."):
        return
    document = _read(spec, spec.program_json)
    if str(spec.p4info) in ("", "."):
        try:
            engine.set_pipeline(Program.from_text(document))
        except ProgramError as error:
            raise StartError(f"switch {spec.name}: {spec.program_json}: {error}") from error
        return
    message = p4r.ForwardingPipelineConfig(p4_device_config=document.encode())
    try:
        text_format.Parse(_read(spec, spec.p4info), message.p4info)
    except text_format.ParseError as error:
        raise StartError(f"switch {spec.name}: {spec.p4info} is not P4Info text: {error}") from error
    try:
        await device.load(message)
    except P4RuntimeError as error:
        raise StartError(f"switch {spec.name}: {spec.program_json}: {error.message}") from error


def log_messages(spec: DeviceSpec, engine: Engine, log: Callable[[str], None]) -> None:
    """Log what the program's `log_msg` and failed asserts said."""
    for message in engine.take_log():
        kind = "assert failed: " if message.failed_assert else ""
        log(f"{spec.name}: {kind}{message.text}")


def _read(spec: DeviceSpec, path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise StartError(f"switch {spec.name}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartError(f"switch {spec.name}: {path} is not text") from error
