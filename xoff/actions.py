"""Actions: what an experiment does to its fabric while it runs, at stated times."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from topologies.plan import FabricPlan, SwitchPlan
from topologies.routes import RouteOverride
from xoff.errors import XoffError
from xoff.units import parse_time

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
}  # fmt: skip
"""Kind -> (required arguments, optional arguments)."""


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


def parse_actions(data: Sequence[Any]) -> tuple[Action, ...]:
    """The actions of an experiment file, in time order; XoffError names the one that is wrong."""
    actions = []
    for number, item in enumerate(data, 1):
        where = f"actions, item {number}"
        if not isinstance(item, dict) or "at" not in item or len(item) != 2:
            raise XoffError(
                f"{where}: write it as {{at: 5s, set_route: s2 to h1 via s1}}; kinds: {', '.join(ARGUMENTS)}."
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
        actions.append(Action(parse_time(item["at"]), kind, arguments))
    return tuple(sorted(actions, key=lambda action: action.at_ns))


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
        if action.kind == "set_route":
            resolve_route(plan, arguments["route"])
