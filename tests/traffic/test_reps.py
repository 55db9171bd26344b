"""REPS against the algorithms of its paper (arXiv 2407.21625), and what they lead to on paths of unequal capacity."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.nic.config import ENTROPIES, FIRST_ENTROPY, RepsConfig
from traffic.nic.reps import Reps

GOOD = range(1, 1000)
"""Ports that no exploration yields."""


def make(seed: int = 1, **config: int) -> Reps:
    reps = RepsConfig(**config)
    return Reps(reps, freezing_ns=reps.freezing_ns, seed=seed)


@dataclass
class Paper:
    """Algorithms 1 and 2 line by line, with the valid bits that the product does without. None: explore."""

    size: int
    bdp: int
    timeout: int
    cached: list[int] = field(default_factory=list)
    is_valid: list[bool] = field(default_factory=list)
    head: int = 0
    valid_evs: int = 0
    explore: int = 0
    freezing: bool = False
    exit_freezing: int = 0

    def on_ack(self, ev: int, ecn: bool, now: int) -> None:
        if ecn:
            return
        if not self.cached:
            self.cached, self.is_valid = [ev] * self.size, [False] * self.size
        if not self.is_valid[self.head]:
            self.valid_evs += 1
        self.cached[self.head] = ev
        self.is_valid[self.head] = True
        self.head = (self.head + 1) % self.size
        if self.freezing and now > self.exit_freezing:
            self.freezing = False
            self.explore = self.bdp

    def on_failure(self, now: int) -> None:
        if not self.freezing and self.explore == 0:
            self.freezing = True
            self.exit_freezing = now + self.timeout

    def on_send(self) -> int | None:
        if not self.cached or (self.valid_evs == 0 and not self.freezing) or self.explore > 0:
            self.explore = max(self.explore - 1, 0)
            return None
        if self.valid_evs > 0:
            offset = (self.head - self.valid_evs) % self.size
            self.is_valid[offset] = False
            self.valid_evs -= 1
        else:
            offset = self.head
            self.head = (self.head + 1) % self.size
        return self.cached[offset]


STEPS = st.lists(
    st.one_of(
        st.just(("send", 0)),
        st.just(("send", 0)),
        st.tuples(st.just("ack"), st.sampled_from(GOOD)),
        st.tuples(st.just("marked"), st.sampled_from(GOOD)),
        st.tuples(st.just("loss"), st.just(0)),
    ),
    max_size=120,
)


@given(STEPS, st.integers(1, 9), st.integers(1, 5), st.integers(1, 30))
def test_it_sends_what_the_papers_algorithms_send(
    steps: list[tuple[str, int]], size: int, bdp: int, timeout: int
) -> None:
    ours = make(buffer=size, explore_packets=bdp, freezing_ns=timeout)
    paper = Paper(size, bdp, timeout)
    for now, (step, ev) in enumerate(steps):
        if step == "send":
            chosen, expected = ours.next_entropy(), paper.on_send()
            assert (None if chosen >= FIRST_ENTROPY else chosen) == expected
        elif step == "loss":
            ours.on_failure(now)
            paper.on_failure(now)
        else:
            ours.on_ack(ev, step == "marked", now)
            paper.on_ack(ev, step == "marked", now)
        assert ours.frozen == paper.freezing


def test_exploration_draws_every_entropy_as_often_as_any_other() -> None:
    reps = make(entropies=64)
    count = Counter(reps.next_entropy() for _ in range(64_000))
    assert count.keys() == set(range(FIRST_ENTROPY, FIRST_ENTROPY + 64))
    chi = sum((n - 1000) ** 2 / 1000 for n in count.values())
    assert chi < 104  # 63 degrees of freedom: exceeded with a chance of 0.001


def test_two_flows_explore_differently_and_within_the_dynamic_ports() -> None:
    flows = [make(seed=seed) for seed in (0xC000_01_C001, 0xC000_02_C001)]
    drawn = [[flow.next_entropy() for _ in range(2_000)] for flow in flows]
    assert sum(x == y for x, y in zip(*drawn, strict=True)) < 10  # 0.12 expected
    assert all(FIRST_ENTROPY <= port < FIRST_ENTROPY + ENTROPIES for port in drawn[0] + drawn[1])


def test_a_frozen_sender_uses_its_last_good_entropies_over_and_over() -> None:
    reps = make(buffer=3)
    for ev in (1, 2, 3, 4):
        reps.on_ack(ev, False, 0)
    reps.on_failure(10)
    assert [reps.next_entropy() for _ in range(9)] == [2, 3, 4] * 3
    assert (reps.frozen, reps.freezes) == (True, 1)


def test_a_sender_that_freezes_after_one_ack_keeps_to_it() -> None:
    reps = make()
    reps.on_ack(77, False, 0)
    reps.on_failure(1)
    assert {reps.next_entropy() for _ in range(20)} == {77}


def test_freezing_ends_with_the_first_good_ack_after_its_time_and_a_round_of_exploration() -> None:
    reps = make(freezing_ns=100, explore_packets=3)
    reps.on_ack(7, False, 0)
    reps.on_failure(50)
    reps.on_ack(8, False, 150)
    assert reps.frozen
    reps.on_ack(9, True, 151)
    assert reps.frozen
    reps.on_ack(10, False, 151)
    assert not reps.frozen
    assert [reps.next_entropy() >= FIRST_ENTROPY for _ in range(4)] == [True, True, True, False]
    reps.on_failure(160)
    assert reps.frozen, "exploration is over: the next loss freezes again"


def test_without_a_freezing_time_a_loss_changes_nothing() -> None:
    reps = make(freezing_ns=0)
    reps.on_failure(1)
    assert not reps.frozen and reps.next_entropy() >= FIRST_ENTROPY


# -- one switch, several flows: the paper's recycled balls into bins, with bins of unequal capacity

WINDOW = 22
FLOWS = 12
DELAY = 40
PATHS = 8
MARKED_ABOVE = 9
"""At least 4 ln(paths), theorem 1 of the paper."""


def rates(capacities: list[float], rounds: int, seed: int) -> tuple[list[float], int]:
    """(packets a round on each path, marks) in the last quarter of a run.

    A path serves `capacity` packets a round and marks what finds more than `MARKED_ABOVE` waiting. A packet's answer
    comes `DELAY` rounds after it was served, and is what lets the next one go: each flow has `WINDOW` on the way.
    """
    rng = random.Random(seed)
    flows = [make(seed=rng.getrandbits(48)) for _ in range(FLOWS)]
    allowed = [WINDOW] * FLOWS
    queues: list[deque[tuple[int, int, bool]]] = [deque() for _ in capacities]
    credit = [0.0] * len(capacities)
    answers: deque[tuple[int, int, int, bool]] = deque()
    sent, marks = [0] * len(capacities), 0
    for now in range(rounds):
        while answers and answers[0][0] <= now:
            _, flow, entropy, ce = answers.popleft()
            flows[flow].on_ack(entropy, ce, now)
            allowed[flow] += 1
        for flow in rng.sample(range(FLOWS), FLOWS):
            if allowed[flow]:
                allowed[flow] -= 1
                entropy = flows[flow].next_entropy()
                path = (entropy * 2_654_435_761 ^ flow * 40_503) % (2**32) * len(capacities) >> 32
                ce = len(queues[path]) > MARKED_ABOVE
                queues[path].append((flow, entropy, ce))
                if now >= rounds * 3 // 4:
                    sent[path] += 1
                    marks += ce
        for path, capacity in enumerate(capacities):
            credit[path] = min(credit[path] + capacity, capacity + 1)
            while queues[path] and credit[path] >= 1:
                credit[path] -= 1
                answers.append((now + DELAY, *queues[path].popleft()))
    return [n / (rounds / 4) for n in sent], marks


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slow", [0.1, 0.25, 0.5])
def test_flows_settle_on_paths_of_unequal_capacity_without_a_mark(slow: float, seed: int) -> None:
    """All paths together carry what is offered: then whoever has found room keeps it, and nobody explores any more.

    A uniform hash would offer the slow path an eighth of the packets, more than it carries.
    """
    capacities = [1.0] * (PATHS - 1) + [slow]
    offered = FLOWS * WINDOW / DELAY
    assert 0.85 * sum(capacities) < offered < sum(capacities) and offered / PATHS > 1.5 * slow
    found, marks = rates(capacities, rounds=8_000, seed=seed)
    assert marks == 0
    assert all(rate <= capacity + 0.01 for rate, capacity in zip(found, capacities, strict=True))
    assert sum(found) > 0.9 * offered
