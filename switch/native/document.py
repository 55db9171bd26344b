"""JSON values that know their place, so that every complaint about a malformed document can name it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class ProgramError(Exception):
    """The BMv2 JSON (or the P4Info) is malformed; the text names the place."""


_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}


def _found(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in _NAMES.items():
        if type(value) is kind:
            text = json.dumps(value)
            return f"{name} ({text[:40]})" if kind in (str, int, bool) else name
    return type(value).__name__


class Node:
    """One value of a JSON document and the path that leads to it."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path

    def fail(self, message: str) -> ProgramError:
        """The error to raise about this place."""
        return ProgramError(f"{self.path}: {message}")

    def _expect(self, kind: type, what: str) -> Any:
        if type(self.value) is not kind:
            raise self.fail(f"expected {what}, found {_found(self.value)}")
        return self.value

    @property
    def missing(self) -> bool:
        """Absent or null."""
        return self.value is None

    def __getitem__(self, key: str | int) -> Node:
        """A member that must be there (it may be null)."""
        if isinstance(key, int):
            items = self._expect(list, "an array")
            if key >= len(items):
                raise self.fail(f"expected at least {key + 1} elements, found {len(items)}")
            return Node(items[key], f"{self.path}[{key}]")
        members = self._expect(dict, "an object")
        if key not in members:
            raise self.fail(f"'{key}' is missing")
        return Node(members[key], f"{self.path}.{key}")

    def get(self, key: str) -> Node:
        """A member, or a null one if it is absent."""
        return Node(self._expect(dict, "an object").get(key), f"{self.path}.{key}")

    def items(self) -> list[Node]:
        """The elements of an array."""
        return [Node(v, f"{self.path}[{i}]") for i, v in enumerate(self._expect(list, "an array"))]

    def named(self) -> list[Node]:
        """The elements of an array (or none if it is absent) under paths that show their names."""
        if self.missing:
            return []
        nodes = []
        for i, v in enumerate(self._expect(list, "an array")):
            label: Any = i
            if isinstance(v, dict) and isinstance(v.get("name"), str):
                label = v["name"]
            nodes.append(Node(v, f"{self.path}[{label}]"))
        return nodes

    def members(self) -> Iterator[tuple[str, Node]]:
        """The members of an object."""
        for key, value in self._expect(dict, "an object").items():
            yield key, Node(value, f"{self.path}.{key}")

    def tuple(self, count: int) -> list[Node]:
        """The elements of an array of exactly `count`."""
        nodes = self.items()
        if len(nodes) != count:
            raise self.fail(f"expected {count} elements, found {len(nodes)}")
        return nodes

    def text(self) -> str:
        """A string."""
        return str(self._expect(str, "a string"))

    def boolean(self) -> bool:
        """A boolean."""
        return bool(self._expect(bool, "a boolean"))

    def truth(self) -> bool:
        """A boolean, also written as 0 or 1 (p4c does both)."""
        return bool(self.integer(0, 1)) if type(self.value) is int else self.boolean()

    def flag(self) -> bool:
        """A boolean; absent is false."""
        return False if self.missing else self.boolean()

    def integer(self, low: int = 0, high: int = 2**31 - 1) -> int:
        """An integer in a range."""
        value = int(self._expect(int, "an integer"))
        if not low <= value <= high:
            raise self.fail(f"{value} is not in {low}..{high}")
        return value

    def hexstr(self, bits: int | None = None) -> int:
        """A hexadecimal string such as "0x0800" or "-0x1"; with `bits`, it must fit that many unsigned bits."""
        text = self.text()
        try:
            value = int(text, 16)
        except ValueError:
            raise self.fail(f"expected a hexadecimal number, found '{text[:40]}'") from None
        if bits is not None and not 0 <= value < 1 << bits:
            raise self.fail(f"{text[:40]} does not fit {bits} bits")
        return value


def parse_document(text: str, name: str) -> Node:
    """Parse JSON text; `name` begins every path."""
    try:
        return Node(json.loads(text), name)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{name} is not JSON: {error}") from None
