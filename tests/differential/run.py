"""`python -m tests.differential BMV2 [PROGRAM.p4 or FOLDER …]`: run programs on BMv2 and on the native switch, compare.

BMV2 is simple_switch_grpc. Without programs: the project's own. `--p4c PATH` compiles with p4c-bm2-ss too, and compares
its JSON on both switches as well. One line a program; the last line is `N programs alike, M differ, K not compared`.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.compiler.random_programs import SIZE, Generator
from tests.differential.compare import Given, Result, compare, config_of
from tests.differential.fabric import fabric_frames, fabric_updates, is_fabric

ROOT = Path(__file__).parents[2]
GENERATED = "random-"
OWN = (ROOT / "tests" / "differential" / "programs", ROOT / "tests" / "switch" / "programs")


def programs(given: list[Path]) -> Iterator[Path]:
    """The v1model programs named, folders searched."""
    for path in given or [*OWN, ROOT / "p4src" / "fabric.p4", ROOT / "benchmarks" / "p4"]:
        found = sorted(path.rglob("*.p4")) if path.is_dir() else [path]
        for program in found:
            text = program.read_text(errors="replace")
            if "v1model.p4" in text and "V1Switch" in text:
                yield program


def generated(count: int, seed: int, folder: Path) -> list[Path]:
    """Random programs whose behaviour is fully defined."""
    sources = []
    for number in range(seed, seed + count):
        path = folder / f"{GENERATED}{number}.p4"
        path.write_text(Generator(number).program())
        sources.append(path)
    return sources


def compile_program(source: Path, folder: Path, p4c: str | None) -> tuple[Path, Path] | str:
    """(JSON, P4Info), or why not."""
    json_path, info_path = folder / "program.json", folder / "program.p4info.txtpb"
    if p4c is None:
        words = [sys.executable, "-m", "compiler", str(source), "-o", str(json_path)]
        words += ["--p4runtime-files", str(info_path)]
    else:
        words = [
            p4c,
            "--std",
            "p4-16",
            "-o",
            str(json_path),
            "--p4runtime-files",
            str(info_path),
            str(source),
        ]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    if done.returncode or not json_path.exists() or not info_path.exists():
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr[-200:]]
        return f"not compiled: {lines[0][:200]}"
    return json_path, info_path


def one(source: Path, p4c: str | None, executable: str, packets: int, seed: int) -> Result:
    """Compile and compare."""
    name = source.stem + ("" if p4c is None else " (p4c)")
    with tempfile.TemporaryDirectory(prefix="xoff-differential-") as folder:
        made = compile_program(source, Path(folder), p4c)
        if isinstance(made, str):
            return Result(name, skipped=made)
        given = None
        if source.stem.startswith(GENERATED):
            given = Given(least=SIZE)
        if is_fabric(source):
            given = Given(fabric_updates(*made), fabric_frames(random.Random(seed)))
        return compare(name, config_of(*made), executable, packets, seed, given)


def line(result: Result) -> str:
    """What is said of a program."""
    if result.skipped is not None and not result.count:
        return f"none  {result.name}: {result.skipped} ({result.packets} packets compared)"
    head = "DIFF" if result.count else "alike"
    said = f"{result.packets} packets, {result.sent} sent, {result.entries} entries, {result.state} cells"
    if result.masked or result.left_out:
        said += f", {result.masked} compared in part, {result.left_out} left out (time or chance)"
    if result.endless:
        said += f", {result.endless} would circle for ever"
    if result.explained:
        said += f"; {result.explained}"
    if result.skipped:
        said += f"; then {result.skipped}"
    return f"{head:<5} {result.name}: {said}"


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="tests.differential", description=__doc__)
    parser.add_argument("bmv2", help="simple_switch_grpc")
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--p4c", help="p4c-bm2-ss, to compare its JSON too")
    parser.add_argument("--only-p4c", action="store_true", help="compare p4c's JSON only")
    parser.add_argument("--packets", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="programs, taken at random")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="generated programs instead")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every result there")
    chosen = parser.parse_args(arguments)
    executable = shutil.which(chosen.bmv2)
    if executable is None:
        print(f"{chosen.bmv2} is not an executable: name simple_switch_grpc", file=sys.stderr)
        return 2
    scratch = tempfile.TemporaryDirectory(prefix="xoff-differential-programs-")
    if chosen.random:
        sources = generated(chosen.random, chosen.seed, Path(scratch.name))
    else:
        sources = list(programs(chosen.programs))
    if chosen.limit:
        random.Random(chosen.seed).shuffle(sources)
        sources = sources[: chosen.limit]
    compilers = ([] if chosen.only_p4c else [None]) + ([chosen.p4c] if chosen.p4c else [])
    work = [(s, c) for s in sources for c in compilers]
    results: list[Result] = []
    begin = time.monotonic()
    with ProcessPoolExecutor(chosen.jobs) as pool:
        futures = [pool.submit(one, s, c, executable, chosen.packets, chosen.seed) for s, c in work]
        for future, (source, _) in zip(futures, work, strict=True):
            try:
                result = future.result()
            except Exception as problem:  # a crash of the comparison is this program's result
                result = Result(source.stem, count=1, differences=[f"{type(problem).__name__}: {problem}"])
            results.append(result)
            print(line(result), flush=True)
            for text, number in result.refused.items():
                print(f"        {number} x {text[:300]}", flush=True)
            for text in result.differences:
                print(f"        {text[:1500]}", flush=True)
    scratch.cleanup()
    if chosen.json:
        chosen.json.write_text(
            json.dumps([{**vars(r), "refused": dict(r.refused)} for r in results], indent=1)
        )
    differ = sum(bool(r.count) for r in results)
    none = sum(r.skipped is not None and not r.count for r in results)
    packets = sum(r.packets for r in results)
    print(
        f"{len(results) - differ - none} programs alike, {differ} differ, {none} not compared;"
        f" {packets} packets in {time.monotonic() - begin:.0f} s"
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
