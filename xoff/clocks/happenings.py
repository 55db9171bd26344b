"""What happens to a simulated fabric while it runs: the experiment's actions at exact simulated times.

Links, switches and hosts change at the very nanosecond. What the controller does takes `control_latency` until it shows
in a switch; simulated time stands still while the P4Runtime calls are made, so that how long they take on this
machine changes nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from controller.reactions import Reaction
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
from xoff.clocks.control import Control, carry_out
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
    """For the records; empty: none."""
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
        self._latency = parse_time(context.experiment.control_latency)
        self._steps: list[Step] = []

    def begin(self, begin: int) -> None:
        """Plan everything that is to happen, `begin` being the start of the traffic."""
        experiment = self._context.experiment
        for action in self._context.actions:
            at = begin + action.at_ns
            if action.kind in CONTROLLER_ACTIONS:
                self._add(at + self._latency, str(action), partial(self._control.act, action))
            elif action.kind == "restart_switch":
                self._add(at + self._latency, str(action), partial(self._restart, action))
            else:
                self._add(at, str(action), partial(self._happen, action))
        if experiment.stop_after:
            stop = Action(parse_time(experiment.stop_after), "stop_senders", {})
            self._add(begin + stop.at_ns, str(stop), partial(self._happen, stop))
        if self._control.poll_ns is not None:
            self._add(begin, "", self._look)

    def next_at(self) -> int | None:
        """When the next of it is to happen."""
        return self._steps[0].at if self._steps else None

    @property
    def due(self) -> bool:
        """The time of the next step has come."""
        return bool(self._steps) and self._steps[0].at <= self._now()

    def take_due(self) -> Step | None:
        """The next step if its time has come."""
        return self._steps.pop(0) if self.due else None

    def never_happened(self) -> list[str]:
        """What was still to come, in words."""
        return [step.note for step in self._steps if step.note]

    def _add(self, at: int, note: str, run: Callable[[], Awaitable[None]]) -> None:
        insort(self._steps, Step(at, note, run), key=lambda step: step.at)

    def _react(self, reactions: Sequence[Reaction]) -> None:
        """What the controller decided shows in the switches `control_latency` later."""
        for reaction in reactions:
            self._add(self._now() + self._latency, reaction.note, partial(carry_out, reaction))

    async def _look(self) -> None:
        assert self._control.poll_ns is not None
        self._react(await self._control.look(self._now()))
        self._add(self._now() + self._control.poll_ns, "", self._look)

    async def _happen(self, action: Action) -> None:
        if action.kind == "kill_switch":
            await self._kill(action)
        elif action.kind in HOST_ACTIONS:
            self._at_host(action)
        else:
            self._to_link(action)
            self._react(await self._control.happened(action))

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
