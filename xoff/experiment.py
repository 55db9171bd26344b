"""An experiment: everything a run is made of, as one YAML file or the options of `xoff run`.

Rates and times are in fabric units (100 Gb/s, microseconds); the time scale turns them into wall time.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from xoff.actions import CONTROL_LATENCY_NS, parse_actions
from xoff.balancing import Balancing, parse_balancing
from xoff.errors import XoffError
from xoff.units import format_time, parse_rate, parse_time
from xoff.watchdog import parse_watchdog

CHOICES: dict[str, tuple[str, ...]] = {
    "telemetry": ("off", "host", "edge"),
    "switch": ("auto", "native", "bmv2"),
    "clock": ("mininet", "virtual"),
    "links": ("veth", "memory"),
}


LEAST_SCALE, LARGEST_SCALE = 1e-3, 1e9
LARGEST_SEED = 2**31 - 1


def _option(default: Any, help: str) -> Any:
    if isinstance(default, (dict, list)):
        return field(default_factory=type(default), metadata={"help": help})
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Experiment:
    """One run. Every field is an option of `xoff run` and a key of an experiment file."""

    name: str = _option("run", "name of the run; its folder is runs/TIME-NAME")
    topology: str | dict[str, Any] = _option(
        "fattree:k=4",
        "fattree:k=4 | dragonflyplus:groups=3 | torus:dims=4x4 | ring:n=3 | an HPCC topology.txt (see xoff topo)",
    )
    workload: str | dict[str, Any] = _option(
        "allreduce:bytes=4MiB",
        "allreduce | reducescatter | allgather | alltoall | broadcast | incast:senders=15 | permutation, each with "
        "bytes=… (docs/traffic.md), or an HPCC flow.txt",
    )
    load_balancing: str = _option(
        "ecmp",
        "how packets find their paths: ecmp, spray or adaptive in the switches, or reps[:buffer=8,…] in the NICs",
    )
    wcmp: bool = _option(
        False, "weigh equal ports by the capacity of the paths behind them (ecmp, spray, reps)"
    )
    ecn: bool = _option(True, "mark ECN by RED on the egress queue")
    ecn_preset: str = _option(
        "lab", "marking thresholds: lab, hpcc, dctcp, dcqcn-paper, uec or sonic (docs/topologies.md)"
    )
    pfc: bool = _option(True, "pause the lossless class with 802.1Qbb frames instead of dropping")
    telemetry: str = _option(
        "off", "INT-MD 2.1: off, host (NICs add and strip it), edge (first and last switch do)"
    )
    congestion_control: str = _option("dcqcn", "dcqcn[:preset=paper] | hpcc | mprdma | none")
    rate: str = _option("100Gbps", "rate of every link of a generated topology, in fabric units")
    delay: str = _option("1us", "propagation delay of every link, in fabric units")
    time_scale: float = _option(
        10_000.0, "wall seconds per fabric second (100 Gb/s at 10000 runs at 10 Mb/s)"
    )
    mtu: int = _option(1024, "RoCE path MTU: payload bytes per packet (256, 512, 1024, 2048, 4096)")
    seed: int = _option(1, "seed of every random choice: hashes, UDP source ports, permutations")
    switch: str = _option("auto", "which switch runs the P4 program: auto, native or bmv2")
    links: str = _option(
        "veth",
        "Mininet: links between native switches: veth, or memory (less CPU; tcpdump does not see them)",
    )
    packet_threads: int = _option(1, "Mininet: threads that the native switches share (with links: veth)")
    controller: str = _option(
        "builtin", "builtin, none, or a Python file with `async def main(plan, devices, emit)`"
    )
    clock: str = _option(
        "mininet", "mininet (real packets, wall time, root) or virtual (simulated time, no root)"
    )
    program: str = _option("", "P4 program of every switch, instead of the fabric's own")
    classes: dict[str, Any] = _option({}, "overrides per traffic class, e.g. {3: {xoff_bytes: 40000}}")
    routes: list[Any] = _option([], "routes to replace, e.g. [s2 to h1 via s1]")
    receiver: dict[str, Any] = _option({}, "slow receivers: {host: drain rate}")
    actions: list[Any] = _option([], "what to do while it runs, e.g. [{at: 9s, set_route: s2 to h1 via s1}]")
    control_latency: str = _option(
        f"{CONTROL_LATENCY_NS // 1000}us",
        "virtual time: from the controller's decision to its effect in the switches",
    )
    watchdog: dict[str, Any] = _option(
        {}, "PFC watchdog of the built-in controller, e.g. {detection_time: 1ms, action: drop}"
    )
    reroute: bool = _option(False, "the built-in controller routes around links that go down")
    sample: str = _option("10us", "how often queues, ports and flows are sampled (fabric time)")
    stop_after: str = _option(
        "", "stop the senders after this time (fabric) and keep the fabric until the time limit"
    )
    time_limit: str = _option(
        "30ms", "give up after this time (fabric; 30ms at time scale 10000 is 5 minutes)"
    )
    hold: bool = _option(False, "when the workload is over keep the fabric for `xoff shell`, until Ctrl-C")
    pcap: bool = _option(False, "capture every host's frames to pcap/HOST.pcap in the run's folder")

    def __post_init__(self) -> None:
        for key, accepted in CHOICES.items():
            value = getattr(self, key)
            if value not in accepted:
                raise XoffError(f"{key}: {value!r} is not one of {', '.join(accepted)}.")
        if self.mtu not in (256, 512, 1024, 2048, 4096):
            raise XoffError(f"mtu: {self.mtu!r} is not a RoCE path MTU; it is 256, 512, 1024, 2048 or 4096.")
        if not LEAST_SCALE <= self.time_scale <= LARGEST_SCALE:
            raise XoffError(
                f"time_scale: {self.time_scale!r} must be above zero: {LEAST_SCALE:g} to {LARGEST_SCALE:g}."
            )
        if not 0 <= self.seed <= LARGEST_SEED:
            raise XoffError(f"seed: {self.seed} is not accepted; it is 0 to {LARGEST_SEED}.")
        if not 1 <= self.packet_threads <= 64:
            raise XoffError(f"packet_threads: {self.packet_threads} is not accepted; it is 1 to 64.")
        if self.links == "memory" and self.packet_threads > 1:
            raise XoffError("links: memory joins switches of one packet thread; packet_threads is 1 with it.")
        if self.clock == "virtual" and self.switch == "bmv2":
            raise XoffError("switch: the virtual clock runs the native switch; bmv2 needs clock: mininet.")
        _in_key("load_balancing", parse_balancing, self.load_balancing)
        _in_key("rate", parse_rate, self.rate)
        for key in ("delay", "control_latency", "sample", "time_limit"):
            _in_key(key, parse_time, getattr(self, key))
        if parse_time(self.sample) == 0:
            raise XoffError("sample: it is above 0, such as 10us.")
        if self.stop_after:
            _in_key("stop_after", parse_time, self.stop_after)
        limit = parse_time(self.time_limit)
        parse_watchdog(self.watchdog)
        if self.watchdog and not self.pfc:
            raise XoffError("watchdog: without pfc nothing is paused that it could watch.")
        if self.controller != "builtin" and (self.watchdog or self.reroute):
            raise XoffError(
                f"watchdog and reroute are the built-in controller's; this one is {self.controller}."
            )
        for action in parse_actions(self.actions):
            if action.at_ns > limit:
                raise XoffError(
                    f"actions: {action} at {format_time(action.at_ns)} would never happen; the run ends after its "
                    f"time_limit, {self.time_limit}."
                )

    @property
    def scale(self) -> float:
        """Wall (or simulated) seconds per fabric second on the chosen clock."""
        return 1.0 if self.clock == "virtual" else self.time_scale

    @property
    def balancing(self) -> Balancing:
        """`load_balancing` taken apart."""
        return parse_balancing(self.load_balancing)

    def clock_time(self, key: str) -> int:
        """Nanoseconds on the running clock of the option `key`, a duration in fabric time."""
        return round(parse_time(getattr(self, key)) * self.scale)

    def with_options(self, **options: Any) -> Experiment:
        """A copy with every option that is not None replaced."""
        return replace(self, **{key: value for key, value in options.items() if value is not None})

    def to_yaml(self) -> str:
        """The experiment file that `load` reads back."""
        return yaml.safe_dump({f.name: getattr(self, f.name) for f in fields(self)}, sort_keys=False)


Parsed = TypeVar("Parsed")
TYPES = {int: "of type int", float: "a number", dict: "a mapping", list: "a list"}


def _in_key(key: str, parse: Callable[[Any], Parsed], value: Any) -> Parsed:
    try:
        return parse(value)
    except XoffError as error:
        raise XoffError(f"{key}: {error}") from None


def _checked(name: str, value: Any, default: Any, where: str) -> Any:
    """`value` as the type that the field `name` has, or an error naming the key."""
    if name in ("topology", "workload"):
        if not isinstance(value, (str, dict)):
            raise XoffError(f"{where}: {name} must be text or a mapping, not {value!r}.")
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise XoffError(f"{where}: {name} must be true or false, not {value!r}.")
        return value
    if isinstance(default, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, str) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if value is False and name == "telemetry":
        return "off"  # YAML reads a bare `off` as false
    if not isinstance(value, type(default)) or isinstance(value, bool):
        raise XoffError(f"{where}: {name} must be {TYPES.get(type(default), 'text')}, not {value!r:.100}.")
    return value


def from_mapping(data: Any, where: str) -> Experiment:
    """The experiment of a parsed YAML mapping; XoffError names a wrong key or value."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise XoffError(f"{where}: an experiment is a mapping of options, not {type(data).__name__}.")
    defaults = {f.name: getattr(Experiment(), f.name) for f in fields(Experiment)}
    checked = {}
    for key, value in data.items():
        if key not in defaults:
            near = difflib.get_close_matches(str(key), defaults, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(defaults)}."
            raise XoffError(f"{where}: unknown key {key!r}; {hint}")
        checked[key] = _checked(key, value, defaults[key], where)
    try:
        return Experiment(**checked)
    except XoffError as error:
        raise XoffError(f"{where}: {error}") from None


class Loader(yaml.SafeLoader):
    """YAML as it is safe, in which a key that is given twice is an error: one of the two would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the base class; `yaml.constructor.ConstructorError` names the second key."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """As the base class, for numbers that a machine has; a longer one could not even be named in an error."""
        value: int = super().construct_yaml_int(node)
        if abs(value) >= 2**64:
            raise yaml.constructor.ConstructorError(
                None, None, "a whole number has at most 64 bits", node.start_mark
            )
        return value


Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)


def load(path: Path) -> Experiment:
    """Read an experiment file; XoffError says what is wrong and where."""
    try:
        text = path.read_text()
    except OSError as error:
        raise XoffError(f"{path}: cannot read the experiment file ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise XoffError(f"{path}: not a text file; an experiment file is YAML.") from None
    try:
        data = yaml.load(text, Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise XoffError(f"{where}: not valid YAML: {getattr(error, 'problem', error)}.") from None
    except (RecursionError, ValueError) as error:
        raise XoffError(f"{path}: not valid YAML: {error}.") from None
    return from_mapping(data, str(path))
