"""Low-level expressions and operands as BMv2's "type value objects" (behavioral-model, docs/JSON_format.md).

BMv2 computes with unbounded integers, so results that can leave their type are masked (unsigned) or taken
modulo (signed). Booleans are a separate kind of value there: `d2b` and `b2d` convert at the borders.
"""

from __future__ import annotations

from typing import Any

from compiler import ir
from compiler.arith import within
from compiler.ir import Scalar

Json = dict[str, Any]


def hexstr(value: int, width: int = 0) -> str:
    """`0x…`, padded to the bytes of `width` bits; a minus sign in front when negative."""
    digits = 2 * ((width + 7) // 8)
    sign = "-" if value < 0 else ""
    return f"{sign}0x{abs(value):0{digits}x}" if digits else f"{sign}0x{abs(value):x}"


def _op(op: str, left: Any, right: Any) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _fit(value: Json, type_: Scalar) -> Json:
    if type_.kind == "int":
        return _op("two_comp_mod", value, {"type": "hexstr", "value": hexstr(type_.width)})
    mask = (1 << type_.width) - 1
    return _op("&", value, {"type": "hexstr", "value": hexstr(mask, type_.width)})


def _stack(name: str) -> Json:
    return {"type": "header_stack", "value": name}


def _element(stack: str, index: ir.Expr) -> Json:
    return _op("dereference_header_stack", _stack(stack), data(index))


def data(expr: ir.Expr) -> Json:
    """`expr` as a number inside an expression."""
    if isinstance(expr, ir.Const):
        return {"type": "hexstr", "value": hexstr(expr.value, expr.type.width)}
    if isinstance(expr, ir.Field):
        return {"type": "field", "value": [expr.header, expr.field]}
    if isinstance(expr, ir.Param):
        return {"type": "local", "value": expr.index}
    if isinstance(expr, ir.LastField):
        return {"type": "stack_field", "value": [expr.stack, expr.field]}
    if isinstance(expr, ir.ElementField):
        return _op("access_field", _element(expr.stack, expr.index), expr.offset)
    if isinstance(expr, ir.LastIndex):
        return _op("last_stack_index", None, _stack(expr.stack))
    if isinstance(expr, ir.Lookahead):
        return {"type": "lookahead", "value": [expr.offset, expr.type.width]}
    if isinstance(expr, ir.UnionStackField):
        return {"type": "union_stack_field", "value": [expr.stack, expr.member, expr.field]}
    if expr.type.kind == "bool":
        return _op("b2d", None, truth(expr))
    if isinstance(expr, ir.Unary):
        if expr.op == "same":
            return data(expr.value)
        if expr.op == "b2d":
            return data(expr.value)
        return _fit(_op(expr.op, None, data(expr.value)), expr.type)
    if isinstance(expr, ir.Wrap):
        return _fit(data(expr.value), expr.type)
    if isinstance(expr, ir.Clamp):
        return data(ir.Mux(within(expr), expr.value, ir.Const(0, expr.type), expr.type))
    if isinstance(expr, ir.Mux):
        muxed = _op("?", data(expr.yes), data(expr.no))
        muxed["value"]["cond"] = truth(expr.condition)
        return muxed
    if isinstance(expr, ir.Binary):
        if expr.op.startswith("sat"):
            plain = _op(expr.op[3:], data(expr.left), data(expr.right))
            cast = "sat_cast" if expr.type.kind == "int" else "usat_cast"
            return _op(cast, plain, {"type": "hexstr", "value": hexstr(expr.type.width)})
        plain = _op(expr.op, data(expr.left), data(expr.right))
        return _fit(plain, expr.type) if expr.op in ("+", "-", "*", "<<") else plain
    raise AssertionError(f"no number: {expr}")


def truth(expr: ir.Expr) -> Json:
    """`expr`, a bool, as a boolean inside an expression."""
    if isinstance(expr, ir.Const):
        return {"type": "bool", "value": bool(expr.value)}
    if isinstance(expr, ir.ElementValid):
        return _op("valid", None, _element(expr.stack, expr.index))
    if isinstance(expr, ir.Unary):
        if expr.op == "not":
            return _op("not", None, truth(expr.value))
        if expr.op == "d2b":
            return _op("d2b", None, data(expr.value))
    if isinstance(expr, ir.Binary):
        if expr.op in ("and", "or"):
            return _op(expr.op, truth(expr.left), truth(expr.right))
        if expr.left.type.kind == "bool":
            return _op(expr.op, truth(expr.left), truth(expr.right))
        return _op(expr.op, data(expr.left), data(expr.right))
    return _op("d2b", None, data(expr))


def header(ref: ir.HeaderRef) -> Json:
    """A header operand of a primitive."""
    if ref.index is None:
        return {"type": "header", "value": ref.name}
    return {"type": "expression", "value": _element(ref.name, ref.index)}


def operand(value: ir.Operand) -> Json:
    """A parameter of a primitive."""
    if isinstance(value, ir.HeaderRef):
        return header(value)
    if isinstance(value, ir.Named):
        return {"type": value.kind, "value": value.name}
    if isinstance(value, ir.Vector):
        return {"type": "parameters_vector", "value": [operand(item) for item in value.items]}
    if isinstance(value, ir.Param):
        return {"type": "runtime_data", "value": value.index}
    if isinstance(value, ir.Unary) and value.op in ("same", "b2d"):
        return operand(value.value)
    result = data(value)
    if result["type"] in ("expression", "stack_field"):
        return {"type": "expression", "value": result}
    return result
