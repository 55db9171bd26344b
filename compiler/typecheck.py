"""The checker's front door: `check` takes a P4 file to a `TypedProgram`. Declarations are checked here, in source
order; the parts of a declaration in the `typecheck_*` modules that this class is built from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from compiler import tree, types
from compiler import typecheck_rules as rules
from compiler.errors import CompileError
from compiler.parser import parse
from compiler.preprocess import preprocess
from compiler.scope import did_you_mean
from compiler.source import Source
from compiler.typecheck_base import Body, TooManyErrors
from compiler.typecheck_declarations import DeclarationChecker
from compiler.typecheck_warnings import warnings_of
from compiler.types import FunctionType, UnknownType

FIRST_V1MODEL = 20180101
"""The oldest version of the v1model architecture there is."""

RECURSION_LIMIT = 20_000
"""Python frames; trees are at most about 2000 deep (see the limits of the parser), each level taking a few."""


def check(
    path: Path | str, include_dirs: Iterable[Path | str] = (), defines: Mapping[str, str] | None = None
) -> tree.TypedProgram:
    """The checked program in `path`. `include_dirs` are searched before Xoff's core.p4 and v1model.p4; `defines` are
    macros (name -> text). Raises CompileError with every error found."""
    source = preprocess(Path(path), [Path(d) for d in include_dirs], defines)
    return check_source(source)


def check_source(source: Source, parsed: Callable[[tree.Program], None] | None = None) -> tree.TypedProgram:
    """The checked program in preprocessed text; `parsed` sees the tree before. Raises CompileError."""
    with _deep_recursion():
        try:
            program = parse(source)
            if parsed is not None:
                parsed(program)
            checker = Checker(source)
            checker.program(program)
        except RecursionError:
            raise CompileError.about(source.path, "the program is nested too deeply") from None
        checker.fail_if_wrong()
        for pos, message in warnings_of(program, source):
            checker.warn(pos, message)
    assert checker.main is not None
    return tree.TypedProgram(
        program, source, tuple(checker.errors), tuple(checker.match_kinds), checker.main, checker.warnings
    )


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Checker(DeclarationChecker):
    """Declarations."""

    main: tree.InstanceDecl | None = None

    def program(self, program: tree.Program) -> None:
        """All declarations, in order; then what a whole program needs."""
        try:
            self.later.append(program.decls)
            for decl in program.decls:
                self.declaration(decl)
            if self.main is None and not self.diagnostics:
                end = max(0, len(self.source.text.rstrip()) - 1)
                self.error(end, "the program has no package instance called main, as in V1Switch(…) main;")
        except TooManyErrors:
            pass

    def declaration(self, decl: tree.Decl) -> None:
        """One top-level declaration."""
        self.annotations(decl.annotations)
        if decl.name == "NoAction" and (
            not isinstance(decl, tree.ActionDecl) or decl.params or decl.body.statements
        ):
            self.error(decl.pos, "NoAction is the action that does nothing and has no parameters")
        if isinstance(decl, tree.RecordDecl):
            self.record(decl)
        elif isinstance(decl, tree.EnumDecl):
            self.enum(decl)
        elif isinstance(decl, tree.TypedefDecl):
            self.typedef(decl)
        elif isinstance(decl, tree.ConstDecl):
            self.constant(decl)
        elif isinstance(decl, tree.ErrorDecl | tree.MatchKindDecl):
            self.members(decl)
        elif isinstance(decl, tree.ExternDecl):
            self.extern(decl)
        elif isinstance(decl, tree.ExternFunction):
            decl.type = self.prototype(decl, decl.result)
            self.declare(decl)
        elif isinstance(decl, tree.FunctionDecl):
            self.function(decl)
        elif isinstance(decl, tree.ActionDecl):
            self.action(decl)
        elif isinstance(decl, tree.ParserDecl):
            self._parser(decl)
        elif isinstance(decl, tree.ControlDecl):
            self._control(decl)
        elif isinstance(decl, tree.ParserTypeDecl | tree.ControlTypeDecl | tree.PackageDecl):
            self._applicable_type(decl)
        elif isinstance(decl, tree.InstanceDecl):
            self.instance(decl)
        else:
            raise AssertionError(decl)

    # ------------------------------------------------------------- constants and instances

    def constant(self, decl: tree.ConstDecl) -> None:
        """`const T name = value;`"""
        decl.type = self.resolve(decl.ref)
        if isinstance(decl.type, types.ExternType | types.ApplicableType | types.VoidType):
            self.error(decl.pos, f"a constant cannot have the type {decl.type}")
            decl.type = types.UNKNOWN
        written = self.expr(decl.init)
        decl.init = self.convert(written, decl.type, f"the value of '{decl.name}'")
        decl.value = decl.init.value
        version = written.value if decl.name == "__v1model_version" else FIRST_V1MODEL
        if not (isinstance(version, int) and version >= FIRST_V1MODEL):
            message = f"V1MODEL_VERSION is {version}; it must be {FIRST_V1MODEL} or later, as 20200408"
            self.error(decl.pos, message)
        if not isinstance(decl.init.type, UnknownType) and not self.is_constant(decl.init):
            self.error(decl.init.pos, f"the value of the constant '{decl.name}' is not known at compile time")
        self.declare(decl)

    def instance(self, decl: tree.InstanceDecl) -> None:
        """`T(arguments) name;`"""
        self.expr(decl.call)
        self.resolve(decl.ref, generic=True)
        decl.type = decl.call.type
        if isinstance(decl.ref, tree.StackTypeRef) and isinstance(decl.ref.type, types.StackType):
            decl.type = types.StackType(decl.call.type, decl.ref.type.size)
        else:
            decl.ref.type = decl.type
        at_top = self.body.kind == "top"
        if isinstance(decl.type, types.PackageType):
            if not at_top:
                self.error(decl.pos, "a package is instantiated at top level only")
        elif isinstance(decl.type, types.ControlType) and self.body.kind == "parser":
            self.error(decl.pos, "a parser cannot hold an instance of a control")
        elif isinstance(decl.type, types.ParserType) and self.body.kind == "control":
            self.error(decl.pos, "a control cannot hold an instance of a parser")
        elif isinstance(decl.type, types.ControlType | types.ParserType) and at_top:
            word = "control" if isinstance(decl.type, types.ControlType) else "parser"
            hint = f"name it where it is used: {decl.type}()"
            self.error(decl.pos, f"a {word} is not instantiated at top level; {hint}")
        elif isinstance(decl.type, types.ExternType):
            self._initializer(decl, decl.type)
        if decl.initializer is not None and not isinstance(decl.type, types.ExternType | UnknownType):
            self.error(decl.pos, f"only extern objects have an initialiser, not a {decl.type}")
        self.declare(decl)
        if decl.name == "main" and at_top:
            if isinstance(decl.type, types.PackageType):
                self.main = decl
            elif not isinstance(decl.type, UnknownType):
                self.error(decl.pos, f"main must be an instance of a package, not of {decl.type}")

    def _initializer(self, decl: tree.InstanceDecl, extern: types.ExternType) -> None:
        methods: dict[str, list[tree.ExternMethod]] = {}
        for method in extern.decl.methods:
            methods.setdefault(method.name, []).append(method)
        implemented: set[str] = set()
        with self.inner_scope():
            for item in decl.initializer or ():
                if isinstance(item, tree.InstanceDecl):
                    self.instance(item)
                elif isinstance(item, tree.FunctionDecl):
                    if not any(m.abstract for m in methods.get(item.name, ())):
                        hint = did_you_mean(item.name, [m.name for m in extern.decl.methods if m.abstract])
                        self.error(item.pos, f"{extern.name} has no abstract method '{item.name}'{hint}")
                    implemented.add(item.name)
                    self.function(item, decl)
                    self._check_implementation(item, methods.get(item.name, []), extern)
        for name, found in methods.items():
            needed = [m for m in found if m.abstract and m.annotation("optional") is None]
            if needed and name not in implemented:
                self.error(
                    decl.pos, f"'{decl.name}' must implement the abstract method '{name}' of {extern.name}"
                )

    def _check_implementation(
        self, item: tree.FunctionDecl, methods: Sequence[tree.ExternMethod], extern: types.ExternType
    ) -> None:
        """An implementation has the signature of its abstract method."""
        binding = {p.type: a for p, a in zip(extern.decl.type_params, extern.args, strict=False)}
        for method in methods:
            wanted, given = types.substitute(method.type, binding), item.type
            if not isinstance(wanted, FunctionType) or not isinstance(given, FunctionType):
                continue
            inner = dict(zip(wanted.type_params, given.type_params, strict=False))
            wanted = types.substitute(wanted, inner)
            assert isinstance(wanted, FunctionType)
            if any(p.optional for p in wanted.params):
                return
            if given.result == wanted.result and [(p.direction, p.type) for p in given.params] == [
                (p.direction, p.type) for p in wanted.params
            ]:
                return
        if methods:
            self.error(item.pos, f"'{item.name}' differs from the abstract method: {methods[0].type}")

    # ------------------------------------------------------------- parsers, controls, packages

    def _applicable_type(self, decl: tree.ParserTypeDecl | tree.ControlTypeDecl | tree.PackageDecl) -> None:
        with self.inner_scope():
            variables = self.declare_type_params(decl.type_params)
            owners = {
                tree.ParserTypeDecl: "parser",
                tree.ControlTypeDecl: "control",
                tree.PackageDecl: "package",
            }
            params = self.params(decl.params, owners[type(decl)])
        kind: type[types.ApplicableType] = types.PackageType
        if isinstance(decl, tree.ParserTypeDecl):
            kind = types.ParserType
        elif isinstance(decl, tree.ControlTypeDecl):
            kind = types.ControlType
        decl.type = kind(decl.name, decl, variables, params)
        self.declare(decl)

    def _parser(self, decl: tree.ParserDecl) -> None:
        with self.inner_scope(), self.inside(Body("parser", decl.name)):
            variables = self.declare_type_params(decl.type_params)
            params = self.params(decl.params, "parser")
            self.params(decl.constructor_params, "constructor")
            decl.type = types.ParserType(decl.name, decl, variables, params)
            with self.inner_scope():
                self._parser_body(decl)
        self.declare(decl)

    def _parser_body(self, decl: tree.ParserDecl) -> None:
        for local in decl.locals:
            self.annotations(local.annotations)
            self._local(local)
        states: dict[str, tree.StateDecl] = {"accept": tree.ACCEPT, "reject": tree.REJECT}
        for state in decl.states:
            if state.name in states:
                reserved = " (accept and reject are given)" if state.name in ("accept", "reject") else ""
                self.error(state.pos, f"the state '{state.name}' is already declared{reserved}")
            states[state.name] = state
        if "start" not in states:
            self.error(decl.pos, f"the parser {decl.name} has no state 'start'")
        elif not rules.reaches_end(decl.states):
            self.error(decl.pos, f"the parser {decl.name} never reaches accept or reject")
        for state in decl.states:
            self.annotations(state.annotations)
            with self.inner_scope():
                self.statements(state.body)
                self._transition(state, states)

    def _transition(self, state: tree.StateDecl, states: Mapping[str, tree.StateDecl]) -> None:
        transition = state.transition
        if transition is None:
            self.warn(state.pos, f"the state '{state.name}' has no transition, so it rejects the packet")
            return
        if isinstance(transition, tree.Transition):
            transition.state = self._state(transition.name, transition.pos, states)
            return
        transition.exprs = [self.expr(e) for e in transition.exprs]
        for expr in transition.exprs:
            if isinstance(expr, tree.Dots):
                self.error(expr.pos, "select takes values; ... is not one")
            elif isinstance(expr.type, types.InfIntType):
                self.error(expr.pos, "select needs a value with a width: cast the number, as in (bit<8>) 5")
            elif isinstance(expr.type, types.RecordType | types.VoidType | types.VarbitType):
                self.error(expr.pos, f"select cannot choose by a value of type {expr.type}")
        wanted = [e.type for e in transition.exprs]
        for case in transition.cases:
            case.keys = self.keysets(case.keys, wanted, "the select case")
            case.state = self._state(case.name, case.pos, states)

    def _state(self, name: str, pos: int, states: Mapping[str, tree.StateDecl]) -> tree.StateDecl | None:
        state = states.get(name)
        if state is None:
            self.error(pos, f"there is no state '{name}'{did_you_mean(name, list(states))}")
        return state

    def _local(self, decl: tree.Decl) -> None:
        if isinstance(decl, tree.ConstDecl):
            self.constant(decl)
        elif isinstance(decl, tree.VarDecl):
            hidden = self.scope.lookup(decl.name)
            if hidden and isinstance(hidden[0], tree.Param):
                self.warn(decl.pos, f"'{decl.name}' hides the parameter of the same name")
            self.variable(decl)
        elif isinstance(decl, tree.InstanceDecl):
            self.instance(decl)
        elif isinstance(decl, tree.ActionDecl):
            self.action(decl)
        elif isinstance(decl, tree.TableDecl):
            self.table(decl)
        elif isinstance(decl, tree.ValueSetDecl):
            self._value_set(decl)
        else:
            raise AssertionError(decl)

    def _value_set(self, decl: tree.ValueSetDecl) -> None:
        element = self.resolve(decl.ref)
        decl.size = self.expr(decl.size)
        if not self.is_constant(decl.size):
            self.error(decl.size.pos, "the size of a value set must be known at compile time")
        decl.type = types.SetType(element)
        self.declare(decl)

    def _control(self, decl: tree.ControlDecl) -> None:
        with self.inner_scope(), self.inside(Body("control", decl.name)):
            variables = self.declare_type_params(decl.type_params)
            params = self.params(decl.params, "control")
            self.params(decl.constructor_params, "constructor")
            decl.type = types.ControlType(decl.name, decl, variables, params)
            self.later.append(decl.locals)
            with self.inner_scope():
                for local in decl.locals:
                    self.annotations(local.annotations)
                    self._local(local)
                self.block(decl.body)
            self.later.pop()
        self.declare(decl)
