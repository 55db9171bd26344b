"""Indexed state: counters, meters, registers, and the parser's value sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from finsy.proto import p4i, p4r

from switch.native.binding import Engine
from switch.native.p4runtime import data
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    INVALID_ARGUMENT,
    OUT_OF_RANGE,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    P4RuntimeError,
)
from switch.native.p4runtime.info import EXACT, LPM, OPTIONAL, TERNARY, Info, find
from switch.native.p4runtime.matching import Key, key_of, matches_of
from switch.native.p4runtime.meters import check_config, rates_of
from switch.native.p4runtime.translation import Translation


class _Sized(Protocol):
    @property
    def preamble(self) -> p4i.Preamble: ...
    @property
    def size(self) -> int: ...


class Cells:
    """The counters, meters, registers and value sets of one pipeline."""

    def __init__(self, info: Info, engine: Engine, translation: Translation) -> None:
        self._info = info
        self._engine = engine
        self._translation = translation
        self._meters: dict[tuple[int, int], p4r.MeterConfig] = {}
        self._value_sets: dict[int, list[Key]] = {}
        self._value_set_fields = {
            set_id: info.match_fields(message.match) for set_id, message in info.value_sets.items()
        }

    # ---- counters ----
    def write_counter(self, entry: p4r.CounterEntry) -> None:
        """Write one cell, or all of them when no index is given; raises P4RuntimeError."""
        counter = find("counter", self._info.counters, entry.counter_id)
        indices = _indices(counter, entry.index if entry.HasField("index") else None)
        if not entry.HasField("data"):
            return
        packets, octets = entry.data.packet_count, entry.data.byte_count
        if packets < 0 or octets < 0:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{counter.preamble.name}: a counter cannot be negative")
        for index in indices:
            self._engine.counter_write(counter.preamble.name, index, packets, octets)

    def read_counters(self, query: p4r.CounterEntry) -> Iterator[p4r.CounterEntry]:
        """The cells that the query selects; raises P4RuntimeError."""
        for counter in _selected("counter", self._info.counters, query.counter_id):
            indices = _indices(counter, query.index if query.HasField("index") else None)
            name = counter.preamble.name
            if len(indices) == 1:
                cells: Sequence[tuple[int, int]] = [self._engine.counter_read(name, indices[0])]
            else:
                cells = self._engine.counter_read_all(name)
            for index, (packets, octets) in zip(indices, cells, strict=True):
                yield p4r.CounterEntry(
                    counter_id=counter.preamble.id,
                    index=p4r.Index(index=index),
                    data=p4r.CounterData(packet_count=packets, byte_count=octets),
                )

    # ---- meters ----
    def write_meter(self, entry: p4r.MeterEntry) -> None:
        """Configure one cell, or all when no index is given; without a configuration every packet is green.

        Raises P4RuntimeError.
        """
        meter = find("meter", self._info.meters, entry.meter_id)
        indices = _indices(meter, entry.index if entry.HasField("index") else None)
        if entry.HasField("counter_data"):
            raise P4RuntimeError(UNIMPLEMENTED, f"{meter.preamble.name}: meters have no counters here")
        if entry.HasField("config"):
            check_config(entry.config, meter.spec, meter.preamble.name)
        for index in indices:
            if entry.HasField("config"):
                self._engine.meter_set(meter.preamble.name, index, rates_of(entry.config))
                self._meters[(meter.preamble.id, index)] = entry.config
            else:
                self._engine.meter_set(meter.preamble.name, index, None)
                self._meters.pop((meter.preamble.id, index), None)

    def adopt_meter(self, name: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """A meter was configured in the engine by other means: (cir, cburst, pir, pburst)."""
        for meter in self._info.meters.values():
            if meter.preamble.name == name:
                config = p4r.MeterConfig(cir=rates[0], cburst=rates[1], pir=rates[2], pburst=rates[3])
                self._meters[(meter.preamble.id, index)] = config

    def read_meters(self, query: p4r.MeterEntry) -> Iterator[p4r.MeterEntry]:
        """The cells that the query selects; raises P4RuntimeError."""
        for meter in _selected("meter", self._info.meters, query.meter_id):
            indices = _indices(meter, query.index if query.HasField("index") else None)
            if query.HasField("counter_data"):
                raise P4RuntimeError(UNIMPLEMENTED, f"{meter.preamble.name}: meters have no counters here")
            for index in indices:
                message = p4r.MeterEntry(meter_id=meter.preamble.id, index=p4r.Index(index=index))
                config = self._meters.get((meter.preamble.id, index))
                if config is not None:
                    message.config.CopyFrom(config)
                yield message

    # ---- registers ----
    def write_register(self, entry: p4r.RegisterEntry) -> None:
        """Write one cell, or all when no index is given; raises P4RuntimeError."""
        register = find("register", self._info.registers, entry.register_id)
        name = register.preamble.name
        indices = _indices(register, entry.index if entry.HasField("index") else None)
        numbers = data.from_message(register.type_spec, entry.data, self._info.message.type_info, name)
        if len(numbers) != 1:
            raise P4RuntimeError(UNIMPLEMENTED, f"{name}: registers of structures are not supported")
        for index in indices:
            self._engine.register_write(name, index, numbers[0])

    def read_registers(self, query: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """The cells that the query selects; raises P4RuntimeError."""
        for register in _selected("register", self._info.registers, query.register_id):
            name = register.preamble.name
            indices = _indices(register, query.index if query.HasField("index") else None)
            if len(indices) == 1:
                cells = [self._engine.register_read(name, indices[0])]
            else:
                cells = self._engine.register_read_all(name)
            for index, value in zip(indices, cells, strict=True):
                yield p4r.RegisterEntry(
                    register_id=register.preamble.id,
                    index=p4r.Index(index=index),
                    data=data.to_message(register.type_spec, [value], self._info.message.type_info),
                )

    # ---- value sets ----
    def write_value_set(self, entry: p4r.ValueSetEntry) -> None:
        """Replace the members of a value set; raises P4RuntimeError."""
        value_set = find("value set", self._info.value_sets, entry.value_set_id)
        name = value_set.preamble.name
        fields = self._value_set_fields[entry.value_set_id]
        if len(entry.members) > value_set.size:
            raise P4RuntimeError(
                RESOURCE_EXHAUSTED,
                f"{name} holds {value_set.size} members, {len(entry.members)} are given",
            )
        keys: list[Key] = []
        for member in entry.members:
            key = key_of(fields, member.match, self._translation, name)
            if key in keys:
                raise P4RuntimeError(ALREADY_EXISTS, f"{name}: a member is given twice")
            keys.append(key)
        values = [
            [_value_and_mask(f.kind, f.value.bitwidth, e, name) for f, e in zip(fields, key, strict=True)]
            for key in keys
        ]
        self._engine.value_set_clear(name)
        for value in values:
            self._engine.value_set_add(name, value)
        self._value_sets[entry.value_set_id] = keys

    def read_value_sets(self, query: p4r.ValueSetEntry) -> Iterator[p4r.ValueSetEntry]:
        """The value set asked for, or all; raises P4RuntimeError."""
        for value_set in _selected("value set", self._info.value_sets, query.value_set_id):
            set_id = value_set.preamble.id
            message = p4r.ValueSetEntry(value_set_id=set_id)
            for key in self._value_sets.get(set_id, []):
                matches = matches_of(self._value_set_fields[set_id], key, self._translation)
                message.members.add().match.extend(matches)
            yield message

    def export(self) -> Iterator[p4r.Entity]:
        """Everything that differs from a fresh program, as entities to MODIFY elsewhere."""
        for counter in self.read_counters(p4r.CounterEntry()):
            if counter.data.packet_count or counter.data.byte_count:
                yield p4r.Entity(counter_entry=counter)
        for (meter_id, index), config in self._meters.items():
            yield p4r.Entity(
                meter_entry=p4r.MeterEntry(meter_id=meter_id, index=p4r.Index(index=index), config=config)
            )
        for register_id, register in self._info.registers.items():
            values = self._engine.register_read_all(register.preamble.name)
            for index, value in enumerate(values):
                if value:
                    cell = data.to_message(register.type_spec, [value], self._info.message.type_info)
                    yield p4r.Entity(
                        register_entry=p4r.RegisterEntry(
                            register_id=register_id, index=p4r.Index(index=index), data=cell
                        )
                    )
        for set_id in self._value_sets:
            for entry in self.read_value_sets(p4r.ValueSetEntry(value_set_id=set_id)):
                yield p4r.Entity(value_set_entry=entry)


def _indices(entity: _Sized, index: p4r.Index | None) -> range:
    name, size = entity.preamble.name, entity.size
    if index is None:
        return range(size)
    if index.index < 0:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: index {index.index} is negative")
    if index.index >= size:
        raise P4RuntimeError(OUT_OF_RANGE, f"{name}: index {index.index} is not below its size {size}")
    return range(index.index, index.index + 1)


def _value_and_mask(
    kind: int, bitwidth: int, element: tuple[object, ...], name: str
) -> tuple[int, int | None]:
    full = (1 << bitwidth) - 1
    value = element[1]
    if kind == EXACT:
        assert isinstance(value, int)
        return value, None
    if kind == OPTIONAL:
        return (0, 0) if value is None else (int(str(value)), None)
    if kind in (LPM, TERNARY):
        second = element[2]
        assert isinstance(value, int)
        assert isinstance(second, int)
        return value, second if kind == TERNARY else full ^ (full >> second)
    raise P4RuntimeError(UNIMPLEMENTED, f"{name}: ranges in value sets are not supported")


_SizedT = TypeVar("_SizedT", bound=_Sized)


def _selected(what: str, entities: Mapping[int, _SizedT], entity_id: int) -> list[_SizedT]:
    if entity_id:
        return [find(what, entities, entity_id)]
    return list(entities.values())
