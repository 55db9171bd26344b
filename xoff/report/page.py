"""The HTML report: one self-contained page from a run folder."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from xoff.metrics import Summary, summarise
from xoff.report import plots
from xoff.report.table import headline, remarks, rows
from xoff.rundata import RunData
from xoff.waitfor import cycle_at, describe

_FIGURES = (
    (
        "The fabric",
        plots.fabric_picture,
        "Mean load of the busier direction of every link while the workload ran.",
    ),
    ("Queue depth", plots.queue_depths, "The fullest switch queues, sampled."),
    ("Throughput", plots.flow_throughput, "Acknowledged payload per flow (per sender when there are many)."),
    ("Pauses", plots.pauses_per_link, "Each bar is a stretch in which PFC kept the queue from sending."),
    ("Message completion", plots.completion_times, "From post to the last acknowledgement."),
)


def render(data: RunData, summary: Summary | None = None) -> str:
    """The page as text."""
    summary = summary if summary is not None else summarise(data)
    figures = [(title, svg, caption) for title, draw, caption in _FIGURES if (svg := draw(data))]
    cycle = cycle_at(data, data.end)
    template = Environment(
        loader=PackageLoader("xoff.report", "."), autoescape=select_autoescape(), trim_blocks=True
    ).get_template("page.html")
    return template.render(
        summary=summary,
        tiles=headline(summary),
        figures=figures,
        rows=rows(summary),
        cycle=describe(data, cycle) if cycle else "",
        notes=[*remarks(summary), *(note["text"] for note in data.notes)],
        experiment=data.experiment.to_yaml(),
    )


def write_page(data: RunData, summary: Summary) -> Path:
    """Write `report.html` into the run folder; returns its path."""
    path = data.folder / "report.html"
    path.write_text(render(data, summary))
    return path
