"""The state file of a run: claimed once, readable, and never a reason to touch what is not the run's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from topologies.runstate import (
    RunState,
    clean,
    delete_interface_group,
    end_processes,
    marked_processes,
    read_states,
)


def test_what_is_recorded_is_on_disk_at_once(tmp_path: Path) -> None:
    state = RunState.create("first", tmp_path)
    state.record(interfaces=["xab-s1-eth1"], processes=[os.getpid()], namespaces=["h1=net:[1]"])
    read = RunState.read(tmp_path / "first.json")
    assert read == state
    assert read.owner_is_alive()
    assert read.processes[0][0] == os.getpid()


def test_two_runs_cannot_claim_one_name(tmp_path: Path) -> None:
    RunState.create("same", tmp_path)
    with pytest.raises(FileExistsError):
        RunState.create("same", tmp_path)


@pytest.mark.parametrize("name", ["../escape", ".hidden", "a b", "a/b", "x;y"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not accepted"):
        RunState.create(name, tmp_path)


def test_runs_differ_in_tag_and_group(tmp_path: Path) -> None:
    states = [RunState.create(folder=tmp_path) for _ in range(20)]
    assert len({state.tag for state in states}) == len({state.group for state in states}) == 20
    assert len(read_states(tmp_path)[0]) == 20


def test_processes_of_a_dead_run_are_ended_by_their_marker(tmp_path: Path) -> None:
    state = RunState.create("gone", tmp_path)
    with (
        subprocess.Popen(["sleep", "1000"], env=state.environment()) as mine,
        subprocess.Popen(["sleep", "1000"]) as other,
    ):
        state.owner = (state.owner[0], state.owner[1] - 1)
        state.record()
        assert marked_processes("gone") == {mine.pid}
        assert clean(tmp_path) == ["gone: ended 1 processes"]
        assert mine.wait(5) < 0
        assert other.poll() is None
        other.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_still_lives_is_left_alone(tmp_path: Path) -> None:
    state = RunState.create("alive", tmp_path)
    assert clean(tmp_path) == [f"alive: still running (process {os.getpid()}), left alone"]
    assert state.path.exists()


def test_after_a_reboot_only_the_file_goes(tmp_path: Path) -> None:
    state = RunState.create("old", tmp_path)
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        state.boot = "another boot"
        state.record(processes=[bystander.pid])
        assert clean(tmp_path) == ["old: nothing was left"]
        assert bystander.poll() is None
        bystander.kill()
    assert not state.path.exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"run": 1}', json.dumps({"run": "x", "owner": 5})])
def test_a_file_that_is_no_state_is_reported_and_kept(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    (sentence,) = clean(tmp_path)
    assert "odd.json is no state file of a run" in sentence
    assert path.exists()


def test_a_process_that_ignores_the_request_is_killed() -> None:
    with subprocess.Popen(
        ["sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 1000; done"], stdout=-1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert end_processes([process.pid], grace_s=0.1) == {process.pid}
        assert process.wait(5) == -9


def test_the_group_of_all_other_interfaces_is_never_deleted() -> None:
    with pytest.raises(ValueError, match="group 0"):
        delete_interface_group(0)
