"""Captures in virtual time: `<run>/pcap/<host>.pcap`, every frame that a host sent or received.

A frame has the time at which its last bit passed the host: what it received, when it arrived; what it sent, the link's
propagation delay before the far end had it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from switch.native import pcap
from topologies.plan import HostPlan

OPEN_FILES = 200
"""Files kept open at once: a fabric may have more hosts than a process may have files."""


class SimulatedCaptures:
    """A clock's tap (`xoff.clocks.virtual.Tap`) that writes pcap files."""

    def __init__(self, hosts: Sequence[HostPlan], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._paths = {host.name: folder / f"{host.name}.pcap" for host in hosts}
        self._delays = {host.name: host.delay_ns for host in hosts}
        self._waiting: dict[str, list[tuple[int, int, bytes]]] = {host.name: [] for host in hosts}
        self._open: dict[str, BinaryIO] = {}
        self._count = 0
        for path in self._paths.values():
            pcap.create(path).close()

    def __enter__(self) -> SimulatedCaptures:
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left."""
        for name in self._paths:
            self._write(name, None)
        for file in self._open.values():
            file.close()
        self._open.clear()

    def seen(self, sender: str, receiver: str, frame: bytes, now: int) -> None:
        """A frame's last bit has arrived at `now` ns."""
        if receiver in self._paths:
            self._keep(receiver, now, frame, now)
        if sender in self._paths:
            self._keep(sender, now - self._delays[sender], frame, now)

    def _keep(self, name: str, time: int, frame: bytes, now: int) -> None:
        self._count += 1
        heapq.heappush(self._waiting[name], (time, self._count, frame))
        self._write(name, now - self._delays[name])

    def _write(self, name: str, until: int | None) -> None:
        """Write the host's frames before `until`; none that are earlier can still come. None: all of them."""
        waiting = self._waiting[name]
        while waiting and (until is None or waiting[0][0] < until):
            time, _, frame = heapq.heappop(waiting)
            pcap.write(self._file(name), frame, time)

    def _file(self, name: str) -> BinaryIO:
        file = self._open.pop(name, None)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            file = self._paths[name].open("ab")
        self._open[name] = file  # the latest used is the last
        return file
