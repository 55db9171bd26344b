"""Building low-level expressions: each function folds constants and removes operations that do nothing."""

from __future__ import annotations

from compiler import ir
from compiler.ir import BOOL, FALSE, TRUE, Binary, Const, Expr, Mux, Scalar, Unary, Wrap, bits


def wrap_value(value: int, type_: Scalar) -> int:
    """`value` modulo 2^width, as a number of `type_`."""
    if type_.width == 0:
        return 0
    value &= (1 << type_.width) - 1
    if type_.kind == "int" and value >> (type_.width - 1):
        value -= 1 << type_.width
    return value


def const(value: int, type_: Scalar) -> Const:
    """A constant of `type_`, wrapped."""
    return Const(wrap_value(value, type_), type_)


def boolean(truth: bool) -> Const:
    """`true` or `false`."""
    return TRUE if truth else FALSE


def saturate(value: int, type_: Scalar) -> int:
    """The number of `type_` nearest to `value`."""
    if type_.kind == "int":
        return max(-(1 << (type_.width - 1)), min((1 << (type_.width - 1)) - 1, value))
    return max(0, min((1 << type_.width) - 1, value))


def wrap(value: Expr, type_: Scalar) -> Expr:
    """`value` cast to another `bit` or `int` type."""
    if value.type == type_:
        return value
    if isinstance(value, Const):
        return const(value.value, type_)
    source = value.type
    fits = source.width <= type_.width and source.kind == type_.kind
    widens = source.kind == "bit" and type_.kind == "int" and source.width < type_.width
    if fits or widens:
        return same(value, type_)
    return Wrap(value, type_)


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def same(value: Expr, type_: Scalar) -> Expr:
    """`value` as `type_`, which has its number, too."""
    if value.type == type_:
        return value
    if isinstance(value, Const):
        return Const(value.value, type_)
    if isinstance(value, Unary) and value.op == "same":
        return same(value.value, type_)
    return Unary("same", value, type_)


def not_(value: Expr) -> Expr:
    """Logical negation."""
    if isinstance(value, Const):
        return boolean(not value.value)
    if isinstance(value, Unary) and value.op == "not":
        return value.value
    if isinstance(value, Binary) and value.op in _OPPOSITE:
        return Binary(_OPPOSITE[value.op], value.left, value.right, BOOL)
    return Unary("not", value, BOOL)


def to_bits(value: Expr) -> Expr:
    """bool to bit<1>."""
    if isinstance(value, Const):
        return Const(value.value, bits(1))
    if isinstance(value, Unary) and value.op == "d2b":
        return value.value
    return Unary("b2d", value, bits(1))


def to_bool(value: Expr) -> Expr:
    """bit<1> to bool."""
    if isinstance(value, Const):
        return boolean(bool(value.value))
    if isinstance(value, Unary) and value.op == "b2d":
        return value.value
    return Unary("d2b", value, BOOL)


def unary(op: str, value: Expr) -> Expr:
    """`-` or `~`, in the type of the operand."""
    if isinstance(value, Const):
        return const(-value.value if op == "-" else ~value.value, value.type)
    return Unary(op, value, value.type)


def and_(left: Expr, right: Expr) -> Expr:
    """Both (both are evaluated: they are pure)."""
    if isinstance(left, Const):
        return right if left.value else FALSE
    if isinstance(right, Const):
        return left if right.value else FALSE
    return Binary("and", left, right, BOOL)


def or_(left: Expr, right: Expr) -> Expr:
    """Either."""
    if isinstance(left, Const):
        return TRUE if left.value else right
    if isinstance(right, Const):
        return TRUE if right.value else left
    return Binary("or", left, right, BOOL)


def mux(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """`condition ? yes : no`."""
    if isinstance(condition, Const):
        return yes if condition.value else no
    if yes == no:
        return yes
    if yes.type.kind == "bool":
        return or_(and_(condition, yes), and_(not_(condition), no))
    return Mux(condition, yes, no, yes.type)


_COMPARE = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compare(op: str, left: Expr, right: Expr) -> Expr:
    """`== != < <= > >=` of two values of one type."""
    if isinstance(left, Const) and isinstance(right, Const):
        return boolean(_COMPARE[op](left.value, right.value))
    if left.type.kind == "bool":
        if isinstance(right, Const):
            return left if (op == "==") == bool(right.value) else not_(left)
        if isinstance(left, Const):
            return right if (op == "==") == bool(left.value) else not_(right)
    if left.type.width == 0 and left.type.kind in ("bit", "int"):
        return boolean(op in ("==", "<=", ">="))
    return Binary(op, left, right, BOOL)


_FOLD = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def binary(op: str, left: Expr, right: Expr) -> Expr:
    """`+ - * & | ^ |+| |-|` and, for unsigned numbers, `/ %`, in the type of the left operand."""
    type_ = left.type
    if op in ("|+|", "|-|"):
        sign = op[1]
        if isinstance(left, Const) and isinstance(right, Const):
            return Const(saturate(_FOLD[sign](left.value, right.value), type_), type_)
        return Binary("sat" + sign, left, right, type_)
    if isinstance(left, Const) and isinstance(right, Const) and not (op in "/%" and right.value <= 0):
        return const(_FOLD[op](left.value, right.value), type_)
    if isinstance(right, Const) and right.value == 0 and op in "+-|^":
        return left
    if isinstance(left, Const) and left.value == 0 and op in "+|^":
        return right
    if isinstance(right, Const) and type_.kind == "bit":
        ones = (1 << type_.width) - 1
        if op == "&" and right.value == ones:
            return left
        if op in "&*" and right.value == 0:
            return Const(0, type_)
    return Binary(op, left, right, type_)


def shift(op: str, value: Expr, amount: Expr) -> Expr:
    """`<<` or `>>` (arithmetic for signed values). Amounts past the width give 0 (or the sign).

    The amount reaches the target clamped: BMv2 would otherwise build a number of 2^32 bits.
    """
    type_ = value.type
    if isinstance(amount, Const):
        places = amount.value
        if places == 0:
            return value
        if isinstance(value, Const):
            if op == "<<":
                return const(value.value << min(places, type_.width), type_)
            return const(value.value >> places, type_)
        if places >= type_.width:
            if op == "<<" or type_.kind == "bit":
                return Const(0, type_)
            places = type_.width - 1
        return Binary(op, value, Const(places, bits(32)), type_)
    limit = max(type_.width, 1)
    if (1 << amount.type.width) - 1 > 2 * limit:
        cap = Const(limit, amount.type)
        amount = mux(compare(">", amount, cap), cap, amount)
    return Binary(op, value, amount, type_)


def slice_(value: Expr, high: int, low: int) -> Expr:
    """Bits `high` down to `low`, unsigned."""
    type_ = bits(high - low + 1)
    if isinstance(value, Const):
        return const(value.value >> low, type_)
    if low == 0 and high + 1 == value.type.width and value.type.kind == "bit":
        return value
    if isinstance(value, ir.Lookahead):
        top = value.type.width - 1 - high
        return ir.Lookahead(value.offset + top, type_)
    if low:
        shifted: Expr = Binary(">>", value, Const(low, bits(32)), value.type)
    else:
        shifted = value
    if high + 1 == value.type.width and value.type.kind == "bit":
        return same(shifted, type_)
    return Wrap(shifted, type_)


def concat(left: Expr, right: Expr) -> Expr:
    """`left ++ right`; the result is signed as the left operand is."""
    type_ = bits(left.type.width + right.type.width, left.type.kind == "int")
    low = wrap(right, bits(right.type.width))
    if isinstance(left, Const) and isinstance(low, Const):
        return const((left.value << low.type.width) | low.value, type_)
    if right.type.width == 0:
        return same(left, type_)
    if left.type.width == 0:
        return wrap(low, type_)
    wide = same(left, type_)
    high = Binary("<<", wide, Const(right.type.width, bits(32)), type_)
    if isinstance(low, Const) and not low.value:
        return high
    return Binary("|", high, same(low, type_), type_)


def insert(target: Expr, high: int, low: int, value: Expr) -> Expr:
    """`target` with bits `high..low` replaced by `value` (as wide as they are)."""
    type_ = target.type
    unsigned = bits(type_.width)
    field = ((1 << (high - low + 1)) - 1) << low
    ones = (1 << type_.width) - 1
    if field == ones:
        return wrap(value, type_)
    base = wrap(target, unsigned)
    keep = binary("&", base, Const(ones & ~field, unsigned))
    new = shift("<<", wrap(wrap(value, bits(high - low + 1)), unsigned), Const(low, bits(32)))
    return wrap(binary("|", keep, new), type_)


def clamp(index: Expr, size: int) -> Expr:
    """`index`, made safe for a stack of `size` elements."""
    if isinstance(index, Const) or (index.type.kind == "bit" and 1 << index.type.width <= size):
        return index
    if index.type.kind == "int":
        index = wrap(index, bits(max(index.type.width, 32)))
    return ir.Clamp(index, size, index.type)


def within(index: Expr | None) -> Expr:
    """Whether something may be written through `index`."""
    if isinstance(index, ir.Clamp):
        return compare("<", index.value, Const(index.size, index.value.type))
    return TRUE


def any_of(terms: list[Expr]) -> Expr:
    """Disjunction."""
    result: Expr = FALSE
    for term in terms:
        result = or_(result, term)
    return result


def all_of(terms: list[Expr]) -> Expr:
    """Conjunction."""
    result: Expr = TRUE
    for term in terms:
        result = and_(result, term)
    return result
