"""One look at an engine's queues and ports, in one call of C (sample.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass

from switch.native.binding import Engine
from switch.native.build import runtime

CLASSES = 8
_PORT_WORDS = 4
"""64-bit words of `xs_port`."""


class _Queue(ctypes.Structure):
    _fields_ = (("port", c_uint32), ("cls", c_uint32), ("bytes", c_uint64), ("packets", c_uint64))


@dataclass(frozen=True)
class Look:
    """What an engine held at one instant."""

    queues: list[tuple[int, int, int, int]]
    """(port, class, bytes, packets) of the queues that are, or were one look ago, not empty."""
    ports: list[tuple[int, int, int, int]]
    """(tx_bytes, tx_packets, rx_bytes, rx_packets) of each port, in the order given."""
    dropped: int
    """Packets that the engine has dropped in all."""


class Watcher:
    """Looks at the ports of one engine."""

    def __init__(self, engine: Engine, ports: Sequence[int]) -> None:
        library = runtime()
        self._look = library.xs_look
        self._look.restype = c_int
        self._look.argtypes = [
            *(c_void_p, POINTER(c_uint32), c_uint32, POINTER(c_uint8)),
            *(POINTER(_Queue), c_uint32, POINTER(c_uint64), POINTER(c_uint64)),
        ]
        self._engine = engine
        self._ports = (c_uint32 * len(ports))(*ports)
        self._previous = (c_uint8 * len(ports))()
        self._room = len(ports) * CLASSES
        self._queues = (_Queue * self._room)()
        self._counters = (c_uint64 * (_PORT_WORDS * len(ports)))()
        self._dropped = c_uint64()

    def look(self) -> Look:
        """Look now."""
        count = self._look(
            *(self._engine.handle, self._ports, len(self._ports), self._previous),
            *(self._queues, self._room, self._counters, ctypes.byref(self._dropped)),
        )
        words = list(self._counters)
        return Look(
            [(queue.port, queue.cls, queue.bytes, queue.packets) for queue in self._queues[:count]],
            [(words[i], words[i + 1], words[i + 2], words[i + 3]) for i in range(0, len(words), _PORT_WORDS)],
            self._dropped.value,
        )
