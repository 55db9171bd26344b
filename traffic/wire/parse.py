"""A received frame, read without scapy: which packet it is, or in one word why it is not one."""

from __future__ import annotations

from struct import Struct

from traffic.wire import telemetry
from traffic.wire.headers import (
    BTH_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ICRC_BYTES,
    IPV4_BYTES,
    PROTOCOL_UDP,
    ROCE_PORT,
    UDP_BYTES,
)
from traffic.wire.icrc import IcrcChecker

_IPV4 = Struct(">12xHBBH2xH1xB2x4s4sHHHHBB2xII")
_IPV6 = Struct(">12xHIHBB16s16sHHHHBB2xII")
IPV4_AFTER_BTH = 54
IPV6_AFTER_BTH = 74
LEAST_UDP_BYTES = UDP_BYTES + BTH_BYTES + ICRC_BYTES
ROCE_PORT_BYTES = ROCE_PORT.to_bytes(2, "big")


class FrameReader:
    """Reads the frames that reach one IP address, one at a time.

    After `read` has returned True the attributes describe the packet, whose lengths and checksums hold; after
    False, `reason` says why: `malformed`, `ip_checksum`, `not_roce`, `not_for_us` or `icrc`.
    """

    __slots__ = (
        "_icrc",
        "_ip",
        "ack_request",
        "becn",
        "body",
        "dqpn",
        "ecn",
        "end",
        "frame",
        "opcode",
        "psn",
        "reason",
        "source_ip",
        "source_port",
        "telemetry",
    )

    def __init__(self, ip: bytes) -> None:
        self._ip = ip
        self._icrc = IcrcChecker()
        self.reason = ""
        self.frame = b""
        """The frame without Ethernet padding and telemetry."""
        self.telemetry: bytes | None = None
        """INT shim, header and stack that were taken off, if there were any."""
        self.ecn = 0
        self.opcode = 0
        self.dqpn = 0
        self.ack_request = 0
        self.psn = 0
        self.source_ip = b""
        self.source_port = 0
        self.becn = 0
        """The BTH's BECN bit: the packet that this one answers met congestion."""
        self.body = 0
        """Offset of the first byte after the BTH."""
        self.end = 0
        """Offset of the first byte after the payload without its pad."""

    def _refuse(self, reason: str) -> bool:
        self.reason = reason
        return False

    def read(self, frame: bytes) -> bool:
        """Read one untagged Ethernet frame without FCS."""
        if len(frame) < IPV4_AFTER_BTH + ICRC_BYTES:
            return self._refuse("malformed")
        (
            ethertype, version_ihl, tos, total, fragment, protocol, source, destination,
            source_port, port, udp_bytes, _, opcode, flags, qpn, psn,
        ) = _IPV4.unpack_from(frame)  # fmt: skip
        if ethertype != ETHERTYPE_IPV4:
            return self._read_ipv6(frame) if ethertype == ETHERTYPE_IPV6 else self._refuse("not_roce")
        if version_ihl != 0x45 or fragment & 0x3FFF or total > len(frame) - 14:
            return self._refuse("malformed")
        if int.from_bytes(frame[14:34], "big") % 0xFFFF:
            return self._refuse("ip_checksum")
        if protocol != PROTOCOL_UDP:
            return self._refuse("not_roce")
        if destination != self._ip:
            return self._refuse("not_for_us")
        if udp_bytes != total - IPV4_BYTES:
            return self._refuse("malformed")
        if total != len(frame) - 14:
            frame = frame[: 14 + total]
        if port != ROCE_PORT:
            if port != telemetry.INT_UDP_PORT:
                return self._refuse("not_roce")
            extra = telemetry.length_of(frame, 42)
            if extra is None or udp_bytes - extra < LEAST_UDP_BYTES:
                return self._refuse("malformed")
            self.telemetry = frame[42 : 42 + extra]
            udp_bytes -= extra
            total -= extra
            frame = b"".join(
                (
                    frame[:16],
                    total.to_bytes(2, "big"),
                    frame[18:36],
                    ROCE_PORT_BYTES,
                    udp_bytes.to_bytes(2, "big"),
                    frame[40:42],
                    frame[42 + extra :],
                )
            )
            opcode, flags = frame[42:44]
            qpn = int.from_bytes(frame[46:50], "big")
            psn = int.from_bytes(frame[50:54], "big")
        else:
            self.telemetry = None
        pad = flags >> 4 & 3
        if flags & 0x0F or udp_bytes < LEAST_UDP_BYTES + pad:
            return self._refuse("malformed")
        if not self._icrc.good_ipv4(frame):
            return self._refuse("icrc")
        self.frame = frame
        self.ecn = tos & 3
        self.opcode = opcode
        self.dqpn = qpn & 0xFFFFFF
        self.becn = qpn >> 30 & 1
        self.ack_request = psn >> 31
        self.psn = psn & 0xFFFFFF
        self.source_ip = source
        self.source_port = source_port
        self.body = IPV4_AFTER_BTH
        self.end = total + 10 - pad
        return True

    def _read_ipv6(self, frame: bytes) -> bool:
        if len(frame) < IPV6_AFTER_BTH + ICRC_BYTES:
            return self._refuse("malformed")
        (
            _, word, payload, protocol, _, source, destination,
            source_port, port, udp_bytes, _, opcode, flags, qpn, psn,
        ) = _IPV6.unpack_from(frame)  # fmt: skip
        if word >> 28 != 6 or payload > len(frame) - 54:
            return self._refuse("malformed")
        if protocol != PROTOCOL_UDP:
            return self._refuse("not_roce")
        if destination != self._ip:
            return self._refuse("not_for_us")
        if udp_bytes != payload:
            return self._refuse("malformed")
        if payload != len(frame) - 54:
            frame = frame[: 54 + payload]
        self.telemetry = None
        if port != ROCE_PORT:
            if port != telemetry.INT_UDP_PORT:
                return self._refuse("not_roce")
            extra = telemetry.length_of(frame, 62)
            if extra is None or udp_bytes - extra < LEAST_UDP_BYTES:
                return self._refuse("malformed")
            self.telemetry = frame[62 : 62 + extra]
            payload -= extra
            length = payload.to_bytes(2, "big")
            frame = b"".join(
                (frame[:18], length, frame[20:56], ROCE_PORT_BYTES, length, frame[60:62], frame[62 + extra :])
            )
            opcode, flags = frame[62:64]
            qpn = int.from_bytes(frame[66:70], "big")
            psn = int.from_bytes(frame[70:74], "big")
        pad = flags >> 4 & 3
        if flags & 0x0F or payload < LEAST_UDP_BYTES + pad:
            return self._refuse("malformed")
        if not self._icrc.good_ipv6(frame):
            return self._refuse("icrc")
        self.frame = frame
        self.ecn = word >> 20 & 3
        self.opcode = opcode
        self.dqpn = qpn & 0xFFFFFF
        self.becn = qpn >> 30 & 1
        self.ack_request = psn >> 31
        self.psn = psn & 0xFFFFFF
        self.source_ip = source
        self.source_port = source_port
        self.body = IPV6_AFTER_BTH
        self.end = payload + 50 - pad
        return True
