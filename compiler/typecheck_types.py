"""Checking of types as written: names to declarations, sizes to numbers, arguments of generic types."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import tree, types
from compiler import typecheck_rules as rules
from compiler.scope import did_you_mean, missing_include
from compiler.slips import type_slip
from compiler.typecheck_base import TYPE_DECLS, CheckerBase, plural
from compiler.types import Type, TypeVar

MAX_WIDTH = 2048
"""Widest `bit<N>` accepted (as by p4c)."""
MAX_VARBIT = 1 << 16
"""Widest `varbit<N>`: 8 KiB of header."""
MAX_STACK = 1 << 16

TYPE_WORDS = (
    "control parser header struct header_union enum package extern typedef action table bool string".split()
)
"""Keywords that a misspelt type may have been meant to be."""


class TypeResolver(CheckerBase):
    """`resolve` gives a written type its meaning."""

    def expr(self, expr: tree.Expr) -> tree.Expr:
        """Checks an expression (see typecheck_expressions)."""
        raise NotImplementedError

    def resolve(self, ref: tree.TypeRef, generic: bool = False) -> Type:
        """The type that `ref` names; UNKNOWN after reporting an error. `generic`: the arguments of a generic type may
        be missing, because something else supplies them."""
        resolved: Type
        if isinstance(ref, tree.BaseTypeRef):
            resolved = self._base(ref)
        elif isinstance(ref, tree.NamedTypeRef):
            resolved = self._named(ref, generic)
        elif isinstance(ref, tree.StackTypeRef):
            resolved = self._stack(ref, generic)
        elif isinstance(ref, tree.TupleTypeRef):
            resolved = types.TupleType(tuple(self.resolve(e) for e in ref.elements))
            for element in ref.elements:
                if not rules.tuple_element(element.type):
                    self.error(element.pos, f"a tuple cannot hold a value of type {element.type}")
        elif isinstance(ref, tree.ListTypeRef):
            resolved = types.ListType(self.resolve(ref.element))
        else:
            raise AssertionError(ref)
        ref.type = resolved
        return resolved

    def _base(self, ref: tree.BaseTypeRef) -> Type:
        name = ref.name
        if name in ("bit", "int", "varbit"):
            if ref.size is None:
                return types.bit(1) if name == "bit" else types.INT
            most = MAX_VARBIT if name == "varbit" else MAX_WIDTH
            width = self._size(ref, f"the width of {name}<…>", most)
            if width is None:
                return types.UNKNOWN
            if name == "varbit":
                return types.VarbitType(width)
            if name == "int" and width < 1:
                self.error(ref.pos, "int<N> needs at least one bit")
                return types.UNKNOWN
            return types.bit(width, name == "int")
        return {
            "bool": types.BOOL,
            "error": types.ERROR,
            "string": types.STRING,
            "match_kind": types.MATCH_KIND,
            "void": types.VOID,
            "_": types.DONT_CARE,
        }[name]

    def _size(self, ref: tree.BaseTypeRef | tree.StackTypeRef, what: str, most: int) -> int | None:
        assert ref.size is not None
        ref.size = self.expr(ref.size)
        value = ref.size.value
        if isinstance(ref.size.type, types.UnknownType):
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            self.error(ref.size.pos, f"{what} must be a number known at compile time")
            return None
        if value < 0 or value > most:
            self.error(ref.size.pos, f"{what} is {value}; it must be between 0 and {most}")
            return None
        return value

    def _stack(self, ref: tree.StackTypeRef, generic: bool) -> Type:
        element = self.resolve(ref.element, generic)
        size = self._size(ref, "the size of a stack", MAX_STACK)
        if size is None or isinstance(element, types.UnknownType):
            return types.UNKNOWN
        if isinstance(element, types.VoidType | types.VarbitType | types.StringType | types.InfIntType):
            self.error(ref.pos, f"{element} cannot be the element of a stack")
            return types.UNKNOWN
        return types.StackType(element, size)

    def find_type(self, name: str, absolute: bool, pos: int) -> tree.Decl | None:
        """The declaration of the type called `name`, or None after an error."""
        scope = self.scope.outermost if absolute else self.scope
        found = scope.lookup(name)
        if not found:
            names = [n for n in scope.all_names() if isinstance(scope.lookup(n)[0], TYPE_DECLS)]
            names += TYPE_WORDS
            hint = missing_include(name) or type_slip(name) or did_you_mean(name, names)
            self.error(pos, f"the type '{name}' is not declared{hint}")
            return None
        if not isinstance(found[0], TYPE_DECLS):
            self.error(
                pos, f"'{name}' is not a type; it is declared as something else at {self.where(found[0])}"
            )
            return None
        return found[0]

    def _named(self, ref: tree.NamedTypeRef, generic: bool) -> Type:
        decl = self.find_type(ref.name, ref.absolute, ref.pos)
        if decl is None:
            return types.UNKNOWN
        ref.decl = decl
        declared: Type = decl.type
        params = self.type_params_of(decl)
        if ref.args is None:
            if params and not generic:
                self.error(ref.pos, f"{ref.name} needs {plural(len(params), 'type argument')}: {ref.name}<…>")
                return types.UNKNOWN
            return declared
        args = [self.resolve(a) for a in ref.args]
        for arg in ref.args:
            if isinstance(decl, tree.RecordDecl) and not rules.tuple_element(arg.type):
                self.error(arg.pos, f"{ref.name} cannot hold a value of type {arg.type}")
        if len(args) != len(params):
            self.error(ref.pos, f"{ref.name} takes {plural(len(params), 'type argument')}, {len(args)} given")
            return types.UNKNOWN
        if any(isinstance(a, types.UnknownType) for a in args):
            return types.UNKNOWN
        made = types.substitute(declared, dict(zip(params, args, strict=True)))
        if isinstance(made, types.HeaderType):
            for field in made.fields:
                if isinstance(
                    field.type, types.InfIntType | types.StringType | types.TupleType | types.ListType
                ):
                    self.error(ref.pos, f"the field '{field.name}' of {made} cannot be of type {field.type}")
        return made

    def type_params_of(self, decl: tree.Decl) -> list[TypeVar]:
        """The type variables of a generic declaration, in order."""
        found = []
        for p in getattr(decl, "type_params", ()):
            assert isinstance(p.type, TypeVar)
            found.append(p.type)
        return found

    def declare_type_params(self, params: Sequence[tree.TypeParam]) -> tuple[TypeVar, ...]:
        """Makes the type variables of a generic declaration visible."""
        found = []
        for param in params:
            var = TypeVar(param.name, param)
            param.type = var
            self.declare(param)
            found.append(var)
        return tuple(found)
