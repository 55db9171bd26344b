"""A C compiler that builds programs only when the test lets it, or never; everything else it builds at once."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

TURNS = 8
"""Builds at most."""
SCRIPT = """#!/bin/sh
case "$*" in *program-*)
    turn=0
    until mkdir {folder}/turn$turn; do turn=$((turn + 1)); done 2> /dev/null
    echo $$ >> {folder}/started
    read -r verdict < {folder}/gate$turn
    test "$verdict" = go || {{ echo "$verdict" >&2; exit 1; }} ;;
esac
exec {compiler} "$@"
"""


class GatedCompiler:
    """The compiler, for `XOFF_CC`, and what is known of its runs."""

    def __init__(self, folder: Path) -> None:
        """Needs a C compiler on PATH."""
        compiler = shutil.which("cc")
        assert compiler is not None
        self._folder = folder
        self.path = folder / "gated-compiler"
        self.path.write_text(SCRIPT.format(folder=folder, compiler=compiler))
        self.path.chmod(0o755)
        self._turns = 0
        for turn in range(TURNS):
            os.mkfifo(self.gate(turn))

    def gate(self, turn: int) -> Path:
        """A fifo that the build whose turn it is, counted from 0, reads its verdict from."""
        return self._folder / f"gate{turn}"

    @property
    def started(self) -> list[int]:
        """The processes that were to build a program."""
        try:
            return [int(line) for line in (self._folder / "started").read_text().split()]
        except FileNotFoundError:
            return []

    def let(self, verdict: str = "go") -> None:
        """Let the next build go on, or fail with a message; waits until it has begun."""
        with self.gate(self._turns).open("w") as gate:
            gate.write(verdict + "\n")
        self._turns += 1


def builds_done(seconds: float = 120) -> None:
    """Wait until this process makes no program in the background, and those that waited have got theirs."""
    for thread in threading.enumerate():
        if thread.name == "xoff-build":
            thread.join(seconds)
            assert not thread.is_alive()
