"""What lowering carries along: the program being built, and the scope (bindings, instance, output) of the code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from compiler import ir, tree, types
from compiler.errors import CompileError, Diagnostic
from compiler.storage import NoStorage, Storage
from compiler.values import Value

HIDDEN_EXIT = "$exit"


MAX_ERRORS = 20
"""After so many the rest is not looked at."""


class TooManyProblems(Exception):
    """There are MAX_ERRORS errors."""


class NeedsOwnStorage(Exception):
    """An instance with tables is applied with different arguments; lowering starts again knowing so."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(eq=False)
class Lowering:
    """The whole compilation."""

    program: tree.TypedProgram
    unit: ir.Unit
    storage: Storage
    warnings: list[Diagnostic]
    errors: dict[str, int]
    """Numbers of `error` members."""
    globals: dict[object, Any] = field(default_factory=dict)
    """Bindings of top-level instances."""
    actions: dict[object, ir.Action] = field(default_factory=dict)
    tables: dict[object, Any] = field(default_factory=dict)
    learn_cells: dict[str, tuple[int, list[ir.Field]]] = field(default_factory=dict)
    field_lists: dict[int, int] = field(default_factory=dict)
    """Id of the list of `@field_list(n)` fields."""
    meter_cells: dict[str, ir.Field] = field(default_factory=dict)
    own_storage: frozenset[str] = frozenset()
    """Instances (by name) that are applied with different arguments: their parameters get storage of their own."""
    labels: int = 0
    names: dict[str, int] = field(default_factory=dict)
    packet_headers: set[str] = field(default_factory=set)
    """Instances of the `headers` parameter."""
    problems: list[Diagnostic] = field(default_factory=list)
    """Errors of statements that were skipped."""
    shown: set[tuple[str, str]] = field(default_factory=set)
    """(kind, control-plane name) of what exists so far."""

    def label(self) -> int:
        """A new block label."""
        self.labels += 1
        return self.labels

    def error(self, pos: int, message: str) -> CompileError:
        """An error at a place in the source."""
        return CompileError.at(self.program.source, pos, message)

    def complain(self, problem: CompileError) -> None:
        """Keep an error for the end. Raises it when there are many."""
        self.problems += [d for d in problem.diagnostics if d not in self.problems]
        if len(self.problems) >= MAX_ERRORS:
            raise TooManyProblems

    def warn(self, pos: int, message: str) -> None:
        """A warning at a place in the source."""
        self.warnings.append(self.program.source.diagnostic(pos, message, "warning"))

    def claim(self, kind: str, name: str, pos: int) -> None:
        """Take a control-plane name; it is an error when something of that kind has it."""
        if (kind, name) in self.shown:
            raise self.error(
                pos, f"the control plane would know two {kind}s as {name}; give one another @name"
            )
        self.shown.add((kind, name))

    def number(self, kind: str) -> int:
        """0, 1, 2… for names of one kind."""
        count = self.names.get(kind, 0)
        self.names[kind] = count + 1
        return count


@dataclass(eq=False)
class Scope:
    """Where a piece of code is being lowered."""

    low: Lowering
    env: dict[object, Any]
    """Declaration node to Value."""
    out: list[ir.Stmt]
    """Statements are appended here."""
    block: str
    """`parser`, `ingress`, `egress`, `verify`, `compute` or `deparser`."""
    path: str
    """Control-plane name of the enclosing instance."""
    instance: object = None
    """The instance whose tables and actions are in reach."""
    tvars: dict[types.TypeVar, types.Type] = field(default_factory=dict)
    cells: dict[object, Value] = field(default_factory=dict)
    """Storage of the local variables of this instance, kept between its applications."""
    in_table_action: bool = False
    return_label: int | None = None
    result: Value | None = None
    exit_label: int = 0
    exit_used: list[bool] = field(default_factory=lambda: [False])
    exit_flag: ir.Field | None = None
    """In a table's action: the cell that tells the caller about `exit` (None: BMv2's own exit will do)."""
    break_label: int | None = None
    continue_label: int | None = None
    always: bool = False
    """In the deparser: a call that is a statement which every packet gets to."""
    depth: int = 0
    """How many inlined controls, actions and functions are around."""

    def derive(self, **changes: Any) -> Scope:
        """A copy with some things changed."""
        return replace(self, **changes)

    def emit(self, stmt: ir.Stmt) -> None:
        """Append a statement."""
        self.out.append(stmt)

    def type(self, node: Any) -> types.Type:
        """The type of an expression or declaration, type parameters replaced."""
        found: types.Type = node.type
        return types.substitute(found, self.tvars) if self.tvars else found

    def fail(self, node: tree.Node, message: str) -> NoReturn:
        """Stop with an error at `node`."""
        raise self.low.error(node.pos, message)

    def new(self, name: str, type_: types.Type, node: tree.Node) -> Value:
        """New storage for a value of `type_`."""
        try:
            return self.low.storage.new(name, type_)
        except NoStorage as problem:
            pos = problem.pos if problem.pos >= 0 else node.pos
            raise self.low.error(pos, str(problem)) from None

    def temporary(self, scalar: ir.Scalar, hint: str = "tmp") -> ir.Field:
        """A new scalar cell."""
        return self.low.storage.cell(f"{self.path}.{hint}" if self.path else hint, scalar)
