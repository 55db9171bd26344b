"""The plan of a fabric: every address, route, class and rate, as plain data.

A plan is what the controller, the hosts and the reports share. It is computed once from a topology graph and
an experiment, written to `plan.json` in the run folder, and never changed. Rates and times are in fabric units
(100 Gb/s, nanoseconds); `wall_rate` and `wall_time` apply the time scale of the clock that runs it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

LoadBalancing = Literal["ecmp", "spray", "adaptive", "reps"]
"""How packets find their paths. `reps`: the hosts choose an entropy for each packet, the switches hash it."""
SwitchBalancing = Literal["ecmp", "spray", "adaptive"]
"""What a switch does among equal ports."""
PortKind = Literal["host", "up", "down", "local", "global"]

CLASSES = 8
"""802.1p priorities; class = DSCP >> 3 on every switch and host."""


@dataclass(frozen=True)
class HostPlan:
    """A host (one NIC, one rank)."""

    name: str
    rank: int
    mac: str
    ipv4: str
    switch: str
    switch_port: int
    gateway_mac: str
    """MAC of the switch port it is attached to; all its frames go there."""
    rate_bps: int
    delay_ns: int


@dataclass(frozen=True)
class PortPlan:
    """A switch port and what is at its other end."""

    number: int
    mac: str
    peer: str
    """Name of the switch or host at the other end."""
    peer_port: int
    peer_mac: str
    rate_bps: int
    delay_ns: int
    kind: PortKind


@dataclass(frozen=True)
class Route:
    """A destination prefix and the equal candidates to reach it (port numbers, ascending, at least one)."""

    prefix: str
    ports: tuple[int, ...]


@dataclass(frozen=True)
class ClassPolicy:
    """What every switch does to one traffic class. Bytes are never scaled."""

    lossless: bool
    """PFC on: pause the upstream instead of dropping."""
    xoff_bytes: int = 0
    """Bytes held for one (ingress port, class) above which XOFF is sent."""
    xon_bytes: int = 0
    """Bytes held at or below which XON is sent."""
    headroom_bytes: int = 0
    """Room beyond `xoff_bytes` for what is in flight when XOFF is sent; beyond that is a drop."""
    pause_quanta: int = 0xFFFF
    """Pause time in an XOFF frame, in quanta of 512 bit times."""
    ecn_kmin_bytes: int = 0
    ecn_kmax_bytes: int = 0
    ecn_pmax: float = 0.0
    """RED marking on the egress queue (HPCC `ShouldSendCN`); kmax 0 = no marking."""
    queue_limit_bytes: int = 1 << 20
    """Egress queue bytes above which a packet of a lossy class is dropped (counted)."""


@dataclass(frozen=True)
class IntPolicy:
    """In-band telemetry: who adds and removes it."""

    mode: Literal["off", "host", "edge"] = "off"
    """`host`: NICs add and strip it (HPCC needs this). `edge`: the first switch adds, the last strips and
    reports to the controller."""
    sample_every: int = 1
    """`edge` only: one packet in this many carries telemetry."""
    domain_id: int = 1


@dataclass(frozen=True)
class SwitchPlan:
    """One switch: its place, ports and routes."""

    name: str
    device_id: int
    layer: str
    """`edge`, `aggregation`, `core`, `leaf`, `spine`, `node`…"""
    ports: tuple[PortPlan, ...]
    routes: tuple[Route, ...]
    hash_seed: int
    """Differs per switch, so that successive hash choices are independent (no ECMP polarisation)."""
    position: tuple[float, float] = (0.0, 0.0)
    """Where to draw it, in the unit square."""


@dataclass(frozen=True)
class FabricPlan:
    """The whole fabric."""

    name: str
    switches: tuple[SwitchPlan, ...]
    hosts: tuple[HostPlan, ...]
    classes: dict[int, ClassPolicy]
    """Policy per traffic class 0..7; a class without one is lossy with the default limit."""
    load_balancing: LoadBalancing = "ecmp"
    weighted_paths: bool = False
    """Groups of equal ports follow the capacity of the paths behind them (`controller.weights`)."""
    telemetry: IntPolicy = field(default_factory=IntPolicy)
    time_scale: float = 1.0
    """Wall seconds per fabric second (s): times are multiplied, rates divided, bytes kept."""
    mtu: int = 1024
    """RoCE path MTU: payload bytes per packet."""

    @property
    def switch_balancing(self) -> SwitchBalancing:
        """What its switches do among equal ports."""
        return "ecmp" if self.load_balancing == "reps" else self.load_balancing

    def wall_rate(self, fabric_bps: int) -> int:
        """Bit/s on the running clock of a fabric rate."""
        return max(1, round(fabric_bps / self.time_scale))

    def wall_time(self, fabric_ns: float) -> int:
        """Nanoseconds on the running clock of a fabric duration."""
        return round(fabric_ns * self.time_scale)

    def host(self, name: str) -> HostPlan:
        """The host called `name`; KeyError otherwise."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def switch(self, name: str) -> SwitchPlan:
        """The switch called `name`; KeyError otherwise."""
        for switch in self.switches:
            if switch.name == name:
                return switch
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; `from_json` is its inverse."""
        data = asdict(self)
        data["classes"] = {str(cls): policy for cls, policy in data["classes"].items()}
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> FabricPlan:
        """The plan that `to_json` wrote."""
        switches = tuple(
            SwitchPlan(
                **{
                    **s,
                    "ports": tuple(PortPlan(**p) for p in s["ports"]),
                    "routes": tuple(Route(r["prefix"], tuple(r["ports"])) for r in s["routes"]),
                    "position": tuple(s["position"]),
                }
            )
            for s in data["switches"]
        )
        return FabricPlan(
            **{
                **data,
                "switches": switches,
                "hosts": tuple(HostPlan(**h) for h in data["hosts"]),
                "classes": {int(c): ClassPolicy(**p) for c, p in data["classes"].items()},
                "telemetry": IntPolicy(**data["telemetry"]),
            }
        )

    def write(self, path: Path) -> None:
        """Write as `plan.json`."""
        path.write_text(json.dumps(self.to_json(), indent=1))

    @staticmethod
    def read(path: Path) -> FabricPlan:
        """Read what `write` wrote."""
        return FabricPlan.from_json(json.loads(path.read_text()))
