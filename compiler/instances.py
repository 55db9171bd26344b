"""What a program makes before any packet comes: the tree of parser, control and extern instances under `main`, with the
values of their constructor parameters, their control-plane names, and which tables can ever be applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler import constants, tree, types
from compiler.errors import CompileError
from compiler.visit import expressions_of, live_statements, subexpressions

MAX_INSTANCES = 10_000


@dataclass(eq=False)
class Instance:
    """One parser, control or extern object (or a table's extern made in place)."""

    name: str
    """Control-plane name: `MyIngress`, `MyIngress.sub.counter1`; empty parts of the path are left out."""
    decl: tree.Decl | None
    """The `InstanceDecl`; None for a package's argument and for an object made in an expression."""
    target: Any
    """`ControlDecl`, `ParserDecl` or `ExternDecl`."""
    type: types.Type
    arguments: dict[str, Any]
    """Constructor arguments by parameter name: values, or an `Instance`."""
    environment: Mapping[Any, Any]
    """Values of the constructor parameters that are visible inside (for `constants.fold`)."""
    children: list[Instance] = field(default_factory=list)
    """Objects declared in it, in order, then objects of direct applications."""
    tables: list[tree.TableDecl] = field(default_factory=list)
    """Tables that can be applied, in declaration order."""

    def contents(self) -> Iterator[tuple[tree.Decl | None, Instance]]:
        """What its code consists of once everything below is inlined into it, in order: (declaration, the instance that
        it is in) for actions, tables and value sets; (None, object) for extern objects."""
        placed = {child.decl: child for child in self.children if child.decl is not None}
        tables = set(self.tables)
        for local in self.target.locals:
            child = placed.get(local)
            if child is not None:
                yield from child.expanded()
            elif isinstance(local, tree.ActionDecl | tree.ValueSetDecl) or local in tables:
                yield local, self
        for child in self.children:
            if child.decl is None:
                yield from child.expanded()

    def expanded(self) -> Iterator[tuple[tree.Decl | None, Instance]]:
        """`contents`, or itself for an extern object."""
        if isinstance(self.target, tree.ControlDecl | tree.ParserDecl):
            yield from self.contents()
        else:
            yield None, self

    def walk(self) -> Iterator[Instance]:
        """Itself and everything below, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class Instances:
    """All instances of a program."""

    top: list[Instance]
    """Extern objects at top level."""
    pipeline: dict[str, Instance]
    """Arguments of `main`, by parameter name (`p`, `vr`, `ig`, `eg`, `ck`, `dep` for V1Switch)."""

    def walk(self) -> Iterator[Instance]:
        """Every instance."""
        for instance in [*self.top, *self.pipeline.values()]:
            yield from instance.walk()


def local_name(decl: tree.Decl) -> str:
    """The name that the control plane sees: `@name("…")` or the declared name. One that begins with `.` is absolute."""
    annotation = decl.annotation("name")
    text = None if annotation is None else annotation.string
    return decl.name if text is None else text.replace('\\"', '"')


def join_name(path: str, name: str) -> str:
    """`path.name`, or `name` alone when it is absolute."""
    if name.startswith("."):
        return name[1:]
    return f"{path}.{name}" if path else name


def control_plane_name(decl: tree.Decl, path: str) -> str:
    """The name that the control plane knows a declaration in the instance `path` by."""
    return join_name(path, local_name(decl))


def instantiate(program: tree.TypedProgram) -> Instances:
    """Evaluates `main`."""
    return _Evaluator(program).run()


class _Evaluator:
    def __init__(self, program: tree.TypedProgram) -> None:
        self.program = program
        self.globals: dict[tree.Decl, Instance] = {}
        self.count = 0

    def run(self) -> Instances:
        top: list[Instance] = []
        for decl in self.program.tree.decls:
            if isinstance(decl, tree.InstanceDecl) and not isinstance(decl.type, types.PackageType):
                instance = self.make(decl.call, join_name("", local_name(decl)), decl, {})
                self.globals[decl] = instance
                if isinstance(decl.type, types.ExternType):
                    top.append(instance)
        pipeline: dict[str, Instance] = {}
        for bound in self.program.main.call.bound:
            if bound.expr is not None:
                made = self.value(bound.expr, "", {})
                if isinstance(made, Instance):
                    pipeline[bound.param.name] = made
        return Instances(top, pipeline)

    def value(self, expr: tree.Expr, path: str, environment: Mapping[Any, Any]) -> Any:
        """The value of a constructor argument."""
        while isinstance(expr, tree.Cast) and expr.implicit:
            inner = expr.expr
            if not isinstance(inner, tree.Call):
                break
            expr = inner
        if isinstance(expr, tree.Call) and expr.kind == "constructor":
            return self.make(expr, join_name(path, expr.method), None, environment)
        if isinstance(expr, tree.Name):
            if expr.decl in environment:
                return environment[expr.decl]
            if expr.decl in self.globals:
                return self.globals[expr.decl]
        try:
            return constants.fold(expr, environment)
        except constants.BadConstant as error:
            raise CompileError.at(self.program.source, expr.pos, str(error)) from None

    def make(
        self, call: tree.Call, name: str, decl: tree.Decl | None, environment: Mapping[Any, Any]
    ) -> Instance:
        """The object that a constructor call makes."""
        self.count += 1
        if self.count > MAX_INSTANCES:
            message = f"the program makes more than {MAX_INSTANCES} objects"
            raise CompileError.at(self.program.source, call.pos, message)
        path = name.rpartition(".")[0]
        arguments: dict[str, Any] = {}
        inside: dict[Any, Any] = dict(environment)
        for bound in call.bound:
            value = None if bound.expr is None else self.value(bound.expr, path, environment)
            arguments[bound.param.name] = value
            inside[bound.param.node] = value
        target = call.target
        instance = Instance(name, decl, target, call.type, arguments, inside)
        if isinstance(target, tree.ControlDecl | tree.ParserDecl):
            self.fill(instance, target, inside)
        return instance

    def fill(
        self, instance: Instance, target: tree.ControlDecl | tree.ParserDecl, inside: dict[Any, Any]
    ) -> None:
        """The objects and tables inside a parser or control."""
        for local in target.locals:
            if isinstance(local, tree.InstanceDecl):
                child = self.make(local.call, join_name(instance.name, local_name(local)), local, inside)
                inside[local] = child
                instance.children.append(child)
        live: list[Sequence[tree.Statement | tree.Decl]] = []
        if isinstance(target, tree.ControlDecl):
            live.append(target.body.statements)
            live += [a.body.statements for a in target.locals if isinstance(a, tree.ActionDecl)]
        else:
            live += [s.body for s in target.states]
        applied: set[tree.Decl] = set()
        seen: dict[str, int] = {}
        for statements in live:
            for statement in live_statements(statements, inside):
                for expr in expressions_of(statement):
                    if not isinstance(expr, tree.Call):
                        continue
                    if expr.kind == "table_apply":
                        applied.add(expr.target)
                    elif expr.kind in ("control_apply", "parser_apply") and isinstance(
                        expr.receiver, tree.TypeExpr
                    ):
                        self.direct(instance, expr, inside, seen)
        pending = list(applied)
        while pending:  # a key may apply a table, too
            table = pending.pop()
            assert isinstance(table, tree.TableDecl)
            for key in table.keys:
                for expr in subexpressions(key.expr):
                    if (
                        isinstance(expr, tree.Call)
                        and expr.kind == "table_apply"
                        and expr.target not in applied
                    ):
                        applied.add(expr.target)
                        pending.append(expr.target)
        if isinstance(target, tree.ControlDecl):
            instance.tables = [t for t in target.locals if isinstance(t, tree.TableDecl) and t in applied]

    def direct(
        self, instance: Instance, call: tree.Call, inside: dict[Any, Any], seen: dict[str, int]
    ) -> None:
        """`C.apply(…)` makes an object of its own, named after the type."""
        base = call.target.name
        number = seen.get(base, 0)
        seen[base] = number + 1
        if number:
            return  # one name, one set of tables: the control plane sees them once
        made = Instance(join_name(instance.name, base), None, call.target, call.receiver.type, {}, inside)  # type: ignore[union-attr]
        self.fill(made, call.target, dict(inside))
        instance.children.append(made)
