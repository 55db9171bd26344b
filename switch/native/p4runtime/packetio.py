"""Packet-in and packet-out: the controller headers of P4Info in front of a frame, and as metadata.

A `@controller_header("packet_in")` header is bits in declaration order, padded to a byte at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from finsy.proto import p4r

from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Info, Value
from switch.native.p4runtime.translation import Translation

MAX_PAYLOAD_BYTES = 16384


class PacketIO:
    """The controller headers of one pipeline."""

    def __init__(self, info: Info, translation: Translation, widths: Mapping[str, int]) -> None:
        """`widths` are bits in the program of fields whose type is translated, by `HEADER.FIELD` name."""
        self._translation = translation
        self._in = info.packet_metadata.get("packet_in", ())
        self._out = info.packet_metadata.get("packet_out", ())
        self._in_widths = [widths.get(f"packet_in.{value.name}", value.bitwidth) for value in self._in]
        self._out_widths = [widths.get(f"packet_out.{value.name}", value.bitwidth) for value in self._out]

    def packet_in(self, frame: bytes) -> p4r.PacketIn:
        """The message for a frame that the program sent to the CPU port.

        A frame shorter than the header (the program did not add one) goes as it is, without metadata.
        """
        bits = sum(self._in_widths)
        size = (bits + 7) // 8
        if not self._in or len(frame) < size:
            return p4r.PacketIn(payload=frame)
        message = p4r.PacketIn(payload=frame[size:])
        header = int.from_bytes(frame[:size], "big") >> (size * 8 - bits)
        for value, number in zip(self._in, _split(header, self._in_widths), strict=True):
            message.metadata.add(metadata_id=value.id, value=self._translation.data(value, number))
        return message

    def packet_out(self, message: p4r.PacketOut) -> bytes:
        """The frame to hand to the program on the CPU port; metadata left out is zero.

        Raises P4RuntimeError when the metadata is not what P4Info says.
        """
        given: dict[int, bytes] = {}
        known: Sequence[Value] = self._out
        ids = {value.id for value in known}
        for metadata in message.metadata:
            if metadata.metadata_id not in ids:
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"packet-out: the program has no metadata with id {metadata.metadata_id}",
                )
            if metadata.metadata_id in given:
                raise P4RuntimeError(
                    INVALID_ARGUMENT, f"packet-out: metadata {metadata.metadata_id} is given twice"
                )
            given[metadata.metadata_id] = metadata.value
        if len(message.payload) > MAX_PAYLOAD_BYTES:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"packet-out: {len(message.payload)} bytes are more than {MAX_PAYLOAD_BYTES}",
            )
        header = 0
        for value, width in zip(known, self._out_widths, strict=True):
            number = 0
            if value.id in given:
                number = self._translation.number(value, given[value.id], "packet-out: metadata")
            if number >> width:
                raise P4RuntimeError(
                    INVALID_ARGUMENT, f"packet-out: {value.name} {number} does not fit in {width} bits"
                )
            header = (header << width) | number
        bits = sum(self._out_widths)
        size = (bits + 7) // 8
        return (header << (size * 8 - bits)).to_bytes(size, "big") + message.payload


def _split(header: int, widths: Sequence[int]) -> list[int]:
    numbers = []
    left = sum(widths)
    for width in widths:
        left -= width
        numbers.append((header >> left) & ((1 << width) - 1))
    return numbers
