"""Frames of programs/queues.p4 and an engine that runs it, in virtual time."""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

from p4programs import compiled

from switch.native.binding import Engine
from switch.native.program import Program

PAUSE, EGRESS_DROP, RECIRCULATE, PAUSE_IN_EGRESS, RECIRCULATE_ALWAYS, RESUBMIT_ALWAYS, CLONE_IN_EGRESS = (
    range(1, 8)
)
REGISTER = "pause"
GBPS = 10**9
_SHAPE = struct.Struct(">HBB6sI6s6sIIIIII")


class Seen(NamedTuple):
    """What a frame carries when it leaves."""

    port: int
    priority: int
    op: int
    ingress_ts: int
    egress_ts: int
    enq_ts: int
    deq_delta: int
    enq_depth: int
    deq_depth: int
    packet_length: int
    passes: int
    tag: bytes


def frame(
    port: int,
    priority: int = 0,
    op: int = 0,
    *,
    value: int = 0,
    index: int = 0,
    length: int = 100,
    tag: bytes = b"",
) -> bytes:
    """A frame of `length` bytes that goes to `port`; `tag` ends it."""
    zero = bytes(6)
    head = _SHAPE.pack(port, priority, op, value.to_bytes(6, "big"), index, zero, zero, 0, 0, 0, 0, 0, 0)
    return head + bytes(length - len(head) - len(tag)) + tag


def seen(data: bytes, tag_bytes: int = 0) -> Seen:
    """Read a frame."""
    f = _SHAPE.unpack_from(data)
    return Seen(
        f[0],
        f[1],
        f[2],
        int.from_bytes(f[5], "big"),
        int.from_bytes(f[6], "big"),
        *f[7:],
        data[len(data) - tag_bytes :],
    )


@functools.cache
def queues_program() -> Program:
    """programs/queues.p4."""
    json, p4info = compiled("queues")
    return Program.from_text(json.read_text(), p4info.read_text())


def engine(**options: Any) -> Engine:
    """An engine whose timestamps are nanoseconds."""
    return Engine(queues_program(), **{"timestamp_hz": 10**9, **options})


def wire_ns(length: int, rate_bps: int) -> float:
    """Nanoseconds that a frame occupies a link: IEEE 802.3 framing, 24 bytes of overhead, 60 bytes at least."""
    return (max(length, 60) + 24) * 8 * 1e9 / rate_bps
