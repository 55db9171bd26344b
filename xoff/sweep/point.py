"""One point of a sweep: an experiment run in this process, and the row that it becomes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from compiler.errors import CompileError
from topologies.fabric import TopologyError
from traffic.errors import TrafficError
from xoff.errors import XoffError
from xoff.experiment import from_mapping
from xoff.folder import RunFolder
from xoff.metrics import Summary, summarise
from xoff.progress import Display
from xoff.rundata import read_run

Row = dict[str, Any]
SENTENCES = (XoffError, TopologyError, TrafficError, CompileError)
"""Errors whose text is for the person at the keyboard."""
US = 1e6

METRICS = (
    "finished", "completion_us", "algbw_GBps", "busbw_GBps", "share_of_ideal", "fct_p50_us", "fct_p99_us", "fct_max_us",
    "messages", "ecn_marked_packets", "cnps_received", "pfc_xoff_sent", "pauses", "paused_us", "drops_total",
    "drops_lossless", "retransmissions", "path_spread", "queue_peak_bytes", "wall_seconds", "records_sha256", "error",
)  # fmt: skip
"""Columns of every row, beside the sweep's own keys. docs/sweeps.md says what they are."""


def run_point(options: dict[str, Any], keep: str | None) -> Row:
    """Run the experiment with these options (plain data) and return its row; never raises for what a user can cause.

    `keep`: a folder that gets the run's own folder; None throws it away.
    """
    begun = time.monotonic()
    try:
        row = _measured(options, keep)
    except Exception as error:
        known = isinstance(error, XoffError) or type(error).__name__ in (
            "TopologyError",
            "TrafficError",
            "CompileError",
        )
        row = dict.fromkeys(METRICS)
        row |= {"finished": False, "error": str(error) if known else f"{type(error).__name__}: {error}"}
    row["wall_seconds"] = round(time.monotonic() - begun, 3)
    return row


def _measured(options: dict[str, Any], keep: str | None) -> Row:
    from xoff.clocks.context import make_context
    from xoff.clocks.simulation import VirtualRun

    experiment = from_mapping(options, "sweep")
    context = make_context(experiment)
    out = Path(keep or tempfile.mkdtemp(prefix="xoff-sweep-"))
    try:
        folder = RunFolder.create(out, experiment)
        context.plan.write(folder.path / "plan.json")
        files = context.program.write(folder.path / "program")
        asyncio.run(VirtualRun(context, files, folder, Display(quiet=True)).run())
        return row_of(summarise(read_run(folder.path)))
    finally:
        if keep is None:
            shutil.rmtree(out, ignore_errors=True)


def row_of(summary: Summary) -> Row:
    """The figures of a summary as one flat row, fabric microseconds for times."""
    collective = summary["collective"] or {}
    fct = summary.get("fct_seconds") or {}

    def us(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * US

    row: Row = {
        "completion_us": us(collective.get("completion_seconds")),
        **{key: collective.get(key) for key in ("algbw_GBps", "busbw_GBps", "share_of_ideal")},
        **{f"fct_{key}_us": us(fct.get(key)) for key in ("p50", "p99", "max")},
        "paused_us": us(summary["paused_seconds"]),
        "error": None,
    }
    return {key: row[key] if key in row else summary.get(key) for key in METRICS}
