"""Indexed counters and registers over P4Runtime."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.p4runtime import data
from switch.native.p4runtime.errors import INVALID_ARGUMENT, UNIMPLEMENTED, P4RuntimeError
from switch.native.p4runtime.info import Info, cells_of, find, selected


class Cells:
    """The counters and registers of one pipeline."""

    def __init__(self, info: Info, engine: Engine) -> None:
        self._info = info
        self._engine = engine

    # ---- counters ----
    def write_counter(self, update: int, entry: p4r.CounterEntry) -> None:
        """Write one cell, or all of them when no index is given; raises P4RuntimeError, EngineError."""
        counter = find("counter", self._info.counters, entry.counter_id)
        name = counter.preamble.name
        if update != p4r.Update.MODIFY:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: a counter can only be modified")
        index, _ = cells_of(counter, entry.index if entry.HasField("index") else None)
        if entry.HasField("data"):
            check_counter(entry.data, name)
            self._engine.counter_write(name, index, entry.data.packet_count, entry.data.byte_count)

    def read_counters(self, query: p4r.CounterEntry) -> Iterator[p4r.CounterEntry]:
        """The cells that the query selects; raises P4RuntimeError."""
        for counter in selected("counter", self._info.counters, query.counter_id):
            index, cells = cells_of(counter, query.index if query.HasField("index") else None)
            name = counter.preamble.name
            if index is None:
                values = self._engine.counter_read_all(name)
            else:
                values = [self._engine.counter_read(name, index)]
            for cell, (packets, octets) in zip(cells, values, strict=True):
                yield p4r.CounterEntry(
                    counter_id=counter.preamble.id,
                    index=p4r.Index(index=cell),
                    data=p4r.CounterData(packet_count=packets, byte_count=octets),
                )

    # ---- registers ----
    def write_register(self, update: int, entry: p4r.RegisterEntry) -> None:
        """Write one cell, or all when no index is given; raises P4RuntimeError, EngineError."""
        register = find("register", self._info.registers, entry.register_id)
        name = register.preamble.name
        if update != p4r.Update.MODIFY:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: a register can only be modified")
        index, _ = cells_of(register, entry.index if entry.HasField("index") else None)
        numbers = data.from_message(register.type_spec, entry.data, self._info.message.type_info, name)
        if len(numbers) != 1:
            raise P4RuntimeError(UNIMPLEMENTED, f"{name}: registers of structures are not supported")
        self._engine.register_write(name, index, numbers[0])

    def read_registers(self, query: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """The cells that the query selects; raises P4RuntimeError."""
        for register in selected("register", self._info.registers, query.register_id):
            name = register.preamble.name
            index, cells = cells_of(register, query.index if query.HasField("index") else None)
            if index is None:
                values = self._engine.register_read_all(name)
            else:
                values = [self._engine.register_read(name, index)]
            for cell, value in zip(cells, values, strict=True):
                yield p4r.RegisterEntry(
                    register_id=register.preamble.id,
                    index=p4r.Index(index=cell),
                    data=data.to_message(register.type_spec, [value], self._info.message.type_info),
                )

    def export(self) -> Iterator[p4r.Entity]:
        """Everything that differs from a fresh program, as entities to MODIFY elsewhere."""
        for counter in self.read_counters(p4r.CounterEntry()):
            if counter.data.packet_count or counter.data.byte_count:
                yield p4r.Entity(counter_entry=counter)
        for register_id, register in self._info.registers.items():
            values = self._engine.register_read_all(register.preamble.name)
            for cell, value in enumerate(values):
                if value:
                    written = data.to_message(register.type_spec, [value], self._info.message.type_info)
                    yield p4r.Entity(
                        register_entry=p4r.RegisterEntry(
                            register_id=register_id, index=p4r.Index(index=cell), data=written
                        )
                    )


def check_counter(counter: p4r.CounterData, where: str) -> None:
    """Raises P4RuntimeError when a count is negative."""
    if counter.packet_count < 0 or counter.byte_count < 0:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a counter cannot be negative")
