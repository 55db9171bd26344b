"""`python -m tests.conformance TESTDATA`: p4c's suite in three parts: STF programs, P4Info, programs that must fail.

Options are those of `tests.conformance.run`; with any of them only the STF part runs. Every part ends with a line
`N passed, M failed`; the last line is their sum. The exit status is 0 when every failure has a known reason.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable

from tests.conformance import mustfail, p4info, run

PARTS: list[tuple[str, Callable[[list[str]], int]]] = [
    ("STF programs on the native switch", run.main),
    ("P4Info and entries against p4c's", p4info.main),
    ("programs that must fail", mustfail.main),
]


class _Tee(io.TextIOBase):
    """Standard output, remembering its last line."""

    last = ""

    def write(self, text: str) -> int:
        self.last = next((line for line in reversed(text.splitlines()) if line), self.last)
        return sys.__stdout__.write(text)  # type: ignore[union-attr]

    def flush(self) -> None:
        sys.__stdout__.flush()  # type: ignore[union-attr]


def main(arguments: list[str]) -> int:
    """The command."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        return run.main(arguments)
    passed = failed = status = 0
    for title, part in PARTS:
        print(f"== {title}")
        out = _Tee()
        with contextlib.redirect_stdout(out):
            status |= part(arguments)
        found = re.fullmatch(r"(\d+) passed, (\d+) failed", out.last)
        if found is None:
            return 1
        passed, failed = passed + int(found[1]), failed + int(found[2])
    print(f"== all parts\n{passed} passed, {failed} failed")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
