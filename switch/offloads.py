"""Offloads of interfaces, switched off.

A veth passes frames on as its sender's kernel made them: without transport checksums and, for TCP, in pieces of
64 KiB. A packet socket would see just that, and no switch could forward it.
"""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct

from switch.native.ports import inside_namespace, split_interface

_SIOCETHTOOL = 0x8946
# linux/ethtool.h: rx checksum, tx checksum, scatter-gather, TSO, GSO, GRO.
_SET_COMMANDS = (0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C)


def disable_offloads(interface: str) -> None:
    """Make an interface send whole frames with checksums; `interface` as in `switch.native.ports.open_port`.

    Raises OSError (no such interface, not permitted) and PortError (no such namespace).
    """
    namespace, name = split_interface(interface)
    with inside_namespace(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in _SET_COMMANDS:
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(handle, _SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
