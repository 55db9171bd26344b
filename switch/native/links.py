"""Link state of interfaces: which are up with carrier, as the kernel reports changes over netlink."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator

from switch.native.ports import inside_namespace

_NETLINK_ROUTE = 0
_RTMGRP_LINK = 1
_RTM_NEWLINK = 16
_RTM_DELLINK = 17
_RTM_GETLINK = 18
_NLM_F_REQUEST = 1
_NLM_F_DUMP = 0x300
_NLMSG_DONE = 3
_IFF_UP = 1
_IFF_LOWER_UP = 0x10000
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_RECEIVE_BYTES = 1 << 16


class LinkWatch:
    """The links of one network namespace. `fileno` is readable when `changes` has something to say."""

    def __init__(self, namespace: str = "") -> None:
        """`namespace` as in `ports.open_port`, empty for this one. Raises OSError, PortError."""
        with inside_namespace(namespace):
            self._socket = socket.socket(
                socket.AF_NETLINK,
                socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
                _NETLINK_ROUTE,
            )
        self._socket.bind((0, _RTMGRP_LINK))
        self.refresh()

    def fileno(self) -> int:
        """For an event loop."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop watching."""
        self._socket.close()

    def refresh(self) -> None:
        """Ask for every link again; `changes` will tell."""
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        header = _HEADER.pack(_HEADER.size + len(body), _RTM_GETLINK, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0)
        self._socket.sendto(header + body, (0, 0))

    def changes(self) -> Iterator[tuple[int, bool]]:
        """(interface index, usable) for every link heard of since the last call, first all that exist.

        Usable is administratively up with carrier.
        """
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # notifications were lost: ask for everything again
                    raise
                self.refresh()
                continue
            yield from _links(data)


def _links(data: bytes) -> Iterator[tuple[int, bool]]:
    position = 0
    while position + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, position)
        if length < _HEADER.size or kind == _NLMSG_DONE:
            return
        if kind in (_RTM_NEWLINK, _RTM_DELLINK) and length >= _HEADER.size + _LINK.size:
            _, _, index, flags, _ = _LINK.unpack_from(data, position + _HEADER.size)
            yield index, kind == _RTM_NEWLINK and flags & _IFF_UP != 0 and flags & _IFF_LOWER_UP != 0
        position += (length + 3) & ~3
