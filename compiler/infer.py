"""Finding the type arguments that a call leaves out: one-way unification of parameter types with argument types."""

from __future__ import annotations

from compiler import types
from compiler.types import Type, TypeVar


class Binding(dict[TypeVar, Type]):
    """What the free type variables of a call stand for, as far as known."""

    def __init__(self, free: tuple[TypeVar, ...]) -> None:
        super().__init__()
        self.free = frozenset(free)

    def missing(self) -> list[TypeVar]:
        """Free variables without a type."""
        return [v for v in self.free if v not in self]

    def unify(self, param: Type, arg: Type) -> bool:
        """Makes `param` fit `arg` by binding free variables. False on a contradiction; differences that have nothing
        to do with free variables are left to the conversion of the argument."""
        if isinstance(param, TypeVar) and param in self.free:
            return self._bind(param, arg)
        if isinstance(arg, (types.UnknownType, types.DontCareType)):
            return True
        if isinstance(param, types.TupleType):
            return not isinstance(arg, types.TupleType) or self._all(param.elements, arg.elements)
        if isinstance(param, types.ListType):
            if isinstance(arg, types.ListType):
                return self.unify(param.element, arg.element)
            if isinstance(arg, types.TupleType):
                return all(self.unify(param.element, e) for e in arg.elements)
            return True
        if isinstance(param, types.SetType) and isinstance(arg, types.SetType):
            return self.unify(param.element, arg.element)
        if isinstance(param, types.StackType) and isinstance(arg, types.StackType):
            return self.unify(param.element, arg.element)
        if isinstance(param, types.RecordType) and isinstance(arg, types.TupleType):
            return self._literal(param, arg)
        if isinstance(param, types.PackageType | types.ExternType | types.RecordType):
            if isinstance(arg, types.DeclaredType) and arg.decl is param.decl:
                return self._all(param.args, arg.args)
            return True
        if isinstance(param, types.ApplicableType) and type(arg) is type(param):
            assert isinstance(arg, types.ApplicableType)
            if arg.decl is param.decl and param.args:
                return self._all(param.args, arg.args)
            return all(self.unify(p.type, a.type) for p, a in zip(param.params, arg.params, strict=False))
        return True

    def _all(self, params: tuple[Type, ...], args: tuple[Type, ...]) -> bool:
        return all(self.unify(p, a) for p, a in zip(params, args, strict=False))

    def _literal(self, param: types.RecordType, arg: types.TupleType) -> bool:
        if isinstance(arg, types.StructLiteralType):
            for name, element in zip(arg.names, arg.elements, strict=True):
                field = param.field(name)
                if field is not None and not self.unify(field.type, element):
                    return False
            return True
        return all(self.unify(f.type, e) for f, e in zip(param.fields, arg.elements, strict=False))

    def _bind(self, var: TypeVar, arg: Type) -> bool:
        known = self.get(var)
        if known is None or isinstance(known, types.DontCareType | types.UnknownType):
            if known is None or not isinstance(arg, types.DontCareType):
                self[var] = arg
            return True
        if known == arg or isinstance(arg, types.DontCareType | types.UnknownType):
            return True
        if isinstance(arg, types.InfIntType) and isinstance(known, types.BitType):
            return True
        if isinstance(known, types.InfIntType) and isinstance(arg, types.BitType):
            self[var] = arg
            return True
        if isinstance(known, types.TupleType) and isinstance(arg, types.RecordType):
            self[var] = arg
            return True
        if isinstance(arg, types.TupleType) and isinstance(known, types.RecordType | types.TupleType):
            return True
        if isinstance(known, types.SerEnumType) and known.underlying == arg:
            self[var] = arg
            return True
        return isinstance(arg, types.SerEnumType) and arg.underlying == known
