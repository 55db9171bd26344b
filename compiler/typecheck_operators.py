"""Checking of operators and casts: the types they take, the type and, where known, the value they have."""

from __future__ import annotations

from compiler import constants, tree, types
from compiler.typecheck_base import bits_of
from compiler.typecheck_convert import Converter
from compiler.typecheck_hints import cast_hint, logic_hint, width_hint, zero_hint
from compiler.typecheck_rules import castable, comparable, is_literal
from compiler.types import BitType, InfIntType, Type, UnknownType

NUMERIC = (BitType, InfIntType)
COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
STACK_MEMBERS = ("next", "last", "lastIndex", "size")


class OperatorChecker(Converter):
    """Unary and binary operators, `?:`, casts."""

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
