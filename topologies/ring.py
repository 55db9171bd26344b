"""A ring of switches with hosts on each: the smallest fabric in which lossless classes can deadlock."""

from __future__ import annotations

import math

import networkx as nx

from topologies.fabric import (
    DEFAULT_DELAY_NS,
    DEFAULT_RATE_BPS,
    TopologyError,
    add_host,
    add_link,
    add_switch,
    attachments,
    check_size,
    new_fabric,
    switches,
)
from topologies.suggest import did_you_mean

RING_ROUTES = ("clockwise", "shortest")


def ring(
    n: int = 3,
    hosts_per_switch: int = 1,
    routes: str = "clockwise",
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
) -> nx.MultiGraph:
    """Switches s1…sn in a circle, hosts h1… switch by switch.

    On every switch port `hosts_per_switch` + 1 leads clockwise, from s1 to s2 and at last from sn back to s1 (the
    wrap link), and the port after it leads back. `clockwise` routes always take the first, `shortest` ones the
    nearer way (both when they are equal).
    """
    if n < 3:
        raise TopologyError(f"ring: n={n} is not accepted; a ring has 3 or more switches")
    if hosts_per_switch < 1:
        raise TopologyError(f"ring: hosts_per_switch={hosts_per_switch} is not accepted; it is 1 or more")
    if routes not in RING_ROUTES:
        raise TopologyError(
            f"ring: routes={routes} is not accepted{did_you_mean(routes, RING_ROUTES)}; "
            f"accepted: {', '.join(RING_ROUTES)}"
        )
    check_size("ring", n, n * hosts_per_switch)
    graph = new_fabric("ring", n=n, hosts_per_switch=hosts_per_switch, routes=routes)
    graph.graph["halves"] = [f"s{i + 1}" for i in range(n // 2)]
    if routes == "clockwise":
        graph.graph["routing"] = clockwise
    for i in range(n):
        angle = math.pi / 2 - 2 * math.pi * i / n
        add_switch(graph, f"s{i + 1}", "node", _on_circle(angle, 0.3))
        for j in range(hosts_per_switch):
            spread = (j - (hosts_per_switch - 1) / 2) * 2 * math.pi / (n * (hosts_per_switch + 1))
            name = f"h{i * hosts_per_switch + j + 1}"
            add_host(graph, name, f"s{i + 1}", _on_circle(angle + spread, 0.5), rate_bps, delay_ns)
    ports = (hosts_per_switch + 1, hosts_per_switch + 2)
    for i in range(n):
        add_link(graph, f"s{i + 1}", f"s{(i + 1) % n + 1}", "local", rate_bps, delay_ns, ports)
    return graph


def clockwise(graph: nx.MultiGraph, destination: str) -> dict[str, tuple[int, ...]]:
    """Routing: every switch sends on to the next one in the circle."""
    names = switches(graph)
    found: dict[str, tuple[int, ...]] = {}
    for i, switch in enumerate(names):
        if switch != destination:
            following = names[(i + 1) % len(names)]
            found[switch] = tuple(end.port for end in attachments(graph, switch) if end.peer == following)
    return found


def _on_circle(angle: float, radius: float) -> tuple[float, float]:
    return 0.5 + radius * math.cos(angle), 0.5 + radius * math.sin(angle)
