"""Running a sweep: on processes and on a Dask cluster, interrupted and resumed, and what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from xoff.sweep.command import FILE, ROWS, run_sweep
from xoff.sweep.grid import Sweep, parse_sweep
from xoff.sweep.point import METRICS
from xoff.sweep.pool import LOCAL
from xoff.sweep.table import read_table

SMALL = {
    "name": "small",
    "base": {
        "topology": "leafspine:leaves=1,spines=0,hosts_per_leaf=4",
        "workload": {"kind": "incast", "bytes": "50KB"},
        "congestion_control": "none",
        "sample": "20us",
    },
    "grid": {"workload.senders": [1, 2, 3], "ecn": [True, False]},
}


def small(**changes: object) -> Sweep:
    return parse_sweep({**SMALL, **changes}, "small.yaml", Path())


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / ROWS).glob("*.json")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    run_sweep(small(), folder, workers=2)
    return folder


def test_the_table_has_a_row_a_point_with_its_settings_and_figures(finished: Path) -> None:
    rows = read_table(finished / FILE)
    assert [(row["workload.senders"], row["ecn"]) for row in rows] == [
        (n, ecn) for n in (1, 2, 3) for ecn in (True, False)
    ]
    assert all(set(METRICS) <= row.keys() and row["finished"] and row["error"] is None for row in rows)
    times = {row["workload.senders"]: row["completion_us"] for row in rows if row["ecn"]}
    # 50 kB at 100 Gb/s are 4 us; N senders share the receiver's link.
    assert times[3] - times[2] == pytest.approx(times[2] - times[1], rel=0.05)
    by_settings = {(row["workload.senders"], row["ecn"]): row["records_sha256"] for row in rows}
    assert by_settings[1, True] == by_settings[1, False]  # nobody to share with: nothing to mark
    assert by_settings[3, True] != by_settings[3, False]


def test_comparison_plots_are_drawn(finished: Path) -> None:
    plots = {path.name for path in (finished / "plots").glob("*.png")}
    assert "completion_us-over-workload.senders-by-ecn.png" in plots


def test_off_a_terminal_a_finished_point_is_one_line_however_much_is_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = {"workload.senders": [1], "classes.3.ecn_kmin_bytes": [40000], "load_balancing": ["spray"],
            "congestion_control": ["none"]}  # fmt: skip
    run_sweep(small(grid=grid), tmp_path, workers=1)
    (line,) = capsys.readouterr().err.splitlines()
    settings, took = line.rsplit(": ", 1)
    assert settings.split() == [
        "1/1", "workload.senders=1", "classes.3.ecn_kmin_bytes=40000", "load_balancing=spray",
        "congestion_control=none",
    ]  # fmt: skip
    assert len(settings) > 80 and took.endswith(" s")


def test_finished_points_are_not_run_again_and_new_ones_are(finished: Path, tmp_path: Path) -> None:
    before = stamps(finished)
    rows = run_sweep(
        small(grid={"workload.senders": [1, 2, 3], "ecn": [True, False], "mtu": [1024]}), finished, workers=2
    )
    assert stamps(finished) == before and len(rows) == 6
    rows = run_sweep(
        small(grid={"workload.senders": [3, 2], "ecn": [True], "seed": [1, 2]}), finished, workers=2
    )
    after = stamps(finished)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2 and len(rows) == 4
    assert len(read_table(finished / FILE)) == 4


def test_a_dask_cluster_given_by_its_address_runs_the_points_in_its_own_processes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        with distributed.Client(cluster) as client:
            workers = client.run(os.getpid)
            assert len(set(workers.values())) == 2 and os.getpid() not in workers.values()
        rows = run_sweep(
            small(grid={"workload.senders": [2, 3]}), tmp_path, 2, dask=cluster.scheduler_address
        )
    alone = run_sweep(small(grid={"workload.senders": [2, 3]}), tmp_path / "alone", 1)
    assert [row["records_sha256"] for row in rows] == [row["records_sha256"] for row in alone]


def test_an_embedded_dask_cluster_serves_when_no_address_is_given(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    rows = run_sweep(small(grid={"workload.senders": [2]}), tmp_path, 1, dask=LOCAL)
    assert [row["finished"] for row in rows] == [True]


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    file, folder = tmp_path / "sweep.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump({**SMALL, "grid": {"seed": list(range(40))}}))
    command = [sys.executable, "-m", "xoff.cli", "sweep", str(file), "--out", str(folder), "--workers", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    lines = 0
    for line in process.stderr:  # a line for each finished point
        lines += "seed" in line
        if lines == 2:
            break
    os.killpg(process.pid, signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(timeout=30) != 0
    assert "Traceback" not in rest
    done = stamps(folder)
    assert 2 <= len(done) < 40
    assert len(read_table(folder / FILE)) == len(done)
    rows = run_sweep(
        parse_sweep({**SMALL, "grid": {"seed": list(range(len(done) + 1))}}, "s", Path()), folder, 1
    )
    assert len(rows) == len(done) + 1 and all(row["finished"] for row in rows)
    assert {name: stamp for name, stamp in stamps(folder).items() if name in done} == done


def test_a_point_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    broken = small(grid={"workload.senders": [2, 9]})
    rows = run_sweep(broken, tmp_path, 2)
    assert [bool(row["error"]) for row in rows] == [False, True]
    assert "9 senders" in rows[1]["error"]
    first = stamps(tmp_path)
    time.sleep(0.01)
    run_sweep(broken, tmp_path, 2)
    assert sum(first[name] != stamp for name, stamp in stamps(tmp_path).items()) == 1


def test_a_scheduler_that_does_not_answer_is_told(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    from xoff.errors import XoffError

    with pytest.raises(XoffError, match="no Dask scheduler answers at"):
        run_sweep(small(), tmp_path, 1, dask="not an address")
