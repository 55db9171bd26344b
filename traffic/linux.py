"""The Linux calls that Python 3.10 does not have: network namespaces, precise timers, packet sockets."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNET = 0x40000000
SOL_PACKET = 263
PACKET_STATISTICS = 6
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
CLOCK_MONOTONIC = 1
TFD_NONBLOCK = 0o4000
TFD_CLOEXEC = 0o2000000
TFD_TIMER_ABSTIME = 1
NS_PER_S = 10**9


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_ = [("interval", _Timespec), ("value", _Timespec)]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@contextmanager
def network_namespace(path: str | None) -> Iterator[None]:
    """Run the body in the network namespace at `path` (`/proc/PID/ns/net`); None stays where we are.

    Sockets opened inside keep belonging to it. OSError when it cannot be entered.
    """
    if path is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _checked(_libc.setns(target, CLONE_NEWNET))
        finally:
            os.close(target)
        try:
            yield
        finally:
            _checked(_libc.setns(home, CLONE_NEWNET))
    finally:
        os.close(home)


def packet_socket(interface: str, receive_bytes: int = 8 << 20) -> socket.socket:
    """A non-blocking AF_PACKET socket bound to `interface` of the current namespace, for what comes in only.

    What it sends takes the interface's usual way (no PACKET_QDISC_BYPASS), where tcpdump sees it.
    """
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # no protocol: nothing is queued before bind
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, receive_bytes)
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.bind((interface, ETH_P_ALL))
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def kernel_drops(sock: socket.socket) -> int:
    """Frames that the kernel dropped at a packet socket since the last call, for want of buffer."""
    data = sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
    drops: int = struct.unpack("II", data)[1]
    return drops


def deaf_udp_socket(port: int) -> socket.socket:
    """A UDP socket that discards everything, so that the kernel's stack does not answer `port` with ICMP."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0
        program = struct.pack("HL", 1, ctypes.addressof(instruction))
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        sock.bind(("", port))
    except OSError:
        sock.close()
        raise
    return sock


class Timer:
    """A timerfd on CLOCK_MONOTONIC (`time.monotonic_ns`), readable from the set time on."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC))
        self._spec = _Itimerspec()
        self._reference = ctypes.byref(self._spec)

    def set(self, at_ns: int | None) -> None:
        """Fire at that time, once; None disarms."""
        value = self._spec.value
        if at_ns is None:
            value.seconds = value.nanoseconds = 0
        else:
            value.seconds, value.nanoseconds = divmod(max(1, at_ns), NS_PER_S)
        _checked(_libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, self._reference, None))

    def drain(self) -> None:
        """Make it unreadable again."""
        try:
            os.read(self.fd, 8)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)
