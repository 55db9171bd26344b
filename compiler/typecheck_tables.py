"""Checking of tables and select expressions: keys, keysets, actions, entries, properties."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import tree, types
from compiler import typecheck_rules as rules
from compiler.scope import did_you_mean
from compiler.typecheck_base import bits_of, plural
from compiler.typecheck_calls import match_arguments
from compiler.typecheck_statements import StatementChecker
from compiler.types import FunctionType, Type, UnknownType


class TableChecker(StatementChecker):
    """Tables and keysets."""

    def annotations(self, annotations: Sequence[tree.Annotation]) -> None:
        """Expressions in structured annotations (see typecheck)."""
        raise NotImplementedError

    # ------------------------------------------------------------- keysets

    def keysets(self, keys: list[tree.Expr], wanted: Sequence[Type], what: str) -> list[tree.Expr]:
        """The keyset as written, checked: one component per type in `wanted` (a value set may stand for all)."""
        whole = keys[0]
        parts: list[tree.Expr]
        if isinstance(whole, tree.TupleKeyset) or (
            isinstance(whole, tree.ListExpr)
            and (len(wanted) != 1 or not isinstance(wanted[0], types.StructType))
        ):
            parts = whole.elements
        elif isinstance(whole, tree.DefaultExpr):
            if not wanted:
                return []
            parts = [whole, *(tree.DefaultExpr(whole.pos) for _ in wanted[1:])]
        else:
            parts = [whole]
            if len(wanted) > 1 and isinstance(whole, tree.Name):
                checked = self.expr(whole)
                if isinstance(checked.type, types.SetType | UnknownType):
                    self._value_set_type(checked, types.TupleType(tuple(wanted)), what)
                    return [checked]
        if len(parts) != len(wanted):
            self.error(whole.pos, f"{what}: {plural(len(wanted), 'value')} expected, {len(parts)} given")
            return parts
        return [self.keyset(p, t, what) for p, t in zip(parts, wanted, strict=True)]

    def keyset(self, key: tree.Expr, wanted: Type, what: str) -> tree.Expr:
        """One component of a keyset, for a key of type `wanted`."""
        key = self.expr(key)
        if isinstance(key, tree.Dots):
            self.error(key.pos, f"{what} cannot be ...; _ matches anything")
            return key
        if isinstance(key, tree.DefaultExpr):
            key.type = wanted
            return key
        if isinstance(key.type, UnknownType) or isinstance(wanted, UnknownType):
            return key
        if isinstance(key, tree.MaskExpr):
            key.left, key.mask = (
                self._component(key.left, wanted, what),
                self._component(key.mask, wanted, what),
            )
            key.type = types.SetType(wanted)
            self._must_be_constant(key.left)
            self._must_be_constant(key.mask)
            return key
        if isinstance(key, tree.RangeExpr):
            key.low, key.high = (
                self._component(key.low, wanted, what),
                self._component(key.high, wanted, what),
            )
            key.type = types.SetType(wanted)
            self._must_be_constant(key.low)
            self._must_be_constant(key.high)
            low, high = key.low.value, key.high.value
            if isinstance(low, int) and isinstance(high, int) and low > high:
                self.warn(key.pos, f"{low} .. {high} holds no value")
            return key
        if isinstance(key, tree.Call) and key.kind in ("function", "extern_function"):
            self.error(key.pos, f"{what} must be a constant, not a call")
            return key
        if isinstance(key.type, types.SetType):
            self._value_set_type(key, wanted, what)
            return key
        return self._component(key, wanted, what)

    def _component(self, expr: tree.Expr, wanted: Type, what: str) -> tree.Expr:
        base = bits_of(wanted)
        if (
            base is not None
            and base is not wanted
            and isinstance(expr.type, types.BitType | types.InfIntType)
        ):
            if isinstance(wanted, types.SerEnumType):
                return self.convert(expr, base, what)
            if isinstance(expr.type, types.InfIntType):
                return self.convert(expr, base, what)
        return self.convert(expr, wanted, what)

    def _value_set_type(self, key: tree.Expr, wanted: Type, what: str) -> None:
        if not isinstance(key.type, types.SetType):
            return
        element = key.type.element
        if element == wanted:
            return
        if _leaves(element) == _leaves(wanted):
            return
        self.error(key.pos, f"{what} is of type {wanted}; the value set holds {element}")

    # ------------------------------------------------------------- tables

    def table(self, decl: tree.TableDecl) -> None:
        """A table; its name is visible behind it."""
        decl.type = types.TableType(decl.name, decl)
        for key in decl.keys:
            self.annotations(key.annotations)
            self._key(key)
        for ref in decl.actions:
            self.annotations(ref.annotations)
        for entry in decl.entries:
            self.annotations(entry.annotations)
        for prop in decl.properties:
            self.annotations(prop.annotations)
        self._actions(decl)
        for prop in decl.properties:
            if prop.name == "default_action" and decl.actions and prop.pos < decl.actions[0].pos:
                self.error(
                    prop.pos, f"the default action of the table {decl.name} comes after its list of actions"
                )
            if prop.name == "default_action" and decl.has_actions:
                self._default_action(decl, prop)
            else:
                self._property(decl, prop)
        if decl.default_action is None:
            found = self.scope.outermost.lookup("NoAction")
            if found and isinstance(found[0], tree.ActionDecl) and decl.property("default_action") is None:
                decl.default_action = tree.ActionRef(decl.pos, (), "NoAction", True, None)
                decl.default_action.action = found[0]
        self._entries(decl)
        self.declare(decl)

    def _key(self, key: tree.KeyElement) -> None:
        key.expr = self.expr(key.expr)
        if key.match_kind not in self.match_kinds:
            hint = did_you_mean(key.match_kind, list(self.match_kinds))
            known = ", ".join(self.match_kinds)
            self.error(
                key.pos, f"there is no match kind '{key.match_kind}'{hint or f' (there are: {known})'}"
            )
        type_ = key.expr.type
        if isinstance(type_, UnknownType):
            return
        base = types.underlying(type_)
        if isinstance(base, types.InfIntType):
            self.error(key.expr.pos, "a key needs a type with a width: cast the number, as in (bit<8>) 5")
        elif not isinstance(
            base, types.BitType | types.BoolType | types.EnumType | types.ErrorType | types.VarbitType
        ):
            self.error(key.expr.pos, f"a value of type {type_} cannot be a key")

    def _find_action(self, ref: tree.ActionRef) -> tree.ActionDecl | None:
        scope = self.scope.outermost if ref.absolute else self.scope
        found = scope.lookup(ref.name)
        if not found:
            names = [n for n in scope.all_names() if isinstance(scope.lookup(n)[0], tree.ActionDecl)]
            hint = did_you_mean(ref.name, names) or self.unknown(ref.name, scope)
            self.error(ref.pos, f"the action '{ref.name}' is not declared{hint}")
            return None
        if not isinstance(found[0], tree.ActionDecl):
            self.error(ref.pos, f"'{ref.name}' is not an action")
            return None
        ref.action = found[0]
        return found[0]

    def _actions(self, decl: tree.TableDecl) -> None:
        seen: set[str] = set()
        for ref in decl.actions:
            if ref.name in seen:
                self.error(ref.pos, f"the action '{ref.name}' is listed twice")
                continue
            seen.add(ref.name)
            action = self._find_action(ref)
            if action is None:
                continue
            assert isinstance(action.type, FunctionType)
            directional = [p for p in action.type.params if p.direction]
            args = ref.args or ()
            for arg in args:
                arg.expr = self.expr(arg.expr)
            pairs = match_arguments(directional, args)
            if isinstance(pairs, str):
                names = ", ".join(f"'{p.name}'" for p in directional)
                hint = f": its parameters with a direction ({names}) are given here" if directional else ""
                self.error(ref.pos, f"the action {ref.name}: {pairs}{hint}")
                continue
            if any(a is not None and isinstance(a.expr.type, UnknownType) for _, a in pairs):
                continue
            ref.bound = [self.bind_argument(p, a, f"the action {ref.name}") for p, a in pairs]
        if not decl.has_actions:
            self.error(decl.pos, f"the table {decl.name} has no list of actions: actions = {{ … }}")

    def _default_action(self, decl: tree.TableDecl, prop: tree.Property) -> None:
        expr = prop.expr
        args: Sequence[tree.Argument] | None = None
        if isinstance(expr, tree.Call):
            args = expr.args
            expr = expr.callee
        if not isinstance(expr, tree.Name):
            self.error(prop.pos, "default_action must be an action: name or name(arguments)")
            return
        ref = tree.ActionRef(expr.pos, prop.annotations, expr.name, expr.absolute, args)
        decl.default_action_const = prop.const
        if self._bind_action(decl, ref, "the default action"):
            expr.decl = ref.action
            assert ref.action is not None
            expr.type = ref.action.type
            decl.default_action = ref

    def _bind_action(self, decl: tree.TableDecl, ref: tree.ActionRef, what: str) -> bool:
        """Resolves an action of a default action or an entry and binds all of its parameters."""
        action = self._find_action(ref)
        if action is None:
            return False
        listed = next((r for r in decl.actions if r.action is action), None)
        if listed is None:
            hint = did_you_mean(ref.name, [r.name for r in decl.actions])
            self.error(ref.pos, f"{what} '{ref.name}' is not in the table's list of actions{hint}")
            return False
        if any(a.name == "tableonly" for a in listed.annotations) and what == "the default action":
            self.error(
                ref.pos, f"the action '{ref.name}' is marked @tableonly, so it cannot be the default action"
            )
            return False
        if any(a.name == "defaultonly" for a in listed.annotations) and what != "the default action":
            self.error(
                ref.pos, f"the action '{ref.name}' is marked @defaultonly, so it cannot be in an entry"
            )
            return False
        assert isinstance(action.type, FunctionType)
        params = action.type.params
        args = ref.args or ()
        for arg in args:
            arg.expr = self.expr(arg.expr)
        plain = [p for p in params if not p.direction]
        short = len(args) == len(plain) < len(params) and all(a.name is None for a in args)
        pairs = match_arguments(plain if short else params, args)
        if isinstance(pairs, str):
            self.error(ref.pos, f"{what} {ref.name}: {pairs}")
            return False
        if any(a is not None and isinstance(a.expr.type, UnknownType) for _, a in pairs):
            return False
        already = {b.param.name: b for b in listed.bound}
        given = {p.name: a for p, a in pairs}
        for param in params:
            if param.direction and param.name in already:
                repeated, bound = given.get(param.name), already[param.name]
                if repeated is not None:
                    again = self.bind_argument(param, repeated, f"{what} {ref.name}")
                    if not rules.same_expression(again.expr, bound.expr):
                        self.error(
                            repeated.pos,
                            f"{what} {ref.name}: the argument for '{param.name}' differs from the one in 'actions'",
                        )
                ref.bound.append(bound)
                continue
            bound = self.bind_argument(param, given.get(param.name), f"{what} {ref.name}")
            if not param.direction and bound.expr is not None and not self.is_constant(bound.expr):
                self.error(
                    bound.expr.pos, f"{what} {ref.name}: the argument for '{param.name}' must be a constant"
                )
            ref.bound.append(bound)
        return True

    def _property(self, decl: tree.TableDecl, prop: tree.Property) -> None:
        prop.expr = self.expr(prop.expr)
        if prop.name == "largest_priority_wins" and not isinstance(prop.expr.value, bool):
            self.error(prop.pos, "largest_priority_wins must be true or false")
        elif prop.name == "priority_delta" and not (isinstance(prop.expr.value, int) and prop.expr.value > 0):
            self.error(prop.pos, "priority_delta must be a number of at least 1")
        if prop.name == "size":
            value = prop.expr.value
            if isinstance(prop.expr.type, UnknownType):
                return
            if not isinstance(prop.expr.type, types.BitType | types.InfIntType):
                self.error(prop.pos, f"the size of a table must be a number, not {prop.expr.type}")
            elif value is None and not self.is_constant(prop.expr):
                self.error(prop.pos, "the size of a table must be known at compile time")
            elif isinstance(value, int) and value < 0:
                self.error(prop.pos, f"the size of a table cannot be {value}")

    def _entries(self, decl: tree.TableDecl) -> None:
        wanted = [k.expr.type for k in decl.keys]
        if decl.entries and not decl.keys:
            self.error(decl.entries[0].pos, f"the table {decl.name} has no key, so it cannot have entries")
            return
        for entry in decl.entries:
            entry.keys = self.keysets(entry.keys, wanted, "the key of the entry")
            for key, element in zip(entry.keys, decl.keys, strict=False):
                self._fits_match_kind(key, element.match_kind)
                written = key.expr if isinstance(key, tree.Cast) and key.implicit else key
                if element.match_kind == "lpm" and isinstance(written, tree.Binary) and written.op == "/":
                    self.warn(written.pos, "/ divides; a prefix is written value &&& mask")
                if element.match_kind == "lpm" and isinstance(key, tree.MaskExpr):
                    bits = bits_of(element.expr.type)
                    if (
                        bits
                        and isinstance(key.mask.value, int)
                        and not rules.prefix_mask(key.mask.value, bits.width)
                    ):
                        self.error(key.mask.pos, "the mask of an lpm key must be ones, then zeros")
            if entry.priority is not None:
                entry.priority = self.expr(entry.priority)
                if not isinstance(entry.priority.value, int) and not isinstance(
                    entry.priority.type, UnknownType
                ):
                    self.error(entry.priority.pos, "a priority must be a number known at compile time")
            self._bind_action(decl, entry.action, "the action of the entry")
        for pos, message in rules.entries(decl):
            self.error(pos, message)

    def _fits_match_kind(self, key: tree.Expr, match_kind: str) -> None:
        if isinstance(key, tree.DefaultExpr):
            if match_kind == "exact":
                self.error(key.pos, "an exact key needs a value; _ and default match anything")
        elif isinstance(key, tree.MaskExpr):
            if match_kind in ("exact", "range", "optional"):
                self.error(key.pos, f"&&& is for ternary and lpm keys, not for {match_kind}")
            self._must_be_constant(key.left)
            self._must_be_constant(key.mask)
        elif isinstance(key, tree.RangeExpr):
            if match_kind != "range":
                self.error(key.pos, f".. is for range keys, not for {match_kind}")
            self._must_be_constant(key.low)
            self._must_be_constant(key.high)
        else:
            self._must_be_constant(key)

    def _must_be_constant(self, expr: tree.Expr) -> None:
        if not self.is_constant(expr):
            self.error(expr.pos, "a keyset must be known at compile time")


def _leaves(type_: Type) -> list[Type]:
    """The scalar types of a value, in order."""
    if isinstance(type_, types.TupleType):
        return [leaf for e in type_.elements for leaf in _leaves(e)]
    if isinstance(type_, types.StructType):
        return [leaf for f in type_.fields for leaf in _leaves(f.type)]
    return [type_]
