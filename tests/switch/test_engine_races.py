"""The engine, the packet loop and the fabric under sanitizers: packet threads and control threads at once.

`race_engine.c` says what the threads do. `XOFF_RACE_SECONDS` says for how long (default 3).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from p4programs import compiled

from switch.native import build
from switch.native.cgen import generate
from switch.native.program import Program

SECONDS = int(os.environ.get("XOFF_RACE_SECONDS", "3"))
COMPILE = ["gcc", "-std=gnu99", "-g", "-O1", "-w", f"-I{build.HERE}"]
SANITIZERS = {
    "thread": ["-fsanitize=thread"],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DXF_SANITIZE"],
}


def runner(folder: Path, flags: list[str]) -> list[str]:
    """What to put before a program with a sanitizer; skips the test where there is no such program.

    Some kernels lay a process out at random in a way that the sanitizers of some compilers cannot take.
    """
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    target = folder / "probe"
    command = [*COMPILE, *flags, "-x", "c", "-", "-o", str(target)]
    if subprocess.run(
        command, input="int main(void){return 0;}", text=True, capture_output=True, check=False
    ).returncode:
        pytest.skip(f"gcc has no runtime for {flags[0]}")
    for before in ([], ["setarch", "-R"]):
        if before and shutil.which(before[0]) is None:
            continue
        if subprocess.run([*before, str(target)], capture_output=True, check=False).returncode == 0:
            return before
    pytest.skip(f"a program with {flags[0]} does not run on this kernel")


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_packet_threads_and_control_threads_do_each_other_no_harm(sanitizer: str, tmp_path: Path) -> None:
    flags = SANITIZERS[sanitizer]
    before = runner(tmp_path, flags)
    json, p4info = compiled("entities")
    program = Program.from_text(json.read_text(), p4info.read_text())
    (tmp_path / "program.c").write_text(generate(program))
    numbers = {action.name: action.index for action in program.actions}
    actions = [
        f"-DFORWARD_ACTION={numbers['EntitiesIngress.forward_counted']}",
        f"-DMETER_ACTION={numbers['EntitiesIngress.read_meter']}",
    ]
    sources: list[tuple[Path, str, list[str]]] = [
        (source, source.stem, []) for source in build.runtime_sources()
    ]
    sources += [
        (tmp_path / "program.c", f"program_{which}", [f"-Dxf_program_get=program_{which}", level])
        for which, level in (("a", "-O0"), ("b", "-O2"))
    ]
    sources.append((Path(__file__).with_name("race_engine.c"), "main", actions))
    objects = [str(tmp_path / f"{name}.o") for _, name, _ in sources]

    def make(item: tuple[tuple[Path, str, list[str]], str]) -> None:
        (source, _, more), target = item
        subprocess.run([*COMPILE, *flags, *more, "-c", str(source), "-o", target], check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, zip(sources, objects, strict=True)))
    target = tmp_path / "race_engine"
    subprocess.run([*COMPILE, *flags, *objects, "-o", str(target), "-lpthread"], check=True)
    done = subprocess.run(
        [*before, str(target), str(SECONDS)],
        env={**os.environ, "TSAN_OPTIONS": "exitcode=66 second_deadlock_stack=1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[:6000]
    assert done.stdout.startswith("fed ") and not done.stderr
