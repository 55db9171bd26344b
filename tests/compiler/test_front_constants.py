"""Constant folding against p4c: random expressions as entry arguments, values read from both entries files."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from compiler.p4info import p4info_entries
from compiler.typecheck import check
from tests.compiler.frontend import program_text

P4C = Path("/opt/judges/bin/p4c-bm2-ss")

pytestmark = [pytest.mark.judge, pytest.mark.skipif(not P4C.exists(), reason="p4c is not on this machine")]


class Expressions:
    """Random well-typed constant expressions of `bit<w>` (`u`) and `int<w>` (`s`)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def leaf(self, kind: str, width: int) -> str:
        """A literal."""
        r = self.random
        value = r.choice([0, 1, 2, 3, (1 << width) - 1, 1 << (width - 1), r.randrange(1 << width)])
        if kind == "s":
            value %= 1 << (width - 1)
            return f"{width}s{value}" if r.random() < 0.6 else f"(-{width}s{value})"
        return f"{width}w{value}" if r.random() < 0.5 else f"{width}w0x{value:x}"

    def make(self, kind: str, width: int, depth: int) -> str:
        """An expression of the type."""
        r = self.random
        if depth == 0 or r.random() < 0.15:
            return self.leaf(kind, width)

        def same() -> str:
            return self.make(kind, width, depth - 1)

        def other(kind: str, width: int) -> str:
            return self.make(kind, width, depth - 1)

        forms = [
            lambda: f"({same()} {r.choice(['+', '-', '*', '&', '|', '^', '|+|', '|-|'])} {same()})",
            lambda: f"({r.choice('~-')}{same()})",
            lambda: f"({same()} {r.choice(['<<', '>>'])} {r.randrange(width + 2)})",
            lambda: f"({self.comparison(depth)} ? {same()} : {same()})",
        ]
        if kind == "s":
            forms.append(lambda: f"((int<{width}>) {other('u', width)})")
            forms.append(lambda: f"((int<{width}>) {other('s', r.choice([2, 3, 8, 17, 40]))})")
        else:
            forms.append(lambda: f"((bit<{width}>) {other('u', r.choice([1, 3, 8, 17, 40]))})")
            forms.append(
                lambda: f"((bit<{width}>) ({r.randrange(-999, 999)} {r.choice('+-*')} {r.randrange(999)}))"
            )
            forms.append(lambda: self.slice(width, depth))
            if width > 1:
                low = r.randrange(1, width)
                forms.append(lambda: f"({other('u', width - low)} ++ {other('u', low)})")
                forms.append(lambda: f"((bit<{width}>) {other('s', width)})")
                forms.append(
                    lambda: f"({same()} {r.choice('/%')} {width}w{r.randrange(1, min(1 << width, 50))})"
                )
        return r.choice(forms)()

    def comparison(self, depth: int) -> str:
        """A condition."""
        kind, width = self.random.choice([("u", 1), ("u", 8), ("u", 33), ("s", 4), ("s", 16)])
        op = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
        return f"({self.make(kind, width, depth - 1)} {op} {self.make(kind, width, depth - 1)})"

    def slice(self, width: int, depth: int) -> str:
        """Some bits of a wider number."""
        whole = width + self.random.randrange(1, 20)
        low = self.random.randrange(whole - width + 1)
        return f"{self.make(self.random.choice('us'), whole, depth - 1)}[{low + width - 1}:{low}]"


@pytest.mark.parametrize("seed", [1, 2])
def test_random_constant_expressions_have_the_values_that_p4c_gives(seed: int, tmp_path: Path) -> None:
    make = Expressions(seed)
    expressions = [make.make("u", make.random.choice([1, 3, 8, 16, 32, 48]), 4) for _ in range(120)]
    rows = "\n".join(f"{i} : set((bit<64>) {e});" for i, e in enumerate(expressions))
    path = tmp_path / "constants.p4"
    path.write_text(
        program_text(
            locals_="action set(bit<64> v) { meta.a = v[15:0]; } table t { key = { hdr.ip.dst : exact; } "
            f"actions = {{ set; }} const entries = {{ {rows} }} }}",
            body="t.apply();",
        )
    )
    theirs = tmp_path / "entries.txtpb"
    command = [str(P4C), "--std", "p4-16", "-o", str(tmp_path / "out.json"), "--p4runtime-files"]
    command += [str(tmp_path / "info.txtpb"), "--p4runtime-entries-files", str(theirs), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    mine, others = _values(p4info_entries(check(path))), _values(theirs.read_text())
    assert len(mine) == len(expressions)
    assert [(e, a) for e, a in zip(expressions, mine, strict=True)] == list(
        zip(expressions, others, strict=True)
    )


def _values(text: str) -> list[str]:
    return re.findall(r'param_id: 1\s+value: (".*")', text)
