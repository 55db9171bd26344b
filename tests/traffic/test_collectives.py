"""Collectives as graphs of messages: counts, bytes and dependencies against their closed forms."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.collectives import (
    COLLECTIVES,
    Message,
    Workload,
    all_gather,
    allreduce,
    alltoall,
    bandwidths,
    broadcast,
    ideal_ns,
    incast,
    make,
    payload_share,
    permutation,
    reduce_scatter,
)
from traffic.errors import TrafficError

GBPS = 10**9


def names(n: int) -> list[str]:
    return [f"h{i}" for i in range(n)]


def sent_by(workload: Workload) -> Counter[str]:
    found: Counter[str] = Counter()
    for message in workload.messages:
        found[message.src] += message.bytes
    return found


def received_by(workload: Workload) -> Counter[str]:
    found: Counter[str] = Counter()
    for message in workload.messages:
        found[message.dst] += message.bytes
    return found


def depth(workload: Workload) -> int:
    """Messages on the longest chain."""
    level: dict[int, int] = {}
    for message in workload.messages:  # builders number messages so that dependencies come first
        level[message.id] = 1 + max((level[i] for i in message.after), default=0)
    return max(level.values())


@pytest.mark.parametrize("n", [2, 3, 4, 8, 16])
def test_a_ring_allreduce_has_two_n_minus_one_steps_of_a_share_each(n: int) -> None:
    size = n * 1000
    workload = allreduce(names(n), size)
    assert len(workload.messages) == n * 2 * (n - 1)
    assert {m.bytes for m in workload.messages} == {1000}
    assert set(sent_by(workload).values()) == set(received_by(workload).values()) == {2 * (n - 1) * 1000}
    assert depth(workload) == workload.steps == 2 * (n - 1)
    assert workload.busbw_factor == pytest.approx(2 * (n - 1) / n)
    assert all(m.dst == f"h{(int(m.src[1:]) + 1) % n}" for m in workload.messages)


@pytest.mark.parametrize("build", [reduce_scatter, all_gather])
@pytest.mark.parametrize("n", [2, 5, 16])
def test_half_an_allreduce_has_n_minus_one_steps(build, n: int) -> None:  # type: ignore[no-untyped-def]
    workload = build(names(n), n * 1000)
    assert len(workload.messages) == n * (n - 1)
    assert set(sent_by(workload).values()) == {(n - 1) * 1000}
    assert depth(workload) == n - 1
    assert workload.busbw_factor == pytest.approx((n - 1) / n)


def test_in_a_ring_allreduce_every_rank_ends_with_every_contribution() -> None:
    """Carry the sums along: chunk c at rank r holds a set of contributions; the last n-1 steps spread full ones."""
    n = 6
    workload = allreduce(names(n), n * 10)
    held = [[{rank} for _ in range(n)] for rank in range(n)]
    arrived: dict[int, int] = {}
    for index, message in enumerate(workload.messages):
        step, rank = divmod(index, n)
        chunk = (rank - step) % n
        source, goal = int(message.src[1:]), int(message.dst[1:])
        assert source == rank
        if message.after:
            assert arrived[message.after[0]] == chunk
        arrived[message.id] = chunk
        if step < n - 1:
            held[goal][chunk] |= held[source][chunk]
        else:
            assert held[source][chunk] == set(range(n))
            held[goal][chunk] = set(held[source][chunk])
    assert all(chunk == set(range(n)) for rank in held for chunk in rank)


@given(n=st.integers(2, 9), size=st.integers(1, 500), channels=st.integers(1, 3))
def test_sizes_that_do_not_divide_lose_no_byte(n: int, size: int, channels: int) -> None:
    ranks = names(n)
    assert sum(m.bytes for m in allreduce(ranks, size, channels=channels).messages) == 2 * (n - 1) * size
    assert sum(m.bytes for m in all_gather(ranks, size, channels=channels).messages) == (n - 1) * size
    assert all(v == size for v in received_by(broadcast(ranks, size, channels=channels)).values())
    assert sum(m.bytes for m in incast(ranks, size, channels=channels).messages) == (n - 1) * size
    assert all(v == size for v in sent_by(permutation(ranks, size, channels=channels)).values())


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("n", [2, 3, 16])
def test_alltoall_sends_a_share_from_everyone_to_everyone(n: int, ordered: bool) -> None:
    workload = alltoall(names(n), n * 100, ordered=ordered)
    pairs = Counter((m.src, m.dst) for m in workload.messages)
    assert set(pairs.values()) == {1} and len(pairs) == n * (n - 1)
    assert {m.bytes for m in workload.messages} == {100}
    assert depth(workload) == workload.steps == (n - 1 if ordered else 1)
    for step in range(n - 1):  # every step is a permutation: nobody is sent to twice
        goals = [m.dst for m in workload.messages[step * n : (step + 1) * n]]
        assert len(set(goals)) == n


def test_a_broadcast_tree_reaches_everyone_once_over_log_levels() -> None:
    workload = broadcast(names(16), 1000)
    assert received_by(workload) == Counter({f"h{i}": 1000 for i in range(1, 16)})
    assert depth(workload) == workload.steps == 4
    assert max(sent_by(workload).values()) == 2000
    sliced = broadcast(names(16), 1000, slices=4)
    assert sum(m.bytes for m in sliced.messages) == 15_000 and depth(sliced) == 4


def test_incast_goes_to_one() -> None:
    workload = incast(names(16), 2_000_000)
    assert {m.dst for m in workload.messages} == {"h15"}
    assert len(workload.messages) == 15
    assert ideal_ns(workload, 100 * GBPS) == 15 * 160_000  # facts: 15 senders of 2 MB at 100G, 2,400 us
    few = incast(names(16), 1, senders=3, target="h0")
    assert [m.src for m in few.messages] == ["h1", "h2", "h3"]


@given(n=st.integers(2, 40), seed=st.integers(0, 99))
def test_a_permutation_has_no_fixed_point(n: int, seed: int) -> None:
    workload = permutation(names(n), 5, seed=seed)
    assert len({m.dst for m in workload.messages}) == len({m.src for m in workload.messages}) == n
    assert all(m.src != m.dst for m in workload.messages)


def test_a_permutation_is_the_seed_s() -> None:
    assert permutation(names(16), 5, seed=3) == permutation(names(16), 5, seed=3)
    assert permutation(names(16), 5, seed=3) != permutation(names(16), 5, seed=4)


@pytest.mark.parametrize(
    ("n", "factor", "algbw_share"),
    [(2, 1.0, 1.0), (4, 1.5, 0.6667), (8, 1.75, 0.5714), (16, 1.875, 0.5333), (32, 1.9375, 0.5161)],
)
def test_the_ideal_allreduce_has_the_bandwidths_of_nccl_tests(
    n: int, factor: float, algbw_share: float
) -> None:
    size = n << 20
    workload = allreduce(names(n), size)
    time = ideal_ns(workload, 100 * GBPS)
    assert time == pytest.approx(2 * (n - 1) / n * size * 8 / 100)
    algbw, busbw = bandwidths(workload, time)
    assert workload.busbw_factor == factor
    assert algbw / 12.5 == pytest.approx(algbw_share, abs=1e-4)
    assert busbw == pytest.approx(12.5)


def test_latency_is_paid_once_a_step() -> None:
    workload = allreduce(names(4), 4000)
    assert ideal_ns(workload, GBPS, 7.0) - ideal_ns(workload, GBPS) == pytest.approx(6 * 7.0)


def test_payload_share_counts_headers_preamble_and_gap() -> None:
    assert payload_share(1024) == 1024 / (1024 + 14 + 20 + 8 + 12 + 4 + 24)
    assert payload_share(4096, extra_bytes=16) == 4096 / (4096 + 58 + 16 + 24)


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([Message(0, "h0", "h9", 1)], "host 'h9' is not one of its ranks"),
        ([Message(0, "h0", "h0", 1)], "source and destination are both h0"),
        ([Message(0, "h0", "h1", 0)], "at least 1 is needed"),
        ([Message(0, "h0", "h1", 1), Message(0, "h0", "h1", 1)], "the id is used twice"),
        ([Message(-1, "h0", "h1", 1)], "32-bit"),
        ([Message(0, "h0", "h1", 1, traffic_class=8)], "class 8 is not 0 to 7"),
        ([Message(0, "h0", "h1", 1, after=(5,))], "waits for 5, which does not exist"),
        (
            [Message(0, "h0", "h1", 1), Message(1, "h2", "h0", 1, after=(0,))],
            "h2 cannot know of message 0",
        ),
        (
            [Message(0, "h0", "h1", 1, after=(1,)), Message(1, "h1", "h0", 1, after=(0,))],
            "wait for each other in a cycle",
        ),
    ],
)
def test_a_workload_that_cannot_run_says_why(messages: list[Message], complaint: str) -> None:
    with pytest.raises(TrafficError, match=complaint):
        Workload("test", ("h0", "h1", "h2"), tuple(messages))


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("allreduces", {}, "unknown; there is allreduce, reducescatter"),
        ("allreduce", {"chanels": 2}, "no option 'chanels'; there is channels, traffic_class"),
        ("allreduce", {"channels": "2"}, "channels must be of type int"),
        ("incast", {"target": "h99"}, "target 'h99' is not one of the ranks"),
        ("incast", {"senders": 99}, "99 senders asked for, 3 ranks can send"),
        ("permutation", {"shift": 4}, "sends every one of 4 ranks to itself"),
    ],
)
def test_a_wrong_workload_option_is_explained(name: str, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(TrafficError, match=complaint):
        make(name, names(4), 100, options)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_too_small_a_collective_is_refused(name: str) -> None:
    with pytest.raises(TrafficError, match="at least 2 are needed"):
        make(name, ["h0"], 10)
    with pytest.raises(TrafficError, match="at least 1 is needed"):
        make(name, names(4), 0)
    with pytest.raises(TrafficError, match="channels"):
        make(name, names(4), 10, {"channels": 0})
