"""The engine and generated programs under AddressSanitizer and UndefinedBehaviorSanitizer, fed with random input.

`XOFF_FUZZ_RUNS` says how many inputs a program gets (default 150); a failure prints the sanitizer's report.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from p4programs import ROOT, compiled

from switch.native import build
from switch.native.cgen import generate
from switch.native.program import Program

RUNS = int(os.environ.get("XOFF_FUZZ_RUNS", "150"))
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def has_sanitizers() -> bool:
    """A C compiler that links with the sanitizers."""
    if shutil.which("gcc") is None:
        return False
    command = ["gcc", *SANITIZERS, "-x", "c", "-", "-o", "/dev/null"]
    check = subprocess.run(command, input="int main(void){return 0;}", text=True, capture_output=True)
    return check.returncode == 0


pytestmark = pytest.mark.skipif(not has_sanitizers(), reason="gcc with the sanitizers is not installed")
COMPILE = ["gcc", "-std=gnu99", "-g", "-O1", "-w", *SANITIZERS, f"-I{build.HERE}"]


@pytest.fixture(scope="session")
def engine_objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The engine's sources (without the packet loop, which owns sockets) and the harness, instrumented."""
    folder = tmp_path_factory.mktemp("sanitized")
    sources = [s for s in build.runtime_sources() if s.name != "loop.c"] + [
        Path(__file__).with_name("fuzz_engine.c")
    ]
    objects = []
    for source in sources:
        target = folder / f"{source.stem}.o"
        subprocess.run([*COMPILE, "-DXF_SANITIZE", "-c", str(source), "-o", str(target)], check=True)
        objects.append(target)
    return objects


def fuzz(program: Program, objects: list[Path], folder: Path, runs: int, seconds: float = 250) -> None:
    """Build one program with the harness and run it; AssertionError with the report if a sanitizer objects,
    TimeoutExpired when it is not done in time."""
    source, target = folder / "program.c", folder / "fuzz"
    source.write_text(generate(program))
    subprocess.run([*COMPILE, str(source), *map(str, objects), "-o", str(target)], check=True)
    done = subprocess.run([str(target), "1", str(runs)], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{runs} inputs\n"


@pytest.mark.parametrize("name", ["decisions", "tables", "state", "queues", "headers"])
def test_random_input_does_no_harm(name: str, engine_objects: list[Path], tmp_path: Path) -> None:
    json, p4info = compiled(name)
    fuzz(Program.from_text(json.read_text(), p4info.read_text()), engine_objects, tmp_path, RUNS)


def test_random_input_does_no_harm_to_the_fabric_program(engine_objects: list[Path], tmp_path: Path) -> None:
    source = ROOT / "p4src" / "fabric.p4"
    subprocess.run([sys.executable, "-m", "compiler", str(source), "-o", str(tmp_path)], check=True, cwd=ROOT)
    program = Program.from_text(
        (tmp_path / "fabric.json").read_text(), (tmp_path / "fabric.p4info.txtpb").read_text()
    )
    fuzz(program, engine_objects, tmp_path, RUNS)
