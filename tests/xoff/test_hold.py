"""A fabric that is held is there for p4runtime-shell, and ends with its report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xoff.errors import XoffError
from xoff.shell import SHELL, forget_dead, running_switches, shell_command

SMALL = ("--topology", "fattree:k=2", "--workload", "allreduce:bytes=100kB", "--json")
ROUTES = 'for entry in table_entry["FabricIngress.routing.ipv4_lpm"].read(): print(entry)\nexit\n'


@pytest.fixture(params=["virtual", pytest.param("mininet", marks=pytest.mark.root)])
def held(request: pytest.FixtureRequest, tmp_path: Path):
    """A run whose workload is over and whose fabric stays."""
    process = subprocess.Popen(
        [sys.executable, "-m", "xoff.cli", "run", "--clock", request.param, "--hold", "--out", str(tmp_path), *SMALL],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "the fabric stays" in line:
            break
    yield process
    if process.poll() is None:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not SHELL.exists(), reason="p4runtime-shell is not installed (make setup)")
def test_the_shell_reads_a_fabric_that_is_held_and_ctrl_c_ends_it_with_its_summary(
    held, tmp_path: Path
) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "xoff.cli", "shell", "e1"],
        input=ROUTES, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    (folder,) = tmp_path.glob("*-run")
    told_so_far = subprocess.run(
        [sys.executable, "-m", "xoff.cli", "report", "--json", str(folder)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert json.loads(told_so_far.stdout)["finished"], told_so_far.stderr
    # One route for each of the two hosts.
    assert told.stdout.count("table_id") == 2, told.stdout + told.stderr
    held.send_signal(signal.SIGINT)
    out, errors = held.communicate(timeout=120)
    assert held.returncode == 0, errors
    summary = json.loads(out)
    assert summary["finished"] and Path(summary["run"], "report.html").exists()
    with pytest.raises(XoffError, match="no fabric is running"):
        running_switches()


def test_what_a_killed_run_told_is_not_believed_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    monkeypatch.setattr("xoff.shell._folders", lambda: [tmp_path])
    path = tmp_path / f"{dead.pid}.switches"
    path.write_text(json.dumps({"owner": [dead.pid, 1], "addresses": {}, "device_ids": {}}))
    with pytest.raises(XoffError, match="no fabric is running"):
        running_switches()
    forget_dead()
    assert not path.exists()


def test_a_switch_that_does_not_exist_is_told_with_those_that_do() -> None:
    facts = {"owner": [os.getpid(), 0], "addresses": {"e1": "127.0.0.1:1"}, "device_ids": {"e1": 1}}
    with pytest.raises(XoffError, match="there is no switch 'e9'; switches: e1"):
        shell_command(facts, "e9")
