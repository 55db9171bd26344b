"""Statements, up to the borders of the body at hand: declarations, assignments, if, switch, loops, return, exit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler import arith, ir, tree
from compiler.errors import CompileError
from compiler.lower_assign import assign, current, freeze_indexes, invalidate, place
from compiler.lower_context import Scope
from compiler.lower_effects import freeze, has_effects
from compiler.lower_expr import as_scalar, cast, element_of, lower, read, rvalue
from compiler.values import Record, Stack, Value

Statements = Sequence["tree.Statement | tree.Decl"]


def statements(scope: Scope, body: Statements) -> None:
    """Lower statements in order. One that cannot be lowered is reported, and what follows it is looked at, too."""
    for item in body:
        try:
            statement(scope, item)
        except CompileError as problem:
            if isinstance(item, tree.Decl):
                raise  # what uses it would only complain about its absence
            scope.low.complain(problem)


def statement(scope: Scope, node: tree.Statement | tree.Decl) -> None:
    """Lower one statement or local declaration."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        scope.fail(node, f"a statement of kind {type(node).__name__} is not supported here")
    handler(scope, node)


def declare(scope: Scope, node: tree.VarDecl) -> None:
    """A local variable: storage (kept between applications of the same instance) and its first value."""
    value = scope.cells.get(node)
    if value is None:
        name = f"{scope.path}.{node.name}" if scope.path else node.name
        value = scope.cells[node] = scope.new(name, scope.type(node), node)
    if node.init is None:
        scope.env[node] = value
        invalidate(scope, value, node)
        return
    first = lower(scope, node.init)
    scope.env[node] = value
    assign(scope, value, first, node)


def _declare_constant(scope: Scope, node: tree.ConstDecl) -> None:
    if node.value is None:
        scope.env[node] = freeze(scope, lower(scope, node.init), node)


def _block(scope: Scope, node: tree.Block) -> None:
    statements(scope, node.statements)


def _assign(scope: Scope, node: tree.Assign) -> None:
    target = place(scope, node.left)
    if has_effects(node.right):
        target = freeze_indexes(scope, target, node)
    if not node.op:
        assign(scope, target, lower(scope, node.right), node)
        return
    old = as_scalar(scope, current(scope, target, node), node)
    if has_effects(node.right):
        old = as_scalar(scope, freeze(scope, old, node), node)
    right = read(scope, node.right)
    if node.op in ("<<", ">>"):
        new = arith.shift(node.op, old, right)
    elif node.op == "++":
        new = arith.concat(old, right)
    elif node.op in ("/", "%") and (old.type.kind == "int" or right == ir.Const(0, right.type)):
        scope.fail(node, f"{node.op}= of signed values, or by zero, is not supported")
    else:
        new = arith.binary(node.op, old, right)
    assign(scope, target, new, node)


def _call_statement(scope: Scope, node: tree.CallStatement) -> None:
    from compiler.lower_call import call

    call(scope, node.call, statement=True)


def _if(scope: Scope, node: tree.If) -> None:
    from compiler.lower_table import branch_on_apply

    if branch_on_apply(scope, node):
        return
    condition = read(scope, node.condition)
    if isinstance(condition, ir.Const):
        chosen = node.then if condition.value else node.otherwise
        if chosen is not None:
            statement(scope, chosen)
        return
    then, otherwise = scope.derive(out=[]), scope.derive(out=[])
    statement(then, node.then)
    if node.otherwise is not None:
        statement(otherwise, node.otherwise)
    branch(scope, condition, then.out, otherwise.out, node)


def branch(
    scope: Scope, test: ir.Expr, then: list[ir.Stmt], otherwise: list[ir.Stmt], node: tree.Node
) -> None:
    """`if`, leaving out what is empty."""
    if not then and not otherwise:
        return
    if not then:
        test, then, otherwise = arith.not_(test), otherwise, then
    scope.emit(ir.If(test, then, otherwise, pos=node.pos))


def _switch(scope: Scope, node: tree.Switch) -> None:
    if node.on_action:
        from compiler.lower_table import switch_on_action

        switch_on_action(scope, node)
        return
    subject = freeze(scope, rvalue(scope, lower(scope, node.expr), node.expr), node.expr)
    value = as_scalar(scope, subject, node.expr)
    end = scope.low.label()
    arms: list[tuple[ir.Expr | None, list[ir.Stmt]]] = []
    pending: list[ir.Expr | None] = []
    for case in node.cases:
        pending.append(_switch_test(scope, value, case.label))
        if case.body is None:
            continue
        inner = scope.derive(out=[])
        statement(inner, case.body)
        tests = [test for test in pending if test is not None]
        arms.append((None if None in pending else arith.any_of(tests), inner.out))
        pending = []
    # A default may stand anywhere; it is taken when no label fits.
    ordered = [arm for arm in arms if arm[0] is not None] + [arm for arm in arms if arm[0] is None]
    body: list[ir.Stmt] = []
    for test, stmts in reversed(ordered):
        if test is None:
            body = stmts
        elif stmts or body:
            body = (
                [ir.If(test, stmts, body, pos=node.pos)]
                if stmts
                else [ir.If(arith.not_(test), body, [], pos=node.pos)]
            )
    if body:
        scope.emit(ir.Block(end, body, pos=node.pos))


def _switch_test(scope: Scope, value: ir.Expr, label: tree.Expr) -> ir.Expr | None:
    if isinstance(label, tree.DefaultExpr):
        return None
    if isinstance(label, tree.MaskExpr):
        mask = read(scope, label.mask)
        return arith.compare(
            "==", arith.binary("&", value, mask), arith.binary("&", read(scope, label.left), mask)
        )
    if isinstance(label, tree.RangeExpr):
        low = arith.compare(">=", value, read(scope, label.low))
        return arith.and_(low, arith.compare("<=", value, read(scope, label.high)))
    return arith.compare("==", value, read(scope, label))


def _for(scope: Scope, node: tree.For) -> None:
    statements(scope, node.init)
    low = scope.low
    end, again = low.label(), low.label()
    loop = scope.derive(out=[])
    condition = read(loop, node.condition)
    loop.emit(ir.If(arith.not_(condition), [ir.Leave(end)], [], pos=node.pos))
    body = scope.derive(out=[], break_label=end, continue_label=again)
    statement(body, node.body)
    ir.trim_tail(body.out, again)
    loop.emit(ir.Block(again, body.out, pos=node.pos))
    statements(loop, node.update)
    scope.emit(ir.Block(end, [ir.Loop(loop.out, pos=node.pos)], pos=node.pos))


def _for_in(scope: Scope, node: tree.ForIn) -> None:
    variable = scope.new(f"{scope.path}.{node.var.name}", scope.type(node.var), node.var)
    scope.env[node.var] = variable
    low = scope.low
    end, again = low.label(), low.label()
    body = scope.derive(out=[], break_label=end, continue_label=again)
    collection = node.collection
    if isinstance(collection, tree.RangeExpr):
        counter = as_scalar(scope, variable, node)
        first = freeze(scope, cast(scope, read(scope, collection.low), scope.type(node.var), node), node)
        last = freeze(scope, cast(scope, read(scope, collection.high), scope.type(node.var), node), node)
        hidden = scope.temporary(counter.type, "for")
        start, stop = as_scalar(scope, first, node), as_scalar(scope, last, node)
        scope.emit(ir.Assign(hidden, start, pos=node.pos))
        assign(body, variable, hidden, node)
        statement(body, node.body)
        done = arith.compare(">=", hidden, stop)
        step = arith.binary("+", hidden, arith.const(1, hidden.type))
        loop: list[ir.Stmt] = [
            ir.Block(again, body.out, pos=node.pos),
            ir.If(done, [ir.Leave(end)], [], pos=node.pos),
            ir.Assign(hidden, step, pos=node.pos),
        ]
        loops: list[ir.Stmt] = [ir.Loop(loop, pos=node.pos)]
        outer: list[ir.Stmt] = [ir.If(arith.compare("<=", start, stop), loops, [], pos=node.pos)]
        scope.emit(ir.Block(end, outer, pos=node.pos))
        return
    value = rvalue(scope, lower(scope, collection), collection)
    if isinstance(value, Stack):
        elements: list[Value] = value.elements
    elif isinstance(value, Record):
        elements = list(value.fields.values())
    else:
        scope.fail(node, "a loop over this value is not supported")
    whole: list[ir.Stmt] = []
    for number in range(len(elements)):
        label = low.label()
        inner = scope.derive(out=[], break_label=end, continue_label=label)
        assign(inner, variable, element_of(inner, elements, arith.const(number, ir.bits(32)), node), node)
        statement(inner, node.body)
        ir.trim_tail(inner.out, label)
        whole.append(ir.Block(label, inner.out, pos=node.pos))
    scope.emit(ir.Block(end, whole, pos=node.pos))


def _return(scope: Scope, node: tree.Return) -> None:
    if node.expr is not None:
        if scope.result is None:
            scope.fail(node, "return with a value is not supported here")
        assign(scope, scope.result, lower(scope, node.expr), node)
    if scope.return_label is None:
        scope.fail(node, "return is not supported here")
    scope.emit(ir.Leave(scope.return_label, pos=node.pos))


def _exit(scope: Scope, node: tree.Exit) -> None:
    if scope.block not in ("ingress", "egress"):
        scope.fail(node, f"exit in the {scope.block} is not supported")
    scope.exit_used[0] = True
    if scope.in_table_action and scope.exit_label == 0:
        if scope.exit_flag is not None:
            scope.emit(ir.Assign(scope.exit_flag, ir.TRUE, pos=node.pos))
        else:
            scope.emit(ir.Exit(pos=node.pos))
    scope.emit(ir.Leave(scope.exit_label, pos=node.pos))


def _break(scope: Scope, node: tree.Break) -> None:
    if scope.break_label is None:
        scope.fail(node, "break outside a loop")
    scope.emit(ir.Leave(scope.break_label, pos=node.pos))


def _continue(scope: Scope, node: tree.Continue) -> None:
    if scope.continue_label is None:
        scope.fail(node, "continue outside a loop")
    scope.emit(ir.Leave(scope.continue_label, pos=node.pos))


def _instance(scope: Scope, node: tree.InstanceDecl) -> None:
    from compiler.lower_blocks import instantiate

    scope.env[node] = instantiate(scope, node)


def _nothing(scope: Scope, node: tree.Node) -> None:
    """An empty statement."""


_HANDLERS: dict[type, Any] = {
    tree.VarDecl: declare,
    tree.ConstDecl: _declare_constant,
    tree.InstanceDecl: _instance,
    tree.Block: _block,
    tree.Assign: _assign,
    tree.CallStatement: _call_statement,
    tree.If: _if,
    tree.Switch: _switch,
    tree.For: _for,
    tree.ForIn: _for_in,
    tree.Return: _return,
    tree.Exit: _exit,
    tree.Break: _break,
    tree.Continue: _continue,
    tree.Empty: _nothing,
}
