"""Expressions: from the typed tree to pure low-level values; effects go to the scope's statements, in order."""

from __future__ import annotations

from typing import Any

from compiler import arith, ir, tree, types
from compiler.ir import bits
from compiler.lower_context import Scope
from compiler.lower_effects import freeze, has_effects, materialize
from compiler.lower_literals import aggregate, constant, default_value, retype
from compiler.storage import NoStorage, header_field, scalar_of
from compiler.values import (
    SCALARS,
    Element,
    Header,
    HeaderLiteral,
    LastHeader,
    NextHeader,
    Nothing,
    Record,
    Stack,
    StackLiteral,
    Text,
    Union,
    Value,
)

# --------------------------------------------------------------------------- expressions


def lower(scope: Scope, node: tree.Expr) -> Value:
    """The value of an expression."""
    if node.value is not None:
        return constant(scope, node.value, scope.type(node), node)
    handler = _HANDLERS.get(type(node))
    if handler is None:
        scope.fail(node, f"{type(node).__name__} is not supported here")
    result: Value = handler(scope, node)
    return result


def scalar(scope: Scope, node: tree.Expr) -> ir.Expr:
    """The value of an expression that must be a scalar."""
    value = lower(scope, node)
    if isinstance(value, SCALARS):
        return value
    scope.fail(node, f"a value of type {scope.type(node)} is not supported here")


def pair(scope: Scope, left: tree.Expr, right: tree.Expr) -> tuple[Value, Value]:
    """Two operands, evaluated from left to right."""
    first = lower(scope, left)
    if has_effects(right):
        first = freeze(scope, first, left)
    return first, lower(scope, right)


def as_scalar(scope: Scope, value: Value, node: tree.Node) -> ir.Expr:
    """`value`, which must be a scalar."""
    if isinstance(value, SCALARS):
        return value
    scope.fail(node, "a scalar value is needed here")


def _name(scope: Scope, node: tree.Name) -> Value:
    decl = node.decl
    value: Value | None = scope.env.get(decl)
    if value is None:
        value = scope.low.globals.get(decl)
    if value is None and isinstance(decl, tree.ConstDecl):
        if decl.value is not None:
            return constant(scope, decl.value, decl.type, node)
        return lower(scope, decl.init)
    if value is None:
        scope.fail(node, f"{node.name} cannot be used here")
    return value


def _this(scope: Scope, node: tree.This) -> Value:
    value: Value | None = scope.env.get(node.decl)
    if value is None:
        scope.fail(node, "`this` is not supported")
    return value


def _member(scope: Scope, node: tree.Member) -> Value:
    if node.kind in ("next", "last", "lastIndex", "size"):
        return _stack_member(scope, node)
    if isinstance(node.expr, tree.Call) and node.expr.kind == "table_apply":
        from compiler.lower_table import apply_in_expression

        return apply_in_expression(scope, node.expr, node.name, node)
    base = lower(scope, node.expr)
    return member(scope, base, node.name, node)


def member(scope: Scope, base: Value, name: str, node: tree.Node) -> Value:
    """Field `name` of a value."""
    if isinstance(base, Record):
        return base.fields[name]
    if isinstance(base, Header):
        field = base.type.field(name)
        assert field is not None
        try:
            return header_field(base, name, field.type)
        except NoStorage as problem:
            scope.fail(node, str(problem))
    if isinstance(base, HeaderLiteral):
        if name in base.fields:
            return base.fields[name]
        field = base.type.field(name) if isinstance(base.type, types.RecordType) else None
        assert field is not None
        return default_value(scope, field.type, node)
    if isinstance(base, Union):
        return base.members[name]
    if isinstance(base, LastHeader):
        return _last_field(scope, base, name, node)
    if isinstance(base, NextHeader) and isinstance(base.type, types.HeaderUnionType):
        field = base.type.field(name)
        assert field is not None
        return NextHeader(field.type, base.stack, name)
    if isinstance(base, Element):
        parts = [member(scope, element, name, node) for element in base.elements]
        return element_of(scope, parts, base.index, node)
    if isinstance(base, NextHeader):
        scope.fail(
            node, f".next is a place to extract into; what was extracted last is .last, as in .last.{name}"
        )
    scope.fail(node, f"a value of this kind has no {name} on the switch")


def _last_field(scope: Scope, base: LastHeader, name: str, node: tree.Node) -> Value:
    field = base.type.field(name)
    scalar_type = scalar_of(field.type) if field is not None else None
    if scalar_type is None:
        scope.fail(node, f"field {name} of a stack's last element is not supported")
    return ir.LastField(base.stack, name, scalar_type)


def _stack_member(scope: Scope, node: tree.Member) -> Value:
    base = lower(scope, node.expr)
    if node.name == "size":
        if isinstance(base, Stack | StackLiteral):
            return ir.Const(base.type.size, bits(32))
        scope.fail(node, "size of this stack is not supported")
    if not isinstance(base, Stack):
        scope.fail(node, f"{node.name} of this stack is not supported")
    if node.name == "lastIndex":
        return ir.LastIndex(base.name)
    if node.name == "next":
        return NextHeader(base.type.element, base)
    if base.layout is None or not isinstance(base.type.element, types.HeaderType):
        scope.fail(node, "last of a stack of header unions is not supported")
    return LastHeader(base.type.element, base.name, base.layout)


def _index(scope: Scope, node: tree.Index) -> Value:
    base = lower(scope, node.expr)
    place = read(scope, node.index)
    if isinstance(base, Record):
        return element_of(scope, list(base.fields.values()), place, node)
    if isinstance(base, StackLiteral):
        base = materialize(scope, base, node)
    if isinstance(base, Element):
        scope.fail(node, "an array in an array with run-time indexes is not supported")
    if not isinstance(base, Stack):
        scope.fail(node, "an index into this value is not supported")
    if isinstance(place, ir.Const):
        if not 0 <= place.value < len(base.elements):
            scope.fail(node, f"index {place.value} is outside the stack of {len(base.elements)} elements")
        return base.elements[place.value]
    if base.layout is None or not isinstance(base.type.element, types.HeaderType):
        return Element(base.type.element, base.elements, place)
    index = arith.clamp(place, len(base.elements))
    return Header(base.type.element, ir.HeaderRef(base.name, index), base.layout)


def element_of(scope: Scope, elements: list[Value], index: ir.Expr, node: tree.Node) -> Value:
    """`elements[index]`."""
    if isinstance(index, ir.Const):
        if not 0 <= index.value < len(elements):
            scope.fail(node, f"index {index.value} is outside the array of {len(elements)} elements")
        return elements[index.value]
    first = elements[0]
    type_: types.Type = types.UNKNOWN
    if isinstance(first, Record):
        type_ = first.type
    return Element(type_, elements, index)


def element_value(scope: Scope, value: Element, node: tree.Node) -> Value:
    """The element as an rvalue: a choice by the index."""
    first = value.elements[0]
    if isinstance(first, Header | Union | Stack):
        from compiler.lower_assign import assign

        copy = scope.new(f"{scope.path}.tmp", first.type, node)
        for number, element in enumerate(value.elements):
            inner = scope.derive(out=[])
            assign(inner, copy, element, node)
            test = arith.compare("==", value.index, arith.const(number, value.index.type))
            scope.emit(ir.If(test, inner.out, [], pos=node.pos))
        return copy
    return _choose(scope, value.elements, value.index, node)


def _choose(scope: Scope, elements: list[Value], index: ir.Expr, node: tree.Node) -> Value:
    first = elements[0]
    if isinstance(first, Record):
        names = list(first.fields)
        parts = {
            n: _choose(scope, [e.fields[n] for e in elements if isinstance(e, Record)], index, node)
            for n in names
        }
        return Record(first.type, parts)
    result: ir.Expr | None = None
    for number in range(len(elements) - 1, -1, -1):
        element = as_scalar(scope, elements[number], node)
        if result is None:
            result = element
        else:
            result = arith.mux(arith.compare("==", index, arith.const(number, index.type)), element, result)
    assert result is not None
    return result


def rvalue(scope: Scope, value: Value, node: tree.Node) -> Value:
    """`value` for reading."""
    return element_value(scope, value, node) if isinstance(value, Element) else value


def read(scope: Scope, node: tree.Expr) -> ir.Expr:
    """A scalar expression for reading."""
    return as_scalar(scope, rvalue(scope, lower(scope, node), node), node)


def read_pair(scope: Scope, left: tree.Expr, right: tree.Expr) -> tuple[Value, Value]:
    """Two operands for reading."""
    first, second = pair(scope, left, right)
    return rvalue(scope, first, left), rvalue(scope, second, right)


def _slice(scope: Scope, node: tree.Slice) -> Value:
    high, low = node.high.value, node.low.value
    if high is None or low is None:
        first, second = read(scope, node.high), read(scope, node.low)
        if not isinstance(first, ir.Const) or not isinstance(second, ir.Const):
            scope.fail(node, "the bounds of a slice must be constants")
        high, low = first.value, second.value
    return arith.slice_(read(scope, node.expr), high, low)


def _plus_slice(scope: Scope, node: tree.PlusSlice) -> Value:
    base, low = read_pair(scope, node.expr, node.low)
    value, start = as_scalar(scope, base, node), as_scalar(scope, low, node)
    width = node.width.value
    if isinstance(start, ir.Const):
        return arith.slice_(value, start.value + width - 1, start.value)
    unsigned = arith.wrap(value, bits(value.type.width))
    return arith.slice_(arith.shift(">>", unsigned, start), width - 1, 0)


def _unary(scope: Scope, node: tree.Unary) -> Value:
    value = read(scope, node.expr)
    if node.op == "!":
        return arith.not_(value)
    if node.op == "+":
        return value
    return arith.unary(node.op, value)


def _binary(scope: Scope, node: tree.Binary) -> Value:
    op = node.op
    if op in ("&&", "||"):
        return _logical(scope, node)
    left_value, right_value = read_pair(scope, node.left, node.right)
    if op in ("==", "!="):
        same = equal(scope, left_value, right_value, node)
        return same if op == "==" else arith.not_(same)
    left = as_scalar(scope, left_value, node.left)
    right = as_scalar(scope, right_value, node.right)
    if op in ("<", "<=", ">", ">="):
        return arith.compare(op, left, right)
    if op in ("<<", ">>"):
        if isinstance(right, ir.Const) and right.value < 0:
            scope.fail(node, "a shift by a negative amount")
        return arith.shift(op, left, right)
    if op == "++":
        return arith.concat(left, right)
    if op in ("/", "%"):
        if isinstance(right, ir.Const) and right.value == 0:
            scope.fail(node, "division by zero")
        if left.type.kind == "int":
            scope.fail(node, f"{op} of signed values is not supported at run time")
    return arith.binary(op, left, right)


def _logical(scope: Scope, node: tree.Binary) -> Value:
    left = read(scope, node.left)
    if not has_effects(node.right):
        join = arith.and_ if node.op == "&&" else arith.or_
        return join(left, read(scope, node.right))
    if isinstance(left, ir.Const):
        short = bool(left.value) == (node.op == "||")
        return left if short else read(scope, node.right)
    cell = scope.temporary(ir.BOOL)
    scope.emit(ir.Assign(cell, left, pos=node.pos))
    inner = scope.derive(out=[])
    inner.emit(ir.Assign(cell, read(inner, node.right), pos=node.pos))
    test = cell if node.op == "&&" else arith.not_(cell)
    scope.emit(ir.If(test, inner.out, [], pos=node.pos))
    return cell


def _ternary(scope: Scope, node: tree.Ternary) -> Value:
    from compiler.lower_assign import assign

    condition = read(scope, node.condition)
    if isinstance(condition, ir.Const):
        return lower(scope, node.yes if condition.value else node.no)
    scalar_type = scalar_of(scope.type(node))
    if scalar_type is not None and not has_effects(node.yes) and not has_effects(node.no):
        return arith.mux(condition, read(scope, node.yes), read(scope, node.no))
    place = scope.new(f"{scope.path}.tmp", scope.type(node), node)
    yes, no = scope.derive(out=[]), scope.derive(out=[])
    assign(yes, place, lower(yes, node.yes), node)
    assign(no, place, lower(no, node.no), node)
    scope.emit(ir.If(condition, yes.out, no.out, pos=node.pos))
    return place


def _cast(scope: Scope, node: tree.Cast) -> Value:
    value = rvalue(scope, lower(scope, node.expr), node)
    return cast(scope, value, scope.type(node), node)


def cast(scope: Scope, value: Value, type_: types.Type, node: tree.Node) -> Value:
    """`(type_) value`."""
    target = types.underlying(type_)
    scalar_type = scalar_of(target)
    if scalar_type is None:
        return retype(scope, value, target, node)
    source = as_scalar(scope, value, node)
    if source.type == scalar_type:
        return source
    if scalar_type.kind == "bool":
        return arith.to_bool(source)
    if source.type.kind == "bool":
        return arith.wrap(arith.to_bits(source), scalar_type)
    if source.type.kind == "varbit" or scalar_type.kind == "varbit":
        scope.fail(node, "a cast of a varbit is not supported")
    return arith.wrap(source, scalar_type)


def _list(scope: Scope, node: tree.ListExpr) -> Value:
    parts: list[Value] = []
    for number, element in enumerate(node.elements):
        value = rvalue(scope, lower(scope, element), element)
        if any(has_effects(later) for later in node.elements[number + 1 :]):
            value = freeze(scope, value, element)
        parts.append(value)
    return aggregate(scope, parts, types.underlying(scope.type(node)), node)


def _struct(scope: Scope, node: tree.StructExpr) -> Value:
    type_ = types.underlying(scope.type(node))
    given: dict[str, Value] = {}
    for number, item in enumerate(node.fields):
        value = rvalue(scope, lower(scope, item.expr), item)
        if any(has_effects(later.expr) for later in node.fields[number + 1 :]):
            value = freeze(scope, value, item)
        given[item.name] = value
    if not isinstance(type_, types.RecordType):
        return Record(type_, given)
    fields: dict[str, Value] = {}
    for f in type_.fields:
        if f.name in given:
            part = given[f.name]
            inner = types.underlying(f.type)
            fields[f.name] = retype(scope, part, inner, node) if isinstance(part, Record) else part
        else:
            fields[f.name] = default_value(scope, f.type, node)
    if isinstance(type_, types.HeaderType):
        return HeaderLiteral(type_, ir.TRUE, fields)
    return Record(type_, fields)


def _invalid(scope: Scope, node: tree.InvalidHeader) -> Value:
    return HeaderLiteral(scope.type(node), ir.FALSE, {})


def _dots(scope: Scope, node: tree.Dots) -> Value:
    return default_value(scope, scope.type(node), node)


def _call(scope: Scope, node: tree.Call) -> Value:
    from compiler.lower_call import call

    return call(scope, node)


def _string(scope: Scope, node: tree.StringLiteral) -> Value:
    return Text(node.text)


def _dont_care(scope: Scope, node: tree.DontCare) -> Value:
    return Nothing()


# --------------------------------------------------------------------------- equality


def validity(scope: Scope, value: Value, node: tree.Node) -> ir.Expr:
    """`value.isValid()`."""
    if isinstance(value, Header):
        if value.ref.index is not None:
            return ir.ElementValid(value.ref.name, value.ref.index)
        return ir.Field(value.ref.name, "$valid$", ir.BOOL)
    if isinstance(value, HeaderLiteral):
        return value.valid
    if isinstance(value, Union):
        return arith.any_of([validity(scope, m, node) for m in value.members.values()])
    if isinstance(value, LastHeader):
        return ir.ElementValid(value.stack, ir.LastIndex(value.stack))
    if isinstance(value, Element):
        index = value.index
        return arith.any_of(
            [
                arith.and_(arith.compare("==", index, arith.const(n, index.type)), validity(scope, e, node))
                for n, e in enumerate(value.elements)
            ]
        )
    scope.fail(node, "isValid() of this value is not supported")


def equal(scope: Scope, left: Value, right: Value, node: tree.Node) -> ir.Expr:
    """`left == right`, aggregates field by field, headers with their validity."""
    if isinstance(left, SCALARS) and isinstance(right, SCALARS):
        return arith.compare("==", left, right)
    if isinstance(left, Record) and isinstance(right, Record):
        pairs = zip(left.fields.values(), right.fields.values(), strict=True)
        return arith.all_of([equal(scope, a, b, node) for a, b in pairs])
    if isinstance(left, Union) and isinstance(right, Union):
        return arith.all_of([equal(scope, m, right.members[n], node) for n, m in left.members.items()])
    if isinstance(left, Stack | StackLiteral) and isinstance(right, Stack | StackLiteral):
        elements = zip(left.elements, right.elements, strict=True)
        return arith.all_of([equal(scope, a, b, node) for a, b in elements])
    for one, other in ((left, right), (right, left)):
        if isinstance(one, HeaderLiteral) and one.valid == ir.FALSE:
            return arith.not_(validity(scope, other, node))
        if isinstance(other, Record) and isinstance(one, Header | HeaderLiteral):
            return equal(scope, one, HeaderLiteral(one.type, ir.TRUE, other.fields), node)
    header = left if isinstance(left, Header | LastHeader) else right
    if isinstance(header, Header | LastHeader | HeaderLiteral):
        names = [f.name for f in header.type.fields] if isinstance(header.type, types.RecordType) else []
        parts = [
            equal(scope, member(scope, left, name, node), member(scope, right, name, node), node)
            for name in names
        ]
        one, other = validity(scope, left, node), validity(scope, right, node)
        both_valid = arith.all_of([one, other, *parts])
        return arith.or_(both_valid, arith.and_(arith.not_(one), arith.not_(other)))
    scope.fail(node, "== of these values is not supported")


_HANDLERS: dict[type, Any] = {
    tree.Name: _name,
    tree.This: _this,
    tree.Member: _member,
    tree.Index: _index,
    tree.Slice: _slice,
    tree.PlusSlice: _plus_slice,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.Ternary: _ternary,
    tree.Cast: _cast,
    tree.ListExpr: _list,
    tree.StructExpr: _struct,
    tree.InvalidHeader: _invalid,
    tree.Dots: _dots,
    tree.Call: _call,
    tree.StringLiteral: _string,
    tree.DontCare: _dont_care,
}
