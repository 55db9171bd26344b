"""The Mininet clock: real namespaces, real frames, wall time scaled by the plan's `time_scale`. Needs root."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from controller.app import ProgramFiles
from controller.reactions import Reaction
from switch.device import DeviceSpec, PortSpec
from switch.device_file import write_devices
from topologies.mininet_build import FabricNet
from topologies.plan import SwitchPlan
from topologies.runstate import MARKER, RunState
from traffic.worker import HostAttachment, write_workers
from xoff.actions import HOST_ACTIONS, LINK_ACTIONS, TOO_LATE, Action, link_ends, rate_of, storm_of
from xoff.clocks.capture import Captures
from xoff.clocks.context import RunContext, write_collective
from xoff.clocks.control import Control, carry_out, make_control
from xoff.clocks.hold import hold
from xoff.clocks.switches import Switches, start_switches
from xoff.clocks.worker import Event, Worker, peak_rss_bytes
from xoff.errors import XoffError
from xoff.folder import RunFolder
from xoff.progress import Display
from xoff.records import RecordWriter
from xoff.shell import shown_to_shell
from xoff.units import format_time

MIN_SAMPLE_NS = 5_000_000
"""Sampling more often than this on the wall would cost more than it shows."""
COLLECT_SECONDS = 1.0
"""The controller reads all counters this often at most."""
SETTLE_SECONDS = 0.2
"""From the word to begin to the first frame: every worker has heard it by then."""


class MininetRun:
    """One run; `run` is called once."""

    def __init__(
        self, context: RunContext, program: ProgramFiles, folder: RunFolder, display: Display
    ) -> None:
        self.context = context
        self.program = program
        self.folder = folder
        self.display = display
        self.epoch = time.monotonic_ns()
        self._received: dict[str, int] = {}

    def now(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self.epoch

    async def run(self) -> None:
        """Build, program, run, record; whatever happens, nothing of it is left on the machine."""
        folder, display, context = self.folder, self.display, self.context
        async with AsyncExitStack() as stack:
            state = RunState.create()
            stack.callback(state.clear)
            os.environ[MARKER] = state.run
            stack.callback(os.environ.pop, MARKER)
            with (
                folder.phase("build"),
                display.phase(f"building {len(context.plan.hosts)} hosts, links and switches"),
            ):
                try:
                    net = FabricNet(context.plan, state)
                except RuntimeError as error:
                    raise XoffError(f"{error}.") from error
                stack.callback(net.stop)
            captures = Captures(net, folder.path / "pcap") if context.experiment.pcap else None
            if captures is not None:
                stack.push(captures)
            with (
                folder.phase("switches"),
                display.phase(f"starting {len(context.plan.switches)} P4 switches"),
            ):
                devices = [self._device(switch, net) for switch in context.plan.switches]
                write_devices(folder.path / "devices.json", devices)
                switches = await start_switches(context.experiment, devices, state, folder, self.epoch)
                stack.push_async_callback(switches.stop)
            folder.facts |= {"switch": switches.target, "switch_reason": switches.reason}
            display.say(f"switches: {switches.target} ({switches.reason})")
            records = stack.enter_context(RecordWriter(folder.path / "records" / "run.jsonl"))
            with folder.phase("hosts"), display.phase("starting hosts"):
                workers = await self._start_hosts(net, state, stack)
            with folder.phase("control"), display.phase("programming the switches over P4Runtime"):
                control = await make_control(context, self.program, switches.addresses, folder, self.now)
                stack.push_async_callback(control.stop)
            stack.enter_context(shown_to_shell(context.plan, self.program, switches.addresses))
            folder.facts["wall_seconds"]["ready"] = round(self.now() / 1e9, 3)
            with folder.phase("workload"):
                await self._traffic(workers, control, switches, records)
            folder.facts["peak_rss_bytes"] = sum(
                peak_rss_bytes(pid) for pid in (os.getpid(), *switches.pids(), *(w.pid for w in workers))
            )
            await control.collect()
            if context.experiment.hold:
                await hold(display, folder.path)
        folder.facts["wall_seconds"]["total"] = round(self.now() / 1e9, 3)
        folder.save()

    def _device(self, switch: SwitchPlan, net: FabricNet) -> DeviceSpec:
        plan = self.context.plan
        return DeviceSpec(
            name=switch.name,
            device_id=switch.device_id,
            ports=tuple(
                PortSpec(
                    port.number,
                    net.interface(switch.name, port.number),
                    plan.wall_rate(port.rate_bps),
                    plan.wall_time(port.delay_ns),
                    None if port.kind == "host" else f"{port.peer}:{port.peer_port}",
                )
                for port in switch.ports
            ),
            program_json=self.program.json,
            p4info=self.program.p4info,
            grpc_address="127.0.0.1:0",
            timer_hz=self.context.timer_hz(switch),
            seed=self.context.experiment.seed + switch.device_id,
        )

    async def _start_hosts(self, net: FabricNet, state: RunState, stack: AsyncExitStack) -> list[Worker]:
        """A few worker processes with all NICs between them, ready to begin."""
        endpoints = self.context.endpoints
        attachments = {
            e.nic.name: HostAttachment(net.interface(e.nic.name), str(net.namespace(e.nic.name)))
            for e in endpoints
        }
        paths = write_workers(
            self.folder.path.resolve(),
            endpoints,
            attachments,
            workers=os.cpu_count() or 1,
            sample_ns=max(self.context.experiment.clock_time("sample"), MIN_SAMPLE_NS),
            epoch_ns=self.epoch,
        )
        workers = []
        for number, path in enumerate(paths):
            worker = await Worker.start(
                f"host worker {number}",
                [sys.executable, "-m", "traffic.host", str(path)],
                state.environment(),
                self.folder.path / "logs" / f"hosts-{number}.log",
            )
            stack.push_async_callback(worker.end)
            state.record(processes=[worker.pid])
            workers.append(worker)
        await asyncio.gather(*(worker.wait("ready") for worker in workers))
        return workers

    async def _traffic(
        self, workers: list[Worker], control: Control, switches: Switches, records: RecordWriter
    ) -> None:
        """Begin the workload, act on schedule, sample, and return when it is done, stopped or out of time."""
        experiment, workload = self.context.experiment, self.context.workload
        begin = time.monotonic_ns() + round(SETTLE_SECONDS * 1e9)
        limit = experiment.clock_time("time_limit") / 1e9
        with self.display.transfer(
            f"{workload.name}: {len(workload.ranks)} ranks", self.context.payload_bytes
        ) as bar:

            def heard(worker: Worker, event: Event) -> None:
                if event["event"] == "progress":
                    self._received[worker.name] = int(event["bytes_received"])
                    bar.update(sum(self._received.values()))
                elif event["event"] == "failed":
                    failure = f"{event['host']}: message {event['id']} failed: {event['reason']}"
                    records("note", self.now(), text=failure)
                    if not failed.done():
                        failed.set_result(failure)

            failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            for worker in workers:
                worker.on_event = lambda event, worker=worker: heard(worker, event)
                await worker.send(f"start {begin}")
            background = [
                asyncio.create_task(self._collect(control)),
                asyncio.create_task(self._act(begin, workers, control, switches, records)),
                asyncio.create_task(self._watch(begin, control, records)),
                asyncio.create_task(switches.watch()),
            ]
            done = asyncio.gather(*(worker.wait("done") for worker in workers))
            summaries: list[Event] | None = None
            try:
                summaries = await self._until(done, [*background, failed], SETTLE_SECONDS + limit)
            finally:
                done.cancel()
                failed.cancel()
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, done, return_exceptions=True)
        self._conclude(begin, summaries, records)

    async def _until(
        self, done: asyncio.Future[list[Event]], others: Sequence[asyncio.Future[Any]], seconds: float
    ) -> list[Event] | None:
        """Wait for the workload; None when time ran out or a message failed for good.

        A background task that fails ends the run with its error.
        """
        watched: set[asyncio.Future[Any]] = {done, *others}
        deadline = time.monotonic() + seconds
        while not done.done():
            finished, _ = await asyncio.wait(
                watched, timeout=max(0.0, deadline - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            if not finished:
                return None
            for task in finished - {done}:
                if isinstance(task.result(), str):
                    self.display.say(f"{task.result()}; the workload cannot finish.")
                    return None
                watched.discard(task)
        return done.result()

    async def _collect(self, control: Control) -> None:
        period = max(COLLECT_SECONDS, self.context.experiment.clock_time("sample") / 1e9)
        while True:
            await asyncio.sleep(period)
            await control.collect()

    async def _act(self, begin: int, workers: list[Worker], control: Control, switches: Switches,
                   records: RecordWriter) -> None:  # fmt: skip
        schedule: list[tuple[int, Action | None]] = [
            (round(action.at_ns * self.context.experiment.scale), action) for action in self.context.actions
        ]
        if self.context.experiment.stop_after:
            schedule.append((self.context.experiment.clock_time("stop_after"), None))
        schedule.sort(key=lambda item: item[0])
        try:
            while schedule:
                await asyncio.sleep(max(0.0, (begin + schedule[0][0] - time.monotonic_ns()) / 1e9))
                await self._act_now(schedule.pop(0)[1], workers, control, switches, records)
        finally:
            for _, action in schedule:
                note = "stop_senders()" if action is None else str(action)
                records("note", self.now(), text=f"{TOO_LATE}: {note}")

    async def _act_now(self, action: Action | None, workers: list[Worker], control: Control, switches: Switches,
                       records: RecordWriter) -> None:  # fmt: skip
        command = "stop" if action is None else self._host_command(action)
        if command:
            for worker in workers:
                await worker.send(command)
        if action is None:
            records("note", self.now(), text="the senders were stopped")
        elif action.kind not in HOST_ACTIONS and not await switches.act(action, self.context.plan):
            await control.act(action)
        if action is not None:
            self.display.say(f"{format_time(action.at_ns)}: {action}")
            records("note", self.now(), text=str(action))
            if action.kind in LINK_ACTIONS:
                await self._react(await control.happened(action), records)

    async def _watch(self, begin: int, control: Control, records: RecordWriter) -> None:
        """Let the controller look at its switches as often as it wants to; what is late is left out."""
        if control.poll_ns is None:
            return
        at = begin
        while True:
            await asyncio.sleep(max(0.0, (at - time.monotonic_ns()) / 1e9))
            await self._react(await control.look(self.now()), records)
            at += control.poll_ns * max(1, -((at - time.monotonic_ns()) // control.poll_ns))

    async def _react(self, reactions: Sequence[Reaction], records: RecordWriter) -> None:
        for reaction in reactions:
            await carry_out(reaction)
            self.display.say(reaction.note)
            records("note", self.now(), text=reaction.note)

    def _host_command(self, action: Action) -> str:
        """What the host workers are told (each knows its own hosts); empty when it does not concern hosts."""
        if action.kind == "stop_senders":
            return "stop"
        if action.kind in ("pause_host", "resume_host"):
            return f"{action.kind.partition('_')[0]} {action.arguments['host']}"
        if action.kind == "pfc_storm":
            storm = storm_of(action)
            return f"storm {storm.host} {storm.traffic_class} {storm.quanta} {storm.duration_ns}"
        if action.kind == "set_rate":
            host = link_ends(self.context.plan, action)[1]
            return "" if host.is_switch else f"rate {host.node} {rate_of(action)}"
        return ""

    def _conclude(self, begin: int, summaries: list[Event] | None, records: RecordWriter) -> None:
        """Write the collective's record and whether it finished."""
        hosts = [host for event in summaries or [] for host in event["hosts"]]
        ends = [host["last_received"] for host in hosts if host["last_received"] >= 0]
        end = max(ends) - self.epoch if ends else None
        write_collective(self.context, records, begin - self.epoch, end, self.now())
        self.folder.facts["finished"] = summaries is not None


def require_root() -> None:
    """XoffError that says what to do when this process may not make namespaces."""
    if os.geteuid() != 0:
        raise XoffError(
            "the Mininet clock needs root: run it with sudo, or use --clock virtual, which does not."
        )
