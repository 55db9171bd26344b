"""One RoCE packet on its way through a fabric: what each switch's P4 program does with it, hop by hop.

Every switch that it meets is a native engine of its own with the entries that the controller would program, traced
(`switch.trace`), in simulated time. No other traffic is there; what the packet leaves in one switch
(its sequence numbers, counters) no other packet sees.
"""

from __future__ import annotations

import heapq
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from finsy.p4entity import encode_entities
from finsy.proto import p4r

from controller import device as programming
from controller.app import ProgramFiles
from controller.intent import SwitchIntent
from controller.reconcile import updates
from controller.session import pipeline_schema
from switch.device import LOOP_PORT
from switch.native.binding import Engine
from switch.native.p4runtime.config import read_config
from switch.native.p4runtime.errors import BatchError, P4RuntimeError
from switch.native.p4runtime.pipeline import Pipeline
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.replication import Replication
from switch.native.trace import Trace, trace_packet
from topologies.plan import FabricPlan, SwitchPlan
from traffic.build import TrafficOptions, build_hosts
from traffic.collectives.workload import Message, Workload
from traffic.endpoint import Endpoint
from xoff.actions import switch_of
from xoff.errors import XoffError
from xoff.experiment import Experiment
from xoff.prepare import build_plan, compile_program

TIMESTAMP_HZ = 10**9
MOST_HOPS = 256
"""A packet that meets more switches runs in circles."""


@dataclass(frozen=True)
class Hop:
    """A packet in one switch."""

    switch: str
    in_port: int
    origin: str
    """The node that it came from."""
    arrived_ns: int
    """When its last bit was there."""
    trace: Trace
    onward: tuple[tuple[int, str, int], ...]
    """(port, node at its other end, ns when the last bit is there) for what left; port -1: to the controller."""


@dataclass
class Journey:
    """Everything that became of a packet."""

    sender: str
    receiver: str
    frame: bytes
    """As it left the sender."""
    hops: list[Hop] = field(default_factory=list)
    delivered: list[tuple[int, str, bytes]] = field(default_factory=list)
    """(ns, host, frame)."""

    def plain(self) -> dict[str, Any]:
        """JSON data."""
        hops = [
            {
                **{key: getattr(hop, key) for key in ("switch", "in_port", "origin", "arrived_ns")},
                "onward": [dict(zip(("port", "node", "at_ns"), way, strict=True)) for way in hop.onward],
                "steps": [asdict(step) for step in hop.trace.steps],
                "drops": hop.trace.drops,
            }
            for hop in self.hops
        ]
        delivered = [{"at_ns": t, "host": host, "frame": frame.hex()} for t, host, frame in self.delivered]
        return {"frame": self.frame.hex(), "hops": hops, "delivered": delivered}

    def text(self, *, full: bool = False, only: str | None = None) -> str:
        """The story: a few lines a hop, or with `full` every step of each switch; `only` one switch's."""
        lines = []
        if only is None:
            lines.append(f"{self.sender} sends {len(self.frame)} bytes to {self.receiver}")
        for number, hop in enumerate(self.hops, 1):
            if only is not None and hop.switch != only:
                continue
            lines.append(
                f"{number:2}  {hop.switch}: in by port {hop.in_port} from {hop.origin} at {hop.arrived_ns} ns"
            )
            if full:
                lines += [f"    {_LONG_HEX.sub(_shortened, line)}" for line in hop.trace.text().splitlines()]
            else:
                lines += [f"      {line}" for line in _summary(hop)]
        if only is None:
            lines += [f"{host} has it after {time} ns" for time, host, _ in self.delivered]
            if not self.delivered:
                lines.append(f"{self.receiver} never gets it")
        return "\n".join(lines)


_HEAD_BYTES = 74
"""Of a frame, in words: every header that RoCE has."""
_LONG_HEX = re.compile(rf"\b([0-9a-f]{{{2 * _HEAD_BYTES}}})([0-9a-f]+)")


def _shortened(found: re.Match[str]) -> str:
    return f"{found[1]}… and {len(found[2]) // 2} more"


def _summary(hop: Hop) -> Iterator[str]:
    for step in hop.trace.steps:
        if step.kind == "table" and ": hit" in step.text:
            table, _, rest = step.text.removeprefix("table ").partition(" with ")
            key, _, found = rest.partition(": hit")
            yield f"{table.rpartition('.')[2]}[{_decimal(key)}] -> {_action(found.partition(': ')[2])}"
        elif step.kind == "dropped":
            yield step.text
    for port, node, _ in hop.onward:
        yield "a copy to the controller" if port < 0 else f"out by port {port} to {node}"
    if not hop.onward and not hop.trace.drops:
        yield "nothing leaves the switch: the program drops the packet"


def _action(call: str) -> str:
    """Its last name and decimal arguments."""
    name, _, arguments = call.partition("(")
    return f"{name.rpartition('.')[2]}({_decimal(arguments)}"


def _decimal(text: str) -> str:
    return re.sub(r" \(0x[0-9a-f]+\)", "", text)


def trace_journey(
    experiment: Experiment, sender: str, receiver: str, switch: str | None, size: int, traffic_class: int
) -> Journey:
    """Plan and compile an experiment's fabric in virtual time and follow a packet. XoffError when that cannot be."""
    experiment = experiment.with_options(clock="virtual", switch="auto")
    plan = build_plan(experiment)
    if switch is not None:
        switch_of(plan, switch)
    with tempfile.TemporaryDirectory(prefix="xoff-trace-") as folder:
        files = compile_program(experiment).write(Path(folder))
        journey = follow(
            plan, files, sender, receiver, size=size, traffic_class=traffic_class, seed=experiment.seed
        )
    if switch is not None and all(hop.switch != switch for hop in journey.hops):
        met = ", ".join(hop.switch for hop in journey.hops)
        raise XoffError(f"the packet does not come to {switch}; it meets {met}.")
    return journey


def follow(
    plan: FabricPlan,
    program: ProgramFiles,
    sender: str,
    receiver: str,
    *,
    size: int,
    traffic_class: int,
    seed: int,
) -> Journey:
    """Send one RDMA message of `size` bytes and follow its first packet. XoffError when that cannot be."""
    names = [host.name for host in plan.hosts]
    for name in (sender, receiver):
        if name not in names:
            raise XoffError(f"there is no host {name!r}; hosts: {', '.join(names)}.")
    if sender == receiver:
        raise XoffError(f"{sender} sends to itself; give two hosts.")
    time, frame = _first_frame(plan, sender, receiver, size, traffic_class, seed)
    journey = Journey(sender, receiver, frame)
    host = plan.host(sender)
    hosts, made = set(names), _Engines(plan, program, seed)
    waiting = [(time, 0, host.switch, host.switch_port, frame)]
    sequence = 0
    try:
        while waiting:
            time, _, node, port, frame = heapq.heappop(waiting)
            if node in hosts:
                journey.delivered.append((time, node, frame))
                continue
            if len(journey.hops) >= MOST_HOPS:
                raise XoffError(
                    f"after {MOST_HOPS} switches it is still on its way: its routes go in a circle."
                )
            hop, frames = made.hop(node, port, frame, time)
            journey.hops.append(hop)
            for peer, peer_port, at, data in frames:
                sequence += 1
                heapq.heappush(waiting, (at, sequence, peer, peer_port, data))
    finally:
        made.close()
    return journey


def _first_frame(
    plan: FabricPlan, sender: str, receiver: str, size: int, traffic_class: int, seed: int
) -> tuple[int, bytes]:
    """(ns when its last bit is at the switch, frame), made by the sender's NIC as in a run."""
    message = Message(0, sender, receiver, size, traffic_class=traffic_class)
    workload = Workload("trace", (sender, receiver), (message,), size)
    configs = build_hosts(plan, workload, TrafficOptions(seed=seed))
    endpoint = Endpoint(next(config for config in configs if config.nic.name == sender))
    endpoint.start(0)
    while (deadline := endpoint.next_deadline()) is not None:
        for _, frame in endpoint.poll(deadline):
            return deadline, frame
    raise XoffError(f"{sender} sends nothing.")


class _Engines:
    """The switches that the packet has met."""

    def __init__(self, plan: FabricPlan, program: ProgramFiles, seed: int) -> None:
        self._plan = plan
        self._seed = seed
        self._schema = pipeline_schema(program.p4info, program.json)
        self._engines: dict[str, Engine] = {}

    def hop(
        self, name: str, port: int, frame: bytes, now: int
    ) -> tuple[Hop, list[tuple[str, int, int, bytes]]]:
        """What a switch does with the frame, and (node, port, ns, frame) of what it sends on."""
        switch = self._plan.switch(name)
        ports = {p.number: p for p in switch.ports}
        if name not in self._engines:
            self._engines[name] = self._programmed(switch)
        engine = self._engines[name]
        trace = trace_packet(engine, port, frame, now)
        onward, frames = [], []
        for time, out, data in trace.sent:
            if out in ports:
                onward.append((out, ports[out].peer, time))
                frames.append((ports[out].peer, ports[out].peer_port, time, data))
            elif out == engine.cpu_port:
                onward.append((-1, "controller", time))
        return Hop(name, port, ports[port].peer, now, trace, tuple(onward)), frames

    def _programmed(self, switch: SwitchPlan) -> Engine:
        try:
            config = read_config(self._schema.get_pipeline_config())
            engine = Engine(
                config.program, device_id=switch.device_id, timestamp_hz=TIMESTAMP_HZ,
                seed=self._seed + switch.device_id, traced=True,
            )  # fmt: skip
            for port in switch.ports:
                engine.add_port(port.number, port.rate_bps, port.delay_ns)
            engine.add_port(LOOP_PORT, 0, 0)
            entities = programming.entities(SwitchIntent.of_plan(self._plan, switch, TIMESTAMP_HZ))
            pipeline_ports = PortMap(engine.cpu_port)
            pipeline = Pipeline(config, engine, pipeline_ports, Replication(engine, pipeline_ports))
            pipeline.write(
                updates([], encode_entities(entities, self._schema)), p4r.WriteRequest.CONTINUE_ON_ERROR
            )
        except (P4RuntimeError, BatchError, ValueError) as error:
            raise XoffError(
                f"{switch.name}: its program is not one that the built-in controller can fill ({error})."
            ) from error
        return engine

    def close(self) -> None:
        """Free them."""
        for engine in self._engines.values():
            engine.close()
