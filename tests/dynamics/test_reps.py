"""REPS on a fat tree: what it makes of a slow link and of a dead one, beside spraying in the switches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dynamics.lab import GBPS, Outcome, byte_ps, packets, run
from traffic.build import base_rtt_ns

MESSAGE = 2_000_000
MTU = 4096
WIRE_NS = sum(packets(MESSAGE, MTU)) * byte_ps(100 * GBPS) / 1000
ACROSS_PODS = {"kind": "permutation", "shift": 4, "bytes": MESSAGE}
SLOW = [{"at": "0ns", "set_rate": {"switch": "c1", "towards": "a1", "rate": "10Gbps"}}]
DEAD = [{"at": "60us", "link_down": {"switch": "c1", "towards": "a1"}}]
CORES = (("a1", "c1"), ("a1", "c2"), ("a2", "c3"), ("a2", "c4"))


def permute(tmp_path: Path, balancing: str, **options: Any) -> Outcome:
    return run(
        tmp_path, topology="fattree:k=4", mtu=MTU, load_balancing=balancing, workload=ACROSS_PODS, ecn_preset="uec",
        **options,
    )  # fmt: skip


def uplink_bytes(outcome: Outcome) -> list[int]:
    """What left the first pod over each of its four links to the core; the slow or dead one is the first."""
    sent = []
    for aggregation, core in CORES:
        port = next(p.number for p in outcome.plan.switch(aggregation).ports if p.peer == core)
        sent.append([r for r in outcome.of("port") if (r["node"], r["port"]) == (aggregation, port)][-1])
    return [record["tx_bytes"] for record in sent]


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("slow")
    return {
        "spray": permute(folder, "spray", ecn=False, actions=SLOW),
        "reps": permute(folder, "reps", congestion_control="mprdma", actions=SLOW),
    }


def test_reps_takes_most_of_the_packets_off_a_slow_link(slow: dict[str, Outcome]) -> None:
    share = {name: uplink_bytes(o)[0] / sum(uplink_bytes(o)) for name, o in slow.items()}
    assert share["spray"] == pytest.approx(1 / 4, abs=0.01)
    assert share["reps"] < 0.25 * share["spray"]


def test_a_slow_link_carries_what_explored_it_first_and_then_its_share_of_the_capacity(
    slow: dict[str, Outcome],
) -> None:
    """A quarter of every flow's first window meets the slow link; what follows leaves it 10 of 310 Gb/s, or less."""
    window = 1.5 * base_rtt_ns(slow["reps"].plan) * 100 / 8
    explored = 4 * window / 4
    later = (4 * MESSAGE - 4 * window) * 10 / 310
    assert explored < uplink_bytes(slow["reps"])[0] < 1.15 * (explored + later)


def test_reps_does_not_wait_for_the_slow_link_as_spraying_does(slow: dict[str, Outcome]) -> None:
    assert slow["spray"].duration > 8 * WIRE_NS
    assert slow["reps"].duration < 2.2 * WIRE_NS
    assert slow["reps"].summary["drops_total"] == 0


def test_on_a_full_fabric_marks_come_before_pauses(tmp_path: Path) -> None:
    outcome = permute(tmp_path, "reps", congestion_control="mprdma")
    assert outcome.summary["pauses"] == 0 and outcome.summary["drops_total"] == 0
    assert outcome.summary["ecn_marked_packets"] > 0
    assert outcome.duration < 1.2 * WIRE_NS
    sent = uplink_bytes(outcome)
    assert max(sent) < 1.15 * min(sent)


def test_freezing_keeps_packets_from_a_dead_link(tmp_path: Path) -> None:
    frozen = permute(tmp_path, "reps", congestion_control="mprdma", actions=DEAD)
    exploring = permute(tmp_path, "reps:freezing=0", congestion_control="mprdma", actions=DEAD)
    assert frozen.summary["finished"] and exploring.summary["finished"]
    assert frozen.summary["drops"].keys() == exploring.summary["drops"].keys() == {"port_down"}
    assert 2 * frozen.summary["drops_total"] < exploring.summary["drops_total"]
    assert 2 * frozen.duration < exploring.duration
