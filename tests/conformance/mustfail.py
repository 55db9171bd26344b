"""`python -m tests.conformance.mustfail TESTDATA`: what p4c's suite calls an error must be refused.

TESTDATA is p4c's testdata folder. A program passes when it is refused and one error lies within a line of a place that
p4c's own messages name. The last line is `N passed, M failed`; `--v1model` keeps the programs that include v1model.p4.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from compiler import CompileError, compile_program
from tests.conformance.p4info import report

NEARER = "Xoff points at what is wrong, p4c at the declaration around it"
USE = "Xoff points at the use that is wrong, p4c at the declaration that it uses"
MORE = "a limit of p4c that Xoff does not have"
OTHER = "not for v1model, and refused for that; p4c names a limit of its own"
GENERIC = "generic types that hold themselves are refused where they are used, not where they are declared"
UNTYPED = "`_` as a type argument fits anything"
KNOWN = {
    "array4.p4": OTHER,
    "compound-assignment.p4": "division at run time: " + MORE,
    "div3.p4": "division at run time: " + MORE,
    "entries-keyless.p4": NEARER,
    "equate-type-package-and-non-object.p4": USE,
    "explicit-cast-to-struct-from-kvlist-expr-with-field-of-incompatible-type.p4": USE,
    "expr-typeaccess-on-unsupported-type.p4": USE,
    "extern-method-impl-of-existing-abstract-method-with-different-return-type.p4": USE,
    "generic-struct-self-nested.p4": GENERIC,
    "implicit-cast-to-incompatible-type-from-serenum-2.p4": USE,
    "init-entries-error1-bmv2.p4": NEARER,
    "init-entries-error3-bmv2.p4": NEARER,
    "issue1296.p4": GENERIC,
    "issue1331.p4": USE,
    "issue1777-bmv2.p4": "a register of structs is refused where it is made, p4c refuses to read it",
    "issue2267.p4": "a table is not visible in itself: its key is the parameter of that name",
    "issue2545.p4": OTHER,
    "issue3057-1.p4": "two literals can be compared: " + MORE,
    "issue3273.p4": USE,
    "issue3299.p4": "switch in an action: " + MORE,
    "issue3346.p4": USE,
    "issue3442.p4": NEARER,
    "issue3671-2.p4": "arguments of the default action are compared by their fields, not by their order",
    "issue3808-1.p4": UNTYPED,
    "issue819.p4": GENERIC,
    "method-call-pop_front-on-non-stack-2.p4": USE,
    "methodArgDontcare.p4": UNTYPED,
    "package.p4": USE,
    "spec-ex32_e.p4": "names in annotations that nobody knows are not looked up",
    "string-e2.p4": USE,
    "twovarbit.p4": USE,
}
"""Programs that are refused elsewhere, or for another reason, or not at all, and why."""


def programs(testdata: Path, v1model: bool = False) -> list[Path]:
    """The programs."""
    found = sorted((testdata / "p4_16_errors").glob("*.p4"))
    return [p for p in found if not v1model or "v1model.p4" in p.read_text(errors="replace")]


def lines(testdata: Path, program: Path) -> set[int]:
    """Lines of the program that p4c's errors name; empty when they name another file or none."""
    reference = testdata / "p4_16_errors_outputs" / f"{program.name}-stderr"
    found: set[int] = set()
    warning = False
    for line in reference.read_text(errors="replace").splitlines() if reference.exists() else ():
        place = re.match(rf"(?:\S*/)?{re.escape(program.name)}\((\d+)\)(.*)", line)
        if place:
            warning = "warning:" in place[2] or (warning and "error" not in place[2])
            if not warning:
                found.add(int(place[1]))
    return found


def why(testdata: Path, program: Path) -> str | None:
    """None when the program is refused at the right place."""
    include = testdata.parent / "p4include"
    try:
        compile_program(program, [include, include / "bmv2"])
    except CompileError as problem:
        wanted = lines(testdata, program)
        got = [d for d in problem.diagnostics if d.severity == "error"]
        if not wanted or any(abs(d.line - line) <= 1 for d in got for line in wanted):
            return None
        return f"p4c: line {', '.join(map(str, sorted(wanted)))}; Xoff: {got[0].line}: {got[0].message}"
    except Exception as problem:  # a crash is this program's result
        return f"{type(problem).__name__}: {problem}"
    return "accepted"


def results(testdata: Path, v1model: bool = False) -> Iterator[tuple[str, str | None, str | None]]:
    """(program, what is wrong or None, the reason if there is one)."""
    for program in programs(testdata, v1model):
        yield program.name, why(testdata, program), KNOWN.get(program.name)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    options = argparse.ArgumentParser(prog="tests.conformance.mustfail", description=__doc__)
    options.add_argument("testdata", type=Path)
    options.add_argument("--v1model", action="store_true", help="only programs that include v1model.p4")
    chosen = options.parse_args(arguments)
    return report(results(chosen.testdata, chosen.v1model))


if __name__ == "__main__":
    sys.exit(main())
