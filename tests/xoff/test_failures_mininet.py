"""The actions of the virtual clock's tests, on real interfaces: each leaves the traces that it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xoff.experiment import Experiment
from xoff.progress import Display
from xoff.records import read_records
from xoff.run import execute

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


def run(tmp_path: Path, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(summary, records) of a small run between two or three hosts of one switch."""
    settings = {
        "topology": "leafspine:leaves=1,spines=0,hosts_per_leaf=3",
        "workload": {"kind": "incast", "senders": 1, "bytes": 1_000_000},
        "congestion_control": "none",
        "time_scale": 5000.0,
        **options,
    }
    summary = execute(Experiment(clock="mininet", switch="native", **settings), tmp_path, Display(quiet=True))
    return summary, list(read_records(Path(summary["run"])))


def test_a_lossy_link_loses_every_nth_frame_and_the_transfer_recovers(tmp_path: Path) -> None:
    summary, _ = run(
        tmp_path, actions=[{"at": "10us", "lossy_link": {"switch": "l1", "towards": "h3", "every": 100}}]
    )
    assert summary["finished"]
    assert summary["drops"]["link_loss"] >= 5 and summary["retransmissions"] >= 5


def test_a_degraded_link_and_a_paused_host_delay_the_workload(tmp_path: Path) -> None:
    free, _ = run(tmp_path)
    slow, _ = run(
        tmp_path, actions=[{"at": "0ns", "set_rate": {"switch": "l1", "towards": "h1", "rate": "20Gbps"}}]
    )
    assert slow["finished"]
    # 1 MB at 20 Gb/s are 400 us, at 100 Gb/s 80 us: h1's own end of the link was slowed. A microsecond (5 ms of wall
    # time) that the order comes late takes four off.
    assert slow["collective"]["completion_seconds"] > 300e-6
    assert free["collective"]["completion_seconds"] < 300e-6
    held, records = run(
        tmp_path, workload={"kind": "allreduce", "bytes": 300_000},
        actions=[{"at": "1us", "pause_host": {"host": "h2"}}, {"at": "300us", "resume_host": {"host": "h2"}}],
    )  # fmt: skip
    assert held["finished"] and held["collective"]["completion_seconds"] > 300e-6
    assert any("pause_host" in r.get("text", "") for r in records)


def test_a_pfc_storm_of_a_host_pauses_the_switch_towards_it(tmp_path: Path) -> None:
    storm = {"host": "h3", "duration": "400us", "quanta": 20000}
    summary, records = run(tmp_path, actions=[{"at": "5us", "pfc_storm": storm}])
    assert summary["finished"] and summary["drops_lossless"] == 0
    sent = [r for r in records if r["kind"] == "pause_sent" and r["node"] == "h3"]
    assert 7 <= len(sent) <= 9  # every half of 20,000 quanta of 5.12 ns
    assert any(r["kind"] == "pause" and r["node"] == "l1" for r in records)
    assert summary["collective"]["completion_seconds"] > 400e-6
