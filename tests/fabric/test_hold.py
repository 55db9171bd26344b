"""The program's own hold, on a traffic manager that cannot pause: order, and no standstill when packets vanish.

The engine pauses the register that P4Info annotates; without the annotation it is a target like BMv2.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.fabric import frames as f
from tests.fabric.native import Built, NativeSwitch, frames_of
from tests.fabric.plans import LOSSLESS, star
from tests.fabric.traffic import data, delivered, psn
from topologies.plan import FabricPlan

SLOT_NS = (500 + 24) * 8
DEEP = star(classes={3: replace(LOSSLESS, xoff_bytes=200_000, headroom_bytes=200_000)})


@pytest.fixture(scope="module")
def cannot_pause(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """fabric.p4 without the annotations that a traffic manager obeys."""
    text = built.p4info.read_text()
    lines = [line for line in text.splitlines() if "@xoff_" not in line]
    assert len(lines) == len(text.splitlines()) - 2
    path = tmp_path_factory.mktemp("hold") / "fabric.p4info.txtpb"
    path.write_text("\n".join(lines) + "\n")
    return Built(built.json, path)


@pytest.fixture
def holding(cannot_pause: Built) -> Iterator[Callable[[FabricPlan], NativeSwitch]]:
    """Makes switches that must hold paused packets themselves."""
    made: list[NativeSwitch] = []

    def make(plan: FabricPlan = DEEP) -> NativeSwitch:
        made.append(NativeSwitch(cannot_pause, plan))
        return made[-1]

    yield make
    for each in made:
        each.close()


Make = Callable[..., NativeSwitch]


def arrived(s: NativeSwitch) -> list[int]:
    return [psn(frame) for frame in frames_of(s.take(2))]


def pause(s: NativeSwitch, quanta: int = 0xFFFF) -> None:
    s.send(2, f.pfc({3: quanta}))


def test_held_packets_leave_unchanged_in_order_after_the_resume(holding: Make) -> None:
    s = holding()
    pause(s)
    for index in range(60):
        s.send(1, data(1, 2, psn=index))
    s.run(2_000_000)
    assert s.take(2) == []
    assert s.count("holds", 2, 3) > 400  # 2 ms of turns at one slot each
    pause(s, 0)
    s.run(s.now + 2 * 60 * SLOT_NS + SLOT_NS)  # at most one full turn before the first one comes up
    assert frames_of(s.take(2)) == [delivered(1, 2, psn=index) for index in range(60)]
    assert (s.held(1, 3), s.queued(2, 3), s.count("lost", 2, 3)) == (0, 0, 0)


def test_a_pause_that_nobody_ends_expires(holding: Make) -> None:
    s = holding()
    s.send(2, f.pfc({3: 100}), at=1000)  # 51.2 us
    s.send(1, data(1, 2))
    s.run(10**6)
    (out,) = s.take(2)
    assert 1000 + 51_200 <= out.time - SLOT_NS <= 1000 + 51_200 + SLOT_NS


def test_packets_keep_their_order_under_pauses_at_random(holding: Make) -> None:
    s = holding()
    rng = random.Random(11)
    for index in range(300):
        s.run(s.now + rng.randrange(2 * SLOT_NS))
        if rng.random() < 0.2:
            pause(s, rng.choice([0, 0, 20, 200, 2000]))
        s.send(1, data(1, 2, psn=index))
    pause(s, 0)
    s.drain()
    assert arrived(s) == list(range(300))
    assert (s.held(1, 3), s.count("lost", 2, 3)) == (0, 0)


def test_a_higher_class_passes_while_one_is_held(holding: Make) -> None:
    s = holding()
    pause(s)
    s.send(1, data(1, 2, psn=1))
    s.send(1, data(1, 2, psn=2, dscp=40))
    s.run(200_000)
    assert arrived(s) == [2]


@pytest.mark.parametrize("seed", range(5))
def test_packets_lost_on_entering_the_queue_stop_nothing(holding: Make, seed: int) -> None:
    s = holding()
    rng = random.Random(seed)
    pause(s)
    for index in range(80):
        s.engine.set_queue_limit(2, 3, packets=0 if rng.random() < 0.3 else 1000)
        s.send(1, data(1, 2, psn=index))
        s.engine.set_queue_limit(2, 3, packets=1000)
        s.run(s.now + rng.randrange(3 * SLOT_NS))
    pause(s, 0)
    s.run(s.now + 100 * 80 * SLOT_NS)
    got = arrived(s)
    assert got == sorted(got)
    missing = 80 - len(got)
    assert 5 < missing < 50
    assert (
        s.held(1, 3) == missing * 500
    )  # what the target lost is still counted, until the controller resets it
    s.send(1, data(1, 2, psn=1000))
    s.run(s.now + 10 * SLOT_NS)
    assert arrived(s) == [1000]
    assert 1 <= s.count("lost", 2, 3) <= missing + 1
    s.packet_out(bytes(48), port=1, operation=3)
    s.packet_out(bytes(48), port=2, operation=3)
    assert (s.held(1, 3), s.queued(2, 3)) == (0, 0)


def test_a_burst_of_held_packets_that_vanishes_costs_two_turns_not_more(holding: Make) -> None:
    s = holding()
    pause(s)
    for index in range(60):
        s.send(1, data(1, 2, psn=index))
    s.run(1_000_000)
    s.engine.set_queue_limit(2, 3, packets=0)  # whoever comes round now is gone
    s.run(s.now + 20 * SLOT_NS)
    s.engine.set_queue_limit(2, 3, packets=1000)
    s.run(s.now + 60 * SLOT_NS)
    pause(s, 0)
    begin = s.now
    s.run(begin + 3 * 60 * SLOT_NS)
    got = arrived(s)
    assert got == sorted(got) and 35 <= len(got) <= 45
    assert s.count("lost", 2, 3) >= 1
    for index in range(100, 120):
        s.send(1, data(1, 2, psn=index))
    s.run(s.now + 3 * 20 * SLOT_NS)
    assert arrived(s) == list(range(100, 120))


def test_a_pausing_traffic_manager_that_drops_does_not_stop_its_queue(
    switch: Callable[..., NativeSwitch],
) -> None:
    s = switch(DEEP)
    s.engine.set_queue_limit(2, 3, packets=10)
    pause(s)
    for index in range(20):
        s.send(1, data(1, 2, psn=index))
    pause(s, 0)
    s.drain()
    assert arrived(s) == list(range(10))
    for index in range(100, 105):
        s.send(1, data(1, 2, psn=index))
    s.drain()
    assert arrived(s) == list(range(100, 105))
    assert (s.count("lost", 2, 3), s.count("holds", 2, 3)) == (1, 0)
    assert (s.held(1, 3), s.queued(2, 3)) == (0, 0)  # it handed back what it refused
