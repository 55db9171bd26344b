"""Continues the search for inputs that do harm: `python -m tests.fuzz [TARGET…] [--minutes N]`.

Targets in C need clang with libFuzzer (Debian: clang, libclang-rt-dev), those in Python atheris (PyPI); what cannot be
searched here is said and left out. Every target starts from its corpus in `tests/fuzz/corpus`, which gets what reaches
new code, as few inputs as do it. What does harm lies in `build/fuzz/findings/TARGET` and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.build import ROOT, Builder, clang
from tests.fuzz.build import TARGETS as IN_C
from tests.fuzz.python_targets import TARGETS as IN_PYTHON

FOLDER = ROOT / "build" / "fuzz"
LONGEST = 2048
"""Bytes of an input that is kept."""
MOST = 110_000
"""Bytes of a corpus on disk."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Search target by target; the number of targets that had findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="coverage-guided fuzzing")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join([*IN_C, *IN_PYTHON]))
    parser.add_argument("--minutes", type=float, default=10, help="for each target (default 10)")
    parser.add_argument(
        "--merge", type=Path, action="append", default=[], help="also take inputs from FOLDER/TARGET"
    )
    options = parser.parse_args(arguments)
    harmed = []
    for target in options.targets or [*IN_C, *IN_PYTHON]:
        command = _command(target)
        if command is not None and not _search(target, command, options.minutes, options.merge):
            harmed.append(target)
    for target in harmed:
        print(f"fuzz: {target}: see {FOLDER / 'findings' / target}")
    return 1 if harmed else 0


def _command(target: str) -> list[str] | None:
    """What runs a target under libFuzzer; None, and why, where that cannot be."""
    if target in IN_PYTHON:
        if importlib.util.find_spec("atheris") is None:
            print(f"fuzz: {target} is left out: atheris is not installed (pip install atheris)")
            return None
        return [sys.executable, "-m", "tests.fuzz.search", target]
    if target not in IN_C:
        raise SystemExit(f"fuzz: there is no target {target}; there are {', '.join([*IN_C, *IN_PYTHON])}")
    toolchain = clang()
    if toolchain is None:
        print(
            f"fuzz: {target} is left out: clang with libFuzzer is not installed (Debian: clang libclang-rt-dev)"
        )
        return None
    folder = FOLDER / "built"
    folder.mkdir(parents=True, exist_ok=True)
    return [str(Builder(toolchain, folder).target(target))]


def _search(target: str, command: list[str], minutes: float, more: Sequence[Path]) -> bool:
    """Search, then keep what is worth it; whether nothing did harm."""
    work, kept, findings = (FOLDER / kind / target for kind in ("work", "kept", "findings"))
    for folder in (work, kept, findings):
        folder.mkdir(parents=True, exist_ok=True)
    corpus.unpack(target, work)
    if target in IN_PYTHON:
        for number, seed in enumerate(IN_PYTHON[target].seeds()):
            (work / f"seed-{number}").write_bytes(seed)
    limits = [f"-artifact_prefix={findings}/", "-timeout=120", "-rss_limit_mb=2500", "-reload=0"]
    searching = [*command, f"-max_total_time={round(minutes * 60)}", "-len_control=30", *limits, str(work)]
    print(f"fuzz: {target}: {minutes:g} minutes")
    quiet = (
        subprocess.run([*searching, "-print_final_stats=1"], cwd=ROOT).returncode == 0 if minutes else True
    )
    for old in kept.iterdir():
        old.unlink()
    sources = [work, *(place / target for place in more if (place / target).is_dir())]
    merging = [*command, "-set_cover_merge=1", f"-max_len={LONGEST}", *limits, str(kept), *map(str, sources)]
    subprocess.run(merging, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    _keep(target, kept, findings)
    return quiet


def _keep(target: str, kept: Path, findings: Path) -> None:
    """The smallest inputs first, until the archive is as large as it may be; what did harm once always."""
    if not any(kept.iterdir()):
        raise SystemExit(f"fuzz: {target}: nothing came of merging; its corpus stays as it was")
    inputs = [path.read_bytes() for path in findings.iterdir() if path.stat().st_size <= 8 * LONGEST]
    for path in sorted(kept.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        inputs.append(path.read_bytes())
    corpus.write(target, inputs)
    while corpus.size(target) > MOST:
        del inputs[-max(1, len(inputs) // 20) :]
        corpus.write(target, inputs)
    print(f"fuzz: {target}: {len(inputs)} inputs are kept, {corpus.size(target)} bytes")


if __name__ == "__main__":
    sys.exit(main())
