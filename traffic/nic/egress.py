"""The NIC's end of its link: eight classes in strict priority, pacing, pause, and frames in flight.

Theory of operation. Time runs in picoseconds here, so that back-to-back frames keep the exact line rate. A class holds
a queue of control frames (ACKs, CNPs, PFC), which go first, and a ring of flows that have data to send; data frames are
made at the moment their transmission starts, never earlier. `next_start` says when the link will start its
next frame, `start` starts it. Whoever looks late changes nothing: starts are worked out from when the link was
free and when the frame was there. A flow whose next packet has a later time of its own waits in a heap until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from switch.link import wire_bytes, wire_time_ps

NEVER = 1 << 80
"""A time that does not come, ps."""
CLASSES = 8
PFC_CLASS = 7

Control = bytes | Callable[[int], bytes]
"""A frame, or a function of the start time in ns that makes it when its turn has come."""


class Flow(Protocol):
    """Something that has data frames to send in one class."""

    traffic_class: int
    scheduled: bool
    """Owned by the egress: it is in a ring or in the heap."""
    next_ps: int
    """Not before this time."""

    def next_frame(self, start_ps: int) -> bytes | None:
        """The frame that starts now, or None when there is none after all. Moves `next_ps`."""

    def has_next(self) -> bool:
        """Whether it wants to send another one as soon as `next_ps` allows."""


class Egress:
    """One transmit side."""

    def __init__(self, rate_bps: int, delay_ns: int) -> None:
        self.rate_bps = rate_bps
        self.delay_ns = delay_ns
        self.clock_ps = 0
        """Everything up to here has happened."""
        self.free_ps = 0
        """When the link is free again."""
        self.in_flight: deque[tuple[int, bytes]] = deque()
        """(arrival at the far end in ns, frame) in order."""
        self.tx_packets = 0
        self.tx_bytes = 0
        self.pause_ps = [0] * CLASSES
        """Each class is not served before this time."""
        self._latest_pause_ps = 0
        self._control: tuple[deque[Control], ...] = tuple(deque() for _ in range(CLASSES))
        self._ready: tuple[deque[Flow], ...] = tuple(deque() for _ in range(CLASSES))
        self._pending = 0
        """Bit per class that has anything in `_control` or `_ready`."""
        self._paced: list[tuple[int, int, Flow]] = []
        self._sequence = 0
        self._wire_ps: dict[int, int] = {}

    def wire_ps(self, frame_bytes: int) -> int:
        """Picoseconds that a frame occupies the link."""
        time = self._wire_ps.get(frame_bytes)
        if time is None:
            time = self._wire_ps[frame_bytes] = wire_time_ps(frame_bytes, self.rate_bps)
        return time

    def set_rate(self, rate_bps: int) -> None:
        """Every frame that starts from now on takes the link for its bits at this rate."""
        self.rate_bps = rate_bps
        self._wire_ps.clear()

    def send(self, traffic_class: int, frame: Control) -> None:
        """Queue a control frame."""
        self._control[traffic_class].append(frame)
        self._pending |= 1 << traffic_class

    def wake(self, flow: Flow) -> None:
        """A flow has (again) something to send."""
        if flow.scheduled:
            return
        flow.scheduled = True
        if flow.next_ps <= self.clock_ps:
            self._ready[flow.traffic_class].append(flow)
            self._pending |= 1 << flow.traffic_class
        else:
            self._sequence += 1
            heappush(self._paced, (flow.next_ps, self._sequence, flow))

    def skip(self, until_ps: int) -> None:
        """Nothing starts before this time any more; what was due starts then."""
        if until_ps > self.clock_ps:
            self.clock_ps = until_ps

    def drop_flows(self) -> None:
        """Forget every flow: nothing but control frames leaves until it is woken again."""
        for traffic_class in range(CLASSES):
            for flow in self._ready[traffic_class]:
                flow.scheduled = False
            self._ready[traffic_class].clear()
            if not self._control[traffic_class]:
                self._pending &= ~(1 << traffic_class)
        for _, _, flow in self._paced:
            flow.scheduled = False
        self._paced.clear()

    def pause(self, traffic_class: int, until_ps: int) -> None:
        """Serve the class again from `until_ps` on (a time in the past resumes it)."""
        self.pause_ps[traffic_class] = until_ps
        self._latest_pause_ps = max(self.pause_ps)

    def _open(self, at_ps: int) -> int:
        """Bit per class that has something and is not paused at that time."""
        pending = self._pending
        if self._latest_pause_ps <= at_ps:
            return pending
        for traffic_class, until in enumerate(self.pause_ps):
            if until > at_ps:
                pending &= ~(1 << traffic_class)
        return pending

    def _release(self, until_ps: int) -> None:
        """Let paced flows whose time has come into their rings."""
        paced = self._paced
        while paced and paced[0][0] <= until_ps:
            flow = heappop(paced)[2]
            self._ready[flow.traffic_class].append(flow)
            self._pending |= 1 << flow.traffic_class

    def next_start(self) -> int:
        """When the next frame starts if nothing happens before, ps; NEVER without one."""
        at = self.free_ps if self.free_ps > self.clock_ps else self.clock_ps
        paced = self._paced
        if paced and paced[0][0] <= at:
            self._release(at)
        start = NEVER
        if self._pending:
            if self._latest_pause_ps <= at or self._open(at):
                return at
            start = min(self.pause_ps[c] for c in range(CLASSES) if self._pending >> c & 1)
        if paced:
            first = paced[0][0]
            if self._latest_pause_ps > first:
                first = min(max(time, self.pause_ps[flow.traffic_class]) for time, _, flow in paced)
            if first < start:
                return first
        return start

    def start(self, at_ps: int) -> None:
        """Start the frame whose turn it is at `at_ps`, a time that `next_start` gave."""
        self.clock_ps = at_ps
        if self._paced and self._paced[0][0] <= at_ps:
            self._release(at_ps)
        open_classes = self._pending if self._latest_pause_ps <= at_ps else self._open(at_ps)
        traffic_class = open_classes.bit_length() - 1
        control = self._control[traffic_class]
        ready = self._ready[traffic_class]
        frame: bytes | None
        flow = None
        if control:
            item = control.popleft()
            frame = item if isinstance(item, bytes) else item(at_ps // 1000)
        else:
            flow = ready.popleft()
            frame = flow.next_frame(at_ps)
        if frame is not None:
            length = len(frame)
            time = self._wire_ps.get(length)
            if time is None:
                time = self.wire_ps(length)
            free = self.free_ps = at_ps + time
            self.in_flight.append(((free + 999) // 1000 + self.delay_ns, frame))
            self.tx_packets += 1
            self.tx_bytes += wire_bytes(length)
        if flow is not None:
            if not flow.has_next():
                flow.scheduled = False
            elif flow.next_ps <= self.free_ps:
                ready.append(flow)
            else:
                self._sequence += 1
                heappush(self._paced, (flow.next_ps, self._sequence, flow))
        if not control and not ready:
            self._pending &= ~(1 << traffic_class)
