"""Comparison plots of a sweep: one figure over one key, a line or a row of bars for each value of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from xoff.sweep.grid import Plot, Sweep
from xoff.sweep.point import Row

COMPARED = (
    "completion_us", "busbw_GBps", "fct_p99_us", "queue_peak_bytes", "paused_us", "ecn_marked_packets", "drops_total",
    "retransmissions",
)  # fmt: skip
"""What is compared when a sweep does not say."""


def default_plots(sweep: Sweep, rows: Sequence[Row]) -> list[Plot]:
    """Every figure of `COMPARED` that differs, over the first key with numbers (else the first), by the next key.

    Seeds are neither: their spread is drawn as a bar around the mean.
    """
    keys = [key for key, values in sweep.axes.items() if len(values) > 1 and key != "seed"]
    if not keys:
        return []
    x = next((key for key in keys if _numeric(sweep.axes[key])), keys[0])
    by = next((key for key in keys if key != x), None)
    return [
        Plot(x, y, by) for y in COMPARED if len({row.get(y) for row in rows if row.get(y) is not None}) > 1
    ]


def draw(plot: Plot, sweep: Sweep, rows: Sequence[Row], folder: Path) -> Path | None:
    """Draw one plot into `folder`; None when no row has a value for it."""
    usable = [row for row in rows if isinstance(row.get(plot.y), (int, float)) and plot.x in row]
    if not usable:
        return None
    values = [value for value in sweep.axes[plot.x] if any(row[plot.x] == value for row in usable)]
    groups = sweep.axes[plot.by] if plot.by else [None]
    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    numeric = _numeric(values) and len(values) > 2
    for number, group in enumerate(groups):
        members = [row for row in usable if plot.by is None or row.get(plot.by) == group]
        spots = [value for value in values if any(row[plot.x] == value for row in members)]
        if not spots:
            continue
        samples = [[float(row[plot.y]) for row in members if row[plot.x] == value] for value in spots]
        middle = [mean(s) for s in samples]
        spread = [
            [m - min(s) for m, s in zip(middle, samples, strict=True)],
            [max(s) - m for m, s in zip(middle, samples, strict=True)],
        ]
        label = None if group is None else str(group)
        if numeric:
            axes.errorbar(spots, middle, yerr=spread, marker="o", capsize=3, label=label)
        else:
            width = 0.8 / len(groups)
            places = [values.index(v) + (number - (len(groups) - 1) / 2) * width for v in spots]
            axes.bar(places, middle, width, yerr=spread, capsize=3, label=label)
    if not numeric:
        axes.set_xticks(range(len(values)), [str(value) for value in values])
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if plot.by:
        axes.legend(title=plot.by)
    axes.set_title(sweep.name)
    folder.mkdir(parents=True, exist_ok=True)
    name = "-".join(filter(None, (plot.y, "over", plot.x, plot.by and f"by-{plot.by}")))
    path = folder / f"{name.replace('/', '_')}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
