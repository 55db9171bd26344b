"""Nodes that run ahead of one another leave what they leave when every instant is run in all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switch.native.fabric import Fabric, Result
from tests.dynamics import lab
from xoff.clocks.outlook import Outlook

RUNS: dict[str, dict[str, Any]] = {
    "pauses": {
        "topology": "fattree:k=4", "workload": "permutation:bytes=256KiB", "congestion_control": "none", "mtu": 4096,
        "sample": "7us",
    },
    "sprayed, with telemetry": {
        "topology": "leafspine:leaves=3,spines=2,hosts_per_leaf=3", "workload": "alltoall:bytes=90KB",
        "congestion_control": "hpcc", "telemetry": "host", "load_balancing": "spray", "delay": "300ns", "sample": "1us",
    },
    "adaptive, with marks": {
        "topology": "dragonflyplus:groups=3", "workload": "incast:bytes=60KB,senders=11", "load_balancing": "adaptive",
        "telemetry": "edge", "sample": "10us",
    },
    "losses, changed links and a storm": {
        "topology": "fattree:k=4", "workload": "allreduce:bytes=256KiB", "delay": "2us", "sample": "5us",
        "actions": [
            {"at": "11us", "set_rate": {"switch": "e1", "towards": "a1", "rate": "400Gbps"}},
            {"at": "15us", "pfc_storm": {"host": "h6", "duration": "20us", "quanta": 2000}},
            {"at": "30us", "lossy_link": {"switch": "e2", "towards": "a2", "p": 0.002, "seed": 3}},
        ],
    },
}  # fmt: skip


def carried(outcome: lab.Outcome) -> int:
    """Frames carried over links."""
    return int(json.loads((outcome.folder / "run.json").read_text())["link_traversals"])


@pytest.mark.parametrize("name", RUNS)
def test_windows_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ahead = 0
    run_ahead = Fabric.run_ahead

    def counted(self: Fabric, until: int) -> Result:
        nonlocal ahead
        before = self.stats().traversals
        result = run_ahead(self, until)
        ahead += self.stats().traversals - before
        return result

    monkeypatch.setattr(Fabric, "run_ahead", counted)
    windows = lab.run(tmp_path / "windows", **RUNS[name])
    assert ahead > carried(windows) / 2
    monkeypatch.setattr(Outlook, "not_before", lambda self, now: now)
    instants = lab.run(tmp_path / "instants", **RUNS[name])
    assert windows.summary["records_sha256"] == instants.summary["records_sha256"]
    for file in (instants.folder / "records").iterdir():
        assert (windows.folder / "records" / file.name).read_bytes() == file.read_bytes(), file.name
    assert carried(windows) == carried(instants)
