"""In virtual time a user's controller learns and acts at exact simulated times, whatever the machine is doing."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4r

from switch.native.p4runtime.device import P4RuntimeDevice
from tests.dynamics.lab import STAR, US, Outcome, chain_ns, packets, run
from xoff.experiment import Experiment
from xoff.prepare import compile_program

HERE = Path(__file__).parent
RATE, DELAY, MTU, LATENCY = 100 * 10**9, 1_000, 1024, 30 * US
MESSAGE = 10_000


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The learning controller beside its compiled program."""
    folder = tmp_path_factory.mktemp("learning")
    compile_program(Experiment(program=str(HERE / "learning.p4"))).write(folder / "program")
    return Path(shutil.copy(HERE / "learning_controller.py", folder / "mine.py"))


def learn(tmp_path: Path, controller: Path, **options: Any) -> Outcome:
    settings = {
        "topology": STAR.format(3), "workload": {"kind": "incast", "bytes": MESSAGE}, "mtu": MTU, "rate": "100Gbps",
        "program": str(HERE / "learning.p4"), "controller": str(controller), "control_latency": f"{LATENCY}ns",
        "time_limit": "5ms",
    }  # fmt: skip
    return run(tmp_path, **{**settings, **options})


def notes(outcome: Outcome) -> list[tuple[int, str]]:
    """(the controller's own time, what it says) since the traffic began."""
    told = [r["text"].partition(" ") for r in outcome.of("note") if r["text"].partition(" ")[0].isdigit()]
    return [(int(time) - outcome.begin, text) for time, _, text in told]


def test_a_digest_is_heard_at_once_and_its_answer_takes_the_control_latency(
    tmp_path: Path, controller: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[tuple[int, int]] = []
    write = P4RuntimeDevice.write

    async def watched(self: P4RuntimeDevice, request: p4r.WriteRequest) -> None:
        writes.append((self._clock(), len(request.updates)))
        await write(self, request)

    monkeypatch.setattr(P4RuntimeDevice, "write", watched)
    outcome = learn(tmp_path, controller)
    assert outcome.summary["finished"]
    first = chain_ns(packets(MESSAGE, MTU)[:1], [RATE], DELAY)
    said = dict((text, time) for time, text in notes(outcome))
    wanted = next(text.removeprefix("asked for ") for text in said if text.startswith("asked for "))
    assert said[f"asked for {wanted}"] == first
    assert said[f"told of {wanted}"] == first + LATENCY
    assert said[f"rested after {wanted}"] == first + LATENCY + 7 * US
    assert (outcome.begin + first + LATENCY, 1) in writes
    assert all(t >= first + LATENCY for t in outcome.arrivals().values())


def spin() -> None:
    while True:
        pass


@pytest.fixture
def busy() -> Iterator[None]:
    """Two processes for each of the machine's processors that do nothing but compute."""
    hogs = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * multiprocessing.cpu_count())]
    for hog in hogs:
        hog.start()
    yield
    for hog in hogs:
        hog.kill()
        hog.join()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory, controller: Path) -> str:
    """The records' hash of a run on a machine left alone."""
    return str(learn(tmp_path_factory.mktemp("quiet"), controller).summary["records_sha256"])


@pytest.mark.parametrize("driver", ["c", "python"])
def test_a_reacting_controller_leaves_the_same_records_on_a_busy_machine(
    tmp_path: Path, controller: Path, quiet: str, busy: None, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XOFF_DRIVER", driver)
    assert learn(tmp_path, controller).summary["records_sha256"] == quiet


def test_another_latency_leaves_other_records(tmp_path: Path, controller: Path, quiet: str) -> None:
    assert learn(tmp_path, controller, control_latency="31us").summary["records_sha256"] != quiet


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The watching controller beside the compiled fabric program."""
    folder = tmp_path_factory.mktemp("watching")
    compile_program(Experiment()).write(folder / "program")
    return Path(shutil.copy(HERE / "watching_controller.py", folder / "mine.py"))


def watch(tmp_path: Path, controller: Path) -> Outcome:
    return run(
        tmp_path, topology="leafspine:leaves=2,spines=2,hosts_per_leaf=2", workload="alltoall:bytes=150KB", mtu=MTU,
        telemetry="edge", controller=str(controller), control_latency="3us", load_balancing="spray",
        congestion_control="dcqcn",
    )  # fmt: skip


def test_a_packet_in_is_heard_when_it_left_the_pipeline(tmp_path: Path, watching: Path) -> None:
    outcome = watch(tmp_path, watching)
    latency = 3 * US
    # Four switches at once: arbitration, cookie, program, read, write; then the timers get a millisecond.
    assert outcome.begin == 5 * latency + 1_000 * US
    said = {text: time for time, text in notes(outcome)}
    for leaf in ("l1", "l2"):
        (reported,) = (text for text in said if text.startswith(f"{leaf} reported"))
        left = int(reported.split()[-1]) - outcome.begin
        # The reports of both leaves may fall together; the one answered second waits for the first's answer.
        others = [time + latency for text, time in said.items() if "reported" in text and text != reported]
        assert said[reported] in (left, *others)
        assert said[f"{leaf} marks"] == said[reported] + latency
    assert min(time for text, time in said.items() if "reported" in text) in {
        int(text.split()[-1]) - outcome.begin for text in said if "reported" in text
    }


def test_hundreds_of_packet_ins_leave_the_same_records_on_a_busy_machine(
    tmp_path: Path, watching: Path, busy: None
) -> None:
    assert len({watch(tmp_path, watching).summary["records_sha256"] for _ in range(2)}) == 1


def test_a_switch_that_is_killed_is_missed_at_that_instant(tmp_path: Path) -> None:
    controller = tmp_path / "mine.py"
    controller.write_text(WATCHING)
    outcome = run(
        tmp_path, topology=STAR.format(2), workload={"kind": "incast", "bytes": MESSAGE}, time_limit="2ms",
        controller=str(controller), control_latency="30us", program=str(HERE / "learning.p4"),
        actions=[{"at": "50us", "kill_switch": {"switch": "l1"}}, {"at": "90us", "restart_switch": {"switch": "l1"}}],
    )  # fmt: skip
    # It comes back 30 us after 90 us; the next try is the one of 150 us, and its answer takes 30 us.
    connected, *later = notes(outcome)
    assert connected[1] == "connected 0"  # that takes no simulated time
    assert later == [(50 * US, "lost"), (180 * US, "back")]


WATCHING = '''
"""Keeps one stream open; when it breaks, tries again every 50 us."""
import asyncio
import grpc
from finsy.proto import p4r, p4r_grpc


async def main(plan, devices, emit):
    loop = asyncio.get_running_loop()

    def note(text):
        emit({"kind": "note", "text": f"{round(loop.time() * 1e9)} {text}"})

    async with grpc.aio.insecure_channel(devices["l1"]) as channel:
        await channel.channel_ready()
        note(f"connected {round(loop.time() * 1e9)}")
        stub, said = p4r_grpc.P4RuntimeStub(channel), None
        while True:
            stream = stub.StreamChannel()
            try:
                hello = p4r.MasterArbitrationUpdate(device_id=plan.switch("l1").device_id)
                await stream.write(p4r.StreamMessageRequest(arbitration=hello))
                await stream.read()
                emit({"kind": "ready"})
                if said:
                    note("back")
                await stream.read()
            except grpc.aio.AioRpcError:
                if not said:
                    said = True
                    note("lost")
            await asyncio.sleep(50e-6)
'''
