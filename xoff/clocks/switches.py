"""The switches of a Mininet run: the native daemon, or one BMv2 process each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from switch.bmv2 import Bmv2Error, Bmv2Options, Bmv2Switch
from switch.bmv2 import start_switches as start_bmv2
from switch.bmv2 import stop_switches as stop_bmv2
from switch.device import DeviceSpec
from switch.linkstate import LinkStateError, set_interfaces_up
from switch.select import SelectError, Selection, select_target
from topologies.plan import FabricPlan
from topologies.runstate import RunState
from xoff.actions import Action, link_ends, loss_directions, loss_of, rate_of, switch_of
from xoff.clocks.worker import Worker
from xoff.errors import XoffError
from xoff.experiment import Experiment
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


BMV2_CANNOT = {
    "set_rate": "its rates are packets per second",
    "lossy_link": "it loses no packets on purpose",
}
"""Actions that need the native switch, and why."""


def choose_switch(experiment: Experiment, actions: Sequence[Action]) -> Selection:
    """Which switch a Mininet run takes. XoffError when it is not there, or cannot do what the experiment wants."""
    try:
        choice = select_target(experiment.switch)
    except SelectError as error:
        raise XoffError(str(error)) from None
    if choice.target == "bmv2":
        for action in actions:
            if action.kind in BMV2_CANNOT:
                raise XoffError(
                    f"{action.kind} is an action of the native switch; this run's is BMv2 ({choice.reason}): "
                    f"{BMV2_CANNOT[action.kind]}."
                )
        if experiment.links == "memory":
            raise XoffError(f"links: memory joins native switches; this run's are BMv2 ({choice.reason}).")
    return choice


async def start_switches(
    experiment: Experiment, devices: Sequence[DeviceSpec], state: RunState, folder: RunFolder, epoch: int
) -> Switches:
    """Start every device and return when all listen. XoffError says which did not and why."""
    choice = choose_switch(experiment, ())
    if choice.target == "native":
        return await NativeSwitches.start(choice.reason, experiment, state, folder, epoch)
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
        cls, reason: str, experiment: Experiment, state: RunState, folder: RunFolder, epoch: int
    ) -> NativeSwitches:
        """Start the daemon on the folder's `devices.json`."""
        path = folder.path
        sample_ms = max(1, round(experiment.clock_time("sample") / 1e6))
        command = [sys.executable, "-m", "switch.native", "--devices", str(path / "devices.json"),
                   "--records", str(path / "records" / "switch.jsonl"), "--epoch", str(epoch),
                   "--sample-ms", str(sample_ms), "--stdin-lifeline", "--links", experiment.links,
                   "--threads", str(experiment.packet_threads)]  # fmt: skip
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

    def __init__(
        self, reason: str, processes: dict[str, Bmv2Switch], options: Bmv2Options, state: RunState
    ) -> None:
        self.reason = reason
        self._options = options
        self._state = state
        self._killed: dict[str, Bmv2Switch] = {}
        self._interfaces = {
            (name, port.number): port.interface
            for name, process in processes.items()
            for port in process.spec.ports
            if port.interface is not None
        }
        self.addresses: Mapping[str, str] = {name: process.address for name, process in processes.items()}
        self._processes = processes

    @classmethod
    async def launch(
        cls, reason: str, devices: Sequence[DeviceSpec], state: RunState, folder: RunFolder
    ) -> Bmv2Switches:
        """Start them all; XoffError says which did not and why."""
        try:
            options = Bmv2Options(folder.path / "logs")
            processes = await asyncio.to_thread(start_bmv2, devices, options)
        except Bmv2Error as error:
            raise XoffError(str(error)) from None
        state.record(processes=[process.process.pid for process in processes.values()])
        return cls(reason, processes, options, state)

    def pids(self) -> Sequence[int]:
        """One a switch."""
        return [process.process.pid for process in self._processes.values()]

    async def act(self, action: Action, plan: FabricPlan) -> bool:
        """Processes end and start, links follow their interfaces; `choose_switch` has refused the rest."""
        if action.kind == "kill_switch":
            name = switch_of(plan, action.arguments["switch"]).name
            self._killed[name] = self._processes.pop(name)
            await asyncio.to_thread(self._killed[name].stop)
        elif action.kind == "restart_switch":
            await asyncio.to_thread(self._restart, switch_of(plan, action.arguments["switch"]).name)
        elif action.kind in ("link_down", "link_up"):
            ends = [end for end in link_ends(plan, action) if end.is_switch]
            names = [self._interfaces[end.node, end.port] for end in ends]
            try:
                await asyncio.to_thread(set_interfaces_up, names, action.kind == "link_up")
            except LinkStateError as error:
                raise XoffError(f"{action}: {error}.") from None
        else:
            return False
        return True

    def _restart(self, name: str) -> None:
        old = self._killed.pop(name, None) or self._processes.pop(name)
        old.stop()
        spec = replace(old.spec, grpc_address=old.address)
        try:
            (self._processes[name],) = start_bmv2([spec], self._options).values()
        except Bmv2Error as error:
            raise XoffError(str(error)) from None
        self._state.record(processes=[self._processes[name].process.pid])

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
