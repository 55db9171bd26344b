"""The k-ary fat tree (Al-Fares et al., SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores.

Hosts h1…, edge switches e1…, aggregation a1…, core c1…, numbered pod by pod.
"""

from __future__ import annotations

from fractions import Fraction

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


def fattree(
    k: int = 4,
    oversubscription: float | None = None,
    hosts_per_edge: int | None = None,
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
) -> nx.MultiGraph:
    """A fat tree: k^3/4 hosts, 5k^2/4 switches and 3k^3/4 links at the defaults.

    `hosts_per_edge` defaults to k/2. `oversubscription` is host bandwidth over uplink bandwidth at every edge
    switch: given, the switch-to-switch links run at the rate that yields it; not given, all links run at `rate_bps`
    and the ratio follows from `hosts_per_edge`.
    Raises TopologyError for an odd k or a ratio below 1.
    """
    if k < 2 or k % 2:
        raise TopologyError(
            f"fattree: k={k} is not accepted; k is an even number of switch ports, 2 or more (2, 4, 6, 8, …)"
        )
    half = k // 2
    per_edge = half if hosts_per_edge is None else hosts_per_edge
    if per_edge < 1:
        raise TopologyError(
            f"fattree: hosts_per_edge={per_edge} is not accepted; an edge switch has at least 1 host"
        )
    up_rate = rate_bps
    if oversubscription is not None:
        if oversubscription < 1:
            raise TopologyError(
                f"fattree: oversubscription={oversubscription} is not accepted; it is 1 (none) or more"
            )
        up_rate = round(rate_bps * per_edge / (Fraction(oversubscription) * half))
    check_size("fattree", 2 * k * half + half * half, k * half * per_edge)
    graph = new_fabric("fattree", k=k, oversubscription=oversubscription, hosts_per_edge=hosts_per_edge)
    graph.graph["halves"] = [f"e{i + 1}" for i in range((k // 2) * half)]

    edges = k * half
    total_hosts = edges * per_edge
    for i in range(edges):
        add_switch(graph, f"e{i + 1}", "edge", ((i + 0.5) / edges, 0.3), pod=i // half)
        for j in range(per_edge):
            rank = i * per_edge + j
            position = ((rank + 0.5) / total_hosts, 0.0)
            add_host(graph, f"h{rank + 1}", f"e{i + 1}", position, rate_bps, delay_ns)
    for i in range(edges):
        add_switch(graph, f"a{i + 1}", "aggregation", ((i + 0.5) / edges, 0.65), pod=i // half)
    for i in range(half * half):
        add_switch(graph, f"c{i + 1}", "core", ((i + 0.5) / (half * half), 1.0))

    for pod in range(k):
        for i in range(half):
            for j in range(half):
                add_link(graph, f"e{pod * half + i + 1}", f"a{pod * half + j + 1}", "up", up_rate, delay_ns)
    for pod in range(k):
        for j in range(half):
            for m in range(half):
                add_link(graph, f"a{pod * half + j + 1}", f"c{j * half + m + 1}", "up", up_rate, delay_ns)
    return graph
