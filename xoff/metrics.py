"""A run's summary in numbers, from its records alone. Keys and units: docs/records.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import mean
from typing import Any

from xoff.records import records_sha256
from xoff.rundata import RunData

Summary = dict[str, Any]


def path_spread(data: RunData) -> float | None:
    """Worst ratio of the busiest to the mean equal-cost port, in bytes sent, over all switches and port kinds.

    1.0 is a perfect spread, m means that one of m ports carried everything; None when no switch had a choice.
    """
    worst: float | None = None
    for switch in data.plan.switches:
        groups: dict[str, list[int]] = defaultdict(list)
        for port in switch.ports:
            samples = data.ports.get((switch.name, port.number))
            if samples and port.kind in ("up", "global", "local"):
                groups[port.kind].append(samples[-1]["tx_bytes"])
        for sent in groups.values():
            if len(sent) > 1 and sum(sent) > 0:
                worst = max(worst or 0.0, max(sent) / mean(sent))
    return worst


def _percentile(values: list[float], share: float) -> float:
    """Nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _counter(data: RunData, name: str) -> int:
    return sum(r["packets"] for (_, n, _, _), r in data.counters.items() if n == name)


PROGRAM_REASONS = frozenset({"ingress", "egress"})
"""What the native switch counts when a P4 program marks a frame to drop: a loss, or a frame that it consumed (PFC).
The fabric's program counts its losses by reason itself, so for it these are not losses again."""


def _drops(data: RunData) -> tuple[dict[str, int], int, dict[str, int]]:
    """(frames lost in the fabric by reason, those in lossless classes, frames that hosts discarded by reason)."""
    fabric: Counter[str] = Counter()
    at_hosts: Counter[str] = Counter()
    lossless = 0
    hosts = {host.name for host in data.plan.hosts}
    lossless_classes = {c for c, policy in data.plan.classes.items() if policy.lossless}
    counted_in_p4 = data.experiment.controller == "builtin" and not data.experiment.program
    for (node, _, cls, reason), record in data.drops.items():
        if node in hosts:
            at_hosts[reason] += record["packets"]
        elif not (counted_in_p4 and reason in PROGRAM_REASONS):
            fabric[reason] += record["packets"]
            if cls in lossless_classes:
                lossless += record["packets"]
    return _sorted(fabric), lossless, _sorted(at_hosts)


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {reason: count for reason, count in sorted(counts.items()) if count}


def summarise(data: RunData) -> Summary:
    """The summary that `xoff run --json` prints; times and rates are in fabric units unless the key says wall."""
    scale = data.plan.time_scale
    drops, lossless_drops, host_discards = _drops(data)
    paused_ns = sum(i.end - i.start for i in data.pauses) / scale
    hosts = {h.name for h in data.plan.hosts}
    summary: Summary = {
        "name": data.experiment.name,
        "clock": data.experiment.clock,
        "switch": data.meta.get("switch"),
        "topology": data.plan.name,
        "hosts": len(data.plan.hosts),
        "switches": len(data.plan.switches),
        "time_scale": scale,
        "load_balancing": data.plan.load_balancing,
        "congestion_control": data.experiment.congestion_control,
        "ecn": data.experiment.ecn,
        "pfc": data.experiment.pfc,
        "finished": bool(data.meta.get("finished")),
        "collective": _collective(data, scale),
        "messages": len(data.messages),
        "ecn_marked_packets": _counter(data, "ecn_marked"),
        "cnps_sent": sum(r["dir"] == "tx" for r in data.cnps),
        "cnps_received": sum(r["dir"] == "rx" for r in data.cnps),
        "pfc_xoff_sent": _counter(data, "pfc_tx_xoff"),
        "pfc_xon_sent": _counter(data, "pfc_tx_xon"),
        "pfc_xoff_received": _counter(data, "pfc_rx_xoff"),
        "pfc_xon_received": _counter(data, "pfc_rx_xon"),
        "pauses": len(data.pauses),
        "paused_seconds": paused_ns / 1e9,
        "paused_seconds_hosts": sum(i.end - i.start for i in data.pauses if i.node in hosts) / scale / 1e9,
        "drops": drops,
        "drops_total": sum(drops.values()),
        "drops_lossless": lossless_drops,
        "host_discards": host_discards,
        "retransmissions": len(data.retransmits),
        "retransmitted_packets": sum(m["retransmitted"] for m in data.messages),
        "path_spread": path_spread(data),
        "queue_peak_bytes": max((b for series in data.queues.values() for _, b in series), default=0),
        "wall_seconds": data.meta.get("wall_seconds", {}),
        "peak_rss_bytes": data.meta.get("peak_rss_bytes"),
        "run": str(data.folder),
    }
    if data.experiment.clock == "virtual":
        summary["records_sha256"] = records_sha256(data.folder)
    fcts = [(m["end"] - m["start"]) / scale / 1e9 for m in data.messages]
    if fcts:
        summary["fct_seconds"] = {
            "min": min(fcts),
            "p50": _percentile(fcts, 0.50),
            "p99": _percentile(fcts, 0.99),
            "max": max(fcts),
        }
    return summary


def _collective(data: RunData, scale: float) -> dict[str, Any] | None:
    """Completion and bandwidths as nccl-tests defines them (doc/PERFORMANCE.md); GB is 10**9 bytes."""
    record = data.collective
    if record is None:
        return None
    result: dict[str, Any] = {"op": record["op"], "ranks": record["ranks"], "bytes": record["bytes"]}
    if record.get("end") is None:
        return {**result, "completion_seconds": None}
    wall = (record["end"] - record["start"]) / 1e9
    seconds = wall / scale
    algbw = record["bytes"] / seconds / 1e9 if seconds > 0 else 0.0
    result |= {
        "completion_seconds": seconds,
        "completion_wall_seconds": wall,
        "algbw_GBps": algbw,
        "busbw_GBps": algbw * record["busbw_factor"],
        "ideal_seconds": record["ideal_ns"] / 1e9,
        "share_of_ideal": record["ideal_ns"] / 1e9 / seconds if seconds > 0 else 0.0,
        "payload_ceiling": record["payload_ceiling"],
    }
    return result
