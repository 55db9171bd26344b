"""Set-up: pins that fit every Python, and sentences for whatever is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
NOBODY = 65534


def pins(name: str) -> list[Requirement]:
    lines = (REPOSITORY / "requirements" / name).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def run(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60, **options
    )  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("name", ["lab.txt", "dev.txt", "shell.txt"])
@pytest.mark.parametrize("python", PYTHONS)
def test_every_package_has_one_exact_pin_for_every_python(name: str, python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    chosen = [pin for pin in pins(name) if pin.marker is None or pin.marker.evaluate(environment)]
    names = [canonicalize_name(pin.name) for pin in chosen]
    assert len(names) == len(set(names)) > 10
    for pin in chosen:
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin


def test_every_dependency_of_the_project_is_pinned() -> None:
    listed = re.search(
        r"^dependencies = \[(.*?)^\]", (REPOSITORY / "pyproject.toml").read_text(), re.S | re.M
    )
    assert listed is not None
    needed = {canonicalize_name(Requirement(word).name) for word in re.findall(r'"([^"]+)"', listed.group(1))}
    pinned = {canonicalize_name(pin.name) for pin in pins("lab.txt")}
    assert needed
    assert needed <= pinned


def test_the_shell_keeps_its_old_protobuf_apart() -> None:
    (shell,) = [pin for pin in pins("shell.txt") if pin.name == "protobuf"]
    (lab,) = [pin for pin in pins("lab.txt") if pin.name == "protobuf"]
    # p4runtime 1.4.1 ships descriptors that protobuf 3.21 and later refuse; finsy needs 6.33.
    assert shell.specifier.contains("3.20.3")
    assert lab.specifier.contains("6.33.6")


def test_make_alone_lists_every_target() -> None:
    help_text = run("make").stdout
    for target in ("setup", "demo", "test", "bench", "lint", "conformance", "clean", "help"):
        assert re.search(rf"^  make {target} +\S", help_text, re.M), target


def test_conformance_asks_for_the_suite() -> None:
    asked = run("make", "conformance")
    assert asked.returncode != 0
    assert "P4C_TESTDATA=<p4c>/testdata" in asked.stderr
    wrong = run("make", "conformance", "P4C_TESTDATA=/nowhere")
    assert wrong.returncode != 0
    assert "/nowhere holds no p4_16_samples" in wrong.stderr


def test_a_set_up_machine_is_recognised_at_once() -> None:
    if run("tools/setup.sh", "--check").returncode:
        pytest.skip("this checkout was not set up by make setup, or its set-up is out of date")
    begun = time.monotonic()
    again = run("tools/setup.sh")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert time.monotonic() - begun < 5


@pytest.fixture
def bare_checkout() -> Iterator[Path]:
    """What set-up reads, in a folder that an ordinary user can reach, and a PATH of its own in `bin`."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        for name in ("tools", "requirements"):
            shutil.copytree(REPOSITORY / name, checkout / name)
        shutil.copy(REPOSITORY / "pyproject.toml", checkout)
        (checkout / "bin").mkdir()
        for command in ("bash", "dirname", "flock", "grep", "cat", "sha256sum", "cut", "env", "stat", "rm"):
            found = shutil.which(command)
            assert found is not None
            (checkout / "bin" / command).symlink_to(found)
        checkout.chmod(0o755)
        yield checkout


def set_up_as_user(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run set-up as an ordinary user with the commands in `bin` only."""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [str(checkout / "bin" / "bash"), str(checkout / "tools" / "setup.sh")],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **user,
    )


def stub(checkout: Path, command: str, text: str) -> None:
    path = checkout / "bin" / command
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_a_user_is_told_which_packages_to_ask_for(bare_checkout: Path) -> None:
    stub(bare_checkout, "dpkg-query", "exit 1")
    stub(bare_checkout, "apt-get", "exit 99")
    done = set_up_as_user(bare_checkout)
    assert done.returncode == 1
    assert "missing Debian packages: python3-venv ca-certificates mininet gcc" in done.stderr
    assert "apt-get install --no-install-recommends python3-venv" in done.stderr
    assert "without python3-venv ca-certificates nothing can be set up" in done.stderr
    assert not (bare_checkout / ".venv").exists()


def test_a_system_without_apt_is_told_what_xoff_runs_on(bare_checkout: Path) -> None:
    done = set_up_as_user(bare_checkout)
    assert done.returncode == 1
    assert (
        "this machine has no apt; Xoff is set up on Debian 12 or 13 and Ubuntu 22.04 or 24.04" in done.stderr
    )


def test_another_users_outdated_environment_is_left_alone(bare_checkout: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can make a folder that belongs to somebody else")
    stub(bare_checkout, "dpkg-query", "echo installed")
    stub(bare_checkout, "apt-get", "exit 99")
    (bare_checkout / ".venv").mkdir()
    done = set_up_as_user(bare_checkout)
    assert done.returncode == 1
    assert ".venv belongs to root and is out of date" in done.stderr
    assert (bare_checkout / ".venv").is_dir()


@pytest.mark.parametrize("script", ["tools/setup.sh", "tools/vm-setup.sh", "tools/vm-bmv2.sh", ".ci/run"])
def test_scripts_are_executable_and_parse(script: str) -> None:
    assert os.access(REPOSITORY / script, os.X_OK)
    assert run("bash", "-n", script).returncode == 0


def test_bmv2_packages_are_refused_where_there_are_none() -> None:
    if "ID=ubuntu" in Path("/etc/os-release").read_text():
        pytest.skip("on Ubuntu the script would install them")
    done = run("tools/vm-bmv2.sh")
    assert done.returncode == 1
    assert "p4lang packages BMv2 for Ubuntu 20.04 and 22.04 on amd64" in done.stderr


@pytest.mark.judge
def test_vagrant_accepts_the_vagrantfile(tmp_path: Path) -> None:
    if shutil.which("vagrant") is None:
        pytest.skip("vagrant is not installed (Debian package vagrant)")
    # Vagrant writes beside the Vagrantfile and into its home.
    shutil.copy(REPOSITORY / "Vagrantfile", tmp_path)
    shutil.copytree(REPOSITORY / "tools", tmp_path / "tools")
    done = subprocess.run(
        ["vagrant", "validate", "--ignore-provider"],
        cwd=tmp_path,
        env={**os.environ, "VAGRANT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "validated successfully" in done.stdout


def test_the_console_command_is_installed_with_the_environment() -> None:
    command = Path(sys.prefix) / "bin" / "xoff"
    if not command.exists():
        pytest.skip("this environment was not made by make setup")
    told = subprocess.run([str(command), "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 0
    assert "clean" in told.stdout
