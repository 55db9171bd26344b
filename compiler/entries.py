"""The `entries` of tables as a P4Runtime WriteRequest: values in full bytes, priorities as P4Runtime wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler import tree, types
from compiler.errors import CompileError
from compiler.p4info_ids import SymbolTable
from compiler.p4info_types import TypeTable, padded
from compiler.source import Source
from compiler.textproto import Message, Symbol

PRIORITIZED = frozenset(["ternary", "range", "optional"])
"""Match kinds whose entries have a priority in P4Runtime."""


class EntriesWriter:
    """Collects INSERT updates."""

    def __init__(self, source: Source, symbols: SymbolTable, type_table: TypeTable) -> None:
        self.source = source
        self.symbols = symbols
        self.types = type_table
        self.message = Message()

    def table(self, table: tree.TableDecl, name: str, action_name: Callable[[tree.ActionDecl], str]) -> None:
        """Adds the entries of one table."""
        prioritized = any(k.match_kind in PRIORITIZED for k in table.keys)
        priorities = entry_priorities(table, self.source) if prioritized else []
        order = list(range(len(table.entries)))
        if prioritized:
            order.sort(key=lambda i: priorities[i], reverse=largest_priority_wins(table))
        for i in order:
            entry = table.entries[i]
            update = self.message.child("updates")
            update.add("type", Symbol("INSERT"))
            row = update.child("entity").child("table_entry")
            row.add("table_id", self.symbols.id("table", name))
            for number, (key, value) in enumerate(zip(table.keys, entry.keys, strict=False), 1):
                self._match(row, number, key, value)
            self._action(row, entry.action, action_name)
            if prioritized:
                row.set("priority", priorities[i])
            row.set("is_const", table.entries_const or entry.const)

    def _action(
        self, row: Message, ref: tree.ActionRef, action_name: Callable[[tree.ActionDecl], str]
    ) -> None:
        assert ref.action is not None
        action = row.child("action").child("action")
        action.add("action_id", self.symbols.id("action", action_name(ref.action)))
        plain = [b for b in ref.bound if not b.param.direction]
        for number, bound in enumerate(plain, 1):
            if bound.expr is not None and isinstance(bound.expr.value, int):
                param = action.child("params")
                param.add("param_id", number)
                param.add("value", padded(bound.expr.value, self.types.width(bound.param.type)))

    def _match(self, row: Message, number: int, key: tree.KeyElement, value: tree.Expr) -> None:
        width = self.types.width(key.expr.type)
        everything = (1 << width) - 1
        kind = key.match_kind
        if isinstance(value, tree.DefaultExpr):
            return
        if isinstance(value, tree.RangeExpr):
            low, high = self._number(value.low), self._number(value.high)
            if (low, high) != (0, everything):
                found = self._field(row, number, "range")
                found.add("low", padded(low, width))
                found.add("high", padded(high, width))
            return
        mask = everything
        if isinstance(value, tree.MaskExpr):
            mask = self._number(value.mask)
            number_value = self._number(value.left) & mask
            if mask == 0:
                return
        else:
            number_value = self._number(value)
        data = padded(number_value, width)
        if kind == "lpm":
            prefix = bin(mask).count("1")
            if mask != everything ^ (everything >> prefix):
                raise CompileError.at(
                    self.source, value.pos, "the mask of an lpm key must be a prefix: ones, then zeros"
                )
            found = self._field(row, number, "lpm")
            found.add("value", data)
            found.set("prefix_len", prefix)
        elif kind == "ternary":
            found = self._field(row, number, "ternary")
            found.add("value", data)
            found.add("mask", padded(mask, width))
        elif kind == "range":
            found = self._field(row, number, "range")
            found.add("low", data)
            found.add("high", data)
        elif kind in ("exact", "optional"):
            self._field(row, number, kind).add("value", data)
        else:
            raise CompileError.at(
                self.source, key.pos, f"entries cannot be given to the control plane for {kind} keys"
            )

    def _field(self, row: Message, number: int, kind: str) -> Message:
        match = row.child("match")
        match.add("field_id", number)
        return match.child(kind)

    def _number(self, expr: tree.Expr) -> int:
        value = expr.value
        if isinstance(value, types.EnumValue):
            raise CompileError.at(
                self.source,
                expr.pos,
                "a member of an enum without a type has no value that P4Runtime could carry",
            )
        if isinstance(expr.type, types.ErrorType):
            message = "an error has no value that P4Runtime could carry, so no entry can match one; compare it in an if"
            raise CompileError.at(self.source, expr.pos, message)
        if not isinstance(value, int):
            raise CompileError.at(
                self.source, expr.pos, "the key of an entry must be a number known at compile time"
            )
        return int(value)


def largest_priority_wins(table: tree.TableDecl) -> bool:
    """Whether, among entries that match, the one with the larger written priority is taken."""
    found = table.property("largest_priority_wins")
    return found is None or found.expr.value is not False


def entry_priorities(table: tree.TableDecl, source: Source) -> Sequence[int]:
    """The P4Runtime priority of each entry (larger wins). Constant entries go from their number down to 1. Others have
    the priority written, or the one before it; without any they count by `priority_delta`, in the direction that
    `largest_priority_wins` says."""
    count = len(table.entries)
    if table.entries_const:
        return range(count, 0, -1)
    delta = table.property("priority_delta")
    largest_wins = largest_priority_wins(table)
    step = delta.expr.value if delta is not None and isinstance(delta.expr.value, int) else 1
    if all(e.priority is None for e in table.entries):
        rising = [1 + i * step for i in range(count)]
        return rising[::-1] if largest_wins else rising
    found: list[int] = []
    for entry in table.entries:
        if entry.priority is not None and isinstance(entry.priority.value, int):
            found.append(entry.priority.value)
        elif not found:
            raise CompileError.at(source, entry.pos, "the first entry needs a priority when others have one")
        else:
            following = found[-1] - step if largest_wins else found[-1] + step
            found.append(following)
    return found
