"""The controller against native switches' P4Runtime servers on loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.app import ControllerError, FabricController, ProgramFiles, run_controller_file
from switch.device import LOOP_PORT, TIMER_PORT, DeviceSpec, PortSpec
from switch.device_file import write_devices
from switch.link import wire_bytes
from switch.native.binding import Engine
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.p4runtime.server import P4RuntimeServer
from tests.fabric.native import Built
from tests.fabric.plans import LOSSLESS, LOSSY, star
from tests.fabric.traffic import data, delivered
from topologies.fattree import fattree
from topologies.plan import ClassPolicy, FabricPlan, IntPolicy
from topologies.planning import make_plan

REPO = Path(__file__).resolve().parents[2]


class Served:
    """A native switch with its P4Runtime server; time stands still but for the frames that are sent."""

    def __init__(self, plan: FabricPlan, index: int = 0) -> None:
        switch = plan.switches[index]
        self.device_id = switch.device_id
        self.engine = Engine(None, device_id=switch.device_id)
        for port in (*(p.number for p in switch.ports), LOOP_PORT):
            self.engine.add_port(port)
        self.engine.add_port(TIMER_PORT, wire_bytes(60) * 8 * 1000)
        self.now = 0
        self.device = P4RuntimeDevice(
            switch.device_id, self.engine, wake=lambda: None, clock=lambda: self.now
        )
        self.server = P4RuntimeServer(self.device)

    async def start(self, address: str = "127.0.0.1:0") -> str:
        self.address = await self.server.start(address)
        return self.address

    async def stop(self) -> None:
        await self.server.stop()
        self.device.close()
        self.engine.close()

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        self.now += 10**6
        self.engine.rx(port, frame, self.now)
        out = self.engine.poll(self.now)
        self.device.drain(self.engine.pending())
        return out


def run(body: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine."""

    async def limited() -> None:
        await asyncio.wait_for(body(), 60)

    asyncio.run(limited())


def files(built: Built) -> ProgramFiles:
    return ProgramFiles(built.json, built.p4info)


def test_a_star_forwards_once_it_is_programmed(built: Built) -> None:
    async def body() -> None:
        plan = star()
        served = Served(plan)
        records: list[dict[str, Any]] = []
        controller = FabricController(
            plan, {"s1": await served.start()}, files(built), records.append, clock=lambda: 42
        )
        await controller.start(timeout=20)
        assert controller.states() == {"s1": "ready"}
        assert served.send(1, data(1, 2, psn=3)) == [(2, delivered(1, 2, psn=3))]
        served.send(1, data(1, 2, ttl=1))
        await controller.collect()
        tx = next(r for r in records if r.get("name") == "tx")
        assert tx == {
            "t": 42, "kind": "counter", "node": "s1", "name": "tx", "port": 2, "class": 3, "packets": 1,
            "bytes": 500,
        }  # fmt: skip
        (drop,) = [r for r in records if r["kind"] == "drop"]
        assert (drop["reason"], drop["port"], drop["packets"]) == ("ttl", 1, 1)
        records.clear()
        await controller.collect()
        assert [r for r in records if r.get("name") != "laps"] == []  # nothing changed
        await controller.stop()
        await served.stop()

    run(body)


def test_twenty_switches_come_up_at_once(built: Built) -> None:
    async def body() -> None:
        plan = make_plan(fattree(4))
        switches = [Served(plan, index) for index in range(len(plan.switches))]
        addresses = {
            spec.name: await served.start() for spec, served in zip(plan.switches, switches, strict=True)
        }
        controller = FabricController(plan, addresses, files(built))
        await controller.start(timeout=50)
        assert set(controller.states().values()) == {"ready"}
        first, host = switches[0], plan.hosts[0]
        assert len(first.engine.table_entries("FabricIngress.routing.ipv4_lpm")) == len(
            plan.switches[0].routes
        )
        assert host.switch == plan.switches[0].name
        await controller.stop()
        for served in switches:
            await served.stop()

    run(body)


def test_a_switch_that_restarts_is_programmed_again(built: Built) -> None:
    async def body() -> None:
        plan = star()
        served = Served(plan)
        address = await served.start()
        controller = FabricController(plan, {"s1": address}, files(built))
        await controller.start(timeout=20)
        await controller.set_load_balancing("spray")
        await served.stop()
        again = Served(plan)
        await again.start(address)
        await controller.wait_programmed("s1", 2, timeout=20)
        assert again.send(1, data(1, 2)) == [(2, delivered(1, 2))]
        action = again.engine.table_default_get("FabricIngress.routing.load_balancing")
        assert action is not None and action[1][0] == 1  # what was changed live survives
        await controller.stop()
        await again.stop()

    run(body)


def test_a_new_controller_repairs_what_is_wrong_and_leaves_the_rest(built: Built) -> None:
    async def body() -> None:
        plan = star()
        wrong = star(groups={"11.0.0.0/8": (1, 2)}, seed=99)
        routes = (replace(wrong.switches[0].routes[0], ports=(4,)), *wrong.switches[0].routes[1:])
        wrong = replace(wrong, switches=(replace(wrong.switches[0], routes=routes),))
        served = Served(plan)
        address = await served.start()
        first = FabricController(wrong, {"s1": address}, files(built))
        await first.start(timeout=20)
        table = "FabricIngress.routing.ipv4_lpm"
        before = {entry.handle: entry.args for entry in served.engine.table_entries(table)}
        assert sorted(args[0] for args in before.values())[:4] == [2, 3, 4, 4]
        second = FabricController(plan, {"s1": address}, files(built))
        await second.start(timeout=20)
        after = {entry.handle: entry.args for entry in served.engine.table_entries(table)}
        assert sorted(args[0] for args in after.values()) == [1, 2, 3, 4]
        kept = {handle for handle, args in before.items() if args in ((2,), (3,))}
        assert kept < set(after)  # not deleted and made anew
        assert served.engine.table_entries("FabricIngress.routing.next_hop_group") == []
        await second.stop()
        await first.stop()
        await served.stop()

    run(body)


def test_a_switch_that_another_controller_takes_is_noted(built: Built) -> None:
    async def body() -> None:
        plan = star()
        served = Served(plan)
        address = await served.start()
        taken: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        first = FabricController(plan, {"s1": address}, files(built), taken.set_result)
        await first.start(timeout=20)
        second = FabricController(plan, {"s1": address}, files(built))
        await second.start(timeout=20)
        note = await asyncio.wait_for(taken, 20)
        assert note["kind"] == "note" and "s1: another controller has taken charge of it" in note["text"]
        await first.collect()
        await second.stop()
        await first.stop()
        await served.stop()

    run(body)


def test_live_changes_reach_the_switch(built: Built) -> None:
    async def body() -> None:
        plan = star()
        served = Served(plan)
        controller = FabricController(plan, {"s1": await served.start()}, files(built))
        await controller.start(timeout=20)
        await controller.set_route("s1", "10.0.0.2/32", [3])
        assert [port for port, _ in served.send(1, data(1, 2))] == [3]
        await controller.set_route("s1", "10.0.0.2/32", [2, 4])
        await controller.cordon("s1", 2)
        assert [port for port, _ in served.send(1, data(1, 2))] == [4]
        await controller.uncordon("s1", 2)
        await controller.set_route("s1", "10.0.0.2/32", [2])
        await controller.set_class_map("s1", 2, 3, 5)
        ((_, frame),) = served.send(1, data(1, 2))
        assert frame[15] >> 2 == 40
        await controller.set_class_map("s1", 2, 3, 3)
        ((_, frame),) = served.send(1, data(1, 2))
        assert frame[15] >> 2 == 24
        await controller.set_class_policy(3, ClassPolicy(lossless=False, queue_limit_bytes=100))
        assert served.send(1, data(1, 2)) == []
        await controller.stop()
        await served.stop()

    run(body)


def test_telemetry_reports_become_records(built: Built) -> None:
    async def body() -> None:
        plan = star(telemetry=IntPolicy(mode="edge"))
        served = Served(plan)
        records: list[dict[str, Any]] = []
        arrived = asyncio.Event()

        def emit(record: dict[str, Any]) -> None:
            records.append(record)
            arrived.set()

        controller = FabricController(plan, {"s1": await served.start()}, files(built), emit)
        await controller.start(timeout=20)
        served.send(1, data(1, 2))
        await asyncio.wait_for(arrived.wait(), 10)
        assert (records[0]["kind"], records[0]["node"], len(records[0]["hops"])) == ("int", "s1", 1)
        await controller.stop()
        await served.stop()

    run(body)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.set_route("s9", "10.0.0.0/8", [1]), "'s9' is not under control; there are s1"),
        (lambda c: c.set_route("s1", "10.0.0.1/8", [1]), "not an IP prefix"),
        (lambda c: c.set_route("s1", "10.0.0.0/8", [77]), "s1 has no port 77; it has 1, 2, 3, 4"),
        (lambda c: c.set_route("s1", "10.0.0.0/8", []), "at least one port"),
        (lambda c: c.set_load_balancing("magic"), "'magic' is unknown; accepted: ecmp, spray, adaptive"),
        (lambda c: c.set_class_map("s1", 1, 8, 0), "class 8 does not exist"),
        (lambda c: c.set_class_policy(3, replace(LOSSLESS, ecn_kmin_bytes=9)), "kmin <= kmax"),
        (lambda c: c.cordon("s1", 0), "no port 0"),
    ],
)
def test_a_wrong_operation_is_one_sentence(
    built: Built, call: Callable[[FabricController], Awaitable[None]], message: str
) -> None:
    async def body() -> None:
        controller = FabricController(star(), {"s1": "127.0.0.1:1"}, files(built))
        with pytest.raises(ControllerError, match=message):
            await call(controller)

    run(body)


def test_a_switch_that_does_not_answer_is_named(built: Built) -> None:
    async def body() -> None:
        controller = FabricController(star(), {"s1": "127.0.0.1:1"}, files(built))
        with pytest.raises(
            ControllerError, match=r"1 of 1 switches .* within 1 s: s1 at 127.0.0.1:1: .*refused"
        ):
            await controller.start(timeout=1)

    run(body)


def test_a_program_that_the_switch_refuses_ends_the_bring_up(built: Built, tmp_path: Path) -> None:
    async def body() -> None:
        plan = star()
        served = Served(plan)
        bad = tmp_path / "bad.json"
        bad.write_text("{}")
        controller = FabricController(plan, {"s1": await served.start()}, ProgramFiles(bad, built.p4info))
        with pytest.raises(ControllerError, match=r"s1 at .*: invalid_argument"):
            await controller.start(timeout=30)
        await served.stop()

    run(body)


def test_an_unknown_switch_name_is_refused(built: Built) -> None:
    with pytest.raises(ControllerError, match="'s2' is not in the plan"):
        FabricController(star(), {"s2": "127.0.0.1:1"}, files(built))


def test_a_users_controller_runs_instead(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "async def main(plan, devices, emit):\n"
        "    emit({'kind': 'note', 'text': f'{plan.name} {sorted(devices)}'})\n"
    )
    records: list[dict[str, Any]] = []
    run(lambda: run_controller_file(script, star(), {"s1": "x:1"}, records.append))
    assert records == [{"kind": "note", "text": "star ['s1']"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def main(plan, devices, emit): pass", "needs `async def main"),
        ("import nowhere_at_all", "cannot be loaded: ModuleNotFoundError"),
        ("async def main(plan, devices, emit): raise ValueError('no')", "failed: ValueError: no"),
    ],
)
def test_a_users_controller_that_cannot_run_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    script = tmp_path / "mine.py"
    script.write_text(text + "\n")
    with pytest.raises(ControllerError, match=message):
        run(lambda: run_controller_file(script, star(), {}, lambda record: None))


def devices_file(built: Built, folder: Path, plan: FabricPlan, address: str) -> Path:
    path = folder / "devices.json"
    ports = tuple(PortSpec(port.number, None, 0) for port in plan.switches[0].ports)
    write_devices(
        path, [DeviceSpec("s1", plan.switches[0].device_id, ports, built.json, built.p4info, address)]
    )
    return path


def test_the_command_says_ready_and_ends_with_its_input(built: Built, tmp_path: Path) -> None:
    async def body() -> None:
        plan = star(classes={3: LOSSLESS, 0: LOSSY})
        plan.write(tmp_path / "plan.json")
        served = Served(plan)
        devices = devices_file(built, tmp_path, plan, await served.start())
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "controller", str(tmp_path / "plan.json"), str(devices),
            "--records", str(tmp_path / "c.jsonl"), "--interval", "0.2",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPO,
        )  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        assert json.loads(await process.stdout.readline())["event"] == "ready"
        served.send(1, data(1, 2))
        process.stdin.close()
        assert await process.wait() == 0
        lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
        assert ("tx", 2, 1) in [(r.get("name"), r["port"], r["packets"]) for r in lines]
        assert all(r["t"] > 0 for r in lines)
        await served.stop()

    run(body)


@pytest.mark.parametrize(
    ("plan_text", "devices_text", "message"),
    [(None, "[]", "plan.json cannot be read"), ("{}", "[]", "is not a plan"), ("[", "[]", "is not a plan")],
)
def test_the_command_refuses_bad_files_in_one_sentence(
    tmp_path: Path, plan_text: str | None, devices_text: str, message: str
) -> None:
    if plan_text is not None:
        (tmp_path / "plan.json").write_text(plan_text)
    (tmp_path / "devices.json").write_text(devices_text)
    done = subprocess.run(
        [sys.executable, "-m", "controller", str(tmp_path / "plan.json"), str(tmp_path / "devices.json")],
        capture_output=True, text=True, cwd=REPO, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr == ""
    assert message in json.loads(done.stdout)["message"]


WATCHER = """
import asyncio, gc
from controller.__main__ import _watch_stdin

async def main():
    stopped = asyncio.Event()
    listening = await _watch_stdin(stopped)
    await asyncio.sleep(0)
    gc.collect()
    print("listening", flush=True)
    await asyncio.wait_for(stopped.wait(), 20)

asyncio.run(main())
"""


def test_the_end_of_standard_input_is_heard_after_a_garbage_collection() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "listening\n"
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()
