"""Instances: externs, controls and parsers, their constructor arguments, and the locals of a control or parser."""

from __future__ import annotations

from typing import Any

from compiler import ir, tree, types
from compiler.instances import control_plane_name
from compiler.lower_context import Scope
from compiler.lower_expr import lower
from compiler.values import BlockObject, ExternObject, Text, Value

COUNTED = {"counter", "meter", "register"}


def instantiate(scope: Scope, node: tree.InstanceDecl) -> Value:
    """The object that an instance declaration makes."""
    name = control_plane_name(node, scope.path)
    return make(scope, node.call, name, node)


def make(scope: Scope, node: tree.Call, name: str, decl: tree.InstanceDecl | None) -> Value:
    """The object that a constructor call makes; `name` is its control-plane name."""
    type_ = scope.type(node)
    if isinstance(type_, types.TypeType):
        type_ = type_.of
    if isinstance(type_, types.ExternType):
        arguments = {b.param.name: _argument(scope, b.expr) for b in node.bound}
        found = ExternObject(name, type_, decl, arguments, node.pos)
        register_extern(scope, found)
        return found
    if isinstance(type_, types.ApplicableType) and isinstance(type_.decl, tree.ControlDecl | tree.ParserDecl):
        env: dict[object, Any] = {}
        for param, argument in zip(type_.decl.constructor_params, node.bound, strict=False):
            if argument.expr is not None:
                env[param] = lower(scope, argument.expr)
        return BlockObject(name, type_.decl, type_, env)
    scope.fail(node, f"an instance of {type_} is not supported here")


def _argument(scope: Scope, expr: tree.Expr | None) -> object:
    if expr is None:
        return None
    if expr.value is not None:
        return expr.value
    value = lower(scope, expr)
    if isinstance(value, ir.Const):
        return value.value
    if isinstance(value, Text):
        return value.text
    return value


def anonymous_instance(scope: Scope, node: tree.Call, receiver: tree.TypeExpr) -> BlockObject:
    """The instance behind a direct application `C.apply(…)`."""
    type_ = scope.type(receiver)
    if isinstance(type_, types.TypeType):
        type_ = type_.of
    if not isinstance(type_, types.ApplicableType) or not isinstance(
        type_.decl, tree.ControlDecl | tree.ParserDecl
    ):
        scope.fail(node, f"a direct application of {type_} is not supported")
    name = f"{scope.path}.{type_.decl.name}" if scope.path else type_.decl.name
    return BlockObject(name, type_.decl, type_, {})


def declare_locals(scope: Scope, block: BlockObject) -> None:
    """Locals of a control or parser at the start of its body: instances once, variables each time."""
    from compiler.lower_stmt import statement

    for local in block.decl.locals:
        if isinstance(local, tree.InstanceDecl):
            if not block.ready:
                block.env[local] = instantiate(scope, local)
        elif isinstance(local, tree.VarDecl | tree.ConstDecl):
            statement(scope, local)
        elif isinstance(local, tree.ValueSetDecl) and not block.ready:
            declare_value_set(scope, local)
    block.ready = True


def declare_value_set(scope: Scope, node: tree.ValueSetDecl) -> None:
    """A parser value set."""
    element = scope.type(node)
    if isinstance(element, types.SetType):
        element = element.element
    width = types.width_bits(element)
    if width is None:
        scope.fail(node, f"a value_set of {element} is not supported")
    size = lower(scope, node.size)
    if not isinstance(size, ir.Const):
        scope.fail(node, "the size of a value_set must be a constant")
    name = control_plane_name(node, scope.path)
    scope.env[node] = Text(name)
    scope.low.unit.value_sets.append((name, width, size.value))


def has_tables(decl: tree.ControlDecl | tree.ParserDecl) -> bool:
    """Whether a control, or one that it instantiates, has a table."""
    for local in decl.locals:
        if isinstance(local, tree.TableDecl):
            return True
        if isinstance(local, tree.InstanceDecl):
            type_ = local.call.type
            inner = type_.of if isinstance(type_, types.TypeType) else type_
            if isinstance(inner, types.ControlType) and (
                not isinstance(inner.decl, tree.ControlDecl) or has_tables(inner.decl)
            ):
                return True
    return isinstance(decl, tree.ControlDecl) and any(has_tables(inner) for inner in _direct(decl.body))


def _direct(node: Any) -> list[tree.ControlDecl]:
    """Controls that statements apply directly (`C.apply()`)."""
    found: list[tree.ControlDecl] = []
    if isinstance(node, tree.Block):
        for item in node.statements:
            found += _direct(item)
    elif isinstance(node, tree.If):
        found += _direct(node.then)
        if node.otherwise is not None:
            found += _direct(node.otherwise)
    elif isinstance(node, tree.Switch):
        for case in node.cases:
            if case.body is not None:
                found += _direct(case.body)
    elif isinstance(node, tree.For | tree.ForIn):
        found += _direct(node.body)
    elif isinstance(node, tree.CallStatement) and node.call.kind == "control_apply":
        callee = node.call.callee
        if isinstance(callee, tree.Member) and isinstance(callee.expr, tree.TypeExpr):
            type_ = callee.expr.type
            inner = type_.of if isinstance(type_, types.TypeType) else type_
            if isinstance(inner, types.ControlType) and isinstance(inner.decl, tree.ControlDecl):
                found.append(inner.decl)
    return found


# --------------------------------------------------------------------------- extern arrays


def register_extern(scope: Scope, extern: ExternObject) -> None:
    """Add a counter, meter or register array to the program."""
    kind = extern.type.name
    if kind not in COUNTED:
        return
    scope.low.claim(kind, extern.name, extern.pos)
    unit = scope.low.unit
    size = extern.arguments.get("size")
    if not isinstance(size, int):
        raise scope.low.error(extern.pos, f"the size of {kind} {extern.name} must be a constant")
    item: dict[str, Any] = {"name": extern.name, "pos": extern.pos, "size": size}
    if kind == "counter":
        unit.counters.append({**item, "is_direct": False})
    elif kind == "meter":
        unit.meters.append({**item, "is_direct": False, "rate_count": 2, "type": meter_type(scope, extern)})
    else:
        if size == 0:
            raise scope.low.error(extern.pos, f"register {extern.name} needs a size of at least 1")
        element = types.underlying(extern.type.args[0]) if extern.type.args else types.UNKNOWN
        if isinstance(element, types.BitType) and element.width > 0:
            width = element.width
        elif isinstance(element, types.BoolType):
            width = 1
        else:
            raise scope.low.error(
                extern.pos, f"a register of {element} is not supported: only bit<>, int<>, bool"
            )
        unit.registers.append({**item, "bitwidth": width})


def meter_type(scope: Scope, extern: ExternObject) -> str:
    """`packets` or `bytes`."""
    value = extern.arguments.get("type")
    if isinstance(value, types.EnumValue) and value.name in ("packets", "bytes"):
        return value.name
    raise scope.low.error(
        extern.pos, f"the type of {extern.name} must be MeterType.packets or MeterType.bytes"
    )
