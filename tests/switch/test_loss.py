"""Lossy links: which frames are lost, that the same seed loses the same ones, and that each is counted."""

from __future__ import annotations

import math

import pytest
from probe import GBPS, engine, frame

from switch.native.binding import Engine, EngineError

FRAMES = 20_000


def survivors(e: Engine, count: int = FRAMES) -> list[int]:
    """Numbers of the frames that get from port 1 through port 2, sent in chunks that fit the queue."""
    numbers, now = [], 0
    for first in range(0, count, 1000):
        for number in range(first, first + 1000):
            e.rx(1, frame(2, length=100)[:-4] + number.to_bytes(4, "big"), now)
        while (deadline := e.next_deadline()) is not None:
            now = deadline
            numbers += [int.from_bytes(data[-4:], "big") for _, data in e.poll(now)]
    return numbers


def lossy(probability: float, every: int = 0, *, seed: int = 1, received: bool = False) -> list[int]:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, 100 * GBPS)
        e.set_port_loss(1 if received else 2, probability, every, seed=seed, received=received)
        numbers = survivors(e)
        assert e.drops().get("link_loss", (0, 0))[0] == FRAMES - len(numbers)
        return numbers


@pytest.mark.parametrize("received", [False, True])
def test_every_nth_frame_is_lost_and_no_other(received: bool) -> None:
    kept = [n for n in range(FRAMES) if (n + 1) % 256]
    assert lossy(0.0, 256, received=received) == kept


@pytest.mark.parametrize("probability", [0.001, 0.1, 0.5])
def test_the_share_of_lost_frames_is_the_probability(probability: float) -> None:
    lost = FRAMES - len(lossy(probability))
    deviation = math.sqrt(FRAMES * probability * (1 - probability))
    assert abs(lost - FRAMES * probability) < 4 * deviation


def test_a_certain_loss_loses_everything_and_none_loses_nothing() -> None:
    assert lossy(1.0) == []
    assert len(lossy(0.0)) == FRAMES


def test_the_same_seed_loses_the_same_frames_and_another_others() -> None:
    assert lossy(0.1, seed=5) == lossy(0.1, seed=5)
    assert lossy(0.1, seed=5) != lossy(0.1, seed=6)


def test_a_lost_frame_occupied_the_link() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, 8 * GBPS)  # a byte a nanosecond
        e.set_port_loss(2, 0.0, 2)
        for _ in range(4):
            e.rx(1, frame(2, length=1000), 0)
        times = []
        while (deadline := e.next_deadline()) is not None:
            times += [t for t, _, _ in e.poll_timed(deadline)]
    assert times == [1024, 3 * 1024]


def test_a_probability_beyond_one_is_refused() -> None:
    with engine() as e:
        e.add_port(1)
        with pytest.raises(EngineError, match="between 0 and 1"):
            e.set_port_loss(1, 1.5)
