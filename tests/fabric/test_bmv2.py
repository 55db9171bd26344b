"""The same program on the real BMv2, compiled by p4c and by us: held queues, pauses, telemetry, refusals."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controller.app import FabricController, ProgramFiles
from switch.bmv2_runtime import Bmv2Runtime
from switch.device import TIMER_PORT
from tests.fabric import frames as f
from tests.fabric.bmv2 import Bmv2, bmv2, tool
from tests.fabric.conftest import SOURCE
from tests.fabric.native import Built, NativeSwitch
from tests.fabric.plans import LOSSLESS, LOSSY, star
from tests.fabric.test_forwarding import REFUSED
from tests.fabric.traffic import data, delivered, psn
from topologies.plan import FabricPlan, IntPolicy

pytestmark = [
    pytest.mark.judge,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="veth ports need root"),
    pytest.mark.skipif(tool("simple_switch_grpc") is None, reason="simple_switch_grpc is not installed"),
]

RATE_BPS = 4_000_000
PPS = 500
"""Packets/s of each egress queue: a held packet costs one slot a turn."""


@pytest.fixture(scope="session")
def by_p4c(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """fabric.p4 by p4c."""
    compiler = tool("p4c-bm2-ss")
    if compiler is None:
        pytest.skip("p4c-bm2-ss is not installed")
    folder = tmp_path_factory.mktemp("p4c")
    files = Built(folder / "fabric.json", folder / "fabric.p4info.txtpb")
    subprocess.run(
        [compiler, "--std", "p4-16", "-o", str(files.json), "--p4runtime-files",
         str(files.p4info), str(SOURCE)],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


@pytest.fixture(params=["p4c", "ours"])
def program(request: pytest.FixtureRequest) -> Built:
    """The program by either compiler."""
    found: Built = request.getfixturevalue("by_p4c" if request.param == "p4c" else "built")
    return found


@dataclass
class Lab:
    """A programmed BMv2 and the records of its controller."""

    switch: Bmv2
    controller: FabricController
    records: list[dict[str, Any]]
    loop: asyncio.AbstractEventLoop

    def send_all(self, port: int, frames: list[bytes]) -> None:
        """Spaced, because BMv2's capture loses frames of a burst."""
        for frame in frames:
            self.switch.send(port, frame)
            time.sleep(0.002)

    def receive(self, seconds: float, until: int | None = None) -> list[tuple[int, bytes]]:
        """Frames that leave, while the controller's stream goes on."""
        return self.loop.run_until_complete(asyncio.to_thread(self.switch.receive, seconds, until=until))

    def pause(self, port: int, frame: bytes) -> None:
        """Send a PFC frame and wait until it has been counted: BMv2 takes its ports' frames in no order."""
        name = ("pfc_rx_xoff", port, 3)
        before = self.counters().get(name, 0)
        self.switch.send(port, frame)
        deadline = time.monotonic() + 10
        while self.counters().get(name, 0) == before:
            assert time.monotonic() < deadline, "the PFC frame was not counted"

    def counters(self) -> dict[tuple[str, int, int], int]:
        """Name or drop reason, port, class to packets."""
        self.loop.run_until_complete(self.controller.collect())
        return {
            (r.get("name") or r["reason"], r["port"], r["class"]): r["packets"]
            for r in self.records
            if r["kind"] in ("counter", "drop")
        }


@pytest.fixture
def lab(program: Built, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A star on BMv2; `@pytest.mark.parametrize("plan", …)` chooses the plan."""
    plan: FabricPlan = (
        request.getfixturevalue("plan") if "plan" in request.fixturenames else star(rate_bps=RATE_BPS)
    )
    loop = asyncio.new_event_loop()
    records: list[dict[str, Any]] = []
    with bmv2(4, tmp_path) as switch:
        controller = FabricController(
            plan, {"s1": switch.address}, ProgramFiles(program.json, program.p4info), records.append
        )
        loop.run_until_complete(controller.start(timeout=30))
        with Bmv2Runtime(switch.thrift_port) as runtime:
            for port in (1, 2, 3, 4):
                runtime.set_queue_rate(PPS, port)
                runtime.set_queue_depth(2000, port)
            runtime.set_queue_rate(40, TIMER_PORT)
        yield Lab(switch, controller, records, loop)
        loop.run_until_complete(controller.stop())
    loop.close()


def test_p4info_is_what_p4c_writes(by_p4c: Built, built: Built) -> None:
    assert built.schema().p4info == by_p4c.schema().p4info


def test_a_paused_queue_is_held_and_leaves_in_order(lab: Lab) -> None:
    lab.pause(2, f.pfc({3: 0xFFFF}))
    lab.receive(0.1)
    lab.send_all(1, [data(1, 2, psn=index) for index in range(60)])
    held = lab.receive(1.0)
    assert [port for port, _ in held] == [1] * len(held)  # XOFF to the sender and its refreshes only
    assert {str(f.read_pfc(frame)) for _, frame in held} == {"{3: 65535}"}
    assert len(held) >= 5
    lab.switch.send(2, f.pfc({3: 0}))
    out = lab.receive(10.0, until=61)
    out += lab.receive(0.3)
    assert [frame for port, frame in out if port == 2] == [delivered(1, 2, psn=index) for index in range(60)]
    assert [f.read_pfc(frame) for port, frame in out if port == 1][-1] == {3: 0}
    count = lab.counters()
    assert count["tx", 2, 3] == 60 and count["holds", 2, 3] > 100
    assert ("lost", 2, 3) not in count
    assert count["pfc_tx_xon", 1, 3] == 1


@pytest.mark.parametrize("plan", [star(rate_bps=400_000)])
def test_a_pause_expires_by_itself(lab: Lab, plan: FabricPlan) -> None:
    quanta_s = 2000 * 512 / 400_000
    before = time.monotonic()
    lab.pause(2, f.pfc({3: 2000}))
    after = time.monotonic()
    lab.switch.send(1, data(1, 2))
    ((port, _),) = lab.receive(10.0, until=1)
    arrived = time.monotonic()
    assert port == 2 and arrived - before > quanta_s - 0.02
    assert arrived - after < quanta_s + 3.0


def test_packets_stay_in_order_while_the_port_is_paused_and_resumed(lab: Lab) -> None:
    numbers = iter(range(60))
    got: list[int] = []
    for _ in range(10):
        lab.switch.send(2, f.pfc({3: 0xFFFF}))
        lab.send_all(1, [data(1, 2, psn=next(numbers)) for _ in range(6)])
        lab.switch.send(2, f.pfc({3: 0}))
        got += [psn(frame) for port, frame in lab.receive(0.05) if port == 2]
    while len(got) < 60 and (more := lab.receive(2.0, until=1)):
        got += [psn(frame) for port, frame in more if port == 2]
    assert got == list(range(60))


@pytest.mark.parametrize("plan", [star(rate_bps=RATE_BPS, telemetry=IntPolicy(mode="edge", sample_every=2))])
def test_the_edge_strips_telemetry_and_reports_it(lab: Lab, plan: FabricPlan) -> None:
    lab.send_all(1, [data(1, 2, psn=index) for index in range(4)])
    out = lab.receive(1.0, until=4)
    assert [frame for _, frame in out] == [delivered(1, 2, psn=index) for index in range(4)]
    lab.receive(0.3)
    reports = [r for r in lab.records if r["kind"] == "int"]
    assert len(reports) == 2
    (hop,) = reports[1]["hops"]
    assert (hop["node_id"], hop["in_port"], hop["out_port"], hop["queue"]) == (7, 1, 2, 3)
    assert hop["tx_bytes"] == 3 * 524 and hop["rate_kbps"] == 4000
    assert 0 <= hop["latency"] == hop["out_ts"] - hop["in_ts"]


def test_the_timer_laps(lab: Lab) -> None:
    laps = lab.loop.run_until_complete(lab.controller.verify_timers(wait=1.0))
    assert 30 <= laps["s1"] <= 50


@pytest.mark.parametrize("plan", [star(rate_bps=RATE_BPS, classes={3: LOSSLESS, 0: LOSSY, 4: LOSSLESS})])
def test_it_answers_every_frame_as_the_native_switch_does(lab: Lab, plan: FabricPlan, built: Built) -> None:
    probe = f.int_headers(instructions=0x9080, ds=0x4000, hop_ml=4, stack=bytes(8))
    frames = [
        data(1, 2, psn=1),
        data(1, 3, dscp=0, ecn=1, size=1400),
        data(1, 4, dscp=46, ttl=2),
        f.ethernet("02:00:00:00:01:01", "02:00:00:00:02:01", 0x0800,
                   f.ipv4("10.0.0.1", "10.0.0.2", f.udp(9, f.INT_PORT, probe + f.bth() + bytes(100)))),
        f.ethernet("02:00:00:00:01:01", "02:00:00:00:02:01", 0x0800,
                   f.ipv4("10.0.0.1", "10.0.0.2", f.udp(9, f.INT_PORT, f.int_headers(
                       instructions=0x8000, hop_ml=1, remaining=0) + f.bth(0x11) + bytes(8)))),
        f.pfc({0: 5, 7: 5}),
        *(refused.ljust(60, b"\0") for _, refused in REFUSED if len(refused) >= 60),
    ]  # fmt: skip
    native = NativeSwitch(built, replace(plan), timestamp_hz=10**6)
    for frame in frames:
        native.send(1, frame)
        native.drain()
        lab.switch.send(1, frame)
        time.sleep(0.01)
    expected = [(out.port, out.frame) for out in native.take()]
    assert lab.receive(2.0, until=len(expected)) == expected
    assert lab.receive(0.2) == []
    count = lab.counters()
    for (reason, port, cls), packets in native.drops().items():
        assert count[reason, port, cls] == packets
    native.close()
