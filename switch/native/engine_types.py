"""What the engine takes and gives: keys, entries, statistics, events, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from switch.native import abi

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
class QueueSettings:
    """What is set of one (port, class) queue (docs/switch.md)."""

    limit_bytes: int
    limit_packets: int
    rate_bps: int
    """Shaper: bit/s on wire bytes; 0 = none."""
    burst_bytes: int
    """Wire bytes that may leave at once after a pause, beyond the first frame."""
    rate_pps: int
    """Shaper in packets/s; 0 = none. With both the slower holds."""
    guaranteed_bytes: int
    """Bytes that the queue may hold whatever the shared buffer holds."""
    headroom_bytes: int
    """Bytes that it may hold beyond its share of the buffer."""
    alpha: float
    """Its share: it may grow to alpha times what is free of the shared buffer."""
    weight: int
    """Share of the port among weighted classes; 0 = strict priority."""


@dataclass(frozen=True)
class BufferStats:
    """The shared buffer, in bytes."""

    size: int
    """0 = there is none."""
    used: int
    watermark: int
    """Highest `used` since `reset_buffer_watermark`."""
    guaranteed_used: int
    headroom_used: int


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
    -9: ("invalid", "its program has crashed"),
}


def check(code: int, what: str) -> None:
    """Raise the EngineError that a negative return code stands for."""
    if code < 0:
        kind, text = _KINDS.get(code, ("invalid", f"error {code}"))
        raise EngineError(kind, f"{what}: {text}")


def uint(value: int, bits: int, what: str) -> int:
    """The value, if it is an unsigned number of that many bits."""
    if not 0 <= value < 1 << bits:
        raise EngineError("invalid", f"{what}: {value} is not in 0..{(1 << bits) - 1}")
    return value


MAX_METER_RATE = 10**13
"""Units a second (meters.c)."""


def encode_rates(rates: tuple[int, int, int, int] | None) -> Any:
    """(cir, cburst, pir, pburst) as words; NULL for none."""
    if rates is None:
        return None
    if rates[0] > rates[2] or rates[2] > MAX_METER_RATE:
        raise EngineError("invalid", f"a meter's rates rise and are {MAX_METER_RATE} a second at most")
    return abi.words([uint(r, 63, "a meter's rate or burst") for r in rates])


MeterCounts = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""(packets, bytes) that a meter coloured green, yellow, red."""


def meter_counts(words: Sequence[int]) -> MeterCounts:
    """As the engine lays them out."""
    return (words[0], words[1]), (words[2], words[3]), (words[4], words[5])
