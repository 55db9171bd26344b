"""Telemetry: INT set-up of a switch, and reports (packet-ins of its sinks) turned into `int` records."""

from __future__ import annotations

import ipaddress
import struct
from typing import Any

import finsy as fy
from finsy.p4entity import P4EntityList

from controller.intent import SwitchIntent
from switch.device import CPU_PORT

REPORT_SESSION = 2
"""Clone session of p4src/constants.p4."""
INT_REPORT = 1
"""Packet-in reason of p4src/constants.p4."""
INT_UDP_PORT = 64791

_BASELINE = (
    (0x8000, ("node_id",), ">I"),
    (0x4000, ("in_port", "out_port"), ">HH"),
    (0x2000, ("latency",), ">I"),
    (0x1000, ("queue+bytes",), ">I"),
    (0x0800, ("in_ts",), ">Q"),
    (0x0400, ("out_ts",), ">Q"),
    (0x0200, ("level2",), ">Q"),
    (0x0100, ("util",), ">I"),
    (0x0080, ("buffer+bytes",), ">I"),
)
_DOMAIN = ((0x8000, ("tx_bytes",), ">Q"), (0x4000, ("rate_kbps",), ">I"))


def entities(intent: SwitchIntent) -> list[P4EntityList]:
    """Node id, domain, clock unit and the way reports take to the controller."""
    ns_per_tick, rest = divmod(10**9, intent.timestamp_hz)
    if rest or not 0 < ns_per_tick < 1 << 16:
        raise ValueError(
            f"timestamp_hz {intent.timestamp_hz} must divide 10^9 into fewer than 65536 ns per tick"
        )
    return [
        fy.P4CloneSessionEntry(REPORT_SESSION, replicas=[CPU_PORT]),
        fy.P4TableEntry(
            "telemetry_node",
            action=fy.P4TableAction(
                "set_node",
                node=intent.switch.device_id & 0xFFFFFFFF,
                domain=intent.plan.telemetry.domain_id,
                tick_ns=ns_per_tick,
            ),
            is_default_action=True,
        ),
    ]


class ReportError(ValueError):
    """A packet-in is not the telemetry report it claims to be."""


def parse_report(frame: bytes) -> dict[str, Any]:
    """The `int` record (without node and time) of a reported packet; hops in path order, source first.

    Words that a switch could not provide (all ones) and that the source did not ask for are absent. `util` is a
    fraction of the line rate, times are ns of the hop's own clock, `latency` ns. Raises ReportError.
    """
    try:
        return _parse(frame)
    except (struct.error, IndexError, ipaddress.AddressValueError) as error:
        raise ReportError(f"telemetry report of {len(frame)} bytes ends inside a header") from error


def _parse(frame: bytes) -> dict[str, Any]:
    offset = 12
    (ethertype,) = struct.unpack_from(">H", frame, offset)
    offset += 2
    if ethertype == 0x8100:
        (ethertype,) = struct.unpack_from(">H", frame, offset + 2)
        offset += 4
    if ethertype == 0x0800:
        src, dst = (str(ipaddress.IPv4Address(frame[offset + at : offset + at + 4])) for at in (12, 16))
        offset += 20
    elif ethertype == 0x86DD:
        src, dst = (str(ipaddress.IPv6Address(frame[offset + at : offset + at + 16])) for at in (8, 24))
        offset += 40
    else:
        raise ReportError(f"telemetry report with EtherType {ethertype:#06x}, expected IPv4 or IPv6")
    (sport,) = struct.unpack_from(">H", frame, offset)
    offset += 8
    kind, words, _ = struct.unpack_from(">BBH", frame, offset)
    flags, _, ml, _, instructions, _, ds_instructions, _ = struct.unpack_from(">BBBBHHHH", frame, offset + 4)
    if kind >> 4 != 1 or flags >> 4 != 2 or words < 3:
        raise ReportError("telemetry report without an INT-MD 2 header")
    hop_bytes = 4 * (ml & 0x1F)
    offset += 16
    count = (words - 3) * 4 // hop_bytes if hop_bytes else 0
    hops = [_hop(frame, offset + index * hop_bytes, instructions, ds_instructions) for index in range(count)]
    return {
        "kind": "int",
        "src": src,
        "dst": dst,
        "sport": sport,
        "hops": hops[::-1],
        "hops_exceeded": bool(flags & 0x04),
        "mtu_exceeded": bool(flags & 0x02),
    }


def _hop(frame: bytes, offset: int, instructions: int, ds_instructions: int) -> dict[str, Any]:
    hop: dict[str, Any] = {}
    wanted = [w for w in _BASELINE if instructions & w[0]] + [w for w in _DOMAIN if ds_instructions & w[0]]
    for _, names, layout in wanted:
        values = struct.unpack_from(layout, frame, offset)
        size = struct.calcsize(layout)
        if frame[offset : offset + size] != b"\xff" * size:
            hop.update(zip(names, values, strict=True))
        offset += size
    if "queue+bytes" in hop:
        word = hop.pop("queue+bytes")
        hop["queue"], hop["queue_bytes"] = word >> 24, word & 0xFFFFFF
    if "buffer+bytes" in hop:
        word = hop.pop("buffer+bytes")
        hop["buffer"], hop["buffer_bytes"] = word >> 24, word & 0xFFFFFF
    if "util" in hop:
        hop["util"] = hop["util"] / 65536
    return hop
