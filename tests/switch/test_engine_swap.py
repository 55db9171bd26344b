"""A program runs at once, and its optimised build takes over behind it without a trace."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gated_compiler import GatedCompiler, builds_done
from p4programs import ROOT, compiled
from probe import engine, frame, seen
from test_fabric import PORTS, US, Host, make_engine
from test_fabric import frames as fabric_frames

from compiler import compile_cached
from compiler.cache import cache_folder
from switch.native import abi, build, compilers
from switch.native.binding import Engine
from switch.native.packetloop import PacketLoop
from switch.native.program import Program
from switch.native.trace import trace_packet
from xoff.clocks.fabric import FabricClock

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler on PATH"),
    pytest.mark.skipif(compilers.sanitized(), reason="with sanitizers a program has one build"),
]
PROGRAMS = ("decisions", "headers", "state", "tables", "entities")
XF_EABI = -8


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GatedCompiler]:
    """An empty cache and a compiler that waits."""
    compiler = GatedCompiler(tmp_path)
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XOFF_CC", str(compiler.path))
    monkeypatch.delenv("XOFF_BUILD", raising=False)
    yield compiler
    for process in compiler.started:  # what a failed test left waiting
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    builds_done()


def load(name: str) -> Program:
    """tests/switch/programs/NAME.p4, or fabric.p4."""
    if name == "fabric":
        document, p4info = fabric_files()
    else:
        json_file, p4info_file = compiled(name)
        document, p4info = json_file.read_text(), p4info_file.read_text()
    return Program.from_text(document, p4info)


def fabric_files() -> tuple[str, str]:
    """fabric.p4 as BMv2 JSON and P4Info text."""
    made = compile_cached(ROOT / "p4src" / "fabric.p4", cache_folder())
    return json.dumps(made.json), made.p4info


def state(e: Engine) -> dict[str, Any]:
    """All that can be read of an engine."""
    assert e.program is not None
    return {
        "counters": {name: e.counter_read_all(name) for name in e.program.counters},
        "registers": {name: e.register_read_all(name) for name in e.program.registers},
        "tables": {name: (e.table_stats(name), e.table_entries(name)) for name in e.program.tables},
        "ports": [(e.port_stats(port), e.queue_stats(port)) for port in range(8)],
        "drops": e.drops(),
        "faults": e.faults(),
        "log": e.take_log(),
        "digests": e.take_digests(),
        "deadline": e.next_deadline(),
    }


def random_frames(name: str, count: int) -> list[tuple[int, bytes]]:
    rng = random.Random(name)
    sizes = (14, 64, 96, 300)
    made = []
    for _ in range(count):
        data = bytes(rng.choice([rng.randrange(24), rng.randrange(256)]) for _ in range(rng.choice(sizes)))
        made.append((rng.randrange(8), data))
    return made


def drive(e: Engine, frames: list[tuple[int, bytes]], at: int, swap: Callable[[], None]) -> list[object]:
    """What comes out of slow ports when frames go in faster, `swap` being called when `at` of them have."""
    for port in range(8):
        e.add_port(port, 10**9, 5_000)
    e.clone_session_set(5, 5)
    e.clone_session_set(6, 4)
    e.multicast_group_set(7, [(3, 30), (4, 40)])
    out: list[object] = []
    now = 0
    for number, (port, data) in enumerate(frames):
        if number == at:
            swap()
        now += 300
        e.rx(port, data, now)
        out += e.poll_timed(now)
    out.append(state(e))
    out += e.poll_timed(now + 10**6)
    out.append(state(e))
    return out


@pytest.mark.parametrize("name", [*PROGRAMS, "fabric"])
def test_what_a_switch_does_does_not_depend_on_when_the_optimised_build_takes_over(
    name: str, gate: GatedCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = random_frames(name, 300)

    def swap(e: Engine) -> None:
        assert not e.optimised
        gate.let()
        builds_done()

    with Engine(load(name), seed=3) as e:
        swapped = drive(e, frames, 150, lambda: swap(e))
        assert e.optimised
    with Engine(load(name), seed=3) as e:
        assert e.optimised  # it was kept
        assert drive(e, frames, 0, lambda: None) == swapped
    monkeypatch.setenv("XOFF_CC", "tcc")
    with Engine(load(name), seed=3) as e:
        assert drive(e, frames, 0, lambda: None) == swapped
    assert len(gate.started) == 1


def test_what_is_queued_paused_and_under_way_goes_on(gate: GatedCompiler) -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, 10**9, 50_000)
        e.register_write("pause", 2 * 8 + 3, 10_000)
        for number in range(20):
            e.rx(1, frame(2, priority=3, tag=b"held%02d" % number), 100 + number)
        e.rx(1, frame(2, priority=0, tag=b"flying"), 200)
        assert e.poll(5_000) == []
        before = e.queue_stats(2)[3]
        gate.let()
        builds_done()
        assert not e.optimised  # it takes over with the next frame or poll
        assert e.poll(6_000) == []
        assert e.optimised
        assert e.queue_stats(2)[3].packets == before.packets == 20
        assert e.register_read("pause", 2 * 8 + 3) == 10_000
        out = [seen(data, 6) for _, data in e.poll(10**6)]
        assert [f.tag for f in out] == [b"flying", *(b"held%02d" % number for number in range(20))]
        assert [f.ingress_ts for f in out[1:]] == list(range(100, 120))
        assert out[1].egress_ts == 10_000  # the pause still ended when it was to end


def test_a_switch_of_a_fabric_goes_on_in_the_middle_of_a_run(gate: GatedCompiler) -> None:
    program = load("decisions")

    class Swapping(Host):
        """Lets the build be finished when half of its frames are out."""

        def poll(self, now: int) -> list[tuple[int, bytes]]:
            if now >= 10 * US and not built:
                built.append(now)
                gate.let()
                builds_done()
            return super().poll(now)

    def outcome() -> list[object]:
        clock = FabricClock()
        engines = [make_engine(program, 1), make_engine(program, 2)]
        hosts = [Swapping(fabric_frames(1)), Host(fabric_frames(2))]
        for i in (0, 1):
            clock.add(f"s{i}", engines[i])
            clock.add(f"h{i}", hosts[i])
            for port in (0, 4, 5):
                clock.connect(f"s{i}", port, f"h{i}", port)
        for port in (1, 2, 3):
            clock.connect("s0", port, "s1", port)
        clock.run(until=100 * US)
        result: list[object] = [clock.traversals, *(host.seen for host in hosts)]
        for e in engines:
            assert e.optimised
            result += [e.drops(), e.faults(), *(e.port_stats(p) for p in PORTS)]
            e.close()
        return result

    built: list[int] = []
    swapped = outcome()
    assert built and len(swapped[1]) > 50  # type: ignore[arg-type]
    assert outcome() == swapped


def test_a_traced_switch_tells_the_same_before_and_after(gate: GatedCompiler) -> None:
    with Engine(load("entities"), traced=True) as e:
        for port in (1, 2):
            e.add_port(port)
        data = bytes.fromhex("000000000007000000000001" + "1001" + "0a010203" + "0009" + "05" + "00") + bytes(
            40
        )
        before = trace_packet(e, 1, data).text()
        gate.let()
        builds_done()
        assert trace_packet(e, 1, data).text() == before
        assert e.optimised and "table EntitiesIngress.acl" in before


def test_no_frame_is_lost_under_the_packet_loop(gate: GatedCompiler) -> None:
    """Frames go round through a packet thread, some always under way, while the build takes over."""
    window = 32
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    loop = PacketLoop()
    with engine() as e:
        device = loop.add_device(e)
        for port, (inside, outside) in enumerate(pairs, 1):
            e.add_port(port)
            inside.setblocking(False)
            outside.settimeout(60)
            loop.add_port(device, port, inside.fileno())
        loop.start()
        sent = received = 0
        last = None  # frame to be sent
        opening = threading.Thread(target=gate.let)
        while received != last:
            while sent < received + window and sent != last:
                pairs[0][1].send(frame(2, tag=b"%08d" % sent))
                sent += 1
            assert seen(pairs[1][1].recv(2000), 8).tag == b"%08d" % received
            received += 1
            if received == 1_000:
                assert not e.optimised
                opening.start()
            if last is None and received % window == 0 and e.optimised:
                last = sent + 1_000
        opening.join()
        assert e.port_stats(1).rx_packets == e.port_stats(2).tx_packets == sent
        assert e.queue_stats(2)[0].in_packets == sent
        assert loop.port_stats(device, 1).rx_packets == loop.port_stats(device, 2).tx_packets == sent
        assert set(e.drops().values()) == {(0, 0)}
        loop.close()
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_compiler_that_fails_is_told_of_once_and_tccs_build_goes_on(
    gate: GatedCompiler, caplog: pytest.LogCaptureFixture
) -> None:
    with engine() as a, engine() as b:
        gate.let("no such luck")
        builds_done()
        with engine() as late:
            for e in (a, b, late):
                e.add_port(1)
                e.add_port(2)
                e.rx(1, frame(2), 0)
                assert len(e.poll(0)) == 1 and not e.optimised
    (told,) = [record.getMessage() for record in caplog.records if record.name.startswith("switch.native")]
    assert "no such luck" in told and "goes on with tcc's" in told
    assert len(gate.started) == 1


def test_one_build_serves_every_switch_that_runs_the_program(gate: GatedCompiler) -> None:
    engines = [engine(device_id=i) for i in range(5)]
    gate.let()
    builds_done()
    for e in engines:
        e.poll(0)
        assert e.optimised
        e.close()
    assert len(gate.started) == 1


def test_what_nobody_waits_for_any_more_is_not_built(
    gate: GatedCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from switch.native import background

    monkeypatch.setattr(background, "_builder", background.Builder(at_once=1))
    with engine() as e:
        other = Engine(load("headers"))
        other.set_pipeline(load("decisions"))
        other.close()
        gate.let()
        builds_done()
        e.poll(0)
        assert e.optimised
    assert len(gate.started) == 1


def test_a_build_that_comes_after_another_program_was_loaded_is_not_run(gate: GatedCompiler) -> None:
    with engine() as e:
        program = load("decisions")
        e.set_pipeline(program)
        for _ in range(2):
            gate.let()
        builds_done()
        e.poll(0)
        assert e.optimised and e.program is program
        e.set_pipeline(None)
        assert not e.optimised


def test_a_build_of_another_program_or_layout_is_refused() -> None:
    library = abi.library()
    codes = [build.compile_program(load(name)) for name in ("queues", "headers")]
    with engine() as e:
        (own, *_) = e._state.codes
        assert library.xf_offer(e.handle, own.descriptor, codes[0].descriptor) == 0
        assert library.xf_offer(e.handle, own.descriptor, codes[1].descriptor) == XF_EABI
        e.poll(0)
        assert library.xf_running(e.handle) == codes[0].descriptor
    for code in codes:
        code.close()


def test_without_tcc_a_program_is_built_by_the_c_compiler_before_it_runs(
    gate: GatedCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "find_tcc", lambda: None)
    thread = threading.Thread(target=gate.let)
    thread.start()
    with engine() as e:
        assert e.optimised
    thread.join()


def test_a_program_that_tcc_cannot_build_is_built_by_the_c_compiler(
    gate: GatedCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = shutil.which("false")
    assert false is not None
    monkeypatch.setattr(build, "find_tcc", lambda: build.Compiler("tcc", (false,), "broken", is_tcc=True))
    thread = threading.Thread(target=gate.let)
    thread.start()
    with engine() as e:
        assert e.optimised
    thread.join()


def test_a_wish_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XOFF_BUILD", "soon")
    with pytest.raises(build.BuildError, match="XOFF_BUILD is 'soon'; it can be 'swap' or 'wait'"):
        engine()


RUN = """
import sys
from pathlib import Path
from switch.native.binding import Engine
from switch.native.program import Program
engines = [
    Engine(Program.from_text(Path(json).read_text(), Path(p4info).read_text()))
    for json, p4info in zip(sys.argv[1::2], sys.argv[2::2])
]
assert not any(e.optimised for e in engines)
print("running", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> tuple[GatedCompiler, Path]:
    """A compiler whose gate stays shut, and a cache that holds the runtime by it."""
    folder = tmp_path_factory.mktemp("waiting")
    compiler = GatedCompiler(folder)
    environment = {**os.environ, "XOFF_CACHE": str(folder / "cache"), "XOFF_CC": str(compiler.path)}
    subprocess.run(
        [sys.executable, "-c", "from switch.native.build import runtime; runtime()"],
        env=environment,
        cwd=ROOT,
        check=True,
    )
    return compiler, folder / "cache"


@pytest.mark.parametrize("ends_by", ["itself", "Ctrl-C"])
def test_a_process_that_ends_leaves_no_compiler_and_no_file_behind(
    ends_by: str, waiting: tuple[GatedCompiler, Path]
) -> None:
    compiler, cache = waiting
    turn = len(compiler.started)
    environment = {**os.environ, "XOFF_CACHE": str(cache), "XOFF_CC": str(compiler.path)}
    environment.pop("XOFF_BUILD", None)
    files = [str(file) for name in ("queues", "headers", "state") for file in compiled(name)]
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *files],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    gate = os.open(compiler.gate(turn), os.O_WRONLY)  # waits for a compiler to have come there
    assert list(cache.glob("making-*"))
    if ends_by == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    os.close(gate)
    started = compiler.started[turn:]
    assert started
    assert process.returncode == (-signal.SIGINT if ends_by == "Ctrl-C" else 0)
    assert ("KeyboardInterrupt" in said) == (ends_by == "Ctrl-C") and "optimised" not in said
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not list(cache.glob("making-*"))
