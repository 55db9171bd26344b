"""Structured statements of an action, flattened to BMv2 primitives; `if` and loops become `_jump`s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import ir
from compiler.bmv2json_expr import Json, header, hexstr, operand

SourceNote = Callable[[int], Json | None]


def primitive(stmt: ir.Stmt) -> tuple[str, list[Json]]:
    """BMv2's name and parameters for a statement without inner statements."""
    if isinstance(stmt, ir.Assign):
        op = "assign_VL" if stmt.target.type.kind == "varbit" else "assign"
        return op, [operand(stmt.target), operand(stmt.value)]
    if isinstance(stmt, ir.CopyHeader):
        return "assign_header", [header(stmt.target), header(stmt.source)]
    if isinstance(stmt, ir.SetValid):
        return "add_header", [header(stmt.header)]
    if isinstance(stmt, ir.SetInvalid):
        return "remove_header", [header(stmt.header)]
    if isinstance(stmt, ir.Primitive):
        return stmt.op, [operand(arg) for arg in stmt.args]
    if isinstance(stmt, ir.Exit):
        return "exit", []
    raise AssertionError(f"no primitive for {stmt}")


class ActionWriter:
    """Writes one action."""

    def __init__(self, note: SourceNote) -> None:
        self.note = note
        self.out: list[Json] = []
        self.ends: dict[int, int] = {}
        """Index after each block, once known."""
        self.jumps: list[tuple[list[Json], int]] = []
        """Parameter lists that still lack the target of a label."""

    def write(self, body: list[ir.Stmt]) -> list[Json]:
        """The primitives of an action."""
        self._sequence(body)
        self.ends[0] = len(self.out)
        for params, label in self.jumps:
            params.append(_number(self.ends[label]))
        return self.out

    def _emit(self, op: str, params: list[Json], pos: int) -> None:
        item: dict[str, Any] = {"op": op, "parameters": params}
        if pos >= 0:
            note = self.note(pos)
            if note is not None:
                item["source_info"] = note
        self.out.append(item)

    def _sequence(self, stmts: list[ir.Stmt]) -> None:
        for stmt in stmts:
            self._statement(stmt)
            if isinstance(stmt, ir.Leave):
                return

    def _statement(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.If):
            self._if(stmt)
        elif isinstance(stmt, ir.Block):
            self._sequence(stmt.body)
            self.ends[stmt.label] = len(self.out)
        elif isinstance(stmt, ir.Loop):
            start = len(self.out)
            self._sequence(stmt.body)
            self._emit("_jump", [_number(start)], stmt.pos)
        elif isinstance(stmt, ir.Leave):
            params: list[Json] = []
            self.jumps.append((params, stmt.label))
            self._emit("_jump", params, stmt.pos)
        else:
            op, arguments = primitive(stmt)
            self._emit(op, arguments, stmt.pos)

    def _if(self, stmt: ir.If) -> None:
        params = [operand(stmt.condition)]
        self._emit("_jump_if_zero", params, stmt.pos)
        self._sequence(stmt.then)
        if stmt.otherwise:
            skip: list[Json] = []
            self._emit("_jump", skip, stmt.pos)
            params.append(_number(len(self.out)))
            self._sequence(stmt.otherwise)
            skip.append(_number(len(self.out)))
        else:
            params.append(_number(len(self.out)))


def _number(value: int) -> Json:
    return {"type": "hexstr", "value": hexstr(value)}
