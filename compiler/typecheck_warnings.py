"""Warnings worth having in a lab: what is never used, what is read before it has a value, headers read while invalid.

Only certain cases are reported: a variable counts as unset only where no path to the place sets it, a header as invalid
only where every path made it so. So a warning is always about something real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler import tree, types
from compiler.source import Source
from compiler.types import Type
from compiler.visit import operands, own_expressions, subexpressions

MAX_FIELDS = 100
SYSTEM_FILES = ("core.p4", "v1model.p4")

Complaint = tuple[int, str]
Path = tuple[object, ...]
"""A place in storage: the declaration, then field names."""

SCALARS = (types.BitType, types.BoolType, types.EnumType, types.SerEnumType, types.ErrorType, types.NewType)


def warnings_of(program: tree.Program, source: Source) -> Iterator[Complaint]:
    """Position and message of every warning about a checked program."""
    called = _called_actions(program)
    for decl in program.decls:
        if isinstance(decl, tree.ControlDecl):
            yield from _unused(decl, called)
            yield from _Flow().control(decl)
        elif isinstance(decl, tree.ParserDecl):
            yield from _unreachable(decl)
            for state in decl.states:
                yield from _Flow().body(state.body, ())
        elif isinstance(decl, tree.FunctionDecl | tree.ActionDecl):
            system = source.locate(decl.pos).file.endswith(SYSTEM_FILES)
            if not system:
                yield from _Flow().body(decl.body.statements, decl.params)


# --------------------------------------------------------------------------- never used


def _silent(decl: tree.Decl) -> bool:
    return any(a.name == "noWarn" for a in decl.annotations) or decl.name.startswith("_")


def _statements(statements: Sequence[tree.Statement | tree.Decl]) -> Iterator[tree.Statement | tree.Decl]:
    """All statements, nested ones included."""
    stack = list(reversed(statements))
    while stack:
        statement = stack.pop()
        yield statement
        stack.extend(reversed(_parts(statement)))


def _parts(statement: tree.Statement | tree.Decl) -> list[tree.Statement | tree.Decl]:
    if isinstance(statement, tree.Block):
        return list(statement.statements)
    if isinstance(statement, tree.If):
        return [s for s in (statement.then, statement.otherwise) if s is not None]
    if isinstance(statement, tree.Switch):
        return [c.body for c in statement.cases if c.body is not None]
    if isinstance(statement, tree.For):
        return [*statement.init, statement.body, *statement.update]
    if isinstance(statement, tree.ForIn):
        return [statement.body]
    return []


def _calls(statements: Sequence[tree.Statement | tree.Decl]) -> Iterator[tree.Call]:
    for statement in _statements(statements):
        for whole in own_expressions(statement):
            for expr in subexpressions(whole):
                if isinstance(expr, tree.Call):
                    yield expr


def _called_actions(program: tree.Program) -> set[tree.Decl]:
    """Actions that a table lists or a statement calls."""
    found: set[tree.Decl] = set()
    for decl in program.decls:
        bodies: list[tree.Block] = []
        if isinstance(decl, tree.ActionDecl):
            bodies.append(decl.body)
        elif isinstance(decl, tree.ControlDecl):
            bodies.append(decl.body)
            for local in decl.locals:
                if isinstance(local, tree.ActionDecl):
                    bodies.append(local.body)
                elif isinstance(local, tree.TableDecl):
                    found.update(r.action for r in local.actions if r.action is not None)
        for body in bodies:
            found.update(c.target for c in _calls(body.statements) if c.kind == "action")
    return found


def _unused(control: tree.ControlDecl, called: set[tree.Decl]) -> Iterator[Complaint]:
    applied: set[object] = set()
    for call in _calls(control.body.statements):
        applied.add(call.target)
    tables = [t for t in control.locals if isinstance(t, tree.TableDecl)]
    for table in tables:
        for key in table.keys:
            applied.update(e.target for e in subexpressions(key.expr) if isinstance(e, tree.Call))
    for local in control.locals:
        if _silent(local):
            continue
        if isinstance(local, tree.TableDecl) and local not in applied:
            yield local.pos, f"the table '{local.name}' is never applied"
        elif isinstance(local, tree.ActionDecl) and local not in called:
            yield local.pos, f"the action '{local.name}' is used by no table and never called"


def _unreachable(parser: tree.ParserDecl) -> Iterator[Complaint]:
    by_name = {s.name: s for s in parser.states}
    seen: set[str] = set()
    todo = ["start"]
    while todo:
        state = by_name.get(todo.pop())
        if state is None or state.name in seen:
            continue
        seen.add(state.name)
        if isinstance(state.transition, tree.Transition):
            todo.append(state.transition.name)
        elif isinstance(state.transition, tree.Select):
            todo += [c.name for c in state.transition.cases]
    for state in parser.states:
        if state.name not in seen and not _silent(state):
            yield state.pos, f"no transition leads to the state '{state.name}'"


# --------------------------------------------------------------------------- read before set


class _Flow:
    """Walks statements in order with the set of places that are surely unset (scalars) or surely invalid (headers)."""

    def __init__(self) -> None:
        self.unset: set[Path] = set()
        self.found: list[Complaint] = []
        self.shared: set[object] = set()
        """Declarations that actions of the control can change behind a table application."""

    def control(self, decl: tree.ControlDecl) -> list[Complaint]:
        """A control's actions, then its apply block."""
        actions = [a for a in decl.locals if isinstance(a, tree.ActionDecl)]
        for action in actions:
            self.found += _Flow().body(action.body.statements, action.params)
        self.shared = {*decl.locals, *decl.params}
        self.outputs(decl.params)
        for local in decl.locals:
            if isinstance(local, tree.VarDecl):
                self.declare(local)
        for action in actions:
            for statement in _statements(action.body.statements):
                self.forget_targets(statement)
        self.run(decl.body.statements)
        return self.found

    def body(
        self, statements: Sequence[tree.Statement | tree.Decl], params: Sequence[tree.Param]
    ) -> list[Complaint]:
        """Any other block."""
        self.outputs(params)
        self.run(statements)
        return self.found

    # ------------------------------------------------------------- statements

    def run(self, statements: Sequence[tree.Statement | tree.Decl]) -> None:
        """Statements one after the other."""
        for statement in statements:
            self.step(statement)

    def step(self, s: tree.Statement | tree.Decl) -> None:
        """One statement."""
        if isinstance(s, tree.VarDecl):
            if s.init is not None:
                self.read(s.init)
            self.declare(s)
        elif isinstance(s, tree.Assign):
            self.read(s.right)
            if s.op:
                self.read(s.left)
            self.write(s.left)
        elif isinstance(s, tree.Block):
            self.run(s.statements)
        elif isinstance(s, tree.If):
            self.read(s.condition)
            self.branches([s.then, s.otherwise])
        elif isinstance(s, tree.Switch):
            self.read(s.expr)
            whole = any(isinstance(c.label, tree.DefaultExpr) for c in s.cases)
            bodies: list[tree.Statement | None] = [c.body for c in s.cases if c.body is not None]
            self.branches(bodies if whole else [*bodies, None])
        elif isinstance(s, tree.For):
            self.run(s.init)
            self.read(s.condition)
            self.branches([tree.Block(s.pos, (), [s.body, *s.update]), None])
        elif isinstance(s, tree.ForIn):
            self.branches([s.body, None])
        else:
            for expr in own_expressions(s):
                self.read(expr)

    def branches(self, ways: Sequence[tree.Statement | None]) -> None:
        """Alternatives: unset afterwards is what all of them leave unset."""
        before = set(self.unset)
        results: list[set[Path]] = []
        for way in ways:
            self.unset = set(before)
            if way is not None:
                self.step(way)
            results.append(self.unset)
        self.unset = set.intersection(*results) if results else before

    def declare(self, decl: tree.VarDecl) -> None:
        """A variable without a value."""
        if decl.init is None:
            self.unset.update(_leaves((decl,), decl.type))

    def outputs(self, params: Sequence[tree.Param]) -> None:
        """`out` parameters begin without a value."""
        for param in params:
            if param.direction == "out":
                self.unset.update(_leaves((param,), param.type))

    def forget_targets(self, statement: tree.Statement | tree.Decl) -> None:
        """What an action may set is no longer surely unset."""
        if isinstance(statement, tree.Assign):
            self.write(statement.left)
        for call in (
            e for w in own_expressions(statement) for e in subexpressions(w) if isinstance(e, tree.Call)
        ):
            self.effects(call)

    # ------------------------------------------------------------- expressions

    def read(self, expr: tree.Expr) -> None:
        """Everything that evaluating `expr` reads and changes."""
        if isinstance(expr, tree.Call):
            for bound in expr.bound:
                if bound.expr is not None and bound.param.direction != "out":
                    self.read(bound.expr)
            self.effects(expr)
            return
        place = place_of(expr)
        if place is not None:
            self.check(expr, place)
            return
        for part in operands(expr):
            self.read(part)

    def check(self, expr: tree.Expr, place: Path) -> None:
        """Complains about a read of something unset, once."""
        if place in self.unset and isinstance(expr.type, SCALARS):
            self.unset.discard(place)
            self.found.append((expr.pos, f"'{_text(place)}' is read before it has a value"))
        elif place[:-1] in self.unset and isinstance(expr, tree.Member) and _is_header(expr.expr.type):
            self.unset.discard(place[:-1])
            self.found.append(
                (expr.pos, f"'{_text(place)}' is read while the header '{_text(place[:-1])}' is invalid")
            )

    def write(self, target: tree.Expr) -> None:
        """`target` gets a value (a field of a header leaves its validity as it is)."""
        while isinstance(target, tree.Slice | tree.PlusSlice):
            target = target.expr
        if isinstance(target, tree.Index):
            self.read(target.index)
            self.write(target.expr)
            return
        place = place_of(target)
        if place is not None:
            self.unset = {p for p in self.unset if p[: len(place)] != place}

    def effects(self, call: tree.Call) -> None:
        """What a call may set, make valid or make invalid."""
        for bound in call.bound:
            if bound.expr is not None and bound.param.direction in ("out", "inout"):
                self.write(bound.expr)
        if call.kind in ("table_apply", "action"):
            self.unset = {p for p in self.unset if p[0] not in self.shared}
        elif call.kind == "header_method" and call.receiver is not None:
            place = place_of(call.receiver)
            if place is not None and call.method == "setValid":
                self.unset.discard(place)
            elif place is not None and call.method == "setInvalid" and _is_header(call.receiver.type):
                self.unset.add(place)
        elif call.kind == "stack_method" and call.receiver is not None:
            self.write(call.receiver)


def _leaves(place: Path, type_: Type) -> Iterator[Path]:
    """The scalars and headers in a variable, up to a sensible number."""
    if isinstance(type_, (*SCALARS, types.HeaderType)):
        yield place
    elif isinstance(type_, types.StructType) and len(type_.fields) <= MAX_FIELDS:
        for field in type_.fields:
            yield from _leaves((*place, field.name), field.type)


def _is_header(type_: Type) -> bool:
    return isinstance(type_, types.HeaderType)


def place_of(expr: tree.Expr) -> Path | None:
    """The place that a name or a chain of fields stands for; None for anything else."""
    names: list[str] = []
    while isinstance(expr, tree.Member) and expr.kind == "field":
        names.append(expr.name)
        expr = expr.expr
    if isinstance(expr, tree.Name) and isinstance(expr.decl, tree.VarDecl | tree.Param):
        return (expr.decl, *reversed(names))
    return None


def _text(place: Path) -> str:
    root = place[0]
    assert isinstance(root, tree.Decl)
    return ".".join([root.name, *map(str, place[1:])])
