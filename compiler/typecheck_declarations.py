"""Checking of types, functions, actions and externs as they are declared."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import tree, types
from compiler import typecheck_rules as rules
from compiler.typecheck_base import Body, bits_of
from compiler.typecheck_calls import param_type
from compiler.typecheck_tables import TableChecker
from compiler.types import FunctionType, ParamType, Type, UnknownType


class DeclarationChecker(TableChecker):
    """Declarations that make no instances."""

    def declaration(self, decl: tree.Decl) -> None:
        """One top-level declaration (see typecheck)."""
        raise NotImplementedError

    def annotations(self, annotations: Sequence[tree.Annotation]) -> None:
        """Expressions in structured annotations."""
        names: set[str] = set()
        for annotation in annotations:
            if (
                annotation.name in ("name", "deprecated")
                and annotation.form == "tokens"
                and annotation.string is None
            ):
                self.error(annotation.pos, f'@{annotation.name} needs a string: @{annotation.name}("…")')
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

    def record(self, decl: tree.RecordDecl) -> None:
        """A header, struct or header union."""
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
            width = "; give it a width: bit<N> or int<N>" if isinstance(base, types.InfIntType) else ""
            self.error(
                field.pos, f"a struct cannot have a field of type {field.type} ('{field.name}'){width}"
            )

    def enum(self, decl: tree.EnumDecl) -> None:
        """An enum, with or without representation."""
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

    def typedef(self, decl: tree.TypedefDecl) -> None:
        """`typedef` or `type`."""
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

    def members(self, decl: tree.ErrorDecl | tree.MatchKindDecl) -> None:
        """Members of error or match_kind."""
        known = self.errors if isinstance(decl, tree.ErrorDecl) else self.match_kinds
        for member in decl.members:
            if member.name in known:
                self.error(member.pos, f"'{member.name}' is already a member of {decl.name}")
            known[member.name] = member
            member.type = types.ERROR if isinstance(decl, tree.ErrorDecl) else types.MATCH_KIND

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
        for param in params:  # only now: a parameter may have the name of a type
            self.declare(param)
        return tuple(map(param_type, params))

    def prototype(
        self, decl: tree.ExternFunction | tree.ExternMethod | tree.FunctionDecl, result: tree.TypeRef | None
    ) -> FunctionType:
        """The type of a function or method, in a scope of its own."""
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

    def extern(self, decl: tree.ExternDecl) -> None:
        """An extern object type."""
        with self.inner_scope():
            variables = self.declare_type_params(decl.type_params)
            decl.type = types.ExternType(decl.name, decl, variables)
            outer = self.scope.outer
            assert outer is not None
            clash = outer.declare(decl)
            if clash is not None:
                self.error(decl.pos, f"'{decl.name}' is already declared at {self.where(clash)}")
            signatures: dict[str, tree.ExternMethod] = {}
            for method in decl.methods:
                method.extern = decl
                self.annotations(method.annotations)
                if method.name == decl.name and method.result is not None:
                    self.error(method.pos, f"the constructor of {decl.name} has no result type")
                method.type = self.prototype(method, method.result)
                signature = str(method.type)
                if signature in signatures:
                    self.error(
                        method.pos,
                        f"'{method.name}' is already declared at {self.where(signatures[signature])}",
                    )
                signatures[signature] = method

    def function(self, decl: tree.FunctionDecl, this: tree.InstanceDecl | None = None) -> None:
        """A function with a body; `this` for the implementation of an abstract method."""
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

    def action(self, decl: tree.ActionDecl) -> None:
        """An action."""
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
