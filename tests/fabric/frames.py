"""Frames built byte by byte, so that no tested code is used to expect its own results."""

from __future__ import annotations

import ipaddress
import struct

ROCE_PORT = 4791
INT_PORT = 64791
PFC_ADDRESS = bytes.fromhex("0180c2000001")


def mac(text: str) -> bytes:
    """Six bytes of `02:00:…`."""
    return bytes.fromhex(text.replace(":", ""))


def internet_checksum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(
    src: str, dst: str, payload: bytes, *, dscp: int = 24, ecn: int = 2, ttl: int = 64, proto: int = 17
) -> bytes:
    """An IPv4 packet; ECN 2 is ECT(0)."""
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, dscp << 2 | ecn, 20 + len(payload), 1, 0, ttl, proto, 0,
        ipaddress.IPv4Address(src).packed, ipaddress.IPv4Address(dst).packed,
    )  # fmt: skip
    return head[:10] + struct.pack(">H", internet_checksum(head)) + head[12:] + payload


def ipv6(src: str, dst: str, payload: bytes, *, dscp: int = 24, ecn: int = 2, hop_limit: int = 64) -> bytes:
    """An IPv6 packet carrying UDP."""
    return (
        struct.pack(">IHBB", 6 << 28 | (dscp << 2 | ecn) << 20, len(payload), 17, hop_limit)
        + ipaddress.IPv6Address(src).packed
        + ipaddress.IPv6Address(dst).packed
        + payload
    )


def udp(sport: int, dport: int, payload: bytes, checksum: int = 0) -> bytes:
    """A datagram; checksum 0 as RoCEv2 sends it."""
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), checksum) + payload


def bth(opcode: int = 0x04, psn: int = 0, qp: int = 0x11) -> bytes:
    """InfiniBand base transport header."""
    return struct.pack(">BBHII", opcode, 0, 0xFFFF, qp, psn)


def ethernet(dst: str, src: str, ethertype: int, payload: bytes) -> bytes:
    """A frame without FCS, not padded."""
    return mac(dst) + mac(src) + struct.pack(">H", ethertype) + payload


def pfc(quanta: dict[int, int], src: str = "02:00:00:00:00:99") -> bytes:
    """An 802.1Qbb frame that names the given classes, 60 bytes."""
    enable = sum(1 << cls for cls in quanta)
    times = [quanta.get(cls, 0) for cls in range(8)]
    body = struct.pack(">HBB8H", 0x0101, 0, enable, *times)
    return PFC_ADDRESS + mac(src) + struct.pack(">H", 0x8808) + body + bytes(26)


def read_pfc(frame: bytes) -> dict[int, int] | None:
    """Class to quanta of a PFC frame, None for any other frame."""
    if frame[12:16] != b"\x88\x08\x01\x01":
        return None
    times = struct.unpack(">8H", frame[18:34])
    return {cls: times[cls] for cls in range(8) if frame[17] >> cls & 1}


def int_headers(
    *,
    instructions: int,
    ds: int = 0,
    hop_ml: int,
    remaining: int = 8,
    stack: bytes = b"",
    domain: int = 1,
    dport: int = ROCE_PORT,
    flags: int = 0,
    version: int = 2,
) -> bytes:
    """INT shim, INT-MD header and stack; `flags` is D, E, M as bits 2, 1, 0."""
    return (
        struct.pack(">BBH", 0x14, 3 + len(stack) // 4, dport)
        + struct.pack(">I", version << 28 | flags << 25 | hop_ml << 8 | remaining)
        + struct.pack(">HHHH", instructions, domain, ds, 0)
        + stack
    )
