"""A BMv2 JSON program, read and checked: what the generator and the binding know about it.

The format is p4lang's behavioral-model `docs/JSON_format.md`, version 2. Expressions and primitives are kept as places
in the document (`Node`) and checked by the generator, which knows what each of them needs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from switch.native.document import Node, ProgramError

__all__ = ["Program", "ProgramError"]

NO_ACTION = 0xFFFFFFFF
MAX_FIELD_BITS = 64 * 64
MAX_VARBIT_BITS = 8 * 2048


def limbs(bits: int) -> int:
    """64-bit words that hold `bits`."""
    return max(1, (bits + 63) // 64)


@dataclass(frozen=True)
class Field:
    """A field of a header type; `width` in bits, for a varbit its maximum."""

    name: str
    width: int
    signed: bool = False
    varbit: bool = False


@dataclass
class HeaderType:
    """A header or metadata type."""

    index: int
    name: str
    fields: list[Field]
    by_name: dict[str, int]
    node: Node

    @property
    def fixed_bits(self) -> int:
        """Bits without the varbit."""
        return sum(f.width for f in self.fields if not f.varbit)

    @property
    def varbit(self) -> Field | None:
        """Its varbit, if any."""
        return next((f for f in self.fields if f.varbit), None)


@dataclass
class Header:
    """A header or metadata instance and where it lives: alone, in a stack, in a union or a union in a stack."""

    index: int
    id: int
    name: str
    type: HeaderType
    metadata: bool
    stack: tuple[int, int] | None = None
    """(stack index, element)."""
    union: tuple[int, int] | None = None
    """(union index, member)."""


@dataclass
class Stack:
    """A header stack."""

    index: int
    name: str
    type: HeaderType
    headers: list[Header]


@dataclass
class Union:
    """A header union instance."""

    index: int
    name: str
    type: str
    members: list[Header]
    member_names: list[str]
    stack: tuple[int, int] | None = None


@dataclass
class UnionStack:
    """A stack of header unions."""

    index: int
    name: str
    unions: list[Union]


@dataclass
class Action:
    """An action function; parameters are (name, width in bits)."""

    index: int
    id: int
    name: str
    params: list[tuple[str, int]]
    primitives: Node

    @property
    def words(self) -> int:
        """64-bit words of its arguments."""
        return sum(limbs(w) for _, w in self.params)

    def encode(self, args: list[int] | tuple[int, ...]) -> list[int]:
        """Arguments as words; ValueError says what does not fit."""
        if len(args) != len(self.params):
            raise ValueError(
                f"action '{self.name}' takes {len(self.params)} arguments, {len(args)} were given"
            )
        words: list[int] = []
        for value, (name, width) in zip(args, self.params, strict=True):
            if not 0 <= value < 1 << width:
                raise ValueError(
                    f"argument '{name}' of action '{self.name}': {value:#x} does not fit {width} bits"
                )
            words += split(value, limbs(width))
        return words


@functools.lru_cache(maxsize=8)
def _read(json_text: str, p4info_text: str | None) -> Program:
    from switch.native.program_reader import Reader

    return Reader(json_text, p4info_text).program()


def split(value: int, count: int) -> list[int]:
    """`count` 64-bit limbs of a non-negative value, least significant first."""
    return [(value >> 64 * i) & 0xFFFFFFFFFFFFFFFF for i in range(count)]


def join(words: list[int]) -> int:
    """The value of limbs, least significant first."""
    return sum(w << 64 * i for i, w in enumerate(words))


@dataclass(frozen=True)
class KeyField:
    """One element of a table's key and where it lies in the key words.

    A field of at most 64 bits occupies `width` bits from `shift` in `word`; a wider one, and every range field, whole
    words from `word` on.
    """

    kind: str
    """exact, lpm, ternary, range, optional or valid."""
    name: str
    header: str
    field: str
    """Empty for `valid`."""
    width: int
    mask: int | None
    """The table's static mask."""
    word: int
    shift: int

    @property
    def words(self) -> int:
        """Words it occupies (it may share its only one)."""
        return limbs(self.width)


@dataclass
class Table:
    """A match-action table."""

    index: int
    name: str
    pipeline: str
    match_type: str
    key: list[KeyField]
    key_words: int
    actions: list[Action]
    next_tables: dict[str, str | None]
    """Action name, or __HIT__ and __MISS__."""
    default_next: str | None
    size: int
    profile: int | None
    with_counters: bool
    with_timeout: bool
    meter: str | None
    default_action: Action | None
    default_args: tuple[int, ...]
    default_const: bool
    entries: list[ConstEntry]
    entries_const: bool
    """Whether they are for ever, and none can be added."""
    node: Node

    @property
    def ranges(self) -> list[KeyField]:
        """Its range fields, in key order."""
        return [k for k in self.key if k.kind == "range"]

    @property
    def range_words(self) -> int:
        """Words of an entry's range operands."""
        return sum(2 * k.words for k in self.ranges)

    @property
    def arg_words(self) -> int:
        """Words of its widest action's arguments."""
        return max((a.words for a in self.actions), default=0)

    @property
    def ranked(self) -> bool:
        """Whether its entries have priorities."""
        return any(k.kind in ("ternary", "range", "optional") for k in self.key)

    def action(self, name: str) -> Action:
        """One of its actions by name; ValueError otherwise."""
        for action in self.actions:
            if action.name == name:
                return action
        names = ", ".join(a.name for a in self.actions)
        raise ValueError(f"table '{self.name}' has no action '{name}' (it has {names})")


@dataclass(frozen=True)
class ConstEntry:
    """An entry written in the program. `priority`: larger wins."""

    key: tuple[tuple[int | str, ...], ...]
    action: Action
    args: tuple[int, ...]
    priority: int
    rank: int
    """Its priority in the JSON: smaller wins."""


@dataclass
class Conditional:
    """An `if` of a control."""

    name: str
    expression: Node
    true_next: str | None
    false_next: str | None


@dataclass
class ActionCall:
    """A direct call of an action."""

    name: str
    action: Action
    next: str | None


@dataclass
class Pipeline:
    """ingress or egress: nodes by name."""

    name: str
    first: str | None
    nodes: dict[str, Table | Conditional | ActionCall]
    node: Node


@dataclass
class Profile:
    """An action profile; `selector` is (algorithm, inputs) if it has groups."""

    index: int
    name: str
    size: int
    selector: tuple[str, Node] | None
    tables: list[Table] = field(default_factory=list)

    @property
    def arg_words(self) -> int:
        """Words of the widest action of its tables."""
        return max((t.arg_words for t in self.tables), default=0)

    def action(self, name: str) -> Action:
        """An action of its tables by name; ValueError otherwise."""
        for table in self.tables:
            for action in table.actions:
                if action.name == name:
                    return action
        raise ValueError(f"no table of action profile '{self.name}' has an action '{name}'")


@dataclass(frozen=True)
class Array:
    """A counter, register or meter array, or a value set (then `width` bits a value)."""

    index: int
    name: str
    size: int
    width: int = 64
    bytes: bool = False


@dataclass(frozen=True)
class DirectMeter:
    """A direct meter: where its colour goes."""

    name: str
    bytes: bool
    target: Node


@dataclass(frozen=True)
class DigestList:
    """A learn list: the fields of a digest."""

    id: int
    name: str
    elements: Node


@dataclass(frozen=True)
class Checksum:
    """A checksum to verify, update or both."""

    name: str
    target: Node
    calculation: str
    update: bool
    verify: bool
    condition: Node


@dataclass
class Program:
    """A checked program. Objects are found by their JSON names; `index` is their number in the engine."""

    json_text: str
    p4info_text: str | None
    header_types: dict[str, HeaderType]
    headers: dict[str, Header]
    stacks: dict[str, Stack]
    unions: dict[str, Union]
    union_stacks: dict[str, UnionStack]
    aliases: dict[str, tuple[str, str]]
    """BMv2's field name -> the program's (header, field)."""
    errors: dict[str, int]
    actions: list[Action]
    tables: dict[str, Table]
    profiles: dict[str, Profile]
    counters: dict[str, Array]
    direct_counters: dict[str, str]
    """Name -> the table it is attached to."""
    meters: dict[str, Array]
    direct_meters: dict[str, DirectMeter]
    direct_meter_tables: dict[str, str]
    """Name -> the table it is attached to."""
    registers: dict[str, Array]
    value_sets: dict[str, Array]
    digests: dict[int, DigestList]
    field_lists: dict[int, Node]
    calculations: dict[str, tuple[str, Node]]
    checksums: list[Checksum]
    pipelines: dict[str, Pipeline]
    parser: Node | None
    deparser: Node | None
    pause_register: str | None
    """The register annotated `@xoff_queue_pause`."""
    takes_refused: bool
    """A register is annotated `@xoff_refused`: what the traffic manager refuses passes egress as for the drop port."""
    root: Node
    log_messages: list[tuple[str, bool]] = field(default_factory=list)
    """Filled by the generator: (format or source text, is an assert) by message number."""
    digest_widths: dict[int, list[int]] = field(default_factory=dict)
    """Filled by the generator: field widths by list id."""
    value_set_widths: dict[str, list[int]] = field(default_factory=dict)
    """Filled by the generator: widths of the fields a set is matched with."""

    @staticmethod
    def from_text(json_text: str, p4info_text: str | None = None) -> Program:
        """Read BMv2 JSON; the P4Info text names the annotated registers. Raises ProgramError.

        The same texts give the same object, so that the switches of a fabric share one.
        """
        return _read(json_text, p4info_text)

    def field(self, node: Node) -> tuple[Header, Field]:
        """The (header, field) that a `[header, field]` place names."""
        header_node, field_node = node.tuple(2)
        header = self.headers.get(header_node.text())
        if header is None:
            raise header_node.fail(f"there is no header '{header_node.value}'")
        index = header.type.by_name.get(field_node.text())
        if index is None:
            raise field_node.fail(f"header '{header.name}' has no field '{field_node.value}'")
        return header, header.type.fields[index]


def lay_out_key(fields: list[tuple[str, str, str, str, int, int | None]]) -> tuple[list[KeyField], int]:
    """Place key fields (kind, name, header, field, width, mask) in 64-bit words.

    Fields share words in order when they fit; wide and range fields start their own.
    """
    placed: list[KeyField] = []
    word = used = 0
    for kind, name, header, field_name, width, mask in fields:
        alone = width > 64 or kind == "range"
        if used and (alone or used + width > 64):
            word, used = word + 1, 0
        placed.append(KeyField(kind, name, header, field_name, width, mask, word, used))
        if alone:
            word, used = word + limbs(width), 0
        else:
            used += width
    return placed, word + (1 if used else 0)
