"""A full-duplex Ethernet link as both of its ends count it: wire bytes, bit times, propagation.

The sender owns the link: it hands a frame out when the frame's last bit has reached the far end.
"""

from __future__ import annotations

FCS_BYTES = 4
PREAMBLE_BYTES = 8
"""Preamble and start-of-frame delimiter, IEEE 802.3 clause 3.1.1."""
INTERFRAME_GAP_BYTES = 12
"""96 bit times, IEEE 802.3 clause 4.4.2."""
MIN_FRAME_BYTES = 60
"""Shortest frame without its FCS; a shorter one is padded on the wire."""
WIRE_OVERHEAD_BYTES = FCS_BYTES + PREAMBLE_BYTES + INTERFRAME_GAP_BYTES
"""Bytes of link time that a frame costs beyond the bytes a packet socket sees (24)."""
PFC_QUANTUM_BITS = 512
"""One pause quantum in bit times, IEEE 802.3 annex 31B.2."""

PS_PER_S = 10**12


def wire_bytes(frame_bytes: int) -> int:
    """Link bytes that a frame of `frame_bytes` (as AF_PACKET sees it, without FCS) occupies."""
    return max(frame_bytes, MIN_FRAME_BYTES) + WIRE_OVERHEAD_BYTES


def wire_time_ps(frame_bytes: int, rate_bps: int) -> int:
    """Picoseconds that the frame occupies a link of `rate_bps` bit/s, rounded down.

    Picoseconds keep a 100 Gb/s byte (80 ps) exact; both ends accumulate in this unit.
    """
    return wire_bytes(frame_bytes) * 8 * PS_PER_S // rate_bps
