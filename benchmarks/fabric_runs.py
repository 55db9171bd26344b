"""What the fabric does to collectives: load balancing, PFC, congestion control; each case one whole run.

`python benchmarks/fabric_runs.py` in virtual time; `--clock mininet` (root) with real packets. Figures are in fabric
units and compare with their closed-form ideal; JSON goes to benchmarks/out/.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from xoff.experiment import Experiment
from xoff.metrics import Summary
from xoff.progress import Display
from xoff.run import execute

OUT = Path(__file__).resolve().parent / "out"

CASES: dict[str, dict[str, Any]] = {
    **{
        f"{name}, {balancing}": {"workload": workload, "load_balancing": balancing}
        for name, workload in (
            ("AllReduce 4 MiB", "allreduce:bytes=4MiB"),
            ("All-to-All 2 MiB", "alltoall:bytes=2MiB"),
        )
        for balancing in ("ecmp", "spray", "adaptive")
    },
    "incast 15:1 1 MB, neither": {"workload": "incast:bytes=1MB", "pfc": False, "congestion_control": "none"},
    "incast 15:1 1 MB, PFC": {"workload": "incast:bytes=1MB", "congestion_control": "none"},
    "incast 15:1 1 MB, PFC + DCQCN": {"workload": "incast:bytes=1MB"},
    "incast 15:1 1 MB, PFC + HPCC": {"workload": "incast:bytes=1MB", "congestion_control": "hpcc"},
}


def figures(summary: Summary) -> dict[str, Any]:
    """The columns of the table."""
    collective = summary["collective"]
    return {
        "completion_us": collective["completion_seconds"] * 1e6,
        "busbw_GBps": collective["busbw_GBps"],
        "share_of_ideal": collective["share_of_ideal"],
        "drops": summary["drops_total"],
        "drops_lossless": summary["drops_lossless"],
        "retransmissions": summary["retransmissions"],
        "paused_us": summary["paused_seconds"] * 1e6,
        "pauses": summary["pauses"],
        "ecn_marked": summary["ecn_marked_packets"],
        "cnps": summary["cnps_sent"],
        "path_spread": summary["path_spread"],
        "queue_peak_bytes": summary["queue_peak_bytes"],
    }


def cell(value: float | int | None) -> str:
    """A figure in the table."""
    if value is None:
        return "-"
    return f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"


def main(
    clock: Annotated[str, typer.Option(help="virtual, or mininet (root)")] = "virtual",
    only: Annotated[str, typer.Option(help="cases whose name contains this")] = "",
) -> None:
    """Run every case and print the table."""
    table = Table(title=f"k=4 fat-tree, 16 hosts, 100 Gb/s, {clock} clock")
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in CASES.items():
            if only in name:
                experiment = Experiment(clock=clock, time_limit="40ms").with_options(**options)
                results[name] = figures(execute(experiment, Path(folder), Display(quiet=True)))
    for column in ("case", *next(iter(results.values()), {})):
        table.add_column(column.replace("_", " "), justify="left" if column == "case" else "right")
    for name, values in results.items():
        table.add_row(name, *map(cell, values.values()))
    Console(width=200).print(table)
    OUT.mkdir(exist_ok=True)
    (OUT / f"fabric_runs-{clock}.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
