"""Dragonfly+ (Shpiner et al., HiPINEB 2017): groups that are leaf-spine pods, every group joined to every other.

Leaf-spine links inside a group, global links between spines of different groups. Minimal routes are the shortest
ones: leaf - spine - leaf within a group, leaf - spine - (global) - spine - leaf between groups.
"""

from __future__ import annotations

import itertools

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


def dragonflyplus(
    groups: int = 3,
    leaves: int = 2,
    spines: int = 2,
    hosts_per_leaf: int = 2,
    global_links: int | None = None,
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
    global_delay_ns: int | None = None,
) -> nx.MultiGraph:
    """Leaves l1… and spines s1… group by group, hosts h1… leaf by leaf.

    `global_links` counts the links between every two groups, spread over the spines in turn; it defaults to
    `spines`, which joins each spine to a spine of every other group. `global_delay_ns` defaults to `delay_ns`.
    """
    if groups < 2:
        raise TopologyError(f"dragonflyplus: groups={groups} is not accepted; it is 2 or more")
    if leaves < 1 or spines < 1 or hosts_per_leaf < 1:
        raise TopologyError("dragonflyplus: leaves, spines and hosts_per_leaf must be 1 or more")
    between = spines if global_links is None else global_links
    if between < 1:
        raise TopologyError(
            f"dragonflyplus: global_links={between} is not accepted; two groups share 1 link or more"
        )
    check_size("dragonflyplus", groups * (leaves + spines), groups * leaves * hosts_per_leaf)
    graph = new_fabric(
        "dragonflyplus",
        groups=groups,
        leaves=leaves,
        spines=spines,
        hosts_per_leaf=hosts_per_leaf,
        global_links=global_links,
    )
    graph.graph["halves"] = [f"l{i + 1}" for i in range(groups // 2 * leaves)]
    total = groups * leaves
    for i in range(total):
        add_switch(graph, f"l{i + 1}", "leaf", ((i + 0.5) / total, 0.4), group=i // leaves)
        for rank in range(i * hosts_per_leaf, (i + 1) * hosts_per_leaf):
            position = ((rank + 0.5) / (total * hosts_per_leaf), 0.0)
            add_host(graph, f"h{rank + 1}", f"l{i + 1}", position, rate_bps, delay_ns)
    for i in range(groups * spines):
        add_switch(graph, f"s{i + 1}", "spine", ((i + 0.5) / (groups * spines), 0.9), group=i // spines)
    for group in range(groups):
        for i, j in itertools.product(range(leaves), range(spines)):
            add_link(
                graph, f"l{group * leaves + i + 1}", f"s{group * spines + j + 1}", "up", rate_bps, delay_ns
            )
    far = delay_ns if global_delay_ns is None else global_delay_ns
    used = [0] * groups
    for a, b in itertools.combinations(range(groups), 2):
        for _ in range(between):
            ends = [f"s{group * spines + used[group] % spines + 1}" for group in (a, b)]
            add_link(graph, ends[0], ends[1], "global", rate_bps, far)
            used[a] += 1
            used[b] += 1
    return graph
