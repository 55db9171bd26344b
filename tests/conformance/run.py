"""`python -m tests.conformance.run TESTDATA`: compile and run p4c's v1model STF programs, say pass or FAIL and why.

TESTDATA is p4c's testdata folder (or its p4_16_samples). `--target native` (default) or `bmv2` (with `--bin FOLDER` for
simple_switch). `--only TEXT` keeps programs whose name contains it. The last line is `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compiler.errors import CompileError
from compiler.preprocess import preprocess
from compiler.typecheck import check_source
from tests.conformance import bmv2
from tests.conformance.stf import Expect, Script, StfError, parse

KNOWN = {"extern-funcs-bmv2.p4": "needs a C++ module loaded into the switch"}
"""Programs that cannot pass, and why."""

Runner = Callable[[dict[str, Any], Script, int], dict[int, list[bytes]]]


def programs(testdata: Path) -> list[tuple[Path, Path]]:
    """v1model programs that have an STF script, and the script; P4_14 ones in p4c's translation to P4_16."""
    folder = testdata / "p4_16_samples" if (testdata / "p4_16_samples").is_dir() else testdata
    pairs = [(script.with_suffix(".p4"), script) for script in sorted(folder.rglob("*.stf"))]
    translated = testdata / "p4_14_samples_outputs"
    old = sorted((testdata / "p4_14_samples").glob("*.stf"))
    pairs += [(translated / f"{script.stem}.p4", script) for script in old]
    return [(p, s) for p, s in pairs if p.exists() and "v1model.p4" in p.read_text(errors="replace")]


def compile_json(program: Path) -> dict[str, Any]:
    """BMv2 JSON of a program."""
    from compiler.driver import back_end

    return back_end(check_source(preprocess(program)))[0]


def compare(script: Script, frames: dict[int, list[bytes]]) -> str | None:
    """None when the frames are those expected, else what differs."""
    for port in sorted(script.ports()):
        wanted = [step for step in script.steps if isinstance(step, Expect) and step.port == port]
        got = frames.get(port, [])
        for number, (want, frame) in enumerate(zip(wanted, got, strict=False)):
            if not want.matches(frame):
                end = "$" if want.exact else ""
                return f"port {port} frame {number}: expected {want.pattern}{end}, got {frame.hex()}"
        if len(wanted) != len(got):
            extra = f" first extra {got[len(wanted)].hex()}" if len(got) > len(wanted) else ""
            return f"port {port}: expected {len(wanted)} frames, got {len(got)}{extra}"
    return None


def check(program: Path, stf: Path, number: int, runner: Runner) -> str | None:
    """None when a program passes, else why not."""
    try:
        script = parse(stf.read_text())
        document = compile_json(program)
        return compare(script, runner(document, script, number))
    except CompileError as problem:
        return f"not compiled: {problem.diagnostics[0]}".split("\n", 1)[0]
    except StfError as problem:
        return str(problem)
    except Exception as problem:  # a crash is this program's result, with its place
        last = traceback.extract_tb(problem.__traceback__)[-1]
        return f"{type(problem).__name__}: {problem} ({Path(last.filename).name}:{last.lineno})"


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    options = argparse.ArgumentParser(prog="tests.conformance.run", description=__doc__)
    options.add_argument("testdata", type=Path)
    options.add_argument("--target", choices=("native", "bmv2"), default="native")
    options.add_argument("--bin", type=Path, default=Path("/usr/local/bin"), help="folder of simple_switch")
    options.add_argument("--only", default="")
    options.add_argument("--jobs", type=int, default=0, help="programs at a time (default: 1 native, 6 bmv2)")
    chosen = options.parse_args(arguments)
    sys.setrecursionlimit(20_000)
    found = [pair for pair in programs(chosen.testdata) if chosen.only in pair[0].name]
    if chosen.target == "bmv2":
        runner: Runner = lambda document, script, number: bmv2.run(document, script, number, chosen.bin)  # noqa: E731
    else:
        from tests.conformance import native

        runner = native.run
    jobs = chosen.jobs or (6 if chosen.target == "bmv2" else 1)
    passed = failed = unexplained = 0
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda item: check(*item[1], item[0], runner), enumerate(found))
        for (program, _), why in zip(found, results, strict=True):
            if why is None:
                passed += 1
                print(f"pass {program.name}", flush=True)
            else:
                failed += 1
                reason = KNOWN.get(program.name)
                unexplained += reason is None
                print(f"FAIL {program.name}: {why}" + (f" [known: {reason}]" if reason else ""), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
