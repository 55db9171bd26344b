"""The deparser: BMv2 runs a list of primitives, then emits every header of a fixed list that is valid.

The room for the headers is made before the primitives run, and a primitive cannot jump. So statements are straight
lines, and what is emitted is a header of the packet, as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler import ir, tree
from compiler.lower_call import block_object, function_scope, inline
from compiler.lower_checks import enter
from compiler.lower_context import Scope
from compiler.lower_expr import lower, read, rvalue
from compiler.lower_stmt import statement
from compiler.values import Header, HeaderLiteral, Nothing, Record, Stack, StackLiteral, Union, Value

GO_ON, RETURNED, EXITED = range(3)

NO_BRANCH = (
    "is not supported in the deparser: the target emits a list of headers that is the same for every packet"
)


def lower_deparser(scope: Scope, body: tree.Block) -> None:
    """The deparser's body: the list of headers, and the primitives before it."""
    _sequence(scope, body.statements)
    for stmt in scope.out:
        if not isinstance(stmt, ir.Assign | ir.Primitive):
            message = "the deparser can assign to its variables and emit; it cannot branch or change headers"
            raise scope.low.error(stmt.pos if stmt.pos >= 0 else body.pos, message)
    scope.low.unit.deparser_body = scope.out


def _sequence(scope: Scope, body: Sequence[tree.Statement | tree.Decl]) -> int:
    for item in body:
        after = _straight(scope, item)
        if after != GO_ON:
            return after
    return GO_ON


def _straight(scope: Scope, node: tree.Statement | tree.Decl) -> int:
    if isinstance(node, tree.Block):
        return _sequence(scope, node.statements)
    if isinstance(node, tree.Return) and node.expr is None:
        return RETURNED
    if isinstance(node, tree.Exit):
        return EXITED
    if isinstance(node, tree.CallStatement):
        return _call(scope, node.call)
    if isinstance(node, tree.If):
        probe = scope.derive(out=[])
        test = read(probe, node.condition)
        if not isinstance(test, ir.Const) or probe.out:
            scope.fail(node, f"if {NO_BRANCH}")
        chosen = node.then if test.value else node.otherwise
        return _straight(scope, chosen) if chosen is not None else GO_ON
    if isinstance(node, tree.Switch | tree.For | tree.ForIn):
        scope.fail(node, f"{'switch' if isinstance(node, tree.Switch) else 'for'} {NO_BRANCH}")
    statement(scope, node)
    return GO_ON


def _call(scope: Scope, call: tree.Call) -> int:
    after = GO_ON
    if call.kind == "control_apply":
        block = block_object(scope, call)
        assert isinstance(block.decl, tree.ControlDecl)
        after = _sequence(enter(scope, call), block.decl.body.statements)
    elif call.kind == "function":
        inner, bound = function_scope(scope, call)
        after = inline(scope, inner, bound, call, lambda body: _sequence(body, call.target.body.statements))
    else:
        lower(scope.derive(always=True), call)
    return EXITED if after == EXITED else GO_ON


# --------------------------------------------------------------------------- emit


def emit(scope: Scope, node: tree.Call) -> Value:
    """`packet.emit(x);`"""
    if scope.block != "deparser":
        scope.fail(node, "emit() can only be called in the deparser")
    if not scope.always:
        scope.fail(node, "emit() must be a statement of its own")
    argument = node.bound[0].expr
    assert argument is not None
    _emit(scope, rvalue(scope, lower(scope, argument), argument), argument)
    return Nothing()


def _emit(scope: Scope, value: Value, node: tree.Node) -> None:
    low = scope.low
    if isinstance(value, Header) and value.ref.index is None and value.ref.name in low.packet_headers:
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
    elif not (isinstance(value, HeaderLiteral) and value.valid == ir.FALSE):
        scope.fail(
            node, "the target emits headers of the packet (fields of the headers struct), and nothing else"
        )
