"""What forwarding.py measured, as tables: every forwarder beside the others of its round, and the aims."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PLAIN, NATIVE = "plain C", "native"
ORDINARY, OPTIMISED = "ordinary", "optimised"
"""Builds of BMv2: its default flags; -O3, without logging macros and event logger (its docs/performance.md)."""
AIMS = {PLAIN: (0.7, None), ORDINARY: (20.0, "fabric"), OPTIMISED: (10.0, "fabric")}
"""Beside whom -> (packets per CPU-second over theirs that the native switch is to reach, program it is said of)."""


@dataclass(frozen=True)
class Run:
    """Who was measured, with what, when."""

    forwarder: str
    program: str
    """Empty: the plain forwarder runs none."""
    frame_bytes: int
    round: int


@dataclass(frozen=True)
class Figure:
    """One measurement."""

    run: Run
    offered: int
    """Packets, as `delivered`."""
    delivered: int
    seconds: float
    cpu_s: float
    p50_us: float
    p99_us: float

    @property
    def per_cpu_second(self) -> float:
        """Delivered packets per CPU-second of the forwarding process."""
        return self.delivered / self.cpu_s if self.cpu_s else 0.0


def efficiency(figure: Figure) -> float:
    """Packets per CPU-second."""
    return figure.per_cpu_second


def ratio(mine: list[Figure], other: list[Figure], value: Callable[[Figure], float]) -> float:
    """Median over the rounds of one value over the other's of the same round."""
    theirs = {figure.run.round: value(figure) for figure in other}
    return statistics.median(value(f) / theirs[f.run.round] for f in mine if f.run.round in theirs)


class Table:
    """Figures by who, what and size."""

    def __init__(self, figures: list[Figure]) -> None:
        self.figures = figures
        self.sizes = list(dict.fromkeys(f.run.frame_bytes for f in figures))
        self.rows = list(dict.fromkeys((f.run.forwarder, f.run.program) for f in figures))
        self.programs = [program for who, program in self.rows if who == NATIVE]

    def of(self, forwarder: str, program: str, size: int) -> list[Figure]:
        """One row's figures, one a round; the plain forwarder runs any program."""
        wanted = (forwarder, "" if forwarder == PLAIN else program, size)
        return [f for f in self.figures if (f.run.forwarder, f.run.program, f.run.frame_bytes) == wanted]

    def measured(self) -> Iterator[str]:
        """Medians of each forwarder."""
        head = f"{'bytes':>5} {'program':<8}{'forwarder':<11}{'delivered/s':>12}{'per CPU-s':>12}"
        yield f"{head}{'p50 us':>9}{'p99 us':>9}"
        for size in self.sizes:
            for forwarder, program in self.rows:
                mine = self.of(forwarder, program, size)
                rate, cpu, p50, p99 = (
                    statistics.median(values)
                    for values in zip(
                        *((f.delivered / f.seconds, f.per_cpu_second, f.p50_us, f.p99_us) for f in mine),
                        strict=True,
                    )
                )
                line = f"{size:>5} {program:<8}{forwarder:<11}{rate:>12,.0f}{cpu:>12,.0f}"
                yield f"{line}{p50:>9.1f}{p99:>9.1f}"

    def compared(self) -> Iterator[str]:
        """The native switch over each other forwarder, and whether an aim is reached."""
        head = f"{'bytes':>5} {'program':<8}{'native over':<12}{'per CPU-s':>10}{'p50':>7}{'p99':>7}"
        yield f"{head}  aim"
        for size in self.sizes:
            for program in self.programs:
                for other in dict.fromkeys(who for who, _ in self.rows if who != NATIVE):
                    pair = self.of(NATIVE, program, size), self.of(other, program, size)
                    times = ratio(*pair, efficiency)
                    latency = [ratio(*pair, lambda f: f.p50_us), ratio(*pair, lambda f: f.p99_us)]
                    line = (
                        f"{size:>5} {program:<8}{other:<12}{times:>10.2f}{latency[0]:>7.2f}{latency[1]:>7.2f}"
                    )
                    yield line + verdict(other, program, times)


def verdict(other: str, program: str, times: float) -> str:
    """What is aimed at and whether it is reached; empty where nothing is."""
    aim, only = AIMS.get(other, (None, None))
    if aim is None or only not in (None, program):
        return ""
    return f"  {aim:g}: {'reached' if times >= aim else 'missed'}"


def report(figures: list[Figure], out: Path) -> None:
    """Print the tables and keep everything in `out`."""
    table = Table(figures)
    for line in (*table.measured(), "", *table.compared()):
        print(line)
    out.parent.mkdir(exist_ok=True)
    rows = [
        {
            **asdict(f.run),
            **{k: v for k, v in asdict(f).items() if k != "run"},
            "per_cpu_second": f.per_cpu_second,
        }
        for f in figures
    ]
    out.write_text(json.dumps(rows, indent=1) + "\n")
