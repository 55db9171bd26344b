"""The native switch runs what p4c compiles: STF programs of p4c's test-suite, compiled by the real p4c-bm2-ss.

`XOFF_STF_EVERY=1` runs all of them; by default every eighth.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance import native
from tests.conformance.run import compare, programs
from tests.conformance.stf import parse

P4C = shutil.which("p4c-bm2-ss") or "/opt/judges/bin/p4c-bm2-ss"
TESTDATA = Path(os.environ.get("XOFF_P4C_TESTDATA", "/opt/judges/p4c/testdata"))
EVERY = int(os.environ.get("XOFF_STF_EVERY", "8"))
NEEDS_CPP = "extern-funcs-bmv2"
"""Needs a C++ module loaded into simple_switch."""


def chosen() -> list[tuple[Path, Path]]:
    """(program, script) pairs to run."""
    if not (Path(P4C).exists() and TESTDATA.is_dir()):
        return []
    return [pair for pair in programs(TESTDATA) if pair[0].stem != NEEDS_CPP][::EVERY]


CHOSEN = chosen()


@pytest.mark.judge
@pytest.mark.skipif(not CHOSEN, reason="p4c-bm2-ss or p4c's testdata is not on this machine")
@pytest.mark.parametrize("pair", CHOSEN, ids=[program.stem for program, _ in CHOSEN])
def test_a_program_compiled_by_p4c_behaves_as_its_script_says(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    program, script_file = pair
    output = tmp_path / "program.json"
    subprocess.run([P4C, "--std", "p4-16", "-o", str(output), str(program)], check=True, capture_output=True)
    script = parse(script_file.read_text(errors="replace"))
    frames = native.run(json.loads(output.read_text()), script, 0)
    assert compare(script, frames) is None
