"""Changes of Python objects that can be taken back, and numbers that are handed out."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from heapq import heapify, heappop, heappush
from typing import TypeVar

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")


class Journal:
    """Changes things, and while it is open remembers how they were.

    What it is not told about it cannot take back: whoever may be part of a batch changes state through it only, and
    replaces values that may be read meanwhile instead of changing them in place.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether changes are remembered."""
        return self._undo is not None

    def open(self) -> None:
        """Remember from now on."""
        assert self._undo is None
        self._undo = []

    def keep(self) -> None:
        """Close; what was changed stays so."""
        self._undo = None

    def take_back(self) -> None:
        """Close, and undo every change, the last one first."""
        undo, self._undo = self._undo or [], None
        for step in reversed(undo):
            step()

    def undo_by(self, step: Callable[[], object]) -> None:
        """Something was changed that `step` undoes."""
        if self._undo is not None:
            self._undo.append(step)

    def set(self, mapping: MutableMapping[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
        """`mapping[key] = value`."""
        if self._undo is not None:
            if key in mapping:
                before = mapping[key]
                self._undo.append(lambda: mapping.__setitem__(key, before))
            else:
                self._undo.append(lambda: mapping.__delitem__(key))
        mapping[key] = value

    def remove(self, mapping: MutableMapping[_KeyT, _ValueT], key: _KeyT) -> _ValueT:
        """`mapping.pop(key)`; taken back, the key comes last where the order counts."""
        value = mapping.pop(key)
        self.undo_by(lambda: mapping.__setitem__(key, value))
        return value

    def put(self, owner: object, attribute: str, value: object) -> None:
        """`owner.attribute = value`."""
        before = getattr(owner, attribute)
        self.undo_by(lambda: setattr(owner, attribute, before))
        setattr(owner, attribute, value)


class Numbers:
    """Hands out the lowest number that is free, from 0 on."""

    def __init__(self, journal: Journal, first: int = 0) -> None:
        """Numbers below `first` are taken."""
        self._journal = journal
        self._next = first
        self._free: list[int] = []

    def take(self) -> int:
        """The lowest free number, which is no longer free."""
        number = self._take()
        self._journal.undo_by(lambda: heappush(self._free, number))
        return number

    def claim(self, number: int) -> bool:
        """Take this number; False if it is not free."""
        if number >= self._next:
            before = self._next
            for skipped in range(before, number):
                heappush(self._free, skipped)
            self._next = number + 1
        elif number in self._free:
            self._discard(number)
        else:
            return False
        self._journal.undo_by(lambda: heappush(self._free, number))
        return True

    def give(self, number: int) -> None:
        """The number is free again."""
        heappush(self._free, number)
        self._journal.undo_by(lambda: self._discard(number))

    def _take(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def _discard(self, number: int) -> None:
        self._free.remove(number)
        heapify(self._free)
