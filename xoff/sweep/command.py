"""`xoff sweep`: runs what is left of a sweep, and writes its table and plots."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from xoff.errors import XoffError
from xoff.sweep.grid import Point, Sweep, read_sweep
from xoff.sweep.point import Row
from xoff.sweep.pool import Job, make_pool

FILE = "results.parquet"
ROWS = "points"
err = Console(stderr=True)


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep (YAML; docs/sweeps.md).")],
    out: Annotated[Path | None, typer.Option(help="Its folder. Default: runs/sweep-NAME")] = None,
    workers: Annotated[int, typer.Option(help="Points at a time. Default: as many as there are cores")] = 0,
    dask: Annotated[
        str | None,
        typer.Option(help="Run on a Dask cluster: the scheduler's address, or `local` for one of its own"),
    ] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep every run's folder, in runs/ of the sweep's")
    ] = False,
) -> None:
    """Run an experiment over a grid of settings in virtual time; run it again to go on after an interruption.

    Leaves results.parquet and plots/ in its folder. Points that have finished are not run again.

    `xoff sweep incast.yaml --workers 2`
    """
    plan = read_sweep(file)
    folder = out or Path("runs") / f"sweep-{plan.name}"
    rows = run_sweep(plan, folder, workers or os.cpu_count() or 1, dask, keep_runs)
    failed = [row for row in rows if row["error"]]
    err.print(
        f"table: [bold]{escape(str(folder / FILE))}[/bold] ({len(rows)} rows), plots: {escape(str(folder / 'plots'))}",
        highlight=False,
        soft_wrap=True,
    )
    if failed:
        raise XoffError(f"{len(failed)} of {len(rows)} points failed; the first says: {failed[0]['error']}")


def run_sweep(
    plan: Sweep, folder: Path, workers: int, dask: str | None = None, keep_runs: bool = False
) -> list[Row]:
    """Run the points that have no row in `folder` yet; the rows of all, in the sweep's order, are then in the table."""
    # Loaded here, so that the rest of the command does not wait for them.
    from xoff.sweep.plots import default_plots, draw
    from xoff.sweep.table import write_table

    store = folder / ROWS
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise XoffError(f"{store}: cannot make the sweep's folder ({error.strerror}).") from None
    done = {point.id: row for point in plan.points if (row := _read_row(store, point)) is not None}
    left = [point for point in plan.points if point.id not in done]
    if done:
        err.print(f"{len(done)} of {len(plan.points)} points are done already", highlight=False)
    try:
        with closing(_run(left, store, folder, workers, dask, keep_runs)) as finished:
            for point, row in finished:
                done[point.id] = row
    finally:
        # What was written last may not have come this far when an interrupt did.
        done |= {p.id: row for p in left if p.id not in done and (row := _read_row(store, p)) is not None}
        rows = [_labelled(point, done[point.id]) for point in plan.points if point.id in done]
        if rows:
            write_table(folder / FILE, list(plan.axes), rows)
    for plot in plan.plots or default_plots(plan, rows):
        draw(plot, plan, rows, folder / "plots")
    return rows


def _run(
    left: list[Point], store: Path, folder: Path, workers: int, dask: str | None, keep_runs: bool
) -> Generator[tuple[Point, Row], None, None]:
    if not left:
        return
    by_id = {point.id: point for point in left}
    keep = str((folder / "runs").resolve()) if keep_runs else None
    jobs: list[Job] = [(id, asdict(point.experiment), keep) for id, point in by_id.items()]
    pool = make_pool(min(workers, len(left)), dask)
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TimeRemainingColumn(), console=err, disable=not err.is_terminal)  # fmt: skip
    try:
        with bar:
            task = bar.add_task(f"on {pool.where}", total=len(left))
            for number, (id, row) in enumerate(pool.run(jobs), 1):
                point = by_id[id]
                _write_row(store, point, row)
                bar.advance(task)
                if not err.is_terminal:
                    took = "failed" if row["error"] else f"{row['wall_seconds']:.1f} s"
                    settings = " ".join(f"{key}={value}" for key, value in point.settings.items())
                    line = f"{number}/{len(left)} {settings}: {took}"
                    err.print(line, highlight=False, markup=False, soft_wrap=True)
                yield point, row
    finally:
        pool.close()


def _labelled(point: Point, row: Row) -> Row:
    return {**point.settings, "id": point.id, **row}


def _read_row(store: Path, point: Point) -> Row | None:
    """The row of a point that has finished; one that failed or was cut short by a crash is run again."""
    try:
        row = json.loads((store / f"{point.id}.json").read_text())
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) and not row.get("error", "cut short") else None


def _write_row(store: Path, point: Point, row: Row) -> None:
    path = store / f"{point.id}.json"
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(row))
    temporary.replace(path)
