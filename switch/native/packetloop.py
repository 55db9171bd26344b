"""The packet loop from Python: threads in C that move frames between sockets and engines (loop.c)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from ctypes import POINTER, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, fields

from switch.native.binding import Engine
from switch.native.build import runtime

MAX_DEVICES = 1024
"""`XL_MAX_DEVICES` in loop.h."""


class PacketLoopError(Exception):
    """The loop refused; the message says what."""


@dataclass(frozen=True)
class LoopPortStats:
    """What the loop saw of a port, in packets; `tx_*` after the first are frames that were not sent, and why."""

    rx_packets: int
    rx_batches: int
    rx_oversize: int
    rx_errors: int
    tx_packets: int
    tx_kernel: int
    tx_kernel_bytes: int
    tx_mtu: int
    tx_mtu_bytes: int
    tx_down: int
    tx_down_bytes: int
    downs: int
    """Times the interface went down."""


class _PortStats(ctypes.Structure):
    """`xl_port_stats` in loop.h, whose fields LoopPortStats names in the same order."""

    _fields_ = tuple((field.name, c_uint64) for field in fields(LoopPortStats))


class PacketLoop:
    """One thread that serves the sockets of many engines."""

    def __init__(self) -> None:
        """Raises BuildError (no compiler) or PacketLoopError (no descriptors)."""
        self._library = _library()
        self._loop: int | None = self._library.xl_new()
        if not self._loop:
            raise PacketLoopError("the packet loop needs four file descriptors and got none")

    def start(self) -> None:
        """Start the thread."""
        _check(self._library.xl_start(self._loop), "the packet thread cannot be started")

    def close(self) -> None:
        """Stop the thread. Engines and sockets stay as they are."""
        if self._loop is not None:
            self._library.xl_free(self._loop)
            self._loop = None

    def event_fd(self) -> int:
        """Readable when a device has something for a control thread (see `take_pending`)."""
        return int(self._library.xl_event_fd(self._loop))

    def take_pending(self) -> list[int]:
        """Devices with CPU frames, digests, pause events… to take; clears the event descriptor."""
        with suppress(BlockingIOError):
            os.read(self.event_fd(), 8)
        devices = (c_int * MAX_DEVICES)()
        count = self._library.xl_pending_take(self._loop, devices, MAX_DEVICES)
        return list(devices[:count])

    def add_device(self, engine: Engine) -> int:
        """Serve an engine; returns its number here. It must outlive `remove_device`."""
        return _check(self._library.xl_device_add(self._loop, engine.handle), "the packet loop is full")

    def remove_device(self, device: int) -> None:
        """Once this returns the thread touches neither the engine nor its sockets."""
        _check(self._library.xl_device_remove(self._loop, device), "the packet loop has no such device")

    def add_port(self, device: int, port: int, fd: int) -> None:
        """Serve a non-blocking packet socket as a port. The caller keeps and closes it."""
        _check(
            self._library.xl_port_add(self._loop, device, port, fd),
            f"port {port} cannot join the packet loop",
        )

    def remove_port(self, device: int, port: int) -> None:
        """Stop serving a port."""
        _check(
            self._library.xl_port_remove(self._loop, device, port), f"port {port} is not in the packet loop"
        )

    def link(self, a: int, a_port: int, b: int, b_port: int) -> None:
        """Join two ports without sockets, within the process, until one of the devices is removed."""
        _check(
            self._library.xl_link(self._loop, a, a_port, b, b_port),
            f"ports {a_port} and {b_port} cannot be joined: one has a socket or a peer",
        )

    def wake(self, device: int) -> None:
        """Poll the device now: a control thread has changed it."""
        self._library.xl_wake(self._loop, device)

    def port_stats(self, device: int, port: int) -> LoopPortStats:
        """Counters of a port."""
        stats = _PortStats()
        _check(
            self._library.xl_port_read(self._loop, device, port, ctypes.byref(stats)),
            f"port {port} is not in the packet loop",
        )
        return LoopPortStats(**{field.name: getattr(stats, field.name) for field in fields(LoopPortStats)})

    def losses(self, device: int, ports: Sequence[int]) -> tuple[int, ...]:
        """Packets that the loop itself has dropped at each port, of any reason."""
        counts = (c_uint64 * len(ports))()
        self._library.xl_losses(self._loop, device, (c_uint32 * len(ports))(*ports), len(ports), counts)
        return tuple(counts)

    def unattached(self, device: int) -> tuple[int, int]:
        """(packets, bytes) that the engine sent to ports without a socket."""
        counts = (c_uint64 * 2)()
        _check(
            self._library.xl_unattached_read(self._loop, device, counts), "the packet loop has no such device"
        )
        return counts[0], counts[1]


def _check(result: int, problem: str) -> int:
    if result < 0:
        raise PacketLoopError(problem)
    return result


_loaded: ctypes.CDLL | None = None


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        library = runtime()
        signatures: dict[str, tuple[object, list[object]]] = {
            "xl_new": (c_void_p, []),
            "xl_free": (None, [c_void_p]),
            "xl_start": (c_int, [c_void_p]),
            "xl_device_add": (c_int, [c_void_p, c_void_p]),
            "xl_device_remove": (c_int, [c_void_p, c_int]),
            "xl_port_add": (c_int, [c_void_p, c_int, c_uint32, c_int]),
            "xl_port_remove": (c_int, [c_void_p, c_int, c_uint32]),
            "xl_link": (c_int, [c_void_p, c_int, c_uint32, c_int, c_uint32]),
            "xl_wake": (None, [c_void_p, c_int]),
            "xl_event_fd": (c_int, [c_void_p]),
            "xl_pending_take": (c_int, [c_void_p, POINTER(c_int), c_int]),
            "xl_port_read": (c_int, [c_void_p, c_int, c_uint32, POINTER(_PortStats)]),
            "xl_unattached_read": (c_int, [c_void_p, c_int, POINTER(c_uint64)]),
            "xl_losses": (None, [c_void_p, c_int, POINTER(c_uint32), c_uint32, POINTER(c_uint64)]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        _loaded = library
    return _loaded
