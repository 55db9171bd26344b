"""Walking the tree: all expressions below a node, and the statements that can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler import constants, tree


def subexpressions(expr: tree.Expr) -> Iterator[tree.Expr]:
    """`expr` and every expression inside it that can be evaluated, outermost first."""
    stack: list[tree.Expr] = [expr]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(operands(current))))


def operands(expr: tree.Expr) -> Iterator[tree.Expr]:
    """The direct parts of an expression, without those that a constant condition rules out."""
    if isinstance(expr, tree.Binary):
        yield expr.left
        if expr.left.value is not {"&&": False, "||": True}.get(expr.op, ...):
            yield expr.right
    elif isinstance(expr, tree.Member | tree.Unary | tree.Cast):
        yield expr.expr
    elif isinstance(expr, tree.Call):
        if isinstance(expr.callee, tree.Member):
            yield expr.callee.expr
        for arg in expr.args:
            yield arg.expr
    elif isinstance(expr, tree.Index):
        yield expr.expr
        yield expr.index
    elif isinstance(expr, tree.Slice):
        yield expr.expr
    elif isinstance(expr, tree.PlusSlice):
        yield expr.expr
        yield expr.low
    elif isinstance(expr, tree.Ternary):
        yield expr.condition
        if expr.condition.value is not False:
            yield expr.yes
        if expr.condition.value is not True:
            yield expr.no
    elif isinstance(expr, tree.ListExpr | tree.TupleKeyset):
        yield from expr.elements
    elif isinstance(expr, tree.StructExpr):
        for field in expr.fields:
            yield field.expr
    elif isinstance(expr, tree.MaskExpr):
        yield expr.left
        yield expr.mask
    elif isinstance(expr, tree.RangeExpr):
        yield expr.low
        yield expr.high


def own_expressions(statement: tree.Statement | tree.Decl) -> Iterator[tree.Expr]:
    """The expressions that a statement holds itself, not those of statements inside it."""
    if isinstance(statement, tree.Assign):
        yield statement.left
        yield statement.right
    elif isinstance(statement, tree.CallStatement):
        yield statement.call
    elif isinstance(statement, tree.If | tree.For):
        yield statement.condition
    elif isinstance(statement, tree.Switch):
        yield statement.expr
    elif isinstance(statement, tree.ForIn):
        yield statement.collection
    elif isinstance(statement, tree.Return):
        if statement.expr is not None:
            yield statement.expr
    elif isinstance(statement, tree.VarDecl):
        if statement.init is not None:
            yield statement.init
    elif isinstance(statement, tree.ConstDecl):
        yield statement.init


def expressions_of(statement: tree.Statement | tree.Decl) -> Iterator[tree.Expr]:
    """All expressions of one statement, nested ones included, those of statements inside it not."""
    for expr in own_expressions(statement):
        yield from subexpressions(expr)


def live_statements(
    statements: Sequence[tree.Statement | tree.Decl], environment: Mapping[Any, Any] | None = None
) -> Iterator[tree.Statement | tree.Decl]:
    """Every statement that can run, in source order: not the branch that a constant condition rules out. `environment`
    gives constructor parameters their values. What follows `return` or `exit` counts as live, as for the reference
    compiler's P4Info."""
    for statement in statements:
        yield statement
        if isinstance(statement, tree.Block):
            yield from live_statements(statement.statements, environment)
        else:
            for inner in _inner(statement, environment):
                yield from live_statements((inner,), environment)


def _value(expr: tree.Expr, environment: Mapping[Any, Any] | None) -> Any:
    try:
        return constants.fold(expr, environment)
    except constants.BadConstant:
        return None


def _branches(statement: tree.If, environment: Mapping[Any, Any] | None) -> list[tree.Statement]:
    condition = _value(statement.condition, environment)
    taken = []
    if condition is not False:
        taken.append(statement.then)
    if condition is not True and statement.otherwise is not None:
        taken.append(statement.otherwise)
    return taken


def _inner(
    statement: tree.Statement | tree.Decl, environment: Mapping[Any, Any] | None
) -> Sequence[tree.Statement | tree.Decl]:
    if isinstance(statement, tree.If):
        return _branches(statement, environment)
    if isinstance(statement, tree.Switch):
        return [c.body for c in _cases(statement, environment) if c.body is not None]
    if isinstance(statement, tree.For):
        return [*statement.init, statement.body, *statement.update]
    if isinstance(statement, tree.ForIn):
        return [statement.body]
    return ()


def _cases(statement: tree.Switch, environment: Mapping[Any, Any] | None) -> Iterable[tree.SwitchCase]:
    """The cases that can be chosen."""
    value = None if statement.on_action else _value(statement.expr, environment)
    if value is None:
        return statement.cases
    fallback: list[tree.SwitchCase] = []
    for i, case in enumerate(statement.cases):
        if isinstance(case.label, tree.DefaultExpr):
            fallback = list(_falling(statement.cases, i))
        elif case.label.value == value:
            return _falling(statement.cases, i)
    return fallback


def _falling(cases: Sequence[tree.SwitchCase], start: int) -> Sequence[tree.SwitchCase]:
    """The first case with a block from `start` on."""
    for case in cases[start:]:
        if case.body is not None:
            return [case]
    return []
