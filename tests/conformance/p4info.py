"""`python -m tests.conformance.p4info TESTDATA`: P4Info and entries of every v1model program, compared with p4c's.

TESTDATA is p4c's testdata folder. Texts are compared as protobuf messages. Each difference is printed; the last line
is `N passed, M failed`. The exit status is 0 when no difference lacks a reason (KNOWN).
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from finsy.proto import p4i, p4r
from google.protobuf import text_format
from google.protobuf.message import Message

from compiler.errors import CompileError
from compiler.p4info import p4info_entries, p4info_text
from compiler.typecheck import check

NO_MAIN = "there is no main package: p4c writes an empty P4Info, Xoff says so (an error)"
KNOWN = {
    "bitwise-and.p4": NO_MAIN,
    "issue1524.p4": NO_MAIN,
    "issue2735.p4": NO_MAIN,
    "issue407-2.p4": NO_MAIN,
    "issue407-3.p4": NO_MAIN,
    "issue2735-bmv2.p4": "p4c leaves out a register whose type is written through a typedef; a controller may want it",
}
"""Differences on purpose."""


def references(testdata: Path) -> list[tuple[Path, Path]]:
    """(program, p4c's P4Info) of every v1model program that has one."""
    samples, outputs = testdata / "p4_16_samples", testdata / "p4_16_samples_outputs"
    found = []
    for program in sorted(samples.rglob("*.p4")):
        info = outputs / f"{program.relative_to(samples)}.p4info.txtpb"
        if info.exists() and "v1model.p4" in program.read_text(errors="replace"):
            found.append((program, info))
    return found


def difference(program: Path, info: Path) -> str | None:
    """None when P4Info and entries are p4c's, else the first lines that differ."""
    try:
        checked = check(program)
        pairs = [(p4info_text(checked), info, p4i.P4Info())]
        entries = info.with_name(info.name.replace(".p4info.", ".entries."))
        if entries.exists():
            pairs.append((p4info_entries(checked), entries, p4r.WriteRequest()))
    except CompileError as problem:
        return str(problem.diagnostics[0]).split("\n", 1)[0]
    except Exception as problem:  # a crash is this program's result
        return f"{type(problem).__name__}: {problem}"
    for ours, file, kind in pairs:
        wanted, got = _message(file.read_text(), kind), _message(ours, type(kind)())
        if wanted != got:
            lines = difflib.unified_diff(str(wanted).splitlines(), str(got).splitlines(), n=0)
            changed = [line.strip() for line in lines if line[:2] not in ("--", "++", "@@")]
            return f"{file.name}: {' | '.join(changed[:6])}"
    return None


def _message(text: str, message: Message) -> Message:
    parsed: Message = text_format.Parse(text, message, allow_unknown_field=True)
    return parsed


def results(testdata: Path, only: str = "") -> Iterator[tuple[str, str | None, str | None]]:
    """(program, what differs or None, the reason if there is one)."""
    for program, info in references(testdata):
        if only in program.name:
            yield program.name, difference(program, info), KNOWN.get(program.name)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    options = argparse.ArgumentParser(prog="tests.conformance.p4info", description=__doc__)
    options.add_argument("testdata", type=Path)
    options.add_argument("--only", default="", help="programs whose name contains this")
    chosen = options.parse_args(arguments)
    return report(results(chosen.testdata, chosen.only))


def report(found: Iterator[tuple[str, str | None, str | None]]) -> int:
    """Print failures and the sum; 1 when a failure has no reason."""
    passed = failed = unexplained = 0
    for name, why, reason in found:
        if why is None:
            passed += 1
            continue
        failed += 1
        unexplained += reason is None
        print(f"FAIL {name}: {why}" + (f" [known: {reason}]" if reason else ""), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
