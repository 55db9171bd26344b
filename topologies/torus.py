"""The torus (k-ary n-cube): a switch per coordinate, a ring per row of every dimension, dimension-order routes.

Switch s0_2 stands at coordinate (0, 2). Rings make cyclic buffer dependencies possible: on a ring of four or more
a single lossless class can deadlock (`topologies.cycles` finds the cycle).
"""

from __future__ import annotations

import itertools
import math

import networkx as nx

from topologies.fabric import (
    DEFAULT_DELAY_NS,
    DEFAULT_RATE_BPS,
    TopologyError,
    add_host,
    add_link,
    add_switch,
    check_size,
    new_fabric,
)

MAX_DIMENSIONS = 3


def torus(
    dims: tuple[int, ...] = (4, 4),
    hosts_per_switch: int = 1,
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
) -> nx.MultiGraph:
    """A torus of 1 to 3 dimensions, each of size 2 or more (a size of 2 has one link: both ways round are the same).

    Ports, after the hosts: for every dimension the plus direction, then the minus direction (where it differs).
    """
    if not 1 <= len(dims) <= MAX_DIMENSIONS or any(size < 2 for size in dims):
        raise TopologyError(
            f"torus: dims={'x'.join(map(str, dims))} is not accepted; "
            f"1 to {MAX_DIMENSIONS} sizes of 2 or more, such as 4x4"
        )
    if hosts_per_switch < 1:
        raise TopologyError(f"torus: hosts_per_switch={hosts_per_switch} is not accepted; it is 1 or more")
    check_size("torus", math.prod(dims), math.prod(dims) * hosts_per_switch)
    graph = new_fabric("torus", dims="x".join(map(str, dims)), hosts_per_switch=hosts_per_switch)
    graph.graph["routing"] = dimension_order
    graph.graph["dims"] = dims
    graph.graph["halves"] = _half(dims)
    rank = 0
    for place in itertools.product(*map(range, dims)):
        x, y = _draw_at(place, dims)
        add_switch(graph, _name(place), "node", (x, y), coordinate=place)
        for j in range(hosts_per_switch):
            rank += 1
            offset = 0.25 / dims[0]
            position = (x + offset * (j + 1) / (hosts_per_switch + 1), y + offset / 2)
            add_host(graph, f"h{rank}", _name(place), position, rate_bps, delay_ns)
    for place in itertools.product(*map(range, dims)):
        for dim, size in enumerate(dims):
            if size == 2 and place[dim] == 1:
                continue
            ports = _ports(dims, dim, hosts_per_switch)
            following = _step(place, dims, dim, 1)
            ends = (ports[0], ports[0] if size == 2 else ports[1])
            add_link(graph, _name(place), _name(following), "local", rate_bps, delay_ns, ends)
    return graph


def dimension_order(graph: nx.MultiGraph, destination: str) -> dict[str, tuple[int, ...]]:
    """Routing: correct the first differing coordinate, the shorter way round; both ways when they are equal."""
    dims: tuple[int, ...] = graph.graph["dims"]
    goal = graph.nodes[destination]["coordinate"]
    found = {}
    for place in itertools.product(*map(range, dims)):
        if place == goal:
            continue
        dim = next(d for d in range(len(dims)) if place[d] != goal[d])
        ahead = (goal[dim] - place[dim]) % dims[dim]
        behind = dims[dim] - ahead
        steps = [step for step, far in ((1, ahead), (-1, behind)) if far == min(ahead, behind)]
        peers = {_name(_step(place, dims, dim, step)) for step in steps}
        here = _name(place)
        found[here] = tuple(
            sorted(link["ports"][here] for _, peer, link in graph.edges(here, data=True) if peer in peers)
        )
    return found


def _name(place: tuple[int, ...]) -> str:
    return "s" + "_".join(map(str, place))


def _step(place: tuple[int, ...], dims: tuple[int, ...], dim: int, step: int) -> tuple[int, ...]:
    return (*place[:dim], (place[dim] + step) % dims[dim], *place[dim + 1 :])


def _ports(dims: tuple[int, ...], dim: int, hosts_per_switch: int) -> tuple[int, int]:
    before = sum(1 if size == 2 else 2 for size in dims[:dim])
    return hosts_per_switch + before + 1, hosts_per_switch + before + 2


def _half(dims: tuple[int, ...]) -> list[str]:
    """The slab that bisects the torus across its longest even dimension (its longest one if all are odd)."""
    even = [dim for dim, size in enumerate(dims) if size % 2 == 0]
    across = max(even or range(len(dims)), key=lambda dim: dims[dim])
    return [_name(p) for p in itertools.product(*map(range, dims)) if p[across] < dims[across] // 2]


def _draw_at(place: tuple[int, ...], dims: tuple[int, ...]) -> tuple[float, float]:
    x = (place[0] + 0.5) / dims[0]
    y = (place[1] + 0.5) / dims[1] if len(dims) > 1 else 0.5
    if len(dims) > 2:
        depth = (place[2] + 0.5) / dims[2] - 0.5
        x, y = x + 0.4 * depth / dims[0], y + 0.4 * depth / dims[1]
    return x, y
