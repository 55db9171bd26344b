"""Tables and action profiles of an engine, by name.

The engine itself knows encoded keys and handles only; what was added is kept here as it was given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from switch.native import abi
from switch.native.engine_base import EngineBase
from switch.native.engine_types import EngineError, Entry, IdleEvent, Key, check, encode_rates, uint
from switch.native.keys import encode_key
from switch.native.program import Action, Profile, Program, Table


class EngineTables(EngineBase):
    """Entries, defaults, direct counters and meters, idle timeouts, members and groups."""

    _entries: dict[str, dict[int, Entry]]
    _defaults: dict[str, tuple[str, tuple[int, ...]] | None]
    _members: dict[str, set[int]]
    _groups: dict[str, set[int]]

    def _forget_tables(self, program: Program | None) -> None:
        """What a freshly loaded program has: its const entries and default actions."""
        self._entries, self._defaults, self._members, self._groups = {}, {}, {}, {}
        if program is None:
            return
        for table in program.tables.values():
            self._entries[table.name] = {
                i: Entry(i, entry.key, entry.action.name, entry.args, entry.priority, const=True)
                for i, entry in enumerate(table.entries)
            }
            self._defaults[table.name] = self._initial_default(table)
        self._members = {name: set() for name in program.profiles}
        self._groups = {name: set() for name in program.profiles}

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
    def _args(action: Action, args: Sequence[int], room: int) -> Any:
        try:
            encoded = action.encode(list(args))
        except ValueError as error:
            raise EngineError("invalid", str(error)) from None
        return abi.words(encoded + [0] * (room - len(encoded)))

    @staticmethod
    def _action(owner: Table | Profile, name: str) -> Action:
        try:
            return owner.action(name)
        except ValueError as error:
            raise EngineError("invalid", str(error)) from None

    @staticmethod
    def _reference(member: int | None, group: int | None) -> tuple[int, int]:
        if (member is None) == (group is None):
            raise EngineError("invalid", "give either a member or a group")
        return (0, member) if member is not None else (1, group or 0)

    def _add(self, table: Table, entry: Entry, call: Any) -> int:
        try:
            encoded = encode_key(table, entry.key, entry.priority)
        except ValueError as error:
            raise EngineError("invalid", str(error)) from None
        handle = ctypes.c_uint32()
        with self._control:
            code = call(
                abi.words(encoded.words),
                abi.words(encoded.mask),
                abi.words(encoded.ranges),
                encoded.rank,
                handle,
            )
            check(code, f"adding an entry to table '{table.name}'")
            self._entries[table.name][handle.value] = replace(entry, handle=handle.value)
        return handle.value

    def table_add(self, table: str, key: Key, action: str, args: Sequence[int], priority: int = 0) -> int:
        """Add an entry; returns its handle. Larger priority wins (ternary, range and optional keys only).

        EngineError "exists" (same key and priority), "full", "constant", "invalid".
        """
        t = self._table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        entry = Entry(0, tuple(tuple(k) for k in key), action, tuple(args), priority)
        if t.profile is not None:
            raise EngineError("invalid", f"entries of table '{table}' refer to members or groups")
        return self._add(
            t,
            entry,
            lambda k, m, r, rank, h: self._lib.xf_table_add(
                self._e, t.index, k, m, r, rank, chosen.index, words, h
            ),
        )

    def table_add_indirect(
        self, table: str, key: Key, *, member: int | None = None, group: int | None = None, priority: int = 0
    ) -> int:
        """Add an entry that refers to an action profile member or group."""
        t = self._table(table)
        is_group, number = self._reference(member, group)
        entry = Entry(0, tuple(tuple(k) for k in key), None, (), priority, member, group)
        return self._add(
            t,
            entry,
            lambda k, m, r, rank, h: self._lib.xf_table_add_indirect(
                self._e, t.index, k, m, r, rank, is_group, number, h
            ),
        )

    def table_modify(self, table: str, handle: int, action: str, args: Sequence[int]) -> None:
        """Replace the entry's action; its counter stays."""
        t = self._table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        if t.profile is not None:
            raise EngineError("invalid", f"entries of table '{table}' refer to members or groups")
        with self._control:
            code = self._lib.xf_table_modify(self._e, t.index, handle, chosen.index, words)
            check(code, f"modifying entry {handle} of table '{table}'")
            old = self._entries[table][handle]
            self._entries[table][handle] = replace(
                old, action=action, args=tuple(args), member=None, group=None
            )

    def table_modify_indirect(
        self, table: str, handle: int, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Replace what the entry refers to."""
        t = self._table(table)
        is_group, number = self._reference(member, group)
        with self._control:
            code = self._lib.xf_table_modify_indirect(self._e, t.index, handle, is_group, number)
            check(code, f"modifying entry {handle} of table '{table}'")
            old = self._entries[table][handle]
            self._entries[table][handle] = replace(old, action=None, args=(), member=member, group=group)

    def table_delete(self, table: str, handle: int) -> None:
        """Delete an entry."""
        t = self._table(table)
        with self._control:
            code = self._lib.xf_table_delete(self._e, t.index, handle)
            check(code, f"deleting entry {handle} of table '{table}'")
            del self._entries[table][handle]

    def table_clear(self, table: str) -> None:
        """Delete every entry that is not const."""
        t = self._table(table)
        with self._control:
            check(self._lib.xf_table_clear(self._e, t.index), f"clearing table '{table}'")
            self._entries[table] = {h: e for h, e in self._entries[table].items() if e.const}

    def table_default(self, table: str, action: str, args: Sequence[int]) -> None:
        """Set the default action."""
        t = self._table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        with self._control:
            code = self._lib.xf_table_default(self._e, t.index, chosen.index, words)
            check(code, f"default action of table '{table}'")
            self._defaults[table] = (action, tuple(args))

    def table_default_indirect(
        self, table: str, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Set the default of an indirect table."""
        t = self._table(table)
        is_group, number = self._reference(member, group)
        with self._control:
            code = self._lib.xf_table_default_indirect(self._e, t.index, is_group, number)
            check(code, f"default of table '{table}'")
            self._defaults[table] = None

    def table_default_reset(self, table: str) -> None:
        """Back to the program's default action."""
        t = self._table(table)
        with self._control:
            check(self._lib.xf_table_default_reset(self._e, t.index), f"default action of table '{table}'")
            self._defaults[table] = self._initial_default(t)

    def table_default_get(self, table: str) -> tuple[str, tuple[int, ...]] | None:
        """The present default action and arguments; None when there is none (or it is indirect)."""
        self._table(table)
        with self._control:
            return self._defaults[table]

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

    def entry_counter_set(self, table: str, handle: int, packets: int, bytes: int) -> None:
        """Write an entry's direct counter."""
        code = self._lib.xf_entry_counter_set(
            self._e,
            self._table(table).index,
            handle,
            uint(packets, 64, "packets"),
            uint(bytes, 64, "bytes"),
        )
        check(code, f"entry {handle} of table '{table}'")

    def entry_meter_set(self, table: str, handle: int, rates: tuple[int, int, int, int] | None) -> None:
        """Direct meter: as `meter_set`."""
        words, count = encode_rates(rates)
        code = self._lib.xf_entry_meter_set(self._e, self._table(table).index, handle, words, count)
        check(code, f"meter of entry {handle} of table '{table}'")

    def entry_timeout(self, table: str, handle: int, timeout_ns: int) -> None:
        """Report the entry when it was not hit for `timeout_ns` (0 = never); needs a table with timeouts."""
        code = self._lib.xf_entry_timeout(
            self._e, self._table(table).index, handle, uint(timeout_ns, 62, "timeout")
        )
        check(code, f"timeout of entry {handle} of table '{table}'")

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

    # ---- action profiles ----
    def _profile(self, name: str) -> Profile:
        profile = self.program.profiles.get(name)
        if profile is None:
            raise EngineError("not_found", f"there is no action profile '{name}'")
        return profile

    @staticmethod
    def _free_id(used: set[int]) -> int:
        number = len(used) + 1
        while number in used:
            number += 1
        return number

    def member_add(self, profile: str, action: str, args: Sequence[int], member: int | None = None) -> int:
        """Add a member (under an id of the caller's choice, or the next free one); returns its id."""
        p = self._profile(profile)
        chosen = self._action(p, action)
        words = self._args(chosen, args, p.arg_words)
        with self._control:
            number = (
                self._free_id(self._members[profile]) if member is None else uint(member, 32, "member id")
            )
            code = self._lib.xf_member_add(self._e, p.index, number, chosen.index, words)
            check(code, f"adding member {number} to action profile '{profile}'")
            self._members[profile].add(number)
        return number

    def member_modify(self, profile: str, member: int, action: str, args: Sequence[int]) -> None:
        """Replace the member's action for every entry and group that refers to it."""
        p = self._profile(profile)
        chosen = self._action(p, action)
        words = self._args(chosen, args, p.arg_words)
        code = self._lib.xf_member_modify(self._e, p.index, member, chosen.index, words)
        check(code, f"modifying member {member} of action profile '{profile}'")

    def member_delete(self, profile: str, member: int) -> None:
        """EngineError "in_use" while an entry or group refers to it."""
        p = self._profile(profile)
        with self._control:
            code = self._lib.xf_member_delete(self._e, p.index, member)
            check(code, f"deleting member {member} of action profile '{profile}'")
            self._members[profile].discard(member)

    def group_add(
        self, profile: str, members: Iterable[tuple[int, int, bool]] = (), group: int | None = None
    ) -> int:
        """Add a group of (member, weight, active); returns its id."""
        p = self._profile(profile)
        with self._control:
            number = self._free_id(self._groups[profile]) if group is None else uint(group, 32, "group id")
            code = self._lib.xf_group_add(self._e, p.index, number)
            check(code, f"adding group {number} to action profile '{profile}'")
            self._groups[profile].add(number)
            try:
                self.group_set(profile, number, members)
            except EngineError:
                self.group_delete(profile, number)
                raise
        return number

    def group_set(self, profile: str, group: int, members: Iterable[tuple[int, int, bool]]) -> None:
        """Replace the group's members at once: (member, weight, active)."""
        p = self._profile(profile)
        chosen = list(members)
        ids = abi.ints([uint(m[0], 32, "member id") for m in chosen])
        weights = abi.ints([uint(m[1], 32, "weight") for m in chosen])
        active = (ctypes.c_uint8 * max(1, len(chosen)))(*(int(m[2]) for m in chosen))
        code = self._lib.xf_group_set(self._e, p.index, group, ids, weights, active, len(chosen))
        check(code, f"members of group {group} of action profile '{profile}'")

    def group_delete(self, profile: str, group: int) -> None:
        """EngineError "in_use" while an entry refers to it."""
        p = self._profile(profile)
        with self._control:
            code = self._lib.xf_group_delete(self._e, p.index, group)
            check(code, f"deleting group {group} of action profile '{profile}'")
            self._groups[profile].discard(group)
