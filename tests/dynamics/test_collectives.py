"""Collectives and incast against their closed forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamics.lab import FRAME_OVERHEAD, GBPS, HEADERS, STAR, byte_ps, packets, run
from traffic.collectives import payload_share

RATE = 100 * GBPS


def test_the_payload_share_is_mtu_over_wire_bytes() -> None:
    for mtu in (256, 1024, 4096):
        assert payload_share(mtu) == mtu / (mtu + HEADERS + FRAME_OVERHEAD)


def ring_ns(ranks: int, size: int, mtu: int, hops: list[int], delay: int) -> float:
    """2(n-1)/n S/B' and the latency of the slowest chunk's 2(n-1) transfers; hops[i] is links from rank i to i + 1."""
    share = mtu / (mtu + HEADERS + FRAME_OVERHEAD)
    transfer = 2 * (ranks - 1) / ranks * size * byte_ps(RATE) / 1000 / share
    last = packets(size // ranks, mtu)[-1] * byte_ps(RATE) / 1000

    def latency(rank: int) -> float:
        return hops[rank] * delay + (hops[rank] - 1) * last

    chains = [
        sum(latency((start + step) % ranks) for step in range(2 * (ranks - 1))) for start in range(ranks)
    ]
    return transfer + max(chains)


def test_a_ring_allreduce_of_eight_ranks_on_one_switch_takes_its_closed_form(tmp_path: Path) -> None:
    size, mtu = 8 * 128 * 1024, 4096
    outcome = run(tmp_path, topology=STAR.format(8), mtu=mtu, workload={"kind": "allreduce", "bytes": size})
    assert outcome.duration == pytest.approx(ring_ns(8, size, mtu, [2] * 8, 1000), rel=0.01)


def test_a_ring_allreduce_of_sixteen_ranks_on_a_fat_tree_takes_its_closed_form(tmp_path: Path) -> None:
    # Ranks in order never share a link in one direction: this fabric does not block for this pattern.
    size, mtu = 16 * 128 * 1024, 4096
    outcome = run(tmp_path, topology="fattree:k=4", mtu=mtu, workload={"kind": "allreduce", "bytes": size})
    hops = [2 if i % 2 == 0 else 4 if i % 4 == 1 else 6 for i in range(16)]
    assert outcome.duration == pytest.approx(ring_ns(16, size, mtu, hops, 1000), rel=0.01)


def test_fifteen_senders_share_one_link_equally(tmp_path: Path) -> None:
    size, mtu, senders = 200_000, 1024, 15
    outcome = run(
        tmp_path, topology=STAR.format(16), mtu=mtu, workload={"kind": "incast", "bytes": size}, ecn=False,
        sample="10us",
    )  # fmt: skip
    wire = sum(packets(size, mtu))
    ideal = senders * wire * byte_ps(RATE) / 1000
    ends = sorted(outcome.arrivals().values())
    assert len(ends) == senders
    # N S / B' and twice the cable; the receiver's link never idles.
    assert ends[-1] == pytest.approx(ideal + 2_000, rel=0.01)
    # Everybody has 1/15 of what was delivered at every moment, within one pause threshold's worth of bytes.
    threshold = outcome.plan.classes[3].xoff_bytes + outcome.plan.classes[3].headroom_bytes
    half = [r for r in outcome.of("flow") if ideal * 0.45 < r["t"] - outcome.begin < ideal * 0.55]
    acked = {r["node"]: r["acked"] for r in half}
    assert len(acked) == senders
    assert max(acked.values()) - min(acked.values()) <= threshold
    assert ends[0] > 0.8 * ends[-1]
    assert outcome.summary["drops_total"] == outcome.summary["retransmissions"] == 0


@pytest.fixture(scope="module")
def alltoall_ns(tmp_path_factory: pytest.TempPathFactory) -> dict[int, int]:
    """Duration of an all-to-all among 16 hosts on 4 leaves by oversubscription."""
    return {
        ratio: run(
            tmp_path_factory.mktemp(f"alltoall{ratio}"),
            topology=f"leafspine:leaves=4,spines=4,hosts_per_leaf=4,oversubscription={ratio}",
            mtu=4096, load_balancing="spray", workload={"kind": "alltoall", "bytes": 16 * 64 * 1024}, ecn=False,
        ).duration
        for ratio in (1, 2, 4)
    }  # fmt: skip


@pytest.mark.parametrize("ratio", [2, 4])
def test_an_alltoall_slows_down_by_the_share_of_traffic_that_leaves_the_leaf(
    alltoall_ns: dict[int, int], ratio: int
) -> None:
    hosts, per_leaf = 16, 4
    slowdown = max(1.0, ratio * (hosts - per_leaf) / (hosts - 1))  # 1.6 and 3.2
    assert alltoall_ns[ratio] / alltoall_ns[1] == pytest.approx(slowdown, rel=0.05)


def test_an_alltoall_on_a_full_fabric_takes_what_the_host_links_take(alltoall_ns: dict[int, int]) -> None:
    size = 16 * 64 * 1024
    wire = 15 * sum(packets(size // 16, 4096)) * byte_ps(RATE) / 1000
    assert alltoall_ns[1] == pytest.approx(wire, rel=0.1)
