"""Priority-based flow control frames (IEEE 802.1Qbb, 802.3 annex 31D) as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from switch.link import MIN_FRAME_BYTES

DESTINATION = bytes.fromhex("0180c2000001")
OPCODE = 0x0101
_FRAME = Struct(">6s6sHHH8H")
MAX_QUANTA = 0xFFFF


def build(source_mac: bytes, quanta: Mapping[int, int]) -> bytes:
    """A PFC frame that pauses each class for that many quanta (0 = XON), padded to the shortest frame."""
    times = [0] * 8
    enable = 0
    for traffic_class, value in quanta.items():
        times[traffic_class] = value
        enable |= 1 << traffic_class
    frame = _FRAME.pack(DESTINATION, source_mac, 0x8808, OPCODE, enable, *times)
    return frame.ljust(MIN_FRAME_BYTES, b"\0")


def parse(frame: bytes) -> list[tuple[int, int]] | None:
    """(class, quanta) of every enabled class of a MAC control frame; None when it is not a whole PFC frame."""
    if len(frame) < _FRAME.size:
        return None
    destination, _, ethertype, opcode, enable, *times = _FRAME.unpack_from(frame)
    if destination != DESTINATION or ethertype != 0x8808 or opcode != OPCODE:
        return None
    return [(c, times[c]) for c in range(8) if enable >> c & 1]
