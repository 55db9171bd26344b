"""Ctrl-C during a virtual run leaves a report of what had happened by then."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from xoff.clocks.simulation import VirtualRun
from xoff.experiment import Experiment
from xoff.progress import Display
from xoff.records import read_records
from xoff.run import Interrupted, execute

MIB = 1 << 20


def test_a_virtual_run_that_is_stopped_leaves_records_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stride = VirtualRun._stride

    def interrupted(self: VirtualRun, until: int, stops: bool) -> None:
        stride(self, until, stops)
        if stops and sum(e.nic.bytes_received for e in self.endpoints) > 2 * MIB:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(VirtualRun, "_stride", interrupted)
    experiment = Experiment(
        topology="leafspine:leaves=2,spines=1,hosts_per_leaf=2", clock="virtual", workload="alltoall:bytes=4MiB",
        sample="20us", name="stopped",
    )  # fmt: skip
    with pytest.raises(Interrupted, match=r"stopped by SIGINT.*A report"):
        execute(experiment, tmp_path, Display(quiet=True))
    (folder,) = tmp_path.iterdir()
    assert (folder / "report.html").is_file()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["finished"] is False and summary["collective"]["completion_seconds"] is None
    records = list(read_records(folder))
    assert any(r["kind"] == "note" and r["text"] == "stopped before its end" for r in records)
    received = {
        r["node"]: r["rx_bytes"] for r in records if r["kind"] == "port" and r["node"].startswith("h")
    }
    assert 2 * MIB < sum(received.values()) < 12 * MIB
