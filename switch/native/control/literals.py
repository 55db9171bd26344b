"""Values, keys and rates as simple_switch_CLI takes and prints them."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from switch.native.program import KeyField, Table

TOP_PRIORITY = 0xFFFFFF
"""BMv2's priorities count downwards from the most urgent, 0; P4Runtime's upwards. Their sum is this, as in PI."""

_MAC = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}")


class LiteralError(Exception):
    """A value cannot be read; the message says which and what would be accepted."""


def number(text: str, what: str) -> int:
    """A whole number, decimal or with 0x, 0b, 0o."""
    try:
        return int(text, 0)
    except ValueError:
        raise LiteralError(f"{what}: {text!r} is not a whole number") from None


def value(text: str, width: int, what: str) -> int:
    """A value of `width` bits: a number, or the IPv4, MAC or IPv6 address of a field so wide."""
    if (width == 32 and "." in text) or (width == 128 and ":" in text):
        try:
            found = int(ipaddress.ip_address(text))
        except ValueError:
            raise LiteralError(f"{what}: {text!r} is not an IP address") from None
    elif width == 48 and ":" in text:
        if _MAC.fullmatch(text) is None:
            raise LiteralError(f"{what}: {text!r} is not a MAC address")
        found = int("".join(byte.zfill(2) for byte in text.split(":")), 16)
    else:
        found = number(text, what)
    if not 0 <= found < 1 << width:
        raise LiteralError(f"{what}: {text} does not fit {width} bits")
    return found


def key(table: Table, texts: list[str]) -> tuple[tuple[Any, ...], ...]:
    """A table's key from one text per field."""
    if len(texts) != len(table.key):
        raise LiteralError(f"table {table.name} has {len(table.key)} key fields, {len(texts)} are given")
    return tuple(_element(field, text) for field, text in zip(table.key, texts, strict=True))


def _element(field: KeyField, text: str) -> tuple[Any, ...]:
    width, name = field.width, field.name
    if field.kind == "lpm":
        prefix, slash, length = text.partition("/")
        if not slash:
            raise LiteralError(f"{name}: {text!r} is not VALUE/PREFIX_LENGTH")
        return "lpm", value(prefix, width, name), number(length, name)
    if field.kind == "ternary":
        match, separator, mask = text.partition("&&&")
        if not separator:
            raise LiteralError(f"{name}: {text!r} is not VALUE&&&MASK")
        return "ternary", value(match.strip(), width, name), value(mask.strip(), width, name)
    if field.kind == "range":
        low, arrow, high = text.partition("->")
        if not arrow:
            raise LiteralError(f"{name}: {text!r} is not LOW->HIGH")
        return "range", value(low, width, name), value(high, width, name)
    if field.kind == "optional" and "&&&" in text:
        match, _, mask = text.partition("&&&")
        cared = value(mask, width, name)
        if cared not in (0, (1 << width) - 1):
            raise LiteralError(f"{name} is optional: its mask is all ones or zero")
        return "optional", value(match, width, name) if cared else None
    if field.kind == "valid":
        return "valid", int(number(text, name) != 0)
    return field.kind, value(text, width, name)


def octets(found: int, width: int, separator: str = "") -> str:
    """A value as the CLI prints it: its bytes in hexadecimal."""
    data = found.to_bytes((width + 7) // 8, "big")
    return data.hex(separator) if separator else data.hex()


def plain(found: int) -> str:
    """A value in as many bytes as it needs, in hexadecimal: how BMv2 keeps what actions are given."""
    return octets(found, max(1, found.bit_length()))


def key_text(field: KeyField, element: tuple[Any, ...], *, brief: bool) -> str:
    """A key element: as `table_dump` prints it, or `brief` as `table_add` does."""
    kind, width = element[0], field.width

    def show(found: int) -> str:
        return octets(found, width, ":" if brief else "")

    if kind == "valid":
        text = "" if brief else "01" if element[1] else "00"
    elif kind == "lpm":
        text = f"{show(element[1])}/{element[2]}"
    elif kind == "ternary":
        text = f"{show(element[1])} &&& {show(element[2])}"
    elif kind == "optional":
        full = (1 << width) - 1
        text = f"{show(element[1] or 0)} &&& {show(0 if element[1] is None else full)}"
    elif kind == "range":
        text = f"{show(element[1])} -> {show(element[2])}"
    else:
        text = show(element[1])
    return f"{shown_kind(kind)}-{text}" if brief else text


def shown_kind(kind: str) -> str:
    """BMv2 knows optional fields as ternary ones."""
    return "TERNARY" if kind == "optional" else kind.upper()
