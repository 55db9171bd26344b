"""scapy layers of INT-MD 2.1 as the fabric uses it between UDP and BTH (byte layout: docs/fabric.md)."""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.contrib.roce import BTH
from scapy.fields import (
    BitField,
    ByteField,
    ConditionalField,
    Field,
    IntField,
    LongField,
    PacketListField,
    ShortField,
    X3BytesField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from traffic.wire.telemetry import INT_UDP_PORT


def _asked(bit: int, field: Field, bitmap: str = "instructions") -> ConditionalField:
    """A field that is there when the instruction bit (0 = most significant) of the INT-MD header is set."""
    mask = 0x8000 >> bit

    def present(hop: Packet) -> bool:
        header = hop.parent
        return header is None or bool(getattr(header, bitmap) & mask)

    return ConditionalField(field, present)


class IntHop(Packet):
    """What one switch pushed; which fields it has is decided by the header's instructions."""

    name = "INT hop"
    fields_desc: ClassVar[list[Any]] = [
        _asked(0, IntField("node_id", 0)),
        _asked(1, ShortField("ingress_port", 0)),
        _asked(1, ShortField("egress_port", 0)),
        _asked(2, IntField("hop_latency", 0)),
        _asked(3, ByteField("queue_id", 0)),
        _asked(3, X3BytesField("queue_bytes", 0)),
        _asked(4, LongField("ingress_timestamp", 0)),
        _asked(5, LongField("egress_timestamp", 0)),
        _asked(6, LongField("level2_ports", 0xFFFFFFFFFFFFFFFF)),
        _asked(7, IntField("utilisation", 0)),
        _asked(8, ByteField("buffer_id", 0)),
        _asked(8, X3BytesField("buffer_bytes", 0)),
        _asked(0, LongField("tx_bytes", 0), "ds_instructions"),
        _asked(1, IntField("rate_kbps", 0), "ds_instructions"),
    ]

    def extract_padding(self, rest: bytes) -> tuple[bytes, bytes]:
        """A hop has no payload: what follows is the next hop."""
        return b"", rest


def _stack_bytes(header: Packet) -> int:
    shim = header.underlayer
    return max(0, (shim.length - 3) * 4) if isinstance(shim, IntShim) else 0


class IntMd(Packet):
    """INT-MD header and metadata stack, newest hop first."""

    name = "INT-MD"
    fields_desc: ClassVar[list[Any]] = [
        BitField("version", 2, 4),
        BitField("discard", 0, 1),
        BitField("hops_exceeded", 0, 1),
        BitField("mtu_exceeded", 0, 1),
        BitField("reserved", 0, 12),
        BitField("hop_words", 0, 5),
        BitField("remaining_hops", 8, 8),
        XShortField("instructions", 0),
        ShortField("domain_id", 0),
        XShortField("ds_instructions", 0),
        XShortField("ds_flags", 0),
        PacketListField("stack", [], IntHop, length_from=_stack_bytes),
    ]

    def guess_payload_class(self, payload: bytes) -> Any:
        """The RoCE packet that the telemetry was put in front of."""
        return BTH


class IntShim(Packet):
    """INT shim over UDP; `dport` is the port that the datagram had before."""

    name = "INT shim"
    fields_desc: ClassVar[list[Any]] = [
        BitField("type", 1, 4),
        BitField("npt", 1, 2),
        BitField("reserved", 0, 2),
        ByteField("length", None),
        ShortField("dport", 4791),
    ]

    def post_build(self, header: bytes, payload: bytes) -> bytes:
        """Words of INT-MD header and stack, unless `length` is given."""
        if self.length is None:
            words = len(self.payload.self_build()) // 4
            header = header[:1] + bytes((words,)) + header[2:]
        return header + payload


bind_layers(UDP, IntShim, dport=INT_UDP_PORT)
bind_layers(IntShim, IntMd)
