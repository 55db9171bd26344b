"""The invariant CRC of RoCEv2 (annex A17.3.3): CRC-32 over a frame with the fields that may change set to ones.

Covered are eight bytes of ones (the dummy LRH), the IP header with TOS, TTL and checksum as ones (IPv6: traffic
class, flow label and hop limit), the UDP header with its checksum as ones, the BTH with its byte of FECN, BECN and
reserved bits as ones, and the rest. It is sent with the least significant byte first.
"""

from __future__ import annotations

from zlib import crc32

from traffic.wire.headers import ETHERNET_BYTES, ICRC_BYTES, IPV4_BYTES, IPV6_BYTES, UDP_BYTES

DUMMY_LRH = b"\xff" * 8
MASKED_BTH_BYTE = 4
"""Offset in the BTH of the byte that holds FECN, BECN and six reserved bits."""


def prefix_state(frame: bytes) -> int:
    """CRC of everything before the BTH of a frame (or of its first bytes up to there), to be continued with crc32."""
    return crc32(_masked_ip_udp(frame))


def _masked_ip_udp(frame: bytes) -> bytes:
    if frame[14] >> 4 == 4:
        return b"".join(
            (
                DUMMY_LRH,
                frame[14:15],
                b"\xff",
                frame[16:22],
                b"\xff",
                frame[23:24],
                b"\xff\xff",
                frame[26:40],
                b"\xff\xff",
            )
        )
    return b"".join((DUMMY_LRH, b"\x6f\xff\xff\xff", frame[18:21], b"\xff", frame[22:60], b"\xff\xff"))


def frame_icrc(frame: bytes) -> int:
    """ICRC of an untagged Ethernet frame that ends with its four ICRC bytes; what they hold does not matter."""
    network = IPV4_BYTES if frame[14] >> 4 == 4 else IPV6_BYTES
    bth = ETHERNET_BYTES + network + UDP_BYTES
    state = prefix_state(frame)
    return crc32(
        frame[bth : bth + MASKED_BTH_BYTE] + b"\xff" + frame[bth + MASKED_BTH_BYTE + 1 : -ICRC_BYTES], state
    )


class IcrcChecker:
    """Checks received frames. The state after IP and UDP is the same for all frames of a flow with one length,
    so it is remembered; memory is bounded."""

    LIMIT = 4096

    def __init__(self) -> None:
        self._ipv4: dict[bytes, int] = {}

    def good_ipv4(self, frame: bytes) -> bool:
        """Whether the last four bytes of an untagged IPv4 frame without options are its ICRC."""
        key = frame[16:22] + frame[26:40]
        state = self._ipv4.get(key)
        if state is None:
            if len(self._ipv4) >= self.LIMIT:
                self._ipv4.clear()
            state = self._ipv4[key] = prefix_state(frame)
        return crc32(frame[42:46] + b"\xff" + frame[47:-4], state) == int.from_bytes(frame[-4:], "little")

    def good_ipv6(self, frame: bytes) -> bool:
        """The same for IPv6 without extension headers."""
        return frame_icrc(frame) == int.from_bytes(frame[-4:], "little")
