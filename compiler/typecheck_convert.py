"""Implicit conversion: making an expression fit the type it is used as; what can be assigned to or is constant."""

from __future__ import annotations

from typing import Any

from compiler import constants, tree, types
from compiler.scope import did_you_mean
from compiler.typecheck_base import bits_of
from compiler.typecheck_hints import bool_hint, source_text, width_hint
from compiler.typecheck_rules import is_literal
from compiler.typecheck_types import TypeResolver
from compiler.types import BitType, InfIntType, Type, UnknownType


class Converter(TypeResolver):
    """`convert`, and questions about checked expressions."""

    def convert(self, expr: tree.Expr, target: Type, what: str) -> tree.Expr:
        """`expr` as a value of type `target`: itself, or with implicit casts put in. Reports what does not fit."""
        source = expr.type
        if source is target or isinstance(source, UnknownType) or isinstance(target, UnknownType):
            return expr
        if isinstance(expr, tree.ListExpr):
            return self._convert_list(expr, target, what)
        if isinstance(expr, tree.StructExpr):
            return self._convert_struct(expr, target, what)
        if isinstance(source, types.DontCareType):
            return self._convert_placeholder(expr, target, what)
        if source == target or isinstance(target, types.DontCareType):
            return expr
        if isinstance(expr, tree.Ternary) and (is_literal(expr.yes) or is_literal(expr.no)):
            expr.yes = self.convert(expr.yes, target, what)
            expr.no = self.convert(expr.no, target, what)
            expr.type = target
            return expr
        if isinstance(source, InfIntType):
            base = bits_of(target)
            if base is not None and not isinstance(target, types.SerEnumType):
                return self._widen(expr, target)
            if base is not None:
                self.error(
                    expr.pos,
                    f"{what}: a number needs a cast to become {target}: ({target}){source_text(expr)}",
                )
                return expr
        if isinstance(source, types.SerEnumType) and source.underlying == target:
            return self._implicit(expr, target)
        if isinstance(source, BitType) and isinstance(target, InfIntType):
            return self._implicit(expr, target)
        if types.agrees(source, target):
            return expr
        if isinstance(source, types.SetType) and isinstance(target, types.SetType):
            return expr
        self.error(
            expr.pos,
            f"{what} must be {target}, not {source}{width_hint(source, target)}{bool_hint(source, target)}",
        )
        return expr

    def _implicit(self, expr: tree.Expr, target: Type) -> tree.Cast:
        cast = tree.Cast(expr.pos, None, expr, True)
        cast.type = target
        cast.value = constants.convert(target, expr.value)
        return cast

    def _widen(self, expr: tree.Expr, target: Type) -> tree.Expr:
        cast = self._implicit(expr, target)
        if isinstance(expr, tree.Call) and expr.value is None and not self.is_constant(expr):
            self.error(expr.pos, "a number without a width must be known at compile time")
        if isinstance(expr.value, int) and cast.value != expr.value:
            base = bits_of(target)
            assert base is not None
            low, _ = constants.limits(base)
            if not (expr.value < 0 <= low and -expr.value <= 1 << max(0, base.width - 1)):
                self.warn(expr.pos, f"{expr.value} does not fit in {target}; it becomes {cast.value}")
        return cast

    def _convert_placeholder(self, expr: tree.Expr, target: Type, what: str) -> tree.Expr:
        if isinstance(expr, tree.InvalidHeader) and not isinstance(
            target, types.HeaderType | types.HeaderUnionType
        ):
            self.error(
                expr.pos, f"{what}: {{#}} is an invalid header; {target} is not a header or a header union"
            )
            return expr
        expr.type = target
        if isinstance(expr, tree.Dots):
            expr.value = constants.default_value(target)
        return expr

    def _convert_list(self, expr: tree.ListExpr, target: Type, what: str) -> tree.Expr:
        count = len(expr.elements)
        parts: list[tuple[str, Type]]
        if isinstance(target, types.StructType | types.HeaderType):
            parts = [(f.name, f.type) for f in target.fields]
        elif isinstance(target, types.TupleType):
            parts = [(str(i), t) for i, t in enumerate(target.elements)]
        elif isinstance(target, types.StackType):
            parts = [(str(i), target.element) for i in range(target.size)]
            if count < target.size and not expr.dots and target.is_header_stack:
                expr.dots = expr.dots or False
        elif isinstance(target, types.ListType):
            parts = [(str(i), target.element) for i in range(count)]
        elif isinstance(target, types.DontCareType | types.TypeVar):
            return expr
        else:
            self.error(expr.pos, f"{what} must be {target}, not a list")
            return expr
        if count > len(parts) or (count < len(parts) and not expr.dots):
            kind = "fields" if isinstance(target, types.RecordType) else "elements"
            self.error(expr.pos, f"{what}: {target} has {len(parts)} {kind}, the list has {count}")
            return expr
        for i, element in enumerate(expr.elements):
            name, type_ = parts[i]
            part = f"field {name}" if isinstance(target, types.RecordType) else f"element {i}"
            expr.elements[i] = self.convert(element, type_, f"{part} of {target}")
        expr.type = target
        values = [e.value for e in expr.elements]
        values += [constants.default_value(t) for _, t in parts[count:]]
        expr.value = None if any(v is None for v in values) else tuple(values)
        return expr

    def _convert_struct(self, expr: tree.StructExpr, target: Type, what: str) -> tree.Expr:
        if isinstance(target, types.DontCareType | types.TypeVar | types.StructLiteralType):
            return expr
        if not isinstance(target, types.RecordType):
            self.error(expr.pos, f"{what} must be {target}, not a struct")
            return expr
        given: dict[str, Any] = {}
        for item in expr.fields:
            field = target.field(item.name)
            if field is None:
                hint = did_you_mean(item.name, [f.name for f in target.fields])
                self.error(item.pos, f"{target} has no field '{item.name}'{hint}")
                return expr
            item.expr = self.convert(item.expr, field.type, f"field {item.name} of {target}")
            given[item.name] = item.expr.value
        missing = [f.name for f in target.fields if f.name not in given]
        if missing and not expr.dots and not isinstance(target, types.HeaderUnionType):
            self.error(
                expr.pos, f"{what}: the field {', '.join(missing)} of {target} is missing (or end with ...)"
            )
            return expr
        expr.type = target
        values = tuple(
            given[f.name] if f.name in given else constants.default_value(f.type) for f in target.fields
        )
        expr.value = None if any(v is None for v in values) else values
        return expr

    # ------------------------------------------------------------- questions

    def is_lvalue(self, expr: tree.Expr) -> bool:
        """Whether a value can be stored in `expr`."""
        if isinstance(expr, tree.Name):
            decl = expr.decl
            if isinstance(decl, tree.Param):
                return decl.direction in ("out", "inout")
            return isinstance(decl, tree.VarDecl)
        if isinstance(expr, tree.Member):
            if expr.kind in ("next", "last"):
                return self.is_lvalue(expr.expr)
            return expr.kind == "field" and self.is_lvalue(expr.expr)
        if isinstance(expr, tree.Index | tree.Slice | tree.PlusSlice):
            return self.is_lvalue(expr.expr)
        return False

    def not_lvalue(self, expr: tree.Expr) -> str:
        """Why a value cannot be stored in `expr`."""
        root = expr
        while isinstance(root, tree.Member | tree.Index | tree.Slice | tree.PlusSlice):
            root = root.expr
        if isinstance(root, tree.Name):
            if isinstance(root.decl, tree.Param):
                direction = f"an '{root.decl.direction}'" if root.decl.direction else "a directionless"
                return f"'{root.name}' is {direction} parameter, which cannot be changed (inout or out can)"
            if isinstance(root.decl, tree.ConstDecl):
                return f"'{root.name}' is a constant"
        if isinstance(expr, tree.Member) and expr.kind == "lastIndex":
            return "lastIndex cannot be changed"
        return "this cannot be assigned to"

    def is_constant(self, expr: tree.Expr) -> bool:
        """Whether `expr` is known at compile time, if only after instantiation."""
        if expr.value is not None or isinstance(expr.type, UnknownType):
            return True
        if isinstance(expr, tree.Name):
            if isinstance(expr.decl, tree.Param):
                return expr.decl.direction == "" and (
                    expr.decl in self.constructor_params or self.body.kind != "action"
                )
            return isinstance(expr.decl, tree.InstanceDecl | tree.ConstDecl)
        if isinstance(expr, tree.Cast | tree.Unary | tree.Slice | tree.Index | tree.Member):
            return self.is_constant(expr.expr)
        if isinstance(expr, tree.Binary):
            return self.is_constant(expr.left) and self.is_constant(expr.right)
        if isinstance(expr, tree.Ternary):
            return all(map(self.is_constant, (expr.condition, expr.yes, expr.no)))
        if isinstance(expr, tree.ListExpr):
            return all(map(self.is_constant, expr.elements))
        if isinstance(expr, tree.StructExpr):
            return all(self.is_constant(f.expr) for f in expr.fields)
        if isinstance(expr, tree.Call):
            if expr.kind == "extern_function":  # a factory
                return all(b.expr is None or self.is_constant(b.expr) for b in expr.bound)
            return expr.kind in ("constructor", "size_method")
        return isinstance(expr, tree.InvalidHeader | tree.Dots | tree.This)
