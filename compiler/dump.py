"""What each pass makes, as text, for `--dump PASS`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TextIO

from compiler import ir, tree
from compiler.control_flow import Graph
from compiler.pretty import pretty_checked, pretty_source
from compiler.source import Source

PASSES = ("preprocess", "parse", "check", "p4info", "lower", "graph", "json")
"""In the order in which they run."""


def dump_object(what: object, out: TextIO) -> None:
    """Print what a pass made: text, a tree (with its source), a checked program, a low-level unit, graphs, JSON."""
    if isinstance(what, str):
        out.write(what)
    elif isinstance(what, Source):
        out.write(what.text)
    elif isinstance(what, tuple):
        out.write(pretty_source(*what))
    elif isinstance(what, tree.TypedProgram):
        out.write(pretty_checked(what))
    elif isinstance(what, dict):
        out.write(json.dumps(what, indent=1) + "\n")
    elif isinstance(what, ir.Unit):
        _unit(what, out)
    elif isinstance(what, list):
        for graph in what:
            if isinstance(graph, Graph):
                _graph(graph, out)


def text(value: Any) -> str:
    """An expression, header or operand in one line."""
    if isinstance(value, ir.Const):
        return str(bool(value.value)).lower() if value.type.kind == "bool" else str(value.value)
    if isinstance(value, ir.Field):
        return f"{value.header}.{value.field}"
    if isinstance(value, ir.Param):
        return f"${value.index}"
    if isinstance(value, ir.LastField):
        return f"{value.stack}.last.{value.field}"
    if isinstance(value, ir.ElementField):
        return f"{value.stack}[{text(value.index)}].{value.field}"
    if isinstance(value, ir.ElementValid):
        return f"{value.stack}[{text(value.index)}].$valid$"
    if isinstance(value, ir.LastIndex):
        return f"{value.stack}.lastIndex"
    if isinstance(value, ir.Lookahead):
        return f"lookahead({value.offset}, {value.type.width})"
    if isinstance(value, ir.Unary):
        return f"{value.op}({text(value.value)})"
    if isinstance(value, ir.Wrap):
        return f"({value.type.kind}<{value.type.width}>){text(value.value)}"
    if isinstance(value, ir.Clamp):
        return f"clamp({text(value.value)}, {value.size})"
    if isinstance(value, ir.Binary):
        return f"({text(value.left)} {value.op} {text(value.right)})"
    if isinstance(value, ir.Mux):
        return f"({text(value.condition)} ? {text(value.yes)} : {text(value.no)})"
    if isinstance(value, ir.HeaderRef):
        return value.name if value.index is None else f"{value.name}[{text(value.index)}]"
    if isinstance(value, ir.NextElement):
        return f"{value.stack}.next" + (f".{value.member}" if value.member else "")
    if isinstance(value, ir.Named):
        return value.name
    if isinstance(value, ir.Vector):
        return f"[{', '.join(map(text, value.items))}]"
    return str(value)


def _statements(body: list[ir.Stmt], indent: int, out: TextIO) -> None:
    pad = "  " * indent
    for stmt in body:
        if isinstance(stmt, ir.Assign):
            print(f"{pad}{text(stmt.target)} = {text(stmt.value)}", file=out)
        elif isinstance(stmt, ir.If):
            print(f"{pad}if {text(stmt.condition)}", file=out)
            _statements(stmt.then, indent + 1, out)
            if stmt.otherwise:
                print(f"{pad}else", file=out)
                _statements(stmt.otherwise, indent + 1, out)
        elif isinstance(stmt, ir.Block | ir.Loop):
            name = f"block {stmt.label}" if isinstance(stmt, ir.Block) else "loop"
            print(f"{pad}{name}", file=out)
            _statements(stmt.body, indent + 1, out)
        elif isinstance(stmt, ir.Leave):
            print(f"{pad}leave {stmt.label}", file=out)
        elif isinstance(stmt, ir.Apply):
            _apply(stmt, indent, out)
        elif isinstance(stmt, ir.Primitive):
            print(f"{pad}{stmt.op}({', '.join(map(text, stmt.args))})", file=out)
        else:
            values = [getattr(stmt, f.name) for f in dataclasses.fields(stmt) if f.name != "pos"]
            print(f"{pad}{type(stmt).__name__}({', '.join(map(text, values))})", file=out)


def _apply(stmt: ir.Apply, indent: int, out: TextIO) -> None:
    pad = "  " * indent
    print(f"{pad}apply {stmt.table.name}", file=out)
    arms: list[tuple[str, list[ir.Stmt] | None]] = [("hit", stmt.hit), ("miss", stmt.miss)]
    arms += [(action.name, body) for action, body in (stmt.actions or {}).items()]
    arms.append(("otherwise", stmt.otherwise))
    for name, body in arms:
        if body:
            print(f"{pad}on {name}", file=out)
            _statements(body, indent + 1, out)


def _unit(unit: ir.Unit, out: TextIO) -> None:
    for state in unit.parser:
        print(f"state {state.name}", file=out)
        _statements(state.body, 1, out)
        if state.keys:
            print(f"  select {', '.join(map(text, state.keys))}", file=out)
        for case in state.cases:
            target = case.target.name if case.target is not None else "accept"
            print(f"  {case.value_set or case.keys or 'default'} -> {target}", file=out)
    for action in unit.actions:
        params = ", ".join(f"{name}: {scalar.kind}<{scalar.width}>" for name, scalar in action.params)
        print(f"action {action.name}({params})", file=out)
        _statements(action.body, 1, out)
    for pipeline in unit.pipelines:
        print(f"pipeline {pipeline.name}", file=out)
        _statements(pipeline.body, 1, out)
    print(f"deparser {', '.join(unit.deparser)}", file=out)


def _graph(graph: Graph, out: TextIO) -> None:
    print(f"graph {graph.name}: starts at {graph.first}", file=out)
    for node in graph.conditionals:
        print(f"  {node.name}: {text(node.condition)} ? {node.yes} : {node.no}", file=out)
    for table in graph.tables:
        arms = ", ".join(f"{name} -> {after}" for name, after in table.after.items())
        print(f"  {table.table.name}: {arms}", file=out)
