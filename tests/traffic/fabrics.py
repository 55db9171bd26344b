"""Small plans and in-memory links that the traffic tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from topologies.plan import ClassPolicy, FabricPlan, HostPlan, IntPolicy
from traffic.build import TrafficOptions, build_hosts
from traffic.collectives import permutation
from traffic.nic.nic import Nic
from traffic.nic.requester import Requester
from traffic.nic.responder import Responder

GBPS = 10**9


def pair_plan(
    *,
    rate_bps: int = 100 * GBPS,
    delay_ns: int = 1_000,
    mtu: int = 1024,
    time_scale: float = 1.0,
    telemetry: str = "off",
    lossless: bool = True,
) -> FabricPlan:
    """Two hosts, h0 and h1, back to back."""
    hosts = tuple(
        HostPlan(
            name=f"h{i}",
            rank=i,
            mac=f"02:00:00:00:00:0{i}",
            ipv4=f"10.0.0.{i + 1}",
            switch="none",
            switch_port=i + 1,
            gateway_mac=f"02:00:00:00:00:0{1 - i}",
            rate_bps=rate_bps,
            delay_ns=delay_ns,
        )
        for i in range(2)
    )
    return FabricPlan(
        "pair",
        (),
        hosts,
        {3: ClassPolicy(lossless)},
        telemetry=IntPolicy(mode=telemetry),  # type: ignore[arg-type]
        time_scale=time_scale,
        mtu=mtu,
    )


Meddle = Callable[[str, bytes, int], "Sequence[tuple[int, bytes]]"]
"""(sender, frame, now) -> what arrives instead: (extra delay in ns, frame), none for a loss."""


class Wire:
    """Carries frames between two nodes at the times that they say; a meddler may lose, delay or change them."""

    def __init__(self, a: Any, b: Any, meddle: Meddle | None = None) -> None:
        self.nodes = {"a": a, "b": b}
        self.meddle = meddle
        self.late: list[tuple[int, int, str, bytes]] = []
        self.log: list[tuple[int, str, bytes]] = []
        """(arrival, sender, frame) of everything handed out."""
        self.now = 0
        self._sequence = 0

    def run(
        self, until: int | None = None, stop: Callable[[], bool] | None = None, limit: int = 10**6
    ) -> int:
        """Until nothing is pending, `stop()` is true or the next event lies after `until`; returns the time.

        AssertionError after `limit` steps: a machine that never comes to rest is a hang.
        """
        for _ in range(limit):
            if stop is not None and stop():
                return self.now
            times = [t for node in self.nodes.values() if (t := node.next_deadline()) is not None]
            if self.late:
                times.append(min(self.late)[0])
            if not times or (until is not None and min(times) > until):
                if until is not None:
                    self.now = max(self.now, until)
                return self.now
            self.now = max(self.now, min(times))
            for item in sorted(i for i in self.late if i[0] <= self.now):
                self.late.remove(item)
                self._other(item[2]).rx(0, item[3], self.now)
            for name, node in self.nodes.items():
                for _, frame in node.poll(self.now):
                    self.log.append((self.now, name, frame))
                    for delay, changed in (
                        self.meddle(name, frame, self.now) if self.meddle is not None else [(0, frame)]
                    ):
                        if delay:
                            self._sequence += 1
                            self.late.append((self.now + delay, self._sequence, name, changed))
                        else:
                            self._other(name).rx(0, changed, self.now)
        raise AssertionError(f"still busy after {limit} steps")

    def _other(self, name: str) -> Any:
        return self.nodes["b" if name == "a" else "a"]


def drops(nic: Nic) -> dict[str, int]:
    """Packets by reason."""
    found: dict[str, int] = {}
    for (_, reason), (packets, _) in nic.drops.items():
        found[reason] = found.get(reason, 0) + packets
    return found


class NicPair:
    """Two NICs back to back with one queue pair, and what they report."""

    QPN = 0x11

    def __init__(self, plan: FabricPlan | None = None, meddle: Meddle | None = None, **changes: Any) -> None:
        """`changes` replace fields of both NIC configurations; `a_` and `b_` prefixes pick one side."""
        plan = plan or pair_plan()
        endpoints = build_hosts(
            plan, permutation(["h0", "h1"], 1, shift=1), changes.pop("options", TrafficOptions())
        )
        self.records: list[dict[str, Any]] = []
        self.sent: list[tuple[int, int]] = []
        """(id, time) of acknowledged messages of a."""
        self.received: list[tuple[int | None, int, int]] = []
        """(immediate, bytes, time) of messages that b got."""
        self.failed: list[tuple[int, str, int]] = []
        nics = []
        for side, endpoint in zip("ab", endpoints, strict=True):
            own = {k: v for k, v in changes.items() if k[:2] not in ("a_", "b_")}
            own |= {k[2:]: v for k, v in changes.items() if k.startswith(f"{side}_")}
            pair = own.pop("pair", {})
            pairs = tuple(replace(q, **pair) for q in endpoint.nic.queue_pairs)
            nics.append(replace(endpoint.nic, **{"queue_pairs": pairs, **own}))
        self.a = Nic(
            nics[0],
            record=self._record,
            on_sent=lambda qpn, work, now: self.sent.append((work.id, now)),
            on_failed=lambda qpn, work, reason, now: self.failed.append((work.id, reason, now)),
        )
        self.b = Nic(
            nics[1],
            record=self._record,
            on_received=lambda qpn, imm, size, now: self.received.append((imm, size, now)),
        )
        self.wire = Wire(self.a, self.b, meddle)

    def _record(self, kind: str, t: int, **fields: Any) -> None:
        self.records.append({"kind": kind, "t": t, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Records of a kind."""
        return [record for record in self.records if record["kind"] == kind]

    @property
    def requester(self) -> Requester:
        """The sending half at a."""
        return self.a.queue_pairs[self.QPN].requester

    @property
    def responder(self) -> Responder:
        """The receiving half at b."""
        return self.b.queue_pairs[self.QPN].responder

    def data(self) -> list[tuple[int, int, int]]:
        """(arrival, PSN, opcode) of the data packets that a sent."""
        return [
            (t, int.from_bytes(f[51:54], "big"), f[42])
            for t, who, f in self.wire.log
            if who == "a" and f[12:14] == b"\x08\x00" and f[42] < 0x0C
        ]
