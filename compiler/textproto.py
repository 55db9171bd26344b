"""Protobuf text format, written without protobuf: a message is a list of (field name, value)."""

from __future__ import annotations

from typing import Union


class Symbol(str):
    """An enum value: written without quotes."""

    __slots__ = ()


Value = Union["Message", Symbol, str, bytes, int, bool]


_LATE = {"structured_annotations": 1, "platform_properties": 2}
"""Fields whose numbers are above those of all others in their messages; protobuf writes in the order of numbers."""


class Message:
    """A protobuf message being built; fields are written in the order in which they are added."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, Value]] = []

    def add(self, name: str, value: Value) -> None:
        """Appends a field (also one element of a repeated field)."""
        self.fields.append((name, value))

    def set(self, name: str, value: Value) -> None:
        """Appends a scalar field unless it has its default value, which protobuf does not write."""
        if value:
            self.fields.append((name, value))

    def child(self, name: str) -> Message:
        """A new sub-message."""
        message = Message()
        self.fields.append((name, message))
        return message

    def write(self, indent: int = 0) -> str:
        """Text format, as protobuf's printer lays it out."""
        pad = "  " * indent
        lines = []
        for name, value in sorted(self.fields, key=lambda field: _LATE.get(field[0], 0)):
            if isinstance(value, Message):
                inner = value.write(indent + 1)
                lines.append(f"{pad}{name} {{\n{inner}{pad}}}\n")
            else:
                lines.append(f"{pad}{name}: {_scalar(value)}\n")
        return "".join(lines)


def _scalar(value: Value) -> str:
    if isinstance(value, Symbol):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quote(value.encode())
    assert isinstance(value, bytes)
    return quote(value)


_NAMED = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}


def quote(data: bytes) -> str:
    """A string literal; bytes that are not printable ASCII become octal escapes."""
    out = []
    for byte in data:
        if byte in _NAMED:
            out.append(_NAMED[byte])
        elif 0x20 <= byte < 0x7F:
            out.append(chr(byte))
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'
