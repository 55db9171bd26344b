"""Direct resources of table entries over P4Runtime: counters and meters, by themselves or with their entry."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.p4runtime.cells import check_counter
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Table
from switch.native.p4runtime.meters import check_cleared, check_config, counts_message
from switch.native.p4runtime.resources import counter_data
from switch.native.p4runtime.tables import Stored, Tables


class Direct:
    """`DirectCounterEntry` and `DirectMeterEntry` of one pipeline."""

    def __init__(self, engine: Engine, tables: Tables) -> None:
        self._engine = engine
        self._tables = tables

    def write_counter(self, update: int, entry: p4r.DirectCounterEntry) -> None:
        """Write an entry's counter; raises P4RuntimeError, EngineError."""
        table, stored = self._written(update, entry.table_entry, "counter")
        if entry.HasField("data"):
            check_counter(entry.data, table.name)
            data = entry.data
            self._engine.entry_counter_set(table.name, stored.handle, data.packet_count, data.byte_count)

    def write_meter(self, update: int, entry: p4r.DirectMeterEntry) -> None:
        """Configure an entry's meter (without a configuration every packet is green); raises as `write_counter`."""
        table, stored = self._written(update, entry.table_entry, "meter")
        assert table.meter is not None
        if entry.HasField("config"):
            check_config(entry.config, table.meter.spec, table.name)
        if entry.HasField("counter_data"):
            check_cleared(entry.counter_data, table.name)
            self._engine.entry_meter_clear(table.name, stored.handle)
        self._tables.set_meter(table, stored, entry.config if entry.HasField("config") else None)

    def read_counters(self, query: p4r.DirectCounterEntry) -> Iterator[p4r.DirectCounterEntry]:
        """The counters of the entries that the query selects; raises P4RuntimeError."""
        for table, stored in self._tables.with_direct(query.table_entry, "counter"):
            yield p4r.DirectCounterEntry(
                table_entry=_key(stored), data=counter_data(self._engine, table.name, stored.handle)
            )

    def read_meters(self, query: p4r.DirectMeterEntry) -> Iterator[p4r.DirectMeterEntry]:
        """The meters of the entries that the query selects; raises P4RuntimeError."""
        for table, stored in self._tables.with_direct(query.table_entry, "meter"):
            message = p4r.DirectMeterEntry(table_entry=_key(stored))
            if stored.message.HasField("meter_config"):
                message.config.CopyFrom(stored.message.meter_config)
            if query.HasField("counter_data"):
                counts = self._engine.entry_meter_counts(table.name, stored.handle)
                message.counter_data.CopyFrom(counts_message(counts))
            yield message

    def _written(self, update: int, entry: p4r.TableEntry, what: str) -> tuple[Table, Stored]:
        if update != p4r.Update.MODIFY:
            raise P4RuntimeError(INVALID_ARGUMENT, f"a direct {what} can only be modified")
        return self._tables.one_with_direct(entry, what)


def _key(stored: Stored) -> p4r.TableEntry:
    message = stored.message
    return p4r.TableEntry(table_id=message.table_id, priority=message.priority, match=message.match)
