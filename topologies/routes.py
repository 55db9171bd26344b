"""Routes of a fabric: for every switch, destination prefixes and the equal candidate ports to reach them.

A family may bring its own routing (a torus routes dimension by dimension); otherwise all shortest paths are
candidates. Remote edge switches are one /24 route each; a switch's own hosts are /32 routes. A user's override is a
more specific or equal prefix and wins.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import networkx as nx

from topologies.addressing import Addressing
from topologies.fabric import TopologyError, attachments, edge_switches, switch_graph, switches
from topologies.plan import FabricPlan, Route, SwitchPlan

Routing = Callable[[nx.MultiGraph, str], dict[str, tuple[int, ...]]]
"""(fabric, destination switch) -> candidate ports, ascending, at every other switch."""


@dataclass(frozen=True)
class RouteOverride:
    """`at` a switch, traffic `to` a host, a switch (its subnet) or a prefix leaves `via` these neighbours or ports."""

    at: str
    to: str
    via: tuple[str | int, ...]

    @staticmethod
    def parse(text: str) -> RouteOverride:
        """From `s1 to h3 via s2`, `s1 to 10.0.2.0/24 via s2,s3` or `s1 to s3 via port 2`. Raises TopologyError."""
        match = re.fullmatch(r"\s*(\S+)\s+to\s+(\S+)\s+via\s+(port\s+)?(.+?)\s*", text)
        if match is None:
            raise TopologyError(
                f"route {text!r} is not understood; accepted: `SWITCH to HOST|SWITCH|PREFIX via NEIGHBOUR[,NEIGHBOUR]` "
                "or `… via port N[,N]`"
            )
        at, to, as_port, via = match.groups()
        parts = [part.strip() for part in via.split(",")]
        if as_port and not all(part.isdigit() for part in parts):
            raise TopologyError(f"route {text!r}: after `via port` come port numbers")
        return RouteOverride(at, to, tuple(int(part) for part in parts) if as_port else tuple(parts))


def shortest_paths(graph: nx.MultiGraph, destination: str) -> dict[str, tuple[int, ...]]:
    """Every port of every switch that is one hop nearer to `destination` (hops; parallel links all count)."""
    distance = {destination: 0}
    queue = deque([destination])
    while queue:
        node = queue.popleft()
        for peer in graph[node]:
            if peer not in distance and graph.nodes[peer]["kind"] == "switch":
                distance[peer] = distance[node] + 1
                queue.append(peer)
    ports: dict[str, list[int]] = defaultdict(list)
    for a, b, link in graph.edges(distance, data=True):
        for near, far in ((a, b), (b, a)):
            if near in distance and far in distance and distance[far] == distance[near] + 1:
                ports[far].append(link["ports"][far])
    return {switch: tuple(sorted(found)) for switch, found in ports.items()}


def build_routes(
    graph: nx.MultiGraph, addresses: Addressing, overrides: Iterable[RouteOverride] = ()
) -> dict[str, tuple[Route, ...]]:
    """Routes of every switch, sorted by prefix. Raises TopologyError for an override that names nothing."""
    routing: Routing = graph.graph.get("routing") or shortest_paths
    table: dict[str, dict[str, tuple[int, ...]]] = {switch: {} for switch in switches(graph)}
    for destination in edge_switches(graph):
        for switch, ports in routing(graph, destination).items():
            table[switch][addresses.subnet[destination]] = ports
        for link in attachments(graph, destination):
            if link.kind == "host":
                table[destination][f"{addresses.ipv4[link.peer]}/32"] = (link.port,)
    for override in overrides:
        prefix = _prefix(addresses, override)
        if override.at not in table:
            raise TopologyError(f"route at {override.at}: there is no switch of that name")
        table[override.at][prefix] = _ports(graph, override)
    return {
        switch: tuple(Route(prefix, ports) for prefix, ports in sorted(routes.items(), key=_by_prefix))
        for switch, routes in table.items()
    }


class RouteTable:
    """Longest prefix match over a switch's routes."""

    def __init__(self, switch: SwitchPlan) -> None:
        self._by_length: dict[int, dict[int, tuple[int, ...]]] = {}
        for route in switch.routes:
            address, _, length = route.prefix.partition("/")
            shift = 32 - int(length)
            self._by_length.setdefault(shift, {})[int(ipaddress.IPv4Address(address)) >> shift] = route.ports
        self._shifts = sorted(self._by_length)

    def ports(self, ipv4: str) -> tuple[int, ...]:
        """Candidate ports of a destination; empty when no route covers it."""
        address = int(ipaddress.IPv4Address(ipv4))
        for shift in self._shifts:
            found = self._by_length[shift].get(address >> shift)
            if found:
                return found
        return ()


def all_paths(plan: FabricPlan, source: str, destination: str, limit: int = 1024) -> list[list[str]]:
    """Every node sequence the routes allow from one host to another, host to host, at most `limit`.

    Raises TopologyError when the routes loop or end nowhere.
    """
    by_name = {switch.name: switch for switch in plan.switches}
    tables = {switch.name: RouteTable(switch) for switch in plan.switches}
    goal = plan.host(destination)
    done: list[list[str]] = []
    stack = [[source, plan.host(source).switch]]
    while stack and len(done) < limit:
        path = stack.pop()
        switch = by_name[path[-1]]
        ports = tables[switch.name].ports(goal.ipv4)
        if not ports:
            raise TopologyError(f"{switch.name} has no route to {destination} ({goal.ipv4})")
        peers = {port.number: port.peer for port in switch.ports}
        for peer in sorted({peers[port] for port in ports}, reverse=True):
            if peer == destination:
                done.append([*path, peer])
            elif peer in path:
                raise TopologyError(f"the routes to {destination} loop: {' -> '.join([*path, peer])}")
            elif peer in by_name:
                stack.append([*path, peer])
            else:
                raise TopologyError(f"{switch.name} delivers traffic for {destination} to {peer}")
    return done


def path_counts(graph: nx.MultiGraph, destination: str) -> dict[str, int]:
    """Number of paths (parallel links counted apart) the routing allows from each switch to `destination`."""
    routing: Routing = graph.graph.get("routing") or shortest_paths
    ports = routing(graph, destination)
    counts = {destination: 1}

    def count(switch: str) -> int:
        if switch not in counts:
            peers = {end.port: end.peer for end in attachments(graph, switch)}
            counts[switch] = sum(count(peers[port]) for port in ports[switch])
        return counts[switch]

    order = nx.single_source_shortest_path_length(switch_graph(graph), destination)
    for switch in order:
        count(switch)
    return counts


def _prefix(addresses: Addressing, override: RouteOverride) -> str:
    if override.to in addresses.ipv4:
        return f"{addresses.ipv4[override.to]}/32"
    if override.to in addresses.subnet:
        return addresses.subnet[override.to]
    try:
        return str(ipaddress.IPv4Network(override.to))
    except ValueError:
        raise TopologyError(
            f"route at {override.at} to {override.to}: that is no host, no switch with hosts and no IPv4 prefix"
        ) from None


def _ports(graph: nx.MultiGraph, override: RouteOverride) -> tuple[int, ...]:
    ends = attachments(graph, override.at)
    chosen: set[int] = set()
    for via in override.via:
        matching = {end.port for end in ends if via in (end.port, end.peer)}
        if not matching:
            neighbours = ", ".join(f"{end.peer} (port {end.port})" for end in ends)
            raise TopologyError(
                f"route at {override.at} via {via}: not attached to it; its ports lead to {neighbours}"
            )
        chosen |= matching
    return tuple(sorted(chosen))


def _by_prefix(item: tuple[str, tuple[int, ...]]) -> tuple[int, int]:
    network = ipaddress.IPv4Network(item[0])
    return int(network.network_address), network.prefixlen
