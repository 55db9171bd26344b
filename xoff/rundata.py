"""A run read back from its folder: the plan, the experiment and the records, sorted by what they describe."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topologies.plan import FabricPlan
from xoff.errors import XoffError
from xoff.experiment import Experiment, load
from xoff.records import Record, read_records

QueueKey = tuple[str, int, int]
"""(node, port, class)"""


@dataclass(frozen=True)
class PauseInterval:
    """One stretch of a queue being paused, in ns of the run's clock."""

    node: str
    port: int
    cls: int
    start: int
    end: int


@dataclass
class RunData:
    """Everything a report is made of."""

    folder: Path
    plan: FabricPlan
    experiment: Experiment
    meta: dict[str, Any]
    """`run.json`: which switch ran and why, versions, wall times of the phases."""
    queues: dict[QueueKey, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """(t, bytes) samples."""
    ports: dict[tuple[str, int], list[Record]] = field(default_factory=lambda: defaultdict(list))
    pauses: list[PauseInterval] = field(default_factory=list)
    drops: dict[tuple[str, int, int, str], Record] = field(default_factory=dict)
    """Last cumulative record per (node, port, class, reason); port and class are -1 where unknown."""
    counters: dict[tuple[str, str, int, int], Record] = field(default_factory=dict)
    """Last cumulative record per (node, name, port, class)."""
    messages: list[Record] = field(default_factory=list)
    flows: dict[tuple[str, str, int], list[Record]] = field(default_factory=lambda: defaultdict(list))
    """Samples per (sender, receiver, qp)."""
    cnps: list[Record] = field(default_factory=list)
    retransmits: list[Record] = field(default_factory=list)
    telemetry: list[Record] = field(default_factory=list)
    collective: Record | None = None
    notes: list[Record] = field(default_factory=list)
    end: int = 0
    """Time of the last record."""


def pause_intervals(events: list[Record], end: int) -> list[PauseInterval]:
    """Stretches of pause from `pause` records, each ended by a resume, by expiry or by the end of the run.

    A record says until when the queue is paused from its `t` on; 0 means resumed.
    """
    intervals: list[PauseInterval] = []
    open_since: dict[QueueKey, tuple[int, int]] = {}
    for event in sorted(events, key=lambda e: e["t"]):
        key = (event["node"], event["port"], event["class"])
        t, until = event["t"], event["until"]
        if key in open_since:
            start, expires = open_since[key]
            if expires <= t:
                intervals.append(PauseInterval(*key, start, expires))
                del open_since[key]
            elif until <= t:
                intervals.append(PauseInterval(*key, start, t))
                del open_since[key]
            else:
                open_since[key] = (start, until)
                continue
        if until > t:
            open_since[key] = (t, until)
    for key, (start, expires) in open_since.items():
        intervals.append(PauseInterval(*key, start, max(start, min(expires, end))))
    return sorted(intervals, key=lambda i: (i.start, i.node, i.port, i.cls))


def read_run(folder: Path) -> RunData:
    """Read a run folder; XoffError when it is not one."""
    try:
        plan = FabricPlan.read(folder / "plan.json")
        meta = json.loads((folder / "run.json").read_text())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise XoffError(f"{folder}: not a run folder ({Path(error.filename).name} is missing).") from None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise XoffError(f"{folder}: the run folder is damaged ({error}).") from None
    if not isinstance(meta, dict):
        raise XoffError(f"{folder}: the run folder is damaged (run.json holds no mapping).")
    data = RunData(folder, plan, load(folder / "experiment.yaml"), meta)
    pauses: list[Record] = []
    sort = {
        "message": data.messages.append,
        "cnp": data.cnps.append,
        "retransmit": data.retransmits.append,
        "int": data.telemetry.append,
        "note": data.notes.append,
        "pause": pauses.append,
    }
    for record in read_records(folder):
        data.end = max(data.end, record["t"])
        kind = record["kind"]
        if kind in sort:
            sort[kind](record)
        elif kind == "queue":
            data.queues[record["node"], record["port"], record["class"]].append(
                (record["t"], record["bytes"])
            )
        elif kind == "port":
            data.ports[record["node"], record["port"]].append(record)
        elif kind == "flow":
            data.flows[record["node"], record["dst"], record["qp"]].append(record)
        elif kind == "drop":
            data.drops[record["node"], record.get("port", -1), record.get("class", -1), record["reason"]] = (
                record
            )
        elif kind == "counter":
            data.counters[record["node"], record["name"], record.get("port", -1), record.get("class", -1)] = (
                record
            )
        elif kind == "collective":
            data.collective = record
    data.pauses = pause_intervals(pauses, data.end)
    return data
