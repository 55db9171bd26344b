"""Checking of expressions: every one gets its type and, where it is known, its value. Calls are in typecheck_calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import constants, tree, types
from compiler.scope import did_you_mean
from compiler.typecheck_base import TYPE_DECLS, bits_of, plural
from compiler.typecheck_hints import describe, method_hint
from compiler.typecheck_operators import OperatorChecker
from compiler.typecheck_types import MAX_WIDTH
from compiler.types import BitType, InfIntType, Type, UnknownType

NUMERIC = (BitType, InfIntType)
COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
STACK_MEMBERS = ("next", "last", "lastIndex", "size")


class ExpressionChecker(OperatorChecker):
    """`expr` infers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._check: dict[type, Callable[[Any], tree.Expr]] = {
            tree.IntLiteral: self._int,
            tree.BoolLiteral: self._bool,
            tree.StringLiteral: self._string,
            tree.Name: self._name,
            tree.This: self._this,
            tree.TypeExpr: self._type_expr,
            tree.Member: self._member,
            tree.Index: self._index,
            tree.Slice: self._slice,
            tree.PlusSlice: self._plus_slice,
            tree.Unary: self._unary,
            tree.Binary: self._binary,
            tree.Ternary: self._ternary,
            tree.Cast: self._cast,
            tree.ListExpr: self._list,
            tree.StructExpr: self._struct,
            tree.InvalidHeader: self._placeholder,
            tree.Dots: self._placeholder,
            tree.DontCare: self._placeholder,
            tree.DefaultExpr: self._placeholder,
            tree.MaskExpr: self._mask,
            tree.RangeExpr: self._range,
            tree.TupleKeyset: self._tuple_keyset,
            tree.Call: self._call,
        }

    def expr(self, expr: tree.Expr) -> tree.Expr:
        """Infers the type and value of `expr`; returns the expression to use in its place."""
        return self._check[type(expr)](expr)

    def _call(self, call: tree.Call) -> tree.Expr:
        raise NotImplementedError

    # ------------------------------------------------------------- leaves

    def _int(self, expr: tree.IntLiteral) -> tree.Expr:
        if expr.width is None:
            expr.type, expr.value = types.INT, expr.number
            return expr
        if expr.width > MAX_WIDTH:
            self.error(
                expr.pos, f"the width {expr.width} is too large; at most {MAX_WIDTH} bits are supported"
            )
            return expr
        if expr.width == 0 and expr.signed:
            self.error(expr.pos, "int<N> needs at least one bit")
            return expr
        expr.type = types.bit(expr.width, expr.signed)
        expr.value = constants.wrap(expr.type, expr.number)
        if expr.value != expr.number:
            self.warn(expr.pos, f"{expr.text} does not fit in {expr.type}; it becomes {expr.value}")
        return expr

    def _bool(self, expr: tree.BoolLiteral) -> tree.Expr:
        expr.type, expr.value = types.BOOL, expr.truth
        return expr

    def _string(self, expr: tree.StringLiteral) -> tree.Expr:
        expr.type, expr.value = types.STRING, expr.text
        return expr

    def _placeholder(self, expr: tree.Expr) -> tree.Expr:
        expr.type = types.DONT_CARE
        return expr

    def _this(self, expr: tree.This) -> tree.Expr:
        if self.body.this is None:
            self.error(expr.pos, "'this' is only known in the functions of an object's initialiser")
            return expr
        expr.decl = self.body.this
        expr.type = self.body.this.type
        return expr

    def _name(self, expr: tree.Name) -> tree.Expr:
        scope = self.scope.outermost if expr.absolute else self.scope
        found = scope.lookup(expr.name)
        if not found:
            if expr.name in self.match_kinds:
                expr.decl = self.match_kinds[expr.name]
                expr.type, expr.value = types.MATCH_KIND, types.MatchKindValue(expr.name)
                return expr
            hint = self.unknown(expr.name, scope)
            self.error(expr.pos, f"'{expr.name}' is not declared{hint}")
            return expr
        decl = found[0]
        expr.decl = decl
        if isinstance(decl, TYPE_DECLS):
            self.error(expr.pos, f"'{expr.name}' is a type, not a value")
            return expr
        expr.type = decl.type
        if isinstance(decl, tree.ConstDecl):
            expr.value = decl.value
        elif isinstance(decl, tree.EnumMember) and isinstance(decl.type, types.SerEnumType):
            expr.value = decl.type.members[decl.name]
        return expr

    def _type_expr(self, expr: tree.TypeExpr) -> tree.Expr:
        of = self.resolve(expr.ref, generic=True)
        expr.type = types.UNKNOWN if isinstance(of, UnknownType) else types.TypeType(of)
        return expr

    # ------------------------------------------------------------- members and elements

    def _member(self, expr: tree.Member) -> tree.Expr:
        expr.expr = self.expr(expr.expr)
        base = expr.expr.type
        if isinstance(base, types.RecordType):
            field = base.field(expr.name)
            if field is None:
                names = [f.name for f in base.fields]
                hint = did_you_mean(expr.name, names)
                self.error(expr.pos, f"{base} has no field '{expr.name}'{hint}{method_hint(expr.name)}")
                return expr
            expr.type = field.type
            expr.value = constants.member(expr.expr.value, base, expr.name)
        elif isinstance(base, types.TypeType):
            self._type_member(expr, base.of)
        elif isinstance(base, types.StackType) and base.is_header_stack and expr.name in STACK_MEMBERS:
            self._stack_member(expr, base)
        elif isinstance(base, types.StackType) and expr.name == "size":
            expr.kind, expr.type, expr.value = "size", types.bit(32), base.size
        elif isinstance(base, types.ApplyResultType):
            if expr.name in ("hit", "miss"):
                expr.type = types.BOOL
            elif expr.name == "action_run":
                expr.type = types.ActionRunType(base.name, base.decl)
            else:
                self.error(expr.pos, f"apply() has the results hit, miss and action_run, not '{expr.name}'")
        elif isinstance(base, types.StructLiteralType) and expr.name in base.names:
            expr.type = base.elements[base.names.index(expr.name)]
        elif not isinstance(base, UnknownType):
            self.error(expr.pos, f"{describe(expr.expr)} of type {base} has no field '{expr.name}'")
        return expr

    def _type_member(self, expr: tree.Member, of: Type) -> None:
        if isinstance(of, types.ErrorType):
            if expr.name not in self.errors:
                hint = did_you_mean(expr.name, list(self.errors))
                self.error(expr.pos, f"error has no member '{expr.name}'{hint}")
                return
            expr.kind, expr.type, expr.value = "error", of, types.ErrorValue(expr.name)
        elif isinstance(of, types.EnumType):
            if expr.name not in of.members:
                hint = did_you_mean(expr.name, of.members)
                self.error(expr.pos, f"the enum {of} has no member '{expr.name}'{hint}")
                return
            expr.kind, expr.type, expr.value = "enum", of, types.EnumValue(of, expr.name)
        elif isinstance(of, types.SerEnumType):
            if expr.name not in of.members:
                hint = did_you_mean(expr.name, list(of.members))
                self.error(expr.pos, f"the enum {of} has no member '{expr.name}'{hint}")
                return
            expr.kind, expr.type, expr.value = "enum", of, of.members[expr.name]
        else:
            self.error(expr.pos, f"the type {of} has no member '{expr.name}'")

    def _stack_member(self, expr: tree.Member, base: types.StackType) -> None:
        expr.kind = expr.name
        if expr.name == "size":
            expr.type, expr.value = types.bit(32), base.size
            return
        if self.body.kind not in ("parser", "top"):
            self.error(expr.pos, f"'{expr.name}' of a header stack can only be used in a parser")
            return
        expr.type = types.bit(32) if expr.name == "lastIndex" else base.element

    def _index(self, expr: tree.Index) -> tree.Expr:
        expr.expr = self.expr(expr.expr)
        expr.index = self.expr(expr.index)
        base = expr.expr.type
        index = expr.index
        if isinstance(base, UnknownType) or isinstance(index.type, UnknownType):
            return expr
        if isinstance(base, types.TupleType):
            if not isinstance(index.value, int) or not isinstance(index.type, NUMERIC):
                self.error(index.pos, "the index of a tuple must be a constant")
            elif not 0 <= index.value < len(base.elements):
                self.error(
                    index.pos,
                    f"the index {index.value} is outside the tuple's {plural(len(base.elements), 'element')}",
                )
            else:
                expr.type = base.elements[index.value]
                if isinstance(expr.expr.value, tuple):
                    expr.value = expr.expr.value[index.value]
            return expr
        if not isinstance(base, types.StackType):
            self.error(expr.pos, f"{describe(expr.expr)} of type {base} cannot be indexed")
            return expr
        if bits_of(index.type) is None and not isinstance(index.type, InfIntType):
            self.error(index.pos, f"an index must be a number, not {index.type}")
            return expr
        expr.type = base.element
        if isinstance(index.value, int) and not 0 <= index.value < max(1, base.size):
            self.error(
                index.pos, f"the index {index.value} is outside the stack's {plural(base.size, 'element')}"
            )
        elif isinstance(index.type, InfIntType):
            if index.value is not None:
                expr.index = self.convert(index, types.bit(32), "index")
            if isinstance(expr.expr.value, tuple) and isinstance(index.value, int):
                expr.value = expr.expr.value[index.value]
        return expr

    def _constant_int(self, expr: tree.Expr, what: str) -> int | None:
        if isinstance(expr.type, UnknownType):
            return None
        if not isinstance(expr.value, int) or isinstance(expr.value, bool):
            self.error(expr.pos, f"{what} must be a number known at compile time")
            return None
        return expr.value

    def _slice(self, expr: tree.Slice) -> tree.Expr:
        expr.expr, expr.high, expr.low = self.expr(expr.expr), self.expr(expr.high), self.expr(expr.low)
        base = expr.expr.type
        if isinstance(base, UnknownType):
            return expr
        bits = bits_of(base)
        if bits is None and not (isinstance(base, InfIntType) and expr.expr.value is not None):
            self.error(expr.pos, f"bits can be taken of bit<N> and int<N>, not of {base}")
            return expr
        high = self._constant_int(expr.high, "the first bit of a slice")
        low = self._constant_int(expr.low, "the last bit of a slice")
        if high is None or low is None:
            return expr
        if low < 0 or high < low:
            self.error(
                expr.high.pos, f"[{high}:{low}] is no slice: write the higher bit first, and none below 0"
            )
            return expr
        if bits is not None and high >= bits.width:
            self.error(expr.high.pos, f"bit {high} is outside {base}, whose highest bit is {bits.width - 1}")
            return expr
        expr.type = types.bit(high - low + 1)
        expr.value = constants.slice_bits(expr.expr.value, high, low)
        return expr

    def _plus_slice(self, expr: tree.PlusSlice) -> tree.Expr:
        expr.expr, expr.low, expr.width = self.expr(expr.expr), self.expr(expr.low), self.expr(expr.width)
        base = expr.expr.type
        if isinstance(base, UnknownType) or isinstance(expr.low.type, UnknownType):
            return expr
        bits = bits_of(base)
        if bits is None:
            self.error(expr.pos, f"bits can be taken of bit<N> and int<N>, not of {base}")
            return expr
        width = self._constant_int(expr.width, "the width of a slice")
        if width is None:
            return expr
        if not 0 < width <= bits.width:
            self.error(expr.width.pos, f"the width of the slice must be between 1 and {bits.width}")
            return expr
        low = bits_of(expr.low.type)
        if isinstance(expr.low.type, InfIntType):
            if expr.low.value is None or not 0 <= expr.low.value <= bits.width - width:
                self.error(expr.low.pos, f"the slice reaches outside {base}")
                return expr
        elif low is None or low.signed:
            self.error(expr.low.pos, f"the first bit of a slice must be a bit<N> number, not {expr.low.type}")
            return expr
        expr.type = types.bit(width)
        if isinstance(expr.low.value, int):
            expr.value = constants.slice_bits(expr.expr.value, expr.low.value + width - 1, expr.low.value)
        return expr

    # ------------------------------------------------------------- literals of structured types

    def _list(self, expr: tree.ListExpr) -> tree.Expr:
        expr.elements = [self.expr(e) for e in expr.elements]
        if any(isinstance(e.type, UnknownType) for e in expr.elements):
            return expr
        expr.type = types.TupleType(tuple(e.type for e in expr.elements))
        values = tuple(e.value for e in expr.elements)
        expr.value = None if any(v is None for v in values) else values
        return expr

    def _struct(self, expr: tree.StructExpr) -> tree.Expr:
        seen: set[str] = set()
        for field in expr.fields:
            field.expr = self.expr(field.expr)
            if field.name in seen:
                self.error(field.pos, f"the field '{field.name}' is given twice")
                return expr
            seen.add(field.name)
        if any(isinstance(f.expr.type, UnknownType) for f in expr.fields):
            return expr
        expr.type = types.StructLiteralType(
            tuple(f.expr.type for f in expr.fields), tuple(f.name for f in expr.fields)
        )
        values = tuple(f.expr.value for f in expr.fields)
        expr.value = None if any(v is None for v in values) else values
        return expr

    # ------------------------------------------------------------- keysets

    def _pair(self, expr: tree.Expr, left: tree.Expr, right: tree.Expr) -> tuple[tree.Expr, tree.Expr]:
        left, right = self.expr(left), self.expr(right)
        first, second = left.type, right.type
        if isinstance(first, UnknownType) or isinstance(second, UnknownType):
            return left, right
        if isinstance(first, InfIntType) and bits_of(second) is not None:
            left = self.convert(left, second, "first value")
        elif isinstance(second, InfIntType) and bits_of(first) is not None:
            right = self.convert(right, bits_of(first) or second, "second value")
        expr.type = types.SetType(left.type)
        return left, right

    def _mask(self, expr: tree.MaskExpr) -> tree.Expr:
        expr.left, expr.mask = self._pair(expr, expr.left, expr.mask)
        return expr

    def _range(self, expr: tree.RangeExpr) -> tree.Expr:
        expr.low, expr.high = self._pair(expr, expr.low, expr.high)
        return expr

    def _tuple_keyset(self, expr: tree.TupleKeyset) -> tree.Expr:
        expr.elements = [self.expr(e) for e in expr.elements]
        if not any(isinstance(e.type, UnknownType) for e in expr.elements):
            expr.type = types.TupleType(tuple(e.type for e in expr.elements))
        return expr
