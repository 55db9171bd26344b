"""Table entries over P4Runtime: checked, kept as written for reading back, and put into the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finsy.proto import p4r

from switch.native.binding import Engine, Entry
from switch.native.p4runtime.actions import call_of, message_of
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    P4RuntimeError,
)
from switch.native.p4runtime.info import Info, Table
from switch.native.p4runtime.keykinds import from_program, to_program
from switch.native.p4runtime.matching import Key, key_of, matches_of
from switch.native.p4runtime.meters import check_config, rates_of
from switch.native.p4runtime.profiles import OneShot, Profiles
from switch.native.p4runtime.translation import Translation

_DEFAULT_SIZE = 1024
"""p4c's size for a table that names none; BMv2 and the engine count with it too."""


@dataclass
class _Stored:
    """An entry: its canonical message (key, action, metadata, timeout, meter) and where the engine has it."""

    message: p4r.TableEntry
    handle: int
    one_shot: OneShot | None = None


class Tables:
    """The tables of one pipeline."""

    def __init__(self, info: Info, engine: Engine, translation: Translation, profiles: Profiles) -> None:
        """Takes the entries that the program brings (const and initial ones) from `engine`."""
        self._info = info
        self._engine = engine
        self._translation = translation
        self._profiles = profiles
        self._entries: dict[int, dict[tuple[Key, int], _Stored]] = {table_id: {} for table_id in info.tables}
        self._by_handle: dict[tuple[str, int], _Stored] = {}
        self._defaults: dict[int, p4r.TableEntry] = {}
        """Default entries that a client has changed."""
        for table in info.tables.values():
            for entry in engine.table_entries(table.name):
                key = from_program(entry.key, table.fields)
                self._keep(table, key, entry.priority, self._program_entry(table, entry, key))

    # ---- writing ----
    def insert(self, message: p4r.TableEntry) -> None:
        """Add an entry; raises P4RuntimeError, EngineError."""
        table = self._checked(message)
        if message.is_default_action:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{table.name}: the default entry always exists; MODIFY it instead"
            )
        if table.is_const:
            raise P4RuntimeError(PERMISSION_DENIED, f"{table.name} has const entries; none can be added")
        if not table.fields:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no key, so it has only a default entry")
        key, priority = self._key(table, message)
        entries = self._entries[table.id]
        if (key, priority) in entries:
            raise P4RuntimeError(ALREADY_EXISTS, f"{table.name} has an entry with this key already")
        if len(entries) >= (table.size or _DEFAULT_SIZE):
            raise P4RuntimeError(
                RESOURCE_EXHAUSTED, f"{table.name} is full: its size is {table.size or _DEFAULT_SIZE}"
            )
        self._check_resources(table, message)
        kept = p4r.TableEntry(table_id=table.id, priority=priority)
        kept.match.extend(matches_of(table.fields, key, self._translation))
        handle, one_shot = self._add(table, key, priority, message.action, kept)
        stored = _Stored(kept, handle, one_shot)
        self._keep(table, key, priority, stored)
        self._set_resources(table, stored, message, fresh=True)

    def modify(self, message: p4r.TableEntry) -> None:
        """Replace an entry's or the default entry's action; raises P4RuntimeError, EngineError."""
        table = self._checked(message)
        if message.is_default_action:
            self._modify_default(table, message)
            return
        stored = self._find(table, message)
        if (table.is_const or stored.message.is_const) and message.HasField("action"):
            raise P4RuntimeError(
                PERMISSION_DENIED, f"{table.name}: the program's const entries keep their actions"
            )
        self._check_resources(table, message)
        if message.HasField("action"):
            self._replace(table, stored, message.action)
        self._set_resources(table, stored, message, fresh=False)

    def delete(self, message: p4r.TableEntry) -> None:
        """Delete an entry; raises P4RuntimeError, EngineError."""
        table = self._info.table(message.table_id)
        if message.is_default_action:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default entry cannot be deleted")
        if table.is_const:
            raise P4RuntimeError(PERMISSION_DENIED, f"{table.name} has const entries; none can be deleted")
        stored = self._find(table, message)
        if stored.message.is_const:
            raise P4RuntimeError(PERMISSION_DENIED, f"{table.name}: a const entry cannot be deleted")
        self._engine.table_delete(table.name, stored.handle)
        self._release(table, stored.message.action, stored.one_shot)
        key, priority = self._key(table, message)
        del self._entries[table.id][(key, priority)]
        del self._by_handle[(table.name, stored.handle)]

    # ---- reading ----
    def read(self, query: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        """The entries that the query selects (P4Runtime, "Wildcard Reads"); raises P4RuntimeError."""
        if query.table_id == 0:
            for table in self._info.tables.values():
                for stored in self._entries[table.id].values():
                    yield self._filled(table, stored, query, lenient=True)
            return
        table = self._info.table(query.table_id)
        if query.is_default_action:
            default = self._default_message(table)
            if default is not None:
                yield default
            return
        if query.HasField("time_since_last_hit") and not table.idle_timeout:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no idle timeouts")
        if query.HasField("meter_counter_data"):
            raise P4RuntimeError(UNIMPLEMENTED, f"{table.name}: meters have no counters here")
        if query.match:
            found = self._entries[table.id].get(self._key(table, query))
            candidates = [] if found is None else [found]
        else:
            candidates = list(self._entries[table.id].values())
        for stored in candidates:
            message = stored.message
            if (
                (query.priority and message.priority != query.priority)
                or (query.controller_metadata and message.controller_metadata != query.controller_metadata)
                or (query.metadata and message.metadata != query.metadata)
                or (
                    query.action.action.action_id
                    and message.action.action.action_id != query.action.action.action_id
                )
            ):
                continue
            yield self._filled(table, stored, query, lenient=False)

    def state(self, message: p4r.TableEntry) -> list[p4r.TableEntry]:
        """The entry with this key, complete, as the list of one; empty when there is none."""
        table = self._info.table(message.table_id)
        if message.is_default_action:
            changed = self._defaults.get(table.id)
            return [changed if changed else p4r.TableEntry(table_id=table.id, is_default_action=True)]
        stored = self._entries[table.id].get(self._key(table, message))
        if stored is None:
            return []
        query = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
        entry = self._filled(table, stored, query, lenient=True)
        entry.is_const = False
        return [entry]

    def export(self) -> Iterator[p4r.TableEntry]:
        """Everything a client has set, as entries to insert (or modify, when default) elsewhere."""
        for table_id, entries in self._entries.items():
            table = self._info.tables[table_id]
            for stored in entries.values():
                if not stored.message.is_const:
                    query = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
                    yield self._filled(table, stored, query, lenient=True)
        yield from self._defaults.values()

    def of_handle(self, table: str, handle: int) -> p4r.TableEntry | None:
        """The entry that the engine calls `handle`, None when it is gone."""
        stored = self._by_handle.get((table, handle))
        return None if stored is None else stored.message

    def adopt(self, name: str, timeout_of: tuple[int, int] | None = None) -> None:
        """Take over what was changed in the engine's table by other means; `timeout_of` is (handle, ns).

        Raises P4RuntimeError when an entry runs an action that P4Info does not list.
        """
        table = next((table for table in self._info.tables.values() if table.name == name), None)
        if table is None:
            return
        present = {entry.handle: entry for entry in self._engine.table_entries(name)}
        for place, stored in list(self._entries[table.id].items()):
            entry = present.pop(stored.handle, None)
            if entry is None:
                self._release(table, stored.message.action, stored.one_shot)
                del self._entries[table.id][place]
                del self._by_handle[(name, stored.handle)]
            elif entry.action is not None:
                stored.message.action.action.CopyFrom(self._named_call(table, entry.action, entry.args))
        for entry in present.values():
            key = from_program(entry.key, table.fields)
            self._keep(table, key, entry.priority, self._program_entry(table, entry, key))
        if timeout_of is not None:
            self._by_handle[(name, timeout_of[0])].message.idle_timeout_ns = timeout_of[1]
        default, program = self._engine.table_default_get(name), self._engine.program.tables[name]
        first = program.default_action and (program.default_action.name, program.default_args)
        self._defaults.pop(table.id, None)
        if default is not None and default != first:
            kept = p4r.TableEntry(table_id=table.id, is_default_action=True)
            kept.action.action.CopyFrom(self._named_call(table, *default))
            self._defaults[table.id] = kept

    # ---- direct resources ----
    def direct_counter(self, entry: p4r.TableEntry) -> Iterator[tuple[p4r.TableEntry, p4r.CounterData]]:
        """The direct counters of the entries that `entry` selects; raises P4RuntimeError."""
        for table, stored in self._direct(entry, "counter"):
            yield _key_message(stored.message), self._counter_data(table, stored)

    def direct_counter_set(self, entry: p4r.TableEntry, data: p4r.CounterData) -> None:
        """Write an entry's direct counter; raises P4RuntimeError."""
        table = self._info.table(entry.table_id)
        if table.counter is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct counter")
        stored = self._find(table, entry)
        _check_counter(data, table.name)
        self._engine.entry_counter_set(table.name, stored.handle, data.packet_count, data.byte_count)

    def direct_meter(self, entry: p4r.TableEntry) -> Iterator[tuple[p4r.TableEntry, p4r.MeterConfig | None]]:
        """The direct meters of the entries that `entry` selects; raises P4RuntimeError."""
        for _, stored in self._direct(entry, "meter"):
            config = stored.message.meter_config if stored.message.HasField("meter_config") else None
            yield _key_message(stored.message), config

    def direct_meter_set(self, entry: p4r.TableEntry, config: p4r.MeterConfig | None) -> None:
        """Configure an entry's direct meter (None: every packet is green); raises P4RuntimeError."""
        table = self._info.table(entry.table_id)
        if table.meter is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct meter")
        stored = self._find(table, entry)
        if config is not None:
            check_config(config, table.meter.spec, table.name)
        self._set_meter(table, stored, config)

    # ---- inside ----
    def _checked(self, message: p4r.TableEntry) -> Table:
        table = self._info.table(message.table_id)
        if message.is_const:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: is_const is set by the program only")
        if message.HasField("time_since_last_hit"):
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: time_since_last_hit can only be read")
        if message.idle_timeout_ns < 0:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: idle_timeout_ns is negative")
        if message.idle_timeout_ns and (not table.idle_timeout or message.is_default_action):
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no idle timeouts for this entry")
        return table

    def _key(self, table: Table, message: p4r.TableEntry) -> tuple[Key, int]:
        if table.needs_priority:
            if message.priority <= 0:
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"{table.name} has ternary, range or optional fields: priority must be above 0",
                )
        elif message.priority:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{table.name} takes no priority; {message.priority} is given"
            )
        return key_of(table.fields, message.match, self._translation, table.name), message.priority

    def _find(self, table: Table, message: p4r.TableEntry) -> _Stored:
        stored = self._entries[table.id].get(self._key(table, message))
        if stored is None:
            raise P4RuntimeError(NOT_FOUND, f"{table.name} has no entry with this key")
        return stored

    def _direct(self, entry: p4r.TableEntry, what: str) -> Iterator[tuple[Table, _Stored]]:
        if entry.table_id == 0:
            tables = [table for table in self._info.tables.values() if getattr(table, what) is not None]
        else:
            tables = [self._info.table(entry.table_id)]
            if getattr(tables[0], what) is None:
                raise P4RuntimeError(INVALID_ARGUMENT, f"{tables[0].name} has no direct {what}")
        for table in tables:
            if entry.match:
                yield table, self._find(table, entry)
            else:
                for stored in list(self._entries[table.id].values()):
                    if not entry.priority or stored.message.priority == entry.priority:
                        yield table, stored

    def _keep(self, table: Table, key: Key, priority: int, stored: _Stored) -> None:
        self._entries[table.id][(key, priority)] = stored
        self._by_handle[(table.name, stored.handle)] = stored

    def _add(
        self, table: Table, key: Key, priority: int, action: p4r.TableAction, kept: p4r.TableEntry
    ) -> tuple[int, OneShot | None]:
        """Put an entry into the engine and its canonical action into `kept`."""
        kind = action.WhichOneof("type")
        self._check_kind(table, kind)
        engine = self._engine
        key = to_program(key, engine.program.tables[table.name])
        if kind == "action":
            call, arguments = call_of(
                table.actions, action.action, self._translation, where=table.name, default=False
            )
            handle = engine.table_add(table.name, key, call.name, arguments, priority)
            kept.action.action.CopyFrom(message_of(call, arguments, self._translation))
            return handle, None
        if kind == "action_profile_action_set":
            one_shot = self._profiles.add_one_shot(
                table.profile_id, dict(table.actions), action.action_profile_action_set
            )
            try:
                handle = engine.table_add_indirect(table.name, key, group=one_shot.group, priority=priority)
            except BaseException:
                self._profiles.delete_one_shot(table.profile_id, one_shot)
                raise
            kept.action.action_profile_action_set.CopyFrom(one_shot.message)
            return handle, one_shot
        self._use(table, action, 1)
        try:
            if kind == "action_profile_member_id":
                handle = engine.table_add_indirect(
                    table.name, key, member=action.action_profile_member_id, priority=priority
                )
            else:
                handle = engine.table_add_indirect(
                    table.name, key, group=action.action_profile_group_id, priority=priority
                )
        except BaseException:
            self._use(table, action, -1)
            raise
        kept.action.CopyFrom(action)
        return handle, None

    def _replace(self, table: Table, stored: _Stored, action: p4r.TableAction) -> None:
        kind = action.WhichOneof("type")
        self._check_kind(table, kind)
        engine, message = self._engine, stored.message
        if kind == "action":
            call, arguments = call_of(
                table.actions, action.action, self._translation, where=table.name, default=False
            )
            engine.table_modify(table.name, stored.handle, call.name, arguments)
            message.action.action.CopyFrom(message_of(call, arguments, self._translation))
            return
        before, one_shot_before = p4r.TableAction(), stored.one_shot
        before.CopyFrom(message.action)
        if kind == "action_profile_action_set":
            one_shot = self._profiles.add_one_shot(
                table.profile_id, dict(table.actions), action.action_profile_action_set
            )
            engine.table_modify_indirect(table.name, stored.handle, group=one_shot.group)
            message.action.action_profile_action_set.CopyFrom(one_shot.message)
            stored.one_shot = one_shot
        else:
            self._use(table, action, 1)
            if kind == "action_profile_member_id":
                engine.table_modify_indirect(
                    table.name, stored.handle, member=action.action_profile_member_id
                )
            else:
                engine.table_modify_indirect(table.name, stored.handle, group=action.action_profile_group_id)
            message.action.CopyFrom(action)
            stored.one_shot = None
        self._release(table, before, one_shot_before)

    @staticmethod
    def _check_kind(table: Table, kind: str | None) -> None:
        if kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the entry has no action")
        if (kind == "action") == bool(table.profile_id):
            wanted = "a member, a group or an action set" if table.profile_id else "an action"
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: an entry takes {wanted}, not {kind}")

    def _use(self, table: Table, action: p4r.TableAction, change: int) -> None:
        if action.WhichOneof("type") == "action_profile_member_id":
            self._profiles.use_member(table.profile_id, action.action_profile_member_id, change)
        else:
            self._profiles.use_group(table.profile_id, action.action_profile_group_id, change)

    def _release(self, table: Table, action: p4r.TableAction, one_shot: OneShot | None) -> None:
        if one_shot is not None:
            self._profiles.delete_one_shot(table.profile_id, one_shot)
        elif action.WhichOneof("type") in ("action_profile_member_id", "action_profile_group_id"):
            self._use(table, action, -1)

    def _check_resources(self, table: Table, message: p4r.TableEntry) -> None:
        if message.HasField("counter_data"):
            if table.counter is None:
                raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct counter")
            _check_counter(message.counter_data, table.name)
        if message.HasField("meter_config"):
            if table.meter is None:
                raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct meter")
            check_config(message.meter_config, table.meter.spec, table.name)
        if message.HasField("meter_counter_data"):
            raise P4RuntimeError(UNIMPLEMENTED, f"{table.name}: meters have no counters here")

    def _set_resources(self, table: Table, stored: _Stored, message: p4r.TableEntry, *, fresh: bool) -> None:
        kept = stored.message
        kept.controller_metadata = message.controller_metadata
        kept.metadata = message.metadata
        if message.idle_timeout_ns or (kept.idle_timeout_ns and not fresh):
            self._engine.entry_timeout(table.name, stored.handle, message.idle_timeout_ns)
        kept.idle_timeout_ns = message.idle_timeout_ns
        if message.HasField("counter_data"):
            data = message.counter_data
            self._engine.entry_counter_set(table.name, stored.handle, data.packet_count, data.byte_count)
        if table.meter is not None and (message.HasField("meter_config") or not fresh):
            self._set_meter(table, stored, message.meter_config if message.HasField("meter_config") else None)

    def _set_meter(self, table: Table, stored: _Stored, config: p4r.MeterConfig | None) -> None:
        self._engine.entry_meter_set(table.name, stored.handle, None if config is None else rates_of(config))
        if config is None:
            stored.message.ClearField("meter_config")
        else:
            stored.message.meter_config.CopyFrom(config)

    def _counter_data(self, table: Table, stored: _Stored) -> p4r.CounterData:
        packets, octets = self._engine.entry_counter(table.name, stored.handle)
        return p4r.CounterData(packet_count=packets, byte_count=octets)

    def _filled(
        self, table: Table, stored: _Stored, query: p4r.TableEntry, *, lenient: bool
    ) -> p4r.TableEntry:
        """A copy of the entry with the direct resources that the query asks for."""
        message = p4r.TableEntry()
        message.CopyFrom(stored.message)
        if query.HasField("counter_data"):
            if table.counter is not None:
                message.counter_data.CopyFrom(self._counter_data(table, stored))
            elif not lenient:
                raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct counter")
        if query.HasField("meter_config"):
            if table.meter is None and not lenient:
                raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct meter")
        else:
            message.ClearField("meter_config")
        if query.HasField("time_since_last_hit") and table.idle_timeout:
            message.time_since_last_hit.elapsed_ns = self._engine.entry_idle(table.name, stored.handle)
        return message

    def _program_entry(self, table: Table, entry: Entry, key: Key) -> _Stored:
        message = p4r.TableEntry(table_id=table.id, priority=entry.priority, is_const=entry.const)
        message.match.extend(matches_of(table.fields, key, self._translation))
        if entry.action is not None:
            message.action.action.CopyFrom(self._named_call(table, entry.action, entry.args))
        elif entry.member is not None:
            message.action.action_profile_member_id = entry.member
        elif entry.group is not None:
            message.action.action_profile_group_id = entry.group
        return _Stored(message, entry.handle)

    def _named_call(self, table: Table, name: str, arguments: tuple[int, ...]) -> p4r.Action:
        for ref in table.actions.values():
            if ref.action.name == name:
                return message_of(ref.action, arguments, self._translation)
        raise P4RuntimeError(
            INVALID_ARGUMENT,
            f"P4Info: table {table.name} does not list action {name}, which the program uses",
        )

    def _modify_default(self, table: Table, message: p4r.TableEntry) -> None:
        if message.match or message.priority:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default entry has no key or priority")
        if table.const_default_action_id:
            raise P4RuntimeError(PERMISSION_DENIED, f"{table.name}: the default action is const")
        for resource in ("counter_data", "meter_config", "meter_counter_data"):
            if message.HasField(resource):
                raise P4RuntimeError(
                    UNIMPLEMENTED, f"{table.name}: the default entry has no {resource} on this switch"
                )
        if not message.HasField("action"):
            self._engine.table_default_reset(table.name)
            self._defaults.pop(table.id, None)
            return
        if table.profile_id:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default of an indirect table is fixed")
        self._check_kind(table, message.action.WhichOneof("type"))
        action, arguments = call_of(
            table.actions, message.action.action, self._translation, where=table.name, default=True
        )
        self._engine.table_default(table.name, action.name, arguments)
        kept = p4r.TableEntry(
            table_id=table.id,
            is_default_action=True,
            controller_metadata=message.controller_metadata,
            metadata=message.metadata,
        )
        kept.action.action.CopyFrom(message_of(action, arguments, self._translation))
        self._defaults[table.id] = kept

    def _default_message(self, table: Table) -> p4r.TableEntry | None:
        changed = self._defaults.get(table.id)
        if changed is not None:
            return changed
        message = p4r.TableEntry(table_id=table.id, is_default_action=True)
        present = self._engine.table_default_get(table.name)
        if present is not None:
            message.action.action.CopyFrom(self._named_call(table, *present))
        return message


def _key_message(message: p4r.TableEntry) -> p4r.TableEntry:
    key = p4r.TableEntry(table_id=message.table_id, priority=message.priority)
    key.match.extend(message.match)
    return key


def _check_counter(data: p4r.CounterData, where: str) -> None:
    if data.packet_count < 0 or data.byte_count < 0:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a counter cannot be negative")
