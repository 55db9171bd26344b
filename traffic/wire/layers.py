"""scapy layers of RoCEv2 that scapy.contrib.roce does not have, bound by BTH opcode.

`scapy.contrib.roce` brings BTH, AETH and the CNP; here are RETH, ImmDt, AtomicETH, AtomicAckETH and DETH (IB
specification 9.3), so that every RC, UC and UD packet dissects down to its payload. PFC frames are in
`scapy.contrib.mac_control`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.contrib.roce import AETH, BTH
from scapy.fields import BitField, IntField, XByteField, XIntField, XLongField
from scapy.packet import Packet, bind_layers

UC = 0x20
UD = 0x60


class ImmDt(Packet):
    """Immediate data, 4 bytes."""

    name = "ImmDt"
    fields_desc: ClassVar[list[Any]] = [XIntField("data", 0)]


class RETH(Packet):
    """RDMA extended transport header, 16 bytes."""

    name = "RETH"
    fields_desc: ClassVar[list[Any]] = [XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0)]

    def guess_payload_class(self, payload: bytes) -> Any:
        """ImmDt after RDMA WRITE ONLY with immediate."""
        bth = self.underlayer
        if isinstance(bth, BTH) and bth.opcode & 0x1F == 0x0B:
            return ImmDt
        return Packet.guess_payload_class(self, payload)


class DETH(Packet):
    """Datagram extended transport header, 8 bytes."""

    name = "DETH"
    fields_desc: ClassVar[list[Any]] = [
        XIntField("qkey", 0),
        XByteField("reserved", 0),
        BitField("sqpn", 0, 24),
    ]

    def guess_payload_class(self, payload: bytes) -> Any:
        """ImmDt after SEND ONLY with immediate."""
        bth = self.underlayer
        if isinstance(bth, BTH) and bth.opcode & 0x1F == 0x05:
            return ImmDt
        return Packet.guess_payload_class(self, payload)


class AtomicETH(Packet):
    """Atomic extended transport header, 28 bytes."""

    name = "AtomicETH"
    fields_desc: ClassVar[list[Any]] = [
        XLongField("va", 0),
        XIntField("rkey", 0),
        XLongField("swap_or_add", 0),
        XLongField("compare", 0),
    ]


class AtomicAckETH(Packet):
    """Atomic acknowledge extended transport header, 8 bytes."""

    name = "AtomicAckETH"
    fields_desc: ClassVar[list[Any]] = [XLongField("original", 0)]


class AtomicAETH(AETH):
    """The AETH of an atomic acknowledge, which an AtomicAckETH follows."""

    name = "AETH"

    def guess_payload_class(self, payload: bytes) -> Any:
        """Always AtomicAckETH."""
        return AtomicAckETH


for _transport in (0, UC):
    for _opcode in (0x06, 0x0A, 0x0B):
        bind_layers(BTH, RETH, opcode=_transport + _opcode)
    for _opcode in (0x03, 0x05, 0x09):
        bind_layers(BTH, ImmDt, opcode=_transport + _opcode)
bind_layers(BTH, RETH, opcode=0x0C)
for _opcode in (0x0D, 0x0F, 0x10):
    bind_layers(BTH, AETH, opcode=_opcode)
bind_layers(BTH, AtomicAETH, opcode=0x12)
for _opcode in (0x13, 0x14):
    bind_layers(BTH, AtomicETH, opcode=_opcode)
for _opcode in (0x04, 0x05):
    bind_layers(BTH, DETH, opcode=UD + _opcode)
