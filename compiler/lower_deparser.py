"""The deparser: BMv2 runs primitives, then emits every header of a fixed list that is valid.

A header of the packet that is emitted on every way stands in the list itself (the deparser cannot change it). Anything
else - a header made here, or one emitted under a condition - is copied, where it is emitted, to an instance of its own.
"""

from __future__ import annotations

from compiler import ir, tree, types
from compiler.lower_assign import assign
from compiler.lower_call import block_object
from compiler.lower_checks import enter
from compiler.lower_context import Scope
from compiler.lower_expr import lower, read, rvalue
from compiler.lower_stmt import statement
from compiler.values import (
    Header,
    HeaderLiteral,
    LastHeader,
    Nothing,
    Record,
    Stack,
    StackLiteral,
    Union,
    Value,
)


def lower_deparser(scope: Scope, body: tree.Block) -> None:
    """The deparser's body: the list of headers, and the primitives before it."""
    unit = scope.low.unit
    _straight(scope, body)
    ir.trim_tail(scope.out, 0)
    made: list[ir.Stmt] = [ir.SetInvalid(ref, pos=body.pos) for ref in scope.low.emitted_copies]
    unit.deparser_body = [*made, *scope.out]


def _straight(scope: Scope, node: tree.Statement | tree.Decl) -> bool:
    """A statement that every packet reaches. False: what follows it is not."""
    if isinstance(node, tree.Block):
        return _sequence(scope, node)
    if isinstance(node, tree.Return | tree.Exit):
        return False
    if (
        isinstance(node, tree.CallStatement)
        and node.call.kind == "control_apply"
        and _plain(scope, node.call)
    ):
        return True
    if isinstance(node, tree.CallStatement) and node.call.kind in ("extern_method", "extern_function"):
        lower(scope.derive(always=True), node.call)
        return True
    if isinstance(node, tree.If):
        probe = scope.derive(out=[])
        test = read(probe, node.condition)
        if isinstance(test, ir.Const) and not probe.out:
            chosen = node.then if test.value else node.otherwise
            return _straight(scope, chosen) if chosen is not None else True
    statement(scope, node)
    return not ir.leads_to(scope.out, 0)


def _sequence(scope: Scope, block: tree.Block) -> bool:
    for number, item in enumerate(block.statements):
        if _straight(scope, item):
            continue
        if ir.leads_to(scope.out, 0):  # some packets go on
            for rest in block.statements[number + 1 :]:
                statement(scope, rest)
        return False
    return True


def _plain(scope: Scope, call: tree.Call) -> bool:
    """A sub-control whose body is straight and whose parameters are the arguments. False: it is not that simple."""
    block = block_object(scope, call)
    assert isinstance(block.decl, tree.ControlDecl)
    body = block.decl.body.statements
    if block.decl.locals or not all(
        isinstance(item, tree.CallStatement) and item.call.kind == "extern_method" for item in body
    ):
        return False
    inner = enter(scope, call)
    return all(_straight(inner, item) for item in body)


# --------------------------------------------------------------------------- emit


def emit(scope: Scope, node: tree.Call) -> Value:
    """`packet.emit(x);`"""
    if scope.block != "deparser":
        scope.fail(node, "emit() can only be called in the deparser")
    if scope.in_loop:
        scope.fail(
            node, "emit() in a loop is not supported: the target emits a list of headers that is fixed"
        )
    argument = node.bound[0].expr
    assert argument is not None
    _emit(scope, rvalue(scope, lower(scope, argument), argument), argument)
    return Nothing()


def _as_parsed(scope: Scope, header: Header) -> bool:
    return scope.always and header.ref.name in scope.low.packet_headers


def _emit(scope: Scope, value: Value, node: tree.Node) -> None:
    low = scope.low
    if isinstance(value, Header) and value.ref.index is None and _as_parsed(scope, value):
        low.unit.deparser.append(value.ref.name)
    elif isinstance(value, Record):
        for part in value.fields.values():
            _emit(scope, part, node)
    elif isinstance(value, Stack | StackLiteral):
        for element in value.elements:
            _emit(scope, element, node)
    elif isinstance(value, Union):
        for header in value.members.values():
            _emit(scope, header, node)
    elif isinstance(value, HeaderLiteral) and value.valid == ir.FALSE:
        return
    elif isinstance(value, Header | LastHeader | HeaderLiteral) and isinstance(value.type, types.HeaderType):
        copy = low.storage.header("emitted", value.type)
        assign(scope, copy, value, node)
        low.emitted_copies.append(copy.ref)
        low.unit.deparser.append(copy.ref.name)
    else:
        scope.fail(node, "emit takes headers, header stacks, unions and structs of them")
