"""What happens to a simulated fabric while it runs: the experiment's actions at exact simulated times.

Links, switches and hosts change at the very nanosecond. What the controller does takes `control_latency` until it shows
in a switch; simulated time stands still while the P4Runtime calls are made, so that how long they take on this
machine changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from switch.native.binding import Engine
from switch.native.p4runtime.device import P4RuntimeDevice
from traffic.endpoint import Endpoint
from xoff.actions import (
    CONTROLLER_ACTIONS,
    HOST_ACTIONS,
    Action,
    LinkEnd,
    link_ends,
    loss_directions,
    loss_of,
    rate_of,
    storm_of,
)
from xoff.clocks.context import RunContext
from xoff.clocks.control import Control
from xoff.errors import XoffError
from xoff.units import parse_time


class Switch(Protocol):
    """What is done to a simulated switch."""

    engine: Engine
    device: P4RuntimeDevice

    async def kill(self) -> None:
        """Lose everything: P4Runtime sessions, program, tables, queued packets."""

    async def restart(self) -> None:
        """Listen again, at the same address."""


@dataclass(frozen=True)
class Step:
    """Something to do at a simulated time."""

    at: int
    note: str
    run: Callable[[], Awaitable[None]]


class Happenings:
    """Turns the actions of an experiment into steps on the objects of a virtual run."""

    def __init__(
        self,
        context: RunContext,
        switches: Mapping[str, Switch],
        endpoints: Sequence[Endpoint],
        control: Control,
        now: Callable[[], int],
        touch: Callable[[str], None],
    ) -> None:
        self._context = context
        self._switches = switches
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._control = control
        self._now = now
        self._touch = touch

    def steps(self, begin: int) -> list[Step]:
        """Everything that is to happen, in time order, `begin` being the start of the traffic."""
        experiment = self._context.experiment
        latency = parse_time(experiment.control_latency)
        steps = []
        for action in self._context.actions:
            at = begin + action.at_ns
            if action.kind in CONTROLLER_ACTIONS:
                steps.append(Step(at + latency, str(action), self._later(self._control.act, action)))
            elif action.kind == "restart_switch":
                steps.append(Step(at + latency, str(action), self._later(self._restart, action)))
            else:
                steps.append(Step(at, str(action), self._later(self._happen, action)))
        if experiment.stop_after:
            stop = Action(parse_time(experiment.stop_after), "stop_senders", {})
            steps.append(Step(begin + stop.at_ns, str(stop), self._later(self._happen, stop)))
        return sorted(steps, key=lambda step: step.at)

    @staticmethod
    def _later(do: Callable[[Action], Awaitable[None]], action: Action) -> Callable[[], Awaitable[None]]:
        return lambda: do(action)

    async def _happen(self, action: Action) -> None:
        if action.kind == "kill_switch":
            await self._kill(action)
        elif action.kind in HOST_ACTIONS:
            self._at_host(action)
        else:
            self._to_link(action)

    # -- switches

    async def _kill(self, action: Action) -> None:
        name = str(action.arguments["switch"])
        await self._control.losing(name)
        await self._switches[name].kill()
        await self._control.lost(name)
        self._touch(name)

    async def _restart(self, action: Action) -> None:
        name = str(action.arguments["switch"])
        await self._switches[name].restart()
        await self._control.restored(name)
        self._touch(name)

    # -- links

    def _to_link(self, action: Action) -> None:
        ends = link_ends(self._context.plan, action)
        if action.kind in ("link_down", "link_up"):
            for end in ends:
                if end.is_switch:
                    up = action.kind == "link_up"
                    self._switches[end.node].engine.set_port_up(end.port, up)
                    self._switches[end.node].device.port_changed(end.port, up)
        elif action.kind == "set_rate":
            for end in ends:
                self._set_rate(end, rate_of(action))
        elif action.kind == "lossy_link":
            loss = loss_of(action)
            for end, directions in loss_directions(ends):
                for received in (False, True) if directions == "both" else (False,):
                    self._switches[end.node].engine.set_port_loss(
                        end.port, loss.probability, loss.every, seed=loss.seed, received=received
                    )
        else:
            raise XoffError(f"the virtual clock cannot carry out {action.kind}.")
        for end in ends:
            self._touch(end.node)

    def _set_rate(self, end: LinkEnd, rate_bps: int) -> None:
        if end.is_switch:
            self._switches[end.node].engine.set_port_rate(end.port, self._context.plan.wall_rate(rate_bps))
        else:
            self._endpoints[end.node].set_rate(rate_bps, self._now())

    # -- hosts

    def _at_host(self, action: Action) -> None:
        now = self._now()
        if action.kind == "stop_senders":
            for endpoint in self._endpoints.values():
                endpoint.stop(now)
                self._touch(endpoint.name)
            return
        endpoint = self._endpoints[str(action.arguments["host"])]
        if action.kind == "pause_host":
            endpoint.pause()
        elif action.kind == "resume_host":
            endpoint.resume(now)
        else:
            storm = storm_of(action)
            endpoint.storm(storm.traffic_class, storm.quanta, storm.duration_ns, now)
        self._touch(endpoint.name)
