"""How long the compiler takes: CPU seconds for a cold compile of each program, milliseconds from the cache.

    python -m benchmarks.compile_time [program.p4 …]          default: p4src/fabric.p4

Every figure is the median of `--runs` compilations in one warm process; `start` is what a fresh `python -m compiler`
takes in all, with the interpreter and the imports. Then where the time goes: the ten functions of the compiler that
take most in themselves, for the last program (`--no-profile`: without).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compiler import CompileError, compile_cached, compile_program
from compiler.preprocess import preprocess

ROOT = Path(__file__).parents[1]


def cpu(action: object) -> float:
    """CPU seconds of calling `action`."""
    begin = time.process_time()
    action()  # type: ignore[operator]
    return time.process_time() - begin


def fresh(path: Path) -> float:
    """CPU seconds of a whole `python -m compiler`."""
    import resource

    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "compiler", str(path), "-o", f"{folder}/"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(path: Path, runs: int) -> None:
    """Print one row."""
    lines = sum(1 for line in preprocess(path).text.splitlines() if line.strip())
    cold = statistics.median(cpu(lambda: compile_program(path)) for _ in range(runs))
    with tempfile.TemporaryDirectory() as cache:
        compile_cached(path, cache)
        cached = statistics.median(cpu(lambda: compile_cached(path, cache)) for _ in range(runs))
    print(f"{path.name:32} {lines:6d} {cold:9.3f} {1000 * cached:9.1f} {fresh(path):9.3f}")


def profile(path: Path) -> None:
    """Print the top ten."""
    watch = cProfile.Profile()
    watch.runcall(compile_program, path)
    stats = pstats.Stats(watch)
    total = stats.total_tt  # type: ignore[attr-defined]
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:10]  # type: ignore[attr-defined]
    print(f"\n{path.name}: {'share':>8} {'calls':>9}  function")
    for (file, line, name), (_, calls, own, _, _) in rows:
        where = f"{Path(file).name}:{line}" if line else "built in"
        print(f"{'':{len(path.name)}}  {own / total:8.1%} {calls:9d}  {name} ({where})")


def main() -> int:
    """The command."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("programs", nargs="*", type=Path, default=[ROOT / "p4src" / "fabric.p4"])
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--no-profile", action="store_true")
    chosen = options.parse_args()
    print(f"{'program':32} {'lines':>6} {'cold s':>9} {'cached ms':>9} {'start s':>9}")
    failed = 0
    for path in chosen.programs:
        try:
            measure(path, chosen.runs)
        except CompileError as problem:
            print(f"{path.name:32} not compiled: {problem.diagnostics[0].message}")
            failed = 1
    if not failed and not chosen.no_profile:
        profile(chosen.programs[-1])
    return failed


if __name__ == "__main__":
    sys.exit(main())
