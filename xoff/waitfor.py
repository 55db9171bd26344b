"""Who waits for whom: the graph of paused queues at one instant, and the cycles in it.

A paused queue at A towards B waits until B has sent on what it holds from A, so it waits for every paused,
non-empty queue at B. A cycle whose members never empty is a PFC deadlock; a tree is congestion
(Hu et al., "Deadlocks in Datacenter Networks", HotNets'16).
"""

from __future__ import annotations

from bisect import bisect_right

import networkx as nx

from xoff.rundata import QueueKey, RunData


def queue_bytes_at(data: RunData, queue: QueueKey, t: int) -> int:
    """Bytes in a queue at `t` by its last sample; 0 before the first."""
    samples = data.queues.get(queue, [])
    index = bisect_right(samples, t, key=lambda sample: sample[0]) if samples else 0
    return samples[index - 1][1] if index else 0


def waiting_graph(data: RunData, t: int) -> nx.DiGraph:
    """Paused switch queues at `t` as nodes (node, port, class), an edge from each to those it waits for."""
    peers = {(s.name, p.number): p.peer for s in data.plan.switches for p in s.ports}
    paused = {
        (i.node, i.port, i.cls) for i in data.pauses if i.start <= t < i.end and (i.node, i.port) in peers
    }
    # An interval that the end of the records cut is still going on at that instant.
    paused |= {
        (i.node, i.port, i.cls)
        for i in data.pauses
        if i.start <= t == i.end == data.end and (i.node, i.port) in peers
    }
    graph = nx.DiGraph()
    graph.add_nodes_from(paused)
    for node, port, cls in paused:
        for other in paused:
            if (
                other[0] == peers[node, port]
                and other[2] == cls
                and peers[other[0], other[1]] != node
                and queue_bytes_at(data, other, t) > 0
            ):
                graph.add_edge((node, port, cls), other)
    return graph


def cycle_at(data: RunData, t: int) -> list[QueueKey]:
    """One cycle of paused queues at `t`, starting at its smallest member; empty when there is none."""
    try:
        edges = nx.find_cycle(waiting_graph(data, t))
    except nx.NetworkXNoCycle:
        return []
    cycle: list[QueueKey] = [edge[0] for edge in edges]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def describe(data: RunData, cycle: list[QueueKey]) -> str:
    """`s1->s2 (class 3) waits for s2->s3 (class 3) waits for …` in words."""
    peers = {(s.name, p.number): p.peer for s in data.plan.switches for p in s.ports}
    hops = [f"{node}->{peers[node, port]} (class {cls})" for node, port, cls in cycle]
    return " waits for ".join([*hops, hops[0]]) if hops else "no cycle"
