"""The same experiments in both clocks, and which figures agree. Needs root: one of the clocks is Mininet.

sudo .venv/bin/python benchmarks/crosscheck.py [--time-scale 10000] [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from xoff.experiment import Experiment
from xoff.metrics import Summary
from xoff.progress import Display
from xoff.run import execute

EXPERIMENTS: dict[str, dict[str, Any]] = {
    "one flow, 3 switches": {
        "workload": {"kind": "incast", "senders": 1, "target": "h3", "bytes": 500_000}, "congestion_control": "none",
    },
    "allreduce 16, ecmp, none": {"workload": "allreduce:bytes=1MiB", "congestion_control": "none"},
    "allreduce 16, ecmp, dcqcn": {"workload": "allreduce:bytes=1MiB"},
    "permutation 16, ecmp, none": {"workload": "permutation:bytes=500KB", "congestion_control": "none", "ecn": False},
    "permutation 16, spray, none": {
        "workload": "permutation:bytes=500KB", "congestion_control": "none", "ecn": False, "load_balancing": "spray",
    },
    "alltoall 16, adaptive, none": {
        "workload": "alltoall:bytes=500KB", "congestion_control": "none", "ecn": False, "load_balancing": "adaptive",
    },
    "incast 15:1, none (PFC)": {"workload": "incast:bytes=100KB", "congestion_control": "none", "ecn": False},
    "incast 15:1, no PFC": {"workload": "incast:bytes=100KB", "congestion_control": "none", "ecn": False, "pfc": False,
                            "classes": {3: {"queue_limit_bytes": 200_000}}},
    "incast 15:1, dcqcn": {"workload": "incast:bytes=200KB"},
    "incast 7:1, hpcc": {"workload": "incast:senders=7,bytes=200KB", "congestion_control": "hpcc"},
    "one flow, link down 60 us": {
        "workload": {"kind": "incast", "senders": 1, "target": "h2", "bytes": 1_000_000}, "congestion_control": "none",
        "actions": [{"at": "20us", "link_down": {"switch": "e1", "towards": "h2"}},
                    {"at": "80us", "link_up": {"switch": "e1", "towards": "h2"}}],
    },
}  # fmt: skip

FIGURES = (
    "completion_us", "fct_p50_us", "path_spread", "queue_peak_bytes", "ecn_marked_packets", "cnps_received",
    "pfc_xoff_sent", "paused_us", "drops_total", "drops_lossless", "retransmissions",
)  # fmt: skip


def figures(summary: Summary) -> dict[str, float | None]:
    """What is compared, fabric units."""
    from xoff.sweep.point import row_of

    row = row_of(summary)
    return {key: row[key] for key in FIGURES}


def main() -> None:
    """Run and print a table an experiment; benchmarks/out/crosscheck.json has everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--time-scale", type=float, default=10_000.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, float | None]]] = {}
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    for name, settings in EXPERIMENTS.items():
        if options.only not in name:
            continue
        results[name] = {}
        for clock in ("virtual", "mininet"):
            experiment = Experiment(
                clock=clock,
                topology="fattree:k=4",
                time_scale=options.time_scale,
                name="crosscheck",
                sample="20us",
            ).with_options(**settings)
            with tempfile.TemporaryDirectory(prefix="xoff-crosscheck-") as folder:
                summary = execute(experiment, Path(folder), Display(quiet=True))
            results[name][clock] = figures(summary)
        print(f"\n{name}\n| figure | virtual | Mininet | Mininet / virtual |\n|---|---|---|---|")
        for key in FIGURES:
            virtual, mininet = results[name]["virtual"][key], results[name]["mininet"][key]
            ratio = f"{mininet / virtual:.2f}" if virtual and mininet is not None else ""
            if virtual or mininet:
                print(f"| {key} | {_text(virtual)} | {_text(mininet)} | {ratio} |", flush=True)
        (out / "crosscheck.json").write_text(json.dumps(results, indent=1))


def _text(value: float | None) -> str:
    return (
        "-"
        if value is None
        else f"{value:.1f}"
        if isinstance(value, float) and value < 100
        else f"{value:,.0f}"
    )


if __name__ == "__main__":
    main()
