"""A loaded program as P4Runtime sees it: every entity, written and read, with rollback and export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from finsy.proto import p4r

from switch.native.binding import Engine, EngineError
from switch.native.p4runtime.cells import Cells
from switch.native.p4runtime.config import Config
from switch.native.p4runtime.digests import Digests
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
from switch.native.p4runtime.packetio import PacketIO
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.profiles import Profiles
from switch.native.p4runtime.replication import Replication
from switch.native.p4runtime.tables import Tables
from switch.native.p4runtime.translation import Translation

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
        self.cells = Cells(info, engine, self.translation)
        self.digests = Digests(info)
        self.packets = PacketIO(info, self.translation, config.widths)
        self._writers = self._make_writers()

    def write(self, updates: Sequence[p4r.Update], atomicity: int) -> None:
        """Apply a batch; raises P4RuntimeError (the whole request is refused) or BatchError."""
        if atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC and len(updates) > 1:
            raise P4RuntimeError(
                UNIMPLEMENTED, "DATAPLANE_ATOMIC batches of several updates are not supported"
            )
        rollback = atomicity == p4r.WriteRequest.ROLLBACK_ON_ERROR
        results: list[P4RuntimeError | None] = []
        undo: list[p4r.Update] = []
        for update in updates:
            try:
                before = self._inverse(update) if rollback else []
                self._apply(update)
                undo += before
                results.append(None)
            except P4RuntimeError as error:
                results.append(error)
                if rollback:
                    break
        if rollback and any(result is not None for result in results):
            for update in reversed(undo):
                self._apply(update)
            aborted = P4RuntimeError(ABORTED, "rolled back because another update of the batch failed")
            results = [result or aborted for result in results]
            results += [aborted] * (len(updates) - len(results))
        raise_if_any(results, "Write failure")

    def read(self, query: p4r.Entity) -> Iterator[p4r.Entity]:
        """What one entity of a ReadRequest selects; raises P4RuntimeError."""
        try:
            yield from self._read(query)
        except EngineError as error:
            raise from_engine(error) from error

    def export(self) -> list[p4r.Update]:
        """Everything clients have written, as updates in an order that can be replayed."""
        updates = []

        def add(kind: p4r.Update.Type.ValueType, entity: p4r.Entity) -> None:
            updates.append(p4r.Update(type=kind, entity=entity))

        for member in self.profiles.read_members(p4r.ActionProfileMember()):
            add(INSERT, p4r.Entity(action_profile_member=member))
        for group in self.profiles.read_groups(p4r.ActionProfileGroup()):
            add(INSERT, p4r.Entity(action_profile_group=group))
        for entry in self.tables.export():
            add(MODIFY if entry.is_default_action else INSERT, p4r.Entity(table_entry=entry))
        for entity in self.cells.export():
            add(MODIFY, entity)
        for replication in self.replication.export():
            add(INSERT, p4r.Entity(packet_replication_engine_entry=replication))
        for digest in self.digests.read(p4r.DigestEntry()):
            add(INSERT, p4r.Entity(digest_entry=digest))
        return updates

    def port_changed(self, port: int) -> None:
        """A port went up or down."""
        self.profiles.port_changed(port)
        self.replication.port_changed(port)

    def _apply(self, update: p4r.Update) -> None:
        if update.type not in (INSERT, MODIFY, DELETE):
            raise P4RuntimeError(INVALID_ARGUMENT, "the update type must be INSERT, MODIFY or DELETE")
        kind = update.entity.WhichOneof("entity")
        if kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, "the update has no entity")
        apply = self._writers.get(kind)
        if apply is None:
            raise P4RuntimeError(UNIMPLEMENTED, f"{kind} is not supported")
        try:
            apply(update.type, update.entity)
        except EngineError as error:
            raise from_engine(error) from error

    def _make_writers(self) -> dict[str, Callable[[int, p4r.Entity], None]]:
        tables, profiles, cells = self.tables, self.profiles, self.cells

        by_type: dict[int, Callable[[p4r.TableEntry], None]] = {
            INSERT: tables.insert,
            MODIFY: tables.modify,
            DELETE: tables.delete,
        }
        member_by_type: dict[int, Callable[[p4r.ActionProfileMember], None]] = {
            INSERT: profiles.insert_member,
            MODIFY: profiles.modify_member,
            DELETE: profiles.delete_member,
        }
        group_by_type: dict[int, Callable[[p4r.ActionProfileGroup], None]] = {
            INSERT: profiles.insert_group,
            MODIFY: profiles.modify_group,
            DELETE: profiles.delete_group,
        }

        def direct_counter(entity: p4r.Entity) -> None:
            entry = entity.direct_counter_entry
            if entry.HasField("data"):
                tables.direct_counter_set(entry.table_entry, entry.data)

        def direct_meter(entity: p4r.Entity) -> None:
            entry = entity.direct_meter_entry
            if entry.HasField("counter_data"):
                raise P4RuntimeError(UNIMPLEMENTED, "meters have no counters here")
            tables.direct_meter_set(entry.table_entry, entry.config if entry.HasField("config") else None)

        return {
            "table_entry": lambda kind, entity: by_type[kind](entity.table_entry),
            "action_profile_member": lambda kind, entity: member_by_type[kind](entity.action_profile_member),
            "action_profile_group": lambda kind, entity: group_by_type[kind](entity.action_profile_group),
            "counter_entry": _modify_only(lambda entity: cells.write_counter(entity.counter_entry)),
            "direct_counter_entry": _modify_only(direct_counter),
            "meter_entry": _modify_only(lambda entity: cells.write_meter(entity.meter_entry)),
            "direct_meter_entry": _modify_only(direct_meter),
            "register_entry": _modify_only(lambda entity: cells.write_register(entity.register_entry)),
            "value_set_entry": _modify_only(lambda entity: cells.write_value_set(entity.value_set_entry)),
            "packet_replication_engine_entry": lambda kind, entity: self.replication.write(
                kind, entity.packet_replication_engine_entry
            ),
            "digest_entry": lambda kind, entity: self.digests.write(kind, entity.digest_entry),
        }

    def _read(self, query: p4r.Entity) -> Iterator[p4r.Entity]:
        kind = query.WhichOneof("entity")
        if kind == "table_entry":
            for entry in self.tables.read(query.table_entry):
                yield p4r.Entity(table_entry=entry)
        elif kind == "action_profile_member":
            for member in self.profiles.read_members(query.action_profile_member):
                yield p4r.Entity(action_profile_member=member)
        elif kind == "action_profile_group":
            for group in self.profiles.read_groups(query.action_profile_group):
                yield p4r.Entity(action_profile_group=group)
        elif kind == "counter_entry":
            for counter in self.cells.read_counters(query.counter_entry):
                yield p4r.Entity(counter_entry=counter)
        elif kind == "direct_counter_entry":
            for key, data in self.tables.direct_counter(query.direct_counter_entry.table_entry):
                yield p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key, data=data))
        elif kind == "meter_entry":
            for meter in self.cells.read_meters(query.meter_entry):
                yield p4r.Entity(meter_entry=meter)
        elif kind == "direct_meter_entry":
            for key, config in self.tables.direct_meter(query.direct_meter_entry.table_entry):
                yield p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key, config=config))
        elif kind == "register_entry":
            for register in self.cells.read_registers(query.register_entry):
                yield p4r.Entity(register_entry=register)
        elif kind == "value_set_entry":
            for value_set in self.cells.read_value_sets(query.value_set_entry):
                yield p4r.Entity(value_set_entry=value_set)
        elif kind == "packet_replication_engine_entry":
            for entry in self.replication.read(query.packet_replication_engine_entry):
                yield p4r.Entity(packet_replication_engine_entry=entry)
        elif kind == "digest_entry":
            for digest in self.digests.read(query.digest_entry):
                yield p4r.Entity(digest_entry=digest)
        elif kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, "the request has an empty entity; say which kind to read")
        else:
            raise P4RuntimeError(UNIMPLEMENTED, f"{kind} is not supported")

    def _inverse(self, update: p4r.Update) -> list[p4r.Update]:
        """The updates that take `update` back, from the state before it."""
        if update.type == INSERT:
            return [p4r.Update(type=DELETE, entity=update.entity)]
        kind = MODIFY if update.type == MODIFY else INSERT
        if update.entity.WhichOneof("entity") == "table_entry":
            before = self.tables.state(update.entity.table_entry)
            return [p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry)) for entry in before]
        return [p4r.Update(type=kind, entity=entity) for entity in self.read(update.entity)]


def from_engine(error: EngineError) -> P4RuntimeError:
    """The status of an engine's refusal."""
    return P4RuntimeError(_ENGINE_CODES[error.kind], str(error))


def _modify_only(apply: Callable[[p4r.Entity], None]) -> Callable[[int, p4r.Entity], None]:
    def write(kind: int, entity: p4r.Entity) -> None:
        if kind != MODIFY:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{entity.WhichOneof('entity')} can only be modified")
        apply(entity)

    return write
