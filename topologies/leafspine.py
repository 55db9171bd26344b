"""A two-tier leaf-spine (folded Clos): every leaf joined to every spine."""

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


def leafspine(
    leaves: int = 4,
    spines: int = 2,
    hosts_per_leaf: int = 4,
    oversubscription: float | None = None,
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
) -> nx.MultiGraph:
    """Leaves l1…, spines s1…, hosts h1… leaf by leaf. One leaf and no spine is a single-switch star.

    `oversubscription` is host bandwidth over uplink bandwidth of a leaf: given, the uplinks run at the rate that
    yields it; not given, all links run at `rate_bps`.
    """
    if leaves < 1 or hosts_per_leaf < 1:
        raise TopologyError("leafspine: leaves and hosts_per_leaf must be 1 or more")
    if spines < (1 if leaves > 1 else 0):
        raise TopologyError(
            f"leafspine: spines={spines} is not accepted; {leaves} leaves need at least 1 spine"
        )
    up_rate = rate_bps
    if oversubscription is not None and spines:
        if oversubscription < 1:
            raise TopologyError(
                f"leafspine: oversubscription={oversubscription} is not accepted; it is 1 (none) or more"
            )
        up_rate = round(rate_bps * hosts_per_leaf / (Fraction(oversubscription) * spines))
    check_size("leafspine", leaves + spines, leaves * hosts_per_leaf)
    graph = new_fabric(
        "leafspine",
        leaves=leaves,
        spines=spines,
        hosts_per_leaf=hosts_per_leaf,
        oversubscription=oversubscription,
    )
    graph.graph["halves"] = [f"l{i + 1}" for i in range(leaves // 2)]
    total = leaves * hosts_per_leaf
    for i in range(leaves):
        add_switch(graph, f"l{i + 1}", "leaf", ((i + 0.5) / leaves, 0.5))
        for rank in range(i * hosts_per_leaf, (i + 1) * hosts_per_leaf):
            add_host(graph, f"h{rank + 1}", f"l{i + 1}", ((rank + 0.5) / total, 0.0), rate_bps, delay_ns)
    for j in range(spines):
        add_switch(graph, f"s{j + 1}", "spine", ((j + 0.5) / spines, 1.0))
    for i in range(leaves):
        for j in range(spines):
            add_link(graph, f"l{i + 1}", f"s{j + 1}", "up", up_rate, delay_ns)
    return graph
