"""Checking of calls: which declaration is meant, what its type variables are, which argument is for which parameter."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import tree, types
from compiler import typecheck_rules as rules
from compiler.infer import Binding
from compiler.scope import did_you_mean
from compiler.typecheck_base import plural
from compiler.typecheck_expressions import ExpressionChecker
from compiler.types import FunctionType, ParamType, Type, TypeVar, UnknownType

SIZE_METHODS = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")

Pairs = list[tuple[ParamType, tree.Argument | None]]


def match_arguments(params: Sequence[ParamType], args: Sequence[tree.Argument]) -> Pairs | str:
    """Each parameter with its argument (None: left out, which its default or @optional allows), or what is wrong."""
    named = [a for a in args if a.name is not None]
    if named and len(named) != len(args):
        return "either all arguments have names or none"
    pairs: Pairs = []
    if named:
        by_name: dict[str, tree.Argument] = {}
        for arg in named:
            assert arg.name is not None
            if arg.name in by_name:
                return f"the argument '{arg.name}' is given twice"
            by_name[arg.name] = arg
        known = {p.name for p in params}
        for name in by_name:
            if name not in known:
                return f"there is no parameter '{name}'{did_you_mean(name, list(known))}"
        pairs = [(p, by_name.get(p.name)) for p in params]
    else:
        if len(args) > len(params):
            return f"it takes {plural(len(params), 'argument')}, {len(args)} given"
        pairs = [(p, args[i] if i < len(args) else None) for i, p in enumerate(params)]
    missing = [p.name for p, a in pairs if a is None and p.default is None and not p.optional]
    if missing:
        if named:
            return f"the argument '{missing[0]}' is missing"
        return f"it takes {plural(len(params), 'argument')}, {len(args)} given ('{missing[0]}' is missing)"
    return pairs


class CallChecker(ExpressionChecker):
    """Calls of functions, methods, actions, tables, parsers, controls and constructors."""

    def _call(self, call: tree.Call) -> tree.Expr:
        for arg in call.args:
            arg.expr = self.expr(arg.expr)
        callee = call.callee
        if isinstance(callee, tree.TypeExpr):
            self._constructor(call, callee)
        elif isinstance(callee, tree.Name):
            self._named_call(call, callee)
        elif isinstance(callee, tree.Member):
            self._method_call(call, callee)
        else:
            self.expr(callee)
            self.error(call.pos, "this cannot be called")
        return call

    # ------------------------------------------------------------- functions and actions

    def _named_call(self, call: tree.Call, callee: tree.Name) -> None:
        scope = self.scope.outermost if callee.absolute else self.scope
        found = scope.lookup(callee.name)
        if not found:
            hint = self.unknown(callee.name, scope)
            if callee.name == self.body.name:
                hint = f" here: a {self.body.kind} cannot call itself"
            self.error(callee.pos, f"'{callee.name}' is not declared{hint}")
            return
        decl = found[0]
        call.method = callee.name
        if isinstance(decl, tree.ActionDecl):
            callee.decl, callee.type = decl, decl.type
            call.kind, call.target = "action", decl
            if self.body.kind in ("parser", "function"):
                self.error(call.pos, f"the action '{callee.name}' cannot be called in a {self.body.kind}")
                return
            assert isinstance(decl.type, FunctionType)
            self._apply_arguments(call, decl.type, decl.type.params, f"the action {callee.name}")
            return
        if not isinstance(decl, tree.FunctionDecl | tree.ExternFunction):
            self.expr(callee)
            if isinstance(callee.type, types.TableType):
                self.error(call.pos, f"a table is called with apply: {callee.name}.apply()")
            elif isinstance(callee.type, types.ControlType | types.ParserType):
                self.error(call.pos, f"'{callee.name}' is called with apply: {callee.name}.apply(…)")
            elif not isinstance(callee.type, UnknownType):
                self.error(call.pos, f"'{callee.name}' is a {callee.type}, which cannot be called")
            return
        candidates = [d for d in found if isinstance(d, tree.FunctionDecl | tree.ExternFunction)]
        chosen = self.choose(call, candidates, f"the function {callee.name}")
        if chosen is None:
            return
        callee.decl, callee.type = chosen, chosen.type
        call.kind = "function" if isinstance(chosen, tree.FunctionDecl) else "extern_function"
        call.target = chosen
        if call.kind == "function" and self.body.kind == "action" and isinstance(chosen, tree.FunctionDecl):
            pass  # functions may be called anywhere
        if chosen.annotation("deprecated") is not None:
            self.warn(call.pos, deprecation(callee.name, chosen))
        assert isinstance(chosen.type, FunctionType)
        self._apply_function(call, chosen.type, {}, f"the function {callee.name}")
        if callee.name == "verify" and isinstance(chosen, tree.ExternFunction) and self.body.kind != "parser":
            self.error(call.pos, "verify can only be called in a parser")
        if callee.name == "static_assert" and call.bound and not isinstance(call.type, UnknownType):
            self._static_assert(call)

    def _static_assert(self, call: tree.Call) -> None:
        check = call.bound[0].expr
        if check is None or isinstance(check.type, UnknownType):
            return
        if check.value is None:
            if not self.is_constant(check):
                self.error(check.pos, "static_assert needs a condition that is known at compile time")
        elif check.value is False:
            message = call.bound[1].expr.value if len(call.bound) > 1 and call.bound[1].expr else None
            self.error(call.pos, f"static_assert failed{': ' + message if message else ''}")
        else:
            call.value = True

    def choose(self, call: tree.Call, candidates: Sequence[tree.Decl], what: str) -> tree.Decl | None:
        """The overload whose parameters can take the arguments by number and name; types decide among equals."""
        if len(candidates) == 1:
            return candidates[0]
        fitting = []
        for decl in candidates:
            kind: Type = decl.type
            if not isinstance(kind, FunctionType):
                continue
            if call.type_args is not None and len(call.type_args) != len(kind.type_params):
                continue
            if not isinstance(match_arguments(kind.params, call.args), str):
                fitting.append(decl)
        if len(fitting) > 1:
            exact = [d for d in fitting if _arity(d) == len(call.args)]
            fitting = exact or fitting
        if len(fitting) > 1:
            typed = [d for d in fitting if self._accepts(d, call)]
            fitting = typed or fitting
        if not fitting:
            self.error(
                call.pos, f"{what} has no form that takes {plural(len(call.args), 'argument')} like these"
            )
            return None
        if len(fitting) > 1:
            self.error(call.pos, f"{what} has several forms that take these arguments")
            return None
        return fitting[0]

    def _accepts(self, decl: tree.Decl, call: tree.Call) -> bool:
        kind: Type = decl.type
        assert isinstance(kind, FunctionType)
        pairs = match_arguments(kind.params, call.args)
        if isinstance(pairs, str):
            return False
        binding = Binding(kind.type_params)
        for param, arg in pairs:
            if arg is None:
                continue
            if not binding.unify(param.type, arg.expr.type):
                return False
            want, have = types.substitute(param.type, binding), arg.expr.type
            if isinstance(want, types.BitType) and isinstance(have, types.InfIntType):
                continue
            if want != have and not isinstance(have, types.TupleType | types.DontCareType | TypeVar):
                return False
        return True

    def _apply_function(
        self, call: tree.Call, kind: FunctionType, outer: dict[TypeVar, Type], what: str
    ) -> None:
        """Type arguments, arguments and result of a call of `kind`; `outer` binds the receiver's type variables."""
        binding = Binding(kind.type_params)
        if call.type_args is not None:
            given = [self.resolve(a) for a in call.type_args]
            if len(given) != len(kind.type_params):
                self.error(
                    call.pos,
                    f"{what} takes {plural(len(kind.type_params), 'type argument')}, {len(given)} given",
                )
                return
            for var, type_ in zip(kind.type_params, given, strict=True):
                if not isinstance(type_, types.DontCareType):
                    binding[var] = type_
        params = tuple(types.substitute_param(p, outer) for p in kind.params)
        pairs = match_arguments(params, call.args)
        if isinstance(pairs, str):
            self.error(call.pos, f"{what}: {pairs}")
            return
        if not self.infer(call, pairs, binding, what):
            return
        result = types.substitute(types.substitute(kind.result, outer), binding)
        missing = binding.missing()
        if missing:
            names = ", ".join(v.name for v in missing)
            if _mentions(result, missing) or not all(self.only_left_out(v, pairs) for v in missing):
                self.error(
                    call.pos,
                    f"{what}: the type {names} cannot be found out from the arguments; give it in <…>",
                )
                return
            for var in missing:
                binding[var] = types.DONT_CARE
        call.type_arguments.update(outer)
        call.type_arguments.update(binding)
        for param, arg in pairs:
            if arg is None or isinstance(arg.expr, tree.DontCare) or not isinstance(param.type, TypeVar):
                continue
            inferred = types.substitute(param.type, binding)
            if param.direction and rules.without_width(inferred):
                literal = rules.literal_without_width(arg.expr)
                self.error(
                    literal.pos, f"{what}: the width of this number is not known; write it, as in 16w5"
                )
                return
            if isinstance(inferred, types.StructLiteralType):
                self.error(arg.expr.pos, f"{what}: name the struct's type in front of the value: (T) {{ … }}")
                return
        if self.bind_all(call, pairs, binding, what):
            call.type = result

    def only_left_out(self, var: TypeVar, pairs: Pairs) -> bool:
        return all(
            a is None or isinstance(a.expr, tree.DontCare) or not _mentions(p.type, [var]) for p, a in pairs
        )

    def infer(self, call: tree.Call, pairs: Pairs, binding: Binding, what: str) -> bool:
        for param, arg in pairs:
            if arg is None:
                if param.default is not None:
                    binding.unify(param.type, param.default.type)
                continue
            if isinstance(arg.expr.type, UnknownType):
                return False
            odd = isinstance(
                arg.expr.type, types.TableType | types.FunctionType | types.TypeType | types.VoidType
            ) or (isinstance(arg.expr.type, types.ApplicableType) and call.kind != "constructor")
            if isinstance(param.type, TypeVar) and odd:
                self.error(arg.expr.pos, f"{what}: a value of type {arg.expr.type} cannot be an argument")
                return False
            if not binding.unify(param.type, arg.expr.type):
                wanted = types.substitute(param.type, binding)
                self.error(
                    arg.expr.pos,
                    f"{what}: the argument for '{param.name}' must be {wanted}, not {arg.expr.type}",
                )
                return False
        return True

    def bind_all(self, call: tree.Call, pairs: Pairs, binding: dict[TypeVar, Type], what: str) -> bool:
        """Fills `call.bound`; False after an error."""
        before = len(self.diagnostics)
        for param, arg in pairs:
            bound = self.bind_argument(types.substitute_param(param, binding), arg, what)
            if isinstance(bound.param.type, types.StringType) and param.direction and bound.expr is not None:
                self.error(
                    bound.expr.pos, f"{what}: '{param.name}' cannot be a string: strings have no direction"
                )
            call.bound.append(bound)
        return len(self.diagnostics) == before

    def bind_argument(self, param: ParamType, arg: tree.Argument | None, what: str) -> tree.BoundArg:
        """One argument, converted to its parameter's type and checked for its direction."""
        if arg is None:
            return tree.BoundArg(param, param.default)
        expr = arg.expr
        name = f"{what}: the argument for '{param.name}'"
        if isinstance(expr, tree.DontCare):
            if param.direction not in ("out",) and not param.optional:
                self.error(expr.pos, f"{name} cannot be _ (only an out parameter's can)")
            expr.type = param.type
            return tree.BoundArg(param, expr)
        if param.direction in ("out", "inout"):
            if not self.is_lvalue(expr):
                if not isinstance(expr.type, UnknownType) and not isinstance(expr.type, types.ExternType):
                    self.error(expr.pos, f"{name} is changed by the call, but {self.not_lvalue(expr)}")
            elif expr.type != param.type and not isinstance(expr.type, UnknownType):
                self.error(expr.pos, f"{name} must be {param.type}, not {expr.type}")
        else:
            expr = self.convert(expr, param.type, name)
            arg.expr = expr
        return tree.BoundArg(param, expr)

    def _apply_arguments(self, call: tree.Call, kind: Type, params: tuple[ParamType, ...], what: str) -> None:
        """Arguments of something without type variables and without a result."""
        pairs = match_arguments(params, call.args)
        if isinstance(pairs, str):
            self.error(call.pos, f"{what}: {pairs}")
            return
        if call.type_args:
            self.error(call.pos, f"{what} takes no type arguments")
            return
        if any(isinstance(a.expr.type, UnknownType) for _, a in pairs if a is not None):
            return
        if self.bind_all(call, pairs, {}, what):
            call.type = types.VOID

    # ------------------------------------------------------------- methods

    def _method_call(self, call: tree.Call, callee: tree.Member) -> None:
        callee.kind = "method"
        call.method = name = callee.name
        callee.expr = self.expr(callee.expr)
        call.receiver = callee.expr
        base = callee.expr.type
        if isinstance(base, UnknownType):
            return
        callee.type = types.VOID
        direct = isinstance(base, types.TypeType)
        if isinstance(base, types.TypeType):
            base = base.of
        if isinstance(base, types.TableType) and name == "apply" and not direct:
            self._table_apply(call, base)
        elif isinstance(base, types.ControlType | types.ParserType) and name == "apply":
            self._apply_call(call, base, direct)
        elif isinstance(base, types.ExternType) and not direct:
            self._extern_method(call, base)
        elif name in SIZE_METHODS and not call.args:
            self._size_method(call, base)
        elif (
            isinstance(base, types.HeaderType)
            and name in ("isValid", "setValid", "setInvalid")
            and not direct
        ) or (isinstance(base, types.HeaderUnionType) and name == "isValid" and not direct):
            self._header_method(call, callee.expr)
        elif (
            isinstance(base, types.StackType) and base.is_header_stack and name in ("push_front", "pop_front")
        ):
            self._stack_method(call, callee.expr)
        else:
            self.error(call.pos, f"{base} has no method '{name}'{did_you_mean(name, _methods_of(base))}")

    def _no_arguments(self, call: tree.Call) -> bool:
        if call.args or call.type_args:
            self.error(call.pos, f"{call.method}() takes no arguments")
            return False
        return True

    def _header_method(self, call: tree.Call, header: tree.Expr) -> None:
        call.kind = "header_method"
        if not self._no_arguments(call):
            return
        if call.method == "isValid":
            call.type = types.BOOL
            return
        if not self.is_lvalue(header):
            self.error(call.pos, f"{call.method}() changes the header, but {self.not_lvalue(header)}")
            return
        call.type = types.VOID

    def _stack_method(self, call: tree.Call, stack: tree.Expr) -> None:
        call.kind = "stack_method"
        if len(call.args) != 1:
            self.error(call.pos, f"{call.method} takes one argument, the number of elements")
            return
        count = call.args[0].expr
        if isinstance(count.type, UnknownType):
            return
        if not isinstance(count.value, int) or count.value < 0 or isinstance(count.value, bool):
            self.error(count.pos, f"{call.method} needs a positive number known at compile time")
            return
        if not self.is_lvalue(stack):
            self.error(call.pos, f"{call.method}() changes the stack, but {self.not_lvalue(stack)}")
            return
        if self.body.kind == "parser":
            pass  # defined there, too
        param = ParamType(
            "count", "", types.INT, False, None, tree.Param(call.pos, (), "count", "", _INT_REF)
        )
        call.bound.append(tree.BoundArg(param, count))
        call.type = types.VOID

    def _size_method(self, call: tree.Call, base: Type) -> None:
        call.kind = "size_method"
        sizes = rules.size_range(base)
        if sizes is None:
            self.error(call.pos, f"{base} has no size in bits")
            return
        value = sizes[0] if call.method.startswith("min") else sizes[1]
        if call.method.endswith("Bytes"):
            value = (value + 7) // 8
        call.type, call.value = types.INT, value

    def _table_apply(self, call: tree.Call, base: types.TableType) -> None:
        call.kind, call.target = "table_apply", base.decl
        if self.body.kind != "control":
            where = {"action": "an action", "function": "a function", "parser": "a parser"}.get(
                self.body.kind, "here"
            )
            self.error(
                call.pos,
                f"a table cannot be applied in {where}"
                if where != "here"
                else "a table cannot be applied here",
            )
            return
        if self._no_arguments(call):
            call.type = types.ApplyResultType(base.name, base.decl)

    def _apply_call(self, call: tree.Call, base: types.ControlType | types.ParserType, direct: bool) -> None:
        kind = "control" if isinstance(base, types.ControlType) else "parser"
        call.kind, call.target = f"{kind}_apply", base.decl
        if self.body.kind != kind:
            self.error(call.pos, f"a {kind} can only be applied in a {kind}")
            return
        if direct:
            if isinstance(base.decl, tree.ControlTypeDecl | tree.ParserTypeDecl):
                self.error(call.pos, f"{base.name} is only a {kind}'s type; there is nothing to apply")
                return
            constructor = base.decl.constructor_params
            if any(p.default is None for p in constructor):
                self.error(
                    call.pos, f"{base.name} has constructor parameters: declare an instance of it first"
                )
                return
        self._apply_arguments(call, base, base.params, f"the {kind} {base.name}")

    def _extern_method(self, call: tree.Call, base: types.ExternType) -> None:
        decl: tree.ExternDecl = base.decl
        methods = [m for m in decl.methods if m.name == call.method and m.result is not None]
        if not methods:
            hint = did_you_mean(call.method, [m.name for m in decl.methods if m.result is not None])
            self.error(call.pos, f"the extern {base.name} has no method '{call.method}'{hint}")
            return
        method = self.choose(call, methods, f"{base.name}.{call.method}")
        if method is None:
            return
        assert isinstance(method, tree.ExternMethod) and isinstance(method.type, FunctionType)
        call.kind, call.target = "extern_method", method
        outer: dict[TypeVar, Type] = {}
        for param, arg in zip(decl.type_params, base.args, strict=False):
            assert isinstance(param.type, TypeVar)
            outer[param.type] = arg
        if method.annotation("deprecated") is not None:
            self.warn(call.pos, deprecation(call.method, method))
        self._apply_function(call, method.type, outer, f"{base.name}.{call.method}")
        if not isinstance(call.type, UnknownType):
            for pos, message in rules.core_method(call, base.name):
                self.error(pos, message)

    def _constructor(self, call: tree.Call, callee: tree.TypeExpr) -> None:
        raise NotImplementedError


def _arity(decl: tree.Decl) -> int:
    return len(decl.type.params) if isinstance(decl.type, FunctionType) else 0


_INT_REF = tree.BaseTypeRef(0, "int")


def param_type(param: tree.Param) -> ParamType:
    """A declared parameter as callers see it."""
    optional = any(a.name == "optional" for a in param.annotations)
    return ParamType(param.name, param.direction, param.type, optional, param.default, param)


def _mentions(type_: Type, variables: Sequence[TypeVar]) -> bool:
    if isinstance(type_, TypeVar):
        return type_ in variables
    return types.substitute(type_, {v: types.BOOL for v in variables}) != type_


def _methods_of(base: Type) -> list[str]:
    if isinstance(base, types.HeaderType):
        return ["isValid", "setValid", "setInvalid", *SIZE_METHODS]
    if isinstance(base, types.HeaderUnionType):
        return ["isValid"]
    if isinstance(base, types.StackType):
        return ["push_front", "pop_front"]
    if isinstance(base, types.TableType | types.ControlType | types.ParserType):
        return ["apply"]
    return list(SIZE_METHODS)


def deprecation(name: str, decl: tree.Decl) -> str:
    annotation = decl.annotation("deprecated")
    advice = " ".join(t.strip('"') for t in annotation.tokens) if annotation else ""
    return f"'{name}' is deprecated" + (f": {advice}" if advice else "")
