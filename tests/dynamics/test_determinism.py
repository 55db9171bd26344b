"""A virtual run is a function of its experiment: not of the machine, its load or its clock."""

from __future__ import annotations

import ast
import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from compiler.cache import cache_folder
from switch.native.build import runtime
from switch.native.cgen import generate
from switch.native.program import Program
from tests.dynamics import lab
from tests.dynamics.golden import RECORDS_SHA256
from xoff.clocks.simulation import VirtualRun
from xoff.experiment import Experiment
from xoff.prepare import compile_program as compile_p4

REPOSITORY = Path(__file__).resolve().parents[2]
PRODUCT = ("compiler", "switch", "topologies", "controller", "traffic", "xoff")
SMALL: dict[str, Any] = {
    "topology": "leafspine:leaves=2,spines=2,hosts_per_leaf=2", "workload": "alltoall:bytes=100KB",
    "congestion_control": "dcqcn", "sample": "10us", "telemetry": "edge", "load_balancing": "spray",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "driver", "hash_seed"), [("demo", "c", "3"), ("failures", "c", "1"), ("failures", "python", "2")]
)
def test_the_golden_runs_leave_their_records_under_either_driver(
    tmp_path: Path, name: str, driver: str, hash_seed: str
) -> None:
    environment = {**os.environ, "XOFF_DRIVER": driver, "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Kathmandu"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.dynamics.golden", name, str(tmp_path)],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == RECORDS_SHA256[name]


def test_a_program_whose_optimised_build_comes_later_leaves_the_same_records(tmp_path: Path) -> None:
    """The cache holds everything but programs: tcc's build begins, and the C compiler's takes over at some instant."""
    cache = tmp_path / "cache"
    cache.mkdir()
    runtime()
    for library in cache_folder().glob("*.so"):
        if not library.name.startswith("program-"):
            shutil.copy(library, cache)
    done = subprocess.run(
        [sys.executable, "-m", "tests.dynamics.golden", "failures", str(tmp_path)],
        cwd=REPOSITORY, env={**os.environ, "XOFF_CACHE": str(cache)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == RECORDS_SHA256["failures"]
    assert list(cache.glob("program-*.so")) and not list(cache.glob("making-*"))


def test_another_seed_leaves_other_records(tmp_path: Path) -> None:
    hashes = {lab.run(tmp_path, **SMALL, seed=seed).summary["records_sha256"] for seed in (1, 1, 2)}
    assert len(hashes) == 2


def test_a_slow_machine_leaves_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = lab.run(tmp_path, **SMALL).summary["records_sha256"]
    rng = random.Random(1)
    deliver = VirtualRun._deliver

    async def slow(self: VirtualRun, *arguments: Any) -> None:
        await asyncio.sleep(rng.choice((0, 0, 0, 0.004)))
        await deliver(self, *arguments)

    monkeypatch.setattr(VirtualRun, "_deliver", slow)
    assert lab.run(tmp_path, **SMALL).summary["records_sha256"] == undisturbed


CLOCKS = {
    getattr(time, name)
    for name in dir(time)
    if name.startswith(("time", "monotonic", "perf", "process_time", "thread_time", "clock_get", "localtime", "gmtime"))
    and callable(getattr(time, name))
}  # fmt: skip


def test_nothing_of_the_product_reads_a_clock_while_simulated_time_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of a C function is watched, however it was imported."""
    readers: set[str] = set()
    calls = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event == "c_call":
            calls += 1
            if argument in CLOCKS or getattr(argument, "__qualname__", "") in (
                "datetime.now",
                "datetime.utcnow",
            ):
                path = Path(frame.f_code.co_filename)
                if path.is_relative_to(REPOSITORY) and path.relative_to(REPOSITORY).parts[0] in PRODUCT:
                    readers.add(f"{path.relative_to(REPOSITORY)}:{frame.f_lineno}")

    simulate = VirtualRun._simulate

    async def watched(self: VirtualRun, *arguments: Any) -> None:
        sys.setprofile(watch)
        try:
            await simulate(self, *arguments)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(VirtualRun, "_simulate", watched)
    lab.run(
        tmp_path, **SMALL,
        actions=[{"at": "10us", "set_load_balancing": {"mode": "ecmp"}}, {"at": "5us", "pfc_storm": {"host": "h1"}},
                 {"at": "12us", "kill_switch": {"switch": "s2"}}, {"at": "15us", "restart_switch": {"switch": "s2"}}],
    )  # fmt: skip
    assert calls > 1000 and {time.monotonic_ns, time.time, time.perf_counter} < CLOCKS
    # A switch that comes back gets a new session, whose election id must outrank the last one's: no packet sees it.
    assert {reader for reader in readers if not reader.startswith("controller/session.py")} == set()


MININET = (
    "switch/native/capture.py",
    "topologies/runstate.py",
    "switch/bmv2.py",
    "traffic/host.py",
    "switch/native/daemon.py",
)

FORBIDDEN_SYMBOLS = {
    "clock_gettime", "clock", "time", "gettimeofday", "timespec_get", "ftime", "times", "getrusage", "clock_nanosleep",
    "rand", "random", "drand48", "getrandom", "getentropy",
}  # fmt: skip
WALL_CLOCK_FILES = {"loop.c"}
"""The packet loop of Mininet runs, which the virtual clock does not use."""


def undefined(sources: list[Path], folder: Path) -> dict[str, set[str]]:
    """What each C file takes from elsewhere."""
    compiler, nm = shutil.which("cc"), shutil.which("nm")
    if compiler is None or nm is None:
        pytest.skip("cc and nm are not installed")
    found = {}
    for source in sources:
        target = folder / f"{source.stem}.o"
        subprocess.run(
            [compiler, "-c", "-O0", "-w", f"-I{source.parent}", f"-I{REPOSITORY / 'switch' / 'native'}",
             "-o", str(target), str(source)], check=True,
        )  # fmt: skip
        lines = subprocess.run(
            [nm, "-u", str(target)], check=True, capture_output=True, text=True
        ).stdout.split()
        found[source.name] = {word for word in lines if word != "U"}
    return found


@pytest.mark.judge
def test_no_c_file_of_the_virtual_path_calls_a_clock_or_the_systems_random_numbers(tmp_path: Path) -> None:
    sources = sorted((REPOSITORY / "switch" / "native").glob("*.c"))
    sources += sorted((REPOSITORY / "traffic" / "nic").rglob("*.c"))
    symbols = undefined(sources, tmp_path)
    assert "clock_gettime" in symbols["loop.c"]  # the check sees what is there
    guilty = {
        name: used & FORBIDDEN_SYMBOLS for name, used in symbols.items() if name not in WALL_CLOCK_FILES
    }
    assert {name: used for name, used in guilty.items() if used} == {}


@pytest.mark.judge
def test_generated_programs_call_no_clock(tmp_path: Path) -> None:
    files = compile_p4(Experiment()).write(tmp_path)
    source = tmp_path / "program.c"
    source.write_text(generate(Program.from_text(files.json.read_text(), files.p4info.read_text())))
    assert not undefined([source], tmp_path)["program.c"] & FORBIDDEN_SYMBOLS


def test_modules_of_the_virtual_path_that_know_a_clock_are_few_and_known() -> None:
    """An import of `time` or `datetime` is how a wall-clock read gets in: each is listed with its reason."""
    known = {
        "controller/session.py": "election ids outrank those of controllers that were killed",
        "switch/native/p4runtime/device.py": "the clock of a device to which no driver gives its own",
        "xoff/folder.py": "the folder's name and the wall seconds of phases, in run.json",
        "xoff/prepare.py": "the wall seconds of compiling, in run.json",
        "xoff/clocks/simulation.py": "the wall seconds of the run, in run.json",
        "topologies/runstate.py": "Mininet's; comes along with xoff/shell.py",
    }
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, tests.dynamics.lab\n"
         "for module in list(sys.modules.values()): print(getattr(module, '__file__', None) or '')"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    paths = [Path(file).relative_to(REPOSITORY) for file in loaded if Path(file).is_relative_to(REPOSITORY)]
    product = [path for path in paths if path.parts[0] in PRODUCT and path.suffix == ".py"]
    assert len(product) > 50
    importers = set()
    for path in product:
        for node in ast.walk(ast.parse((REPOSITORY / path).read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module] if isinstance(node, ast.ImportFrom) else [])  # fmt: skip
            if {"time", "datetime"} & set(names):
                importers.add(str(path))
    assert importers == known.keys()
