"""The engine from Python: one `Engine` is one switch, driven by `rx`, `poll` and `next_deadline`.

Names are those of the BMv2 JSON (control-plane names: `MyIngress.ipv4_lpm`); values are non-negative integers; times
are nanoseconds of the caller's clock. Every method may be called from any thread: the engine locks itself, and ctypes
releases the GIL meanwhile. Objects are described by `Engine.program` (`switch.native.program`).
"""

from __future__ import annotations

import ctypes
import re
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from switch.device import CPU_PORT, DROP_PORT, PRIORITY_QUEUES
from switch.native import abi
from switch.native.build import CompiledProgram, compile_program
from switch.native.keys import encode_key
from switch.native.program import Action, Array, Profile, Program, Table, join, limbs, split

Key = Sequence[tuple[Any, ...]]
"""One tuple per key element, in the table's order: `("exact", value)`, `("lpm", value, prefix_length)`,
`("ternary", value, mask)`, `("range", low, high)`, `("optional", value)` or `("optional", None)` (matches all),
`("valid", 0 or 1)`."""

ErrorKind = Literal["invalid", "not_found", "exists", "full", "constant", "memory", "in_use", "abi"]


class EngineError(Exception):
    """The engine refused; `kind` says why in one word (for status codes), the text says it in a sentence."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


@dataclass(frozen=True)
class Entry:
    """A table entry as it was added. `action` is None for an entry that refers to a member or group."""

    handle: int
    key: tuple[tuple[Any, ...], ...]
    action: str | None
    args: tuple[int, ...]
    priority: int
    """Larger wins, as in P4Runtime; 0 where the table has no priorities."""
    member: int | None = None
    group: int | None = None
    const: bool = False
    """From the program's const entries; cannot be changed."""


@dataclass(frozen=True)
class QueueStats:
    """One (port, class) queue. Bytes are frame bytes at enqueue."""

    bytes: int
    packets: int
    watermark_bytes: int
    watermark_packets: int
    in_bytes: int
    in_packets: int
    paused_until: int
    """ns; 0 = not paused."""
    paused_ns: int
    """Time spent paused so far."""
    drops: dict[str, tuple[int, int]]
    """Reason -> (packets, bytes); only reasons that occurred."""


@dataclass(frozen=True)
class PortStats:
    """One port. tx counts frames whose transmission started; bytes as AF_PACKET sees frames (no FCS)."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int
    rate_bps: int
    delay_ns: int
    up: bool
    drops: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class PauseEvent:
    """A queue's pause state changed (paused, prolonged or resumed) at `time`."""

    time: int
    port: int
    cls: int
    until: int
    """When it expires (ns); 0 = resumed."""


@dataclass(frozen=True)
class Digest:
    """One digest sample: the learn list's JSON id and name, and its fields' values in order."""

    list_id: int
    list_name: str
    values: tuple[int, ...]
    time: int


@dataclass(frozen=True)
class IdleEvent:
    """An entry has not been hit for its idle timeout."""

    time: int
    table: str
    handle: int


@dataclass(frozen=True)
class LogMessage:
    """A `log_msg` (formatted) or a failed `assert`/`assume` (its source text)."""

    time: int
    text: str
    failed_assert: bool


_KINDS: dict[int, tuple[ErrorKind, str]] = {
    -1: ("invalid", "an argument is out of range"),
    -2: ("not_found", "there is no such object"),
    -3: ("exists", "it exists already"),
    -4: ("full", "there is no room for another one"),
    -5: ("constant", "the program makes it constant"),
    -6: ("memory", "out of memory"),
    -7: ("in_use", "others still refer to it"),
    -8: ("abi", "the program was compiled for another version of the engine"),
}


def _check(code: int, what: str) -> None:
    if code < 0:
        kind, text = _KINDS.get(code, ("invalid", f"error {code}"))
        raise EngineError(kind, f"{what}: {text}")


def _uint(value: int, bits: int, what: str) -> int:
    if not 0 <= value < 1 << bits:
        raise EngineError("invalid", f"{what}: {value} is not in 0..{(1 << bits) - 1}")
    return value


class _State:
    """What must be freed with an engine, apart from it so that a finalizer can hold it."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self.library = library
        self.handle = handle
        self.code: CompiledProgram | None = None

    def close(self) -> None:
        if self.handle:
            self.library.xf_free(self.handle)
            self.handle = 0
        if self.code is not None:
            self.code.close()
            self.code = None


class Engine:
    """One native switch running one program."""

    def __init__(
        self,
        program: Program | None,
        *,
        device_id: int = 0,
        cpu_port: int = CPU_PORT,
        drop_port: int = DROP_PORT,
        timestamp_hz: int = 10**6,
        priority_queues: int = PRIORITY_QUEUES,
        seed: int = 0,
    ) -> None:
        """Compile `program` (or take it from the cache) and load it; None starts without one (every frame is
        dropped and counted until `set_pipeline`).

        Raises ProgramError, switch.native.build.BuildError (no compiler), EngineError.
        """
        if not 1 <= timestamp_hz <= 10**9:
            raise EngineError("invalid", f"timestamp_hz {timestamp_hz} is not in 1..10^9")
        if not 1 <= priority_queues <= abi.CLASSES:
            raise EngineError("invalid", f"priority_queues {priority_queues} is not in 1..{abi.CLASSES}")
        if not 0 <= cpu_port < 512:
            raise EngineError("invalid", f"cpu_port {cpu_port} is not in 0..511")
        self.device_id = device_id
        self.cpu_port = cpu_port
        self.drop_port = drop_port
        self.timestamp_hz = timestamp_hz
        self.priority_queues = priority_queues
        self._lib = abi.library()
        handle = self._lib.xf_new(
            device_id & 0xFFFFFFFF, cpu_port, drop_port, timestamp_hz, priority_queues, seed & abi.NEVER
        )
        if not handle:
            raise EngineError("memory", "could not make an engine")
        self._e: int = handle
        self._state = _State(self._lib, handle)
        self._finalizer = weakref.finalize(self, self._state.close)
        self._control = threading.RLock()
        self._frames = (abi.Frame * abi.FRAMES)()
        self._program: Program | None = None
        self._entries: dict[str, dict[int, Entry]] = {}
        self._defaults: dict[str, tuple[str, tuple[int, ...]] | None] = {}
        self._members: dict[str, set[int]] = {}
        self._groups: dict[str, set[int]] = {}
        if program is not None:
            try:
                self.set_pipeline(program)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def program(self) -> Program:
        """The loaded program; EngineError when there is none."""
        if self._program is None:
            raise EngineError("not_found", "no program is loaded")
        return self._program

    @property
    def loaded(self) -> bool:
        """Whether a program is loaded."""
        return self._program is not None

    @property
    def handle(self) -> int:
        """Address of the C `xf_engine`, for a packet loop in C."""
        return self._e

    def close(self) -> None:
        """Free the engine. Also on garbage collection and as a context manager."""
        self._finalizer()
        self._e = 0

    def set_pipeline(self, program: Program | None) -> None:
        """Replace the program and all its state; ports, multicast groups and clone sessions stay."""
        code = None if program is None else compile_program(program)
        with self._control:
            rc = self._lib.xf_load(self._e, None if code is None else code.descriptor)
            old, self._state.code = self._state.code, code if rc >= 0 else None
            if old is not None:
                old.close()
            self._entries, self._defaults, self._members, self._groups = {}, {}, {}, {}
            self._program = program if rc >= 0 else None
            if rc < 0 and code is not None:
                code.close()
            _check(rc, "loading the program")
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

    # ---- packet path ----
    def rx(self, port: int, frame: bytes, now: int) -> None:
        """The frame's last bit arrived on `port` at `now`."""
        self._lib.xf_rx(self._e, port, frame, len(frame), now)

    def poll(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that have reached the far end by `now`, in time order."""
        return [(port, frame) for _, port, frame in self.poll_timed(now)]

    def poll_timed(self, now: int) -> list[tuple[int, int, bytes]]:
        """As `poll`, with the arrival time first: (time, port, frame)."""
        out: list[tuple[int, int, bytes]] = []
        frames = self._frames
        while True:
            count = self._lib.xf_poll(self._e, now, frames, abi.FRAMES)
            for i in range(count):
                f = frames[i]
                out.append((f.time, f.port, ctypes.string_at(f.data, f.length)))
            if count < abi.FRAMES:
                return out

    def next_deadline(self) -> int | None:
        """When to call `poll` next; None = nothing pending."""
        at: int = self._lib.xf_deadline(self._e)
        return None if at == abi.NEVER else at

    def pending(self) -> set[str]:
        """Which of "cpu", "digest", "pause", "idle", "log" have something to take."""
        bits = self._lib.xf_pending(self._e)
        return {name for name, bit in abi.PENDING.items() if bits & bit}

    def take_cpu_frames(self) -> list[tuple[int, bytes]]:
        """(time, frame) sent to the CPU port, oldest first; never handed out by `poll`.

        A packet-out is `rx(cpu_port, frame, now)`.
        """
        out: list[tuple[int, bytes]] = []
        with self._control:
            frames = (abi.Frame * abi.FRAMES)()
            while True:
                count = self._lib.xf_cpu_take(self._e, frames, abi.FRAMES)
                out += [(f.time, ctypes.string_at(f.data, f.length)) for f in frames[:count]]
                if count < abi.FRAMES:
                    return out

    # ---- ports and queues ----
    def add_port(self, number: int, rate_bps: int = 0, delay_ns: int = 0) -> None:
        """Add a port, up. Rate in bit/s on wire bytes, 0 = unlimited. EngineError "exists"."""
        _uint(number, 9, "port number")
        code = self._lib.xf_port_add(
            self._e, number, _uint(rate_bps, 63, "rate"), _uint(delay_ns, 63, "delay")
        )
        _check(code, f"adding port {number}")

    def remove_port(self, number: int) -> None:
        """Remove it; what it holds is dropped and counted."""
        _check(self._lib.xf_port_remove(self._e, _uint(number, 9, "port number")), f"port {number}")

    def set_port_rate(self, number: int, rate_bps: int) -> None:
        """Applies from the next transmission on."""
        code = self._lib.xf_port_rate(self._e, _uint(number, 9, "port number"), _uint(rate_bps, 63, "rate"))
        _check(code, f"rate of port {number}")

    def set_port_delay(self, number: int, delay_ns: int) -> None:
        """Applies from the next transmission on."""
        code = self._lib.xf_port_delay(self._e, _uint(number, 9, "port number"), _uint(delay_ns, 63, "delay"))
        _check(code, f"delay of port {number}")

    def set_port_up(self, number: int, up: bool) -> None:
        """A port that is down drops what it receives or would send, counted as `port_down`."""
        _check(self._lib.xf_port_up(self._e, _uint(number, 9, "port number"), int(up)), f"port {number}")

    def set_queue_limit(
        self,
        port: int | None = None,
        cls: int | None = None,
        *,
        bytes: int | None = None,
        packets: int | None = None,
    ) -> None:
        """Limits of one (port, class) queue; None = all (as a limit: none). Also applies to ports added later."""
        code = self._lib.xf_queue_limit(
            self._e,
            -1 if port is None else _uint(port, 9, "port number"),
            -1 if cls is None else _uint(cls, 3, "class"),
            2**63 if bytes is None else _uint(bytes, 63, "byte limit"),
            2**63 if packets is None else _uint(packets, 63, "packet limit"),
        )
        _check(code, "setting a queue limit")

    def queue_stats(self, port: int) -> list[QueueStats]:
        """The 8 queues of a port, class 0 first."""
        queues = []
        for cls in range(abi.CLASSES):
            q = abi.QueueStats()
            _check(self._lib.xf_queue_read(self._e, _uint(port, 9, "port number"), cls, q), f"port {port}")
            names = ("queue_bytes", "queue_packets")
            drops = {
                n: (q.drop_packets[i], q.drop_bytes[i]) for i, n in enumerate(names) if q.drop_packets[i]
            }
            queues.append(
                QueueStats(
                    q.bytes,
                    q.packets,
                    q.watermark_bytes,
                    q.watermark_packets,
                    q.in_bytes,
                    q.in_packets,
                    q.paused_until,
                    q.paused_ns,
                    drops,
                )
            )
        return queues

    def port_stats(self, port: int) -> PortStats:
        """Counters of one port."""
        s: Any = abi.port_stats_type()()
        _check(
            self._lib.xf_port_read(self._e, _uint(port, 9, "port number"), ctypes.byref(s)), f"port {port}"
        )
        drops = {
            name: (s.drop_packets[i], s.drop_bytes[i])
            for i, name in enumerate(abi.DROP_REASONS)
            if s.drop_packets[i]
        }
        return PortStats(
            s.rx_bytes, s.rx_packets, s.tx_bytes, s.tx_packets, s.rate_bps, s.delay_ns, bool(s.up), drops
        )

    def reset_watermarks(self, port: int) -> None:
        """Start the queues' watermarks from what they hold now."""
        _check(self._lib.xf_watermark_reset(self._e, _uint(port, 9, "port number")), f"port {port}")

    def drops(self) -> dict[str, tuple[int, int]]:
        """Reason -> (packets, bytes) of the whole switch; every reason, zero where none."""
        count = len(abi.DROP_REASONS)
        packets, octets = (ctypes.c_uint64 * count)(), (ctypes.c_uint64 * count)()
        self._lib.xf_drops_read(self._e, packets, octets)
        return {name: (packets[i], octets[i]) for i, name in enumerate(abi.DROP_REASONS)}

    def take_pause_events(self) -> list[PauseEvent]:
        """Pause changes since the last call, in time order."""
        out: list[PauseEvent] = []
        events, lost = (abi.PauseEvent * 256)(), ctypes.c_uint64()
        while True:
            count = self._lib.xf_pause_take(self._e, events, 256, ctypes.byref(lost))
            out += [PauseEvent(e.time, e.port, e.cls, e.until) for e in events[:count]]
            if count < 256:
                return out

    def faults(self) -> dict[str, int]:
        """Counted faults: asserts, out_of_bounds, digests_lost, logs_lost, parser_errors, checksum_errors,
        parser_loops."""
        faults = abi.Faults()
        self._lib.xf_faults_read(self._e, faults)
        return {name: getattr(faults, name) for name in abi.FAULTS}

    def take_log(self) -> list[LogMessage]:
        """`log_msg` texts and failed asserts since the last call."""
        out: list[LogMessage] = []
        number, time = ctypes.c_uint32(), ctypes.c_uint64()
        values = (ctypes.c_uint64 * 256)()
        with self._control:
            messages = [] if self._program is None else self._program.log_messages
            while True:
                count = self._lib.xf_log_take(self._e, number, values, 256, time)
                if count < 0:
                    return out
                if number.value >= len(messages):
                    continue  # from a program that was replaced
                text, failed = messages[number.value]
                numbers = [_signed128(values[i], values[i + 1]) for i in range(0, count, 2)]
                out.append(LogMessage(time.value, text if failed else _format(text, numbers), failed))

    # ---- tables ----
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
            _check(code, f"adding an entry to table '{table.name}'")
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
            _check(code, f"modifying entry {handle} of table '{table}'")
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
            _check(code, f"modifying entry {handle} of table '{table}'")
            old = self._entries[table][handle]
            self._entries[table][handle] = replace(old, action=None, args=(), member=member, group=group)

    def table_delete(self, table: str, handle: int) -> None:
        """Delete an entry."""
        t = self._table(table)
        with self._control:
            code = self._lib.xf_table_delete(self._e, t.index, handle)
            _check(code, f"deleting entry {handle} of table '{table}'")
            del self._entries[table][handle]

    def table_clear(self, table: str) -> None:
        """Delete every entry that is not const."""
        t = self._table(table)
        with self._control:
            _check(self._lib.xf_table_clear(self._e, t.index), f"clearing table '{table}'")
            self._entries[table] = {h: e for h, e in self._entries[table].items() if e.const}

    def table_default(self, table: str, action: str, args: Sequence[int]) -> None:
        """Set the default action."""
        t = self._table(table)
        chosen = self._action(t, action)
        words = self._args(chosen, args, t.arg_words)
        with self._control:
            code = self._lib.xf_table_default(self._e, t.index, chosen.index, words)
            _check(code, f"default action of table '{table}'")
            self._defaults[table] = (action, tuple(args))

    def table_default_indirect(
        self, table: str, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Set the default of an indirect table."""
        t = self._table(table)
        is_group, number = self._reference(member, group)
        with self._control:
            code = self._lib.xf_table_default_indirect(self._e, t.index, is_group, number)
            _check(code, f"default of table '{table}'")
            self._defaults[table] = None

    def table_default_reset(self, table: str) -> None:
        """Back to the program's default action."""
        t = self._table(table)
        with self._control:
            _check(self._lib.xf_table_default_reset(self._e, t.index), f"default action of table '{table}'")
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
        _check(code, f"table '{table}'")
        return {"hits": stats.hits, "misses": stats.misses, "entries": stats.entries}

    def entry_counter(self, table: str, handle: int) -> tuple[int, int]:
        """(packets, bytes) of an entry's direct counter."""
        packets, octets = ctypes.c_uint64(), ctypes.c_uint64()
        code = self._lib.xf_entry_counter(self._e, self._table(table).index, handle, packets, octets)
        _check(code, f"entry {handle} of table '{table}'")
        return packets.value, octets.value

    def entry_counter_set(self, table: str, handle: int, packets: int, bytes: int) -> None:
        """Write an entry's direct counter."""
        code = self._lib.xf_entry_counter_set(
            self._e,
            self._table(table).index,
            handle,
            _uint(packets, 64, "packets"),
            _uint(bytes, 64, "bytes"),
        )
        _check(code, f"entry {handle} of table '{table}'")

    @staticmethod
    def _rates(rates: tuple[int, int, int, int] | None) -> tuple[Any, int]:
        if rates is None:
            return abi.words([]), 0
        return abi.words([_uint(r, 63, "a meter's rate or burst") for r in rates]), 2

    def entry_meter_set(self, table: str, handle: int, rates: tuple[int, int, int, int] | None) -> None:
        """Direct meter: as `meter_set`."""
        words, count = self._rates(rates)
        code = self._lib.xf_entry_meter_set(self._e, self._table(table).index, handle, words, count)
        _check(code, f"meter of entry {handle} of table '{table}'")

    def entry_timeout(self, table: str, handle: int, timeout_ns: int) -> None:
        """Report the entry when it was not hit for `timeout_ns` (0 = never); needs a table with timeouts."""
        code = self._lib.xf_entry_timeout(
            self._e, self._table(table).index, handle, _uint(timeout_ns, 62, "timeout")
        )
        _check(code, f"timeout of entry {handle} of table '{table}'")

    def entry_idle(self, table: str, handle: int) -> int:
        """ns since the entry was last hit (or added)."""
        idle = ctypes.c_uint64()
        code = self._lib.xf_entry_idle(self._e, self._table(table).index, handle, idle)
        _check(code, f"entry {handle} of table '{table}'")
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
                self._free_id(self._members[profile]) if member is None else _uint(member, 32, "member id")
            )
            code = self._lib.xf_member_add(self._e, p.index, number, chosen.index, words)
            _check(code, f"adding member {number} to action profile '{profile}'")
            self._members[profile].add(number)
        return number

    def member_modify(self, profile: str, member: int, action: str, args: Sequence[int]) -> None:
        """Replace the member's action for every entry and group that refers to it."""
        p = self._profile(profile)
        chosen = self._action(p, action)
        words = self._args(chosen, args, p.arg_words)
        code = self._lib.xf_member_modify(self._e, p.index, member, chosen.index, words)
        _check(code, f"modifying member {member} of action profile '{profile}'")

    def member_delete(self, profile: str, member: int) -> None:
        """EngineError "in_use" while an entry or group refers to it."""
        p = self._profile(profile)
        with self._control:
            code = self._lib.xf_member_delete(self._e, p.index, member)
            _check(code, f"deleting member {member} of action profile '{profile}'")
            self._members[profile].discard(member)

    def group_add(
        self, profile: str, members: Iterable[tuple[int, int, bool]] = (), group: int | None = None
    ) -> int:
        """Add a group of (member, weight, active); returns its id."""
        p = self._profile(profile)
        with self._control:
            number = self._free_id(self._groups[profile]) if group is None else _uint(group, 32, "group id")
            code = self._lib.xf_group_add(self._e, p.index, number)
            _check(code, f"adding group {number} to action profile '{profile}'")
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
        ids = abi.ints([_uint(m[0], 32, "member id") for m in chosen])
        weights = abi.ints([_uint(m[1], 32, "weight") for m in chosen])
        active = (ctypes.c_uint8 * max(1, len(chosen)))(*(int(m[2]) for m in chosen))
        code = self._lib.xf_group_set(self._e, p.index, group, ids, weights, active, len(chosen))
        _check(code, f"members of group {group} of action profile '{profile}'")

    def group_delete(self, profile: str, group: int) -> None:
        """EngineError "in_use" while an entry refers to it."""
        p = self._profile(profile)
        with self._control:
            code = self._lib.xf_group_delete(self._e, p.index, group)
            _check(code, f"deleting group {group} of action profile '{profile}'")
            self._groups[profile].discard(group)

    # ---- stateful objects ----
    @staticmethod
    def _named(arrays: dict[str, Array], name: str, what: str) -> Array:
        found = arrays.get(name)
        if found is None:
            raise EngineError("not_found", f"there is no {what} '{name}'")
        return found

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """(packets, bytes); bytes are ingress frame bytes."""
        counter = self._named(self.program.counters, name, "counter")
        pair = (ctypes.c_uint64 * 2)()
        code = self._lib.xf_counter_read(self._e, counter.index, _uint(index, 32, "index"), 1, pair)
        _check(code, f"counter '{name}' at {index} (its size is {counter.size})")
        return pair[0], pair[1]

    def counter_read_all(self, name: str) -> list[tuple[int, int]]:
        """(packets, bytes) of every cell."""
        return [(int(p), int(b)) for p, b in self.counter_read_array(name)]

    def counter_read_array(self, name: str) -> Any:
        """The same as a numpy array of shape (size, 2), uint64."""
        counter = self._named(self.program.counters, name, "counter")
        cells = np.zeros((counter.size, 2), dtype=np.uint64)
        code = self._lib.xf_counter_read(self._e, counter.index, 0, counter.size, cells.ctypes.data)
        _check(code, f"counter '{name}'")
        return cells

    def counter_write(self, name: str, index: int, packets: int, bytes: int) -> None:
        """Write one cell."""
        counter = self._named(self.program.counters, name, "counter")
        code = self._lib.xf_counter_write(
            self._e,
            counter.index,
            _uint(index, 32, "index"),
            _uint(packets, 64, "packets"),
            _uint(bytes, 64, "bytes"),
        )
        _check(code, f"counter '{name}' at {index} (its size is {counter.size})")

    def register_read(self, name: str, index: int) -> int:
        """One cell."""
        array = self._named(self.program.registers, name, "register")
        words = (ctypes.c_uint64 * limbs(array.width))()
        code = self._lib.xf_register_read(self._e, array.index, _uint(index, 32, "index"), 1, words)
        _check(code, f"register '{name}' at {index} (its size is {array.size})")
        return join(list(words))

    def register_read_all(self, name: str) -> list[int]:
        """Every cell."""
        array = self._named(self.program.registers, name, "register")
        count = limbs(array.width)
        words = (ctypes.c_uint64 * max(1, array.size * count))()
        code = self._lib.xf_register_read(self._e, array.index, 0, array.size, words)
        _check(code, f"register '{name}'")
        if count == 1:
            return list(words[: array.size])
        return [join(words[i * count : (i + 1) * count]) for i in range(array.size)]

    def register_write(self, name: str, index: int, value: int) -> None:
        """Write one cell; on the pause register it takes effect at once, as a write by the program does."""
        array = self._named(self.program.registers, name, "register")
        words = abi.words(split(_uint(value, array.width, f"register '{name}'"), limbs(array.width)))
        code = self._lib.xf_register_write(self._e, array.index, _uint(index, 32, "index"), words)
        _check(code, f"register '{name}' at {index} (its size is {array.size})")

    def register_reset(self, name: str) -> None:
        """All cells to 0."""
        array = self._named(self.program.registers, name, "register")
        _check(self._lib.xf_register_reset(self._e, array.index), f"register '{name}'")

    def meter_set(self, name: str, index: int, rates: tuple[int, int, int, int] | None) -> None:
        """(cir, cburst, pir, pburst): units (bytes or packets) per second and units; None unsets (all green)."""
        meter = self._named(self.program.meters, name, "meter")
        words, count = self._rates(rates)
        code = self._lib.xf_meter_set(self._e, meter.index, _uint(index, 32, "index"), words, count)
        _check(code, f"meter '{name}' at {index} (its size is {meter.size})")

    # ---- replication ----
    @staticmethod
    def _replicas(replicas: Iterable[tuple[int, int]]) -> tuple[Any, int]:
        flat: list[int] = []
        for port, rid in replicas:
            flat += [_uint(port, 32, "port"), _uint(rid, 32, "rid")]
        return abi.ints(flat), len(flat) // 2

    def multicast_group_set(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Create or replace a multicast group of (port, rid) replicas, replicated in this order."""
        pairs, count = self._replicas(replicas)
        code = self._lib.xf_multicast_set(self._e, _uint(group, 32, "multicast group"), pairs, count)
        _check(code, f"multicast group {group}")

    def multicast_group_delete(self, group: int) -> None:
        """EngineError "not_found"."""
        code = self._lib.xf_multicast_delete(self._e, _uint(group, 32, "multicast group"))
        _check(code, f"multicast group {group}")

    def clone_session_set(
        self, session: int, replicas: Iterable[tuple[int, int]] | int, *, group: int = 0, truncate: int = 0
    ) -> None:
        """Create or replace a clone session: one port, or (port, rid) replicas; `group` adds a multicast group's.

        `truncate` > 0 cuts the copies to that many bytes.
        """
        if isinstance(replicas, int):
            replicas = [(replicas, 0xFFFFFFFF)]
        pairs, count = self._replicas(replicas)
        code = self._lib.xf_clone_set(
            self._e,
            _uint(session, 32, "clone session"),
            pairs,
            count,
            group,
            _uint(truncate, 32, "truncation"),
        )
        _check(code, f"clone session {session}")

    def clone_session_delete(self, session: int) -> None:
        """EngineError "not_found"."""
        code = self._lib.xf_clone_delete(self._e, _uint(session, 32, "clone session"))
        _check(code, f"clone session {session}")

    # ---- parser value sets ----
    def value_set_add(self, name: str, value: Sequence[tuple[int, int | None]]) -> None:
        """Add a member: (value, mask or None) for each field of the set."""
        array = self._named(self.program.value_sets, name, "value set")
        widths = self.program.value_set_widths[name]
        if len(value) != len(widths):
            raise EngineError(
                "invalid", f"value set '{name}' has {len(widths)} fields, {len(value)} were given"
            )
        words: list[int] = []
        masks: list[int] = []
        for (number, mask), width in zip(value, widths):
            full = (1 << width) - 1
            words += split(_uint(number, width, f"value set '{name}'"), limbs(width))
            masks += split(full if mask is None else _uint(mask, width, f"value set '{name}'"), limbs(width))
        code = self._lib.xf_value_set_add(self._e, array.index, abi.words(words), abi.words(masks))
        _check(code, f"adding to value set '{name}'")

    def value_set_clear(self, name: str) -> None:
        """Empty the set."""
        array = self._named(self.program.value_sets, name, "value set")
        _check(self._lib.xf_value_set_clear(self._e, array.index), f"value set '{name}'")

    # ---- digests ----
    def take_digests(self) -> list[Digest]:
        """Digest samples since the last call, oldest first, without deduplication."""
        out: list[Digest] = []
        number, time = ctypes.c_uint32(), ctypes.c_uint64()
        words = (ctypes.c_uint64 * 256)()
        with self._control:
            while True:
                count = self._lib.xf_digest_take(self._e, number, words, 256, time)
                if count < 0:
                    return out
                widths = self._program.digest_widths.get(number.value) if self._program else None
                if widths is None or self._program is None or sum(limbs(w) for w in widths) != count:
                    continue  # from a program that was replaced
                values, at = [], 0
                for width in widths:
                    values.append(join(words[at : at + limbs(width)]))
                    at += limbs(width)
                name = self._program.digests[number.value].name
                out.append(Digest(number.value, name, tuple(values), time.value))


def _signed128(low: int, high: int) -> int:
    value = high << 64 | low
    return value - (1 << 128) if high >> 63 else value


def _format(text: str, values: list[int]) -> str:
    """BMv2's log format: each {…} takes the next value, \\{ and \\} stand for themselves."""
    left = iter(values)
    pattern = re.compile(r"\\[{}]|\{[^}]*\}")
    return pattern.sub(lambda m: m.group()[1] if m.group()[0] == "\\" else str(next(left, m.group())), text)
