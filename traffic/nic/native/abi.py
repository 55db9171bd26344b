"""`nic.h` for ctypes: structures, prototypes, names in the order of its enumerations."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

from switch.native.abi import Frame
from switch.native.build import BuildError, extension

VERSION = 2
NEVER = 2**64 - 1
CLASSES = 8
FRAMES = 64
"""Frames taken by one call."""
EVENTS = 1024
"""Events taken by one call."""
PARAMETERS = 16
MAX_SHIM = 1024

CONGESTION = ("none", "dcqcn", "hpcc", "mprdma")
DROP_REASONS = (
    "receive_buffer",
    "malformed",
    "ip_checksum",
    "not_for_us",
    "icrc",
    "unknown_qp",
    "unsupported_opcode",
    "mac_control",
    "pfc_class",
    "qp_error",
    "duplicate",
    "invalid_request",
    "out_of_order",
)
FAILURES = ("", "retry_exceeded", "remote_error")
CNP_SENT, CNP_RECEIVED, PAUSE, PAUSE_SENT, NAKED, TIMED_OUT = range(6)
SENT, RECEIVED, FAILED, EVENTS_FULL = range(4)


class Config(Structure):
    """xn_config."""

    _fields_ = (
        *((name, c_uint64) for name in ("rate_bps", "delay_ns", "rto_ns", "reorder_ns")),
        ("cnp_interval_ns", c_int64),
        *(
            (name, c_uint64)
            for name in ("base_rtt_ns", "drain_bps", "limit_bytes", "xoff_bytes", "xon_bytes")
        ),
        ("reps_freezing_ns", c_uint64),
        ("rto_backoff", c_double),
        ("parameters", c_double * PARAMETERS),
        *((name, c_uint32) for name in ("mtu", "ack_interval", "retry_limit", "reorder_window")),
        *((name, c_uint32) for name in ("congestion", "cnp_class", "pfc_classes", "pause_quanta")),
        *((name, c_uint32) for name in ("ipv6", "prototype_bytes", "shim_bytes")),
        *((name, c_uint32) for name in ("echo", "reps_buffer", "reps_entropies", "reps_explore")),
        ("mac", c_uint8 * 8),
        ("ip", c_uint8 * 16),
        ("prototype", c_uint8 * 96),
        ("shim", c_uint8 * 16),
    )


class PairConfig(Structure):
    """xn_pair_config."""

    _fields_ = (
        ("send_psn", c_uint64),
        ("receive_psn", c_uint64),
        *((name, c_uint32) for name in ("qpn", "remote_qpn", "source_port", "traffic_class")),
        ("remote_ip", c_uint8 * 16),
    )


class Event(Structure):
    """xn_event."""

    _fields_ = (
        ("time", c_uint64),
        ("value", c_uint64),
        *((name, c_uint32) for name in ("nic", "kind", "qpn", "cls")),
    )


class Message(Structure):
    """xn_message."""

    _fields_ = (
        *((name, c_uint64) for name in ("bytes", "posted", "started", "now", "first_psn", "end_psn")),
        *((name, c_uint32) for name in ("nic", "notice", "qpn", "id")),
        *((name, c_uint32) for name in ("retransmitted", "has_id", "failure", "write")),
    )


class Stats(Structure):
    """xn_stats."""

    _fields_ = (
        *(
            (n, c_uint64)
            for n in ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "ignored", "bytes_received")
        ),
        *(
            (name, c_uint64 * CLASSES)
            for name in ("pauses_received", "pauses_sent", "paused_ns", "buffer_bytes")
        ),
        ("buffer_peak", c_uint64),
        ("drop_packets", c_uint64 * len(DROP_REASONS) * (CLASSES + 1)),
        ("drop_bytes", c_uint64 * len(DROP_REASONS) * (CLASSES + 1)),
    )


REQUESTER = (
    "una",
    "next_psn",
    "sent_psn",
    "retransmitted",
    "bytes_sent",
    "bytes_acked",
    "cnps_received",
    "stale_acks",
    "next_ps",
)
RESPONDER = (
    "expected",
    "msn",
    "bytes_received",
    "duplicates",
    "out_of_order",
    "naks",
    "cnps_sent",
    "early_peak",
)


REPS = ("explored", "recycled", "freezes")


class PairStats(Structure):
    """xn_pair_stats."""

    _fields_ = (
        *((name, c_uint64) for name in (*REQUESTER, *RESPONDER, "outstanding", *REPS)),
        ("window", c_int64),
        *((name, c_double) for name in ("rate_bps", "target_bps", "alpha", "utilisation")),
        *(
            (name, c_uint32)
            for name in ("failure", "stopped", "receiver_failed", "telemetry_bytes", "frozen")
        ),
    )


NOTIFY = CFUNCTYPE(None, POINTER(Message))

_PROTOTYPES: dict[str, tuple[object, tuple[object, ...]]] = {
    "xn_abi": (c_uint32, ()),
    "xn_group_new": (c_void_p, (NOTIFY,)),
    "xn_group_free": (None, (c_void_p,)),
    "xn_group_entered": (None, (c_void_p, c_void_p, c_void_p)),
    "xn_events_take": (c_uint32, (c_void_p, POINTER(Event), c_uint32)),
    "xn_new": (c_void_p, (c_void_p, POINTER(Config))),
    "xn_add_pair": (c_int, (c_void_p, POINTER(PairConfig))),
    "xn_free": (None, (c_void_p,)),
    "xn_number": (c_uint32, (c_void_p,)),
    "xn_use_pool": (None, (c_void_p, c_void_p)),
    "xn_node_type": (c_void_p, ()),
    "xn_rx": (None, (c_void_p, c_char_p, c_uint32, c_uint64)),
    "xn_poll": (c_int, (c_void_p, c_uint64, POINTER(Frame), c_uint32)),
    "xn_deadline": (c_uint64, (c_void_p,)),
    "xn_post": (c_int, (c_void_p, c_uint32, c_uint32, c_uint64, c_uint64, c_int)),
    "xn_stop": (None, (c_void_p, c_uint64)),
    "xn_set_rate": (None, (c_void_p, c_uint64, c_uint64)),
    "xn_storm": (None, (c_void_p, c_uint32, c_uint32, c_uint64, c_uint64)),
    "xn_catch_up": (None, (c_void_p, c_uint64)),
    "xn_stats_read": (None, (c_void_p, c_uint64, POINTER(Stats))),
    "xn_pair_read": (c_int, (c_void_p, c_uint32, POINTER(PairStats))),
    "xn_rate": (c_double, (c_void_p, c_uint32, c_uint64)),
    "xn_telemetry": (c_uint32, (c_void_p, c_uint32, c_int, c_char_p)),
    "xn_outstanding": (c_uint32, (c_void_p, c_uint32, POINTER(Message), c_uint32)),
}

_ready: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The library with its prototypes set, compiled if need be. Raises BuildError."""
    global _ready
    if _ready is None:
        loaded = extension(Path(__file__).parent, "nic")
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        if loaded.xn_abi() != VERSION:
            raise BuildError(f"the NIC speaks ABI {loaded.xn_abi()}, this binding {VERSION}")
        _ready = loaded
    return _ready
