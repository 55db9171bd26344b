"""When a veth pair can carry frames: the kernel makes the end that was brought up first able to send a moment later.

An end that comes up before its peer has no carrier. When the peer follows, a worker of the kernel attaches the sending
side (net/core/link_watch.c); what is sent until then is dropped without an error. It sets the operational state first
and attaches next, both under the lock of all link changes: a change made after the state was seen comes after both.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time

from topologies.runstate import run_ip

LINK_EVENTS = 1
"""RTMGRP_LINK of linux/rtnetlink.h."""
_STATE = re.compile(r"^\d+: ([^@:\s]+).* state (\S+)", re.MULTILINE)


class LinkEvents:
    """A socket that hears of every change of a link in this namespace; open it before bringing links up."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, LINK_EVENTS))

    def __enter__(self) -> LinkEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def wait_until_up(self, group: int, seconds: float) -> None:
        """Return when every interface of a group can send. RuntimeError, naming one, after `seconds`."""
        deadline = time.monotonic() + seconds
        while waiting := _not_up(group):
            left = deadline - time.monotonic()
            if left <= 0:
                raise RuntimeError(f"the interface {waiting[0]} did not come up within {seconds:g} s")
            if select.select([self._socket], [], [], left)[0]:
                # All that has come up to now; an error says that events were lost, which is one, too.
                with contextlib.suppress(OSError):
                    while self._socket.recv(65536, socket.MSG_DONTWAIT):
                        pass
        run_ip(["link", "set", "group", str(group), "up"])


def _not_up(group: int) -> list[str]:
    shown = run_ip(["-oneline", "link", "show", "group", str(group)])
    return [name for name, state in _STATE.findall(shown) if state != "UP"]
