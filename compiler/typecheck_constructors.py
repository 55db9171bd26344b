"""Checking of constructor calls: externs, parsers, controls and packages."""

from __future__ import annotations

from compiler import tree, types
from compiler.infer import Binding
from compiler.typecheck_calls import CallChecker, deprecation, match_arguments, param_type
from compiler.types import FunctionType, ParamType, Type, TypeVar, UnknownType


class ConstructorChecker(CallChecker):
    """`T<…>(arguments)`."""

    def _constructor(self, call: tree.Call, callee: tree.TypeExpr) -> None:
        of = self._constructed_type(call, callee)
        if isinstance(of, UnknownType):
            return
        element = of
        while isinstance(element, types.StackType):
            element = element.element
        call.kind = "constructor"
        if not isinstance(
            element, types.ExternType | types.ControlType | types.ParserType | types.PackageType
        ):
            self.error(call.pos, f"{element} has no constructor (a cast is written ({element}) value)")
            return
        decl = call.target = element.decl
        call.method = element.name
        if isinstance(decl, tree.ControlTypeDecl | tree.ParserTypeDecl):
            self.error(call.pos, f"{element.name} is only a type; there is nothing to make an instance of")
            return
        variables: tuple[TypeVar, ...] = ()
        specialised = not any(isinstance(a, TypeVar) and a.decl in decl.type_params for a in element.args)
        if not specialised:
            variables = tuple(a for a in element.args if isinstance(a, TypeVar))
        params = self._constructor_params(call, element)
        if params is None:
            return
        what = f"the constructor of {element.name}"
        pairs = match_arguments(params, call.args)
        if isinstance(pairs, str):
            self.error(call.pos, f"{what}: {pairs}")
            return
        binding = Binding(variables)
        if not self.infer(call, pairs, binding, what):
            return
        for var in binding.missing():
            if isinstance(element, types.PackageType) and not self.only_left_out(var, pairs):
                self.error(call.pos, f"{what}: the type {var.name} cannot be found out from the arguments")
                return
            if isinstance(element, types.ExternType):
                wanted = ", ".join(p.name for p in decl.type_params)
                self.error(call.pos, f"{element.name} needs its type arguments: {element.name}<{wanted}>(…)")
                return
            binding[var] = types.DONT_CARE
        call.type_arguments.update(binding)
        if specialised:
            for param, arg in zip(decl.type_params, element.args, strict=False):
                assert isinstance(param.type, TypeVar)
                call.type_arguments[param.type] = arg
        if not self.bind_all(call, pairs, binding, what):
            return
        for bound in call.bound:
            if bound.expr is not None and not self.is_constant(bound.expr):
                self.error(
                    bound.expr.pos,
                    f"{what}: the argument for '{bound.param.name}' must be known at compile time",
                )
                return
        call.type = types.substitute(of, binding)

    def _constructed_type(self, call: tree.Call, callee: tree.TypeExpr) -> Type:
        """The type to make an instance of; among parsers, controls and packages of one name, the one that takes the
        arguments."""
        ref = callee.ref
        if isinstance(ref, tree.NamedTypeRef):
            scope = self.scope.outermost if ref.absolute else self.scope
            found = scope.lookup(ref.name)
            if len(found) > 1:
                fitting = [d for d in found if self._takes(d, call)]
                for decl in fitting[:1]:
                    ref.decl, ref.type = decl, decl.type
                    if ref.args is not None:
                        args = [self.resolve(a) for a in ref.args]
                        variables = self.type_params_of(decl)
                        ref.type = types.substitute(decl.type, dict(zip(variables, args, strict=False)))
                    callee.type = types.TypeType(ref.type)
                    return ref.type
        self.expr(callee)
        return callee.type.of if isinstance(callee.type, types.TypeType) else types.UNKNOWN

    def _takes(self, decl: tree.Decl, call: tree.Call) -> bool:
        if isinstance(decl.type, types.PackageType):
            params = decl.type.params
        elif isinstance(decl, tree.ControlDecl | tree.ParserDecl):
            params = tuple(map(param_type, decl.constructor_params))
        else:
            return False
        ref = call.callee.ref if isinstance(call.callee, tree.TypeExpr) else None
        wanted = len(ref.args) if isinstance(ref, tree.NamedTypeRef) and ref.args is not None else None
        if wanted is not None and wanted != len(self.type_params_of(decl)):
            return False
        return not isinstance(match_arguments(params, call.args), str)

    def _constructor_params(
        self, call: tree.Call, element: types.DeclaredType
    ) -> tuple[ParamType, ...] | None:
        decl = element.decl
        if isinstance(element, types.PackageType):
            return element.params
        if isinstance(element, types.ExternType):
            constructors = [m for m in decl.methods if m.result is None]
            if not constructors:
                if not call.args:
                    self.error(
                        call.pos,
                        f"the extern {element.name} has no constructor, so there can be no instance of it",
                    )
                else:
                    self.error(call.pos, f"the extern {element.name} has no constructor")
                return None
            chosen = self.choose(call, constructors, f"the constructor of {element.name}")
            if chosen is None:
                return None
            assert isinstance(chosen, tree.ExternMethod) and isinstance(chosen.type, FunctionType)
            call.constructor = chosen
            if decl.annotation("deprecated") is not None:
                self.warn(call.pos, deprecation(element.name, decl))
            params = chosen.type.params
        else:
            params = tuple(map(param_type, decl.constructor_params))
        outer = {p.type: a for p, a in zip(decl.type_params, element.args, strict=False)}
        return tuple(types.substitute_param(p, outer) for p in params)
