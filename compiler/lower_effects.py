"""Effects and order: which expressions can change something, and how a value is kept from later changes."""

from __future__ import annotations

from typing import Any

from compiler import ir, tree
from compiler.lower_context import Scope
from compiler.values import (
    SCALARS,
    Element,
    Header,
    HeaderLiteral,
    LastHeader,
    Record,
    Stack,
    StackLiteral,
    Union,
    Value,
)

_PURE_CALLS = frozenset({"header_method", "size_method", "constructor"})


def has_effects(node: Any) -> bool:
    """Whether evaluating an expression can change anything (conservative)."""
    if isinstance(node, tree.Call):
        if node.kind not in _PURE_CALLS or node.method in ("setValid", "setInvalid"):
            return node.kind != "size_method"
        return any(has_effects(arg.expr) for arg in node.args)
    if isinstance(node, tree.Binary):
        return has_effects(node.left) or has_effects(node.right)
    if isinstance(node, tree.Member | tree.Unary | tree.Cast | tree.Slice):
        return has_effects(node.expr)
    if isinstance(node, tree.Index):
        return has_effects(node.expr) or has_effects(node.index)
    if isinstance(node, tree.PlusSlice):
        return has_effects(node.expr) or has_effects(node.low)
    if isinstance(node, tree.Ternary):
        return has_effects(node.condition) or has_effects(node.yes) or has_effects(node.no)
    if isinstance(node, tree.ListExpr):
        return any(has_effects(e) for e in node.elements)
    if isinstance(node, tree.StructExpr):
        return any(has_effects(f.expr) for f in node.fields)
    return False


def freeze(scope: Scope, value: Value, node: tree.Node) -> Value:
    """A value that later statements cannot change."""
    if isinstance(value, SCALARS):
        return value if not ir.cells(value) else materialize(scope, value, node)
    if isinstance(value, Record):
        return Record(value.type, {name: freeze(scope, part, node) for name, part in value.fields.items()})
    if isinstance(value, Header | LastHeader | Union | Stack | HeaderLiteral | StackLiteral | Element):
        return materialize(scope, value, node)
    return value


def materialize(scope: Scope, value: Value, node: tree.Node, hint: str = "tmp") -> Value:
    """A copy of a value in new storage."""
    from compiler.lower_assign import assign

    if isinstance(value, SCALARS):
        cell = scope.temporary(value.type, hint)
        scope.emit(ir.Assign(cell, value, pos=node.pos))
        return cell
    if isinstance(
        value, Record | Header | LastHeader | Union | Stack | HeaderLiteral | StackLiteral | Element
    ):
        copy = scope.new(f"{scope.path}.{hint}", value.type, node)
        assign(scope, copy, value, node)
        return copy
    return value
