"""Packet sockets: one raw AF_PACKET socket for each interface of a switch, opened here, served in loop.c."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_FRAME_BYTES = 9216 + 22
"""A 9216-byte jumbo packet with its Ethernet header and two VLAN tags."""
RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024
"""SO_RCVBUF. The kernel charges about twice a frame's bytes, so this holds some 7,000 frames of 1 kB."""
SEND_BUFFER_BYTES = 4 * 1024 * 1024

_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_STATISTICS = 6
_PACKET_AUXDATA = 8
_PACKET_IGNORE_OUTGOING = 23
_PACKET_MR_PROMISC = 1
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_ETH_P_ALL = 3
_CLONE_NEWNET = 0x40000000
_SIOCGIFINDEX = 0x8933


class PortError(Exception):
    """An interface cannot be attached; the message says which and why."""


def open_port(interface: str, *, outgoing: bool = False) -> socket.socket:
    """A non-blocking raw packet socket bound to `interface`.

    `interface` is a name in this network namespace, or `NAMESPACE/NAME` where NAMESPACE is a process id or a
    name under /run/netns. It receives every frame that arrives (promiscuous; VLAN tags in auxiliary data) and,
    unless `outgoing`, none that leave. Raises PortError.
    """
    namespace, name = split_interface(interface)
    try:
        with inside_namespace(namespace):
            return _open(name, outgoing)
    except PermissionError as error:
        raise PortError(f"interface {interface}: packet sockets need root (CAP_NET_RAW)") from error
    except OSError as error:
        if error.errno in (None, errno.ENODEV, errno.ENXIO):
            raise PortError(f"interface {interface} does not exist") from error
        raise PortError(f"interface {interface} cannot be attached: {error.strerror}") from error


def split_interface(interface: str) -> tuple[str, str]:
    """(namespace, name) of `NAMESPACE/NAME`; the namespace is empty for a plain name."""
    namespace, _, name = interface.rpartition("/")
    return namespace, name


def interface_index(sock: socket.socket) -> int:
    """The kernel's number of the interface that a packet socket is bound to, in the socket's own namespace."""
    name = str(sock.getsockname()[0])
    request = struct.pack("16si20x", name.encode(), 0)
    index: int = struct.unpack("16si20x", fcntl.ioctl(sock, _SIOCGIFINDEX, request))[1]
    return index


def kernel_drops(sock: socket.socket) -> int:
    """Frames that the kernel dropped for want of buffer since the last call."""
    data = sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
    return int(struct.unpack("II", data)[1])


def _open(name: str, outgoing: bool) -> socket.socket:
    index = socket.if_nametoindex(name)
    # Protocol 0 until it is bound: a socket opened with ETH_P_ALL first collects frames of every interface.
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    try:
        if not outgoing:
            sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        _set_buffer(sock, _SO_RCVBUFFORCE, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        _set_buffer(sock, _SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        membership = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
        sock.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)
        sock.bind((name, _ETH_P_ALL))
    except BaseException:
        sock.close()
        raise
    return sock


def _set_buffer(sock: socket.socket, force: int, plain: int, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, plain, size)


@contextmanager
def inside_namespace(namespace: str) -> Iterator[None]:
    """Run the block in another network namespace (this thread only); empty means where it is.

    Raises PortError when there is no such namespace.
    """
    if not namespace:
        yield
        return
    path = Path(f"/proc/{namespace}/ns/net") if namespace.isdigit() else Path("/run/netns") / namespace
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise PortError(f"network namespace {namespace} does not exist ({path})") from error
        try:
            _setns(other)
        finally:
            os.close(other)
        try:
            yield
        finally:
            _setns(own)
    finally:
        os.close(own)


def _setns(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
