"""The virtual run: the same engines, NICs and controller in one process, in simulated nanoseconds, without root.

Each switch is a native engine with its P4Runtime server on loopback, so the controller programs it exactly as in
Mininet; it has settled before the traffic begins. When it acts during a run, simulated time stands
still until it is done, so that the run is a function of the experiment alone.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from controller.app import ProgramFiles
from switch.device import LOOP_PORT, TIMER_PORT
from switch.link import wire_bytes
from switch.native.binding import Engine
from switch.native.bringup import TIMER_FRAME_BYTES
from switch.native.p4runtime.carrier import Carrier
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.p4runtime.server import P4RuntimeServer
from switch.native.program import Program
from switch.native.sampler import EngineSampler, RecordFile
from topologies.plan import SwitchPlan
from traffic.endpoint import Endpoint
from traffic.nic.native.nic import NicGroup, supports
from traffic.nic.nic import Nic
from xoff.actions import TOO_LATE, rate_of
from xoff.clocks.context import RunContext, write_collective
from xoff.clocks.control import Control, UserControl, make_control
from xoff.clocks.exchange import Exchange
from xoff.clocks.fabric import FabricClock
from xoff.clocks.happenings import Happenings
from xoff.clocks.hold import hold
from xoff.clocks.outlook import Outlook
from xoff.clocks.simulated_capture import SimulatedCaptures
from xoff.clocks.virtual import VirtualClock
from xoff.errors import XoffError
from xoff.folder import RunFolder
from xoff.progress import Display, TransferBar
from xoff.records import OrderedRecords, RecordWriter
from xoff.shell import shown_to_shell
from xoff.units import format_time, parse_time

TIMESTAMP_HZ = 10**9
SETTLE_NS = 1_000_000
"""Simulated time between the controller's last write and the first frame: packet-outs and timer laps are under way."""
PACKET_OUT_SECONDS = 30.0
"""Wall time within which a packet-out is there, on loopback; longer means that something is broken."""
STEP_NS = 1_000_000
"""Simulated time between two times at which switches are asked for what they have for the controller."""
LAST_NS = 2_000
"""The end of a workload is looked for instant by instant when it may be so near."""
STRIDE_TRAVERSALS = 200_000
"""About so many frames are carried between two looks at Ctrl-C and the progress display: some tenths of a second."""


DRIVER_VARIABLE = "XOFF_DRIVER"
"""Environment variable: `c` (the default) or `python`, the reference that gives the same records more slowly."""


def in_c() -> bool:
    """Whether event loop and NICs run in C. XoffError when the variable holds something else."""
    driver = os.environ.get(DRIVER_VARIABLE, "c")
    if driver not in ("c", "python"):
        raise XoffError(f"{DRIVER_VARIABLE} is '{driver}'; it can be 'c' or 'python'.")
    return driver == "c"


class SimulatedSwitch:
    """An engine, its P4Runtime server and its sampler."""

    def __init__(
        self,
        plan: SwitchPlan,
        engine: Engine,
        make_device: Callable[[], P4RuntimeDevice],
        sampler: EngineSampler,
        carrier: Carrier | None = None,
    ) -> None:
        self.plan = plan
        self.engine = engine
        self.device = make_device()
        self.sampler = sampler
        self.address = "127.0.0.1:0"
        self.packet_ins = 0
        """Packet-ins handed to the controller so far, over all restarts."""
        self._packet_outs = 0
        self._changed = asyncio.Event()
        self._make_device = make_device
        self._carrier = carrier
        self._server: P4RuntimeServer | None = None

    async def listen(self) -> str:
        """Serve P4Runtime; returns the address, which stays the same over a restart."""
        self._server = P4RuntimeServer(self.device, carrier=self._carrier)
        self.address = await self._server.start(self.address)
        return self.address

    @property
    def listening(self) -> bool:
        """Whether a client can reach it."""
        return self._server is not None

    async def close(self) -> None:
        """End the sessions."""
        if self._server is not None:
            await self._server.stop()
            self._server = None
            await self.device.settle()  # a request that was cut off may still be loading a program
        self.device.close()

    async def kill(self) -> None:
        """Lose the sessions, the program, its tables and state, and what is queued; frames on the wire go on."""
        await self.close()
        self.engine.set_pipeline(None)

    def changed(self) -> None:
        """Something has been written to the engine."""
        self._changed.set()

    async def taken(self, packet_outs: int) -> None:
        """Return when so many packet-outs have come in all, over all restarts."""
        while self._packet_outs + self.device.packet_outs < packet_outs:
            self._changed.clear()
            await self._changed.wait()

    async def restart(self) -> None:
        """Listen again, empty, at the same address."""
        await self.close()
        self._packet_outs += self.device.packet_outs
        self.device = self._make_device()
        await self.listen()

    def drain(self) -> None:
        """Hand what the engine reports to P4Runtime clients and records."""
        pending = self.engine.pending()
        before = self.device.packet_ins
        self.device.drain(pending)
        self.packet_ins += self.device.packet_ins - before
        if "pause" in pending:
            self.sampler.pauses(self.engine.take_pause_events())


class VirtualRun:
    """One run; `run` is called once."""

    def __init__(
        self, context: RunContext, program: ProgramFiles, folder: RunFolder, display: Display
    ) -> None:
        self.context = context
        self.program = program
        self.folder = folder
        self.display = display
        self.clock: VirtualClock | FabricClock = FabricClock() if in_c() else VirtualClock()
        self.switches: dict[str, SimulatedSwitch] = {}
        self.endpoints: list[Endpoint] = []
        self.exchange: Exchange | None = None
        """What passes between the switches and a controller in a process of its own."""
        self.stopped = False
        """Cancelled while the workload was under way: the run was brought to an orderly end before it said so."""
        self._stride_ns = STEP_NS
        self._flush: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Build, program, simulate, record.

        Cancelled during the workload it raises CancelledError with complete records of what has happened so far.
        """
        folder, display, context = self.folder, self.display, self.context
        records_path = folder.path / "records"
        folder.facts |= {
            "switch": "native",
            "switch_reason": "the virtual clock runs the native engine in process",
        }
        begun = time.monotonic()
        async with AsyncExitStack() as stack:
            if context.experiment.controller not in ("builtin", "none"):
                latency = parse_time(context.experiment.control_latency)
                self.exchange = Exchange(latency, lambda: self.clock.now, self._listening, self._drain)
            records = stack.enter_context(RecordWriter(records_path / "run.jsonl"))
            host_records = OrderedRecords(stack.enter_context(RecordWriter(records_path / "hosts-0.jsonl")))
            stack.callback(host_records.flush)
            self._flush = host_records.flush
            switch_records = RecordFile(records_path / "switch.jsonl", 0)
            stack.callback(switch_records.close)
            with folder.phase("switches"), display.phase(f"loading {len(context.plan.switches)} P4 switches"):
                addresses = await self._start_switches(switch_records, stack)
            self._add_hosts(host_records)
            self._connect()
            if context.experiment.pcap:
                captures = stack.enter_context(SimulatedCaptures(context.plan.hosts, folder.path / "pcap"))
                self.clock.tap([host.name for host in context.plan.hosts], captures.seen)
            with folder.phase("control"), display.phase("programming the switches over P4Runtime"):
                control = await make_control(
                    context,
                    self.program,
                    addresses,
                    folder,
                    lambda: self.clock.now,
                    TIMESTAMP_HZ,
                    self.exchange,
                )
                stack.push_async_callback(control.stop)
                if isinstance(control, UserControl):
                    await control.ready(partial(self._advance_a_little, control))
            folder.facts["wall_seconds"]["ready"] = round(time.monotonic() - begun, 3)
            with folder.phase("workload"):
                await self._simulate(control, records)
            if not self.stopped:  # a controller that does not come to rest would keep us
                await self._deliver(control)
            await control.collect()
            for switch in self.switches.values():
                switch.sampler.sample(self.clock.now, everything=True)
            for endpoint in self.endpoints:
                endpoint.sample(self.clock.now)
            if context.experiment.hold and not self.stopped:
                stack.enter_context(shown_to_shell(context.plan, self.program, addresses))
                await hold(display, folder.path)
        folder.facts["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        folder.facts["wall_seconds"]["total"] = round(time.monotonic() - begun, 3)
        folder.facts["link_traversals"] = self.clock.traversals
        folder.save()
        if self.stopped:
            raise asyncio.CancelledError

    async def _start_switches(self, records: RecordFile, stack: AsyncExitStack) -> dict[str, str]:
        context = self.context
        program = Program.from_text(self.program.json.read_text(), self.program.p4info.read_text())
        addresses = {}
        for plan in context.plan.switches:
            engine = Engine(program, device_id=plan.device_id, timestamp_hz=TIMESTAMP_HZ,
                            seed=context.experiment.seed + plan.device_id)  # fmt: skip
            stack.callback(engine.close)
            for port in plan.ports:
                engine.add_port(port.number, context.plan.wall_rate(port.rate_bps), port.delay_ns)
            engine.add_port(LOOP_PORT, 0, 0)
            engine.add_port(TIMER_PORT, round(wire_bytes(TIMER_FRAME_BYTES) * 8 * context.timer_hz(plan)), 0)
            sampler = EngineSampler(plan.name, engine, [port.number for port in plan.ports], records)
            carrier = None if self.exchange is None else self.exchange.carrier()
            switch = SimulatedSwitch(plan, engine, partial(self._p4runtime, plan, engine), sampler, carrier)
            self.clock.add(plan.name, engine)
            self.switches[plan.name] = switch
            addresses[plan.name] = await switch.listen()
            stack.push_async_callback(switch.close)
        return addresses

    def _p4runtime(self, plan: SwitchPlan, engine: Engine) -> P4RuntimeDevice:
        def wake() -> None:
            self.clock.touch(plan.name)
            if plan.name in self.switches:
                self.switches[plan.name].changed()

        return P4RuntimeDevice(plan.device_id, engine, wake=wake, clock=lambda: self.clock.now)

    def _listening(self, address: str) -> bool:
        port = address.rpartition(":")[2]
        return any(s.listening and s.address.rpartition(":")[2] == port for s in self.switches.values())

    def _add_hosts(self, records: OrderedRecords) -> None:
        group = NicGroup() if in_c() else None
        for config in self.context.endpoints:
            native = group is not None and supports(config.nic)
            endpoint = Endpoint(config, record=records, make_nic=group.nic if native else Nic)  # type: ignore[union-attr]
            self.endpoints.append(endpoint)
            self.clock.add(endpoint.name, endpoint)

    def _connect(self) -> None:
        plan = self.context.plan
        hosts = {host.name for host in plan.hosts}
        for switch in plan.switches:
            for port in switch.ports:
                if port.peer in hosts or (switch.name, port.number) < (port.peer, port.peer_port):
                    self.clock.connect(switch.name, port.number, port.peer, port.peer_port)

    async def _simulate(self, control: Control, records: RecordWriter) -> None:
        """Advance simulated time from event to event, with samples, actions and the display between."""
        self._outlook = Outlook(self.endpoints, self._fastest_bps())
        await self._settle(control)
        experiment, clock = self.context.experiment, self.clock
        await self._advance(clock.now + SETTLE_NS, None, control)
        begin = clock.now
        for endpoint in self.endpoints:
            endpoint.start(begin)
            clock.touch(endpoint.name)
        sample = max(1, parse_time(experiment.sample))
        limit = begin + parse_time(experiment.time_limit)
        happenings = Happenings(
            self.context, self.switches, self.endpoints, control, lambda: clock.now, clock.touch
        )
        happenings.begin(begin)
        next_sample = begin
        total = self.context.payload_bytes
        with self.display.transfer(f"{self.context.workload.name} in virtual time", total) as bar:
            try:
                while not self.stopped and not self._finished() and clock.now < limit:
                    if clock.now >= next_sample:
                        self._sample()
                        next_sample = clock.now + sample
                    if self.exchange is not None and happenings.due:
                        await self.exchange.settle(tell_time=True)
                    while (step := happenings.take_due()) is not None:
                        await step.run()
                        await self._settle(control)
                        if step.note:
                            self.display.say(f"{format_time(clock.now - begin)}: {step.note}")
                            records("note", clock.now, text=step.note)
                    next_at = happenings.next_at()
                    until = min(next_sample, limit, limit if next_at is None else next_at)
                    await self._advance(until, bar, control)
            except asyncio.CancelledError:  # while the controller had the word
                self.stopped = True
        for note in happenings.never_happened():
            records("note", clock.now, text=f"{TOO_LATE}: {note}")
        finished = self._finished()
        last = max((e.last_received_ns for e in self.endpoints), default=-1)
        write_collective(self.context, records, begin, last if finished else None, clock.now)
        for endpoint in self.endpoints:
            for id, reason in endpoint.failed.items():
                records("note", clock.now, text=f"message {id} failed: {reason}")
        if self.stopped:
            records("note", clock.now, text="stopped before its end")
        self.folder.facts["finished"] = finished

    async def _settle(self, control: Control) -> None:
        """Packet-outs are not acknowledged: wait until those that were sent have come."""
        for name, count in control.packet_outs().items():
            try:
                await asyncio.wait_for(self.switches[name].taken(count), PACKET_OUT_SECONDS)
            except asyncio.TimeoutError:
                raise XoffError(f"{name}: a packet-out of the controller has not arrived.") from None

    async def _deliver(self, control: Control) -> None:
        """Hand on what the switches report; simulated time stands still until the controller has heard it."""
        if self.exchange is not None:
            await self.exchange.settle()
            return
        for name, switch in self.switches.items():
            before = switch.packet_ins
            switch.drain()
            if switch.packet_ins != before:
                await control.heard(name, switch.packet_ins)

    def _drain(self) -> None:
        for switch in self.switches.values():
            switch.drain()

    def _next_wake(self) -> int | None:
        """When the controller is next to hear or do something, if no switch reports anything before."""
        if self.exchange is None:
            return None
        times = [self.exchange.next_wake(), *(s.device.next_deadline() for s in self.switches.values())]
        return min((time for time in times if time is not None), default=None)

    async def _advance_a_little(self, control: Control) -> None:
        await self._deliver(control)
        await self._step(self.clock.now + STEP_NS, None, control)

    async def _advance(self, until: int, bar: TransferBar | None, control: Control) -> None:
        """Run to `until` or to the workload's end, a step at a time so that Ctrl-C and the display get their turn."""
        clock = self.clock
        while clock.now < until and not (bar is not None and (self._finished() or self.stopped)):
            await self._step(min(until, clock.now + STEP_NS), bar, control)

    async def _step(self, until: int, bar: TransferBar | None, control: Control) -> None:
        """Run to `until`, or to where the controller has something to do."""
        wake = self._next_wake()
        if wake is not None:
            until = min(until, max(wake, self.clock.now))
        going = True
        while going:
            self._stride(until, bar is not None)
            if bar is not None:
                done = sum(endpoint.progress()["bytes_received"] for endpoint in self.endpoints)
                bar.update(done, format_time(self.clock.now))
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:  # what has happened so far is worth a report
                if bar is None:
                    raise
                self.stopped = True
            over = bar is not None and (self._finished() or self.stopped)
            going = self.clock.now < until and not over and self.exchange is None
        await self._deliver(control)

    def _stride(self, until: int, stops: bool) -> None:
        """Run to `until`, or not so far that a person who waits would notice."""
        clock, before, begun = self.clock, self.clock.traversals, self.clock.now
        until = min(until, begun + self._stride_ns)
        quiet = self._outlook.not_before(begun) if stops else until + 1
        if quiet - begun > LAST_NS:
            until = min(until, quiet - 1)
        clock.run(
            until=until,
            stop=self._finished if stops else None,
            reports=self.exchange is not None,
            quiet_until=quiet,
        )
        self._flush()
        carried = clock.traversals - before
        if carried:
            self._stride_ns = max(1, min(STEP_NS, (clock.now - begun) * STRIDE_TRAVERSALS // carried))

    def _fastest_bps(self) -> int:
        """The highest rate that a host's link has or will be set to, on the running clock."""
        plan = self.context.plan
        rates = [host.rate_bps for host in plan.hosts]
        rates += [port.rate_bps for switch in plan.switches for port in switch.ports]
        rates += [rate_of(action) for action in self.context.actions if action.kind == "set_rate"]
        return plan.wall_rate(max(rates))

    def _finished(self) -> bool:
        return all(endpoint.finished for endpoint in self.endpoints)

    def _sample(self) -> None:
        for switch in self.switches.values():
            switch.sampler.sample(self.clock.now)
        for endpoint in self.endpoints:
            endpoint.sample(self.clock.now)
