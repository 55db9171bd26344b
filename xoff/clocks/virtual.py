"""The virtual clock: nodes joined by links, one event heap, simulated nanoseconds.

Theory of operation: every node has the shape of `docs/architecture.md` (rx, poll, next_deadline). The heap holds at
most one live entry per node, its next deadline. The earliest is popped, the node polled at exactly that time, and
what it hands out arrives at the same instant at the far end, whose deadline may move. Ties are broken by
the order in which nodes were added, so that a run is a function of its inputs alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

Tap = Callable[[str, str, bytes, int], None]
"""Called with sender, receiver, frame and the time in ns at which its last bit arrived."""


class Node(Protocol):
    """A switch engine or a NIC."""

    def rx(self, port: int, frame: bytes, now: int) -> None:
        """A frame's last bit arrived at `now` ns."""

    def poll(self, now: int) -> Sequence[tuple[int, bytes]]:
        """Frames whose last bit has reached the far end by `now`, in time order."""

    def next_deadline(self) -> int | None:
        """Absolute ns of the next call to `poll` that can yield or change something."""


REPORTS = frozenset({"cpu", "digest", "idle"})
"""What a switch tells its controller by itself (`Engine.pending`)."""


@runtime_checkable
class Reporter(Protocol):
    """A node that may have something to tell a controller."""

    def pending(self) -> set[str]:
        """Which of `REPORTS`, and others, wait to be taken."""


class VirtualClock:
    """Runs nodes to a time or until nothing is left to happen."""

    def __init__(self) -> None:
        self.now = 0
        self.traversals = 0
        """Frames carried over links so far."""
        self._nodes: list[Node] = []
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._tapped: set[int] = set()
        self._tap: Tap | None = None
        self._peers: list[dict[int, tuple[int, int]]] = []
        self._due: list[int | None] = []
        self._heap: list[tuple[int, int]] = []
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._sequence = 0

    def add(self, name: str, node: Node) -> None:
        """Add a node; names are unique."""
        if name in self._index:
            raise ValueError(f"two nodes are called {name}")
        self._index[name] = len(self._nodes)
        self._names.append(name)
        self._nodes.append(node)
        self._peers.append({})
        self._due.append(None)

    def connect(self, a: str, a_port: int, b: str, b_port: int) -> None:
        """Join two ports by a link; rate and delay belong to the nodes' own ends."""
        i, j = self._index[a], self._index[b]
        self._peers[i][a_port] = (j, b_port)
        self._peers[j][b_port] = (i, a_port)

    def tap(self, names: Iterable[str], seen: Tap) -> None:
        """Show `seen` every frame that these nodes send or receive, as it arrives. A clock has one tap."""
        self._tapped.update(self._index[name] for name in names)
        self._tap = seen

    def at(self, time: int, action: Callable[[int], None]) -> None:
        """Call `action(time)` when the clock reaches `time`, before the nodes' events of that instant."""
        if time < self.now:
            raise ValueError(f"{time} ns is in the past of {self.now} ns")
        heapq.heappush(self._timers, (time, self._sequence, action))
        self._sequence += 1

    def touch(self, name: str) -> None:
        """Look at a node's deadline again, after it was changed from outside (a post, a table write)."""
        self._reschedule(self._index[name])

    def _reschedule(self, index: int) -> None:
        due = self._nodes[index].next_deadline()
        if due is not None and due < self.now:
            due = self.now
        if due != self._due[index]:
            self._due[index] = due
            if due is not None:
                heapq.heappush(self._heap, (due, index))

    def run(
        self,
        until: int | None = None,
        stop: Callable[[], bool] | None = None,
        *,
        reports: bool = False,
        quiet_until: int | None = None,
    ) -> int:
        """Advance to `until` ns (inclusive), or until nothing is pending or `stop()` is true; returns the time.

        `stop` is asked after every instant that had an event. With `reports` time also stops at the first instant in
        which a switch has something to tell its controller. To know that `stop()` is false before `quiet_until` saves
        nothing here.
        """
        heap, due = self._heap, self._due
        switches = [node for node in self._nodes if isinstance(node, Reporter)] if reports else []
        for index in range(len(self._nodes)):
            self._reschedule(index)
        while True:
            while heap and due[heap[0][1]] != heap[0][0]:
                heapq.heappop(heap)
            time = heap[0][0] if heap else None
            if self._timers and (time is None or self._timers[0][0] <= time):
                time = self._timers[0][0]
            if time is None or (until is not None and time > until):
                break
            self.now = time
            self._fire_timers(time)
            self._run_nodes(time)
            if any(not REPORTS.isdisjoint(switch.pending()) for switch in switches):
                return self.now
            if stop is not None and stop():
                return self.now
        if until is not None:
            self.now = max(self.now, until)
        return self.now

    def _fire_timers(self, time: int) -> None:
        timers = self._timers
        if not timers or timers[0][0] > time:
            return
        while timers and timers[0][0] <= time:
            heapq.heappop(timers)[2](time)
        for index in range(len(self._nodes)):
            self._reschedule(index)

    def _run_nodes(self, time: int) -> None:
        heap, due, nodes, peers = self._heap, self._due, self._nodes, self._peers
        while heap and heap[0][0] <= time:
            popped, index = heapq.heappop(heap)
            if due[index] != popped:
                continue
            due[index] = None
            for port, frame in nodes[index].poll(time):
                peer = peers[index].get(port)
                if peer is None:
                    continue
                self.traversals += 1
                if self._tap is not None and not self._tapped.isdisjoint((index, peer[0])):
                    self._tap(self._names[index], self._names[peer[0]], frame, time)
                nodes[peer[0]].rx(peer[1], frame, time)
                self._reschedule(peer[0])
            self._reschedule(index)
