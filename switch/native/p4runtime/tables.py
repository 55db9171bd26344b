"""Table entries over P4Runtime: checked, kept as written for reading back, and put into the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finsy.proto import p4r

from switch.native.binding import Engine, Entry
from switch.native.p4runtime.entryactions import EntryActions
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
from switch.native.p4runtime.keykinds import from_program
from switch.native.p4runtime.matching import Key, key_of, matches_of
from switch.native.p4runtime.oneshot import OneShot
from switch.native.p4runtime.profiles import Profiles
from switch.native.p4runtime.resources import (
    check_query,
    check_resources,
    filled,
    write_meter,
    write_resources,
)
from switch.native.p4runtime.translation import Translation

_DEFAULT_SIZE = 1024
"""p4c's size for a table that names none; BMv2 and the engine count with it too."""
_EVERYTHING = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
"""Asks for what can be written."""


@dataclass
class Stored:
    """An entry: its canonical message (key, action, metadata, timeout, meter) and where the engine has it.

    The message is replaced, never changed in place.
    """

    message: p4r.TableEntry
    handle: int
    one_shot: OneShot | None = None


class Tables:
    """The tables of one pipeline. What is written is to be written in a batch of the engine."""

    def __init__(self, info: Info, engine: Engine, translation: Translation, profiles: Profiles) -> None:
        """Takes the entries that the program brings (const and initial ones) from `engine`."""
        self._info = info
        self._engine = engine
        self._translation = translation
        self._profiles = profiles
        self._actions = EntryActions(engine, translation, profiles)
        self._entries: dict[int, dict[tuple[Key, int], Stored]] = {table_id: {} for table_id in info.tables}
        self._by_handle: dict[tuple[str, int], Stored] = {}
        self._defaults: dict[int, p4r.TableEntry] = {}
        """Default entries that a client has changed."""
        for table in info.tables.values():
            for entry in engine.table_entries(table.name):
                self._take_over(table, entry)

    # ---- writing ----
    def write(self, update: int, message: p4r.TableEntry) -> None:
        """INSERT, MODIFY or DELETE; raises P4RuntimeError, EngineError."""
        if update == p4r.Update.DELETE:
            self._delete(message)
        elif update == p4r.Update.INSERT:
            self._insert(message)
        else:
            self._modify(message)

    def _insert(self, message: p4r.TableEntry) -> None:
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
        check_resources(table, message)
        handle, action, one_shot = self._actions.add(table, key, priority, message.action)
        kept = p4r.TableEntry(table_id=table.id, priority=priority)
        kept.action.CopyFrom(action)
        kept.match.extend(matches_of(table.fields, key, self._translation))
        write_resources(self._engine, table, handle, message, kept, fresh=True)
        self._keep(table, key, priority, Stored(kept, handle, one_shot))

    def _modify(self, message: p4r.TableEntry) -> None:
        table = self._checked(message)
        if message.is_default_action:
            self._modify_default(table, message)
            return
        stored = self._find(table, message)
        if (table.is_const or stored.message.is_const) and (
            message.HasField("action")
            or message.idle_timeout_ns
            or message.metadata
            or message.controller_metadata
        ):
            raise P4RuntimeError(
                PERMISSION_DENIED,
                f"{table.name}: of a const entry only direct resources can be modified",
            )
        check_resources(table, message)
        kept = p4r.TableEntry()
        kept.CopyFrom(stored.message)
        journal = self._engine.journal
        if message.HasField("action"):
            before = stored.one_shot
            action, one_shot = self._actions.replace(table, stored.handle, message.action)
            kept.action.CopyFrom(action)
            journal.put(stored, "one_shot", one_shot)
            if before is not None:
                self._profiles.delete_one_shot(table.profile_id, before)
        write_resources(self._engine, table, stored.handle, message, kept, fresh=False)
        journal.put(stored, "message", kept)

    def _delete(self, message: p4r.TableEntry) -> None:
        table = self._info.table(message.table_id)
        if message.is_const:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: is_const is set by the program only")
        if message.is_default_action:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default entry cannot be deleted")
        if table.is_const:
            raise P4RuntimeError(PERMISSION_DENIED, f"{table.name} has const entries; none can be deleted")
        stored = self._find(table, message)
        if stored.message.is_const:
            raise P4RuntimeError(PERMISSION_DENIED, f"{table.name}: a const entry cannot be deleted")
        self._engine.table_delete(table.name, stored.handle)
        if stored.one_shot is not None:
            self._profiles.delete_one_shot(table.profile_id, stored.one_shot)
        self._engine.journal.remove(self._entries[table.id], self._key(table, message))
        self._engine.journal.remove(self._by_handle, (table.name, stored.handle))

    def set_meter(self, table: Table, stored: Stored, config: p4r.MeterConfig | None) -> None:
        """Configure an entry's direct meter (None: every packet is green); raises EngineError."""
        kept = p4r.TableEntry()
        kept.CopyFrom(stored.message)
        write_meter(self._engine, table, stored.handle, config, kept)
        self._engine.journal.put(stored, "message", kept)

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
            if table.id in self._defaults:
                self._engine.journal.remove(self._defaults, table.id)
            return
        kept = p4r.TableEntry(
            table_id=table.id,
            is_default_action=True,
            controller_metadata=message.controller_metadata,
            metadata=message.metadata,
            action=self._actions.set_default(table, message.action),
        )
        self._engine.journal.set(self._defaults, table.id, kept)

    # ---- reading ----
    def read(self, query: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        """The entries that the query selects (P4Runtime, "Wildcard Reads"); raises P4RuntimeError.

        Without a table nothing else selects, but that `is_default_action` asks for the default entries of all.
        """
        if query.table_id == 0:
            for table in self._info.tables.values():
                if query.is_default_action:
                    yield self._default_message(table)
                    continue
                for stored in self._entries[table.id].values():
                    yield filled(self._engine, table, stored.handle, stored.message, query)
            return
        table = self._info.table(query.table_id)
        if query.is_default_action:
            self._check_default(table, query)
            default = self._default_message(table)
            if _passes(default, query):
                yield default
            return
        check_query(table, query)
        for stored in self._chosen(table, query):
            if _passes(stored.message, query):
                yield filled(self._engine, table, stored.handle, stored.message, query)

    def with_direct(self, query: p4r.TableEntry, what: str) -> Iterator[tuple[Table, Stored]]:
        """The entries that a read of their direct counters or meters selects; raises P4RuntimeError."""
        if query.table_id == 0:
            for table in self._info.tables.values():
                if getattr(table, what) is not None:
                    yield from ((table, stored) for stored in self._entries[table.id].values())
            return
        table = self._direct_table(query, what)
        if query.match:
            yield table, self._find(table, query)
            return
        for stored in self._entries[table.id].values():
            if not query.priority or stored.message.priority == query.priority:
                yield table, stored

    def one_with_direct(self, entry: p4r.TableEntry, what: str) -> tuple[Table, Stored]:
        """The entry whose direct counter or meter is written; raises P4RuntimeError."""
        table = self._direct_table(entry, what)
        return table, self._find(table, entry)

    def clear(self) -> None:
        """Delete the entries that the program brings and does not hold constant."""
        for table_id, entries in self._entries.items():
            table = self._info.tables[table_id]
            for place, stored in list(entries.items()):
                if not stored.message.is_const:
                    self._engine.table_delete(table.name, stored.handle)
                    del entries[place], self._by_handle[(table.name, stored.handle)]

    def export(self) -> Iterator[tuple[p4r.Update.Type.ValueType, p4r.TableEntry]]:
        """Everything a client has set or may change, as updates of a fresh pipeline of the same program."""
        for table_id, entries in self._entries.items():
            table = self._info.tables[table_id]
            for stored in entries.values():
                if not stored.message.is_const:
                    yield (
                        p4r.Update.INSERT,
                        filled(self._engine, table, stored.handle, stored.message, _EVERYTHING),
                    )
        for default in self._defaults.values():
            yield p4r.Update.MODIFY, default

    def of_handle(self, table: str, handle: int) -> p4r.TableEntry | None:
        """The entry that the engine calls `handle`, None when it is gone."""
        stored = self._by_handle.get((table, handle))
        return None if stored is None else stored.message

    # ---- what was changed by other means ----
    def adopt(self, name: str, timeout_of: tuple[int, int] | None = None) -> None:
        """Take over what was changed in the engine's table; `timeout_of` is (handle, ns).

        Raises P4RuntimeError when an entry runs an action that P4Info does not list.
        """
        table = next((table for table in self._info.tables.values() if table.name == name), None)
        if table is None:
            return
        present = {entry.handle: entry for entry in self._engine.table_entries(name)}
        for place, stored in list(self._entries[table.id].items()):
            entry = present.pop(stored.handle, None)
            if entry is not None and stored.one_shot is not None and entry.group == stored.one_shot.group:
                continue
            if stored.one_shot is not None:
                self._profiles.delete_one_shot(table.profile_id, stored.one_shot)
                stored.one_shot = None
            if entry is None:
                del self._entries[table.id][place]
                del self._by_handle[(name, stored.handle)]
            else:
                kept = p4r.TableEntry()
                kept.CopyFrom(stored.message)
                kept.action.CopyFrom(self._actions.of_engine(table, entry))
                stored.message = kept
        for entry in present.values():
            self._take_over(table, entry)
        if timeout_of is not None:
            self._by_handle[(name, timeout_of[0])].message.idle_timeout_ns = timeout_of[1]
        default, program = self._engine.table_default_get(name), self._engine.program.tables[name]
        first = program.default_action and (program.default_action.name, program.default_args)
        self._defaults.pop(table.id, None)
        if default is not None and default != first:
            kept = p4r.TableEntry(table_id=table.id, is_default_action=True)
            kept.action.action.CopyFrom(self._actions.named(table, *default))
            self._defaults[table.id] = kept

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

    @staticmethod
    def _check_default(table: Table, query: p4r.TableEntry) -> None:
        if query.match or query.priority:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default entry has no key or priority")
        if query.HasField("time_since_last_hit"):
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name}: the default entry has no idle timeout")

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

    def _find(self, table: Table, message: p4r.TableEntry) -> Stored:
        stored = self._entries[table.id].get(self._key(table, message))
        if stored is None:
            raise P4RuntimeError(NOT_FOUND, f"{table.name} has no entry with this key")
        return stored

    def _chosen(self, table: Table, query: p4r.TableEntry) -> list[Stored]:
        """The entries with the query's key and priority, as far as it has them."""
        entries = self._entries[table.id]
        if not query.match:
            return list(entries.values())
        if table.needs_priority and not query.priority:
            wanted = key_of(table.fields, query.match, self._translation, table.name)
            return [stored for (key, _), stored in entries.items() if key == wanted]
        found = entries.get(self._key(table, query))
        return [] if found is None else [found]

    def _direct_table(self, entry: p4r.TableEntry, what: str) -> Table:
        table = self._info.table(entry.table_id)
        if getattr(table, what) is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{table.name} has no direct {what}")
        if entry.is_default_action:
            raise P4RuntimeError(
                UNIMPLEMENTED, f"{table.name}: the default entry has no direct {what} on this switch"
            )
        return table

    def _keep(self, table: Table, key: Key, priority: int, stored: Stored) -> None:
        self._engine.journal.set(self._entries[table.id], (key, priority), stored)
        self._engine.journal.set(self._by_handle, (table.name, stored.handle), stored)

    def _take_over(self, table: Table, entry: Entry) -> None:
        key = from_program(entry.key, table.fields)
        message = p4r.TableEntry(table_id=table.id, priority=entry.priority, is_const=entry.const)
        message.match.extend(matches_of(table.fields, key, self._translation))
        message.action.CopyFrom(self._actions.of_engine(table, entry))
        self._keep(table, key, entry.priority, Stored(message, entry.handle))

    def _default_message(self, table: Table) -> p4r.TableEntry:
        changed = self._defaults.get(table.id)
        if changed is not None:
            return changed
        message = p4r.TableEntry(table_id=table.id, is_default_action=True)
        present = self._engine.table_default_get(table.name)
        if present is not None:
            message.action.action.CopyFrom(self._actions.named(table, *present))
        return message


def _passes(message: p4r.TableEntry, query: p4r.TableEntry) -> bool:
    """Whether the entry passes the query's filters on its fields."""
    action = query.action.action.action_id
    return (
        query.priority in (0, message.priority)
        and query.controller_metadata in (0, message.controller_metadata)
        and query.metadata in (b"", message.metadata)
        and action in (0, message.action.action.action_id)
    )
