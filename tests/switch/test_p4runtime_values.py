"""Byte strings and controller headers, as the P4Runtime specification's tables have them."""

import pytest
from finsy.proto import p4i, p4r
from hypothesis import given
from hypothesis import strategies as st

from switch.native.p4runtime import bytestrings
from switch.native.p4runtime.errors import INVALID_ARGUMENT, OUT_OF_RANGE, P4RuntimeError
from switch.native.p4runtime.info import Info, Value
from switch.native.p4runtime.packetio import PacketIO
from switch.native.p4runtime.translation import Translation

# P4Runtime specification, table "Examples of Valid Bytestring Encoding": width, value, string, canonical.
VALID = [
    (8, 0x63, b"\x63", True),
    (16, 0x63, b"\x00\x63", False),
    (16, 0x63, b"\x63", True),
    (16, 0x3064, b"\x30\x64", True),
    (16, 0x3064, b"\x00\x30\x64", False),
    (12, 0x63, b"\x00\x63", False),
    (12, 0x63, b"\x00\x00\x63", False),
]
VALID_SIGNED = [
    (8, 99, b"\x63", True),
    (8, -99, b"\x9d", True),
    (8, -99, b"\xff\x9d", False),
    (12, -739, b"\xfd\x1d", True),
    (16, 0, b"\x00\x00", False),
    (16, 0, b"\x00", True),
]
# Table "Examples of Invalid Bytestring Encoding".
INVALID = [
    (8, b"\x01\x63"),
    (8, b""),
    (16, b"\x01\x00\x63"),
    (12, b"\x10\x63"),
    (12, b"\x01\x00\x63"),
    (12, b"\x00\x40\x63"),
]
INVALID_SIGNED = [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")]


@pytest.mark.parametrize(("width", "value", "data", "canonical"), VALID)
def test_byte_strings_of_the_specification_decode_and_encode_canonically(width, value, data, canonical):
    assert bytestrings.decode(data, width, "x") == value
    assert (bytestrings.encode(value) == data) == canonical


@pytest.mark.parametrize(("width", "value", "data", "canonical"), VALID_SIGNED)
def test_signed_byte_strings_of_the_specification_do_too(width, value, data, canonical):
    assert bytestrings.decode_signed(data, width, "x") == value
    assert (bytestrings.encode_signed(value) == data) == canonical


@pytest.mark.parametrize(("width", "data"), INVALID)
def test_byte_strings_that_do_not_fit_are_out_of_range(width, data):
    with pytest.raises(P4RuntimeError) as refused:
        bytestrings.decode(data, width, "field")
    assert refused.value.code == OUT_OF_RANGE


@pytest.mark.parametrize(("width", "data"), INVALID_SIGNED)
def test_signed_byte_strings_that_do_not_fit_are_out_of_range(width, data):
    with pytest.raises(P4RuntimeError) as refused:
        bytestrings.decode_signed(data, width, "field")
    assert refused.value.code == OUT_OF_RANGE


@given(st.integers(0, (1 << 128) - 1), st.integers(0, 4))
def test_any_number_survives_its_byte_string_with_leading_zeros(value, zeros):
    data = bytestrings.encode(value)
    assert len(data) == max(1, -(-value.bit_length() // 8))
    assert bytestrings.decode(b"\0" * zeros + data, 128, "x") == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_signed_number_survives_its_byte_string(value):
    assert bytestrings.decode_signed(bytestrings.encode_signed(value), 64, "x") == value


def _packet_io(widths=None):
    info = p4i.P4Info()
    for name, fields in (
        ("packet_in", [("port", 9), ("reason", 7)]),
        ("packet_out", [("port", 9), ("pad", 3)]),
    ):
        header = info.controller_packet_metadata.add()
        header.preamble.name = name
        for number, (field, width) in enumerate(fields, 1):
            header.metadata.add(id=number, name=field, bitwidth=width)
    return PacketIO(Info(info), Translation(), widths or {})


def test_a_packet_in_header_is_cut_into_its_bits():
    # port 0x155 in 9 bits and reason 0x2a in 7: 1 0101 0101 | 010 1010 = 0xaaaa.
    message = _packet_io().packet_in(b"\xaa\xaaframe")
    assert message.payload == b"frame"
    assert [(m.metadata_id, m.value) for m in message.metadata] == [(1, b"\x01\x55"), (2, b"\x2a")]


def test_a_packet_out_header_is_padded_to_a_byte_and_missing_metadata_is_zero():
    packets = _packet_io()
    message = p4r.PacketOut(payload=b"x", metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\x03")])
    # 0 0000 0011 | 000 | 0000 (padding)
    assert packets.packet_out(message) == b"\x01\x80x"


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ([p4r.PacketMetadata(metadata_id=9, value=b"\x01")], INVALID_ARGUMENT),
        ([p4r.PacketMetadata(metadata_id=1, value=b"\x02\x00")], OUT_OF_RANGE),
        ([p4r.PacketMetadata(metadata_id=1, value=b"\x01")] * 2, INVALID_ARGUMENT),
    ],
)
def test_packet_out_metadata_that_p4info_does_not_allow_is_refused(metadata, code):
    with pytest.raises(P4RuntimeError) as refused:
        _packet_io().packet_out(p4r.PacketOut(payload=b"x", metadata=metadata))
    assert refused.value.code == code


def test_named_values_get_numbers_and_their_names_back():
    translation = Translation()
    port = Value(1, "port", 0, "port_id_t")
    other = Value(2, "vrf", 0, "vrf_t")
    assert translation.number(port, b"7", "x") == 7
    first = translation.number(port, b"Ethernet0", "x")
    second = translation.number(port, b"Ethernet4", "x")
    assert first != second
    assert translation.number(port, b"Ethernet0", "x") == first
    assert translation.data(port, second) == b"Ethernet4"
    assert translation.number(other, b"Ethernet4", "x") == first, "each type has a dictionary of its own"
