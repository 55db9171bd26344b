"""What both clocks need of an experiment, computed before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controller.fixedpoint import FixedPointError, byte_ticks, pause_ticks
from switch.link import PFC_QUANTUM_BITS
from topologies.plan import FabricPlan, SwitchPlan
from traffic.build import EndpointConfig, TrafficOptions, build_hosts
from traffic.collectives import Workload, ideal_ns, payload_share
from traffic.nic.config import CongestionConfig, ReceiverConfig
from xoff.actions import Action, check_actions, parse_actions, rate_of
from xoff.errors import XoffError
from xoff.experiment import Experiment
from xoff.prepare import Program, build_plan, compile_program
from xoff.records import RecordWriter
from xoff.units import format_rate, parse_rate
from xoff.workload import build_workload

LAPS_PER_PAUSE = 8
"""Times that the timer packet visits each port within one longest pause: XOFF is refreshed well before it expires."""

TIMESTAMP_HZ = {"mininet": 10**6, "virtual": 10**9}
"""What P4 timestamps tick at, by clock: BMv2's microseconds, and simulated nanoseconds."""


@dataclass(frozen=True)
class RunContext:
    """An experiment worked out."""

    experiment: Experiment
    plan: FabricPlan
    workload: Workload
    endpoints: tuple[EndpointConfig, ...]
    actions: tuple[Action, ...]
    program: Program

    @property
    def payload_bytes(self) -> int:
        """Payload of the whole workload."""
        return sum(message.bytes for message in self.workload.messages)

    def timer_hz(self, switch: SwitchPlan) -> float:
        """Laps per second of the running clock that a switch's timer packet makes, one port a lap."""
        quanta = min((p.pause_quanta for p in self.plan.classes.values() if p.lossless), default=0xFFFF)
        fastest = max(self.plan.wall_rate(port.rate_bps) for port in switch.ports)
        pause_seconds = max(quanta, 1) * PFC_QUANTUM_BITS / fastest
        return len(switch.ports) * LAPS_PER_PAUSE / pause_seconds


def make_context(experiment: Experiment) -> RunContext:
    """Plan, workload, hosts and compiled program of an experiment; every mistake in it shows here."""
    plan = build_plan(experiment)
    _check_rates(plan, experiment)
    _check_controller(experiment.controller)
    workload = build_workload(experiment.workload, plan, experiment.seed)
    actions = parse_actions(experiment.actions)
    check_actions(plan, actions)
    for action in actions:
        if action.kind == "set_rate":
            _check_rate(str(action), rate_of(action), plan, experiment)
    congestion = congestion_config(experiment.congestion_control)
    receivers = {}
    for host, rate in experiment.receiver.items():
        if all(host != known.name for known in plan.hosts):
            raise XoffError(
                f"receiver: there is no host {host!r}; hosts: {', '.join(h.name for h in plan.hosts)}."
            )
        try:
            receivers[host] = ReceiverConfig(drain_bps=parse_rate(rate))
        except XoffError as error:
            raise XoffError(f"receiver: {host}: {error}.") from None
    endpoints = build_hosts(
        plan,
        workload,
        TrafficOptions(
            congestion=congestion,
            receivers=receivers,
            reps=experiment.balancing.reps,
            seed=experiment.seed,
        ),
    )
    return RunContext(experiment, plan, workload, endpoints, actions, compile_program(experiment))


def _check_rates(plan: FabricPlan, experiment: Experiment) -> None:
    """XoffError when a link is too slow for the numbers in which the P4 program counts time."""
    slowest = min(port.rate_bps for switch in plan.switches for port in switch.ports)
    _check_rate("rate", slowest, plan, experiment)


def _check_rate(what: str, rate_bps: int, plan: FabricPlan, experiment: Experiment) -> None:
    """XoffError when `what` asks for a rate (fabric bit/s) that the P4 program cannot count with."""
    hz = TIMESTAMP_HZ[experiment.clock]
    try:
        pause_ticks(plan.wall_rate(rate_bps), hz)
        byte_ticks(plan.wall_rate(rate_bps), hz)
    except FixedPointError as error:
        how = "" if experiment.scale == 1 else f" at time_scale {experiment.scale:g}"
        raise XoffError(f"{what}: {format_rate(rate_bps)}{how} cannot be emulated: {error}.") from None


def _check_controller(choice: str) -> None:
    """XoffError when the experiment's controller is no file; what is in the file shows when it is loaded."""
    if choice not in ("builtin", "none") and not Path(choice).is_file():
        raise XoffError(
            f"controller: {choice!r} is not accepted; it is builtin, none or the path of a Python file."
        )


def congestion_config(text: str) -> CongestionConfig:
    """`dcqcn:preset=paper,g=0.01` as the NICs take it; XoffError when it is not of that form."""
    name, _, body = text.partition(":")
    preset = ""
    parameters: dict[str, float] = {}
    for pair in filter(None, (part.strip() for part in body.split(","))):
        key, equals, value = (word.strip() for word in pair.partition("="))
        if not equals:
            raise XoffError(
                f"congestion_control: {pair!r} is not understood; write {name}:preset=… or {name}:g=0.01."
            )
        if key in parameters or (key == "preset" and preset):
            raise XoffError(f"congestion_control: {key} is given twice.")
        if key == "preset":
            preset = value
            continue
        try:
            parameters[key] = float(value)
        except ValueError:
            raise XoffError(f"congestion_control: {key}={value!r} is not a number.") from None
    return CongestionConfig(name=name.strip(), preset=preset, parameters=parameters, base_rtt_ns=0)


def write_collective(
    context: RunContext, records: RecordWriter, start: int, end: int | None, now: int
) -> None:
    """The record of the workload as a whole; `end` is None when it did not finish."""
    workload = context.workload
    rate = min(host.rate_bps for host in context.plan.hosts)
    records("collective", now, op=workload.name, ranks=len(workload.ranks), bytes=workload.bytes, start=start, end=end,
            ideal_ns=ideal_ns(workload, rate), busbw_factor=workload.busbw_factor,
            payload_ceiling=payload_share(context.plan.mtu))  # fmt: skip
