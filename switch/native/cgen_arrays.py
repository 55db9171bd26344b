"""Where the cells of counters and registers lie: arrays of one size are interleaved.

A pipeline uses many arrays with the same index (a port, or a port and class). Side by side, the cells of one index
share a few cache lines; apart, each would be a line of its own, in every switch of a fabric.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from switch.native.program import Array, limbs


@dataclass(frozen=True)
class Place:
    """Cells are `stride` apart and begin `offset` behind those of array `first`, which owns the memory.

    In 64-bit words for registers, in counters for counters.
    """

    first: int
    offset: int
    stride: int


def places(arrays: Iterable[Array], *, registers: bool) -> dict[str, Place]:
    """By name."""
    cells = {a.name: limbs(a.width) if registers else 1 for a in arrays}
    sizes: dict[int, list[Array]] = {}
    for array in arrays:
        sizes.setdefault(array.size, []).append(array)
    found = {}
    for group in sizes.values():
        stride = sum(cells[a.name] for a in group)
        offset = 0
        for array in group:
            found[array.name] = Place(group[0].index, offset, stride)
            offset += cells[array.name]
    return found


def register_cell(array: Array, arrays: Iterable[Array], index: str) -> str:
    """C: the cell itself, or its address where it has several words."""
    stride = places(arrays, registers=True)[array.name].stride
    base = f"x->registers[{array.index}]"
    return f"{base}[{index} * {stride}]" if limbs(array.width) == 1 else f"({base} + {index} * {stride})"
