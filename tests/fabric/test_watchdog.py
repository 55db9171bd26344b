"""The watchdog's decisions, from counters alone."""

from __future__ import annotations

import pytest

from controller.watchdog import Queue, Reading, Watchdog, WatchdogOptions

QUEUE = Queue("s1", 3, 3)
POLL, DETECTION, RESTORATION, LONGEST = 100, 300, 500, 335


def watchdog(action: str = "drop") -> Watchdog:
    return Watchdog(WatchdogOptions(DETECTION, RESTORATION, POLL, action), {QUEUE: LONGEST})  # type: ignore[arg-type]


def story(dog: Watchdog, *readings: tuple[int, int, int] | None) -> dict[int, bool]:
    """Time -> decision, of one reading (XOFF, XON, sent) a poll; None: the switch is away."""
    decisions = {}
    for number, reading in enumerate(readings):
        seen = {} if reading is None else {QUEUE: Reading(*reading)}
        for queue, storm in dog.look(number * POLL, seen):
            assert queue == QUEUE
            decisions[number * POLL] = storm
    return decisions


def test_a_queue_that_stands_paused_for_the_detection_time_is_in_a_storm() -> None:
    # Paused in (0, 100], nothing sent since 100: at 400 it has stood for 300.
    assert story(watchdog(), (0, 0, 9), (1, 0, 12), (2, 0, 12), (3, 0, 12), (4, 0, 12), (5, 0, 12)) == {
        400: True
    }


def test_a_long_pause_needs_no_frame_in_every_poll_and_is_forgotten_when_it_has_run_out() -> None:
    assert story(watchdog(), (0, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0)) == {300: True}
    assert story(watchdog(), (0, 0, 0), (1, 0, 1), (1, 0, 1), (1, 0, 1), (1, 0, 1), (1, 0, 1)) == {400: True}
    slow = Watchdog(WatchdogOptions(600, 600, POLL), {QUEUE: LONGEST})
    assert story(slow, (0, 0, 0), (1, 0, 0), *[(1, 0, 0)] * 9) == {}


@pytest.mark.parametrize(
    "readings",
    [
        [(n, 0, n) for n in range(9)],  # it sends in between
        [(n, n, 0) for n in range(9)],  # it is resumed in between
        [(0, 0, 0)] * 9,  # nobody pauses it
    ],
)
def test_other_queues_are_left_alone(readings: list[tuple[int, int, int]]) -> None:
    assert story(watchdog(), *readings) == {}


def test_a_storm_is_over_after_the_restoration_time_without_a_frame() -> None:
    storm = [(n, 0, 0) for n in range(5)]  # found at 300, a frame more by 400
    assert story(watchdog(), *storm, *[(4, 0, 7)] * 7) == {300: True, 900: False}
    assert story(watchdog(), *storm, *[(4, 0, 7)] * 3, *[(5, 0, 7)] * 7) == {300: True, 1300: False}


@pytest.mark.parametrize("after", [None, (0, 0, 0)], ids=["it is away", "it counts anew"])
def test_a_storm_ends_with_its_switch(after: tuple[int, int, int] | None) -> None:
    assert story(watchdog(), *[(n, 0, 1) for n in range(5)], after) == {300: True, 500: False}


@pytest.mark.parametrize("poll", [0, 301])
def test_a_poll_interval_that_cannot_see_a_storm_in_time_is_refused(poll: int) -> None:
    with pytest.raises(ValueError, match="poll interval"):
        WatchdogOptions(DETECTION, RESTORATION, poll)
