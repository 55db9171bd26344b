"""Checking of expressions: every one gets its type and, where it is known, its value. Calls are in typecheck_calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import constants, tree, types
from compiler.scope import did_you_mean
from compiler.typecheck_base import TYPE_DECLS, bits_of, plural
from compiler.typecheck_convert import Converter
from compiler.typecheck_hints import cast_hint, describe, logic_hint, method_hint, width_hint, zero_hint
from compiler.typecheck_rules import castable, comparable, is_literal
from compiler.typecheck_types import MAX_WIDTH
from compiler.types import BitType, InfIntType, Type, UnknownType

NUMERIC = (BitType, InfIntType)
COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
STACK_MEMBERS = ("next", "last", "lastIndex", "size")


class ExpressionChecker(Converter):
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

    # ------------------------------------------------------------- operators

    def _unary(self, expr: tree.Unary) -> tree.Expr:
        expr.expr = self.expr(expr.expr)
        inner = expr.expr.type
        if isinstance(inner, UnknownType):
            return expr
        if expr.op == "!":
            if not isinstance(inner, types.BoolType):
                self.error(expr.pos, f"! needs a bool, not {inner}{zero_hint(inner)}")
                return expr
        elif isinstance(inner, types.SerEnumType) and bits_of(inner) is not None:
            expr.expr = self.convert(expr.expr, inner.underlying, f"operand of {expr.op}")
            inner = expr.expr.type
        if expr.op == "~" and not isinstance(inner, BitType):
            self.error(expr.pos, f"~ needs bit<N> or int<N>, not {inner}")
            return expr
        if expr.op in "+-" and not isinstance(inner, NUMERIC):
            self.error(expr.pos, f"{expr.op} needs a number, not {inner}")
            return expr
        expr.type = inner
        expr.value = constants.unary(expr.op, inner, expr.expr.value)
        return expr

    def _binary(self, expr: tree.Binary) -> tree.Expr:
        expr.left = self.expr(expr.left)
        expr.right = self.expr(expr.right)
        left, right = expr.left.type, expr.right.type
        if isinstance(left, UnknownType) or isinstance(right, UnknownType):
            return expr
        op = expr.op
        result: Type | None
        if op in ("&&", "||"):
            for side in (expr.left, expr.right):
                if not isinstance(side.type, types.BoolType):
                    self.error(
                        side.pos, f"{op} needs bool on both sides, not {side.type}{zero_hint(side.type)}"
                    )
                    return expr
            result = types.BOOL
        elif op in ("<<", ">>"):
            result = self._shift(expr)
        elif op == "++":
            result = self._concatenate(expr)
        elif op in COMPARISONS:
            result = self._compare(expr)
        else:
            result = self._arithmetic(expr)
        if result is None:
            return expr
        expr.type = result
        try:
            expr.value = constants.binary(
                op, result, expr.left.value, expr.left.type, expr.right.value, expr.right.type
            )
        except constants.BadConstant as error:
            self.error(expr.pos, str(error))
        return expr

    def _shift(self, expr: tree.Binary) -> Type | None:
        for side in ("left", "right"):
            operand = getattr(expr, side)
            if isinstance(operand.type, types.SerEnumType):
                setattr(expr, side, self.convert(operand, operand.type.underlying, "operand"))
        left, right = expr.left.type, expr.right.type
        if not isinstance(left, NUMERIC):
            self.error(expr.pos, f"{expr.op} needs a number on its left, not {left}")
            return None
        amount = expr.right.value
        if isinstance(right, InfIntType):
            if amount is None:
                self.error(expr.right.pos, "the shift amount must have a width or be known at compile time")
                return None
        elif not isinstance(right, BitType) or (right.signed and amount is None):
            self.error(expr.right.pos, f"a shift amount must be bit<N> or a constant, not {right}")
            return None
        if isinstance(amount, int) and amount < 0:
            self.error(expr.right.pos, "a shift amount cannot be negative")
            return None
        if isinstance(left, InfIntType) and amount is None:
            self.error(
                expr.left.pos,
                "the number on the left needs a width when the shift amount is not constant: 8w1 << x",
            )
            return None
        if isinstance(left, BitType) and isinstance(amount, int) and amount >= left.width and left.width:
            self.warn(expr.pos, f"a shift by {amount} leaves nothing of {left}")
        return left

    def _concatenate(self, expr: tree.Binary) -> Type | None:
        for side in ("left", "right"):
            operand = getattr(expr, side)
            if isinstance(operand.type, types.SerEnumType):
                setattr(expr, side, self.convert(operand, operand.type.underlying, "operand"))
        left, right = expr.left.type, expr.right.type
        if isinstance(left, types.StringType) and isinstance(right, types.StringType):
            return left
        for side_expr in (expr.left, expr.right):
            if not isinstance(side_expr.type, BitType):
                hint = " (give it a width, as in 8w5)" if isinstance(side_expr.type, InfIntType) else ""
                self.error(
                    side_expr.pos, f"++ needs bit<N> or int<N> on both sides, not {side_expr.type}{hint}"
                )
                return None
        assert isinstance(left, BitType) and isinstance(right, BitType)
        return types.bit(left.width + right.width, left.signed)

    def _compare(self, expr: tree.Binary) -> Type | None:
        self._align(expr)
        left, right = expr.left.type, expr.right.type
        if expr.op in ("==", "!="):
            if left != right:
                self.error(expr.pos, f"{left} and {right} cannot be compared{width_hint(left, right)}")
                return None
            if not comparable(left):
                self.error(expr.pos, f"values of type {left} cannot be compared")
                return None
            return types.BOOL
        if left != right or not isinstance(left, NUMERIC):
            self.error(expr.pos, f"{expr.op} cannot compare {left} with {right}{width_hint(left, right)}")
            return None
        return types.BOOL

    def _arithmetic(self, expr: tree.Binary) -> Type | None:
        divisor = expr.right.value
        if expr.op in "/%" and isinstance(divisor, int) and divisor <= 0:
            what = "zero" if divisor == 0 else "a negative number"
            self.error(expr.right.pos, f"division by {what}")
            return None
        self._align(expr)
        left, right = expr.left.type, expr.right.type
        if not isinstance(left, NUMERIC) or not isinstance(right, NUMERIC):
            odd = right if isinstance(left, NUMERIC) else left
            hint = logic_hint(expr.op, odd)
            self.error(expr.pos, f"{expr.op} needs numbers on both sides, not {odd}{hint}")
            return None
        if left != right:
            self.error(
                expr.pos,
                f"{expr.op} needs the same type on both sides, not {left} and {right}{width_hint(left, right)}",
            )
            return None
        if expr.op in ("|+|", "|-|") and not isinstance(left, BitType):
            self.error(
                expr.pos, f"{expr.op} needs bit<N> or int<N>: a number without a width never saturates"
            )
            return None
        if expr.op in "/%" and isinstance(left, BitType) and left.signed:
            self.error(expr.pos, f"{expr.op} is not defined for signed numbers")
            return None
        return left

    def _align(self, expr: tree.Binary) -> None:
        """Gives both sides one type where a conversion is implicit."""
        left, right = expr.left.type, expr.right.type
        if left == right:
            if expr.op not in ("==", "!=") and isinstance(left, types.SerEnumType):
                expr.left = self.convert(expr.left, left.underlying, "operand")
                expr.right = self.convert(expr.right, left.underlying, "operand")
            return
        if is_literal(expr.left) and not is_literal(expr.right):
            expr.left = self.convert(expr.left, right, f"left side of {expr.op}")
            return
        if is_literal(expr.right) and not is_literal(expr.left):
            expr.right = self.convert(expr.right, left, f"right side of {expr.op}")
            return
        if isinstance(left, types.SerEnumType):
            expr.left = self.convert(expr.left, left.underlying, "operand")
            left = expr.left.type
        if isinstance(right, types.SerEnumType):
            expr.right = self.convert(expr.right, right.underlying, "operand")
            right = expr.right.type
        if isinstance(left, InfIntType) and isinstance(right, BitType):
            expr.left = self.convert(expr.left, right, f"left side of {expr.op}")
        elif isinstance(right, InfIntType) and isinstance(left, BitType):
            expr.right = self.convert(expr.right, left, f"right side of {expr.op}")

    def _ternary(self, expr: tree.Ternary) -> tree.Expr:
        expr.condition, expr.yes, expr.no = self.expr(expr.condition), self.expr(expr.yes), self.expr(expr.no)
        condition = expr.condition
        if isinstance(condition.type, UnknownType):
            return expr
        if not isinstance(condition.type, types.BoolType):
            self.error(
                condition.pos,
                f"the condition of ?: must be a bool, not {condition.type}{zero_hint(condition.type)}",
            )
            return expr
        yes, no = expr.yes.type, expr.no.type
        if isinstance(yes, UnknownType) or isinstance(no, UnknownType):
            return expr
        if yes != no:
            if (isinstance(yes, InfIntType) and bits_of(no)) or (
                is_literal(expr.yes) and not is_literal(expr.no)
            ):
                expr.yes = self.convert(expr.yes, no, "first value of ?:")
            elif (isinstance(no, InfIntType) and bits_of(yes)) or (
                is_literal(expr.no) and not is_literal(expr.yes)
            ):
                expr.no = self.convert(expr.no, yes, "second value of ?:")
            elif isinstance(yes, types.SerEnumType) and yes.underlying == no:
                expr.yes = self.convert(expr.yes, no, "first value of ?:")
            elif isinstance(no, types.SerEnumType) and no.underlying == yes:
                expr.no = self.convert(expr.no, yes, "second value of ?:")
            elif not (is_literal(expr.yes) and is_literal(expr.no)):
                self.error(
                    expr.pos, f"the two values of ?: differ in type: {yes} and {no}{width_hint(yes, no)}"
                )
                return expr
        expr.type = expr.yes.type
        if isinstance(expr.type, InfIntType) and condition.value is None and not self.is_constant(condition):
            self.error(expr.pos, "one of the two values of ?: needs a width, as in 16w1")
            expr.type = types.UNKNOWN
            return expr
        if condition.value is not None:
            expr.value = expr.yes.value if condition.value else expr.no.value
        return expr

    def _cast(self, expr: tree.Cast) -> tree.Expr:
        assert expr.ref is not None
        target = self.resolve(expr.ref)
        expr.expr = self.expr(expr.expr)
        source = expr.expr.type
        if isinstance(target, UnknownType) or isinstance(source, UnknownType):
            return expr
        if is_literal(expr.expr):
            expr.expr = self.convert(expr.expr, target, "value of the cast")
        elif not castable(source, target):
            self.error(expr.pos, f"{source} cannot be cast to {target}{cast_hint(source, target)}")
            return expr
        to_bool = isinstance(types.underlying(target), types.BoolType) and isinstance(source, InfIntType)
        if to_bool and expr.expr.value not in (0, 1):
            self.error(expr.pos, "only 0 and 1 can be cast to bool")
            return expr
        expr.type = target
        expr.value = constants.convert(target, expr.expr.value)
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
