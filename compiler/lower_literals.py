"""Constants, default values and literals: aggregates that are made of parts."""

from __future__ import annotations

from typing import Any

from compiler import arith, ir, tree, types
from compiler.ir import bits
from compiler.lower_context import Scope
from compiler.storage import scalar_of
from compiler.values import Header, HeaderLiteral, Record, Stack, StackLiteral, Text, Union, Value


def constant(scope: Scope, value: Any, type_: types.Type, node: tree.Node) -> Value:
    """A compile-time value of `type_`."""
    type_ = types.underlying(type_)
    if isinstance(value, bool):
        return arith.boolean(value)
    if isinstance(value, int):
        if isinstance(type_, types.BitType):
            return arith.const(value, bits(type_.width, type_.signed))
        return ir.Const(value, bits(max(32, value.bit_length() + 1), value < 0))
    if isinstance(value, types.EnumValue):
        return arith.const(value.type.members.index(value.name), bits(32))
    if isinstance(value, types.ErrorValue):
        return arith.const(scope.low.errors[value.name], bits(32))
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, tuple | list):
        return _constant_aggregate(scope, list(value), type_, node)
    scope.fail(node, f"a constant of type {type_} is not supported here")


def _constant_aggregate(scope: Scope, parts: list[Any], type_: types.Type, node: tree.Node) -> Value:
    if isinstance(type_, types.RecordType):
        fields = {
            f.name: constant(scope, part, f.type, node) for f, part in zip(type_.fields, parts, strict=True)
        }
        if isinstance(type_, types.HeaderType):
            return HeaderLiteral(type_, ir.TRUE, fields)
        return Record(type_, fields)
    if isinstance(type_, types.TupleType):
        pairs = enumerate(zip(type_.elements, parts, strict=True))
        return Record(type_, {str(i): constant(scope, part, t, node) for i, (t, part) in pairs})
    if isinstance(type_, types.StackType):
        elements = [constant(scope, part, type_.element, node) for part in parts]
        if type_.is_header_stack:
            return StackLiteral(type_, elements)
        return Record(type_, {str(i): e for i, e in enumerate(elements)})
    if isinstance(type_, types.ListType):
        elements = [constant(scope, part, type_.element, node) for part in parts]
        return Record(type_, {str(i): e for i, e in enumerate(elements)})
    scope.fail(node, f"a constant of type {type_} is not supported here")


def default_value(scope: Scope, type_: types.Type, node: tree.Node) -> Value:
    """What `...` stands for: zero, false, invalid header."""
    type_ = types.underlying(type_)
    scalar = scalar_of(type_)
    if scalar is not None and scalar.kind != "varbit":
        return ir.Const(0, scalar)
    if isinstance(type_, types.HeaderType | types.HeaderUnionType):
        return HeaderLiteral(type_, ir.FALSE, {})
    if isinstance(type_, types.RecordType):
        return Record(type_, {f.name: default_value(scope, f.type, node) for f in type_.fields})
    if isinstance(type_, types.TupleType):
        return Record(type_, {str(i): default_value(scope, t, node) for i, t in enumerate(type_.elements)})
    if isinstance(type_, types.StackType):
        elements = [default_value(scope, type_.element, node) for _ in range(type_.size)]
        if type_.is_header_stack:
            return StackLiteral(type_, elements)
        return Record(type_, {str(i): e for i, e in enumerate(elements)})
    scope.fail(node, f"`...` for type {type_} is not supported")


def retype(scope: Scope, value: Value, type_: types.Type, node: tree.Node) -> Value:
    """An aggregate as another aggregate type with the same parts (tuple to struct, struct to header…)."""
    if isinstance(value, Record):
        parts = list(value.fields.values())
        return aggregate(scope, parts, type_, node)
    if isinstance(value, Header | HeaderLiteral | Union | Stack | StackLiteral):
        if value.type == type_:
            return value
        if isinstance(value, HeaderLiteral) and isinstance(type_, types.HeaderType):
            return HeaderLiteral(type_, value.valid, value.fields)
    scope.fail(
        node, f"a value that only the packet decides cannot become {type_}; cast it to bit<W> or int<W>"
    )


def aggregate(scope: Scope, parts: list[Value], type_: types.Type, node: tree.Node) -> Value:
    """A struct, header, tuple, stack or array of `parts`, in order."""
    if isinstance(type_, types.RecordType):
        names = [f.name for f in type_.fields]
        expected = [f.type for f in type_.fields]
    elif isinstance(type_, types.TupleType):
        names = [str(i) for i in range(len(type_.elements))]
        expected = list(type_.elements)
    elif isinstance(type_, types.StackType):
        names = [str(i) for i in range(type_.size)]
        expected = [type_.element] * type_.size
    elif isinstance(type_, types.ListType):
        names = [str(i) for i in range(len(parts))]
        expected = [type_.element] * len(parts)
    else:
        scope.fail(node, f"a list as a value of type {type_} is not supported")
    fields: dict[str, Value] = {}
    for name, wanted, part in zip(names, expected, parts, strict=False):
        inner = types.underlying(wanted)
        fields[name] = retype(scope, part, inner, node) if isinstance(part, Record) else part
    for name, wanted in zip(names[len(parts) :], expected[len(parts) :], strict=True):
        fields[name] = default_value(scope, wanted, node)
    if isinstance(type_, types.HeaderType):
        return HeaderLiteral(type_, ir.TRUE, fields)
    if isinstance(type_, types.StackType) and type_.is_header_stack:
        return StackLiteral(type_, list(fields.values()))
    return Record(type_, fields)
