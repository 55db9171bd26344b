"""Checks the statements of this lab's page, one by one, on this machine."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from topologies.cycles import check_deadlock
from xoff.errors import XoffError
from xoff.experiment import Experiment, load
from xoff.metrics import Summary
from xoff.prepare import build_plan
from xoff.progress import Display
from xoff.run import execute
from xoff.rundata import RunData, read_run
from xoff.waitfor import cycle_at

LAB = Path(__file__).resolve().parent
RING = {"s1", "s2", "s3"}


def received_bytes(data: RunData) -> list[tuple[int, int]]:
    """(t, bytes that all senders had acknowledged by then), cumulative."""
    latest: dict[tuple[str, str, int], int] = {}
    series = []
    samples = sorted((s["t"], key, s["acked"]) for key, flow in data.flows.items() for s in flow)
    for t, key, acked in samples:
        latest[key] = acked
        series.append((t, sum(latest.values())))
    return series


def frozen_from(data: RunData) -> int | None:
    """When the last of the three ring queues was paused for good; None when one was not."""
    starts = [p.start for p in data.pauses if p.node in RING and p.port == 2 and p.end >= data.end]
    return max(starts) if len(starts) == len(RING) else None


def moves_after(data: RunData, t: int) -> int:
    """Bytes acknowledged after `t`."""
    series = received_bytes(data)
    before = [total for at, total in series if at <= t]
    return (series[-1][1] if series else 0) - (before[-1] if before else 0)


def main(
    clock: Annotated[str, typer.Option(help="mininet (root) or virtual")] = "mininet",
    time_scale: Annotated[float, typer.Option(help="wall seconds per fabric second in Mininet")] = 10_000.0,
    out: Annotated[Path | None, typer.Option(help="Keep the runs here.")] = None,
) -> None:
    """Run the lab's experiments and check what the page says of them."""
    folder = out or Path(tempfile.mkdtemp(prefix="xoff-lab-"))
    failures = 0

    def check(statement: str, holds: Callable[[], bool]) -> None:
        nonlocal failures
        good = holds()
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'}  {statement}", flush=True)

    def run(experiment: Experiment) -> tuple[Summary, RunData]:
        summary = execute(experiment, folder, Display(quiet=True))
        return summary, read_run(Path(summary["run"]))

    def experiment(name: str) -> Experiment:
        return load(LAB / f"{name}.yaml").with_options(clock=clock, time_scale=time_scale)

    clockwise = experiment("freeze")
    check("clockwise routes can deadlock", lambda: not check_deadlock(build_plan(clockwise)).safe)
    check(
        "shortest routes cannot",
        lambda: check_deadlock(build_plan(replace(clockwise, topology="ring:n=3,routes=shortest"))).safe,
    )

    summary, data = run(clockwise)
    since = frozen_from(data)
    check("the ring freezes", lambda: since is not None)
    check("nothing moves from then on, also after the senders have stopped",
          lambda: since is not None and moves_after(data, since + round(20e3 * data.plan.time_scale)) == 0)  # fmt: skip
    check("nothing is lost", lambda: summary["drops_total"] == 0)
    check("the paused queues wait in a circle", lambda: {q[0] for q in cycle_at(data, data.end)} == RING)

    for name in ("cure-route", "cure-class"):
        cured, cured_data = run(experiment(name))
        check(f"{name}: every message arrives", lambda cured=cured: cured["finished"])
        check(f"{name}: nothing is lost", lambda cured=cured: cured["drops_lossless"] == 0)
        check(f"{name}: no circle is left", lambda d=cured_data: cycle_at(d, d.end) == [])
        uncured = experiment(name)
        summary, data = run(
            replace(
                uncured,
                actions=uncured.actions[:1],
                time_limit="2ms",
                workload="permutation:shift=2,bytes=20MB",
            )
        )
        check(f"{name}, without room for what waits: it stays frozen",
              lambda s=summary, d=data: not s["finished"] and {q[0] for q in cycle_at(d, d.end)} == RING)  # fmt: skip
    print(f"runs: {folder}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    try:
        typer.run(main)
    except XoffError as error:
        print(f"check: {error}", file=sys.stderr)
        sys.exit(1)
