"""Which switch runs: the native one or BMv2, and the reason in words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from switch.bmv2 import find_executable

Target = Literal["native", "bmv2"]
Choice = Literal["auto", "native", "bmv2"]
CHOICES: tuple[Choice, ...] = ("auto", "native", "bmv2")

VARIABLE = "XOFF_SWITCH"
"""Environment variable that `auto` follows."""
MACHINE_FILE = Path("/etc/xoff/switch")
"""One word, `bmv2` or `native`, that `auto` follows on this machine: how a VM image says what it has."""


class SelectError(Exception):
    """The wanted switch is not here; the message says what would help."""


@dataclass(frozen=True)
class Selection:
    """The switch that runs."""

    target: Target
    reason: str


def select_target(choice: str = "auto", *, machine_file: Path = MACHINE_FILE) -> Selection:
    """Decide which switch runs.

    `auto` takes BMv2 only where the environment or the machine asks for it. Raises SelectError when BMv2 is asked
    for by name and not installed, or the choice is not one of CHOICES.
    """
    if choice == "native":
        return Selection("native", "asked for (--switch native)")
    if choice == "bmv2":
        return _bmv2("asked for (--switch bmv2)")
    if choice != "auto":
        raise SelectError(f"--switch {choice}: the choices are {', '.join(CHOICES)}")
    for wish, where in (
        (os.environ.get(VARIABLE, ""), f"${VARIABLE}"),
        (_read(machine_file), str(machine_file)),
    ):
        if wish == "bmv2":
            return _bmv2(f"{where} says so")
        if wish == "native":
            return Selection("native", f"{where} says so")
        if wish:
            raise SelectError(f"{where} says {wish!r}; it may say native or bmv2")
    if find_executable() is None:
        return Selection("native", "the default; BMv2 is not installed")
    return Selection("native", "the default; BMv2 is installed and --switch bmv2 would use it")


def _bmv2(reason: str) -> Selection:
    executable = find_executable()
    if executable is None:
        raise SelectError(
            f"BMv2 is {reason}, but simple_switch_grpc is not on PATH; install it or use --switch native"
        )
    return Selection("bmv2", f"{reason}; {executable}")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
