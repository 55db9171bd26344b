"""Frames from a template: what scapy built once, patched for every packet.

A `FlowTemplate` is one direction of one queue pair at one DSCP and ECN codepoint. Everything up to the PSN is the
same for all packets with one opcode and length, and so is the ICRC over it: a `Head` keeps both, and a packet
costs one concatenation and one CRC over what is left.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from traffic.wire.headers import (
    AETH_BYTES,
    BTH_BYTES,
    CNP_PAYLOAD_BYTES,
    ETHERNET_BYTES,
    ICRC_BYTES,
    IPV4_BYTES,
    IPV6_BYTES,
    UDP_BYTES,
    Opcode,
)
from traffic.wire.icrc import prefix_state
from traffic.wire.telemetry import INT_UDP_PORT

BE32 = Struct(">I")
LE32 = Struct("<I")
RETH = Struct(">QII")
BECN = 0x40
BTH_BYTES_BEFORE_PSN = 8
INT_PORT_BYTES = INT_UDP_PORT.to_bytes(2, "big")
PAD_SHIFT = 4
ACK_REQUEST = 1 << 31
MAX_ACK_HEADS = 256


def ipv4_checksum(header: bytes) -> int:
    """Internet checksum (RFC 1071) of a header whose checksum field is zero."""
    total = int.from_bytes(header, "big") % 0xFFFF
    return 0xFFFF - total if total else 0


class Head(NamedTuple):
    """A frame up to and without the last four bytes of its BTH."""

    data: bytes
    icrc: int
    """CRC state over `data` with the variant fields masked."""


class FlowTemplate:
    """Patches the prototype frame of a NIC for one flow.

    `prototype`: Ethernet, IPv4 or IPv6, UDP and BTH as scapy built them (`traffic.wire.prototype`).
    """

    def __init__(
        self, prototype: bytes, *, remote_ip: str, remote_qpn: int, source_port: int, dscp: int, ecn: int
    ) -> None:
        self._frame = bytearray(prototype)
        self.ipv6 = prototype[14] >> 4 == 6
        self._network = IPV6_BYTES if self.ipv6 else IPV4_BYTES
        self.bth = ETHERNET_BYTES + self._network + UDP_BYTES
        """Offset of the BTH."""
        address = ipaddress.ip_address(remote_ip).packed
        if len(address) != (16 if self.ipv6 else 4):
            raise ValueError(f"{remote_ip} is not of the IP version of the NIC.")
        tos = dscp << 2 | ecn
        if self.ipv6:
            self._frame[14:16] = (0x6000 | tos << 4 | self._frame[15] & 0x0F).to_bytes(2, "big")
            self._frame[38:54] = address
        else:
            self._frame[15] = tos
            self._frame[30:34] = address
        self._source_port = source_port
        self._remote_qpn = remote_qpn
        self._ack_heads: dict[tuple[int, int], Head] = {}
        """By length of the echoed telemetry, and source port."""

    def prefix(self, after_bth: int, extra: int = 0, source_port: int = 0) -> bytes:
        """Ethernet, IP and UDP for a packet with `after_bth` bytes between BTH and ICRC and `extra` before the BTH.

        `source_port` 0 is the flow's own.
        """
        frame = self._frame
        udp_bytes = UDP_BYTES + extra + BTH_BYTES + after_bth + ICRC_BYTES
        udp = ETHERNET_BYTES + self._network
        frame[udp : udp + 2] = (source_port or self._source_port).to_bytes(2, "big")
        frame[udp + 4 : udp + 6] = udp_bytes.to_bytes(2, "big")
        if self.ipv6:
            frame[18:20] = udp_bytes.to_bytes(2, "big")
        else:
            frame[16:18] = (IPV4_BYTES + udp_bytes).to_bytes(2, "big")
            frame[24:26] = b"\0\0"
            frame[24:26] = ipv4_checksum(bytes(frame[14:34])).to_bytes(2, "big")
        return bytes(frame[: self.bth])

    def head(
        self,
        opcode: int,
        after_bth: int,
        *,
        pad: int = 0,
        becn: bool = False,
        shim: bytes = b"",
        source_port: int = 0,
    ) -> Head:
        """The start of a packet with `after_bth` bytes (pad included) between its BTH and its ICRC.

        `shim`: INT headers to put between UDP and BTH. The ICRC is that of the packet without them, as the
        receiver will see it. `source_port` 0 is the flow's own.
        """
        flags = self._frame[self.bth + 1] & 0xCF | pad << PAD_SHIFT
        pkey = bytes(self._frame[self.bth + 2 : self.bth + 4])
        qpn = self._remote_qpn.to_bytes(3, "big")
        start = bytes((opcode, flags)) + pkey
        icrc = crc32(start + b"\xff" + qpn, prefix_state(self.prefix(after_bth, 0, source_port)))
        variant = bytes((BECN if becn else 0,))
        outer = self.prefix(after_bth, len(shim), source_port)
        if shim:
            outer = outer[: -UDP_BYTES + 2] + INT_PORT_BYTES + outer[-UDP_BYTES + 4 :] + shim
        return Head(outer + start + variant + qpn, icrc)

    def acknowledge(
        self,
        psn: int,
        syndrome: int,
        msn: int,
        shim: bytes = b"",
        *,
        source_port: int = 0,
        becn: bool = False,
    ) -> bytes:
        """An ACK or NAK; `shim` echoes telemetry, `source_port` and `becn` a packet's entropy and mark."""
        key = len(shim), source_port
        head = self._ack_heads.get(key)
        if head is None:
            if len(self._ack_heads) >= MAX_ACK_HEADS:
                self._ack_heads.clear()
            head = self._ack_heads[key] = self.head(
                Opcode.ACKNOWLEDGE, AETH_BYTES, shim=shim, source_port=source_port
            )
        data, icrc = head
        if becn:
            data = b"".join((data[:-4], bytes((BECN,)), data[-3:]))
        if shim:
            data = data[: self.bth] + shim + data[-BTH_BYTES_BEFORE_PSN:]
        body = BE32.pack(psn) + BE32.pack(syndrome << 24 | msn)
        return data + body + LE32.pack(crc32(body, icrc))

    def cnp(self) -> bytes:
        """A congestion notification packet (annex A17.9.3): BECN set, 16 reserved bytes."""
        data, icrc = self.head(Opcode.CNP, CNP_PAYLOAD_BYTES, becn=True)
        body = bytes(4 + CNP_PAYLOAD_BYTES)
        return data + body + LE32.pack(crc32(body, icrc))
