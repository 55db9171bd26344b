"""The smallest PFC deadlock: three switches in a ring, every flow two hops clockwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dynamics.lab import US, Outcome, run
from xoff.waitfor import cycle_at

RING: dict[str, Any] = {
    "topology": "ring:n=3,routes=clockwise",
    "ecn": False,
    "classes": {3: {"xoff_bytes": 40960, "xon_bytes": 4096}},
}
CLOCKWISE = 2
"""The port that leads round."""
PACKETS = 10**7
"""Data packets through the ring whose wrap link has another class."""


def freeze(tmp_path: Path, **options: Any) -> Outcome:
    settings = {"workload": "permutation:shift=2,bytes=20MB", "time_limit": "1500us", **RING, **options}
    return run(tmp_path, **settings)


def frozen_from(outcome: Outcome) -> int:
    """When the last of the three ring queues was paused for good, ns since the traffic began."""
    last = [
        pause.start for pause in outcome.data.pauses
        if pause.node.startswith("s") and pause.port == CLOCKWISE and pause.end >= outcome.data.end
    ]  # fmt: skip
    assert len(last) == 3, "the ring is not frozen"
    return max(last) - outcome.begin


def delivered(outcome: Outcome) -> dict[str, int]:
    """Payload bytes acknowledged, by sender, at the end."""
    return {r["node"]: r["acked"] for r in outcome.of("flow")}


def test_the_ring_freezes_at_the_same_nanosecond_every_time(tmp_path: Path) -> None:
    first, second = freeze(tmp_path), freeze(tmp_path)
    assert frozen_from(first) == frozen_from(second)
    assert first.summary["records_sha256"] == second.summary["records_sha256"]
    cycle = cycle_at(first.data, first.data.end)
    assert {node for node, _, _ in cycle} == {"s1", "s2", "s3"}
    assert all(port == CLOCKWISE and cls == 3 for _, port, cls in cycle)


def test_the_freeze_survives_the_senders_and_nothing_is_lost(tmp_path: Path) -> None:
    short = freeze(tmp_path, stop_after="600us", time_limit="1000us")
    long = freeze(tmp_path, stop_after="600us", time_limit="5000us")
    assert frozen_from(long) == frozen_from(short) < 600 * US
    # Between 1 ms and 5 ms, with nobody sending, not one more packet has come through.
    assert delivered(long) == delivered(short)
    assert short.summary["drops"] == long.summary["drops"] == {}
    assert long.data.pauses and not long.summary["finished"]
    # Every packet that came from a host and has not left to one is in a queue, by two counts that know nothing of
    # each other: the program's counters and the traffic manager's queues.
    to_hosts = [(s.name, p.number) for s in long.plan.switches for p in s.ports if p.kind == "host"]

    def counted(name: str) -> int:
        return sum(long.data.counters[node, name, port, 3]["packets"] for node, port in to_hosts)

    queued = sum(r["packets"] for r in long.of("queue") if r["t"] == long.data.end and r["class"] == 3)
    assert counted("rx") - counted("tx") == queued > 100
    assert long.summary["retransmissions"] == 0


@pytest.mark.timeout(1_200)
def test_with_the_wrap_link_on_another_class_the_ring_never_freezes(tmp_path: Path) -> None:
    size = PACKETS // 3 * 1024
    outcome = freeze(
        tmp_path, workload={"kind": "permutation", "shift": 2, "bytes": size}, time_limit="100s",
        classes={3: RING["classes"][3], 4: {**RING["classes"][3], "lossless": True, "headroom_bytes": 81920}},
        control_latency="0ns",
        actions=[{"at": "0ns", "set_class_map": {"switch": "s3", "towards": "s1", "from": 3, "to": 4}}],
    )  # fmt: skip
    assert outcome.summary["finished"]
    assert outcome.summary["drops"] == {}
    assert outcome.summary["pauses"] > 100  # it was not for want of pauses
    # The three flows share three links, two on each: no link idles for long.
    assert outcome.duration < 1.6 * 2 * size * 8 / 100


def test_shortest_routes_never_freeze(tmp_path: Path) -> None:
    outcome = freeze(
        tmp_path,
        topology="ring:n=3,routes=shortest",
        workload="permutation:shift=2,bytes=2MB",
        time_limit="1s",
    )
    assert outcome.summary["finished"] and outcome.summary["drops"] == {}
