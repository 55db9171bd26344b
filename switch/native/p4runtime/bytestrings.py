"""P4Runtime byte strings: big-endian numbers of any length in, the shortest string out.

P4Runtime specification, section "Bytestrings": an empty string or a value that does not fit its width is
OUT_OF_RANGE; leading zeros are accepted; a server answers with the canonical (shortest) form.
"""

from __future__ import annotations

from switch.native.p4runtime.errors import OUT_OF_RANGE, P4RuntimeError


def decode(data: bytes, bitwidth: int, what: str) -> int:
    """The number in `data` as `bit<bitwidth>`.

    Raises P4RuntimeError(OUT_OF_RANGE) naming `what` when the string is empty or its value too large.
    """
    if not data:
        raise P4RuntimeError(OUT_OF_RANGE, f"{what}: an empty byte string is not a value")
    value = int.from_bytes(data, "big")
    if value >> bitwidth:
        raise P4RuntimeError(OUT_OF_RANGE, f"{what}: {value:#x} does not fit in {bitwidth} bits")
    return value


def encode(value: int) -> bytes:
    """The canonical string of an unsigned number: as short as possible, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode_signed(data: bytes, bitwidth: int, what: str) -> int:
    """The two's complement number in `data` as `int<bitwidth>`; raises as `decode`."""
    if not data:
        raise P4RuntimeError(OUT_OF_RANGE, f"{what}: an empty byte string is not a value")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (bitwidth - 1)) <= value < 1 << (bitwidth - 1):
        raise P4RuntimeError(OUT_OF_RANGE, f"{what}: {value} does not fit in int<{bitwidth}>")
    return value


def encode_signed(value: int) -> bytes:
    """The canonical string of a signed number."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
