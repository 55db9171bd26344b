"""Actions: what an experiment does to its fabric while it runs, at stated times."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, get_args

from topologies.fabric import TopologyError
from topologies.plan import CLASSES, ClassPolicy, FabricPlan, SwitchBalancing, SwitchPlan
from topologies.policies import check_policy, override_policy
from topologies.routes import RouteOverride
from xoff.errors import XoffError
from xoff.units import parse_rate, parse_time

CONTROL_LATENCY_NS = 100_000
"""Virtual time: fabric ns from a controller's decision to its effect in a switch's tables, unless an experiment says
otherwise (`control_latency`). In Mininet the real P4Runtime exchange takes what it takes."""

ARGUMENTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "set_route": (("route",), ()),
    "set_class_map": (("switch", "towards", "from", "to"), ()),
    "set_class_policy": (("class",), ("switches", "xoff_bytes", "xon_bytes", "headroom_bytes", "pause_quanta",
                                      "ecn_kmin_bytes", "ecn_kmax_bytes", "ecn_pmax", "queue_limit_bytes", "lossless")),
    "resume": (("switch", "towards"), ()),
    "set_load_balancing": (("mode",), ("switches",)),
    "stop_senders": ((), ()),
    "kill_switch": (("switch",), ()),
    "restart_switch": (("switch",), ()),
    "link_down": (("switch", "towards"), ()),
    "link_up": (("switch", "towards"), ()),
    "set_rate": (("switch", "towards", "rate"), ()),
    "lossy_link": (("switch", "towards"), ("p", "every", "seed")),
    "pause_host": (("host",), ()),
    "resume_host": (("host",), ()),
    "pfc_storm": (("host",), ("class", "duration", "quanta")),
}  # fmt: skip
"""Kind -> (required arguments, optional arguments)."""

CONTROLLER_ACTIONS = frozenset(
    {"set_route", "set_class_map", "set_class_policy", "set_load_balancing", "resume"}
)
"""What the controller does, over P4Runtime; the rest happens to links, switches and hosts."""

HOST_ACTIONS = frozenset({"stop_senders", "pause_host", "resume_host", "pfc_storm"})
"""What happens at hosts."""

LINK_ACTIONS = frozenset({"link_down", "link_up", "set_rate", "lossy_link"})
"""What happens to links."""

TOO_LATE = "the run was over before this could happen"
"""Note on an action whose time did not come."""


@dataclass(frozen=True)
class Action:
    """One thing to do at a time of the run."""

    at_ns: int
    """Since the traffic began, in fabric time."""
    kind: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        words = ", ".join(f"{key} {value}" for key, value in self.arguments.items())
        return f"{self.kind}({words})"


@dataclass(frozen=True)
class Loss:
    """What `lossy_link` asks for: see `switch.native.binding.Engine.set_port_loss`."""

    probability: float
    every: int
    seed: int


@dataclass(frozen=True)
class Storm:
    """What `pfc_storm` asks for. Fabric time."""

    host: str
    traffic_class: int
    duration_ns: int
    quanta: int


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link: a switch port, or a host's only port (0)."""

    node: str
    port: int
    is_switch: bool


def parse_actions(data: Sequence[Any]) -> tuple[Action, ...]:
    """The actions of an experiment file, in time order; XoffError names the one that is wrong."""
    actions = []
    for number, item in enumerate(data, 1):
        where = f"actions, item {number}"
        if not isinstance(item, dict) or "at" not in item or len(item) != 2:
            raise XoffError(
                f"{where}: write it as {{at: 200us, set_route: s2 to h1 via s1}}; kinds: {', '.join(ARGUMENTS)}."
            )
        (kind,) = (key for key in item if key != "at")
        if kind not in ARGUMENTS:
            near = difflib.get_close_matches(str(kind), ARGUMENTS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"kinds: {', '.join(ARGUMENTS)}."
            raise XoffError(f"{where}: there is no action {kind!r}; {hint}")
        arguments = {"route": item[kind]} if kind == "set_route" else item[kind] or {}
        if not isinstance(arguments, dict):
            raise XoffError(f"{where}: the arguments of {kind} are a mapping, not {arguments!r}.")
        required, optional = ARGUMENTS[kind]
        for key in required:
            if key not in arguments:
                raise XoffError(f"{where}: {kind} needs {key}.")
        for key in arguments:
            if key not in required + optional:
                raise XoffError(
                    f"{where}: {kind} takes {', '.join(required + optional) or 'nothing'}, not {key!r}."
                )
        try:
            action = Action(parse_time(item["at"]), kind, arguments)
        except XoffError as error:
            raise XoffError(f"{where}: at: {error}") from None
        _check_arguments(action, where)
        actions.append(action)
    return tuple(sorted(actions, key=lambda action: action.at_ns))


def _check_arguments(action: Action, where: str) -> None:
    try:
        if action.kind == "set_rate":
            rate_of(action)
        elif action.kind == "lossy_link":
            loss_of(action)
        elif action.kind == "pfc_storm":
            storm_of(action)
        elif action.kind == "set_class_map":
            for key in ("from", "to"):
                class_of(action, key)
        elif action.kind == "set_class_policy":
            class_of(action, "class")
        elif action.kind == "set_load_balancing" and action.arguments["mode"] not in get_args(
            SwitchBalancing
        ):
            raise XoffError(
                f"set_load_balancing: mode is one of {', '.join(get_args(SwitchBalancing))}, "
                f"not {action.arguments['mode']!r:.60}."
            )
        switches = action.arguments.get("switches")
        if switches is not None and not (isinstance(switches, list) and switches):
            raise XoffError(
                f"{action.kind}: switches is a list of names such as [s1, s2], not {switches!r:.60}."
            )
    except XoffError as error:
        raise XoffError(f"{where}: {error}") from None


def class_of(action: Action, key: str) -> int:
    """The traffic class that an action's argument names."""
    value = action.arguments[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < CLASSES:
        raise XoffError(f"{action.kind}: {key} is a traffic class, 0 to {CLASSES - 1}, not {value!r:.60}.")
    return value


def policy_of(plan: FabricPlan, action: Action) -> ClassPolicy:
    """The policy that `set_class_policy` asks for: the plan's with fields replaced. XoffError when no switch could."""
    cls = class_of(action, "class")
    changes = {key: value for key, value in action.arguments.items() if key not in ("class", "switches")}
    try:
        policy = override_policy(cls, plan.classes.get(cls, ClassPolicy(lossless=False)), changes)
        check_policy(cls, policy)
    except TopologyError as error:
        raise XoffError(f"set_class_policy: {error}.") from None
    return policy


def rate_of(action: Action) -> int:
    """The rate that `set_rate` asks for, fabric bit/s."""
    return parse_rate(action.arguments["rate"])


def loss_of(action: Action) -> Loss:
    """The loss that `lossy_link` asks for; neither `p` nor `every` heals the link."""
    arguments = action.arguments
    probability, every, seed = arguments.get("p", 0.0), arguments.get("every", 0), arguments.get("seed", 1)
    if not _is_number(probability) or not 0 <= probability <= 1:
        raise XoffError(f"lossy_link: p is a probability, 0 to 1, not {probability!r}.")
    for key, value in (("every", every), ("seed", seed)):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
            raise XoffError(f"lossy_link: {key} is a whole number from 0 on, not {value!r}.")
    return Loss(float(probability), every, seed)


def storm_of(action: Action) -> Storm:
    """The storm that `pfc_storm` asks for: class 3, 1 ms, 65535 quanta a frame unless it says otherwise."""
    arguments = action.arguments
    numbers = {}
    for key, default, limit in (("class", 3, 7), ("quanta", 0xFFFF, 0xFFFF)):
        value = arguments.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
            raise XoffError(f"pfc_storm: {key} is a whole number from 0 to {limit}, not {value!r}.")
        numbers[key] = value
    if not numbers["quanta"]:
        raise XoffError("pfc_storm: 0 quanta resume, they pause nothing.")
    duration = parse_time(arguments.get("duration", "1ms"))
    return Storm(str(arguments["host"]), numbers["class"], duration, numbers["quanta"])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def switch_of(plan: FabricPlan, name: Any) -> SwitchPlan:
    """The switch called `name`, or an XoffError that lists what there is."""
    try:
        return plan.switch(str(name))
    except KeyError:
        raise XoffError(
            f"there is no switch {name!r}; switches: {', '.join(s.name for s in plan.switches)}."
        ) from None


def port_towards(switch: SwitchPlan, peer: Any) -> int:
    """The first port of `switch` that leads to the node called `peer`."""
    for port in switch.ports:
        if port.peer == peer:
            return port.number
    peers = ", ".join(port.peer for port in switch.ports)
    raise XoffError(f"{switch.name} has no link to {peer!r}; it has links to {peers}.")


def link_ends(plan: FabricPlan, action: Action) -> tuple[LinkEnd, LinkEnd]:
    """Both ends of the link that an action names by `switch` and `towards`, the named switch first."""
    switch = switch_of(plan, action.arguments["switch"])
    number = port_towards(switch, action.arguments["towards"])
    port = next(p for p in switch.ports if p.number == number)
    peer_is_switch = any(port.peer == other.name for other in plan.switches)
    return LinkEnd(switch.name, number, True), LinkEnd(port.peer, port.peer_port, peer_is_switch)


def loss_directions(ends: tuple[LinkEnd, LinkEnd]) -> tuple[tuple[LinkEnd, str], ...]:
    """(switch port, `tx` or `both`): what loses frames, each direction once; a host's end loses nothing itself."""
    if ends[1].is_switch:
        return (ends[0], "tx"), (ends[1], "tx")
    return ((ends[0], "both"),)


def resolve_route(plan: FabricPlan, text: Any) -> tuple[str, str, tuple[int, ...]]:
    """(switch, prefix, ports) of a route written as `s2 to h1 via s1`; TopologyError or XoffError otherwise."""
    override = RouteOverride.parse(str(text))
    switch = switch_of(plan, override.at)
    ports = tuple(via if isinstance(via, int) else port_towards(switch, via) for via in override.via)
    for port in ports:
        if all(port != known.number for known in switch.ports):
            raise XoffError(f"{switch.name} has no port {port}; its ports are 1 to {len(switch.ports)}.")
    return switch.name, _prefix(plan, override.to), ports


def _prefix(plan: FabricPlan, to: str) -> str:
    for host in plan.hosts:
        if host.name == to:
            return f"{host.ipv4}/32"
        if host.switch == to:
            return str(IPv4Network(f"{host.ipv4}/24", strict=False))
    try:
        return str(IPv4Network(to))
    except ValueError:
        raise XoffError(f"{to!r} is no host, no switch with hosts and no prefix like 10.0.1.0/24.") from None


def check_actions(plan: FabricPlan, actions: Sequence[Action]) -> None:
    """XoffError when an action names a switch, link or host that the fabric does not have."""
    for action in actions:
        arguments = action.arguments
        for name in arguments.get("switches") or ():
            switch_of(plan, name)
        if "switch" in arguments:
            switch = switch_of(plan, arguments["switch"])
            if "towards" in arguments:
                port_towards(switch, arguments["towards"])
        if "host" in arguments and all(arguments["host"] != host.name for host in plan.hosts):
            raise XoffError(
                f"{action.kind}: there is no host {arguments['host']!r}; "
                f"hosts: {', '.join(host.name for host in plan.hosts)}."
            )
        if action.kind == "set_route":
            resolve_route(plan, arguments["route"])
        if action.kind == "set_class_policy":
            policy_of(plan, action)
