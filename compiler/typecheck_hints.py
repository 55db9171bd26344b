"""The second half of a message: what the person at the keyboard probably meant, or how to repair it."""

from __future__ import annotations

from compiler import tree, types
from compiler.types import BitType, InfIntType, Type


def describe(expr: tree.Expr) -> str:
    """What an expression is, for the beginning of a message."""
    return f"'{source_text(expr)}'" if isinstance(expr, tree.Name | tree.Member) else "a value"


def source_text(expr: tree.Expr) -> str:
    """A simple expression as written."""
    if isinstance(expr, tree.Name):
        return expr.name
    if isinstance(expr, tree.Member):
        return f"{source_text(expr.expr)}.{expr.name}"
    if isinstance(expr, tree.IntLiteral):
        return expr.text
    return "…"


def width_hint(left: Type, right: Type) -> str:
    """What to do about two numbers of different types."""
    if isinstance(left, BitType) and isinstance(right, BitType):
        if left.signed != right.signed:
            return " (one is signed, the other is not: cast one of them)"
        return " (the widths differ: cast one of them)"
    return ""


def zero_hint(type_: Type) -> str:
    """What to do about a number where a bool is wanted."""
    return " (compare it with 0)" if isinstance(type_, BitType | InfIntType) else ""


def bool_hint(source: Type, target: Type) -> str:
    """What to do about a number for a bool or a bool for a number."""
    if isinstance(target, types.BoolType):
        return zero_hint(source)
    if isinstance(source, types.BoolType) and isinstance(target, BitType):
        return " (cast it: (bit<1>)…)"
    return ""


def logic_hint(op: str, type_: Type) -> str:
    """What to do about & and | between bools."""
    if isinstance(type_, types.BoolType) and op in "&|":
        return f" (for bool it is {op}{op})"
    return ""


def method_hint(name: str) -> str:
    """What to do about a method without parentheses."""
    if name in ("isValid", "setValid", "setInvalid"):
        return f" (a method is called with parentheses: {name}())"
    return ""


def cast_hint(source: Type, target: Type) -> str:
    """What to do about a cast that is not defined."""
    if isinstance(source, BitType) and isinstance(target, BitType):
        return " (change the sign and the width in two casts)"
    if isinstance(target, types.BoolType):
        return zero_hint(source)
    return ""
