"""Feeds the P4 compiler what nobody should write: a result or an error, never an exception, never 10 s, never 1 GiB.

    python -m benchmarks.fuzz_compiler --minutes 60 [--seed N] [--corpus FOLDER]

Programs grown from the grammar and mutations of real ones (p4src/, labs/, and what --corpus holds, p4c's testdata for
example). What fails is written to benchmarks/out/fuzz/ with its seed in the name; the exit status counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType

from compiler import CompileError
from compiler.driver import compile_source
from compiler.preprocess import preprocess
from tests.compiler.frontend import source_of
from tests.compiler.fuzzing import Grower, mutate, nearly_right

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "out" / "fuzz"
SECONDS = 10.0
"""CPU time that one program may take."""
ABOVE = "#include <v1model.p4>\n"
BYTES = 1 << 30
"""Memory that the process may take beyond what it has at the start."""


class TooSlow(BaseException):
    """The program took longer than SECONDS."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def corpus(folder: Path | None) -> list[str]:
    """Texts of programs to mutate: macros and includes expanded, without v1model.p4, which is put in front again."""
    paths = [ROOT / "p4src" / "fabric.p4", *sorted(ROOT.glob("labs/**/*.p4"))]
    if folder is not None:
        paths += [p for p in sorted(folder.rglob("*.p4")) if "v1model.p4" in p.read_text(errors="replace")]
    found = []
    for path in paths:
        try:
            text = preprocess(path).text
        except CompileError:
            continue
        start = text.find("package V1Switch")
        if start >= 0:
            found.append(text[text.index(";", start) + 1 :])
    return found


def attempt(text: str) -> str:
    """`compiled`, `refused`, or what went wrong."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        json.dumps(compile_source(source_of(ABOVE + text)).json)
        return "compiled"
    except CompileError as error:
        return "refused" if error.diagnostics else "an error without diagnostics"
    except TooSlow:
        return f"slow: more than {SECONDS:.0f} s"
    except MemoryError:
        return "memory: more than 1 GiB"
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        return f"{type(problem).__name__}: {problem} ({Path(place.filename).name}:{place.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> int:
    """The command."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--seed", type=int, default=0, help="first seed")
    options.add_argument("--corpus", type=Path, help="folder of more programs to mutate")
    chosen = options.parse_args()
    signal.signal(signal.SIGVTALRM, _alarm)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, resource.RLIM_INFINITY))
    texts = corpus(chosen.corpus)
    OUT.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    slowest, seed = 0.0, chosen.seed
    end = time.monotonic() + 60 * chosen.minutes
    while time.monotonic() < end:
        random = Random(seed)
        if seed % 4 == 0:
            text = Grower(random).program()
        elif seed % 4 == 1:
            text = nearly_right(random)
        else:
            text = mutate(random.choice(texts), random, random.choice(texts))
        begin = time.process_time()
        result = attempt(text)
        slowest = max(slowest, time.process_time() - begin)
        counts[result] += 1
        if result not in ("compiled", "refused"):
            (OUT / f"{seed}.p4").write_text(text)
            print(f"seed {seed}: {result} -> {OUT / f'{seed}.p4'}", flush=True)
        seed += 1
    failed = sum(n for what, n in counts.items() if what not in ("compiled", "refused"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{seed - chosen.seed} programs: {counts['compiled']} compiled, {counts['refused']} refused, {failed} failed;"
        f" slowest {slowest:.2f} s of CPU, peak {peak} MiB"
    )
    return min(failed, 125)


if __name__ == "__main__":
    sys.exit(main())
