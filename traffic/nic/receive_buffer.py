"""A receive buffer that the host empties at a limited rate, and the PFC that keeps it from overflowing.

Frames are taken out in the order of arrival, one every `wire bytes / drain rate`. A class that holds `xoff_bytes` is
paused at the sender; the pause is renewed when half of it has passed and lifted when the class is down to `xon_bytes`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from switch.link import wire_time_ps
from traffic.nic.config import ReceiverConfig

CLASSES = 8


class ReceiveBuffer:
    """Holds (class, frame) until the host has time. Times and rates are of the driving clock."""

    def __init__(
        self,
        config: ReceiverConfig,
        *,
        drain_bps: int,
        repeat_ns: Callable[[], int],
        pfc_classes: tuple[int, ...],
        send_pause: Callable[[int, int, int], None],
        arm: Callable[[int, Callable[[int], None]], None],
        deliver: Callable[[bytes, int], None],
    ) -> None:
        """`repeat_ns()`: how long until an XOFF is repeated; `send_pause(class, quanta, now)`; `arm(at, callback)`;
        `deliver(frame, now)` is the host taking it out.
        """
        self._config = config
        self._drain_bps = drain_bps
        self._pfc_classes = frozenset(pfc_classes)
        self._frames: deque[tuple[int, bytes]] = deque()
        self.bytes = [0] * CLASSES
        self.peak_bytes = 0
        self._total = 0
        self._drained_ps = 0
        """When the frame being taken out is out."""
        self._xoff = [False] * CLASSES
        self._renewal = [0] * CLASSES
        self._repeat_ns = repeat_ns
        self._send_pause = send_pause
        self._arm = arm
        self._deliver = deliver

    def push(self, traffic_class: int, frame: bytes, now: int) -> bool:
        """A frame has arrived; False when there is no room for it."""
        length = len(frame)
        if self._total + length > self._config.limit_bytes:
            return False
        self._frames.append((traffic_class, frame))
        self._total += length
        self.peak_bytes = max(self.peak_bytes, self._total)
        self.bytes[traffic_class] += length
        if (
            traffic_class in self._pfc_classes
            and not self._xoff[traffic_class]
            and self.bytes[traffic_class] >= self._config.xoff_bytes
        ):
            self._xoff[traffic_class] = True
            self._pause(traffic_class, now)
        if len(self._frames) == 1:
            self._begin(max(self._drained_ps, now * 1000))
        return True

    def _begin(self, start_ps: int) -> None:
        self._drained_ps = start_ps + wire_time_ps(len(self._frames[0][1]), self._drain_bps)
        self._arm((self._drained_ps + 999) // 1000, self._taken)

    def _taken(self, now: int) -> None:
        traffic_class, frame = self._frames.popleft()
        self._total -= len(frame)
        self.bytes[traffic_class] -= len(frame)
        if self._xoff[traffic_class] and self.bytes[traffic_class] <= self._config.xon_bytes:
            self._xoff[traffic_class] = False
            self._renewal[traffic_class] = 0
            self._send_pause(traffic_class, 0, now)
        if self._frames:
            self._begin(self._drained_ps)
        self._deliver(frame, now)

    def _pause(self, traffic_class: int, now: int) -> None:
        self._send_pause(traffic_class, self._config.pause_quanta, now)
        due = self._renewal[traffic_class] = now + self._repeat_ns()

        def renew(at: int) -> None:
            if self._xoff[traffic_class] and self._renewal[traffic_class] == due:
                self._pause(traffic_class, at)

        self._arm(due, renew)
