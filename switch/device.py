"""What a switch is, whatever runs it: identity, program, ports, queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

CPU_PORT = 510
TIMER_PORT = 509
"""A port that leads nowhere. Its paced queue gives the P4 program a clock: a resident packet sent there
comes back by recirculation once per `1 / timer_hz`."""
LOOP_PORT = 508
"""A port that every device has, without interface, rate or delay: the P4 program sends there what must pass
through ingress once more (copies lose their priority in v1model; ingress gives it back)."""
DROP_PORT = 511
PRIORITY_QUEUES = 8


@dataclass(frozen=True)
class PortSpec:
    """One port of a switch, in the units of the clock that runs it (Mininet: wall, virtual: fabric)."""

    number: int
    interface: str | None
    """Linux interface to attach, or None where a driver carries the frames itself."""
    rate_bps: int
    """Link rate in bit/s on wire bytes (`switch.link.wire_bytes`); 0 = unlimited."""
    delay_ns: int = 0
    """Propagation delay towards the peer."""
    peer: str | None = None
    """`NAME:PORT` of the switch at the far end, where there is one. Links in memory go by it."""


@dataclass(frozen=True)
class QueueSpec:
    """Traffic-manager limits of every (port, class) queue. The P4 program admits packets before these bite."""

    limit_bytes: int = 16 * 1024 * 1024
    limit_packets: int = 16384


@dataclass(frozen=True)
class DeviceSpec:
    """A switch to start."""

    name: str
    device_id: int
    ports: tuple[PortSpec, ...]
    program_json: Path
    p4info: Path
    grpc_address: str
    """`host:port` of its P4Runtime server; port 0 lets the system choose."""
    cpu_port: int = CPU_PORT
    drop_port: int = DROP_PORT
    timer_hz: float = 0.0
    """Laps per second of the timer port; 0 = no timer port."""
    queue: QueueSpec = field(default_factory=QueueSpec)
    timestamp_hz: int = 1_000_000
    """Ticks per second of the P4 timestamps: 10**6 as BMv2, 10**9 in virtual time."""
    priority_queues: int = PRIORITY_QUEUES
    bmv2_compat: bool = False
    """Where a program could depend on it the native switch does as simple_switch does (docs/bmv2-differences.md)."""
    seed: int = 0
