"""Match keys: P4Runtime's `FieldMatch` messages and the engine's key tuples, each checked and canonical.

A key is one tuple per field in the table's order (`switch.native.binding.Key`). A field that a request leaves
out matches anything, which only exact fields cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from finsy.proto import p4r

from switch.native.p4runtime import bytestrings
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import EXACT, LPM, OPTIONAL, RANGE, TERNARY, MatchField
from switch.native.p4runtime.translation import Translation

Key = tuple[tuple[Any, ...], ...]

_FIELD_NAMES: dict[int, str] = {
    EXACT: "exact",
    LPM: "lpm",
    TERNARY: "ternary",
    RANGE: "range",
    OPTIONAL: "optional",
}


def key_of(
    fields: Sequence[MatchField], matches: Iterable[p4r.FieldMatch], translation: Translation, where: str
) -> Key:
    """The engine's key; raises P4RuntimeError with `where` in its sentence."""
    given: dict[int, p4r.FieldMatch] = {}
    known = {field.value.id for field in fields}
    for match in matches:
        if match.field_id not in known:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where} has no match field with id {match.field_id}")
        if match.field_id in given:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: match field {match.field_id} is given twice")
        given[match.field_id] = match
    return tuple(_element(field, given.get(field.value.id), translation, where) for field in fields)


def matches_of(fields: Sequence[MatchField], key: Key, translation: Translation) -> list[p4r.FieldMatch]:
    """The canonical messages of an engine key: fields that match anything are left out."""
    matches = []
    for field, element in zip(fields, key, strict=True):
        match = p4r.FieldMatch(field_id=field.value.id)
        kind = field.kind
        values = element[1:]
        if kind == EXACT:
            match.exact.value = translation.data(field.value, values[0])
        elif kind == LPM:
            if values[1] == 0:
                continue
            match.lpm.value = bytestrings.encode(values[0])
            match.lpm.prefix_len = values[1]
        elif kind == TERNARY:
            if values[1] == 0:
                continue
            match.ternary.value = bytestrings.encode(values[0])
            match.ternary.mask = bytestrings.encode(values[1])
        elif kind == RANGE:
            if values == (0, (1 << field.value.bitwidth) - 1):
                continue
            match.range.low = bytestrings.encode(values[0])
            match.range.high = bytestrings.encode(values[1])
        else:
            if values[0] is None:
                continue
            match.optional.value = translation.data(field.value, values[0])
        matches.append(match)
    return matches


def _element(
    field: MatchField, match: p4r.FieldMatch | None, translation: Translation, where: str
) -> tuple[Any, ...]:
    kind, width, name = field.kind, field.value.bitwidth, field.value.name
    what = f"{where}: match field"
    if match is None:
        if kind == EXACT:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{what} {name!r} is exact and must be given")
        if kind == LPM:
            return ("lpm", 0, 0)
        if kind == TERNARY:
            return ("ternary", 0, 0)
        if kind == RANGE:
            return ("range", 0, (1 << width) - 1)
        return ("optional", None)
    expected = _FIELD_NAMES[kind]
    given = match.WhichOneof("field_match_type")
    if given != expected:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{what} {name!r} is {expected}, but {given or 'no value'} is given"
        )
    if kind == EXACT:
        return ("exact", translation.number(field.value, match.exact.value, what))
    if kind == OPTIONAL:
        return ("optional", translation.number(field.value, match.optional.value, what))
    what = f"{what} {name!r}"
    if kind == LPM:
        value, length = bytestrings.decode(match.lpm.value, width, what), match.lpm.prefix_len
        if not 0 < length <= width:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{what}: prefix length {length} is not in 1..{width} (leave the field out to match anything)",
            )
        if value & ((1 << (width - length)) - 1):
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{what}: {value:#x}/{length} has bits set behind its prefix"
            )
        return ("lpm", value, length)
    if kind == TERNARY:
        value = bytestrings.decode(match.ternary.value, width, what)
        mask = bytestrings.decode(match.ternary.mask, width, what)
        if mask == 0:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{what}: a mask of zeros matches anything; leave the field out instead"
            )
        if value & ~mask:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{what}: {value:#x} has bits set outside mask {mask:#x}")
        return ("ternary", value, mask)
    low = bytestrings.decode(match.range.low, width, what)
    high = bytestrings.decode(match.range.high, width, what)
    if low > high:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{what}: the range begins at {low}, above its end {high}")
    if low == 0 and high == (1 << width) - 1:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{what}: the range is every value; leave the field out instead"
        )
    return ("range", low, high)
