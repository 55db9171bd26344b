"""Actions: what an experiment does to its fabric while it runs, at stated times."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topologies.plan import FabricPlan, SwitchPlan
from xoff.errors import XoffError
from xoff.units import parse_time

ARGUMENTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "set_route": (("switch", "to", "via"), ()),
    "set_class_map": (("switch", "towards", "from", "to"), ()),
    "set_class_policy": (("class",), ("switches", "xoff_bytes", "xon_bytes", "headroom_bytes", "pause_quanta",
                                      "ecn_kmin_bytes", "ecn_kmax_bytes", "ecn_pmax", "queue_limit_bytes", "lossless")),
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
    """Since the traffic began, on the run's clock (wall; virtual: fabric)."""
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
                f"{where}: write it as {{at: 5s, set_route: {{…}}}}; kinds: {', '.join(ARGUMENTS)}."
            )
        (kind,) = (key for key in item if key != "at")
        if kind not in ARGUMENTS:
            near = difflib.get_close_matches(str(kind), ARGUMENTS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"kinds: {', '.join(ARGUMENTS)}."
            raise XoffError(f"{where}: there is no action {kind!r}; {hint}")
        arguments = item[kind] or {}
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


def route_prefix(plan: FabricPlan, switch: SwitchPlan, to: Any) -> str:
    """The prefix by which `switch` routes to a host or prefix: its own longest route that contains the host."""
    from ipaddress import ip_address, ip_network

    try:
        wanted = ip_network(plan.host(str(to)).ipv4)
    except KeyError:
        try:
            wanted = ip_network(str(to))
        except ValueError:
            raise XoffError(
                f"{to!r} is neither a host of the fabric nor a prefix like 10.0.1.0/24."
            ) from None
    best = None
    for route in switch.routes:
        network = ip_network(route.prefix)
        contains = network.version == wanted.version and ip_address(int(wanted[0])) in network
        if contains and (best is None or network.prefixlen > ip_network(best).prefixlen):
            best = route.prefix
    if best is None:
        raise XoffError(f"{switch.name} has no route to {to}.")
    return best


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
                route_prefix(plan, switch, arguments["to"])
                for peer in arguments["via"]:
                    port_towards(switch, peer)
