"""`xoff shell`: p4runtime-shell, in its own environment, on a switch of the run that is going on.

A run leaves a file about its switches while it lives: in /run/xoff as root, in the cache as a user.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.cache import cache_folder
from controller.app import ProgramFiles
from topologies.plan import FabricPlan
from topologies.runstate import STATE_FOLDER, start_time
from xoff.errors import XoffError
from xoff.prepare import REPOSITORY

SHELL = REPOSITORY / ".venv-shell" / "bin" / "python"
ELECTION_LOW = 1
"""Below the controller's election id: the shell reads beside it as a backup and does not take the switch away."""


def _folders() -> list[Path]:
    """Where runs of this user tell about their switches; the first is where this process would."""
    mine = cache_folder() / "running"
    return [STATE_FOLDER, mine] if os.geteuid() == 0 else [mine, STATE_FOLDER]


@contextmanager
def shown_to_shell(plan: FabricPlan, program: ProgramFiles, addresses: Mapping[str, str]) -> Iterator[None]:
    """Let `xoff shell` find these switches, by their P4Runtime addresses, meanwhile."""
    folder = _folders()[0]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}.switches"
    partial = path.with_suffix(".partial")
    facts = {
        "owner": [os.getpid(), start_time(os.getpid())],
        "addresses": dict(addresses),
        "device_ids": {switch.name: switch.device_id for switch in plan.switches},
        "p4info": str(program.p4info),
        "json": str(program.json),
    }
    partial.write_text(json.dumps(facts))
    partial.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _running() -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """Every file about switches, the newest first, with what it says; None when its run is gone."""
    paths = [path for folder in _folders() if folder.is_dir() for path in folder.glob("*.switches")]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        facts: dict[str, Any] = json.loads(path.read_text())
        pid, begun = facts["owner"]
        yield path, facts if start_time(pid) == begun else None


def running_switches() -> dict[str, Any]:
    """What the newest living run wrote about its switches; XoffError when none is running."""
    for _, facts in _running():
        if facts is not None:
            return facts
    raise XoffError(
        "no fabric is running; start one with `xoff run` (its switches are there while it runs, and with --hold "
        "until you end it)."
    )


def forget_dead() -> None:
    """Remove the files of runs that are gone."""
    for path, facts in _running():
        if facts is None:
            path.unlink(missing_ok=True)


def shell_command(facts: dict[str, Any], switch: str) -> list[str]:
    """The command line that opens the shell on a switch."""
    if switch not in facts["addresses"]:
        raise XoffError(f"there is no switch {switch!r}; switches: {', '.join(facts['addresses'])}.")
    if not SHELL.exists():
        raise XoffError("p4runtime-shell is not installed; `make setup` puts it into .venv-shell.")
    return [
        str(SHELL), "-m", "p4runtime_sh", "--grpc-addr", facts["addresses"][switch],
        "--device-id", str(facts["device_ids"][switch]), "--election-id", f"0,{ELECTION_LOW}",
    ]  # fmt: skip


def open_shell(switch: str) -> int:
    """Run the shell on the terminal; its exit code."""
    return subprocess.call(shell_command(running_switches(), switch))
