"""The direct resources and the idle timeout inside a `TableEntry` message: checked, written, filled in for a reader."""

from __future__ import annotations

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.p4runtime.cells import check_counter
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError
from switch.native.p4runtime.info import Table
from switch.native.p4runtime.meters import check_cleared, check_config, counts_message, rates_of


def check_resources(table: Table, message: p4r.TableEntry) -> None:
    """The resources of an entry that is to be written; raises P4RuntimeError."""
    if message.HasField("counter_data"):
        if table.counter is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct counter")
        check_counter(message.counter_data, table.name)
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        if table.meter is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct meter")
        check_cleared(message.meter_counter_data, table.name)
        if message.HasField("meter_config"):
            check_config(message.meter_config, table.meter.spec, table.name)


def write_resources(
    engine: Engine, table: Table, handle: int, message: p4r.TableEntry, kept: p4r.TableEntry, *, fresh: bool
) -> None:
    """Write what `message` says beside key and action, and note it in `kept`, the entry as it will be read.

    `fresh`: the entry is new, so what is not said is as the engine makes it. Raises EngineError.
    """
    kept.controller_metadata = message.controller_metadata
    kept.metadata = message.metadata
    if message.idle_timeout_ns or (kept.idle_timeout_ns and not fresh):
        engine.entry_timeout(table.name, handle, message.idle_timeout_ns)
    kept.idle_timeout_ns = message.idle_timeout_ns
    if message.HasField("counter_data"):
        data = message.counter_data
        engine.entry_counter_set(table.name, handle, data.packet_count, data.byte_count)
    if table.meter is not None:
        if message.HasField("meter_counter_data") and not fresh:
            engine.entry_meter_clear(table.name, handle)
        if message.HasField("meter_config") or not fresh:
            config = message.meter_config if message.HasField("meter_config") else None
            write_meter(engine, table, handle, config, kept)


def write_meter(
    engine: Engine, table: Table, handle: int, config: p4r.MeterConfig | None, kept: p4r.TableEntry
) -> None:
    """Configure an entry's meter (None: every packet is green) and note it in `kept`; raises EngineError."""
    engine.entry_meter_set(table.name, handle, None if config is None else rates_of(config))
    if config is None:
        kept.ClearField("meter_config")
    else:
        kept.meter_config.CopyFrom(config)


def counter_data(engine: Engine, table: str, handle: int) -> p4r.CounterData:
    """An entry's direct counter."""
    packets, octets = engine.entry_counter(table, handle)
    return p4r.CounterData(packet_count=packets, byte_count=octets)


def check_query(table: Table, query: p4r.TableEntry) -> None:
    """Whether the table has what a read asks for; raises P4RuntimeError."""
    if query.HasField("time_since_last_hit") and not table.idle_timeout:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no idle timeouts")
    if query.HasField("counter_data") and table.counter is None:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct counter")
    if table.meter is None and (query.HasField("meter_config") or query.HasField("meter_counter_data")):
        raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct meter")


def filled(
    engine: Engine, table: Table, handle: int, kept: p4r.TableEntry, query: p4r.TableEntry
) -> p4r.TableEntry:
    """A copy of the entry with those resources of the table that the query asks for."""
    message = p4r.TableEntry()
    message.CopyFrom(kept)
    if not query.HasField("meter_config"):
        message.ClearField("meter_config")
    if query.HasField("counter_data") and table.counter is not None:
        message.counter_data.CopyFrom(counter_data(engine, table.name, handle))
    if query.HasField("meter_counter_data") and table.meter is not None:
        message.meter_counter_data.CopyFrom(counts_message(engine.entry_meter_counts(table.name, handle)))
    if query.HasField("time_since_last_hit") and table.idle_timeout:
        message.time_since_last_hit.elapsed_ns = engine.entry_idle(table.name, handle)
    return message
