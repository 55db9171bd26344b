"""Routing: ports, prefixes, groups of equal ports and the way one of a group is chosen."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Sequence

import finsy as fy
from finsy.p4entity import P4EntityList

from controller.intent import SwitchIntent
from topologies.netns import FABRIC_MTU
from topologies.plan import PortPlan, SwitchBalancing

BALANCE_MODES: dict[SwitchBalancing, int] = {"ecmp": 0, "spray": 1, "adaptive": 2}
"""Numbers of p4src/constants.p4."""
ADAPTIVE_CANDIDATES = 8
COPIES = 512
"""A port's members are numbered port, port + 512, port + 1024 …, one for each turn that it has in a group."""
_GROUP_IDS = 0xFFFF


def entities(intent: SwitchIntent) -> list[P4EntityList]:
    """Everything the routing stage holds: egress ports, members, groups, routes, class changes, the balance mode."""
    groups = group_ids(intent)
    result: list[P4EntityList] = [_egress_port(intent, port) for port in intent.switch.ports]
    used = sorted({member for turns in groups for member in member_ids(turns)})
    result += [
        fy.P4ActionProfileMember(
            "paths", member_id=member, action=fy.P4TableAction("to_port", port=member % COPIES)
        )
        for member in used
    ]
    for turns, group in groups.items():
        result.append(
            fy.P4ActionProfileGroup(
                "paths",
                group_id=group,
                members=[fy.P4Member(member, weight=1) for member in member_ids(turns)],
            )
        )
        result.append(
            fy.P4TableEntry(
                "next_hop_group",
                match=fy.P4TableMatch(group=group),
                action=fy.P4IndirectAction(group_id=group),
            )
        )
        result.append(
            fy.P4TableEntry(
                "adaptive_group",
                match=fy.P4TableMatch(group=group),
                action=_least_loaded(intent, tuple(sorted(set(turns)))),
            )
        )
    result += [_route(prefix, intent.members(prefix), groups) for prefix in intent.routes]
    result += [
        fy.P4TableEntry(
            "class_map",
            match=fy.P4TableMatch(
                **{"ingress_port": ingress.number, "egress_port": egress_port, "class": cls}
            ),
            action=fy.P4TableAction("set_class", new_class=new_class),
        )
        for (egress_port, cls), new_class in sorted(intent.class_map.items())
        for ingress in intent.switch.ports
    ]
    result.append(
        fy.P4TableEntry(
            "load_balancing",
            action=fy.P4TableAction(
                "set_load_balancing",
                mode=BALANCE_MODES[intent.balance],
                seed=intent.switch.hash_seed & 0xFFFFFFFF,
            ),
            is_default_action=True,
        )
    )
    return result


def group_ids(intent: SwitchIntent) -> dict[tuple[int, ...], int]:
    """An id for every sequence of two or more candidate ports that a group takes in turn.

    It follows from the sequence alone (a hash, the next free number on a collision), so that a change of one route
    never renumbers the groups of others, not even across a restart of the controller.
    """
    wanted = sorted({turns for prefix in intent.routes if len(turns := intent.members(prefix)) > 1})
    result: dict[tuple[int, ...], int] = {}
    taken: set[int] = set()
    for ports in wanted:
        group = zlib.crc32(repr(ports).encode()) % _GROUP_IDS + 1
        while group in taken:
            group = group % _GROUP_IDS + 1
        taken.add(group)
        result[ports] = group
    return result


def member_ids(turns: Sequence[int]) -> list[int]:
    """The members of a group that takes these ports in turn."""
    return [port + COPIES * turns[:at].count(port) for at, port in enumerate(turns)]


def _egress_port(intent: SwitchIntent, port: PortPlan) -> fy.P4TableEntry:
    edge = intent.plan.telemetry.mode == "edge" and port.kind == "host"
    return fy.P4TableEntry(
        "egress_port",
        match=fy.P4TableMatch(port=port.number),
        action=fy.P4TableAction(
            "set_egress_port",
            src=port.mac,
            dst=port.peer_mac,
            mtu=FABRIC_MTU,
            rate_kbps=min(intent.wall_rate(port) // 1000, 0xFFFFFFFF),
            int_sink=int(edge),
        ),
    )


def _least_loaded(intent: SwitchIntent, ports: tuple[int, ...]) -> fy.P4TableAction:
    # The program compares eight; of a larger group each switch takes another eight, so that all are used.
    start = intent.switch.hash_seed % len(ports) if len(ports) > ADAPTIVE_CANDIDATES else 0
    chosen = [ports[(start + index) % len(ports)] for index in range(min(len(ports), ADAPTIVE_CANDIDATES))]
    padded = chosen + [0] * (ADAPTIVE_CANDIDATES - len(chosen))
    arguments = {f"port{index}": port for index, port in enumerate(padded)}
    return fy.P4TableAction("least_loaded", **arguments, valid=(1 << len(chosen)) - 1)


def _route(prefix: str, ports: tuple[int, ...], groups: dict[tuple[int, ...], int]) -> fy.P4TableEntry:
    network = ipaddress.ip_network(prefix)
    table = "ipv4_lpm" if network.version == 4 else "ipv6_lpm"
    if len(ports) == 1:
        action = fy.P4TableAction("to_port", port=ports[0])
    else:
        action = fy.P4TableAction("to_group", group=groups[ports])
    if network.prefixlen == 0:
        match = None
    else:
        match = fy.P4TableMatch(dst=str(network))
    return fy.P4TableEntry(table, match=match, action=action)
