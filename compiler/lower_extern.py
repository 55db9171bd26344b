"""Calls of v1model's and core's externs, as BMv2 primitives."""

from __future__ import annotations

import re
from collections.abc import Callable

from compiler import arith, ir, tree, types
from compiler.ir import bits
from compiler.lower_assign import assign, place
from compiler.lower_context import Lowering, Scope
from compiler.lower_expr import as_scalar, lower, read, rvalue
from compiler.storage import scalar_of
from compiler.values import (
    SCALARS,
    ExternObject,
    Header,
    HeaderLiteral,
    LastHeader,
    Nothing,
    Packet,
    Record,
    Text,
    Value,
    leaves,
)

HASHES = frozenset(
    {"crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16"}
)
DROP_PORT = 511

Handler = Callable[[Scope, tree.Call], "Value"]


def extern_call(scope: Scope, node: tree.Call) -> Value:
    """A call of an extern function or method."""
    if node.kind == "extern_function":
        handler = _FUNCTIONS.get(node.method or node.target.name)
        if handler is None:
            known = ", ".join(sorted(name for name in _FUNCTIONS if name != "static_assert"))
            scope.fail(node, f"the switch has no extern function {node.target.name}; v1model's are {known}")
        return handler(scope, node)
    receiver = _object(scope, node)
    if isinstance(receiver, Packet):
        from compiler.lower_parser import packet_call

        return packet_call(scope, node, receiver)
    if not isinstance(receiver, ExternObject):
        scope.fail(node, f"a call of {node.method} is not supported here")
    method = _METHODS.get((receiver.type.name, node.method))
    if method is None:
        if any(kind == receiver.type.name for kind, _ in _METHODS):
            scope.fail(node, f"the switch's {receiver.type.name} has no method {node.method}()")
        known = ", ".join(sorted({kind for kind, _ in _METHODS}))
        scope.fail(node, f"the switch has no extern {receiver.type.name}; v1model's are {known}")
    if scope.block not in ("ingress", "egress"):
        scope.fail(node, f"{receiver.type.name}.{node.method}() in the {scope.block} is not supported")
    return method(scope, node, receiver)


def _object(scope: Scope, node: tree.Call) -> Value:
    if node.receiver is not None:
        return lower(scope, node.receiver)
    assert isinstance(node.callee, tree.Member)
    return lower(scope, node.callee.expr)


def _argument(scope: Scope, node: tree.Call, number: int) -> tree.Expr:
    expr = node.bound[number].expr
    if expr is None:
        scope.fail(node, f"argument {number + 1} of {node.method} is missing")
    return expr


def _nothing() -> Value:
    return Nothing()


def _emit(scope: Scope, node: tree.Call, op: str, *args: ir.Operand) -> Value:
    scope.emit(ir.Primitive(op, args, pos=node.pos))
    return _nothing()


def _require(scope: Scope, node: tree.Call, *blocks: str) -> None:
    if scope.block not in blocks:
        scope.fail(node, f"{node.method or node.target.name}() can only be called in {' or '.join(blocks)}")


def _into_field(scope: Scope, node: tree.Call, target: tree.Expr, emit: Callable[[ir.Field], None]) -> None:
    """Let a primitive write a plain field, then copy it where the program wants it."""
    if isinstance(target, tree.DontCare):
        scope.fail(node, "`_` for this result is not supported")
    wanted = place(scope, target)
    scalar = scalar_of(scope.type(target))
    if scalar is None:
        scope.fail(target, f"a result of type {scope.type(target)} is not supported")
    if isinstance(wanted, ir.Field):
        emit(wanted)
        return
    cell = scope.temporary(scalar)
    old = rvalue(scope, wanted, node)
    if isinstance(old, SCALARS):
        scope.emit(ir.Assign(cell, old, pos=node.pos))
    emit(cell)
    assign(scope, wanted, cell, node)


def _first_member(type_: types.Type) -> str:
    return next(iter(type_.members), "…") if isinstance(type_, types.EnumType) else "…"


def _enum_name(scope: Scope, node: tree.Expr) -> str:
    value = node.value
    if isinstance(value, types.EnumValue):
        return value.name
    if isinstance(node, tree.Name):
        bound = scope.env.get(node.decl)
        if isinstance(bound, types.EnumValue):
            return bound.name
    scope.fail(node, f"the value must be known at compile time, as {node.type}.{_first_member(node.type)}")


# --------------------------------------------------------------------------- counters, meters, registers


def _count(scope: Scope, node: tree.Call, extern: ExternObject) -> Value:
    index = read(scope, _argument(scope, node, 0))
    return _emit(scope, node, "count", ir.Named("counter_array", extern.name), index)


def _direct_count(scope: Scope, node: tree.Call, extern: ExternObject) -> Value:
    """BMv2 counts every hit of the table by itself."""
    return _nothing()


def _execute_meter(scope: Scope, node: tree.Call, extern: ExternObject) -> Value:
    index = read(scope, _argument(scope, node, 0))

    def emit(cell: ir.Field) -> None:
        _emit(scope, node, "execute_meter", ir.Named("meter_array", extern.name), index, cell)

    _into_field(scope, node, _argument(scope, node, 1), emit)
    return _nothing()


def _read_direct_meter(scope: Scope, node: tree.Call, extern: ExternObject) -> Value:
    from compiler.lower_table import meter_cell

    cell = meter_cell(scope, extern)
    target = place(scope, _argument(scope, node, 0))
    scalar = scalar_of(scope.type(_argument(scope, node, 0)))
    assign(scope, target, cell if scalar is None else arith.wrap(cell, scalar), node)
    return _nothing()


def _read_register(scope: Scope, node: tree.Call, extern: ExternObject) -> Value:
    index = read(scope, _argument(scope, node, 1))

    def emit(cell: ir.Field) -> None:
        _emit(scope, node, "register_read", cell, ir.Named("register_array", extern.name), index)

    _into_field(scope, node, _argument(scope, node, 0), emit)
    return _nothing()


def _write_register(scope: Scope, node: tree.Call, extern: ExternObject) -> Value:
    from compiler.lower_expr import read_pair

    first, second = read_pair(scope, _argument(scope, node, 0), _argument(scope, node, 1))
    index, value = as_scalar(scope, first, node), as_scalar(scope, second, node)
    return _emit(scope, node, "register_write", ir.Named("register_array", extern.name), index, value)


# --------------------------------------------------------------------------- packets


def _mark_to_drop(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "ingress", "egress")
    if not node.bound:
        return _emit(scope, node, "mark_to_drop", ir.HeaderRef("standard_metadata"))
    metadata = lower(scope, _argument(scope, node, 0))
    assert isinstance(metadata, Record)
    spec = metadata.fields.get("egress_spec")
    if isinstance(spec, ir.Field) and spec.header == "standard_metadata":
        return _emit(scope, node, "mark_to_drop", ir.HeaderRef("standard_metadata"))
    group = metadata.fields.get("mcast_grp")
    for cell, value in ((spec, DROP_PORT), (group, 0)):
        if isinstance(cell, ir.Field):
            scope.emit(ir.Assign(cell, arith.const(value, cell.type), pos=node.pos))
    return _nothing()


def _truncate(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "ingress", "egress")
    return _emit(scope, node, "truncate", read(scope, _argument(scope, node, 0)))


def field_list(scope: Scope, node: tree.Node, number: int) -> ir.Const:
    """The id of the list of metadata fields annotated `@field_list(number)`."""
    low = scope.low
    if number not in low.field_lists:
        low.warn(node.pos, f"no field of the user metadata is annotated @field_list({number})")
        low.field_lists[number] = len(low.unit.field_lists) + 1
        low.unit.field_lists.append((low.field_lists[number], f"field_list{number}", []))
    return ir.Const(low.field_lists[number], bits(32))


def _list_number(scope: Scope, node: tree.Call, number: int) -> ir.Const:
    value = read(scope, _argument(scope, node, number))
    if not isinstance(value, ir.Const):
        scope.fail(node, "the field list must be a constant")
    return field_list(scope, node, value.value)


def _list_of(scope: Scope, node: tree.Call, number: int) -> ir.Const:
    """The list that a call asks for: by number, as data (the older calls), or, without that argument, the empty one."""
    if node.target.name.endswith("_preserving_field_list"):
        return _list_number(scope, node, number)
    kept: list[ir.Field] = []
    if len(node.bound) > number:
        expr = _argument(scope, node, number)
        for value in flat_fields(scope, rvalue(scope, lower(scope, expr), expr), expr):
            if isinstance(value, ir.Const):
                continue  # nothing to keep
            if not (isinstance(value, ir.Field) and scope.low.storage.is_metadata(value.header)):
                scope.fail(expr, f"{node.target.name} keeps fields of the metadata, and nothing else")
            kept.append(value)
    low = scope.low
    identity = ir.Const(len(low.unit.field_lists) + 1, bits(32))
    low.unit.field_lists.append((identity.value, f"fl_{low.number('fl')}", kept))
    return identity


def _clone(scope: Scope, node: tree.Call) -> Value:
    kind = _enum_name(scope, _argument(scope, node, 0))
    _require(scope, node, "ingress" if kind == "I2E" else "egress")
    session = read(scope, _argument(scope, node, 1))
    fields = _list_of(scope, node, 2)
    op = "clone_ingress_pkt_to_egress" if kind == "I2E" else "clone_egress_pkt_to_egress"
    return _emit(scope, node, op, session, fields)


def _resubmit(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "ingress")
    return _emit(scope, node, "resubmit", _list_of(scope, node, 0))


def _recirculate(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "egress")
    return _emit(scope, node, "recirculate", _list_of(scope, node, 0))


# --------------------------------------------------------------------------- hash, random, digest


def flat_fields(scope: Scope, value: Value, node: tree.Node) -> list[ir.Expr]:
    """The scalars of a value, headers opened."""
    from compiler.lower_expr import member

    result: list[ir.Expr] = []
    for leaf in leaves(value):
        if isinstance(leaf, SCALARS):
            result.append(leaf)
        elif isinstance(leaf, Header | LastHeader | HeaderLiteral) and isinstance(
            leaf.type, types.RecordType
        ):
            for f in leaf.type.fields:
                result += flat_fields(scope, member(scope, leaf, f.name, node), node)
        else:
            scope.fail(node, "a value of this kind is not supported here")
    return result


def input_field(scope: Scope, value: ir.Expr, node: tree.Node) -> ir.Expr:
    """A constant or field with the value of an expression."""
    if isinstance(value, ir.Const):
        return arith.to_bits(value) if value.type.kind == "bool" else value
    if isinstance(value, ir.Field):
        return value
    cell = scope.temporary(value.type)
    scope.emit(ir.Assign(cell, value, pos=node.pos))
    return cell


def _hash(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "ingress", "egress")
    algorithm = _enum_name(scope, _argument(scope, node, 1))
    if algorithm not in HASHES:
        scope.fail(node, f"hash algorithm {algorithm} is not supported")
    base = read(scope, _argument(scope, node, 2))
    data_node = _argument(scope, node, 3)
    data = rvalue(scope, lower(scope, data_node), data_node)
    inputs = [input_field(scope, v, node) for v in flat_fields(scope, data, data_node)]
    limit = read(scope, _argument(scope, node, 4))
    low = scope.low
    name = calculation_name(low)
    low.unit.calculations.append(ir.Calculation(name, algorithm, inputs, pos=node.pos))

    def emit(cell: ir.Field) -> None:
        calculation = ir.Named("calculation", name)
        _emit(scope, node, "modify_field_with_hash_based_offset", cell, base, calculation, limit)

    _into_field(scope, node, _argument(scope, node, 0), emit)
    return _nothing()


def calculation_name(low: Lowering) -> str:
    """`calc`, `calc_0`, `calc_1`…"""
    number = low.number("calc")
    return f"calc_{number - 1}" if number else "calc"


def _random(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "ingress", "egress")
    low, high = read(scope, _argument(scope, node, 1)), read(scope, _argument(scope, node, 2))

    def emit(cell: ir.Field) -> None:
        _emit(scope, node, "modify_field_rng_uniform", cell, low, high)

    _into_field(scope, node, _argument(scope, node, 0), emit)
    return _nothing()


def _digest(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "ingress")
    receiver = read(scope, _argument(scope, node, 0))
    data_node = _argument(scope, node, 1)
    data = rvalue(scope, lower(scope, data_node), data_node)
    values = flat_fields(scope, data, data_node)
    type_ = next(iter(node.type_arguments.values()), scope.type(data_node))
    name = type_.name if isinstance(type_, types.StructType) else "digest"
    low = scope.low
    if name not in low.learn_cells:
        number = len(low.learn_cells) + 1
        cells = [low.storage.cell(f"$digest.{name}.{i}", v.type) for i, v in enumerate(values)]
        low.learn_cells[name] = (number, cells)
        low.unit.learn_lists.append((number, name, cells))
    number, cells = low.learn_cells[name]
    if [c.type for c in cells] != [v.type for v in values]:
        scope.fail(
            node, "digests without a struct type must all have the same fields; give each its own struct"
        )
    for cell, value in zip(cells, values, strict=True):
        scope.emit(ir.Assign(cell, value, pos=node.pos))
    return _emit(scope, node, "generate_digest", receiver, ir.Const(number, bits(32)))


# --------------------------------------------------------------------------- debugging


def _log_msg(scope: Scope, node: tree.Call) -> Value:
    text = lower(scope, _argument(scope, node, 0))
    if not isinstance(text, Text):
        scope.fail(node, "log_msg takes a string")
    parts: list[Value] = []
    if len(node.bound) > 1 and node.bound[1].expr is not None:
        data = rvalue(scope, lower(scope, node.bound[1].expr), node)
        parts = list(data.fields.values()) if isinstance(data, Record) else [data]
    holes = list(re.finditer(r"(?<!\\)\{.*?(?<!\\)\}", text.text))
    if len(holes) != len(parts):
        scope.fail(node, f"log_msg has {len(holes)} {{}} in its text and {len(parts)} values")
    message, end = "", 0
    for hole, part in zip(holes, parts, strict=True):
        message += text.text[end : hole.start()] + _placeholders(scope, part, node)
        end = hole.end()
    message += text.text[end:]
    if message.startswith("{"):
        message = f" {message}"  # BMv2 does not see a {} at the very start
    items = [item for part in parts for item in flat_fields(scope, part, node)]
    return _emit(scope, node, "log_msg", ir.Named("string", message), ir.Vector(tuple(items)))


def _placeholders(scope: Scope, value: Value, node: tree.Node) -> str:
    """`{}` for a scalar, `(name:{},…)` for anything with fields, as p4c writes it."""
    from compiler.lower_expr import member

    if isinstance(value, SCALARS):
        return "{}"
    if isinstance(value, Record):
        parts = value.fields
    elif isinstance(value, Header | LastHeader | HeaderLiteral) and isinstance(value.type, types.RecordType):
        parts = {f.name: member(scope, value, f.name, node) for f in value.type.fields}
    else:
        scope.fail(node, "log_msg of this value is not supported")
    inner = ",".join(f"{name}:{_placeholders(scope, part, node)}" for name, part in parts.items())
    return f"({inner})"


def _assertion(scope: Scope, node: tree.Call) -> Value:
    condition = read(scope, _argument(scope, node, 0))
    return _emit(scope, node, node.target.name, condition)


def _static_assert(scope: Scope, node: tree.Call) -> Value:
    condition = read(scope, _argument(scope, node, 0))
    if condition != ir.TRUE:
        message = "static_assert failed"
        if len(node.bound) > 1 and node.bound[1].expr is not None:
            text = lower(scope, node.bound[1].expr)
            message = f"static_assert: {text.text}" if isinstance(text, Text) else message
        scope.fail(node, message)
    return ir.TRUE


def _verify(scope: Scope, node: tree.Call) -> Value:
    _require(scope, node, "parser")
    condition = read(scope, _argument(scope, node, 0))
    error = read(scope, _argument(scope, node, 1))
    scope.emit(ir.Verify(condition, error, pos=node.pos))
    return _nothing()


_FUNCTIONS: dict[str, Handler] = {
    "mark_to_drop": _mark_to_drop,
    "truncate": _truncate,
    "clone": _clone,
    "clone3": _clone,
    "clone_preserving_field_list": _clone,
    "resubmit": _resubmit,
    "recirculate": _recirculate,
    "resubmit_preserving_field_list": _resubmit,
    "recirculate_preserving_field_list": _recirculate,
    "hash": _hash,
    "random": _random,
    "digest": _digest,
    "log_msg": _log_msg,
    "assert": _assertion,
    "assume": _assertion,
    "static_assert": _static_assert,
    "verify": _verify,
}

_METHODS: dict[tuple[str, str], Callable[[Scope, tree.Call, ExternObject], Value]] = {
    ("counter", "count"): _count,
    ("direct_counter", "count"): _direct_count,
    ("meter", "execute_meter"): _execute_meter,
    ("direct_meter", "read"): _read_direct_meter,
    ("register", "read"): _read_register,
    ("register", "write"): _write_register,
}
