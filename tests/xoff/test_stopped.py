"""Ctrl-C during a virtual run leaves a report of what had happened by then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from controller.reactions import Reaction
from xoff.clocks.control import FabricControl
from xoff.clocks.simulation import SETTLE_NS, STEP_NS, VirtualRun
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


@pytest.mark.parametrize("controller", ["builtin", "own"])
def test_a_virtual_run_that_is_stopped_while_its_controller_is_busy_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controller: str
) -> None:
    async def look(self: FabricControl, now: int) -> list[Reaction]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(FabricControl, "look", look)
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import asyncio, os, signal, time\n"
        "async def main(plan, devices, emit):\n"
        "    emit({'kind': 'ready'})\n"
        f"    await asyncio.sleep({(STEP_NS + SETTLE_NS + 150_000) / 1e9})\n"
        f"    os.kill({os.getpid()}, signal.SIGINT)\n"
        "    time.sleep(1e9)\n"
    )
    builtin = controller == "builtin"
    experiment = Experiment(
        topology="leafspine:leaves=2,spines=1,hosts_per_leaf=2", clock="virtual", workload="alltoall:bytes=4MiB",
        sample="20us", controller="builtin" if builtin else str(mine),
        watchdog={"detection_time": "80us"} if builtin else {},
    )  # fmt: skip
    with pytest.raises(Interrupted, match=r"stopped by SIGINT.*A report"):
        execute(experiment, tmp_path / "runs", Display(quiet=True))
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "summary.json").read_text())["finished"] is False
    notes = [r["text"] for r in read_records(folder) if r["kind"] == "note"]
    assert "stopped before its end" in notes
