"""Compile-time values: arithmetic on integers of any size, wrapping to a type's width, and folding of expressions.

A value is an int, bool, str, `types.EnumValue`, `types.ErrorValue` or a tuple of values; None means "not known".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler import tree, types
from compiler.types import BitType, BoolType, InfIntType, Type

MAX_SHIFT = 2048
"""Largest shift amount that is folded (p4c's limit, too): more would only exhaust memory."""


class BadConstant(ValueError):
    """A constant expression has no value (division by zero, a huge shift…); the message says why."""


def wrap(type_: Type, value: int) -> int:
    """`value` reduced to the range of `type_` (two's complement for signed); unchanged for infinite precision."""
    base = types.underlying(type_)
    if not isinstance(base, BitType):
        return value
    value &= (1 << base.width) - 1
    if base.signed and base.width and value >> (base.width - 1):
        value -= 1 << base.width
    return value


def fits(type_: Type, value: int) -> bool:
    """Whether `value` is in the range of `type_`."""
    return wrap(type_, value) == value


def limits(type_: BitType) -> tuple[int, int]:
    """Smallest and largest value."""
    if type_.signed:
        half = 1 << max(0, type_.width - 1)
        return -half, half - 1
    return 0, (1 << type_.width) - 1


def convert(type_: Type, value: Any) -> Any:
    """The value of a cast of `value` to `type_`."""
    if value is None:
        return None
    base = types.underlying(type_)
    if isinstance(base, BitType):
        return wrap(base, int(value)) if isinstance(value, (int, bool)) else value
    if isinstance(base, InfIntType):
        return int(value) if isinstance(value, (int, bool)) else value
    if isinstance(base, BoolType):
        return bool(value) if isinstance(value, (int, bool)) else value
    return value


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise BadConstant("division by zero")
    if left < 0 or right < 0:
        raise BadConstant("division is only defined for positive operands")
    return left // right


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise BadConstant("remainder of a division by zero")
    if left < 0 or right < 0:
        raise BadConstant("% is only defined for positive operands")
    return left % right


_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _modulo,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}

_COMPARISON: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def binary(op: str, type_: Type, left: Any, left_type: Type, right: Any, right_type: Type) -> Any:
    """The value of `left op right`, of result type `type_`, or None if an operand is unknown. Raises BadConstant."""
    if op == "&&":
        return False if left is False else (None if left is None else right)
    if op == "||":
        return True if left is True else (None if left is None else right)
    if left is None or right is None:
        return None
    compare = _COMPARISON.get(op)
    if compare is not None:
        return compare(left, right)
    if isinstance(left, str) and isinstance(right, str):
        return left + right if op == "++" else None
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if op in ("<<", ">>"):
        if right < 0:
            raise BadConstant("a shift amount cannot be negative")
        if op == ">>":
            return wrap(type_, left >> min(right, 1 << 20))
        base = types.underlying(type_)
        if isinstance(base, BitType):
            return wrap(type_, left << right) if right < base.width else 0
        if right > MAX_SHIFT:
            raise BadConstant(f"a shift by {right} is more than the {MAX_SHIFT} bits that are supported")
        return left << right
    if op in ("|+|", "|-|"):
        base = types.underlying(type_)
        if not isinstance(base, BitType):
            return None
        low, high = limits(base)
        return max(low, min(high, left + right if op == "|+|" else left - right))
    if op == "++":
        rights = types.underlying(right_type)
        if not isinstance(rights, BitType):
            return None
        return wrap(type_, (left << rights.width) | (right & ((1 << rights.width) - 1)))
    value = _ARITHMETIC[op](left, right)
    if isinstance(type_, InfIntType) and value.bit_length() > 100_000:
        raise BadConstant("the value has more than 100000 bits")
    return wrap(type_, value)


def unary(op: str, type_: Type, value: Any) -> Any:
    """The value of `op value`."""
    if value is None:
        return None
    if op == "!":
        return not value
    if op == "~":
        return wrap(type_, ~value)
    if op == "-":
        return wrap(type_, -value)
    return value


def slice_bits(value: Any, high: int, low: int) -> Any:
    """Bits high..low of `value`."""
    if not isinstance(value, int):
        return None
    return (value >> low) & ((1 << (high - low + 1)) - 1)


def default_value(type_: Type) -> Any:
    """What `...` stands for; None for what has no value of its own kind (headers become invalid)."""
    base = types.underlying(type_)
    if isinstance(base, (BitType, InfIntType)):
        return 0
    if isinstance(base, BoolType):
        return False
    if isinstance(base, types.StringType):
        return ""
    if isinstance(base, types.ErrorType):
        return types.ErrorValue("NoError")
    if isinstance(base, types.EnumType):
        return types.EnumValue(base, base.members[0])
    if isinstance(base, types.TupleType):
        return tuple(default_value(e) for e in base.elements)
    if isinstance(base, types.StructType):
        return tuple(default_value(f.type) for f in base.fields)
    if isinstance(base, types.StackType):
        return tuple(default_value(base.element) for _ in range(base.size))
    return None


def fold(expr: tree.Expr, environment: Mapping[Any, Any] | None = None) -> Any:
    """The value of a checked expression when the declarations in `environment` (constructor parameters) have the given
    values; None when it is not constant. `environment` maps declaration nodes to values. Raises BadConstant."""
    if expr.value is not None or not environment:
        return expr.value
    if isinstance(expr, tree.Name):
        return environment.get(expr.decl)
    if isinstance(expr, tree.Cast):
        return convert(expr.type, fold(expr.expr, environment))
    if isinstance(expr, tree.Unary):
        return unary(expr.op, expr.type, fold(expr.expr, environment))
    if isinstance(expr, tree.Binary):
        left, right = fold(expr.left, environment), fold(expr.right, environment)
        return binary(expr.op, expr.type, left, expr.left.type, right, expr.right.type)
    if isinstance(expr, tree.Ternary):
        condition = fold(expr.condition, environment)
        return None if condition is None else fold(expr.yes if condition else expr.no, environment)
    if isinstance(expr, tree.Slice):
        return slice_bits(fold(expr.expr, environment), expr.high.value, expr.low.value)
    if isinstance(expr, tree.ListExpr):
        return _all(tuple(fold(e, environment) for e in expr.elements))
    if isinstance(expr, tree.Member) and isinstance(expr.expr.type, types.RecordType):
        return member(fold(expr.expr, environment), expr.expr.type, expr.name)
    return None


def member(value: Any, type_: types.RecordType, name: str) -> Any:
    """The field `name` of a constant struct."""
    if not isinstance(value, tuple):
        return None
    for field, part in zip(type_.fields, value, strict=False):
        if field.name == name:
            return part
    return None


def _all(values: tuple[Any, ...]) -> Any:
    return None if any(v is None for v in values) else values
