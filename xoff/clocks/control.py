"""The controller of a run: Xoff's own, a user's file, or none; and the actions that it carries out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from controller.app import ControllerError, FabricController, ProgramFiles
from controller.reactions import Reaction, Reactions
from xoff.actions import (
    Action,
    class_of,
    link_ends,
    policy_of,
    port_towards,
    rate_of,
    resolve_route,
    switch_of,
)
from xoff.clocks.context import RunContext
from xoff.clocks.exchange import Exchange
from xoff.clocks.worker import Worker
from xoff.errors import XoffError
from xoff.folder import RunFolder
from xoff.records import RecordWriter
from xoff.units import format_rate
from xoff.watchdog import parse_watchdog

READY_SECONDS = 60.0
"""Time that a user's controller has to program the fabric, as the built-in one."""


START_SECONDS, SWITCH_SECONDS = 60.0, 1.0
"""Wall time that programming a fabric may take, and each of its switches: a busy machine needs the most of it."""


class Control(Protocol):
    """What a run asks of a controller."""

    async def collect(self) -> None:
        """Record the counters."""

    async def act(self, action: Action) -> None:
        """Carry out an action on the switches' tables."""

    @property
    def poll_ns(self) -> int | None:
        """How often it wants to `look`, ns of the running clock; None: never."""

    async def look(self, now: int) -> list[Reaction]:
        """What it does by itself after a look at the switches' counters."""

    async def happened(self, action: Action) -> list[Reaction]:
        """What it does by itself about something that has just happened to a link."""

    def packet_outs(self) -> Mapping[str, int]:
        """How many packet-outs it has sent to each switch so far."""

    async def heard(self, switch: str, packet_ins: int) -> None:
        """Return when it has handled so many packet-ins of a switch in all."""

    async def losing(self, switch: str) -> None:
        """A switch is about to be killed."""

    async def lost(self, switch: str) -> None:
        """Return when it knows that a switch was killed."""

    async def restored(self, switch: str) -> None:
        """Return when it has programmed a switch that was killed and restarted."""

    async def stop(self) -> None:
        """Disconnect."""


async def carry_out(reaction: Reaction) -> None:
    """Carry out what a controller decided; XoffError when the switches refuse."""
    try:
        await reaction.carry_out()
    except ControllerError as error:
        raise XoffError(f"{reaction.note}: {error}") from None


async def make_control(
    context: RunContext,
    program: ProgramFiles,
    addresses: Mapping[str, str],
    folder: RunFolder,
    now: Callable[[], int],
    timestamp_hz: int = 1_000_000,
    exchange: Exchange | None = None,
) -> Control:
    """The controller that the experiment asks for, started: the fabric is programmed when this returns.

    With an `exchange` (simulated time) a user's controller has only been started, see `UserControl.ready`.
    """
    choice = context.experiment.controller
    if choice == "none":
        return NoControl("the experiment has no controller (controller: none)")
    records = RecordWriter(folder.path / "records" / "controller.jsonl")

    def emit(record: dict[str, Any]) -> None:
        fields = {key: value for key, value in record.items() if key not in ("t", "kind")}
        records(record["kind"], record.get("t", now()), **fields)

    if choice != "builtin":
        control = await UserControl.start(Path(choice), dict(addresses), folder, emit, records, exchange)
        if exchange is None:
            try:
                await control.ready()
            except BaseException:
                await control.stop()
                raise
        return control
    controller = FabricController(context.plan, addresses, program, emit, timestamp_hz=timestamp_hz)
    try:
        await controller.start(timeout=START_SECONDS + SWITCH_SECONDS * len(addresses))
    except ControllerError as error:
        records.close()
        raise XoffError(str(error)) from None
    except BaseException:
        records.close()
        raise
    return FabricControl(controller, context, records)


class NoControl:
    """Nobody programs the switches."""

    def __init__(self, why: str) -> None:
        self._why = why

    poll_ns: int | None = None

    async def collect(self) -> None:
        """Nothing to record."""

    async def look(self, now: int) -> list[Reaction]:
        """It sees for itself, if there is one."""
        return []

    async def happened(self, action: Action) -> list[Reaction]:
        """Nobody is told."""
        return []

    def packet_outs(self) -> Mapping[str, int]:
        """None, or nobody says."""
        return {}

    async def heard(self, switch: str, packet_ins: int) -> None:
        """Nobody listens, or nobody who would say."""

    async def losing(self, switch: str) -> None:
        """Nobody is connected, or nobody who would say."""

    async def lost(self, switch: str) -> None:
        """Nobody was connected, or nobody who would say."""

    async def restored(self, switch: str) -> None:
        """Nobody programs it, or nobody who would say when."""

    async def act(self, action: Action) -> None:
        """There is nobody to act."""
        raise XoffError(f"{action.kind} needs the built-in controller; {self._why}.")

    async def stop(self) -> None:
        """Nothing to stop."""


class UserControl(NoControl):
    """A user's `async def main(plan, devices, emit)`, in a process of its own beside the traffic."""

    def __init__(
        self,
        path: Path,
        worker: Worker,
        addresses: Mapping[str, str],
        records: RecordWriter,
        exchange: Exchange | None = None,
    ) -> None:
        super().__init__(f"this run's is {path}")
        self._path = path
        self._worker = worker
        self._records = records
        self._exchange = exchange
        self._addresses = addresses
        self._failure: asyncio.Future[Any] | None = None

    @classmethod
    async def start(
        cls, path: Path, addresses: Mapping[str, str], folder: RunFolder, emit: Callable[[dict[str, Any]], None],
        records: RecordWriter, exchange: Exchange | None,
    ) -> UserControl:  # fmt: skip
        """Start its process, which knows the switches' addresses when this returns."""
        arguments = [str(folder.path / "plan.json"), str(path)]
        environment = dict(os.environ)
        if exchange is not None:
            arguments.append("--simulated")
            environment["PYTHONHASHSEED"] = "0"  # the order of its sets of names is the same every time
        worker = await Worker.start(
            "controller",
            [sys.executable, "-m", "controller.user", *arguments],
            environment,
            folder.path / "logs" / "controller.log",
        )
        control = cls(path, worker, addresses, records, exchange)

        def heard(event: dict[str, Any]) -> None:
            if event["event"] == "record":
                emit(event["record"])
            elif exchange is not None:
                exchange.heard(event)

        worker.on_event = heard
        await worker.send(json.dumps(dict(addresses)))
        if exchange is not None:
            control._failure = asyncio.ensure_future(worker.wait("never"))
            exchange.join(worker.send, control._failure)
        return control

    async def ready(self, advance: Callable[[], Awaitable[None]] | None = None) -> None:
        """Return when it has returned or emitted a record of kind `ready`. XoffError when it fails, or is too slow.

        In simulated time `advance` lets a little of it pass.
        """

        async def simulated(exchange: Exchange, advance: Callable[[], Awaitable[None]]) -> None:
            while not exchange.ready:
                await advance()

        try:
            if self._exchange is not None and advance is not None:
                await asyncio.wait_for(simulated(self._exchange, advance), READY_SECONDS)
            else:
                await asyncio.wait_for(self._worker.wait("ready"), READY_SECONDS)
                self._failure = asyncio.ensure_future(self._worker.wait("never"))
        except asyncio.TimeoutError:
            raise XoffError(
                f"controller {self._path} has neither returned nor emitted a record of kind `ready` after "
                f"{READY_SECONDS:g} s."
            ) from None

    async def losing(self, switch: str) -> None:
        """In simulated time its gRPC knows which switches are there."""
        if self._exchange is not None:
            await self._exchange.tell(f"down {self._addresses[switch]}")
            await self._exchange.settle()

    async def lost(self, switch: str) -> None:
        """In simulated time: let it notice."""
        if self._exchange is not None:
            await self._exchange.settle()

    async def restored(self, switch: str) -> None:
        """In simulated time: calls that wait for the switch reach it now."""
        if self._exchange is not None:
            await self._exchange.tell(f"up {self._addresses[switch]}")
            await self._exchange.settle()

    async def collect(self) -> None:
        """Only look whether it failed; it records by itself."""
        if self._failure is not None and self._failure.done():
            await self._failure

    async def stop(self) -> None:
        """Have it cancelled if it still runs."""
        await self._worker.end()
        if self._failure is not None:
            await asyncio.gather(self._failure, return_exceptions=True)
        self._records.close()


class FabricControl:
    """Xoff's own controller."""

    def __init__(self, controller: FabricController, context: RunContext, records: RecordWriter) -> None:
        self._controller = controller
        self._context = context
        self._records = records
        self._reactions = Reactions(
            controller,
            parse_watchdog(context.experiment.watchdog, context.experiment.scale),
            reroute=context.experiment.reroute,
        )
        self._programmed: dict[str, int] = {}
        """How often a killed switch had been programmed by then."""

    async def collect(self) -> None:
        """Record every counter that changed."""
        await self._controller.collect()

    def packet_outs(self) -> Mapping[str, int]:
        """As the controller counts them."""
        return self._controller.packet_outs()

    async def heard(self, switch: str, packet_ins: int) -> None:
        """Wait for the last of them."""
        try:
            await self._controller.wait_packet_ins(switch, packet_ins)
        except ControllerError as error:
            raise XoffError(str(error)) from None

    async def losing(self, switch: str) -> None:
        """It will see."""

    async def lost(self, switch: str) -> None:
        """Wait until the session has ended."""
        self._programmed[switch] = self._controller.times_programmed(switch)
        try:
            await self._controller.wait_lost(switch)
        except ControllerError as error:
            raise XoffError(str(error)) from None

    async def restored(self, switch: str) -> None:
        """Wait until it has been programmed once more."""
        try:
            await self._controller.wait_programmed(switch, self._programmed.get(switch, 0) + 1)
        except ControllerError as error:
            raise XoffError(str(error)) from None

    @property
    def poll_ns(self) -> int | None:
        """As the watchdog says."""
        return self._reactions.poll_ns

    async def look(self, now: int) -> list[Reaction]:
        """What the watchdog decides."""
        return await self._reactions.look(now)

    async def happened(self, action: Action) -> list[Reaction]:
        """A switch knows whether its ports are up and how fast they are, and so does its controller."""
        ends = [end for end in link_ends(self._context.plan, action) if end.is_switch]
        if action.kind == "set_rate":
            rate = rate_of(action)
            return [
                Reaction(
                    f"{end.node} port {end.port} now runs at {format_rate(rate)}",
                    partial(self._controller.set_port_rate, end.node, end.port, rate),
                )
                for end in ends
            ]
        if action.kind in ("link_down", "link_up"):
            ports = [(end.node, end.port) for end in ends]
            return await self._reactions.ports_changed(ports, action.kind == "link_up")
        return []

    async def act(self, action: Action) -> None:
        """Carry out an action; XoffError when the switches refuse."""
        try:
            await self._act(action)
        except ControllerError as error:
            raise XoffError(f"{action}: {error}") from None

    async def _act(self, action: Action) -> None:
        plan, arguments = self._context.plan, action.arguments
        if action.kind == "set_route":
            switch, prefix, ports = resolve_route(plan, arguments["route"])
            await self._controller.set_route(switch, prefix, ports)
        elif action.kind == "set_class_map":
            node = switch_of(plan, arguments["switch"])
            port = port_towards(node, arguments["towards"])
            await self._controller.set_class_map(
                node.name, port, class_of(action, "from"), class_of(action, "to")
            )
        elif action.kind == "set_class_policy":
            await self._controller.set_class_policy(
                class_of(action, "class"), policy_of(plan, action), arguments.get("switches")
            )
        elif action.kind == "resume":
            node = switch_of(plan, arguments["switch"])
            await self._controller.resume(node.name, port_towards(node, arguments["towards"]))
        elif action.kind == "set_load_balancing":
            await self._controller.set_load_balancing(arguments["mode"], arguments.get("switches"))
        else:
            raise XoffError(f"the controller cannot carry out {action.kind}.")

    async def stop(self) -> None:
        """Disconnect."""
        await self._controller.stop()
        self._records.close()
