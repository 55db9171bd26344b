"""PFC watchdog: an egress queue that stays paused too long is treated as if it were in a storm.

As SONiC's pfcwd (sonic-swss, orchagent/pfcwdorch.cpp and pfc_detect_*.lua): a queue that sends nothing while PFC frames
keep it paused, all through `detection`, is in a storm. Its action begins; after `restoration` without a PFC frame for
that class the queue is as before. Actions (PFC_WD table):

    drop     what would enter the queue is dropped (counted as `queue`), what is in it leaves: pauses are not obeyed
    forward  pauses are not obeyed
    alert    nothing but a note

It looks at counters every `poll`, as pfcwd does; it knows no clock and no socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Action = Literal["drop", "forward", "alert"]
ACTIONS: tuple[Action, ...] = ("drop", "forward", "alert")


Scope = Literal["any", "deadlock"]
SCOPES: tuple[Scope, ...] = ("any", "deadlock")
"""What it acts on: every queue in a storm, or one of each ring of them (`controller.deadlock`)."""


class Queue(NamedTuple):
    """An egress queue of a lossless class."""

    switch: str
    port: int
    cls: int


class Reading(NamedTuple):
    """Counters of a queue, cumulative."""

    xoff: int
    """PFC frames received that pause it."""
    xon: int
    """PFC frames received that resume it."""
    sent: int
    """Packets that left it."""


@dataclass(frozen=True)
class WatchdogOptions:
    """Times in ns of the running clock. ValueError when they do not fit together."""

    detection_ns: int
    restoration_ns: int
    poll_ns: int
    action: Action = "drop"
    scope: Scope = "any"

    def __post_init__(self) -> None:
        if not 0 < self.poll_ns <= min(self.detection_ns, self.restoration_ns):
            raise ValueError("its poll interval is above 0 and no longer than detection and restoration time")


@dataclass
class _State:
    reading: Reading
    paused_at: int | None = None
    """Of the last look that saw a pause which nothing has ended since."""
    since: int | None = None
    """Since when it stands still (healthy), or has heard no PFC frame (in a storm)."""
    storm: bool = False


class Watchdog:
    """Watches queues by their counters. `longest_pause_ns` is what 65535 quanta last on a queue's port."""

    def __init__(self, options: WatchdogOptions, longest_pause_ns: Mapping[Queue, int]) -> None:
        self.options = options
        self.queues: tuple[Queue, ...] = tuple(longest_pause_ns)
        self._longest = dict(longest_pause_ns)
        self._states: dict[Queue, _State] = {}
        self._looked = 0

    @property
    def storms(self) -> frozenset[Queue]:
        """Queues in a storm now."""
        return frozenset(queue for queue, state in self._states.items() if state.storm)

    def look(self, now: int, readings: Mapping[Queue, Reading]) -> list[tuple[Queue, bool]]:
        """(queue, it is in a storm) for each that has changed.

        A storm is over where a switch is away (no reading) or has begun anew (it counts from 0 again).
        """
        changed = []
        for queue in self.queues:
            reading = readings.get(queue)
            state = self._states.get(queue)
            if reading is None or state is None or _less(reading, state.reading):
                if state is not None and state.storm:
                    changed.append((queue, False))
                self._states.pop(queue, None)
                if reading is not None:
                    self._states[queue] = _State(reading)
            else:
                if self._is_storm(now, state, reading, self._longest[queue]) != state.storm:
                    state.storm = not state.storm
                    state.since = state.paused_at = None
                    changed.append((queue, state.storm))
                state.reading = reading
        self._looked = now
        return changed

    def _is_storm(self, now: int, state: _State, reading: Reading, longest: int) -> bool:
        heard, resumed = reading.xoff > state.reading.xoff, reading.xon > state.reading.xon
        if state.storm:
            state.since = None if heard else self._looked if state.since is None else state.since
            return state.since is None or now - state.since < self.options.restoration_ns
        if resumed:
            state.paused_at = None
        elif heard:
            state.paused_at = now
        paused = state.paused_at is not None and now - state.paused_at <= longest
        if not paused or reading.sent > state.reading.sent:
            state.since = None
            return False
        if state.since is None:
            state.since = self._looked
        return now - state.since >= self.options.detection_ns


def _less(a: Iterable[int], b: Iterable[int]) -> bool:
    return any(x < y for x, y in zip(a, b, strict=True))
