"""The virtual clock whose queue and links are C (`switch.native.fabric`): the same results as `VirtualClock`, sooner.

Engines hand frames to each other without Python in between; so do NICs in C. Any other node takes part by its
Python methods.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from switch.native.binding import Engine
from switch.native.fabric import Ask, Fabric, Result
from xoff.clocks.virtual import Node, Tap


@runtime_checkable
class NativeNode(Protocol):
    """A node whose work is done in C."""

    def join(self, fabric: Fabric) -> int:
        """Add itself to the fabric and return its number there."""


class FabricClock:
    """`VirtualClock`'s interface over a fabric in C.

    One thing differs, to save time: `run` asks `stop` only after instants in which Python code ran, as only that can
    change an answer that depends on Python objects. `always_ask` asks after every instant.
    """

    def __init__(self, *, always_ask: bool = False) -> None:
        self.fabric = Fabric()
        self._always_ask = always_ask
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._sequence = 0

    @property
    def now(self) -> int:
        """Simulated time, ns."""
        return self.fabric.stats().now

    @property
    def traversals(self) -> int:
        """Frames carried over links so far."""
        return self.fabric.stats().traversals

    def close(self) -> None:
        """Take the fabric apart; the nodes stay usable."""
        self.fabric.close()

    def add(self, name: str, node: Node | Engine | NativeNode) -> None:
        """Add a node; names are unique."""
        if name in self._index:
            raise ValueError(f"two nodes are called {name}")
        if isinstance(node, Engine):
            number = self.fabric.add_engine(node)
        elif isinstance(node, NativeNode):
            number = node.join(self.fabric)
        else:
            number = self.fabric.add_python(node)
        self._index[name] = number
        self._names.append(name)

    def connect(self, a: str, a_port: int, b: str, b_port: int) -> None:
        """Join two ports by a link; rate and delay belong to the nodes' own ends."""
        self.fabric.connect(self._index[a], a_port, self._index[b], b_port)

    def tap(self, names: Iterable[str], seen: Tap) -> None:
        """Show `seen` every frame that these nodes send or receive, as it arrives. A clock has one tap."""
        known = self._names
        self.fabric.tap(
            [self._index[name] for name in names],
            lambda sender, receiver, frame, now: seen(known[sender], known[receiver], frame, now),
        )

    def at(self, time: int, action: Callable[[int], None]) -> None:
        """Call `action(time)` when the clock reaches `time`, before the nodes' events of that instant."""
        now = self.now
        if time < now:
            raise ValueError(f"{time} ns is in the past of {now} ns")
        heapq.heappush(self._timers, (time, self._sequence, action))
        self._sequence += 1
        self.fabric.interrupt()

    def touch(self, name: str) -> None:
        """Look at a node's deadline again, after it was changed from outside (a post, a table write)."""
        self.fabric.touch(self._index[name])

    def run(
        self,
        until: int | None = None,
        stop: Callable[[], bool] | None = None,
        *,
        reports: bool = False,
        quiet_until: int | None = None,
    ) -> int:
        """Advance to `until` ns (inclusive), or until nothing is pending or `stop()` is true; returns the time.

        With `reports` also to the first instant in which a switch has something to tell its controller. Without, a
        caller who knows that `stop()` is false before `quiet_until` lets nodes run ahead of one another until then
        (`Fabric.run_ahead`). Nothing that they call meanwhile may set timers.
        """
        fabric, timers = self.fabric, self._timers
        if quiet_until is not None and not reports:
            ahead = min(
                t for t in (quiet_until - 1, until, timers[0][0] - 1 if timers else None) if t is not None
            )
            if ahead > self.now:
                fabric.run_ahead(ahead)
            if ahead == until:
                fabric.advance(until)
                return self.now
        ask = Ask.NEVER if stop is None else Ask.ALWAYS if self._always_ask else Ask.ENTERED
        fabric.touch_all()
        first = stop is not None
        while True:
            limit = until
            if timers and (limit is None or timers[0][0] <= limit):
                limit = timers[0][0] - 1
            result = fabric.run(limit, Ask.ALWAYS if first else ask, reports=reports)
            if result == Result.REPORTED:
                return self.now
            if result in (Result.ASKED, Result.INTERRUPTED):
                first = False
                if stop is not None and stop():
                    return self.now
                continue
            if not timers or (until is not None and timers[0][0] > until):
                break
            first = False
            if self._fire_timers(timers[0][0], reports) == Result.REPORTED:
                return self.now
            if stop is not None and stop():
                return self.now
        if until is not None:
            fabric.advance(until)
        return self.now

    def _fire_timers(self, time: int, reports: bool) -> Result:
        """The timers of one instant, then its other events."""
        fabric, timers = self.fabric, self._timers
        fabric.advance(time)
        while timers and timers[0][0] <= time:
            heapq.heappop(timers)[2](time)
        fabric.touch_all()
        return fabric.run(time, Ask.NEVER, reports=reports)
