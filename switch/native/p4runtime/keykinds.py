"""Match kinds where P4Info and the BMv2 JSON differ: p4c lowers `optional` to ternary and `isValid()` to valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import EXACT, LPM, OPTIONAL, RANGE, MatchField
from switch.native.p4runtime.matching import Key
from switch.native.program import KeyField, Table


def to_program(key: Key, table: Table) -> Key:
    """A key in P4Info's kinds as the program's table takes it; raises P4RuntimeError."""
    return tuple(_to_program(element, field) for element, field in zip(key, table.key, strict=True))


def from_program(key: Sequence[tuple[Any, ...]], fields: Sequence[MatchField]) -> Key:
    """A key of the program (its const entries) in P4Info's kinds; raises P4RuntimeError."""
    return tuple(_from_program(element, field) for element, field in zip(key, fields, strict=True))


def _to_program(element: tuple[Any, ...], field: KeyField) -> tuple[Any, ...]:
    kind, wanted = element[0], field.kind
    if kind == wanted:
        return element
    if (kind, wanted) == ("exact", "valid"):
        return ("valid", element[1])
    if wanted == "ternary":
        return ("ternary", *_value_and_mask(element, field.width, field.name))
    if wanted == "range" and kind in ("exact", "optional"):
        if element[1] is None:
            return ("range", 0, (1 << field.width) - 1)
        return ("range", element[1], element[1])
    raise _differs(field.name, kind, wanted)


def _from_program(element: tuple[Any, ...], field: MatchField) -> tuple[Any, ...]:
    kind, width, name = element[0], field.value.bitwidth, field.value.name
    if kind == "valid":
        return ("exact", element[1])
    if kind == "range":
        low, high = element[1], element[2]
        if field.kind == RANGE:
            return element
        if low == high:
            return ("exact" if field.kind == EXACT else "optional", low)
        if field.kind == OPTIONAL:
            return ("optional", None)
        raise _differs(name, kind, "range")
    value, mask = _value_and_mask(element, width, name)
    if field.kind == EXACT:
        return ("exact", value)
    if field.kind == OPTIONAL:
        return ("optional", value if mask else None)
    if field.kind == LPM:
        return ("lpm", value, mask.bit_count())
    if field.kind == RANGE:
        raise _differs(name, kind, "range")
    return ("ternary", value, mask)


def _value_and_mask(element: tuple[Any, ...], width: int, name: str) -> tuple[int, int]:
    full = (1 << width) - 1
    kind, value = element[0], element[1]
    if kind == "ternary":
        return value, element[2]
    if kind == "lpm":
        return value, full ^ (full >> element[2])
    if kind == "optional" and value is None:
        return 0, 0
    if kind in ("exact", "optional"):
        return value, full
    raise _differs(name, kind, "ternary")


def _differs(name: str, kind: str, wanted: str) -> P4RuntimeError:
    return P4RuntimeError(
        INVALID_ARGUMENT, f"match field {name!r} is {kind} in P4Info, which cannot be {wanted} in the program"
    )
