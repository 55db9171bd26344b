"""What every part of the checker shares: the source, the diagnostics, the scope and the kind of code being checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from compiler import tree, types
from compiler.errors import CompileError, Diagnostic
from compiler.scope import Scope, did_you_mean, missing_include
from compiler.source import Source
from compiler.types import Type

TYPE_DECLS = (
    tree.RecordDecl,
    tree.EnumDecl,
    tree.TypedefDecl,
    tree.ExternDecl,
    tree.ApplicableDecl,
    tree.TypeParam,
)

MAX_ERRORS = 40


class TooManyErrors(Exception):
    """Checking is given up; the diagnostics collected so far are the answer."""


@dataclass
class Body:
    """The code being checked."""

    kind: str
    """`top`, `parser`, `control`, `action`, `function`, `method`."""
    name: str = ""
    result: Type = types.VOID
    loops: int = 0
    this: tree.InstanceDecl | None = None


class CheckerBase:
    """State and helpers."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.scope = Scope()
        self.body = Body("top")
        self.errors: dict[str, tree.EnumMember] = {}
        self.match_kinds: dict[str, tree.EnumMember] = {}
        self.later: list[Sequence[tree.Decl]] = []
        """Declarations of the blocks around, for a hint when one is used before it."""
        self.constructor_params: set[tree.Param] = set()
        """Parameters that are known once their parser or control is instantiated."""

    # ------------------------------------------------------------- messages

    def error(self, pos: int, message: str) -> None:
        """Keeps an error about what is at `pos`."""
        found = self.source.diagnostic(pos, message)
        if found not in self.diagnostics:
            self.diagnostics.append(found)
        if len(self.diagnostics) >= MAX_ERRORS:
            raise TooManyErrors

    def warn(self, pos: int, message: str) -> None:
        """Keeps a warning."""
        self.warnings.append(self.source.diagnostic(pos, message, "warning"))

    def fail_if_wrong(self) -> None:
        """Raises CompileError when there were errors."""
        if self.diagnostics:
            raise CompileError(sorted(self.diagnostics, key=lambda d: (d.file, d.line, d.column)))

    def where(self, decl: tree.Node) -> str:
        """`file:line` of a declaration, for messages that point to a second place."""
        place = self.source.locate(decl.pos)
        return f"{place.file}:{place.line}"

    def unknown(self, name: str, scope: Scope) -> str:
        """A hint for a name that nothing visible has."""
        known = missing_include(name)
        if known:
            return known
        for later in reversed(self.later):
            for decl in later:
                if decl.name == name:
                    return f" before this line, only at {self.where(decl)}; P4 is read from top to bottom"
        values: list[str] = []
        for other in scope.all_names():
            decl = scope.lookup(other)[0]
            if isinstance(decl, tree.EnumDecl) and any(m.name == name for m in decl.members):
                return f" (it is a member: {decl.name}.{name})"
            if isinstance(decl, tree.Param) and str(decl.type) in (name, f"{name}_t"):
                return f" (the parameter of that type is called '{decl.name}' here)"
            if not isinstance(decl, TYPE_DECLS):
                values.append(other)
        return did_you_mean(name, values) or did_you_mean(name, scope.all_names())

    # ------------------------------------------------------------- scopes

    def declare(self, decl: tree.Decl) -> None:
        """Adds a name to the scope; an error if it is taken."""
        earlier = self.scope.declare(decl)
        if earlier is not None and earlier is not decl:
            self.error(decl.pos, f"'{decl.name}' is already declared at {self.where(earlier)}")

    @contextmanager
    def inner_scope(self) -> Iterator[None]:
        """Names declared inside end with the block."""
        self.scope = Scope(self.scope)
        try:
            yield
        finally:
            assert self.scope.outer is not None
            self.scope = self.scope.outer

    @contextmanager
    def inside(self, body: Body) -> Iterator[None]:
        """Checks code of another kind."""
        before, self.body = self.body, body
        try:
            yield
        finally:
            self.body = before


def bits_of(type_: Type) -> types.BitType | None:
    """The `bit<N>` or `int<N>` that `type_` is or is represented by, or None."""
    base = types.underlying(type_)
    return base if isinstance(base, types.BitType) else None


def plural(count: int, noun: str) -> str:
    """`1 argument`, `2 arguments`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
