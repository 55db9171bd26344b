"""Assignment: places, and moving values of every shape into them."""

from __future__ import annotations

from compiler import arith, ir, tree, types
from compiler.lower_context import Scope
from compiler.lower_effects import freeze, materialize
from compiler.lower_expr import as_scalar, lower, member, read, rvalue, validity
from compiler.lower_literals import default_value, retype
from compiler.values import (
    SCALARS,
    Element,
    Header,
    HeaderLiteral,
    LastHeader,
    NextHeader,
    Record,
    Sliced,
    Stack,
    StackLiteral,
    Union,
    Value,
    cells_read,
    overlap,
)


def place(scope: Scope, node: tree.Expr) -> Value:
    """The place that an expression names, as the target of an assignment."""
    if isinstance(node, tree.Slice):
        high, low = read(scope, node.high), read(scope, node.low)
        if not isinstance(high, ir.Const) or not isinstance(low, ir.Const):
            scope.fail(node, "the bounds of a slice must be constants")
        return Sliced(place(scope, node.expr), high.value, low.value)
    if isinstance(node, tree.PlusSlice):
        low = read(scope, node.low)
        if not isinstance(low, ir.Const):
            scope.fail(node, "assignment to a slice with a run-time position is not supported")
        return Sliced(place(scope, node.expr), low.value + node.width.value - 1, low.value)
    return lower(scope, node)


def freeze_index(scope: Scope, index: ir.Expr, node: tree.Node) -> ir.Expr:
    """An index that later statements cannot change."""
    if isinstance(index, ir.Clamp):
        return ir.Clamp(as_scalar(scope, freeze(scope, index.value, node), node), index.size, index.type)
    return as_scalar(scope, freeze(scope, index, node), node)


def write_through(scope: Scope, index: ir.Expr | None, stmt: ir.Stmt) -> None:
    """Emit a statement that writes the stack element at `index`, if there is such an element."""
    test = arith.within(index)
    if test == ir.TRUE:
        scope.emit(stmt)
    else:
        scope.emit(ir.If(test, [stmt], [], pos=stmt.pos))


def freeze_indexes(scope: Scope, target: Value, node: tree.Node) -> Value:
    """The same place, its run-time index kept safe from what is evaluated next."""
    if isinstance(target, Header) and target.ref.index is not None:
        index = freeze_index(scope, target.ref.index, node)
        return Header(target.type, ir.HeaderRef(target.ref.name, index), target.layout)
    if isinstance(target, ir.ElementField):
        index = freeze_index(scope, target.index, node)
        return ir.ElementField(target.stack, index, target.field, target.offset, target.type)
    if isinstance(target, Element):
        return Element(
            target.type, target.elements, as_scalar(scope, freeze(scope, target.index, node), node)
        )
    if isinstance(target, Sliced):
        return Sliced(freeze_indexes(scope, target.base, node), target.high, target.low)
    return target


def current(scope: Scope, target: Value, node: tree.Node) -> Value:
    """What a place holds now."""
    if isinstance(target, Sliced):
        base = as_scalar(scope, current(scope, target.base, node), node)
        return arith.slice_(base, target.high, target.low)
    return rvalue(scope, target, node)


def assign(scope: Scope, target: Value, value: Value, node: tree.Node) -> None:
    """`target = value`."""
    value = rvalue(scope, value, node)
    if isinstance(target, ir.Field | ir.ElementField | ir.LastField):
        _assign_scalar(scope, target, value, node)
    elif isinstance(target, Sliced):
        old = as_scalar(scope, current(scope, target.base, node), node)
        new = arith.insert(old, target.high, target.low, as_scalar(scope, value, node))
        assign(scope, target.base, new, node)
    elif isinstance(target, Record):
        _assign_record(scope, target, value, node)
    elif isinstance(target, Header | LastHeader):
        _assign_header(scope, target, value, node)
    elif isinstance(target, Union):
        _assign_union(scope, target, value, node)
    elif isinstance(target, Stack):
        _assign_stack(scope, target, value, node)
    elif isinstance(target, Element):
        _assign_element(scope, target, value, node)
    else:
        if isinstance(target, NextHeader):
            scope.fail(node, ".next is a place to extract into; to write to an element, name it, as in [0]")
        scope.fail(node, "this cannot be assigned on the switch")


def _assign_scalar(
    scope: Scope, target: ir.Field | ir.ElementField | ir.LastField, value: Value, node: tree.Node
) -> None:
    source = as_scalar(scope, value, node)
    if isinstance(target, ir.Field) and target.field == "$valid$":
        scope.fail(node, "assignment to the validity of a header is not supported")
    if target.type.kind == "varbit" and not isinstance(source, ir.Field | ir.LastField):
        scope.fail(node, "assignment of this value to a varbit is not supported")
    if source != target:
        index = target.index if isinstance(target, ir.ElementField) else None
        write_through(scope, index, ir.Assign(target, source, pos=node.pos))


def _assign_record(scope: Scope, target: Record, value: Value, node: tree.Node) -> None:
    if not isinstance(value, Record):
        scope.fail(node, "assignment of this value to a struct is not supported")
    if value.type != target.type and len(value.fields) != len(target.fields):
        value = retype(scope, value, target.type, node)
        assert isinstance(value, Record)
    pairs = list(zip(target.fields.values(), value.fields.values(), strict=True))
    written: set[tuple[str, str]] = set()
    for to, source in pairs:
        if to is not source and overlap(written, cells_read(source)):
            value_safe = [freeze(scope, source, node) for _, source in pairs]
            pairs = [(to, safe) for (to, _), safe in zip(pairs, value_safe, strict=True)]
            break
        written |= cells_read(to)
    for to, source in pairs:
        assign(scope, to, source, node)


def _fields(type_: types.Type) -> list[types.Field]:
    return list(type_.fields) if isinstance(type_, types.RecordType) else []


def _assign_header(scope: Scope, target: Header | LastHeader, value: Value, node: tree.Node) -> None:
    if isinstance(value, Record):
        value = HeaderLiteral(target.type, ir.TRUE, value.fields)
    if isinstance(value, Header) and isinstance(target, Header):
        if value.ref != target.ref:
            write_through(scope, target.ref.index, ir.CopyHeader(target.ref, value.ref, pos=node.pos))
        return
    if isinstance(target, LastHeader):
        target = Header(target.type, ir.HeaderRef(target.stack, ir.LastIndex(target.stack)), target.layout)
    if isinstance(value, LastHeader):
        last = ir.HeaderRef(value.stack, ir.LastIndex(value.stack))
        write_through(scope, target.ref.index, ir.CopyHeader(target.ref, last, pos=node.pos))
        return
    if not isinstance(value, HeaderLiteral):
        scope.fail(node, "assignment of this value to a header is not supported")
    if value.valid == ir.FALSE:
        write_through(scope, target.ref.index, ir.SetInvalid(target.ref, pos=node.pos))
        return
    name = target.ref.name
    if overlap({(name, "*")}, cells_read(value)):
        fields = {n: freeze(scope, f, node) for n, f in value.fields.items()}
        valid = as_scalar(scope, freeze(scope, value.valid, node), node)
        value = HeaderLiteral(value.type, valid, fields)
    inner = scope.derive(out=[])
    write_through(inner, target.ref.index, ir.SetValid(target.ref, pos=node.pos))
    for f in _fields(target.type):
        part = value.fields.get(f.name)
        assign(inner, member(inner, target, f.name, node), part or default_value(inner, f.type, node), node)
    if value.valid == ir.TRUE:
        scope.out.extend(inner.out)
    else:
        gone = scope.derive(out=[])
        write_through(gone, target.ref.index, ir.SetInvalid(target.ref, pos=node.pos))
        scope.emit(ir.If(value.valid, inner.out, gone.out, pos=node.pos))


def _assign_union(scope: Scope, target: Union, value: Value, node: tree.Node) -> None:
    if isinstance(value, HeaderLiteral) and value.valid == ir.FALSE:
        for header in target.members.values():
            scope.emit(ir.SetInvalid(header.ref, pos=node.pos))
        return
    if not isinstance(value, Union):
        scope.fail(node, "assignment of this value to a header union is not supported")
    if value is target or value.name == target.name:
        return
    # The valid member goes last: making one valid makes the others invalid.
    for name, header in target.members.items():
        gone: list[ir.Stmt] = [ir.SetInvalid(header.ref, pos=node.pos)]
        test = arith.not_(validity(scope, value.members[name], node))
        scope.emit(ir.If(test, gone, [], pos=node.pos))
    for name, header in target.members.items():
        copy: list[ir.Stmt] = [ir.CopyHeader(header.ref, value.members[name].ref, pos=node.pos)]
        scope.emit(ir.If(validity(scope, value.members[name], node), copy, [], pos=node.pos))


def _assign_stack(scope: Scope, target: Stack, value: Value, node: tree.Node) -> None:
    if isinstance(value, Record):
        value = StackLiteral(target.type, list(value.fields.values()))
    if isinstance(value, Stack):
        if value.name == target.name:
            return
        if target.layout is not None:
            args = (ir.Named("header_stack", target.name), ir.Named("header_stack", value.name))
            scope.emit(ir.Primitive("assign_header_stack", args, pos=node.pos))
        else:
            args = (ir.Named("header_union_stack", target.name), ir.Named("header_union_stack", value.name))
            scope.emit(ir.Primitive("assign_union_stack", args, pos=node.pos))
        return
    if not isinstance(value, StackLiteral):
        scope.fail(node, "assignment of this value to a header stack is not supported")
    elements = value.elements
    if overlap(cells_read(target), cells_read(value)):
        elements = [
            materialize(scope, e, node) if isinstance(e, Header) else freeze(scope, e, node) for e in elements
        ]
    for to, source in zip(target.elements, elements, strict=True):
        assign(scope, to, source, node)


def _assign_element(scope: Scope, target: Element, value: Value, node: tree.Node) -> None:
    index = as_scalar(scope, freeze(scope, target.index, node), node)
    value = freeze(scope, value, node) if not isinstance(value, SCALARS) or ir.cells(value) else value
    for number, element in enumerate(target.elements):
        inner = scope.derive(out=[])
        assign(inner, element, value, node)
        test = arith.compare("==", index, arith.const(number, index.type))
        scope.emit(ir.If(test, inner.out, [], pos=node.pos))


def invalidate(scope: Scope, value: Value, node: tree.Node) -> None:
    """Make every header in a value invalid, as at the start of a variable's life."""
    if isinstance(value, Record):
        for part in value.fields.values():
            invalidate(scope, part, node)
    elif isinstance(value, Header):
        scope.emit(ir.SetInvalid(value.ref, pos=node.pos))
    elif isinstance(value, Union):
        for header in value.members.values():
            scope.emit(ir.SetInvalid(header.ref, pos=node.pos))
    elif isinstance(value, Stack):
        for element in value.elements:
            invalidate(scope, element, node)
