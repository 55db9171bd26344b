"""The switches of a Mininet run: the native daemon, or one BMv2 process each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from switch.select import choose_target

from switch.device import DeviceSpec
from topologies.plan import FabricPlan
from topologies.runstate import RunState
from xoff.actions import Action, port_towards, switch_of
from xoff.clocks.worker import Worker
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
    choice = choose_target(wanted)
    if choice.target == "native":
        return await NativeSwitches.start(choice.reason, state, folder, epoch, sample_ms)
    from xoff.clocks.bmv2_switches import Bmv2Switches

    return await Bmv2Switches.start(choice.reason, devices, state, folder)


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
        """Kill, restart, links down and up: the daemon's own commands."""
        verbs = {"kill_switch": "kill", "restart_switch": "restart", "link_down": "down", "link_up": "up"}
        verb = verbs.get(action.kind)
        if verb is None:
            return False
        switch = switch_of(plan, action.arguments["switch"])
        ends: list[tuple[str, int | None]] = [(switch.name, None)]
        if "towards" in action.arguments:
            port = next(
                p for p in switch.ports if p.number == port_towards(switch, action.arguments["towards"])
            )
            ends = [(switch.name, port.number), (port.peer, port.peer_port)]
        known = {s.name for s in plan.switches}
        for name, number in ends:
            if name in known:
                await self._worker.send(f"{verb} {name}" + (f" {number}" if number is not None else ""))
        return True

    async def watch(self) -> None:
        """Wait for an event that never comes: the daemon's end or error raises."""
        await self._worker.wait("never")
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Close its stdin and wait for it."""
        await self._worker.end()
