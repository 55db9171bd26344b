"""INT-MD 2.1 between UDP and BTH, as NICs add, strip and echo it (byte layout: docs/fabric.md).

A data packet leaves with an empty stack; every switch pushes one hop. The receiver takes the headers off, which
makes the ICRC right again, and returns the stack to the sender in its ACK: the same headers with no hop remaining,
so that switches leave it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from traffic.wire.headers import ROCE_PORT

INT_UDP_PORT = 64791
SHIM_BYTES = 4
MD_BYTES = 12
VERSION = 2
MAX_HOPS = 8
INSTRUCTIONS = 0x9400
"""Node id, queue occupancy, egress timestamp."""
DS_INSTRUCTIONS = 0xC000
"""Bytes sent and rate of the egress port."""
HOP_WORDS = 7
_HEADERS = Struct(">BBHIHHHH")
_HOP = Struct(">IIQQI")


class HopTelemetry(NamedTuple):
    """What one switch wrote into a packet when it left its queue."""

    node_id: int
    queue_bytes: int
    """Bytes left in the egress queue."""
    timestamp_ns: int
    """Dequeue time on the switch's own clock, ns of the driving clock."""
    tx_bytes: int
    """Wire bytes that the egress port has sent."""
    rate_bps: int
    """Rate of the egress port on the driving clock."""


def headers(domain_id: int, remaining_hops: int = MAX_HOPS, stack: bytes = b"") -> bytes:
    """Shim, INT-MD header and `stack`."""
    return (
        _HEADERS.pack(
            1 << 4 | 1 << 2,
            (MD_BYTES + len(stack)) // 4,
            ROCE_PORT,
            VERSION << 28 | HOP_WORDS << 8 | remaining_hops,
            INSTRUCTIONS,
            domain_id,
            DS_INSTRUCTIONS,
            0,
        )
        + stack
    )


def length_of(data: bytes, offset: int) -> int | None:
    """Bytes that shim, header and stack at `offset` occupy; None when they are not INT-MD over RoCE or cut short."""
    if len(data) < offset + SHIM_BYTES + MD_BYTES:
        return None
    kind, words, port, word, *_ = _HEADERS.unpack_from(data, offset)
    total: int = SHIM_BYTES + 4 * words
    if kind >> 2 != 0b000101 or port != ROCE_PORT or word >> 28 != VERSION:
        return None
    if words < MD_BYTES // 4 or offset + total > len(data):
        return None
    return total


def hops(data: bytes) -> Sequence[HopTelemetry]:
    """The hops in path order of a whole shim, header and stack; empty when it holds other instructions than ours."""
    _, words, _, word, instructions, _, ds_instructions, _ = _HEADERS.unpack_from(data)
    if instructions != INSTRUCTIONS or ds_instructions != DS_INSTRUCTIONS or word >> 8 & 0x1F != HOP_WORDS:
        return ()
    count, rest = divmod(words * 4 - MD_BYTES, 4 * HOP_WORDS)
    if rest or len(data) < SHIM_BYTES + 4 * words:
        return ()
    found = []
    for index in range(count - 1, -1, -1):
        node, queue, timestamp, sent, kbps = _HOP.unpack_from(
            data, SHIM_BYTES + MD_BYTES + index * 4 * HOP_WORDS
        )
        found.append(HopTelemetry(node, queue & 0xFFFFFF, timestamp, sent, kbps * 1000))
    return found
