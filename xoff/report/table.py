"""The summary as words and numbers for people: a row per figure, with its unit."""

from __future__ import annotations

from typing import Any

from xoff.metrics import Summary
from xoff.units import format_bytes, format_time

Rows = list[tuple[str, str]]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _by_reason(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items()) or "none"


def _retransmissions(summary: Summary) -> str:
    times = summary["retransmissions"]
    if not times:
        return "0"
    return f"{times:,} {'time' if times == 1 else 'times'}, {summary['retransmitted_packets']:,} packets"


def headline(summary: Summary) -> Rows:
    """The few figures that say how a run went."""
    result: Rows = []
    collective = summary["collective"]
    if collective and collective["completion_seconds"] is not None:
        result += [
            ("completion", format_time(collective["completion_seconds"] * 1e9)),
            ("busbw", f"{collective['busbw_GBps']:.2f} GB/s"),
            ("share of ideal", _percent(collective["share_of_ideal"])),
        ]
    return [
        *result,
        ("ECN marks", f"{summary['ecn_marked_packets']:,}"),
        ("pauses", f"{summary['pauses']:,}"),
        ("drops", f"{summary['drops_total']:,}"),
    ]


def rows(summary: Summary) -> Rows:
    """Every figure, in the order in which a person asks for them."""
    result: Rows = []
    collective = summary["collective"]
    if collective:
        result += [
            (
                "collective",
                f"{collective['op']}, {collective['ranks']} ranks, {format_bytes(collective['bytes'])}",
            ),
        ]
        if collective["completion_seconds"] is None:
            result.append(("completion time", "not finished"))
        else:
            result += [
                (
                    "completion time",
                    f"{format_time(collective['completion_seconds'] * 1e9)} in the fabric"
                    + _on_the_wall(summary),
                ),
                ("algbw", f"{collective['algbw_GBps']:.3f} GB/s"),
                ("busbw", f"{collective['busbw_GBps']:.3f} GB/s"),
                (
                    "share of ideal",
                    f"{_percent(collective['share_of_ideal'])}"
                    f" (headers leave {_percent(collective['payload_ceiling'])})",
                ),
            ]
    if "fct_seconds" in summary:
        fct = summary["fct_seconds"]
        result.append(
            (
                "message completion",
                f"p50 {format_time(fct['p50'] * 1e9)}, p99 {format_time(fct['p99'] * 1e9)},"
                f" max {format_time(fct['max'] * 1e9)}",
            )
        )
    drops = _by_reason(summary["drops"])
    spread = summary["path_spread"]
    result += [
        ("ECN-marked packets", f"{summary['ecn_marked_packets']:,}"),
        ("CNPs sent / received", f"{summary['cnps_sent']:,} / {summary['cnps_received']:,}"),
        ("PFC XOFF, switches out/in", f"{summary['pfc_xoff_sent']:,} / {summary['pfc_xoff_received']:,}"),
        ("PFC XON, switches out/in", f"{summary['pfc_xon_sent']:,} / {summary['pfc_xon_received']:,}"),
        (
            "time paused, all queues",
            f"{format_time(summary['paused_seconds'] * 1e9)} in {summary['pauses']:,} pauses",
        ),
        ("drops in the fabric", drops),
        ("drops in lossless classes", f"{summary['drops_lossless']:,}"),
        ("discarded by hosts", _by_reason(summary["host_discards"])),
        ("retransmissions", _retransmissions(summary)),
        ("path spread (max / mean)", "-" if spread is None else f"{spread:.2f}"),
        ("deepest queue", format_bytes(summary["queue_peak_bytes"])),
    ]
    wall = summary.get("wall_seconds") or {}
    if wall:
        result.append(("wall time", ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in wall.items())))
    if summary.get("peak_rss_bytes"):
        result.append(("peak memory", format_bytes(summary["peak_rss_bytes"])))
    if summary.get("records_sha256"):
        result.append(("SHA-256 of the records", summary["records_sha256"]))
    return result


def topology_rows(facts: dict[str, Any]) -> Rows:
    """What `xoff topo` says of a fabric (`xoff.prepare.describe_topology`)."""
    layers = ", ".join(f"{count} {layer}" for layer, count in facts["switches_by_layer"].items())
    paths = ", ".join(f"{width} between {pairs} pairs" for width, pairs in facts["paths"].items())
    return [
        ("topology", facts["name"]),
        ("hosts", f"{facts['hosts']:,}"),
        ("switches", f"{facts['switches']:,} ({layers})"),
        ("links", f"{facts['links']:,}"),
        ("bisection", f"{facts['bisection_links']:,} links, {facts['bisection']} each way"),
        ("oversubscription", f"{facts['oversubscription']:.3g}"),
        ("diameter, host to host", f"{facts['diameter']} links"),
        ("shortest way, switch to switch", f"{facts['average_hops']:.2f} links on average"),
        ("paths between edge switches", paths or "-"),
        ("deadlock", facts["deadlock"]),
    ]


def remarks(summary: Summary) -> list[str]:
    """What a person should know before believing the figures."""
    if summary["clock"] == "mininet" and summary["drops"].get("headroom"):
        return [
            "a lossless class lost frames for want of headroom: processes of this run woke later than the headroom "
            f"covers. On a machine this busy, raise --time-scale above {summary['time_scale']:g}."
        ]
    return []


def _on_the_wall(summary: Summary) -> str:
    """Mininet's other time; the virtual clock has only one."""
    if summary.get("clock") == "virtual":
        return ""
    return f" ({summary['collective']['completion_wall_seconds']:.2f} s on the wall)"
