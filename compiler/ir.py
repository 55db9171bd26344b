"""The low-level program between lowering and BMv2 JSON: calls are gone, every name is a storage cell of the switch.

Storage is what BMv2 has: header instances (metadata are headers that are never emitted) with scalar fields, and
stacks of header instances. Expressions are pure. Everything with an effect is a statement, and statements are
structured: `If`, `Block` (left by `Leave`), `Loop`, `Apply`. Parser states hold statements, too;
`compiler.parser_states` cuts those into the straight lines that BMv2 knows.

Every expression's value is the exact value of its P4 type (unsigned: 0 ≤ v < 2^width; signed: two's complement range).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

# --------------------------------------------------------------------------- scalar types


@dataclass(frozen=True)
class Scalar:
    """The type of a cell: `bit`, `int` (two's complement), `bool` (1 bit stored) or `varbit` (`width`: its maximum)."""

    kind: str
    width: int


BOOL = Scalar("bool", 1)
_SCALARS: dict[tuple[str, int], Scalar] = {}


def bits(width: int, signed: bool = False) -> Scalar:
    """`bit<width>` or `int<width>`."""
    key = ("int" if signed else "bit", width)
    found = _SCALARS.get(key)
    if found is None:
        found = _SCALARS[key] = Scalar(*key)
    return found


# --------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Const:
    """A constant; for `bool` 0 or 1."""

    value: int
    type: Scalar


@dataclass(frozen=True)
class Field:
    """A field of a header instance. The field `$valid$` (bool, read only) is the header's validity."""

    header: str
    field: str
    type: Scalar


@dataclass(frozen=True)
class Param:
    """An action's run-time parameter."""

    index: int
    type: Scalar


@dataclass(frozen=True)
class LastField:
    """A field of the last valid element of a stack (parser)."""

    stack: str
    field: str
    type: Scalar


@dataclass(frozen=True)
class ElementField:
    """A field of the stack's element `index`; `offset` is the field's position in the header."""

    stack: str
    index: Expr
    field: str
    offset: int
    type: Scalar


@dataclass(frozen=True)
class ElementValid:
    """Validity of the stack's element `index`."""

    stack: str
    index: Expr
    type: Scalar = BOOL


@dataclass(frozen=True)
class UnionStackField:
    """A field of member `member` of the last valid union of a stack (parser, select keys only)."""

    stack: str
    member: str
    field: str
    type: Scalar


@dataclass(frozen=True)
class LastIndex:
    """Index of the last valid element of a stack."""

    stack: str
    type: Scalar = bits(32)


@dataclass(frozen=True)
class Lookahead:
    """`width` bits of the packet, not consumed, after `offset` bits (parser)."""

    offset: int
    type: Scalar


@dataclass(frozen=True)
class Unary:
    """`-` `~` (modulo the width), `not`, `b2d` (bool to bit<1>), `d2b` (bit<1> to bool)."""

    op: str
    value: Expr
    type: Scalar


@dataclass(frozen=True)
class Wrap:
    """`value` reduced to `type`: the low bits, as a two's complement number if `type` is signed."""

    value: Expr
    type: Scalar


@dataclass(frozen=True)
class Binary:
    """`+ - * / % << >> & | ^` (modulo the width), `sat+ sat-`, `== != < <= > >=`, `and or`."""

    op: str
    left: Expr
    right: Expr
    type: Scalar


@dataclass(frozen=True)
class Clamp:
    """An index into `size` elements: `value`, or 0 when that is out of bounds (then nothing may be written)."""

    value: Expr
    size: int
    type: Scalar


@dataclass(frozen=True)
class Mux:
    """`condition ? yes : no`."""

    condition: Expr
    yes: Expr
    no: Expr
    type: Scalar


Expr: TypeAlias = (
    "Const | Field | Param | LastField | ElementField | ElementValid | UnionStackField | LastIndex | Lookahead "
    "| Unary | Wrap | Binary | Clamp | Mux"
)

LValue: TypeAlias = "Field | ElementField | LastField"

TRUE = Const(1, BOOL)
FALSE = Const(0, BOOL)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Operands."""
    if isinstance(expr, Binary):
        return (expr.left, expr.right)
    if isinstance(expr, Unary | Wrap | Clamp):
        return (expr.value,)
    if isinstance(expr, Mux):
        return (expr.condition, expr.yes, expr.no)
    if isinstance(expr, ElementField | ElementValid):
        return (expr.index,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything in it."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def cells(expr: Expr) -> set[tuple[str, str]]:
    """What an expression reads: (header or stack, field); `*` for a whole stack."""
    found: set[tuple[str, str]] = set()
    for part in walk(expr):
        if isinstance(part, Field):
            found.add((part.header, part.field))
        elif isinstance(part, ElementField | ElementValid | LastField | LastIndex | UnionStackField):
            found.add((part.stack, "*"))
        elif isinstance(part, Lookahead):
            found.add(("", "packet"))
    return found


# --------------------------------------------------------------------------- headers as operands


@dataclass(frozen=True)
class HeaderRef:
    """A header instance by name, or (index given) the element of a header stack."""

    name: str
    index: Expr | None = None


@dataclass(frozen=True)
class NextElement:
    """The place after the last valid element of a stack (extract only); `member`: in a stack of unions."""

    stack: str
    member: str | None = None


@dataclass(frozen=True)
class Named:
    """An operand that is an object: BMv2's type word and the object's name."""

    kind: str
    name: str


@dataclass(frozen=True)
class Vector:
    """A list of values (log_msg)."""

    items: tuple[Expr, ...]


Operand: TypeAlias = "Expr | HeaderRef | Named | Vector"


# --------------------------------------------------------------------------- statements


@dataclass(eq=False)
class Stmt:
    """`pos` is the place in the P4 source, -1 when there is none."""

    pos: int = field(default=-1, kw_only=True)


@dataclass(eq=False)
class Assign(Stmt):
    """`target = value` (also varbit, where both sides are fields)."""

    target: LValue
    value: Expr


@dataclass(eq=False)
class CopyHeader(Stmt):
    """Fields and validity."""

    target: HeaderRef
    source: HeaderRef


@dataclass(eq=False)
class SetValid(Stmt):
    header: HeaderRef


@dataclass(eq=False)
class SetInvalid(Stmt):
    header: HeaderRef


@dataclass(eq=False)
class Primitive(Stmt):
    """Any other BMv2 primitive."""

    op: str
    args: tuple[Operand, ...]


@dataclass(eq=False)
class Extract(Stmt):
    """Parser: fill the header from the packet; `length` (bits) for its varbit field."""

    header: HeaderRef | NextElement
    length: Expr | None = None


@dataclass(eq=False)
class Advance(Stmt):
    """Parser: skip bits."""

    amount: Expr


@dataclass(eq=False)
class Verify(Stmt):
    """Parser: stop with `error` unless `condition`."""

    condition: Expr
    error: Expr


@dataclass(eq=False)
class If(Stmt):
    condition: Expr
    then: list[Stmt]
    otherwise: list[Stmt]


@dataclass(eq=False)
class Block(Stmt):
    """`Leave(label)` inside continues after it."""

    label: int
    body: list[Stmt]


@dataclass(eq=False)
class Leave(Stmt):
    """Go to the end of the enclosing Block `label`; label 0 is the whole pipeline or action."""

    label: int


@dataclass(eq=False)
class Loop(Stmt):
    """Repeats for ever; left by `Leave` of an outer Block."""

    body: list[Stmt]


@dataclass(eq=False)
class Exit(Stmt):
    """In a table's action: no more of this pipeline after the action."""


@dataclass(eq=False)
class Apply(Stmt):
    """Look the packet up; then the arm of the action that ran, or of hit/miss, then what follows."""

    table: Table
    hit: list[Stmt] | None = None
    miss: list[Stmt] | None = None
    actions: dict[Action, list[Stmt]] | None = None
    otherwise: list[Stmt] | None = None
    """For actions that are not in `actions`."""


@dataclass(eq=False)
class SubParser(Stmt):
    """Parser: run these states from the first one; reaching accept continues after it."""

    states: list[State]


def trim_tail(body: list[Stmt], label: int) -> None:
    """Drop `Leave(label)` where the end of block `label` follows anyway."""
    while body and isinstance(body[-1], Leave) and body[-1].label == label:
        body.pop()
    if body and isinstance(body[-1], If):
        trim_tail(body[-1].then, label)
        trim_tail(body[-1].otherwise, label)
    elif body and isinstance(body[-1], Block):
        trim_tail(body[-1].body, label)


def inner_lists(stmt: Stmt) -> list[list[Stmt]]:
    """The statement lists inside a statement."""
    if isinstance(stmt, If):
        return [stmt.then, stmt.otherwise]
    if isinstance(stmt, Block | Loop):
        return [stmt.body]
    if isinstance(stmt, Apply):
        arms = [stmt.hit, stmt.miss, stmt.otherwise, *(stmt.actions or {}).values()]
        return list({id(arm): arm for arm in arms if arm is not None}.values())
    if isinstance(stmt, SubParser):
        return [state.body for state in stmt.states]
    return []


def leads_to(body: list[Stmt], label: int) -> bool:
    """Whether `body` has a `Leave(label)`."""
    for stmt in body:
        if isinstance(stmt, Leave):
            if stmt.label == label:
                return True
        elif any(leads_to(inner, label) for inner in inner_lists(stmt)):
            return True
    return False


# --------------------------------------------------------------------------- parsers


@dataclass(eq=False)
class Case:
    """One way out of a select: a (value, mask) per key, mask None = all bits; or a value set; neither = default."""

    target: State | None
    """None: accept."""
    keys: list[tuple[int, int | None]] | None = None
    value_set: str | None = None


@dataclass(eq=False)
class State:
    """A parser state."""

    name: str
    body: list[Stmt] = field(default_factory=list)
    keys: list[Expr] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    """Tried in order; the last one may be a default. None of them: error NoMatch."""
    pos: int = -1


REJECT = State("reject")
"""Transition target: the parser stops with an error."""


# --------------------------------------------------------------------------- tables


@dataclass(eq=False)
class Action:
    """An action that tables name; `name` is the control-plane name."""

    name: str
    params: list[tuple[str, Scalar]]
    body: list[Stmt]
    pos: int = -1
    hidden: bool = False
    can_exit: bool = False


@dataclass(eq=False)
class Key:
    """`field` is what is looked up; `name` the control-plane name."""

    field: Field
    match: str
    name: str
    mask: int | None = None


@dataclass(eq=False)
class Match:
    """One component of an entry: exact (value), ternary (value, mask), lpm (value, prefix), range (value, high)."""

    value: int
    mask: int = 0
    prefix: int = 0
    high: int = 0


@dataclass(eq=False)
class Entry:
    """One row; smaller `priority` wins."""

    matches: list[Match]
    action: Action
    args: list[int]
    priority: int
    pos: int = -1


@dataclass(eq=False)
class Table:
    """A match-action table."""

    name: str
    keys: list[Key]
    actions: list[Action]
    default: Action | None
    default_args: list[int]
    default_const: bool
    size: int
    entries: list[Entry] | None = None
    support_timeout: bool = False
    counters: bool = False
    meter: str | None = None
    profile: str | None = None
    selector: bool = False
    pos: int = -1


# --------------------------------------------------------------------------- the whole


@dataclass(eq=False)
class HeaderLayout:
    """A header type: (field, scalar type) in order."""

    name: str
    fields: list[tuple[str, Scalar]]
    aliases: list[tuple[str, str]] = field(default_factory=list)


@dataclass(eq=False)
class Instance:
    """A header instance."""

    name: str
    layout: HeaderLayout
    metadata: bool


@dataclass(eq=False)
class StackLayout:
    """A header stack: its elements are instances `name[0]`…"""

    name: str
    layout: HeaderLayout
    size: int


@dataclass(eq=False)
class UnionLayout:
    """A header union: its members are instances `name.member`."""

    name: str
    type_name: str
    members: list[tuple[str, HeaderLayout]]


@dataclass(eq=False)
class UnionStackLayout:
    """A stack of unions `name[0]`…"""

    name: str
    type_name: str
    size: int


@dataclass(eq=False)
class Calculation:
    """A hash or checksum input; `inputs` are fields and constants, `payload` appends what follows the last header."""

    name: str
    algorithm: str
    inputs: list[Expr]
    payload: bool = False
    pos: int = -1


@dataclass(eq=False)
class Checksum:
    """`target` is verified against, or updated with, the calculation if `condition` holds."""

    name: str
    target: Field
    calculation: str
    verify: bool
    condition: Expr
    pos: int = -1


@dataclass(eq=False)
class Pipeline:
    """`ingress` or `egress`."""

    name: str
    body: list[Stmt]
    pos: int = -1


@dataclass(eq=False)
class Unit:
    """Everything the JSON writer needs."""

    layouts: list[HeaderLayout] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    stacks: list[StackLayout] = field(default_factory=list)
    unions: list[UnionLayout] = field(default_factory=list)
    union_stacks: list[UnionStackLayout] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    enums: list[tuple[str, list[tuple[str, int]]]] = field(default_factory=list)
    parser: list[State] = field(default_factory=list)
    value_sets: list[tuple[str, int, int]] = field(default_factory=list)
    """(name, bits, size)."""
    actions: list[Action] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    deparser: list[str] = field(default_factory=list)
    deparser_body: list[Stmt] = field(default_factory=list)
    calculations: list[Calculation] = field(default_factory=list)
    checksums: list[Checksum] = field(default_factory=list)
    field_lists: list[tuple[int, str, list[Field]]] = field(default_factory=list)
    learn_lists: list[tuple[int, str, list[Field]]] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)
    meters: list[dict[str, Any]] = field(default_factory=list)
    registers: list[dict[str, Any]] = field(default_factory=list)
    profiles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Per pipeline name."""
