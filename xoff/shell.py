"""`xoff shell`: p4runtime-shell, in its own environment, on a switch of the run that is going on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from topologies.runstate import STATE_FOLDER, RunState, read_states
from xoff.errors import XoffError
from xoff.prepare import REPOSITORY

SHELL = REPOSITORY / ".venv-shell" / "bin" / "python"
ELECTION_LOW = 1
"""Below the controller's election id: the shell reads beside it as a backup and does not take the switch away."""


def switches_file(state: RunState) -> Path:
    """Where a run tells the shell about its switches, beside its state file."""
    return state.path.with_suffix(".switches")


def running_switches(folder: Path = STATE_FOLDER) -> dict[str, Any]:
    """What the newest living run wrote about its switches; XoffError when none is running."""
    states, _ = read_states(folder)
    for state in sorted(states, key=lambda s: s.path.stat().st_mtime, reverse=True):
        path = switches_file(state)
        if state.owner_is_alive() and path.exists():
            facts: dict[str, Any] = json.loads(path.read_text())
            return facts
    raise XoffError("no fabric is running; start one with `xoff run` (its switches are there while it runs).")


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
