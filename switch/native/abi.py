"""`xf.h` for ctypes: structures, prototypes, error numbers."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, c_char_p, c_int, c_uint8, c_uint32, c_uint64, c_void_p

from switch.native.build import BuildError, runtime

VERSION = 3
NEVER = 2**64 - 1
CLASSES = 8
FRAMES = 64
"""Frames taken by one call."""

PENDING = {"cpu": 1, "digest": 2, "pause": 4, "idle": 8, "log": 16}

FAULTS = (
    "asserts",
    "out_of_bounds",
    "digests_lost",
    "logs_lost",
    "parser_errors",
    "checksum_errors",
    "parser_loops",
)


class Frame(Structure):
    """xf_frame."""

    _fields_ = (("data", c_void_p), ("time", c_uint64), ("length", c_uint32), ("port", c_uint32))


class QueueStats(Structure):
    """xf_queue_stats."""

    _fields_ = (
        ("bytes", c_uint64),
        ("packets", c_uint64),
        ("watermark_bytes", c_uint64),
        ("watermark_packets", c_uint64),
        ("in_bytes", c_uint64),
        ("in_packets", c_uint64),
        ("paused_until", c_uint64),
        ("paused_ns", c_uint64),
        ("drop_packets", c_uint64 * 3),
        ("drop_bytes", c_uint64 * 3),
    )


QUEUE_SETTINGS = (
    "limit_bytes",
    "limit_packets",
    "rate_bps",
    "burst_bytes",
    "rate_pps",
    "guaranteed_bytes",
    "headroom_bytes",
    "alpha",
    "weight",
)
"""Fields of xf_queue_settings; the n-th is bit n of `xf_queue_set`'s `fields`."""
ALPHA_ONE = 1 << 16
"""`alpha` counts in 65536ths."""


class QueueSettings(Structure):
    """xf_queue_settings."""

    _fields_ = tuple((name, c_uint64) for name in QUEUE_SETTINGS)


BUFFER_STATS = ("size", "used", "watermark", "guaranteed_used", "headroom_used")


class BufferStats(Structure):
    """xf_buffer_stats."""

    _fields_ = tuple((name, c_uint64) for name in BUFFER_STATS)


class PauseEvent(Structure):
    """xf_pause_event."""

    _fields_ = (("time", c_uint64), ("until", c_uint64), ("port", c_uint32), ("cls", c_uint32))


class IdleEvent(Structure):
    """xf_idle_event."""

    _fields_ = (("time", c_uint64), ("table", c_uint32), ("handle", c_uint32))


(
    TABLE_ADD,
    TABLE_MODIFY,
    TABLE_DELETE,
    TABLE_CLEAR,
    TABLE_DEFAULT,
    TABLE_DEFAULT_RESET,
    ENTRY_COUNTER,
    ENTRY_METER,
    ENTRY_METER_CLEAR,
    ENTRY_TIMEOUT,
    MEMBER_ADD,
    MEMBER_MODIFY,
    MEMBER_DELETE,
    GROUP_ADD,
    GROUP_SET,
    GROUP_DELETE,
    COUNTER,
    REGISTER,
    METER,
    METER_CLEAR,
    MULTICAST_SET,
    MULTICAST_DELETE,
    CLONE_SET,
    CLONE_DELETE,
    VALUE_SET,
    CRC,
) = range(26)
"""enum xf_op_kind."""
NO_ACTION = 0xFFFFFFFF


class Op(Structure):
    """xf_op. Arrays that it points to live as long as it does."""

    _fields_ = (
        *((name, c_uint32) for name in ("kind", "object", "id", "count")),
        *((name, c_uint32) for name in ("action", "ref", "is_group", "rank")),
        *((name, c_uint64) for name in ("packets", "bytes", "time")),
        *((name, c_uint32) for name in ("length", "ranges_count")),
        *((name, POINTER(c_uint64)) for name in ("key", "mask", "ranges", "words")),
        *((name, POINTER(c_uint32)) for name in ("ints", "weights")),
        ("active", POINTER(c_uint8)),
    )


class TableStats(Structure):
    """xf_table_stats."""

    _fields_ = (("hits", c_uint64), ("misses", c_uint64), ("entries", c_uint64))


class Faults(Structure):
    """xf_faults."""

    _fields_ = tuple((name, c_uint64) for name in FAULTS)


_words = POINTER(c_uint64)
_ints = POINTER(c_uint32)

_PROTOTYPES: dict[str, tuple[object, tuple[object, ...]]] = {
    "xf_abi": (c_uint32, ()),
    "xf_new": (c_void_p, (c_uint32, c_uint32, c_uint32, c_uint64, c_uint32, c_uint64)),
    "xf_free": (None, (c_void_p,)),
    "xf_load": (c_int, (c_void_p, c_void_p)),
    "xf_offer": (c_int, (c_void_p, c_void_p, c_void_p)),
    "xf_running": (c_void_p, (c_void_p,)),
    "xf_rx_guarded": (c_int, (c_void_p, c_uint32, c_char_p, c_uint32, c_uint64)),
    "xf_crashed": (c_int, (c_void_p,)),
    "xf_poll": (c_int, (c_void_p, c_uint64, POINTER(Frame), c_uint32)),
    "xf_deadline": (c_uint64, (c_void_p,)),
    "xf_pending": (c_uint32, (c_void_p,)),
    "xf_cpu_take": (c_int, (c_void_p, POINTER(Frame), c_uint32)),
    "xf_port_add": (c_int, (c_void_p, c_uint32, c_uint64, c_uint64)),
    "xf_port_remove": (c_int, (c_void_p, c_uint32)),
    "xf_port_rate": (c_int, (c_void_p, c_uint32, c_uint64)),
    "xf_port_delay": (c_int, (c_void_p, c_uint32, c_uint64)),
    "xf_port_up": (c_int, (c_void_p, c_uint32, c_int)),
    "xf_catch_up": (None, (c_void_p, c_uint64)),
    "xf_bmv2_compat": (None, (c_void_p,)),
    "xf_port_loss": (c_int, (c_void_p, c_uint32, c_int, c_uint64, c_uint32, c_uint64)),
    "xf_queue_set": (c_int, (c_void_p, c_int, c_int, POINTER(QueueSettings), c_uint32)),
    "xf_queue_settings_read": (c_int, (c_void_p, c_uint32, c_uint32, POINTER(QueueSettings))),
    "xf_buffer_set": (c_int, (c_void_p, c_uint64)),
    "xf_buffer_read": (None, (c_void_p, POINTER(BufferStats))),
    "xf_buffer_watermark_reset": (None, (c_void_p,)),
    "xf_queue_read": (c_int, (c_void_p, c_uint32, c_uint32, POINTER(QueueStats))),
    "xf_port_read": (c_int, (c_void_p, c_uint32, c_void_p)),
    "xf_watermark_reset": (c_int, (c_void_p, c_uint32)),
    "xf_drops_read": (None, (c_void_p, _words, _words)),
    "xf_drop_name": (c_char_p, (c_uint32,)),
    "xf_time": (None, (c_void_p, _words)),
    "xf_pause_take": (c_int, (c_void_p, POINTER(PauseEvent), c_uint32, _words)),
    "xf_table_stats_read": (c_int, (c_void_p, c_uint32, POINTER(TableStats))),
    "xf_apply_ops": (c_int, (c_void_p, POINTER(Op), c_uint32, _ints)),
    "xf_entry_counter": (c_int, (c_void_p, c_uint32, c_uint32, _words, _words)),
    "xf_entry_meter_read": (c_int, (c_void_p, c_uint32, c_uint32, _words)),
    "xf_entry_idle": (c_int, (c_void_p, c_uint32, c_uint32, _words)),
    "xf_idle_take": (c_int, (c_void_p, POINTER(IdleEvent), c_uint32)),
    "xf_counter_read": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, c_void_p)),
    "xf_meter_read": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, c_void_p)),
    "xf_register_read": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, _words)),
    "xf_digest_take": (c_int, (c_void_p, _ints, _words, c_uint32, _words)),
    "xf_log_take": (c_int, (c_void_p, _ints, _words, c_uint32, _words)),
    "xf_trace_take": (c_uint64, (c_void_p, _words, c_uint64, _words)),
    "xf_faults_read": (None, (c_void_p, POINTER(Faults))),
}

_ready: ctypes.CDLL | None = None
DROP_REASONS: tuple[str, ...] = ()
"""Names in the order of `enum xf_drop`; filled by `library`."""


def library() -> ctypes.CDLL:
    """The runtime library with its prototypes set."""
    global _ready, DROP_REASONS
    if _ready is None:
        loaded = runtime()
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        if loaded.xf_abi() != VERSION:
            raise BuildError(f"the engine speaks ABI {loaded.xf_abi()}, this binding {VERSION}")
        names: list[str] = []
        while (text := loaded.xf_drop_name(len(names))) is not None:
            names.append(text.decode())
        DROP_REASONS = tuple(names)
        _ready = loaded
    return _ready


@functools.cache
def port_stats_type() -> type[Structure]:
    """xf_port_stats; its arrays are as long as there are drop reasons."""
    library()
    count = len(DROP_REASONS)
    fields = [(name, c_uint64) for name in ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")]
    fields += [("rate_bps", c_uint64), ("delay_ns", c_uint64)]
    return type(
        "PortStats",
        (Structure,),
        {
            "_fields_": (
                *fields,
                ("drop_packets", c_uint64 * count),
                ("drop_bytes", c_uint64 * count),
                ("up", c_uint32),
                ("exists", c_uint32),
            )
        },
    )


def words(values: list[int] | tuple[int, ...]) -> ctypes.Array[c_uint64]:
    """A C array of 64-bit words, at least one long."""
    return (c_uint64 * max(1, len(values)))(*values)


def ints(values: list[int] | tuple[int, ...]) -> ctypes.Array[c_uint32]:
    """A C array of 32-bit integers, at least one long."""
    return (c_uint32 * max(1, len(values)))(*values)
