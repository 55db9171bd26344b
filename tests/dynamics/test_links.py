"""Links and hops in virtual time, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamics.lab import GBPS, HEADERS, IMMEDIATE, RETH, STAR, byte_ps, chain_ns, packets, run

DELAY = 1_000


@pytest.mark.parametrize("gbps", [8, 100, 400, 800])
def test_a_transfer_runs_at_line_rate_to_the_nanosecond(tmp_path: Path, gbps: int) -> None:
    size, mtu = 1_000_000, 4096
    outcome = run(
        tmp_path, topology=STAR.format(2), rate=f"{gbps}Gbps", mtu=mtu,
        workload={"kind": "incast", "senders": 1, "bytes": size},
    )  # fmt: skip
    sizes = packets(size, mtu)
    assert outcome.arrivals() == {0: chain_ns(sizes, [gbps * GBPS] * 2, DELAY)}
    # The same in closed form: every bit once over the first link, the longest packet once more, two cables; and
    # a nanosecond a hop for arrivals that are seen at whole ones.
    exact_ps = (sum(sizes) + max(sizes)) * byte_ps(gbps * GBPS) + 2 * DELAY * 1000
    assert exact_ps <= outcome.arrivals()[0] * 1000 < exact_ps + 2000


@pytest.mark.parametrize(("target", "switches"), [("h2", 1), ("h3", 3), ("h16", 5)])
@pytest.mark.parametrize("payload", [1, 1024])
def test_a_packet_is_stored_and_forwarded_by_one_three_or_five_switches(
    tmp_path: Path, target: str, switches: int, payload: int
) -> None:
    outcome = run(
        tmp_path, topology="fattree:k=4", rate="8Gbps", delay="300ns",
        workload={"kind": "incast", "senders": 1, "target": target, "bytes": payload},
    )  # fmt: skip
    padded = payload + -payload % 4
    wire = max(padded + HEADERS + RETH + IMMEDIATE, 60) + 24
    # At 8 Gb/s a byte takes a nanosecond: nothing is rounded.
    assert outcome.arrivals() == {0: (switches + 1) * (wire + 300)}


def test_a_slower_link_on_the_way_sets_the_rate(tmp_path: Path) -> None:
    size, mtu = 400_000, 1024
    outcome = run(
        tmp_path, topology="leafspine:leaves=2,spines=1,hosts_per_leaf=1,oversubscription=4", rate="80Gbps", mtu=mtu,
        workload={"kind": "incast", "senders": 1, "target": "h2", "bytes": size}, pfc=False, ecn=False,
        classes={3: {"queue_limit_bytes": 1_000_000}},
    )  # fmt: skip
    fast, slow = 80 * GBPS, 20 * GBPS
    assert outcome.arrivals() == {0: chain_ns(packets(size, mtu), [fast, slow, slow, fast], DELAY)}


def test_a_degraded_link_carries_what_its_new_rate_allows(tmp_path: Path) -> None:
    size, mtu, at = 1_000_000, 1024, 20_000
    outcome = run(
        tmp_path, topology=STAR.format(2), rate="80Gbps", delay="0ns", mtu=mtu, pfc=False, ecn=False,
        classes={3: {"queue_limit_bytes": 2_000_000}},
        workload={"kind": "incast", "senders": 1, "target": "h2", "bytes": size},
        actions=[{"at": f"{at}ns", "set_rate": {"switch": "l1", "towards": "h2", "rate": "8Gbps"}}],
    )  # fmt: skip
    sizes = packets(size, mtu)
    free, there = 0, 0
    for wire in sizes:  # ps; the frame under way at the change keeps the old rate
        there += wire * 100
        start = max(free, -(-there // 1000) * 1000)
        free = start + wire * (100 if start < at * 1000 else 1000)
    assert outcome.arrivals() == {0: -(-free // 1000)}
