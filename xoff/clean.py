"""Clean-up after crashed runs: what their state files name, and nothing else."""

from __future__ import annotations

import os

from topologies.runstate import read_states
from xoff.errors import XoffError
from xoff.shell import forget_dead


def clean() -> list[str]:
    """Remove every run whose owner is gone; sentences on what went and what stayed. Needs root when there is any."""
    states, problems = read_states()
    lines = list(problems)
    for state in states:
        if state.owner_is_alive():
            lines.append(f"{state.run}: still running (process {state.owner[0]}), left alone")
            continue
        if os.geteuid() != 0:
            raise XoffError(f"{state.run} left interfaces and processes behind; removing them needs root.")
        lines += state.clear() or [f"{state.run}: nothing was left of it"]
    forget_dead()
    return lines or ["nothing to clean"]
