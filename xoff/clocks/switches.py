"""The switches of a Mininet run: the native daemon, or one BMv2 process each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from switch.bmv2 import Bmv2Error, Bmv2Options, Bmv2Switch
from switch.bmv2 import start_switches as start_bmv2
from switch.bmv2 import stop_switches as stop_bmv2
from switch.device import DeviceSpec
from switch.select import SelectError, select_target
from topologies.plan import FabricPlan
from topologies.runstate import RunState
from xoff.actions import Action, link_ends, loss_directions, loss_of, rate_of, switch_of
from xoff.clocks.worker import Worker
from xoff.errors import XoffError
from xoff.folder import RunFolder


class Switches(Protocol):
    """Running switches, ready for a controller."""

    target: str
    """`native` or `bmv2`."""
    reason: str
    """Why this target, in words."""
    addresses: Mapping[str, str]
    """P4Runtime `host:port` by switch name."""

    def pids(self) -> Sequence[int]:
        """Their processes."""

    async def act(self, action: Action, plan: FabricPlan) -> bool:
        """Carry out an action that concerns processes or links; False when it is for somebody else."""

    async def watch(self) -> None:
        """Return never; raise XoffError when a switch process dies by itself."""

    async def stop(self) -> None:
        """End them; their last records are on disk when this returns."""


async def start_switches(
    wanted: str, devices: Sequence[DeviceSpec], state: RunState, folder: RunFolder, epoch: int, sample_ms: int
) -> Switches:
    """Start every device and return when all listen. XoffError says which did not and why."""
    try:
        choice = select_target(wanted)
    except SelectError as error:
        raise XoffError(str(error)) from None
    if choice.target == "native":
        return await NativeSwitches.start(choice.reason, state, folder, epoch, sample_ms)
    return await Bmv2Switches.launch(choice.reason, devices, state, folder)


class NativeSwitches:
    """One daemon that hosts all of them."""

    target = "native"

    def __init__(self, worker: Worker, reason: str, addresses: Mapping[str, str]) -> None:
        self.reason = reason
        self.addresses = addresses
        self._worker = worker

    @classmethod
    async def start(
        cls, reason: str, state: RunState, folder: RunFolder, epoch: int, sample_ms: int
    ) -> NativeSwitches:
        """Start the daemon on the folder's `devices.json`."""
        path = folder.path
        command = [sys.executable, "-m", "switch.native", "--devices", str(path / "devices.json"),
                   "--records", str(path / "records" / "switch.jsonl"), "--epoch", str(epoch),
                   "--sample-ms", str(max(1, sample_ms)), "--stdin-lifeline"]  # fmt: skip
        worker = await Worker.start("switches", command, state.environment(), path / "logs" / "switches.log")
        try:
            state.record(processes=[worker.pid])
            event = await worker.wait("ready")
        except BaseException:
            await worker.end()
            raise
        return cls(worker, reason, event["devices"])

    def pids(self) -> Sequence[int]:
        """The daemon."""
        return [self._worker.pid]

    async def act(self, action: Action, plan: FabricPlan) -> bool:
        """Kill, restart, and what happens to links: the daemon's own commands."""
        if action.kind in ("kill_switch", "restart_switch"):
            verb = "kill" if action.kind == "kill_switch" else "restart"
            await self._worker.send(f"{verb} {action.arguments['switch']}")
        elif action.kind in ("link_down", "link_up", "set_rate"):
            for end in link_ends(plan, action):
                if end.is_switch:
                    await self._worker.send(
                        f"{_link_verb(action)} {end.node} {end.port}{_rate(action, plan)}"
                    )
        elif action.kind == "lossy_link":
            loss = loss_of(action)
            for end, directions in loss_directions(link_ends(plan, action)):
                await self._worker.send(
                    f"loss {end.node} {end.port} {directions} {loss.probability} {loss.every} {loss.seed}"
                )
        else:
            return False
        return True

    async def watch(self) -> None:
        """Wait for an event that never comes: the daemon's end or error raises."""
        await self._worker.wait("never")
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Close its stdin and wait for it."""
        await self._worker.end()


def _link_verb(action: Action) -> str:
    return {"link_down": "down", "link_up": "up", "set_rate": "rate"}[action.kind]


def _rate(action: Action, plan: FabricPlan) -> str:
    return f" {plan.wall_rate(rate_of(action))}" if action.kind == "set_rate" else ""


class Bmv2Switches:
    """One simple_switch_grpc each."""

    target = "bmv2"

    def __init__(self, reason: str, processes: dict[str, Bmv2Switch]) -> None:
        self.reason = reason
        self.addresses: Mapping[str, str] = {name: process.address for name, process in processes.items()}
        self._processes = processes

    @classmethod
    async def launch(
        cls, reason: str, devices: Sequence[DeviceSpec], state: RunState, folder: RunFolder
    ) -> Bmv2Switches:
        """Start them all; XoffError says which did not and why."""
        try:
            processes = await asyncio.to_thread(start_bmv2, devices, Bmv2Options(folder.path / "logs"))
        except Bmv2Error as error:
            raise XoffError(str(error)) from None
        state.record(processes=[process.process.pid for process in processes.values()])
        return cls(reason, processes)

    def pids(self) -> Sequence[int]:
        """One a switch."""
        return [process.process.pid for process in self._processes.values()]

    async def act(self, action: Action, plan: FabricPlan) -> bool:
        """A switch can be killed; the rest BMv2 cannot do."""
        if action.kind == "kill_switch":
            await asyncio.to_thread(
                self._processes.pop(switch_of(plan, action.arguments["switch"]).name).stop
            )
            return True
        if action.kind in ("restart_switch", "link_down", "link_up", "set_rate", "lossy_link"):
            raise XoffError(f"{action.kind} is an action of the native switch; this run's switches are BMv2.")
        return False

    async def watch(self) -> None:
        """Look once a second whether one has ended by itself: a process that is not our child sends no event."""
        while True:
            await asyncio.sleep(1)
            for name, process in self._processes.items():
                if process.process.poll() is not None:
                    raise XoffError(f"switch {name} ended by itself with exit code {process.process.returncode}; "
                                    f"its log is {process.log}.")  # fmt: skip

    async def stop(self) -> None:
        """End them all."""
        await asyncio.to_thread(stop_bmv2, list(self._processes.values()))
