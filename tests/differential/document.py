"""What the generators need to know of a BMv2 JSON document: widths, keys, constants, which constructs it uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Place = tuple[str, str]
"""A (header, field) as BMv2 JSON names it."""


class Document:
    """Looks things up in a BMv2 JSON document."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        types = {t["name"]: t["fields"] for t in root["header_types"]}
        self.types: dict[str, list[tuple[str, int | None]]] = {
            name: [(f[0], None if f[1] == "*" else int(f[1])) for f in fields]
            for name, fields in types.items()
        }
        self.headers: dict[str, str] = {h["name"]: h["header_type"] for h in root["headers"]}
        names = {h["id"]: h["name"] for h in root["headers"]}
        self.stacks: dict[str, list[str]] = {
            s["name"]: [names[i] for i in s["header_ids"]] for s in root.get("header_stacks", ())
        }
        unions = {u["id"]: u for u in root.get("header_unions", ())}
        members = {t["name"]: [name for name, _ in t["headers"]] for t in root.get("header_union_types", ())}
        self.union_stacks: dict[str, list[dict[str, str]]] = {}
        for stack in root.get("header_union_stacks", ()):
            self.union_stacks[stack["name"]] = [
                dict(
                    zip(
                        members.get(unions[i]["union_type"], ()),
                        (names[h] for h in unions[i]["header_ids"]),
                        strict=False,
                    )
                )
                for i in stack["header_union_ids"]
            ]
        self.primitives = list(_primitives(root))

    def width(self, place: Place) -> int:
        """Bits of a field; 1 for a validity bit."""
        header, field = place
        if field == "$valid$":
            return 1
        kind = self.headers.get(header)
        return next((w or 0 for name, w in self.types.get(kind or "", ()) if name == field), 0)

    def uses(self, *ops: str) -> bool:
        """Whether an action calls one of these primitives."""
        return any(p["op"] in ops for _, p in self.primitives)

    def loops(self) -> bool:
        """Whether an action jumps back, as a `for` loop does."""
        for action in self.root["actions"]:
            for place, primitive in enumerate(action["primitives"]):
                if primitive["op"] in ("_jump", "_jump_if_zero"):
                    target = primitive["parameters"][-1]["value"]
                    if int(target, 16) <= place:
                        return True
        return False

    def egress_state(self) -> bool:
        """Whether egress, whose four threads BMv2 does not keep in order, reads or writes state."""
        stateful = {"register_read", "register_write", "count", "execute_meter"}
        egress: dict[str, Any] = next(
            (p for p in self.root["pipelines"] if p["name"] == "egress"), {"tables": []}
        )
        used = {i for t in egress["tables"] for i in t["action_ids"]}
        used |= {c["id"] for c in egress.get("action_calls", ()) if "id" in c}
        meters = any(t.get("direct_meters") for t in egress["tables"])
        return meters or any(i in used and p["op"] in stateful for i, p in self.primitives)

    def reads(self, *fields: str) -> bool:
        """Whether an action or a condition names one of these fields of the standard metadata."""
        text = json.dumps([self.root["actions"], self.root["pipelines"]])
        return any(f'"{field}"' in text for field in fields)

    def constants(self) -> dict[int, list[int]]:
        """Numbers that the program compares with, by bit length."""
        found: dict[int, set[int]] = {}
        for value in _hex(self.root.get("parsers")):
            found.setdefault(value.bit_length(), set()).add(value)
        for pipeline in self.root["pipelines"]:
            for value in _hex(pipeline.get("conditionals")):
                found.setdefault(value.bit_length(), set()).add(value)
            for table in pipeline["tables"]:
                for entry in table.get("entries", ()):
                    for value in _hex(entry.get("match_key")):
                        found.setdefault(value.bit_length(), set()).add(value)
        return {bits: sorted(values) for bits, values in found.items()}

    def clone_sessions(self) -> list[int]:
        """Session numbers that the program names as constants."""
        found: set[int] = set()
        for _, primitive in self.primitives:
            if primitive["op"].startswith("clone_"):
                first = primitive["parameters"][0]
                found.update(_hex(first))
        return sorted(n for n in found if 0 < n < 1 << 15)


def _primitives(root: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    for action in root["actions"]:
        for primitive in action["primitives"]:
            yield action["id"], primitive


def _hex(node: Any) -> Iterator[int]:
    if isinstance(node, dict):
        for value in node.values():
            yield from _hex(value)
    elif isinstance(node, list):
        for value in node:
            yield from _hex(value)
    elif isinstance(node, str) and node.startswith("0x"):
        yield int(node, 16)
