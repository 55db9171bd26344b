"""Records of the switches: queues, ports, drops and pauses, sampled and written as JSON Lines (docs/records.md)."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from switch.native.binding import Engine, PauseEvent
from switch.native.packetloop import LoopPortStats, PacketLoop
from switch.native.ports import kernel_drops
from switch.native.samples import Look, Watcher

UNKNOWN = -1
"""Port or class of a drop for which it is not known."""

_line = json.JSONEncoder(separators=(",", ":")).encode

_CLASS_REASONS = ("queue_bytes", "queue_packets", "buffer")
"""Drops that the engine counts per queue, so that their class is known."""


class RecordFile:
    """The file that all switches of a process write to."""

    def __init__(self, path: Path, epoch: int) -> None:
        """`epoch` is the monotonic time (ns) that is the run's zero. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a")
        self._epoch = epoch

    def write(self, kind: str, time: int, **fields: Any) -> None:
        """Write one record about monotonic `time` (ns)."""
        record = {"t": time - self._epoch, "kind": kind, **fields}
        self._file.write(_line(record) + "\n")

    def relative(self, time: int) -> int:
        """A monotonic time on the run's clock."""
        return time - self._epoch

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


class EngineSampler:
    """What one engine adds to the records, whatever carries its frames."""

    def __init__(self, node: str, engine: Engine, ports: Sequence[int], records: RecordFile) -> None:
        self._node = node
        self._engine = engine
        self._ports = ports
        self._records = records
        self._watcher = Watcher(engine, ports)
        self._losses: object = None
        self._last_time = 0
        self._port_values: dict[int, tuple[int, int, int, int]] = {}
        self._moving: set[int] = set()
        self._dropped: dict[tuple[int, int, str], int] = {}

    def sample(self, now: int, *, everything: bool = False) -> None:
        """Write what changed since the last sample; `everything` also looks where nothing seems to have.

        `now` is in ns of the clock that drives the engine.
        """
        look = self._watcher.look()
        for port, cls, octets, packets in look.queues:
            self._records.write(
                "queue", now, node=self._node, port=port, **{"class": cls}, bytes=octets, packets=packets
            )
        for port, values in zip(self._ports, look.ports, strict=True):
            self._sample_port(port, values, now)
        losses = self._count_losses(look)
        if everything or losses != self._losses:
            self._sample_drops(now)
            self._losses = losses
        self._last_time = now

    def pauses(self, events: Sequence[PauseEvent]) -> None:
        """Write changes of queues' pause state."""
        for event in events:
            until = self._records.relative(event.until) if event.until else 0
            self._records.write(
                "pause", event.time, node=self._node, port=event.port, **{"class": event.cls}, until=until
            )

    def _count_losses(self, look: Look) -> object:
        """Something that changes whenever a drop counter has grown."""
        return look.dropped

    def _sample_port(self, port: int, values: tuple[int, int, int, int], now: int) -> None:
        """Write the port's counters while they move, and where each movement began and ended."""
        before = self._port_values.get(port)
        moving = before is not None and before != values
        if before is None or moving or port in self._moving:
            if moving and port not in self._moving and before is not None:
                self._write_port(port, before, self._last_time)
            self._write_port(port, values, now)
        if moving:
            self._moving.add(port)
        else:
            self._moving.discard(port)
        self._port_values[port] = values

    def _write_port(self, port: int, values: tuple[int, int, int, int], time: int) -> None:
        self._records.write(
            "port",
            time,
            node=self._node,
            port=port,
            tx_bytes=values[0],
            tx_packets=values[1],
            rx_bytes=values[2],
            rx_packets=values[3],
        )

    def _sample_drops(self, now: int) -> None:
        """Look at every drop counter."""
        known: dict[str, tuple[int, int]] = {}
        for port in self._ports:
            drops = self._engine.port_stats(port).drops
            for reason, (packets, octets) in drops.items():
                seen = known.get(reason, (0, 0))
                known[reason] = seen[0] + packets, seen[1] + octets
                if reason not in _CLASS_REASONS:
                    self._drop(port, UNKNOWN, reason, packets, octets, now)
            if any(reason in drops for reason in _CLASS_REASONS):
                for cls, queue in enumerate(self._engine.queue_stats(port)):
                    for reason, (packets, octets) in queue.drops.items():
                        self._drop(port, cls, reason, packets, octets, now)
        for reason, (packets, octets) in self._engine.drops().items():
            seen = known.get(reason, (0, 0))
            self._drop(UNKNOWN, UNKNOWN, reason, packets - seen[0], octets - seen[1], now)

    def _drop(self, port: int, cls: int, reason: str, packets: int, octets: int, now: int) -> None:
        """Write a cumulative count when it has grown."""
        key = (port, cls, reason)
        if packets > self._dropped.get(key, 0):
            self._dropped[key] = packets
            self._records.write(
                "drop",
                now,
                node=self._node,
                port=port,
                **{"class": cls},
                reason=reason,
                packets=packets,
                bytes=octets,
            )


class Sampler(EngineSampler):
    """What a switch on real interfaces adds: also the frames lost between its sockets and its engine."""

    def __init__(
        self,
        node: str,
        engine: Engine,
        ports: Sequence[int],
        sockets: Mapping[int, socket.socket],
        loop: PacketLoop,
        device: int,
        records: RecordFile,
        packet_ins_dropped: Callable[[], int] = lambda: 0,
    ) -> None:
        """`packet_ins_dropped` counts frames for the controller that no controller took."""
        super().__init__(node, engine, ports, records)
        self._packet_ins_dropped = packet_ins_dropped
        self._sockets = sockets
        self._loop = loop
        self._device = device
        self._kernel_rx = dict.fromkeys(sockets, 0)

    def _count_losses(self, look: Look) -> object:
        for port, sock in self._sockets.items():
            self._kernel_rx[port] += kernel_drops(sock)
        lost = self._loop.losses(self._device, self._ports)
        unattached = self._loop.unattached(self._device)
        return look.dropped, lost, unattached, sum(self._kernel_rx.values()), self._packet_ins_dropped()

    def _sample_drops(self, now: int) -> None:
        super()._sample_drops(now)
        self._drop(UNKNOWN, UNKNOWN, "no_interface", *self._loop.unattached(self._device), now)
        self._drop(self._engine.cpu_port, UNKNOWN, "packet_in", self._packet_ins_dropped(), 0, now)
        for port in self._sockets:
            self._drop(port, UNKNOWN, "kernel_rx", self._kernel_rx[port], 0, now)
            for reason, (packets, octets) in loop_drops(self._loop.port_stats(self._device, port)).items():
                self._drop(port, UNKNOWN, reason, packets, octets, now)


def loop_drops(stats: LoopPortStats) -> dict[str, tuple[int, int]]:
    """Reason -> (packets, bytes) of frames lost between socket and engine."""
    return {
        "oversize_rx": (stats.rx_oversize, 0),
        "kernel_tx": (stats.tx_kernel, stats.tx_kernel_bytes),
        "mtu": (stats.tx_mtu, stats.tx_mtu_bytes),
        "interface_down": (stats.tx_down, stats.tx_down_bytes),
    }
