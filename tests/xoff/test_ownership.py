"""A run under sudo leaves files that belong to the person who typed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.xoff.test_bad_input import SMALL
from xoff.experiment import Experiment
from xoff.ownership import hand_over, sudo_user
from xoff.run import execute

USER, GROUP = 4242, 4343
pytestmark = pytest.mark.root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of user 4242, who typed sudo."""
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(GROUP))
    os.chown(tmp_path, USER, GROUP)
    return tmp_path


def test_all_of_a_run_belongs_to_the_person_behind_sudo(home: Path) -> None:
    execute(Experiment(clock="virtual", topology=SMALL[-1], workload="allreduce:bytes=8KB"), home / "runs")
    made = [home / "runs", *(home / "runs").rglob("*")]
    assert len(made) > 10
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(USER, GROUP)}


def test_links_are_not_followed_and_what_is_another_users_stays(home: Path) -> None:
    outside = home / "outside"
    outside.write_text("root's")
    run = home / "runs" / "run"
    run.mkdir(parents=True)
    (run / "link").symlink_to(outside)
    (run / "theirs").write_text("")
    os.chown(run / "theirs", 1717, 1717)
    hand_over(run)
    assert outside.stat().st_uid == 0 and (run / "theirs").stat().st_uid == 1717
    assert (run / "link").lstat().st_uid == USER


def test_a_folder_of_the_machine_stays_roots(home: Path) -> None:
    shared = home / "srv" / "runs"
    (shared / "run").mkdir(parents=True)
    hand_over(shared / "run")
    assert (shared / "run").stat().st_uid == USER
    assert shared.stat().st_uid == 0


@pytest.mark.parametrize("said", ["", "0", "-1", "me"])
def test_without_a_person_behind_sudo_nothing_changes_hands(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("SUDO_UID", said)
    monkeypatch.setenv("SUDO_GID", said)
    assert sudo_user() is None
