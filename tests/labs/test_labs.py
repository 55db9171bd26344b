"""Every lab's check passes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

LABS = Path(__file__).resolve().parents[2] / "labs"
CHECKS = sorted(LABS.glob("*/check.py"))


def run_check(check: Path, out: Path, *options: str) -> None:
    command = [sys.executable, str(check), "--out", str(out), *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "FAIL" not in result.stdout and "ok" in result.stdout


@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.parent.name)
def test_a_labs_check_passes_in_virtual_time(check, tmp_path):
    run_check(check, tmp_path, "--clock", "virtual")


@pytest.mark.root
def test_the_pfc_deadlock_forms_and_is_cured_in_mininet(tmp_path):
    run_check(LABS / "pfc-deadlock" / "check.py", tmp_path, "--time-scale", "2500")


@pytest.mark.parametrize("page", sorted(LABS.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_a_labs_page_names_only_files_that_exist(page):
    for name in re.findall(r"labs/[\w./-]+\.(?:yaml|py)", page.read_text()):
        assert (LABS.parent / name).is_file(), name
