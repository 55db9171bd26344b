"""Table keys as the engine wants them: words to compare, a mask, range operands, a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from switch.native.program import KeyField, Table, split

MAX_PRIORITY = 2**31 - 1


@dataclass(frozen=True)
class Encoded:
    """An encoded key; `words` are already masked."""

    words: tuple[int, ...]
    mask: tuple[int, ...]
    ranges: tuple[int, ...]
    rank: int


def encode_key(table: Table, key: Sequence[tuple[Any, ...]], priority: int) -> Encoded:
    """Encode `(kind, value…)` elements; ValueError says what was wrong and what would be accepted."""
    if len(key) != len(table.key):
        raise ValueError(f"table '{table.name}' has {len(table.key)} key fields, {len(key)} were given")
    if not 0 <= priority <= MAX_PRIORITY:
        raise ValueError(f"priority {priority} is not in 0..{MAX_PRIORITY}")
    words, mask = [0] * table.key_words, [0] * table.key_words
    ranges: list[int] = []
    rank = priority if table.ranked else 0
    for element, field in zip(key, table.key, strict=True):
        value, care, bounds, prefix = _element(table, element, field)
        if bounds is not None:
            ranges += split(bounds[0], field.words) + split(bounds[1], field.words)
            continue
        if prefix is not None and not table.ranked:
            rank = prefix
        if field.mask is not None:  # of the table; BMv2 masks entries by it as it masks the packet's field
            care &= field.mask
        value &= care
        if field.width > 64:
            for i, (v, m) in enumerate(zip(split(value, field.words), split(care, field.words), strict=True)):
                words[field.word + i], mask[field.word + i] = v, m
        else:
            words[field.word] |= value << field.shift
            mask[field.word] |= care << field.shift
    return Encoded(tuple(words), tuple(mask), tuple(ranges), rank)


def _element(
    table: Table, element: tuple[Any, ...], field: KeyField
) -> tuple[int, int, tuple[int, int] | None, int | None]:
    """(value, mask, range bounds or None, prefix length or None) of one element."""
    full = (1 << field.width) - 1
    kind = element[0]
    where = f"key field '{field.name}' of table '{table.name}'"
    accepted = {field.kind} | ({"ternary"} if field.kind == "optional" else set())
    if kind not in accepted:
        raise ValueError(f"{where} is matched by {field.kind}, not {kind}")

    def fit(value: Any) -> int:
        if not isinstance(value, int) or not 0 <= value <= full:
            raise ValueError(f"{where}: {value!r} does not fit {field.width} bits")
        return value

    if kind == "range":
        low, high = fit(element[1]), fit(element[2])
        if low > high:
            raise ValueError(f"{where}: the range {low}..{high} is empty")
        return 0, 0, (low, high), None
    if kind == "ternary":
        return fit(element[1]), fit(element[2]), None, None
    if kind == "lpm":
        prefix = element[2]
        if not isinstance(prefix, int) or not 0 <= prefix <= field.width:
            raise ValueError(f"{where}: prefix length {prefix!r} is not in 0..{field.width}")
        return fit(element[1]), full ^ (full >> prefix), None, prefix
    if kind == "optional" and element[1] is None:
        return 0, 0, None, None
    return fit(element[1]), full, None, None
