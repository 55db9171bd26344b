"""A loaded program as P4Runtime sees it: every entity, written and read, in batches, and exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from finsy.proto import p4r

from switch.native.binding import Engine, EngineError
from switch.native.p4runtime.cells import Cells
from switch.native.p4runtime.config import Config
from switch.native.p4runtime.digests import Digests
from switch.native.p4runtime.direct import Direct
from switch.native.p4runtime.errors import (
    ABORTED,
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    P4RuntimeError,
    raise_if_any,
)
from switch.native.p4runtime.meters import Meters
from switch.native.p4runtime.packetio import PacketIO
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.profiles import Profiles
from switch.native.p4runtime.replication import Replication
from switch.native.p4runtime.stages import Stages
from switch.native.p4runtime.tables import Tables
from switch.native.p4runtime.translation import Translation
from switch.native.p4runtime.valuesets import ValueSets

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

_ENGINE_CODES = {
    "invalid": INVALID_ARGUMENT,
    "not_found": NOT_FOUND,
    "exists": ALREADY_EXISTS,
    "full": RESOURCE_EXHAUSTED,
    "constant": PERMISSION_DENIED,
    "memory": RESOURCE_EXHAUSTED,
    "in_use": FAILED_PRECONDITION,
    "abi": INTERNAL,
}


class Pipeline:
    """One program in one engine."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        ports: PortMap,
        replication: Replication,
    ) -> None:
        """`engine` runs the program of `config`. Raises P4RuntimeError when P4Info and program disagree."""
        info = config.info
        self.config = config
        self.engine = engine
        self.translation = Translation()
        self.replication = replication
        self.profiles = Profiles(info, engine, self.translation, ports)
        self.tables = Tables(info, engine, self.translation, self.profiles)
        self.direct = Direct(engine, self.tables)
        self.cells = Cells(info, engine)
        self.meters = Meters(info, engine)
        self.value_sets = ValueSets(info, engine, self.translation)
        self.digests = Digests(info, engine.journal)
        self.packets = PacketIO(info, self.translation, config.widths)
        self._stages = Stages(info, config.program)
        self._writers = self._make_writers()
        self._readers = self._make_readers()

    def write(self, updates: Sequence[p4r.Update], atomicity: int) -> None:
        """Apply the updates of a request; raises BatchError, or P4RuntimeError when the whole request is refused.

        Each update is a batch of the engine, which packets see as a whole; ROLLBACK_ON_ERROR and DATAPLANE_ATOMIC
        make one of all of them.
        """
        if atomicity == p4r.WriteRequest.CONTINUE_ON_ERROR:
            raise_if_any([self._attempt(update) for update in updates], "Write failure")
        elif atomicity == p4r.WriteRequest.ROLLBACK_ON_ERROR:
            self._write_together(updates)
        elif atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC:
            self._stages.check(updates)
            self._write_together(updates)
        else:
            raise P4RuntimeError(INVALID_ARGUMENT, f"there is no atomicity {atomicity}")

    def read(self, query: p4r.Entity) -> Iterator[p4r.Entity]:
        """What one entity of a ReadRequest selects; raises P4RuntimeError."""
        kind = query.WhichOneof("entity")
        if kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, "the request has an empty entity; say which kind to read")
        reader = self._readers.get(kind)
        if reader is None:
            raise P4RuntimeError(UNIMPLEMENTED, f"{kind} is not supported")
        try:
            yield from reader(query)
        except EngineError as error:
            raise from_engine(error) from error

    def export(self) -> list[p4r.Update]:
        """Everything clients have written, as updates in an order that can be replayed."""
        updates = []

        def add(kind: p4r.Update.Type.ValueType, entity: p4r.Entity) -> None:
            updates.append(p4r.Update(type=kind, entity=entity))

        for entity in self.profiles.export():
            add(INSERT, entity)
        for kind, entry in self.tables.export():
            add(kind, p4r.Entity(table_entry=entry))
        for entity in self.cells.export():
            add(MODIFY, entity)
        for meter in self.meters.export():
            add(MODIFY, p4r.Entity(meter_entry=meter))
        for value_set in self.value_sets.export():
            add(MODIFY, p4r.Entity(value_set_entry=value_set))
        for replication in self.replication.export():
            add(INSERT, p4r.Entity(packet_replication_engine_entry=replication))
        for digest in self.digests.read(p4r.DigestEntry()):
            add(INSERT, p4r.Entity(digest_entry=digest))
        return updates

    def restore(self, updates: Sequence[p4r.Update]) -> None:
        """Make the state of a fresh pipeline what `export` gave; raises BatchError."""
        self.tables.clear()
        self.write(updates, p4r.WriteRequest.CONTINUE_ON_ERROR)

    def port_changed(self, port: int) -> None:
        """A port went up or down."""
        with self.engine.batch():
            self.profiles.port_changed(port)
            self.replication.port_changed(port)

    def _attempt(self, update: p4r.Update) -> P4RuntimeError | None:
        """Apply an update whole or not at all; returns why it was refused."""
        try:
            with self.engine.batch():
                self._apply(update)
        except EngineError as error:
            return from_engine(error)
        except P4RuntimeError as error:
            return error
        return None

    def _write_together(self, updates: Sequence[p4r.Update]) -> None:
        applied = 0
        try:
            with self.engine.batch():
                for update in updates:
                    self._apply(update)
                    applied += 1
        except (EngineError, P4RuntimeError) as error:
            refused = from_engine(error) if isinstance(error, EngineError) else error
            aborted = P4RuntimeError(ABORTED, "not applied because another update of the batch failed")
            results = [aborted] * len(updates)
            results[min(applied, len(updates) - 1)] = refused
            raise_if_any(results, "Write failure")

    def _apply(self, update: p4r.Update) -> None:
        if update.type not in (INSERT, MODIFY, DELETE):
            raise P4RuntimeError(INVALID_ARGUMENT, "the update type must be INSERT, MODIFY or DELETE")
        kind = update.entity.WhichOneof("entity")
        if kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, "the update has no entity")
        apply = self._writers.get(kind)
        if apply is None:
            raise P4RuntimeError(UNIMPLEMENTED, f"{kind} is not supported")
        apply(update.type, update.entity)

    def _make_writers(self) -> dict[str, Callable[[int, p4r.Entity], None]]:
        profiles, cells, direct = self.profiles, self.cells, self.direct
        return {
            "table_entry": lambda kind, e: self.tables.write(kind, e.table_entry),
            "action_profile_member": lambda kind, e: profiles.write_member(kind, e.action_profile_member),
            "action_profile_group": lambda kind, e: profiles.write_group(kind, e.action_profile_group),
            "counter_entry": lambda kind, e: cells.write_counter(kind, e.counter_entry),
            "direct_counter_entry": lambda kind, e: direct.write_counter(kind, e.direct_counter_entry),
            "meter_entry": lambda kind, e: self.meters.write(kind, e.meter_entry),
            "direct_meter_entry": lambda kind, e: direct.write_meter(kind, e.direct_meter_entry),
            "register_entry": lambda kind, e: cells.write_register(kind, e.register_entry),
            "value_set_entry": lambda kind, e: self.value_sets.write(kind, e.value_set_entry),
            "packet_replication_engine_entry": lambda kind, e: self.replication.write(
                kind, e.packet_replication_engine_entry
            ),
            "digest_entry": lambda kind, e: self.digests.write(kind, e.digest_entry),
        }

    def _make_readers(self) -> dict[str, Callable[[p4r.Entity], Iterator[p4r.Entity]]]:
        profiles, cells, direct, entity = self.profiles, self.cells, self.direct, p4r.Entity
        return {
            "table_entry": lambda q: (entity(table_entry=e) for e in self.tables.read(q.table_entry)),
            "action_profile_member": lambda q: (
                entity(action_profile_member=e) for e in profiles.read_members(q.action_profile_member)
            ),
            "action_profile_group": lambda q: (
                entity(action_profile_group=e) for e in profiles.read_groups(q.action_profile_group)
            ),
            "counter_entry": lambda q: (
                entity(counter_entry=e) for e in cells.read_counters(q.counter_entry)
            ),
            "direct_counter_entry": lambda q: (
                entity(direct_counter_entry=e) for e in direct.read_counters(q.direct_counter_entry)
            ),
            "meter_entry": lambda q: (entity(meter_entry=e) for e in self.meters.read(q.meter_entry)),
            "direct_meter_entry": lambda q: (
                entity(direct_meter_entry=e) for e in direct.read_meters(q.direct_meter_entry)
            ),
            "register_entry": lambda q: (
                entity(register_entry=e) for e in cells.read_registers(q.register_entry)
            ),
            "value_set_entry": lambda q: (
                entity(value_set_entry=e) for e in self.value_sets.read(q.value_set_entry)
            ),
            "packet_replication_engine_entry": lambda q: (
                entity(packet_replication_engine_entry=e)
                for e in self.replication.read(q.packet_replication_engine_entry)
            ),
            "digest_entry": lambda q: (entity(digest_entry=e) for e in self.digests.read(q.digest_entry)),
        }


def from_engine(error: EngineError) -> P4RuntimeError:
    """The status of an engine's refusal."""
    return P4RuntimeError(_ENGINE_CODES[error.kind], str(error))
