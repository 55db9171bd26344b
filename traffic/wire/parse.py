"""A received frame, read without scapy: which packet it is, or in one word why it is not one."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from traffic.wire.headers import (
    BTH_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ICRC_BYTES,
    PROTOCOL_UDP,
    ROCE_PORT,
    UDP_BYTES,
)
from traffic.wire.icrc import IcrcChecker

_IPV4 = Struct(">12xHBBHHHBBH4s4sHHHHBBHII")
_IPV6 = Struct(">12xHIHBB16s16sHHHHBBHII")
IPV4_AFTER_BTH = 54
IPV6_AFTER_BTH = 74


class Packet(NamedTuple):
    """A RoCEv2 packet whose lengths and checksums hold."""

    traffic_class: int
    ecn: int
    opcode: int
    pad: int
    dqpn: int
    ack_request: int
    psn: int
    source_ip: bytes
    body: int
    """Offset of the first byte after the BTH."""
    end: int
    """Offset of the ICRC."""


class FrameReader:
    """Reads the frames that reach one IP address. `reason` says why the last one was refused."""

    def __init__(self, ip: bytes) -> None:
        self._ip = ip
        self._icrc = IcrcChecker()
        self.reason = ""

    def read(self, frame: bytes) -> Packet | None:
        """The packet, or None with `reason`: `malformed`, `ip_checksum`, `not_for_us`, `not_roce`, `icrc`."""
        if len(frame) < IPV4_AFTER_BTH + ICRC_BYTES:
            self.reason = "malformed"
            return None
        (
            ethertype, version_ihl, tos, total, _, fragment, _, protocol, _, source, destination,
            _, port, udp_bytes, _, opcode, flags, _, qpn, psn,
        ) = _IPV4.unpack_from(frame)  # fmt: skip
        if ethertype != ETHERTYPE_IPV4:
            if ethertype == ETHERTYPE_IPV6:
                return self._read_ipv6(frame)
            self.reason = "not_roce"
            return None
        if version_ihl != 0x45 or fragment & 0x3FFF or total < 20 + UDP_BYTES or total > len(frame) - 14:
            self.reason = "malformed"
            return None
        if int.from_bytes(frame[14:34], "big") % 0xFFFF:
            self.reason = "ip_checksum"
            return None
        if protocol != PROTOCOL_UDP or port != ROCE_PORT:
            self.reason = "not_roce"
            return None
        if destination != self._ip:
            self.reason = "not_for_us"
            return None
        if udp_bytes != total - 20 or udp_bytes < UDP_BYTES + BTH_BYTES + ICRC_BYTES or flags & 0x0F:
            self.reason = "malformed"
            return None
        if total != len(frame) - 14:
            frame = frame[: 14 + total]
        if not self._icrc.good_ipv4(frame):
            self.reason = "icrc"
            return None
        return Packet(
            tos >> 5, tos & 3, opcode, flags >> 4 & 3, qpn & 0xFFFFFF, psn >> 31, psn & 0xFFFFFF, source,
            IPV4_AFTER_BTH, total + 10,
        )  # fmt: skip

    def _read_ipv6(self, frame: bytes) -> Packet | None:
        if len(frame) < IPV6_AFTER_BTH + ICRC_BYTES:
            self.reason = "malformed"
            return None
        (
            _, word, payload, protocol, _, source, destination,
            _, port, udp_bytes, _, opcode, flags, _, qpn, psn,
        ) = _IPV6.unpack_from(frame)  # fmt: skip
        if word >> 28 != 6 or payload > len(frame) - 54:
            self.reason = "malformed"
            return None
        if protocol != PROTOCOL_UDP or port != ROCE_PORT:
            self.reason = "not_roce"
            return None
        if destination != self._ip:
            self.reason = "not_for_us"
            return None
        if udp_bytes != payload or udp_bytes < UDP_BYTES + BTH_BYTES + ICRC_BYTES or flags & 0x0F:
            self.reason = "malformed"
            return None
        if payload != len(frame) - 54:
            frame = frame[: 54 + payload]
        if not self._icrc.good_ipv6(frame):
            self.reason = "icrc"
            return None
        tos = word >> 20 & 0xFF
        return Packet(
            tos >> 5, tos & 3, opcode, flags >> 4 & 3, qpn & 0xFFFFFF, psn >> 31, psn & 0xFFFFFF, source,
            IPV6_AFTER_BTH, payload + 50,
        )  # fmt: skip
