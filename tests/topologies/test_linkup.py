"""Links that are said to be up carry the first frame."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator

import pytest

from topologies.linkup import LinkEvents
from topologies.runstate import delete_interface_group, run_ip

pytestmark = pytest.mark.root

ETH_P_ALL = 3
FRAME = b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(46)


@pytest.fixture
def group() -> Iterator[int]:
    number = secrets.randbelow(2**30) + 2**20
    yield number
    delete_interface_group(number)


def pair(group: int, number: int) -> tuple[str, str]:
    """A veth pair that is down."""
    first, second = (f"lk{os.getpid() % 100000}{number % 10}{end}" for end in "ab")
    run_ip(
        [
            "link",
            "add",
            first,
            "group",
            str(group),
            "type",
            "veth",
            "peer",
            "name",
            second,
            "group",
            str(group),
        ]
    )
    return first, second


def listener(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind((interface, ETH_P_ALL))
    sock.settimeout(10)
    return sock


def test_the_first_frame_of_the_end_that_came_up_first_arrives(group: int) -> None:
    for number in range(40):
        first, second = pair(group, number)
        with LinkEvents() as events:
            run_ip(["link", "set", first, "up"])
            run_ip(["link", "set", second, "up"])
            with listener(second) as there, listener(first) as here:
                events.wait_until_up(group, 10)
                here.send(FRAME)
                while there.recv(2048) != FRAME:  # the kernel's own, such as IPv6's
                    pass
        run_ip(["link", "delete", first])


def test_waiting_ends_when_the_peer_comes_up_and_not_before(group: int) -> None:
    first, second = pair(group, 0)
    over = threading.Event()
    with LinkEvents() as events:
        run_ip(["link", "set", first, "up"])
        waiting = threading.Thread(target=lambda: (events.wait_until_up(group, 10), over.set()))
        waiting.start()
        assert not over.wait(0.2)
        run_ip(["link", "set", second, "up"])
        assert over.wait(10)
        waiting.join()


def test_a_link_that_stays_down_is_named(group: int) -> None:
    first, _ = pair(group, 0)
    with (
        LinkEvents() as events,
        pytest.raises(RuntimeError, match=rf"{first[:-1]}[ab] did not come up within"),
    ):
        events.wait_until_up(group, 0.05)
