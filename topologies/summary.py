"""What a fabric is, in figures: counts, bisection bandwidth, oversubscription, diameter, path diversity."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import networkx as nx

from topologies.fabric import attachments, edge_switches, hosts, switch_graph, switch_of, switches
from topologies.routes import path_counts


@dataclass(frozen=True)
class FabricSummary:
    """Figures of a fabric, in fabric units."""

    name: str
    hosts: int
    switches: int
    switches_by_layer: dict[str, int]
    links: int
    """All of them, host links included."""
    bisection_links: int
    """Switch links that join the two halves of the fabric, at least (the family's halves; of a file, its ranks')."""
    bisection_bps: int
    """Bandwidth of that cut, one direction."""
    oversubscription: float
    """Host bandwidth over bandwidth into the fabric at an edge switch; the largest of all (0 = one switch only)."""
    diameter: int
    """Most links between two hosts on shortest paths."""
    average_hops: float
    """Mean of switch-to-switch links between two hosts on different switches, shortest paths."""
    paths: dict[int, int]
    """Number of routed paths -> how many ordered pairs of edge switches have that many."""


def summarise(graph: nx.MultiGraph) -> FabricSummary:
    """Figures of a fabric."""
    edges = edge_switches(graph)
    weight = Counter(switch_of(graph, host) for host in hosts(graph))
    longest = hops = pairs = 0
    paths: Counter[int] = Counter()
    for destination in edges:
        distance = nx.single_source_shortest_path_length(switch_graph(graph), destination)
        counts = path_counts(graph, destination)
        for source in edges:
            longest = max(longest, distance[source])
            if source != destination:
                hops += distance[source] * weight[source] * weight[destination]
                pairs += weight[source] * weight[destination]
                paths[counts[source]] += 1
    cut_links, cut_bps = _bisection(graph)
    return FabricSummary(
        name=str(graph.graph["name"]),
        hosts=len(hosts(graph)),
        switches=len(switches(graph)),
        switches_by_layer=dict(Counter(graph.nodes[name]["layer"] for name in switches(graph))),
        links=graph.number_of_edges(),
        bisection_links=cut_links,
        bisection_bps=cut_bps,
        oversubscription=max(_oversubscription(graph, switch) for switch in edges),
        diameter=longest + 2,
        average_hops=hops / pairs if pairs else 0.0,
        paths=dict(sorted(paths.items())),
    )


def _oversubscription(graph: nx.MultiGraph, switch: str) -> float:
    down = sum(end.rate_bps for end in attachments(graph, switch) if end.kind == "host")
    up = sum(end.rate_bps for end in attachments(graph, switch) if end.kind != "host")
    return down / up if up else 0.0


def _bisection(graph: nx.MultiGraph) -> tuple[int, int]:
    """(links, bit/s) of the smallest cut between the two halves' edge switches."""
    edges = edge_switches(graph)
    named = graph.graph.get("halves")
    left = (
        [switch for switch in edges if switch in set(named)]
        if named is not None
        else edges[: len(edges) // 2]
    )
    right = [switch for switch in edges if switch not in set(left)]
    if not left or not right:
        return 0, 0
    return _min_cut(graph, left, right, None), _min_cut(graph, left, right, "rate_bps")


def _min_cut(graph: nx.MultiGraph, left: list[str], right: list[str], capacity: str | None) -> int:
    network = nx.Graph()
    for a, b, link in switch_graph(graph).edges(data=True):
        room = link[capacity] if capacity else 1
        network.add_edge(a, b, capacity=room + (network[a][b]["capacity"] if network.has_edge(a, b) else 0))
    # Nodes that cannot be switch names; an edge without a capacity is unbounded.
    network.add_edges_from((("left", 0), switch) for switch in left)
    network.add_edges_from((("right", 0), switch) for switch in right)
    return int(nx.maximum_flow_value(network, ("left", 0), ("right", 0)))
