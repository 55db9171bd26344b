"""Tables of an engine, by name.

The engine itself knows encoded keys and handles only; what was added is kept here as it was given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from switch.native import abi
from switch.native.engine_profiles import EngineProfiles, Reference
from switch.native.engine_types import (
    EngineError,
    Entry,
    IdleEvent,
    Key,
    MeterCounts,
    check,
    encode_rates,
    meter_counts,
    uint,
)
from switch.native.journal import Numbers
from switch.native.keys import Encoded, encode_key
from switch.native.program import Action, Profile, Program, Table

_Place = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]


def _place(key: Encoded) -> _Place:
    return key.words, key.mask, key.ranges, key.rank


def _referred(entry: Entry) -> Reference | None:
    if entry.group is not None:
        return True, entry.group
    return None if entry.member is None else (False, entry.member)


class EngineTables(EngineProfiles):
    """Entries, defaults, direct counters and meters, idle timeouts."""

    _entries: dict[str, dict[int, Entry]]
    _places: dict[str, dict[_Place, int]]
    """Which handle has an encoded key and rank."""
    _handles: dict[str, Numbers]
    _defaults: dict[str, tuple[str, tuple[int, ...]] | None]
    _default_references: dict[str, Reference | None]

    def _forget_tables(self, program: Program | None) -> None:
        """What a freshly loaded program has: its const entries and default actions."""
        self._entries, self._places, self._handles = {}, {}, {}
        self._defaults, self._default_references = {}, {}
        self._forget_profiles(program)
        if program is None:
            return
        for table in program.tables.values():
            self._entries[table.name] = {
                i: Entry(
                    i, entry.key, entry.action.name, entry.args, entry.priority, const=table.entries_const
                )
                for i, entry in enumerate(table.entries)
            }
            self._places[table.name] = {
                _place(encode_key(table, entry.key, entry.priority)): i
                for i, entry in enumerate(table.entries)
            }
            self._handles[table.name] = Numbers(self.journal, len(table.entries))
            self._defaults[table.name] = self._initial_default(table)

    @staticmethod
    def _initial_default(table: Table) -> tuple[str, tuple[int, ...]] | None:
        if table.default_action is None:
            return None
        return table.default_action.name, table.default_args

    def _table(self, name: str) -> Table:
        table = self.program.tables.get(name)
        if table is None:
            raise EngineError("not_found", f"there is no table '{name}'")
        return table

    @staticmethod
    def _action_fields(chosen: Action, words: Any) -> dict[str, Any]:
        return {"action": chosen.index, "words": words}

    @staticmethod
    def _reference_fields(reference: Reference) -> dict[str, Any]:
        return {"action": abi.NO_ACTION, "is_group": int(reference[0]), "ref": reference[1]}

    def _reference(self, table: Table, member: int | None, group: int | None) -> Reference:
        number = member if group is None else group
        if number is None or (member is not None and group is not None):
            raise EngineError("invalid", "give either a member or a group")
        if table.profile is None:
            raise EngineError("invalid", f"entries of table '{table.name}' run actions themselves")
        reference = (group is not None, uint(number, 32, "id"))
        self._known(self._profile_of(table), reference)
        return reference

    def _profile_of(self, table: Table) -> Profile:
        return next(p for p in self.program.profiles.values() if p.index == table.profile)

    def _refer(self, table: Table, reference: Reference | None, change: int) -> None:
        if reference is not None:
            self._use(self._profile_of(table).name, *reference, change)

    def _direct_table(self, name: str) -> Table:
        table = self._table(name)
        if table.profile is not None:
            raise EngineError("invalid", f"entries of table '{name}' refer to members or groups")
        return table

    def _present(self, table: Table, handle: int, doing: str) -> Entry:
        """The entry, which must not be constant."""
        entry = self._entries[table.name].get(handle)
        if entry is None:
            raise EngineError("not_found", f"{doing}: there is no entry {handle}")
        if entry.const:
            raise EngineError("constant", f"{doing}: the program makes it constant")
        return entry

    def _add(self, table: Table, entry: Entry, fields: dict[str, Any]) -> int:
        doing = f"adding an entry to table '{table.name}'"
        try:
            encoded = encode_key(table, entry.key, entry.priority)
        except ValueError as error:
            raise EngineError("invalid", str(error)) from None
        with self._control:
            place = _place(encoded)
            if table.entries and table.entries_const:
                raise EngineError("constant", f"{doing}: the program makes its entries constant")
            if place in self._places[table.name]:
                raise EngineError("exists", f"{doing}: it exists already")
            if len(self._entries[table.name]) >= table.size:
                raise EngineError("full", f"{doing}: there is no room for another one")
            with self.batch():
                handle = self._handles[table.name].take()
                self._change(
                    doing,
                    abi.TABLE_ADD,
                    object=table.index,
                    id=handle,
                    rank=encoded.rank,
                    key=abi.words(encoded.words),
                    mask=abi.words(encoded.mask),
                    ranges=abi.words(encoded.ranges),
                    **fields,
                )
                self._refer(table, _referred(entry), 1)
                self.journal.set(self._places[table.name], place, handle)
                self.journal.set(self._entries[table.name], handle, replace(entry, handle=handle))
        return handle

    def table_add(self, table: str, key: Key, action: str, args: Sequence[int], priority: int = 0) -> int:
        """Add an entry; returns its handle. Larger priority wins (ternary, range and optional keys only).

        EngineError "exists" (same key and priority), "full", "constant", "invalid".
        """
        t = self._direct_table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        entry = Entry(0, tuple(tuple(k) for k in key), action, tuple(args), priority)
        return self._add(t, entry, self._action_fields(chosen, words))

    def table_add_indirect(
        self, table: str, key: Key, *, member: int | None = None, group: int | None = None, priority: int = 0
    ) -> int:
        """Add an entry that refers to an action profile member or group."""
        t = self._table(table)
        entry = Entry(0, tuple(tuple(k) for k in key), None, (), priority, member, group)
        return self._add(t, entry, self._reference_fields(self._reference(t, member, group)))

    def table_modify(self, table: str, handle: int, action: str, args: Sequence[int]) -> None:
        """Replace the entry's action; its counter stays."""
        t = self._direct_table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        self._modify(t, handle, self._action_fields(chosen, words), action=action, args=tuple(args))

    def table_modify_indirect(
        self, table: str, handle: int, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Replace what the entry refers to."""
        t = self._table(table)
        fields = self._reference_fields(self._reference(t, member, group))
        self._modify(t, handle, fields, member=member, group=group)

    def _modify(self, table: Table, handle: int, fields: dict[str, Any], **known: Any) -> None:
        doing = f"modifying entry {handle} of table '{table.name}'"
        nothing: dict[str, Any] = {"action": None, "args": (), "member": None, "group": None}
        with self.batch():
            entry = self._present(table, handle, doing)
            changed = replace(entry, **{**nothing, **known})
            self._change(doing, abi.TABLE_MODIFY, object=table.index, id=handle, **fields)
            self._refer(table, _referred(changed), 1)
            self._refer(table, _referred(entry), -1)
            self.journal.set(self._entries[table.name], handle, changed)

    def table_delete(self, table: str, handle: int) -> None:
        """Delete an entry."""
        t = self._table(table)
        doing = f"deleting entry {handle} of table '{table}'"
        with self.batch():
            self._present(t, handle, doing)
            self._change(doing, abi.TABLE_DELETE, object=t.index, id=handle)
            self._forget_entry(t, handle)

    def table_clear(self, table: str) -> None:
        """Delete every entry that is not const."""
        t = self._table(table)
        with self.batch():
            self._change(f"clearing table '{table}'", abi.TABLE_CLEAR, object=t.index)
            for entry in list(self._entries[table].values()):
                if not entry.const:
                    self._forget_entry(t, entry.handle)

    def _forget_entry(self, table: Table, handle: int) -> None:
        entry = self.journal.remove(self._entries[table.name], handle)
        self._refer(table, _referred(entry), -1)
        self.journal.remove(self._places[table.name], _place(encode_key(table, entry.key, entry.priority)))
        self._handles[table.name].give(handle)

    def table_default(self, table: str, action: str, args: Sequence[int]) -> None:
        """Set the default action."""
        t = self._table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        self._set_default(t, (action, tuple(args)), None, self._action_fields(chosen, words))

    def table_default_indirect(
        self, table: str, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Set the default of an indirect table."""
        t = self._table(table)
        reference = self._reference(t, member, group)
        self._set_default(t, None, reference, self._reference_fields(reference))

    def _set_default(
        self,
        table: Table,
        default: tuple[str, tuple[int, ...]] | None,
        reference: Reference | None,
        fields: dict[str, Any],
    ) -> None:
        doing = f"default action of table '{table.name}'"
        if table.default_const:
            raise EngineError("constant", f"{doing}: the program makes it constant")
        with self.batch():
            self._change(doing, abi.TABLE_DEFAULT, object=table.index, **fields)
            self._know_default(table, default, reference)

    def table_default_reset(self, table: str) -> None:
        """Back to the program's default action."""
        t = self._table(table)
        with self.batch():
            self._change(f"default action of table '{table}'", abi.TABLE_DEFAULT_RESET, object=t.index)
            self._know_default(t, self._initial_default(t), None)

    def _know_default(
        self, table: Table, default: tuple[str, tuple[int, ...]] | None, reference: Reference | None
    ) -> None:
        self._refer(table, reference, 1)
        self._refer(table, self._default_references.get(table.name), -1)
        self.journal.set(self._default_references, table.name, reference)
        self.journal.set(self._defaults, table.name, default)

    def table_default_get(self, table: str) -> tuple[str, tuple[int, ...]] | None:
        """The present default action and arguments; None when there is none (or it is indirect)."""
        self._table(table)
        with self._control:
            return self._defaults[table]

    def table_default_reference(self, table: str) -> Reference | None:
        """The member or group that the default of an indirect table refers to, if it was set."""
        self._table(table)
        with self._control:
            return self._default_references.get(table)

    def table_entries(self, table: str) -> list[Entry]:
        """All entries, const ones included, in order of insertion."""
        self._table(table)
        with self._control:
            return list(self._entries[table].values())

    def table_find(self, table: str, key: Key, priority: int = 0) -> Entry | None:
        """The entry with exactly this key and priority."""
        wanted = tuple(tuple(k) for k in key)
        for entry in self.table_entries(table):
            if entry.key == wanted and entry.priority == priority:
                return entry
        return None

    def table_stats(self, table: str) -> dict[str, int]:
        """hits, misses, entries."""
        stats = abi.TableStats()
        code = self._lib.xf_table_stats_read(self._e, self._table(table).index, stats)
        check(code, f"table '{table}'")
        return {"hits": stats.hits, "misses": stats.misses, "entries": stats.entries}

    def entry_counter(self, table: str, handle: int) -> tuple[int, int]:
        """(packets, bytes) of an entry's direct counter."""
        packets, octets = ctypes.c_uint64(), ctypes.c_uint64()
        code = self._lib.xf_entry_counter(self._e, self._table(table).index, handle, packets, octets)
        check(code, f"entry {handle} of table '{table}'")
        return packets.value, octets.value

    def _change_entry(self, table: str, handle: int, what: str, kind: int, **fields: Any) -> None:
        t = self._table(table)
        doing = f"{what} of entry {handle} of table '{table}'"
        with self._control:
            if handle not in self._entries[table]:
                raise EngineError("not_found", f"{doing}: there is no such entry")
            self._change(doing, kind, object=t.index, id=handle, **fields)

    def entry_counter_set(self, table: str, handle: int, packets: int, bytes: int) -> None:
        """Write an entry's direct counter."""
        self._change_entry(
            table,
            handle,
            "counter",
            abi.ENTRY_COUNTER,
            packets=uint(packets, 64, "packets"),
            bytes=uint(bytes, 64, "bytes"),
        )

    def _metered(self, table: str) -> None:
        if self._table(table).meter is None:
            raise EngineError("invalid", f"table '{table}' has no direct meter")

    def entry_meter_set(self, table: str, handle: int, rates: tuple[int, int, int, int] | None) -> None:
        """Direct meter: as `meter_set`."""
        self._metered(table)
        self._change_entry(table, handle, "meter", abi.ENTRY_METER, words=encode_rates(rates))

    def entry_meter_counts(self, table: str, handle: int) -> MeterCounts:
        """What the entry's direct meter coloured: (packets, bytes) of green, yellow, red."""
        counts = (ctypes.c_uint64 * 6)()
        code = self._lib.xf_entry_meter_read(self._e, self._table(table).index, handle, counts)
        check(code, f"meter of entry {handle} of table '{table}'")
        return meter_counts(list(counts))

    def entry_meter_clear(self, table: str, handle: int) -> None:
        """Count what the entry's direct meter colours from 0 again."""
        self._metered(table)
        self._change_entry(table, handle, "meter", abi.ENTRY_METER_CLEAR)

    def entry_timeout(self, table: str, handle: int, timeout_ns: int) -> None:
        """Report the entry when it was not hit for `timeout_ns` (0 = never); needs a table with timeouts."""
        if not self._table(table).with_timeout:
            raise EngineError("not_found", f"table '{table}' has no idle timeouts")
        self._change_entry(table, handle, "timeout", abi.ENTRY_TIMEOUT, time=uint(timeout_ns, 62, "timeout"))

    def entry_idle(self, table: str, handle: int) -> int:
        """ns since the entry was last hit (or added)."""
        idle = ctypes.c_uint64()
        code = self._lib.xf_entry_idle(self._e, self._table(table).index, handle, idle)
        check(code, f"entry {handle} of table '{table}'")
        return idle.value

    def take_idle_events(self) -> list[IdleEvent]:
        """Entries that timed out since the last call."""
        out: list[IdleEvent] = []
        events = (abi.IdleEvent * 256)()
        with self._control:
            names = [] if self._program is None else list(self._program.tables)
            while True:
                count = self._lib.xf_idle_take(self._e, events, 256)
                for e in events[:count]:
                    if e.table < len(names):
                        out.append(IdleEvent(e.time, names[e.table], e.handle))
                if count < 256:
                    return out
