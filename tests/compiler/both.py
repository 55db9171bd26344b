"""One packet through a compiled program on the native switch and on the small interpreter, which must agree."""

from __future__ import annotations

import json
from typing import Any

from switch.native.binding import Engine
from switch.native.program import Program
from tests.compiler.mini_bmv2 import Switch

SECOND = 1_000_000_000
PORTS = 4


def engine(document: dict[str, Any]) -> Engine:
    """A native switch with ports 0 to 3."""
    made = Engine(Program.from_text(json.dumps(document)))
    for port in range(PORTS):
        made.add_port(port)
    return made


def frames(switch: Engine, packet: bytes, port: int = 0, now: int = SECOND) -> list[tuple[int, bytes]]:
    """(port, frame) of everything that comes of one packet."""
    switch.rx(port, packet, now)
    out: list[tuple[int, bytes]] = []
    for _ in range(1000):
        out += switch.poll(now)
        after = switch.next_deadline()
        if after is None:
            return out
        now = max(now, after)
    raise AssertionError("the packet never leaves")


def native(document: dict[str, Any], packet: bytes) -> list[tuple[int, bytes]]:
    """(port, frame) of everything that comes of one packet on a switch of its own."""
    with engine(document) as switch:
        return frames(switch, packet)


def both(document: dict[str, Any], packet: bytes) -> bytes:
    """The packet that comes out of port 0."""
    ((port, frame),) = native(document, packet)
    assert port == 0
    assert frame == Switch(document).run(packet), "the native switch and the interpreter differ"
    return frame
