"""`tools/sanitized.sh`: C that this project builds in that environment is watched by the sanitizers."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "sanitized.sh"
BROKEN = """
#include "xf.h"
int beyond(int size) { char *block = malloc(8), copy[16]; memcpy(copy, block, size); free(block); return size; }
int shifted(int by) { return 1 << by; }
"""
CALL = """
import sys
from pathlib import Path
from switch.native.build import extension
library = extension(Path(sys.argv[1]), "probe")
print(library.beyond(8), library.shifted(4), getattr(library, sys.argv[2])(int(sys.argv[3])))
"""


def sanitized(*arguments):
    return subprocess.run([SCRIPT, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=250)


@pytest.fixture(scope="module", autouse=True)
def installed():
    done = sanitized("true")
    if done.returncode == 2:
        pytest.skip(done.stderr)


@pytest.mark.parametrize(
    ("function", "argument", "says"),
    [
        ("beyond", 9, "AddressSanitizer: heap-buffer-overflow"),
        ("shifted", 40, "runtime error: shift exponent 40"),
    ],
)
def test_the_first_fault_ends_the_process_with_a_report(tmp_path, function, argument, says):
    (tmp_path / "probe.c").write_text(BROKEN)
    done = sanitized(sys.executable, "-c", CALL, tmp_path, function, str(argument))
    assert done.returncode != 0
    assert says in done.stderr
    assert not done.stdout


def test_the_engine_and_its_programs_are_built_with_them(tmp_path):
    code = (
        "from p4programs import compiled\n"
        "from switch.native.binding import Engine\n"
        "from switch.native.build import find_compiler\n"
        "from switch.native.program import Program\n"
        "json, info = compiled('decisions')\n"
        "engine = Engine(Program.from_text(json.read_text(), info.read_text()))\n"
        "for line in open('/proc/self/maps'):\n"
        "    if '/program-' in line or '/runtime-' in line:\n"
        "        print(line.split()[-1])\n"
    )
    done = sanitized("env", f"PYTHONPATH={Path(__file__).parent}:{ROOT}", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    libraries = {Path(line).name.split("-")[0]: line for line in done.stdout.split()}
    assert set(libraries) == {"program", "runtime"}
    for path in libraries.values():
        assert b"__asan_init" in Path(path).read_bytes(), path
