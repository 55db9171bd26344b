"""Calls: arguments are bound (in place where nobody can tell, else copied in and out), the callee's body inlined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compiler import arith, ir, tree, types
from compiler.lower_assign import assign, current, freeze_indexes, invalidate, place, write_through
from compiler.lower_context import NeedsOwnStorage, Scope
from compiler.lower_effects import freeze, has_effects
from compiler.lower_expr import as_scalar, lower, rvalue, scalar, validity
from compiler.values import (
    SCALARS,
    BlockObject,
    Element,
    Header,
    HeaderLiteral,
    LastHeader,
    Nothing,
    Record,
    Sliced,
    Stack,
    StackLiteral,
    Union,
    Value,
    cells_read,
    overlap,
)

COPIED = (*SCALARS, Record, Header, LastHeader, HeaderLiteral, Union, Stack, StackLiteral, Element, Sliced)
"""Values that hold data; anything else (packets, externs, `next`) is always passed as it is."""


@dataclass
class Bound:
    """Arguments at the start of an inlined body."""

    values: list[Value] = field(default_factory=list)
    """One per parameter: what its name means in the body."""
    copy_out: list[tuple[Value, Value]] = field(default_factory=list)
    """(place of the argument, storage of the parameter)."""


# --------------------------------------------------------------------------- dispatch


def call(scope: Scope, node: tree.Call, statement: bool = False) -> Value:
    """The result of a call; its effects are emitted."""
    kind = node.kind
    if kind == "function":
        return _function(scope, node)
    if kind == "action":
        return _action(scope, node)
    if kind in ("extern_method", "extern_function"):
        from compiler.lower_extern import extern_call

        return extern_call(scope, node)
    if kind == "table_apply":
        from compiler.lower_table import apply_table

        apply_table(scope, node)
        return Nothing()
    if kind == "control_apply":
        return _control(scope, node)
    if kind == "parser_apply":
        from compiler.lower_parser import apply_parser

        return apply_parser(scope, node)
    if kind == "header_method":
        return _header_method(scope, node)
    if kind == "stack_method":
        return _stack_method(scope, node)
    scope.fail(node, f"a call of {node.method or kind} is not supported here")


def _receiver(node: tree.Call) -> tree.Expr:
    if node.receiver is not None:
        return node.receiver
    assert isinstance(node.callee, tree.Member)
    return node.callee.expr


def _header_method(scope: Scope, node: tree.Call) -> Value:
    target = place(scope, _receiver(node))
    if node.method == "isValid":
        return validity(scope, target, node)
    if isinstance(target, Element):
        _each_validity(scope, target, node)
        return Nothing()
    if isinstance(target, LastHeader):
        target = Header(target.type, ir.HeaderRef(target.stack, ir.LastIndex(target.stack)), target.layout)
    if isinstance(target, Header):
        made: ir.Stmt
        if node.method == "setValid":
            made = ir.SetValid(target.ref, pos=node.pos)
        else:
            made = ir.SetInvalid(target.ref, pos=node.pos)
        write_through(scope, target.ref.index, made)
        return Nothing()
    scope.fail(node, f"{node.method}() of this value is not supported")


def _each_validity(scope: Scope, target: Element, node: tree.Call) -> None:
    """setValid or setInvalid of the header that a run-time index chooses."""
    index = as_scalar(scope, freeze(scope, target.index, node), node)
    for number, element in enumerate(target.elements):
        if not isinstance(element, Header):
            scope.fail(node, f"{node.method}() of this value is not supported")
        change: ir.Stmt = ir.SetInvalid(element.ref, pos=node.pos)
        if node.method == "setValid":
            change = ir.SetValid(element.ref, pos=node.pos)
        test = arith.compare("==", index, arith.const(number, index.type))
        scope.emit(ir.If(test, [change], [], pos=node.pos))


def _stack_method(scope: Scope, node: tree.Call) -> Value:
    target = lower(scope, _receiver(node))
    if not isinstance(target, Stack):
        scope.fail(node, f"{node.method}() of this value is not supported")
    argument = node.bound[0].expr if node.bound else node.args[0].expr
    count = scalar(scope, argument) if argument is not None else ir.Const(1, ir.bits(32))
    if not isinstance(count, ir.Const):
        scope.fail(node, f"{node.method}() takes a constant")
    kind = "header_stack" if target.layout is not None else "header_union_stack"
    op = "push" if node.method == "push_front" else "pop"
    count = ir.Const(min(count.value, len(target.elements)), ir.bits(32))
    scope.emit(ir.Primitive(op, (ir.Named(kind, target.name), count), pos=node.pos))
    return Nothing()


# --------------------------------------------------------------------------- arguments


def bind(
    scope: Scope,
    arguments: list[tree.BoundArg],
    node: tree.Node,
    by_reference: bool,
    storage: Callable[[types.ParamType, types.Type], Value],
) -> Bound:
    """Evaluate arguments from left to right; emit the copies in."""
    given: list[Value] = []
    for number, argument in enumerate(arguments):
        given.append(_argument(scope, argument, arguments[number + 1 :], storage, node))
    written = [
        cells_read(value) if argument.param.direction in ("out", "inout") else set()
        for argument, value in zip(arguments, given, strict=True)
    ]
    read = [cells_read(value) for value in given]
    bound = Bound()
    for number, (argument, value) in enumerate(zip(arguments, given, strict=True)):
        direction = argument.param.direction
        if not isinstance(value, COPIED):
            bound.values.append(value)
            continue
        others = [
            cells
            for other, cells in enumerate(read if direction in ("out", "inout") else written)
            if other != number
        ]
        in_place = by_reference and not isinstance(value, Sliced | Element)
        in_place = in_place and not any(overlap(written[number] or read[number], cells) for cells in others)
        if direction in ("", "in") and isinstance(value, ir.Const | ir.Param):
            in_place = True
        elif direction in ("", "in") and isinstance(value, SCALARS) and not isinstance(value, ir.Field):
            in_place = False
        if in_place:
            if direction == "out":
                invalidate(scope, value, node)
            bound.values.append(value)
            continue
        own = storage(argument.param, types.substitute(argument.param.type, scope.tvars))
        if direction == "out":
            invalidate(scope, own, node)
        else:
            assign(scope, own, current(scope, value, node), node)
        bound.values.append(own)
        if direction in ("out", "inout"):
            bound.copy_out.append((value, own))
    return bound


def _argument(
    scope: Scope,
    argument: tree.BoundArg,
    later: list[tree.BoundArg],
    storage: Callable[[types.ParamType, types.Type], Value],
    node: tree.Node,
) -> Value:
    expr = argument.expr
    if expr is None:
        return Nothing()
    if argument.param.direction in ("out", "inout"):
        if isinstance(expr, tree.DontCare):
            return storage(argument.param, types.substitute(argument.param.type, scope.tvars))
        target = place(scope, expr)
        return freeze_indexes(scope, target, expr)
    value = lower(scope, expr)
    if isinstance(value, COPIED):
        value = rvalue(scope, value, expr)
        if any(other.expr is not None and has_effects(other.expr) for other in later):
            value = freeze(scope, value, expr)
    return value


# --------------------------------------------------------------------------- inlining


def inline(outer: Scope, inner: Scope, bound: Bound, node: tree.Node, body: Callable[[Scope], Any]) -> Any:
    """Run `body` in `inner` and add its statements, the copies out and the way on after `exit` to `outer`."""
    low = outer.low
    label = low.label()
    inner = inner.derive(out=[], return_label=label, exit_used=[False], break_label=None, continue_label=None)
    leave = low.label() if bound.copy_out else outer.exit_label
    inner.exit_label = leave
    inner.depth = outer.depth + 1
    result = body(inner)
    ir.trim_tail(inner.out, label)
    stmts = inner.out
    if ir.leads_to(stmts, label):
        stmts = [ir.Block(label, stmts, pos=node.pos)]
    copies = outer.derive(out=[])
    for target, own in bound.copy_out:
        assign(copies, target, own, node)
    if not inner.exit_used[0]:
        outer.out.extend(stmts)
        outer.out.extend(copies.out)
        return result
    outer.exit_used[0] = True
    if not bound.copy_out:
        outer.out.extend(stmts)
        return result
    done = low.label()
    gone = outer.derive(out=[])
    for target, own in bound.copy_out:
        assign(gone, target, own, node)
    leave_through(gone, node)
    normal: list[ir.Stmt] = [*stmts, *copies.out, ir.Leave(done)]
    outer.emit(ir.Block(done, [ir.Block(leave, normal, pos=node.pos), *gone.out], pos=node.pos))
    return result


def leave_through(scope: Scope, node: tree.Node) -> None:
    """Emit what `exit` means in `scope`."""
    scope.exit_used[0] = True
    if scope.in_table_action and scope.exit_label == 0:
        if scope.exit_flag is not None:
            scope.emit(ir.Assign(scope.exit_flag, ir.TRUE, pos=node.pos))
        else:
            scope.emit(ir.Exit(pos=node.pos))
    scope.emit(ir.Leave(scope.exit_label, pos=node.pos))


def _fresh(scope: Scope, name: str, node: tree.Node) -> Callable[[types.ParamType, types.Type], Value]:
    path = f"{scope.path}.{name}" if scope.path else name

    def storage(param: types.ParamType, type_: types.Type) -> Value:
        return scope.new(f"{path}.{param.name}", type_, node)

    return storage


def _returns(body: tree.Node) -> int:
    """How many return statements are in a body."""
    if isinstance(body, tree.Return):
        return 1
    if isinstance(body, tree.Block):
        return sum(_returns(item) for item in body.statements)
    if isinstance(body, tree.If):
        return _returns(body.then) + (_returns(body.otherwise) if body.otherwise else 0)
    if isinstance(body, tree.Switch):
        return sum(_returns(case.body) for case in body.cases if case.body is not None)
    if isinstance(body, tree.For | tree.ForIn):
        return _returns(body.body)
    return 0


def function_scope(scope: Scope, node: tree.Call) -> tuple[Scope, Bound]:
    """The scope of a called function's body, and its arguments."""
    decl = node.target
    assert isinstance(decl, tree.FunctionDecl)
    tvars = {var: types.substitute(t, scope.tvars) for var, t in node.type_arguments.items()}
    bound = bind(scope, node.bound, node, True, _fresh(scope, decl.name, node))
    env: dict[object, Any] = {a.param.node: v for a, v in zip(node.bound, bound.values, strict=True)}
    for param, value in zip(decl.params, bound.values, strict=False):
        env[param] = value
    return scope.derive(env=env, tvars=tvars, cells={}, result=None), bound


def _function(scope: Scope, node: tree.Call) -> Value:
    from compiler.lower_stmt import statements

    decl = node.target
    inner, bound = function_scope(scope, node)
    result_type = types.substitute(decl.result.type, inner.tvars)
    if isinstance(result_type, types.VoidType):
        inline(scope, inner, bound, node, lambda body: statements(body, decl.body.statements))
        return Nothing()
    last = decl.body.statements[-1] if decl.body.statements else None
    if isinstance(last, tree.Return) and last.expr is not None and _returns(decl.body) == 1:
        value_node = last.expr

        def run(body: Scope) -> Value:
            statements(body, decl.body.statements[:-1])
            value = rvalue(body, lower(body, value_node), value_node)
            return freeze(body, value, value_node) if bound.copy_out else value

        result: Value = inline(scope, inner, bound, node, run)
        return result
    place_ = scope.new(f"{scope.path}.{decl.name}.result", result_type, node)
    inner.result = place_
    inline(scope, inner, bound, node, lambda body: statements(body, decl.body.statements))
    return place_


def _action(scope: Scope, node: tree.Call) -> Value:
    from compiler.lower_stmt import statements

    decl = node.target
    assert isinstance(decl, tree.ActionDecl)
    bound = bind(scope, node.bound, node, False, _fresh(scope, decl.name, node))
    env = dict(scope.env)
    for param, value in zip(decl.params, bound.values, strict=True):
        env[param] = value
    inner = scope.derive(env=env, cells={}, result=None)
    inline(scope, inner, bound, node, lambda body: statements(body, decl.body.statements))
    return Nothing()


# --------------------------------------------------------------------------- controls


def block_object(scope: Scope, node: tree.Call) -> BlockObject:
    """The control or parser instance that a call applies."""
    receiver = _receiver(node)
    if isinstance(receiver, tree.TypeExpr):
        found = scope.cells.get(node)
        if not isinstance(found, BlockObject):
            from compiler.lower_blocks import anonymous_instance

            found = scope.cells[node] = anonymous_instance(scope, node, receiver)
        return found
    value = lower(scope, receiver)
    if isinstance(value, BlockObject):
        return value
    scope.fail(node, "apply() of this value is not supported")


def _control(scope: Scope, node: tree.Call) -> Value:
    from compiler.lower_blocks import declare_locals, has_tables
    from compiler.lower_stmt import statements

    block = block_object(scope, node)
    decl = block.decl
    assert isinstance(decl, tree.ControlDecl)
    tables = has_tables(decl)
    own = block.name in scope.low.own_storage

    def storage(param: types.ParamType, type_: types.Type) -> Value:
        if param.node not in block.cells or not own:
            block.cells[param.node] = scope.new(f"{block.name}.{param.name}", type_, node)
        return block.cells[param.node]

    bound = bind(scope, node.bound, node, not (own and tables), storage)
    if tables and not own:
        if block.bound is None:
            block.bound = bound.values
        elif not all(same(a, b) for a, b in zip(block.bound, bound.values, strict=True)):
            raise NeedsOwnStorage(block.name)
    env = block.env
    for param, value in zip(decl.params, bound.values, strict=True):
        env[param] = value
    inner = scope.derive(
        env=env,
        path=block.name,
        cells=block.cells,
        instance=block,
        result=None,
        tvars=dict(zip((p.type for p in decl.type_params), block.type.args, strict=False)),
    )

    def run(body: Scope) -> None:
        declare_locals(body, block)
        statements(body, decl.body.statements)

    inline(scope, inner, bound, node, run)
    return Nothing()


def same(left: Value, right: Value) -> bool:
    """Whether two bindings mean the same storage or value."""
    if left is right:
        return True
    if isinstance(left, SCALARS) or isinstance(right, SCALARS):
        return left == right
    if isinstance(left, Record) and isinstance(right, Record):
        return list(left.fields) == list(right.fields) and all(
            same(a, b) for a, b in zip(left.fields.values(), right.fields.values(), strict=True)
        )
    if isinstance(left, Header) and isinstance(right, Header):
        return left.ref == right.ref
    if isinstance(left, Stack | Union) and type(left) is type(right):
        return left.name == right.name
    return isinstance(left, Nothing) and isinstance(right, Nothing)
