"""The deadlock check: can the lossless classes of a plan wait for one another in a circle?

A channel is one direction of a link in one class. A packet that came in by one channel and is to leave by another
makes the first wait for the second when PFC pauses it. Lossless routing cannot deadlock if and only if these
waits form no cycle (Dally and Seitz 1987, for deterministic routes; for a choice of candidate ports it is
sufficient). Only waits that traffic from a host can cause count.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx

from topologies.plan import FabricPlan, HostPlan
from topologies.routes import RouteTable


class Channel(NamedTuple):
    """One direction of a link in one class: frames that `sender` sends on `port` to `receiver`."""

    sender: str
    port: int
    receiver: str
    cls: int

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver} (port {self.port}, class {self.cls})"


@dataclass(frozen=True)
class DeadlockReport:
    """What the check found."""

    classes: tuple[int, ...]
    channels: int
    dependencies: int
    cycle: tuple[Channel, ...]
    """Empty when a deadlock is impossible; otherwise each channel waits for the next, the last for the first."""

    @property
    def safe(self) -> bool:
        """No cycle: the lossless classes cannot deadlock."""
        return not self.cycle

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.classes))
        if not self.classes:
            return "no class is lossless: nothing waits, nothing can deadlock"
        if self.safe:
            counted = f"{self.dependencies} waits among {self.channels} channels of class {listed}"
            return f"deadlock-free: {counted} form no cycle"
        ring = " waits for ".join(map(str, [*self.cycle, self.cycle[0]]))
        return f"can deadlock in class {listed}: {ring}"


def check_deadlock(
    plan: FabricPlan,
    flows: Iterable[tuple[str, str]] | None = None,
    reclass: Mapping[tuple[str, int], int] | None = None,
    sent: Iterable[int] | None = None,
) -> DeadlockReport:
    """Look for a cycle among the lossless classes of a plan.

    `flows` limits the traffic to (source host, destination host) pairs; None means all pairs. `reclass` maps
    (switch, egress port) to the class that frames take on there and keep. `sent` lists the classes that hosts send in;
    None means every lossless one.
    """
    lossless = tuple(sorted(cls for cls, policy in plan.classes.items() if policy.lossless))
    waits = channel_dependencies(plan, lossless, flows, reclass, sent)
    return DeadlockReport(lossless, waits.number_of_nodes(), waits.number_of_edges(), _shortest_cycle(waits))


def channel_dependencies(
    plan: FabricPlan,
    classes: Iterable[int],
    flows: Iterable[tuple[str, str]] | None = None,
    reclass: Mapping[tuple[str, int], int] | None = None,
    sent: Iterable[int] | None = None,
) -> nx.DiGraph:
    """The graph of waits: nodes are Channels, an edge says the first can wait for the second.

    Channels towards a host are left out: a host waits for nobody.
    """
    change = reclass or {}
    held = frozenset(classes)
    entering = sorted(held if sent is None else set(sent))
    tables = {switch.name: RouteTable(switch) for switch in plan.switches}
    peers = {switch.name: {port.number: port.peer for port in switch.ports} for switch in plan.switches}
    waits: dict[Channel, set[Channel]] = {}
    for address, sources in _traffic(plan, flows):
        onward: dict[tuple[str, int], list[Channel]] = {}
        seen: set[Channel] = set()
        frontier = [Channel(host.name, 0, host.switch, cls) for host in sources for cls in entering]
        while frontier:
            channel = frontier.pop()
            if channel in seen:
                continue
            seen.add(channel)
            switch, cls = channel.receiver, channel.cls
            if (switch, cls) not in onward:
                onward[switch, cls] = [
                    Channel(switch, port, peers[switch][port], change.get((switch, port), cls))
                    for port in tables[switch].ports(address)
                    if peers[switch][port] in tables
                ]
            following = onward[switch, cls]
            frontier += following
            if cls in held:
                waits.setdefault(channel, set()).update(after for after in following if after.cls in held)
    graph = nx.DiGraph()
    graph.add_nodes_from(waits)
    graph.add_edges_from((before, after) for before, found in waits.items() for after in sorted(found))
    return graph


def _shortest_cycle(waits: nx.DiGraph) -> tuple[Channel, ...]:
    """A shortest cycle through the first channel, by name, that lies on one; empty when there is none."""
    knots = [knot for knot in nx.strongly_connected_components(waits) if len(knot) > 1]
    if not knots:
        return ()
    knot = min(knots, key=min)
    start = min(knot)
    inside = waits.subgraph(knot)
    paths = nx.single_target_shortest_path(inside, start)
    following = min(inside[start], key=lambda channel: (len(paths[channel]), channel))
    return (start, *paths[following][:-1])


def _traffic(
    plan: FabricPlan, flows: Iterable[tuple[str, str]] | None
) -> Iterator[tuple[str, list[HostPlan]]]:
    """(destination address, source hosts). Hosts that every other switch routes alike share one destination."""
    if flows is not None:
        by_destination: dict[str, list[HostPlan]] = {}
        for source, destination in flows:
            by_destination.setdefault(destination, []).append(plan.host(source))
        for destination, sources in by_destination.items():
            yield plan.host(destination).ipv4, sources
        return
    singled_out = _singled_out(plan)
    done: set[str] = set()
    for host in plan.hosts:
        if host.ipv4 in singled_out:
            yield host.ipv4, [other for other in plan.hosts if other is not host]
        elif host.switch not in done:
            done.add(host.switch)
            yield host.ipv4, list(plan.hosts)


def _singled_out(plan: FabricPlan) -> set[str]:
    """Addresses that some switch routes by a prefix longer than its /24 although the host is not its own."""
    local: dict[str, set[str]] = {switch.name: set() for switch in plan.switches}
    for host in plan.hosts:
        local[host.switch].add(host.ipv4)
    found: set[str] = set()
    for switch in plan.switches:
        for route in switch.routes:
            network = ipaddress.IPv4Network(route.prefix)
            if network.prefixlen > 24 and str(network.network_address) not in local[switch.name]:
                found |= {host.ipv4 for host in plan.hosts if ipaddress.IPv4Address(host.ipv4) in network}
    return found
