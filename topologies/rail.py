"""The rail-optimised fabric of GPU pods: NIC r of every server hangs on leaf r, so same-rail traffic stays on one leaf.

Hosts are NICs: h1 is server 0 rail 0, numbered server by server. Traffic between rails crosses a spine (inside a
real server NVLink would carry it; that hop is not part of the network).
"""

from __future__ import annotations

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


def rail(
    servers: int = 4,
    rails: int = 4,
    spines: int = 2,
    pods: int = 1,
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
) -> nx.MultiGraph:
    """`pods` groups of `servers` servers with `rails` NICs each; one leaf per rail and pod, `spines` above all."""
    if servers < 1 or rails < 1 or pods < 1:
        raise TopologyError("rail: servers, rails and pods must be 1 or more")
    leaves = pods * rails
    if spines < (1 if leaves > 1 else 0):
        raise TopologyError(f"rail: spines={spines} is not accepted; {leaves} leaves need at least 1 spine")
    check_size("rail", leaves + spines, leaves * servers)
    graph = new_fabric("rail", servers=servers, rails=rails, spines=spines, pods=pods)
    graph.graph["halves"] = [f"l{i + 1}" for i in range(leaves // 2)]
    for i in range(leaves):
        add_switch(graph, f"l{i + 1}", "leaf", ((i + 0.5) / leaves, 0.5), pod=i // rails, rail=i % rails)
    total = pods * servers * rails
    for rank in range(total):
        server, on_rail = divmod(rank, rails)
        leaf = f"l{(server // servers) * rails + on_rail + 1}"
        position = ((rank + 0.5) / total, 0.0)
        add_host(graph, f"h{rank + 1}", leaf, position, rate_bps, delay_ns, server=server, rail=on_rail)
    for j in range(spines):
        add_switch(graph, f"s{j + 1}", "spine", ((j + 0.5) / spines, 1.0))
    for i in range(leaves):
        for j in range(spines):
            add_link(graph, f"l{i + 1}", f"s{j + 1}", "up", rate_bps, delay_ns)
    return graph
