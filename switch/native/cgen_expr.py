"""Expressions in C. BMv2 computes with integers of any size and sign; C has 64 bits.

Each data expression knows the range its value can take. Operators whose low bits depend on their operands' low bits
only (+ - * & | ^ ~ <<) are computed modulo 2^64 as long as no more than 64 bits are wanted; the others, and
comparisons, need exact operands, for which the range says whether 64 bits (unsigned or signed) do. Where they do not,
limb arrays of sufficient length are used. So the common case is plain C arithmetic and every width is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from switch.native.cgen_arrays import register_cell
from switch.native.cgen_layout import Layout, Place, pointers
from switch.native.document import Node
from switch.native.program import Field, Program, Stack, Union, UnionStack, limbs, split

MAX_BITS = 4096


class Body:
    """Statements under construction and a supply of temporary names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def temp(self) -> str:
        """A fresh name."""
        self.count += 1
        return f"t{self.count}"

    def add(self, line: str) -> None:
        """Append a statement."""
        self.lines.append(line)

    def array(self, count: int) -> str:
        """A fresh limb array."""
        name = self.temp()
        self.add(f"uint64_t {name}[{count}];")
        return name


@dataclass(frozen=True)
class Data:
    """An integer expression whose value lies in low..high."""

    low: int
    high: int

    @property
    def unsigned64(self) -> bool:
        """Fits uint64_t."""
        return self.low >= 0 and self.high < 1 << 64

    @property
    def signed64(self) -> bool:
        """Fits int64_t."""
        return self.low >= -(1 << 63) and self.high < 1 << 63

    @property
    def exact_limbs(self) -> int:
        """Limbs that hold every value in two's complement."""
        return (max(self.high.bit_length(), (~self.low).bit_length() if self.low < 0 else 0) + 64) // 64

    def u64(self, body: Body) -> str:
        """C: the value modulo 2^64."""
        raise NotImplementedError

    def wide(self, body: Body, n: int) -> str:
        """The name of an array that holds the value modulo 2^(64 n)."""
        if self.unsigned64 or self.signed64:
            name = body.array(n)
            value = self.u64(body)
            if self.low >= 0:
                body.add(f"xf_w_set({name}, {n}, {value}, 0);")
            else:
                body.add(f"xf_w_set({name}, {n}, {value}, 0);")
                body.add(f"xf_w_sext({name}, {n}, 64);")
            return name
        return self.wide_op(body, n)

    def wide_op(self, body: Body, n: int) -> str:
        """`wide` for values that do not fit 64 bits."""
        raise NotImplementedError

    def amount(self, body: Body) -> str:
        """C: the exact value as a shift amount, saturated to 64 bits."""
        if self.high < 0:
            return "UINT64_MAX"
        if self.unsigned64:
            return self.u64(body)
        n = self.exact_limbs
        name = self.wide(body, n)
        rest = " | ".join(f"{name}[{i}]" for i in range(1, n)) or "0"
        return f"(({rest}) || {name}[{n - 1}] >> 63 ? UINT64_MAX : {name}[0])"


@dataclass(frozen=True)
class Const(Data):
    """A constant (low == high)."""

    def u64(self, body: Body) -> str:
        return f"{self.low & 0xFFFFFFFFFFFFFFFF:#x}ul"

    def wide_op(self, body: Body, n: int) -> str:
        name = body.temp()
        body.add(f"uint64_t {name}[{n}] = {pointers(split(self.low & ((1 << 64 * n) - 1), n))};")
        return name


@dataclass(frozen=True)
class Raw(Data):
    """A C expression of type uint64_t (two's complement where low < 0)."""

    code: str

    def u64(self, body: Body) -> str:
        return self.code


@dataclass(frozen=True)
class Stored(Data):
    """A stored value of `width` bits at an lvalue (an integer, or limbs when wider than 64)."""

    lvalue: str
    width: int
    signed: bool

    def u64(self, body: Body) -> str:
        if self.width > 64:
            return f"{self.lvalue}[0]"
        if self.signed and self.width < 64:
            return f"xf_sext({self.lvalue}, {self.width})"
        return f"(uint64_t){self.lvalue}"

    def wide_op(self, body: Body, n: int) -> str:
        name = body.array(n)
        body.add(f"xf_w_resize({name}, {n}, {self.lvalue}, {limbs(self.width)}, 0);")
        if self.signed:
            body.add(f"xf_w_sext({name}, {n}, {self.width});")
        return name


def stored(lvalue: str, width: int, signed: bool = False) -> Stored:
    """A stored value."""
    if signed and width:
        return Stored(-(1 << (width - 1)), (1 << (width - 1)) - 1, lvalue, width, True)
    return Stored(0, (1 << width) - 1, lvalue, width, False)


_WIDE = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}


@dataclass(frozen=True)
class Binary(Data):
    """+ - * & | ^ << >> / %."""

    op: str
    left: Data
    right: Data

    def u64(self, body: Body) -> str:
        a, b = self.left, self.right
        if self.op in _WIDE:
            return f"({a.u64(body)} {self.op} {b.u64(body)})"
        if self.op == "<<":
            if b.low >= 0 and b.high < 64:
                return f"({a.u64(body)} << {b.u64(body)})"
            return f"xf_shl({a.u64(body)}, {b.amount(body)})"
        if self.op == ">>":
            if a.unsigned64:
                if b.low >= 0 and b.high < 64:
                    return f"({a.u64(body)} >> {b.u64(body)})"
                return f"xf_shr({a.u64(body)}, {b.amount(body)})"
            if a.signed64:
                return f"xf_sar({a.u64(body)}, {b.amount(body)})"
        elif a.unsigned64 and b.unsigned64:
            return f"xf_u{'div' if self.op == '/' else 'mod'}({a.u64(body)}, {b.u64(body)})"
        elif a.signed64 and b.signed64:
            return f"xf_s{'div' if self.op == '/' else 'mod'}({a.u64(body)}, {b.u64(body)})"
        return f"{self.wide_op(body, 1)}[0]"

    def wide_op(self, body: Body, n: int) -> str:
        a, b = self.left, self.right
        if self.op in _WIDE:
            left, right = a.wide(body, n), b.wide(body, n)
            name = body.array(n)
            body.add(f"xf_w_{_WIDE[self.op]}({name}, {left}, {right}, {n});")
            return name
        if self.op == "<<":
            left, by = a.wide(body, n), b.amount(body)
            name = body.array(n)
            body.add(f"xf_w_shl({name}, {left}, {by}, {n});")
            return name
        m = max(n, a.exact_limbs, 1 if self.op == ">>" else b.exact_limbs)
        left = a.wide(body, m)
        name = body.array(m)
        if self.op == ">>":
            body.add(f"xf_w_sar({name}, {left}, {b.amount(body)}, {m});")
        else:
            right = b.wide(body, m)
            body.add(f"xf_w_div({name}, {left}, {right}, {m}, {int(self.op == '%')});")
        return name


@dataclass(frozen=True)
class Invert(Data):
    """~."""

    right: Data

    def u64(self, body: Body) -> str:
        return f"(~{self.right.u64(body)})"

    def wide_op(self, body: Body, n: int) -> str:
        right = self.right.wide(body, n)
        name = body.array(n)
        body.add(f"xf_w_not({name}, {right}, {n});")
        return name


@dataclass(frozen=True)
class SignExtend(Data):
    """two_comp_mod: the low `width` bits as a signed number."""

    right: Data
    width: int

    def u64(self, body: Body) -> str:
        if self.width >= 64:
            return self.right.u64(body)
        return f"xf_sext({self.right.u64(body)} & {(1 << self.width) - 1:#x}ul, {self.width})"

    def wide_op(self, body: Body, n: int) -> str:
        right = self.right.wide(body, max(n, limbs(self.width)))
        m = max(n, limbs(self.width))
        name = body.array(m)
        body.add(f"memcpy({name}, {right}, sizeof {name});")
        body.add(f"xf_w_sext({name}, {m}, {self.width});")
        return name


@dataclass(frozen=True)
class Saturate(Data):
    """usat_cast and sat_cast: clamped to low..high."""

    right: Data

    def u64(self, body: Body) -> str:
        r = self.right
        if r.unsigned64:
            if r.high <= self.high:
                return r.u64(body)
            value = body.temp()
            body.add(f"uint64_t {value} = {r.u64(body)};")
            return f"({value} > {self.high:#x}ul ? {self.high:#x}ul : {value})"
        if r.signed64:
            value = body.temp()
            body.add(f"int64_t {value} = (int64_t)({r.u64(body)});")
            low, high = self.low, min(self.high, (1 << 63) - 1)
            low_text = "0" if low == 0 else f"(-{-low - 1}l - 1)"
            return f"(uint64_t)({value} < {low_text} ? {low_text} : {value} > {high}l ? {high}l : {value})"
        return f"{self.wide_op(body, 1)}[0]"

    def wide_op(self, body: Body, n: int) -> str:
        m = max(n, self.right.exact_limbs)
        right = self.right.wide(body, m)
        name = body.array(m)
        low, high = Const(self.low, self.low).wide(body, m), Const(self.high, self.high).wide(body, m)
        body.add(
            f"memcpy({name}, xf_w_cmp({right}, {low}, {m}) < 0 ? {low} : "
            f"xf_w_cmp({right}, {high}, {m}) > 0 ? {high} : {right}, sizeof {name});"
        )
        return name


@dataclass(frozen=True)
class Choose(Data):
    """cond ? left : right."""

    cond: str
    left: Data
    right: Data

    def u64(self, body: Body) -> str:
        return f"({self.cond} ? {self.left.u64(body)} : {self.right.u64(body)})"

    def wide_op(self, body: Body, n: int) -> str:
        left, right = self.left.wide(body, n), self.right.wide(body, n)
        name = body.array(n)
        body.add(f"memcpy({name}, {self.cond} ? {left} : {right}, sizeof {name});")
        return name


def binary(op: str, a: Data, b: Data, at: Node) -> Data:
    """A binary operation with its range; ProgramError when it could grow beyond 4096 bits."""
    if op == "+":
        low, high = a.low + b.low, a.high + b.high
    elif op == "-":
        low, high = a.low - b.high, a.high - b.low
    elif op == "*":
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(corners), max(corners)
    elif op == "&":
        if a.low >= 0 and b.low >= 0:
            low, high = 0, min(a.high, b.high)
        elif a.low >= 0 or b.low >= 0:
            low, high = 0, a.high if a.low >= 0 else b.high
        else:
            low, high = _around(a, b)
    elif op in ("|", "^"):
        if a.low >= 0 and b.low >= 0:
            low, high = 0, (1 << max(a.high.bit_length(), b.high.bit_length())) - 1
        else:
            low, high = _around(a, b)
    elif op == "<<":
        most = max(0, b.high)
        if most > MAX_BITS:
            most = MAX_BITS  # more than any demand for low bits; an exact use is refused below
        low, high = min(a.low, a.low << most), max(a.high, a.high << most)
    elif op == ">>":
        low, high = min(a.low, 0), max(a.high, 0)
    elif op == "/":
        most = max(abs(a.low), abs(a.high))
        low, high = (0 if a.low >= 0 and b.low >= 0 else -most), most
    else:
        most = max(abs(b.low), abs(b.high), 1) - 1
        low, high = (0 if a.low >= 0 else -most), most
    if max(high.bit_length(), low.bit_length()) > 2 * MAX_BITS:
        raise at.fail(f"the value of '{op}' can exceed {MAX_BITS} bits")
    return Binary(low, high, op, a, b)


def _around(a: Data, b: Data) -> tuple[int, int]:
    bits = max(abs(v).bit_length() for v in (a.low, a.high, b.low, b.high)) + 1
    return -(1 << bits), (1 << bits) - 1


@dataclass(frozen=True)
class Bool:
    """A condition in C."""

    code: str


@dataclass(frozen=True)
class HeaderValue:
    """A header."""

    place: Place


@dataclass(frozen=True)
class StackValue:
    """A header stack."""

    stack: Stack


@dataclass(frozen=True)
class UnionValue:
    """A header union and its lvalue."""

    union: Union
    lvalue: str


@dataclass(frozen=True)
class UnionStackValue:
    """A stack of header unions."""

    stack: UnionStack


Value = Data | Bool | HeaderValue | StackValue | UnionValue | UnionStackValue
"""What an expression can be."""

_COMPARE = {"==", "!=", "<", "<=", ">", ">="}
_ARITHMETIC = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}


@dataclass
class Target:
    """Where a primitive stores: a field and the place of its header."""

    place: Place
    index: int

    @property
    def field(self) -> Field:
        """Its field."""
        return self.place.type.fields[self.index]

    @property
    def lvalue(self) -> str:
        """Its C lvalue."""
        return self.place.field(self.index)


@dataclass
class Expressions:
    """Reads expressions of one program; `params` are the enclosing action's (name, width)."""

    program: Program
    layout: Layout
    params: list[tuple[str, int]] = field(default_factory=list)

    # ---- leaves ----

    def target(self, node: Node, body: Body) -> Target:
        """A field to store to, from a parameter of type field, stack_field or expression (an lvalue)."""
        kind = node["type"].text()
        if kind == "field":
            header, chosen = self.program.field(node["value"])
            return Target(self.layout.place(header), header.type.by_name[chosen.name])
        if kind == "stack_field":
            stack, index = self.stack_field(node["value"])
            return Target(self.layout.last(stack), index)
        if kind == "expression":
            inner = node["value"]
            if inner.get("type").value is not None:
                return self.target(inner, body)
            if inner["op"].text() == "access_field":
                return self.accessed(inner, body)
        raise node.fail("expected something that can be assigned: a field")

    def accessed(self, node: Node, body: Body) -> Target:
        place = self.header(node["left"], body)
        return Target(place, node["right"].integer(0, len(place.type.fields) - 1))

    def stack_field(self, node: Node) -> tuple[Stack, int]:
        stack_node, field_node = node.tuple(2)
        stack = self.program.stacks.get(stack_node.text())
        if stack is None:
            raise stack_node.fail(f"there is no header stack '{stack_node.value}'")
        index = stack.type.by_name.get(field_node.text())
        if index is None:
            raise field_node.fail(f"header type '{stack.type.name}' has no field '{field_node.value}'")
        return stack, index

    def find(self, table: dict[str, Any], node: Node, what: str) -> Any:
        """A named object; ProgramError if there is none."""
        found = table.get(node.text())
        if found is None:
            raise node.fail(f"there is no {what} '{node.value}'")
        return found

    def read(self, target: Target, at: Node) -> Data:
        """The value of a field."""
        if target.field.varbit:
            raise at.fail(f"varbit '{target.field.name}' cannot be used as a number")
        return stored(target.lvalue, target.field.width, target.field.signed)

    def param(self, node: Node) -> Data:
        """An argument of the enclosing action."""
        index = node.integer(0, len(self.params) - 1)
        offset = sum(limbs(width) for _, width in self.params[:index])
        width = self.params[index][1]
        return stored(f"A[{offset}]" if width <= 64 else f"(A + {offset})", width)

    # ---- the tree ----

    def data(self, node: Node, body: Body) -> Data:
        """An integer."""
        return self.number(self.value(node, body), node)

    @staticmethod
    def number(value: Value, node: Node) -> Data:
        """A value that must be an integer; conditions count as 0 or 1."""
        if isinstance(value, Bool):
            return Raw(0, 1, f"(uint64_t)({value.code} ? 1 : 0)")
        if not isinstance(value, Data):
            raise node.fail("expected a number")
        return value

    def boolean(self, node: Node, body: Body) -> str:
        """A condition."""
        value = self.value(node, body)
        if isinstance(value, Data):
            return self.truth(value, body)
        if not isinstance(value, Bool):
            raise node.fail("expected a condition")
        return value.code

    def header(self, node: Node, body: Body) -> Place:
        """A header."""
        value = self.value(node, body)
        if not isinstance(value, HeaderValue):
            raise node.fail("expected a header")
        return value.place

    def truth(self, value: Data, body: Body) -> str:
        """Whether it is not zero."""
        if value.unsigned64 or value.signed64:
            return f"({value.u64(body)} != 0)"
        n = value.exact_limbs
        name = value.wide(body, n)
        return "(" + " || ".join(f"{name}[{i}]" for i in range(n)) + ")"

    def value(self, node: Node, body: Body) -> Value:
        """Anything: dispatch on the type."""
        kind = node["type"].text()
        where = node["value"]
        if kind == "expression":
            if where.get("op").missing:
                return self.value(where, body)
            return self.operation(where, body)
        if kind in ("field", "stack_field"):
            if kind == "field":
                header_node, field_node = where.tuple(2)
                if field_node.value == "$valid$":
                    found = self.find(self.program.headers, header_node, "header")
                    return Raw(0, 1, f"(uint64_t){self.layout.place(found).valid}")
            return self.read(self.target(node, body), node)
        if kind == "hexstr":
            number = where.hexstr()
            return Const(number, number)
        if kind == "bool":
            return Bool("1" if where.boolean() else "0")
        if kind in ("local", "runtime_data"):
            return self.param(where)
        if kind == "header":
            return HeaderValue(self.layout.place(self.find(self.program.headers, where, "header")))
        if kind == "header_stack":
            return StackValue(self.find(self.program.stacks, where, "header stack"))
        if kind == "header_union":
            union = self.find(self.program.unions, where, "header union")
            return UnionValue(union, self.layout.union_lvalue(union))
        if kind == "header_union_stack":
            return UnionStackValue(self.find(self.program.union_stacks, where, "header union stack"))
        if kind == "register":
            array = self.find(self.program.registers, where[0], "register")
            index = body.temp()
            body.add(f"uint64_t {index} = {self.data(where[1], body).amount(body)};")
            body.add(f"if ({index} > {array.size}) {index} = {array.size};")
            text = register_cell(array, self.program.registers.values(), index)
            return stored(text, array.width)
        raise node.fail(f"'{kind}' cannot be part of an expression")

    def operation(self, node: Node, body: Body) -> Value:
        """An operator node."""
        op = node["op"].text()
        if op in ("and", "or"):
            sign = "&&" if op == "and" else "||"
            return Bool(f"({self.boolean(node['left'], body)} {sign} {self.boolean(node['right'], body)})")
        if op == "not":
            return Bool(f"(!{self.boolean(node['right'], body)})")
        if op == "d2b":
            return Bool(self.truth(self.data(node["right"], body), body))
        if op == "b2d":
            return Raw(0, 1, f"(uint64_t)({self.boolean(node['right'], body)} ? 1 : 0)")
        if op == "valid":
            return Bool(self.header(node["right"], body).valid)
        if op == "valid_union":
            union = self.value(node["right"], body)
            if not isinstance(union, UnionValue):
                raise node["right"].fail("expected a header union")
            return Bool(
                "(" + " || ".join(f"{union.lvalue}.m{i}.valid" for i in range(len(union.union.members))) + ")"
            )
        if op in _COMPARE:
            return self.compare(op, node, body)
        if op in _ARITHMETIC:
            right = self.data(node["right"], body)
            left = Const(0, 0) if node["left"].missing and op in "+-" else self.data(node["left"], body)
            return binary(op, left, right, node)
        if op == "~":
            right = self.data(node["right"], body)
            return Invert(~right.high, ~right.low, right)
        if op == "?":
            cond = body.temp()
            body.add(f"int {cond} = {self.boolean(node['cond'], body)};")
            left_value, right_value = self.value(node["left"], body), self.value(node["right"], body)
            if isinstance(left_value, Bool) and isinstance(right_value, Bool):
                return Bool(f"({cond} ? {left_value.code} : {right_value.code})")
            a, b = self.number(left_value, node["left"]), self.number(right_value, node["right"])
            return Choose(min(a.low, b.low), max(a.high, b.high), cond, a, b)
        if op in ("two_comp_mod", "usat_cast", "sat_cast"):
            return self.cast(op, node, body)
        return self.structure(op, node, body)

    def cast(self, op: str, node: Node, body: Body) -> Data:
        """Casts to a constant width."""
        source = self.data(node["left"], body)
        bits = self.data(node["right"], body)
        if bits.low != bits.high or not 1 <= bits.low <= MAX_BITS:
            raise node["right"].fail(f"expected a constant width in 1..{MAX_BITS}")
        width = bits.low
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        if op == "two_comp_mod":
            return (
                source if low <= source.low and source.high <= high else SignExtend(low, high, source, width)
            )
        if op == "usat_cast":
            low, high = 0, (1 << width) - 1
        if low <= source.low and source.high <= high:
            return source
        return Saturate(low, high, source)

    def structure(self, op: str, node: Node, body: Body) -> Value:
        """Stacks, unions and their parts."""
        if op == "access_field":
            return self.read(self.accessed(node, body), node)
        if op in ("last_stack_index", "size_stack"):
            stack = self.value(node["right"], body)
            if not isinstance(stack, (StackValue, UnionStackValue)):
                raise node["right"].fail("expected a header stack")
            depth = len(stack.stack.headers) if isinstance(stack, StackValue) else len(stack.stack.unions)
            count = f"(uint64_t){self.layout.next_of(stack.stack)}"
            return Raw(0, depth, count) if op == "size_stack" else Raw(-1, depth - 1, f"({count} - 1)")
        if op == "dereference_header_stack":
            stack = self.value(node["left"], body)
            if not isinstance(stack, StackValue):
                raise node["left"].fail("expected a header stack")
            index = self.data(node["right"], body).amount(body)
            return HeaderValue(self.layout.element(stack.stack, index))
        if op == "dereference_union_stack":
            ustack = self.value(node["left"], body)
            if not isinstance(ustack, UnionStackValue):
                raise node["left"].fail("expected a header union stack")
            index = self.data(node["right"], body).amount(body)
            unions = ustack.stack.unions
            lvalue = f"P->us{ustack.stack.index}[xf_element({index}, {len(unions)})]"
            return UnionValue(unions[0], lvalue)
        if op == "access_union_header":
            union = self.value(node["left"], body)
            if not isinstance(union, UnionValue):
                raise node["left"].fail("expected a header union")
            member = node["right"].integer(0, len(union.union.members) - 1)
            return HeaderValue(self.layout.member(union.lvalue, union.union, member))
        raise node["op"].fail(f"operator '{op}' is not known")

    def compare(self, op: str, node: Node, body: Body) -> Bool:
        """A comparison of numbers, or equality of conditions, headers or unions."""
        varbits = [self.varbit(node[side], body) for side in ("left", "right")]
        if varbits[0] and varbits[1] and op in ("==", "!="):
            x, y = varbits[0].lvalue, varbits[1].lvalue
            return Bool(f"({'' if op == '==' else '!'}({x}n == {y}n && !memcmp({x}, {y}, {x}n / 8)))")
        left, right = self.value(node["left"], body), self.value(node["right"], body)
        if isinstance(left, (HeaderValue, UnionValue)) and op in ("==", "!="):
            return Bool(("" if op == "==" else "!") + self.same(left, right, node))
        if isinstance(left, Bool) and isinstance(right, Bool) and op in ("==", "!="):
            return Bool(f"(!{left.code} {op} !{right.code})")
        a, b = self.number(left, node["left"]), self.number(right, node["right"])
        if a.unsigned64 and b.unsigned64:
            return Bool(f"({a.u64(body)} {op} {b.u64(body)})")
        if a.signed64 and b.signed64:
            return Bool(f"((int64_t){a.u64(body)} {op} (int64_t){b.u64(body)})")
        n = max(a.exact_limbs, b.exact_limbs)
        if 64 * n > MAX_BITS:
            raise node.fail(f"a compared value can exceed {MAX_BITS} bits")
        return Bool(f"(xf_w_cmp({a.wide(body, n)}, {b.wide(body, n)}, {n}) {op} 0)")

    def varbit(self, node: Node, body: Body) -> Target | None:
        """The varbit field that a place names, if it names one."""
        if node.missing or node["type"].value not in ("field", "stack_field"):
            return None
        if node["type"].value == "field" and node["value"][1].value == "$valid$":
            return None
        target = self.target(node, body)
        return target if target.field.varbit else None

    def same(self, left: Value, right: Value, at: Node) -> str:
        """Equality of headers or unions."""
        if isinstance(left, HeaderValue) and isinstance(right, HeaderValue):
            if left.place.type is right.place.type and not left.place.metadata:
                return f"equal_T{left.place.type.index}(&{left.place.lvalue}, &{right.place.lvalue})"
        elif (
            isinstance(left, UnionValue)
            and isinstance(right, UnionValue)
            and left.union.type == right.union.type
        ):
            tests = [
                f"equal_T{m.type.index}(&{left.lvalue}.m{i}, &{right.lvalue}.m{i})"
                for i, m in enumerate(left.union.members)
            ]
            return "(" + " && ".join(tests) + ")"
        raise at.fail("only headers or header unions of one type can be compared")

    # ---- stores ----

    def store(self, target: Target, value: Data, body: Body, at: Node) -> None:
        """Assign a number to a field, modulo its width."""
        f = target.field
        if f.varbit:
            raise at.fail(f"varbit '{f.name}' cannot be assigned a number")
        self.store_bits(target.lvalue, f.width, value, body)

    @staticmethod
    def store_bits(lvalue: str, width: int, value: Data, body: Body) -> None:
        """Assign to an integer or limb lvalue of `width` bits."""
        if not width:
            return
        if width <= 64:
            text = value.u64(body)
            if width < 64 and (value.low < 0 or value.high >= 1 << width):
                text = f"({text}) & {(1 << width) - 1:#x}ul"
            body.add(f"{lvalue} = {text};")
            return
        n = limbs(width)
        name = value.wide(body, n)
        body.add(f"memcpy({lvalue}, {name}, {8 * n});")
        if value.low < 0 or value.high >= 1 << width:
            body.add(f"xf_w_mask({lvalue}, {n}, {width});")
