"""The checker's front door: `check` takes a P4 file to a `TypedProgram`. Declarations are checked here, in source
order; the parts of a declaration in the `typecheck_*` modules that this class is built from."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from compiler import tree, types
from compiler import typecheck_rules as rules
from compiler.errors import CompileError
from compiler.parser import parse
from compiler.preprocess import preprocess
from compiler.scope import did_you_mean
from compiler.source import Source
from compiler.typecheck_base import Body, TooManyErrors, bits_of
from compiler.typecheck_calls import param_type
from compiler.typecheck_tables import TableChecker
from compiler.types import FunctionType, ParamType, Type, UnknownType

RECURSION_LIMIT = 20_000
"""Python frames; trees are at most about 2000 deep (see the limits of the parser), each level taking a few."""


def check(
    path: Path | str, include_dirs: Iterable[Path | str] = (), defines: Mapping[str, str] | None = None
) -> tree.TypedProgram:
    """The checked program in `path`. `include_dirs` are searched before Xoff's core.p4 and v1model.p4; `defines` are
    macros (name -> text). Raises CompileError with every error found."""
    source = preprocess(Path(path), [Path(d) for d in include_dirs], defines)
    return check_source(source)


def check_source(source: Source) -> tree.TypedProgram:
    """The checked program in preprocessed text. Raises CompileError."""
    with _deep_recursion():
        try:
            program = parse(source)
            checker = Checker(source)
            checker.program(program)
        except RecursionError:
            raise CompileError.about(source.path, "the program is nested too deeply") from None
    checker.fail_if_wrong()
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


class Checker(TableChecker):
    """Declarations."""

    main: tree.InstanceDecl | None = None

    def program(self, program: tree.Program) -> None:
        """All declarations, in order; then what a whole program needs."""
        try:
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
            self._record(decl)
        elif isinstance(decl, tree.EnumDecl):
            self._enum(decl)
        elif isinstance(decl, tree.TypedefDecl):
            self._typedef(decl)
        elif isinstance(decl, tree.ConstDecl):
            self.constant(decl)
        elif isinstance(decl, tree.ErrorDecl | tree.MatchKindDecl):
            self._members(decl)
        elif isinstance(decl, tree.ExternDecl):
            self._extern(decl)
        elif isinstance(decl, tree.ExternFunction):
            decl.type = self._prototype(decl, decl.result)
            self.declare(decl)
        elif isinstance(decl, tree.FunctionDecl):
            self._function(decl)
        elif isinstance(decl, tree.ActionDecl):
            self._action(decl)
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

    def annotations(self, annotations: Sequence[tree.Annotation]) -> None:
        """Expressions in structured annotations."""
        names: set[str] = set()
        for annotation in annotations:
            if annotation.form in ("list", "pairs"):
                if annotation.name in names:
                    self.error(annotation.pos, f"the structured annotation @{annotation.name} is given twice")
                names.add(annotation.name)
            if annotation.form == "list":
                annotation.exprs = [self.expr(e) for e in annotation.exprs]
            elif annotation.form == "pairs":
                for pair in annotation.pairs:
                    pair.expr = self.expr(pair.expr)
            for expr in [*annotation.exprs, *(p.expr for p in annotation.pairs)]:
                if not isinstance(expr.value, int | str) and not isinstance(expr.type, UnknownType):
                    self.error(
                        expr.pos, "a structured annotation holds constant numbers, strings and booleans"
                    )

    # ------------------------------------------------------------- types

    def _record(self, decl: tree.RecordDecl) -> None:
        with self.inner_scope():
            variables = self.declare_type_params(decl.type_params)
            seen: dict[str, tree.StructField] = {}
            for field in decl.fields:
                self.annotations(field.annotations)
                field.type = self.resolve(field.ref)
                if field.name in seen:
                    self.error(
                        field.pos, f"the field '{field.name}' is already declared in this {decl.keyword}"
                    )
                seen[field.name] = field
                self._check_field(decl, field)
        kind = {
            "header": types.HeaderType,
            "struct": types.StructType,
            "header_union": types.HeaderUnionType,
        }[decl.keyword]

        def fields_of(record: types.RecordType) -> tuple[types.Field, ...]:
            binding = dict(zip(variables, record.args, strict=False))
            return tuple(types.Field(f.name, types.substitute(f.type, binding), f) for f in decl.fields)

        decl.type = kind(decl.name, decl, variables, fields_of)
        self.declare(decl)

    def _check_field(self, decl: tree.RecordDecl, field: tree.StructField) -> None:
        base = types.underlying(field.type)
        if isinstance(base, UnknownType | types.TypeVar):
            return
        if decl.keyword == "header_union":
            if not isinstance(base, types.HeaderType):
                self.error(field.pos, f"a header union holds headers; '{field.name}' is {field.type}")
        elif decl.keyword == "header":
            if isinstance(base, types.StructType):
                for inner in base.fields:
                    if not isinstance(
                        types.underlying(inner.type),
                        types.BitType | types.BoolType | types.StructType | types.TypeVar,
                    ):
                        self.error(
                            field.pos,
                            f"the struct {base} has a field that a header cannot hold: {inner.type}",
                        )
                        break
            elif isinstance(base, types.StackType):
                element: Type = base
                while isinstance(element, types.StackType):
                    element = types.underlying(element.element)
                if not isinstance(element, types.BitType | types.BoolType | types.StructType):
                    self.error(field.pos, f"a header cannot have an array of {base.element} ('{field.name}')")
            elif not isinstance(base, types.BitType | types.BoolType | types.VarbitType):
                self.error(field.pos, f"a header cannot have a field of type {field.type} ('{field.name}')")
        elif isinstance(
            base,
            types.VoidType
            | types.InfIntType
            | types.StringType
            | types.ApplicableType
            | types.ExternType
            | types.MatchKindType,
        ):
            self.error(field.pos, f"a struct cannot have a field of type {field.type} ('{field.name}')")

    def _enum(self, decl: tree.EnumDecl) -> None:
        seen: set[str] = set()
        for member in decl.members:
            if member.name in seen:
                self.error(member.pos, f"'{member.name}' is already a member of this enum")
            seen.add(member.name)
        if decl.ref is None:
            if not decl.members:
                self.error(decl.pos, f"the enum {decl.name} has no members")
            decl.type = types.EnumType(decl.name, decl, tuple(m.name for m in decl.members))
            self.declare(decl)
            return
        underlying = self.resolve(decl.ref)
        if not isinstance(underlying, types.BitType | UnknownType):
            self.error(decl.ref.pos, f"an enum's type must be bit<N> or int<N>, not {underlying}")
            underlying = types.UNKNOWN
        enum = types.SerEnumType(decl.name, decl, underlying)
        decl.type = enum
        self.declare(decl)
        base = bits_of(underlying) or types.UNKNOWN
        with self.inner_scope():  # a value may use the members before it
            for member in decl.members:
                assert member.init is not None
                member.init = self.convert(self.expr(member.init), base, f"the value of '{member.name}'")
                if member.init.value is None and not isinstance(member.init.type, UnknownType):
                    self.error(member.pos, f"the value of '{member.name}' must be known at compile time")
                member.type = enum
                enum.members[member.name] = member.init.value if isinstance(member.init.value, int) else 0
                self.scope.declare(member)

    def _typedef(self, decl: tree.TypedefDecl) -> None:
        if decl.inline is not None:
            self.declaration(decl.inline)
        target = self.resolve(decl.ref)
        if not decl.newtype:
            decl.type = target
        else:
            if not isinstance(
                target,
                types.BitType
                | types.BoolType
                | types.NewType
                | types.VarbitType
                | types.SerEnumType
                | types.ErrorType
                | UnknownType
                | types.EnumType,
            ):
                self.error(
                    decl.ref.pos, f"'type' needs bit<N>, int<N>, varbit<N>, bool or an enum, not {target}"
                )
            decl.type = types.NewType(decl.name, decl, target)
        self.declare(decl)

    def _members(self, decl: tree.ErrorDecl | tree.MatchKindDecl) -> None:
        known = self.errors if isinstance(decl, tree.ErrorDecl) else self.match_kinds
        for member in decl.members:
            if member.name in known:
                self.error(member.pos, f"'{member.name}' is already a member of {decl.name}")
            known[member.name] = member
            member.type = types.ERROR if isinstance(decl, tree.ErrorDecl) else types.MATCH_KIND

    # ------------------------------------------------------------- constants and instances

    def constant(self, decl: tree.ConstDecl) -> None:
        """`const T name = value;`"""
        decl.type = self.resolve(decl.ref)
        if isinstance(decl.type, types.ExternType | types.ApplicableType | types.VoidType):
            self.error(decl.pos, f"a constant cannot have the type {decl.type}")
            decl.type = types.UNKNOWN
        decl.init = self.convert(self.expr(decl.init), decl.type, f"the value of '{decl.name}'")
        decl.value = decl.init.value
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
                    self._function(item, decl)
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

    # ------------------------------------------------------------- functions, actions, externs

    def params(self, params: Sequence[tree.Param], owner: str) -> tuple[ParamType, ...]:
        """Declares the parameters of a `function`, `action`, `method`, `constructor`, `package`, `parser` or
        `control`, and returns them as a caller sees them."""
        for param in params:
            self.annotations(param.annotations)
            param.type = self.resolve(param.ref)
            for pos, message in rules.parameter(param, owner):
                self.error(pos, message)
            if owner == "constructor":
                self.constructor_params.add(param)
                if param.direction:
                    self.error(param.pos, f"a constructor parameter has no direction ('{param.name}')")
            if isinstance(param.type, types.VoidType):
                self.error(param.pos, f"the parameter '{param.name}' cannot be void")
            elif isinstance(param.type, types.ExternType) and param.direction:
                self.error(
                    param.pos, f"the parameter '{param.name}' is an extern object, so it has no direction"
                )
            elif isinstance(param.type, types.StringType | types.InfIntType) and param.direction in (
                "out",
                "inout",
            ):
                self.error(
                    param.pos,
                    f"the parameter '{param.name}' of type {param.type} cannot be {param.direction}",
                )
            if param.default is not None:
                if param.direction in ("out", "inout"):
                    self.error(param.pos, f"an {param.direction} parameter cannot have a default value")
                what = f"the default value of '{param.name}'"
                param.default = self.expr(param.default)
                if not isinstance(param.type, types.DeclaredType) or not any(
                    isinstance(a, types.TypeVar) for a in param.type.args
                ):
                    param.default = self.convert(param.default, param.type, what)
                if not self.is_constant(param.default):
                    self.error(param.default.pos, f"{what} must be known at compile time")
            self.declare(param)
        return tuple(map(param_type, params))

    def _prototype(
        self, decl: tree.ExternFunction | tree.ExternMethod | tree.FunctionDecl, result: tree.TypeRef | None
    ) -> FunctionType:
        with self.inner_scope():
            return self._signature(decl, result)

    def _signature(
        self, decl: tree.ExternFunction | tree.ExternMethod | tree.FunctionDecl, result: tree.TypeRef | None
    ) -> FunctionType:
        variables = self.declare_type_params(decl.type_params)
        returned: Type = types.VOID if result is None else self.resolve(result)
        owner = "function" if isinstance(decl, tree.FunctionDecl) else "method"
        if isinstance(decl, tree.ExternMethod) and decl.result is None:
            owner = "extern constructor"
        if (
            isinstance(returned, types.InfIntType | types.TableType | types.ApplicableType)
            and owner == "function"
        ):
            self.error(decl.pos, f"a function cannot return {returned}")
        return FunctionType(decl.name, variables, returned, self.params(decl.params, owner))

    def _extern(self, decl: tree.ExternDecl) -> None:
        with self.inner_scope():
            variables = self.declare_type_params(decl.type_params)
            decl.type = types.ExternType(decl.name, decl, variables)
            outer = self.scope.outer
            assert outer is not None
            clash = outer.declare(decl)
            if clash is not None:
                self.error(decl.pos, f"'{decl.name}' is already declared at {self.where(clash)}")
            for method in decl.methods:
                method.extern = decl
                self.annotations(method.annotations)
                if method.name == decl.name and method.result is not None:
                    self.error(method.pos, f"the constructor of {decl.name} has no result type")
                method.type = self._prototype(method, method.result)

    def _function(self, decl: tree.FunctionDecl, this: tree.InstanceDecl | None = None) -> None:
        with self.inner_scope():
            kind = self._signature(decl, decl.result)
            decl.type = kind
            with self.inside(Body("function" if this is None else "method", decl.name, kind.result, 0, this)):
                self.block(decl.body)
        if not isinstance(kind.result, types.VoidType | UnknownType) and not self.always_returns(decl.body):
            self.error(
                decl.pos, f"the function '{decl.name}' can end without returning a value ({kind.result})"
            )
        if this is None:
            self.declare(decl)

    def _action(self, decl: tree.ActionDecl) -> None:
        with self.inner_scope():
            params = self.params(decl.params, "action")
            plain = False
            for param in decl.params:
                if param.direction and plain:
                    self.error(
                        param.pos,
                        f"'{param.name}': parameters with a direction come before those without one",
                    )
                plain = plain or not param.direction
            decl.type = types.ActionType(decl.name, (), types.VOID, params)
            with self.inside(Body("action", decl.name)):
                self.block(decl.body)
        self.declare(decl)

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
            if isinstance(expr.type, types.InfIntType):
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
            self.variable(decl)
        elif isinstance(decl, tree.InstanceDecl):
            self.instance(decl)
        elif isinstance(decl, tree.ActionDecl):
            self._action(decl)
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
            with self.inner_scope():
                for local in decl.locals:
                    self.annotations(local.annotations)
                    self._local(local)
                self.block(decl.body)
        self.declare(decl)
