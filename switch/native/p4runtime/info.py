"""P4Info by id: what a request may name, with the widths it must keep.

A wrong P4Info (an id twice, a reference to nothing) is found here, when it is loaded, and not by a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from finsy.proto import p4i, p4r, p4t

from switch.native.p4runtime.errors import INVALID_ARGUMENT, OUT_OF_RANGE, P4RuntimeError

EXACT = p4i.MatchField.EXACT
LPM = p4i.MatchField.LPM
TERNARY = p4i.MatchField.TERNARY
RANGE = p4i.MatchField.RANGE
OPTIONAL = p4i.MatchField.OPTIONAL
MATCH_KINDS = (EXACT, LPM, TERNARY, RANGE, OPTIONAL)
PRIORITY_KINDS = (TERNARY, RANGE, OPTIONAL)
"""Match kinds whose entries need a priority."""


@dataclass(frozen=True)
class Value:
    """A number that travels as a byte string."""

    id: int
    name: str
    bitwidth: int
    """Bits on the P4Runtime side; 0 = an SDN string, translated by the server."""
    type_name: str = ""
    """The P4 `type` it has, where P4Info names one: values of one translated type share a dictionary."""


@dataclass(frozen=True)
class MatchField:
    """A key field of a table or value set."""

    value: Value
    kind: int


@dataclass(frozen=True)
class Action:
    """An action and its parameters in declaration order."""

    id: int
    name: str
    params: tuple[Value, ...]


@dataclass(frozen=True)
class ActionRef:
    """An action that a table may run."""

    action: Action
    in_table: bool
    in_default: bool


@dataclass(frozen=True)
class Table:
    """A match-action table."""

    id: int
    name: str
    fields: tuple[MatchField, ...]
    actions: Mapping[int, ActionRef]
    size: int
    const_default_action_id: int
    profile_id: int
    """Its action profile or selector; 0 = the table holds actions itself."""
    counter: p4i.DirectCounter | None
    meter: p4i.DirectMeter | None
    is_const: bool
    idle_timeout: bool
    needs_priority: bool


_Entity = TypeVar("_Entity", bound="_WithPreamble")


class _WithPreamble(Protocol):
    @property
    def preamble(self) -> p4i.Preamble: ...


class Info:
    """An indexed P4Info."""

    def __init__(self, message: p4i.P4Info) -> None:
        """Raises P4RuntimeError(INVALID_ARGUMENT) when `message` contradicts itself."""
        self.message = message
        self._strings = _string_types(message.type_info)
        self.actions = {
            action.preamble.id: Action(
                action.preamble.id,
                action.preamble.name,
                tuple(
                    Value(p.id, p.name, self._width(p.bitwidth, p.type_name.name), p.type_name.name)
                    for p in action.params
                ),
            )
            for action in message.actions
        }
        self.profiles = _by_id("action profile", message.action_profiles)
        self.counters = _by_id("counter", message.counters)
        self.meters = _by_id("meter", message.meters)
        self.registers = _by_id("register", message.registers)
        self.digests = _by_id("digest", message.digests)
        self.value_sets = _by_id("value set", message.value_sets)
        self.direct_counters = _by_id("direct counter", message.direct_counters)
        self.direct_meters = _by_id("direct meter", message.direct_meters)
        self.packet_metadata = {
            header.preamble.name: tuple(
                Value(m.id, m.name, self._width(m.bitwidth, m.type_name.name), m.type_name.name)
                for m in header.metadata
            )
            for header in message.controller_packet_metadata
        }
        self.tables = {table.preamble.id: self._table(table) for table in message.tables}
        if len(self.tables) != len(message.tables) or len(self.actions) != len(message.actions):
            raise P4RuntimeError(INVALID_ARGUMENT, "P4Info: a table or action id is used twice")

    def table(self, table_id: int) -> Table:
        """The table of that id; raises P4RuntimeError."""
        return _find("table", self.tables, table_id)

    def match_fields(self, fields: Iterable[p4i.MatchField]) -> tuple[MatchField, ...]:
        """Key fields with their widths; raises P4RuntimeError on a match kind nobody knows."""
        result = []
        for field in fields:
            if field.match_type not in MATCH_KINDS:
                kind = field.other_match_type or "unspecified"
                raise P4RuntimeError(
                    INVALID_ARGUMENT, f"P4Info: field {field.name!r} has match kind {kind}, which is unknown"
                )
            width = self._width(field.bitwidth, field.type_name.name)
            result.append(
                MatchField(Value(field.id, field.name, width, field.type_name.name), field.match_type)
            )
        return tuple(result)

    def _table(self, table: p4i.Table) -> Table:
        refs = {}
        for ref in table.action_refs:
            action = self.actions.get(ref.id)
            if action is None:
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"P4Info: table {table.preamble.name!r} names unknown action {ref.id:#x}",
                )
            refs[ref.id] = ActionRef(
                action, ref.scope != p4i.ActionRef.DEFAULT_ONLY, ref.scope != p4i.ActionRef.TABLE_ONLY
            )
        if table.implementation_id and table.implementation_id not in self.profiles:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"P4Info: table {table.preamble.name!r} names unknown action profile"
                f" {table.implementation_id:#x}",
            )
        resources = set(table.direct_resource_ids)
        counters = [c for c in self.direct_counters.values() if c.preamble.id in resources]
        meters = [m for m in self.direct_meters.values() if m.preamble.id in resources]
        fields = self.match_fields(table.match_fields)
        return Table(
            id=table.preamble.id,
            name=table.preamble.name,
            fields=fields,
            actions=refs,
            size=table.size,
            const_default_action_id=table.const_default_action_id,
            profile_id=table.implementation_id,
            counter=counters[0] if counters else None,
            meter=meters[0] if meters else None,
            is_const=table.is_const_table,
            idle_timeout=table.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL,
            needs_priority=any(field.kind in PRIORITY_KINDS for field in fields),
        )

    def _width(self, bitwidth: int, type_name: str) -> int:
        return 0 if type_name in self._strings else bitwidth


def named_action(actions: Mapping[int, ActionRef], name: str, where: str) -> Action:
    """The action of that name; raises P4RuntimeError when P4Info does not list it."""
    for ref in actions.values():
        if ref.action.name == name:
            return ref.action
    raise P4RuntimeError(
        INVALID_ARGUMENT, f"P4Info: {where} does not list action {name}, which the program uses"
    )


def find(what: str, entities: Mapping[int, _Entity], entity_id: int) -> _Entity:
    """The P4Info object of that id; raises P4RuntimeError."""
    return _find(what, entities, entity_id)


def selected(what: str, entities: Mapping[int, _Entity], entity_id: int) -> list[_Entity]:
    """The object of that id, or all (0); raises P4RuntimeError."""
    return [find(what, entities, entity_id)] if entity_id else list(entities.values())


class _Array(_WithPreamble, Protocol):
    @property
    def size(self) -> int: ...


def cells_of(array: _Array, index: p4r.Index | None) -> tuple[int | None, range]:
    """The cell that an index selects, and the range of it alone; None and all of them without one.

    Raises P4RuntimeError when it is outside the array.
    """
    name, size = array.preamble.name, array.size
    if index is None:
        return None, range(size)
    if index.index < 0:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: index {index.index} is negative")
    if index.index >= size:
        raise P4RuntimeError(OUT_OF_RANGE, f"{name}: index {index.index} is not below its size {size}")
    return index.index, range(index.index, index.index + 1)


_T = TypeVar("_T")


def _find(what: str, entities: Mapping[int, _T], entity_id: int) -> _T:
    if entity_id == 0:
        raise P4RuntimeError(INVALID_ARGUMENT, f"the {what} id is missing")
    entity = entities.get(entity_id)
    if entity is None:
        raise P4RuntimeError(INVALID_ARGUMENT, f"the program has no {what} with id {entity_id:#x}")
    return entity


def _by_id(what: str, entities: Iterable[_Entity]) -> dict[int, _Entity]:
    index: dict[int, _Entity] = {}
    for entity in entities:
        if entity.preamble.id in index:
            raise P4RuntimeError(INVALID_ARGUMENT, f"P4Info: {what} id {entity.preamble.id:#x} is used twice")
        index[entity.preamble.id] = entity
    return index


def _string_types(types: p4t.P4TypeInfo) -> frozenset[str]:
    return frozenset(
        name
        for name, spec in types.new_types.items()
        if spec.HasField("translated_type") and spec.translated_type.HasField("sdn_string")
    )
