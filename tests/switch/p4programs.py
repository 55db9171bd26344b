"""P4 programs compiled once per test run, with this project's compiler or, where it is asked for, p4c."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


@functools.cache
def compiled(name: str) -> tuple[Path, Path]:
    """(BMv2 JSON, P4Info text) of programs/NAME.p4.

    XOFF_TEST_P4C=PATH compiles with p4c-bm2-ss instead.
    """
    folder = Path(tempfile.mkdtemp(prefix="xoff-test-p4-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    json, p4info = folder / f"{name}.json", folder / f"{name}.p4info.txtpb"
    source = PROGRAMS / f"{name}.p4"
    p4c = os.environ.get("XOFF_TEST_P4C")
    if p4c:
        command = [p4c, "--std", "p4-16", "-o", json, "--p4runtime-files", p4info, source]
    else:
        command = [sys.executable, "-m", "compiler", source, "-o", folder]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    if not p4info.exists():
        found = next(path for path in folder.iterdir() if path != json)
        shutil.move(found, p4info)
    return json, p4info
