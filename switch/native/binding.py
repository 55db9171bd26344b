"""The engine from Python: one `Engine` is one switch, driven by `rx`, `poll` and `next_deadline`.

Names are those of the BMv2 JSON (control-plane names: `MyIngress.ipv4_lpm`); values are non-negative integers; times
are nanoseconds of the caller's clock. Every method may be called from any thread: the engine locks itself, and ctypes
releases the GIL meanwhile. Objects are described by `Engine.program` (`switch.native.program`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from switch.device import CPU_PORT, DROP_PORT, PRIORITY_QUEUES
from switch.native.program import Program

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


class Engine:
    """One native switch running one program."""

    program: Program
    device_id: int
    cpu_port: int
    drop_port: int
    timestamp_hz: int
    priority_queues: int

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
        raise NotImplementedError

    @property
    def handle(self) -> int:
        """Address of the C `xf_engine`, for a packet loop in C."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the engine. Also on garbage collection and as a context manager."""
        raise NotImplementedError

    def set_pipeline(self, program: Program | None) -> None:
        """Replace the program and all its state; ports, multicast groups and clone sessions stay."""
        raise NotImplementedError

    # ---- packet path ----
    def rx(self, port: int, frame: bytes, now: int) -> None:
        """The frame's last bit arrived on `port` at `now`."""
        raise NotImplementedError

    def poll(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that have reached the far end by `now`, in time order."""
        raise NotImplementedError

    def poll_timed(self, now: int) -> list[tuple[int, int, bytes]]:
        """As `poll`, with the arrival time first: (time, port, frame)."""
        raise NotImplementedError

    def next_deadline(self) -> int | None:
        """When to call `poll` next; None = nothing pending."""
        raise NotImplementedError

    def pending(self) -> set[str]:
        """Which of "cpu", "digest", "pause", "idle", "log" have something to take."""
        raise NotImplementedError

    def take_cpu_frames(self) -> list[tuple[int, bytes]]:
        """(time, frame) sent to the CPU port, oldest first; never handed out by `poll`.

        A packet-out is `rx(cpu_port, frame, now)`.
        """
        raise NotImplementedError

    # ---- ports and queues ----
    def add_port(self, number: int, rate_bps: int = 0, delay_ns: int = 0) -> None:
        """Add a port, up. Rate in bit/s on wire bytes, 0 = unlimited. EngineError "exists"."""
        raise NotImplementedError

    def remove_port(self, number: int) -> None:
        """Remove it; what it holds is dropped and counted."""
        raise NotImplementedError

    def set_port_rate(self, number: int, rate_bps: int) -> None:
        """Applies from the next transmission on."""
        raise NotImplementedError

    def set_port_delay(self, number: int, delay_ns: int) -> None:
        """Applies from the next transmission on."""
        raise NotImplementedError

    def set_port_up(self, number: int, up: bool) -> None:
        """A port that is down drops what it receives or would send, counted as `port_down`."""
        raise NotImplementedError

    def set_queue_limit(
        self, port: int | None = None, cls: int | None = None, *, bytes: int | None = None, packets: int | None = None
    ) -> None:
        """Limits of one (port, class) queue; None = all. Also applies to ports added later."""
        raise NotImplementedError

    def queue_stats(self, port: int) -> list[QueueStats]:
        """The 8 queues of a port, class 0 first."""
        raise NotImplementedError

    def port_stats(self, port: int) -> PortStats:
        """Counters of one port."""
        raise NotImplementedError

    def reset_watermarks(self, port: int) -> None:
        """Start the queues' watermarks from what they hold now."""
        raise NotImplementedError

    def drops(self) -> dict[str, tuple[int, int]]:
        """Reason -> (packets, bytes) of the whole switch; every reason, zero where none."""
        raise NotImplementedError

    def take_pause_events(self) -> list[PauseEvent]:
        """Pause changes since the last call, in time order."""
        raise NotImplementedError

    def faults(self) -> dict[str, int]:
        """Counted faults: asserts, out_of_bounds, digests_lost, logs_lost, parser_errors, checksum_errors,
        parser_loops."""
        raise NotImplementedError

    def take_log(self) -> list[LogMessage]:
        """`log_msg` texts and failed asserts since the last call."""
        raise NotImplementedError

    # ---- tables ----
    def table_add(self, table: str, key: Key, action: str, args: Sequence[int], priority: int = 0) -> int:
        """Add an entry; returns its handle. Larger priority wins (ternary, range and optional keys only).

        EngineError "exists" (same key and priority), "full", "constant", "invalid".
        """
        raise NotImplementedError

    def table_add_indirect(
        self, table: str, key: Key, *, member: int | None = None, group: int | None = None, priority: int = 0
    ) -> int:
        """Add an entry that refers to an action profile member or group."""
        raise NotImplementedError

    def table_modify(self, table: str, handle: int, action: str, args: Sequence[int]) -> None:
        """Replace the entry's action; its counter stays."""
        raise NotImplementedError

    def table_modify_indirect(
        self, table: str, handle: int, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Replace what the entry refers to."""
        raise NotImplementedError

    def table_delete(self, table: str, handle: int) -> None:
        """Delete an entry."""
        raise NotImplementedError

    def table_clear(self, table: str) -> None:
        """Delete every entry that is not const."""
        raise NotImplementedError

    def table_default(self, table: str, action: str, args: Sequence[int]) -> None:
        """Set the default action."""
        raise NotImplementedError

    def table_default_indirect(self, table: str, *, member: int | None = None, group: int | None = None) -> None:
        """Set the default of an indirect table."""
        raise NotImplementedError

    def table_default_reset(self, table: str) -> None:
        """Back to the program's default action."""
        raise NotImplementedError

    def table_default_get(self, table: str) -> tuple[str, tuple[int, ...]] | None:
        """The present default action and arguments; None when there is none (or it is indirect)."""
        raise NotImplementedError

    def table_entries(self, table: str) -> list[Entry]:
        """All entries, const ones included, in order of insertion."""
        raise NotImplementedError

    def table_find(self, table: str, key: Key, priority: int = 0) -> Entry | None:
        """The entry with exactly this key and priority."""
        raise NotImplementedError

    def table_stats(self, table: str) -> dict[str, int]:
        """hits, misses, entries."""
        raise NotImplementedError

    def entry_counter(self, table: str, handle: int) -> tuple[int, int]:
        """(packets, bytes) of an entry's direct counter."""
        raise NotImplementedError

    def entry_counter_set(self, table: str, handle: int, packets: int, bytes: int) -> None:
        """Write an entry's direct counter."""
        raise NotImplementedError

    def entry_meter_set(self, table: str, handle: int, rates: tuple[int, int, int, int] | None) -> None:
        """Direct meter: as `meter_set`."""
        raise NotImplementedError

    def entry_timeout(self, table: str, handle: int, timeout_ns: int) -> None:
        """Report the entry when it was not hit for `timeout_ns` (0 = never); needs a table with timeouts."""
        raise NotImplementedError

    def entry_idle(self, table: str, handle: int) -> int:
        """ns since the entry was last hit (or added)."""
        raise NotImplementedError

    def take_idle_events(self) -> list[IdleEvent]:
        """Entries that timed out since the last call."""
        raise NotImplementedError

    # ---- action profiles ----
    def member_add(self, profile: str, action: str, args: Sequence[int], member: int | None = None) -> int:
        """Add a member (under an id of the caller's choice, or the next free one); returns its id."""
        raise NotImplementedError

    def member_modify(self, profile: str, member: int, action: str, args: Sequence[int]) -> None:
        """Replace the member's action for every entry and group that refers to it."""
        raise NotImplementedError

    def member_delete(self, profile: str, member: int) -> None:
        """EngineError "in_use" while an entry or group refers to it."""
        raise NotImplementedError

    def group_add(self, profile: str, members: Iterable[tuple[int, int, bool]] = (), group: int | None = None) -> int:
        """Add a group of (member, weight, active); returns its id."""
        raise NotImplementedError

    def group_set(self, profile: str, group: int, members: Iterable[tuple[int, int, bool]]) -> None:
        """Replace the group's members at once: (member, weight, active)."""
        raise NotImplementedError

    def group_delete(self, profile: str, group: int) -> None:
        """EngineError "in_use" while an entry refers to it."""
        raise NotImplementedError

    # ---- stateful objects ----
    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """(packets, bytes); bytes are ingress frame bytes."""
        raise NotImplementedError

    def counter_read_all(self, name: str) -> list[tuple[int, int]]:
        """(packets, bytes) of every cell."""
        raise NotImplementedError

    def counter_read_array(self, name: str) -> Any:
        """The same as a numpy array of shape (size, 2), uint64."""
        raise NotImplementedError

    def counter_write(self, name: str, index: int, packets: int, bytes: int) -> None:
        """Write one cell."""
        raise NotImplementedError

    def register_read(self, name: str, index: int) -> int:
        """One cell."""
        raise NotImplementedError

    def register_read_all(self, name: str) -> list[int]:
        """Every cell."""
        raise NotImplementedError

    def register_write(self, name: str, index: int, value: int) -> None:
        """Write one cell; on the pause register it takes effect at once, as a write by the program does."""
        raise NotImplementedError

    def register_reset(self, name: str) -> None:
        """All cells to 0."""
        raise NotImplementedError

    def meter_set(self, name: str, index: int, rates: tuple[int, int, int, int] | None) -> None:
        """(cir, cburst, pir, pburst): units (bytes or packets) per second and units; None unsets (all green)."""
        raise NotImplementedError

    # ---- replication ----
    def multicast_group_set(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Create or replace a multicast group of (port, rid) replicas, replicated in this order."""
        raise NotImplementedError

    def multicast_group_delete(self, group: int) -> None:
        """EngineError "not_found"."""
        raise NotImplementedError

    def clone_session_set(
        self, session: int, replicas: Iterable[tuple[int, int]] | int, *, group: int = 0, truncate: int = 0
    ) -> None:
        """Create or replace a clone session: one port, or (port, rid) replicas; `group` adds a multicast group's.

        `truncate` > 0 cuts the copies to that many bytes.
        """
        raise NotImplementedError

    def clone_session_delete(self, session: int) -> None:
        """EngineError "not_found"."""
        raise NotImplementedError

    # ---- parser value sets ----
    def value_set_add(self, name: str, value: Sequence[tuple[int, int | None]]) -> None:
        """Add a member: (value, mask or None) for each field of the set."""
        raise NotImplementedError

    def value_set_clear(self, name: str) -> None:
        """Empty the set."""
        raise NotImplementedError

    # ---- digests ----
    def take_digests(self) -> list[Digest]:
        """Digest samples since the last call, oldest first, without deduplication."""
        raise NotImplementedError
