"""Quiet network interfaces: namespaces entered, offloads and IPv6 switched off, RoCE kept from the kernel's UDP."""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROCE_UDP_PORT = 4791
FABRIC_MTU = 9216
"""Jumbo frames of data-centre switches: RoCE's largest MTU of 4096 with every header and telemetry fits."""

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
_OFFLOADS = {"rx": 0x15, "tx": 0x17, "sg": 0x19, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
"""ETHTOOL_S… commands of linux/ethtool.h. Left on, a veth passes half-made checksums and frames beyond the MTU."""
_SO_ATTACH_FILTER = 26


def in_namespace(pid: int, action: Callable[[], T]) -> T:
    """Run `action` in the network namespace of a process, on a thread of its own, and return its result.

    Sockets opened and files of /proc/sys/net written there belong to that namespace.
    """
    result: list[T] = []
    failure: list[BaseException] = []

    def enter() -> None:
        try:
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
                    code = ctypes.get_errno()
                    raise OSError(
                        code, f"the network namespace of process {pid} cannot be entered: {os.strerror(code)}"
                    )
            finally:
                os.close(descriptor)
            result.append(action())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=enter, name=f"netns-{pid}")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def offloads_off(interface: str) -> None:
    """Switch off checksum, scatter-gather and segmentation offloads of an interface of this namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in _OFFLOADS.values():
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(handle, _SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise


def ipv6_off(interface: str) -> None:
    """Keep IPv6 (router solicitations, neighbour discovery, MLD) off an interface; call before it comes up."""
    _write_sysctl(f"ipv6/conf/{interface}/disable_ipv6", "1")


def forwarding_off(interface: str) -> None:
    """Keep this namespace's IP stack from forwarding, or answering, what arrives on an interface."""
    _write_sysctl(f"ipv4/conf/{interface}/forwarding", "0")


def guard_roce_port() -> socket.socket:
    """Own UDP port 4791 in this namespace and discard what arrives; keep the socket open while the host lives.

    A host owns its IP address (ping works), so its kernel would answer RoCE frames, which reach the NIC through a
    packet socket, with ICMP port unreachable. A bound socket whose filter accepts nothing ends them silently.
    """
    guard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0 bytes
    guard.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(nothing)))
    guard.bind(("0.0.0.0", ROCE_UDP_PORT))
    return guard


def kernel_mac(mac: str) -> str:
    """The MAC that the kernel gets for a switch port: the plan's with another local prefix (02 -> 06).

    Frames are addressed to the plan's MAC, so the kernel of the root namespace takes them for somebody else's and
    its IP stack never looks at them; packet sockets see everything all the same.
    """
    return f"{int(mac[:2], 16) ^ 0x04:02x}{mac[2:]}"


def _write_sysctl(name: str, value: str) -> None:
    path = Path("/proc/sys/net") / name
    # Absent where the kernel has no IPv6: then there is nothing to switch off.
    if path.exists():
        path.write_text(value)
