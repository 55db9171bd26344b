"""DCQCN and HPCC in virtual time: fairness, queues, and that they keep PFC quiet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamics.lab import MS, STAR, US, Outcome, run
from traffic.collectives import payload_share


def shares(outcome: Outcome, after_ns: int) -> dict[str, float]:
    """Payload bit/s that each sender got from `after_ns` on to the last sample before any of them finished."""
    end = outcome.begin + min(outcome.arrivals().values(), default=10**18)
    first: dict[str, tuple[int, int]] = {}
    last: dict[str, tuple[int, int]] = {}
    for r in outcome.of("flow"):
        if outcome.begin + after_ns <= r["t"] < end:
            first.setdefault(r["node"], (r["t"], r["acked"]))
            last[r["node"]] = (r["t"], r["acked"])
    return {
        n: (last[n][1] - first[n][1]) * 8e9 / (last[n][0] - first[n][0])
        for n in first
        if last[n][0] > first[n][0]
    }


def jain(values: list[float]) -> float:
    """Jain's fairness index: 1 is equal, 1/n is one for all."""
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


def queue_bytes(outcome: Outcome, after_ns: int) -> list[int]:
    """Samples of the bottleneck's queue, 0 where it was empty."""
    target = len(outcome.plan.hosts)
    series = outcome.data.queues.get(("l1", target, 3), [])
    return [size for t, size in series if t >= outcome.begin + after_ns]


def converge(tmp_path: Path, algorithm: str, senders: int, **options: object) -> Outcome:
    """An incast on one switch that is still going on after 3 ms; 3 us links make the paper's round trip of 12 us."""
    settings = {"time_limit": "3ms", "delay": "3us", "mtu": 1024, **options}
    return run(
        tmp_path, topology=STAR.format(senders + 1), congestion_control=algorithm, sample="10us",
        workload={"kind": "incast", "bytes": 100_000_000}, **settings,
    )  # fmt: skip


@pytest.mark.parametrize("senders", [2, 4])
def test_dcqcn_shares_a_link_fairly_around_the_marking_threshold(tmp_path: Path, senders: int) -> None:
    outcome = converge(tmp_path, "dcqcn", senders)
    rates = shares(outcome, 1 * MS)
    assert len(rates) == senders
    assert jain(list(rates.values())) > 0.97
    assert sum(rates.values()) > 0.85 * 100e9 * payload_share(1024)
    queue = queue_bytes(outcome, 1 * MS)
    policy = outcome.plan.classes[3]
    assert policy.ecn_kmin_bytes < max(queue) < policy.ecn_kmax_bytes
    assert outcome.summary["drops"] == {}


@pytest.mark.parametrize("senders", [2, 4])
def test_hpcc_shares_a_link_fairly_with_hardly_a_queue(tmp_path: Path, senders: int) -> None:
    outcome = converge(tmp_path, "hpcc", senders, ecn=False)
    rates = shares(outcome, 1 * MS)
    assert len(rates) == senders
    assert jain(list(rates.values())) > 0.97
    # eta is 0.95: that share of the link, less what headers and telemetry (16 bytes, and 28 from the switch) take.
    assert sum(rates.values()) == pytest.approx(0.95 * 100e9 * payload_share(1024, 44), rel=0.03)
    queue = queue_bytes(outcome, 1 * MS)
    assert max(queue, default=0) <= (senders + 1) * (1024 + 82 + 44)
    assert not [pause for pause in outcome.data.pauses if pause.start > outcome.begin + 200 * US]
    assert outcome.summary["drops"] == {}


@pytest.mark.parametrize("senders", [4, 8, 32])
def test_hpcc_is_fair_with_the_additive_increase_of_the_papers_rule(tmp_path: Path, senders: int) -> None:
    """W_AI = W_init (1 - eta) / N (section 3.3); N flows have 14 / N packets of 4 KiB each, 32 flows less than one."""
    rule = (1 - 0.95) / senders
    outcome = converge(
        tmp_path,
        f"hpcc:rai_bps=0,rai_share={rule}",
        senders,
        ecn=False,
        delay="1us",
        mtu=4096,
        time_limit="4ms",
    )
    rates = shares(outcome, 2 * MS)
    assert len(rates) == senders
    assert jain(list(rates.values())) > 0.97
    assert sum(rates.values()) > 0.85 * 100e9


def test_the_queue_is_longest_without_congestion_control_and_shortest_under_hpcc(tmp_path: Path) -> None:
    longest = {
        algorithm: max(queue_bytes(converge(tmp_path, algorithm, 4, time_limit="1500us"), 500 * US))
        for algorithm in ("none", "dcqcn", "hpcc")
    }
    assert 3 * longest["hpcc"] < longest["dcqcn"] < longest["none"] / 2
