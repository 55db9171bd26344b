"""What a P4 expression is while it is being lowered: a scalar expression, or an aggregate of places and expressions.

A value made of places (cells, header instances, stacks) can also be assigned to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from compiler import ir, tree, types


@dataclass(eq=False)
class Record:
    """A struct or tuple (fields `0`, `1`…), or an array (the same)."""

    type: types.Type
    fields: dict[str, Value]


@dataclass(eq=False)
class Header:
    """A header instance, or the element of a stack at a run-time index."""

    type: types.HeaderType
    ref: ir.HeaderRef
    layout: ir.HeaderLayout


@dataclass(eq=False)
class LastHeader:
    """`stack.last` (parser)."""

    type: types.HeaderType
    stack: str
    layout: ir.HeaderLayout


@dataclass(eq=False)
class NextHeader:
    """`stack.next`, or (with `member`) a header of it in a stack of unions (parser)."""

    type: types.Type
    stack: Stack
    member: str | None = None


@dataclass(eq=False)
class HeaderLiteral:
    """A header that is no instance; `valid` False and no fields: `{#}`."""

    type: types.Type
    valid: ir.Expr
    fields: dict[str, Value]


@dataclass(eq=False)
class Union:
    """A header union instance."""

    type: types.HeaderUnionType
    name: str
    members: dict[str, Header]


@dataclass(eq=False)
class Stack:
    """A header stack instance."""

    type: types.StackType
    name: str
    elements: list[Value]
    layout: ir.HeaderLayout | None
    """None for a stack of unions."""


@dataclass(eq=False)
class StackLiteral:
    """A stack that is no instance."""

    type: types.StackType
    elements: list[Value]


@dataclass(eq=False)
class Element:
    """An array's element at a run-time index."""

    type: types.Type
    elements: list[Value]
    index: ir.Expr


@dataclass(eq=False)
class Sliced:
    """Bits `high..low` of a scalar place, to be assigned to."""

    base: Value
    high: int
    low: int


@dataclass(eq=False)
class Packet:
    """`packet_in` or `packet_out`."""

    output: bool


@dataclass(eq=False)
class ExternObject:
    """An extern instance; `name` is its control-plane name."""

    name: str
    type: types.ExternType
    decl: tree.InstanceDecl | None
    arguments: dict[str, object]
    """Constructor arguments: int, EnumValue…"""
    pos: int


@dataclass(eq=False)
class BlockObject:
    """An instance of a control or parser."""

    name: str
    decl: tree.ControlDecl | tree.ParserDecl
    type: types.ApplicableType
    env: dict[object, object]
    """Bindings of constructor parameters; locals are added when the instance is applied."""
    cells: dict[object, Value] = field(default_factory=dict)
    """Storage of its variables, the same each time it is applied."""
    bound: list[Value] | None = None
    """Arguments of the first application, when its tables refer to them in place."""
    ready: bool = False
    """Its instances exist."""


@dataclass(eq=False)
class Text:
    """A string."""

    text: str


@dataclass(eq=False)
class Nothing:
    """`void`, or `_` as an argument."""


Value: TypeAlias = (
    "ir.Expr | Record | Header | LastHeader | NextHeader | HeaderLiteral | Union | Stack | StackLiteral | Element "
    "| Sliced | Packet | ExternObject | BlockObject | Text | Nothing"
)

SCALARS = (
    ir.Const,
    ir.Field,
    ir.Param,
    ir.LastField,
    ir.ElementField,
    ir.ElementValid,
    ir.UnionStackField,
    ir.LastIndex,
    ir.Lookahead,
    ir.Unary,
    ir.Wrap,
    ir.Binary,
    ir.Clamp,
    ir.Mux,
)


def leaves(value: Value) -> Iterator[Value]:
    """The scalars, headers, unions and stacks in a value."""
    if isinstance(value, Record):
        for field in value.fields.values():
            yield from leaves(field)
    else:
        yield value


def cells_read(value: Value) -> set[tuple[str, str]]:
    """The cells that a value depends on; (header, `*`) for a whole header or stack."""
    found: set[tuple[str, str]] = set()
    if isinstance(value, Record):
        for field in value.fields.values():
            found |= cells_read(field)
    elif isinstance(value, Header):
        found.add((value.ref.name, "*"))
        if value.ref.index is not None:
            found |= ir.cells(value.ref.index)
    elif isinstance(value, LastHeader):
        found.add((value.stack, "*"))
    elif isinstance(value, NextHeader):
        found |= cells_read(value.stack)
    elif isinstance(value, HeaderLiteral):
        found |= ir.cells(value.valid)
        for field in value.fields.values():
            found |= cells_read(field)
    elif isinstance(value, Union):
        for member in value.members.values():
            found |= cells_read(member)
    elif isinstance(value, Stack):
        found.add((value.name, "*"))
        for element in value.elements:
            found |= cells_read(element)
    elif isinstance(value, StackLiteral | Element):
        for element in value.elements:
            found |= cells_read(element)
        if isinstance(value, Element):
            found |= ir.cells(value.index)
    elif isinstance(value, Sliced):
        found |= cells_read(value.base)
    elif isinstance(value, SCALARS):
        found |= ir.cells(value)
    return found


def overlap(left: set[tuple[str, str]], right: set[tuple[str, str]]) -> bool:
    """Whether two sets of cells can share storage (a stack's elements are named `stack[i]`)."""
    if left & right:
        return True
    for one, other in ((left, right), (right, left)):
        whole = {name for name, field in one if field == "*"}
        if not whole:
            continue
        for name, _ in other:
            if name in whole or name.split("[", 1)[0] in whole:
                return True
    return False
