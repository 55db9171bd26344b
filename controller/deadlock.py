"""Deadlock detector: rings of egress queues of which each waits for the next one to get room.

A queue that PFC keeps paused waits for the buffer of the switch at the other end of its link, and that for the queues
into which it sends on. When those are paused too, and so on round to the first, nothing in the ring will move by itself
(Hu et al., "Deadlocks in Datacenter Networks: Why Do They Form, and How to Avoid Them", HotNets 2016).
"""

from __future__ import annotations

from collections.abc import Collection

import networkx as nx

from controller.watchdog import Queue
from topologies.plan import FabricPlan


def waits_for(plan: FabricPlan, standing: Collection[Queue]) -> nx.DiGraph:
    """The wait-for graph of queues that stand still.

    An edge leads to every standing queue of the next switch but those of the link itself: packets do not turn back.
    Which of them holds what came by the link only the switch knows; the class may change on the way.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(standing)
    ends = {(switch.name, port.number): port for switch in plan.switches for port in switch.ports}
    for queue in standing:
        end = ends[queue.switch, queue.port]
        for other in standing:
            if other.switch == end.peer and other.port != end.peer_port:
                graph.add_edge(queue, other)
    return graph


def victims(plan: FabricPlan, standing: Collection[Queue]) -> list[Queue]:
    """Queues without which there is no ring: of each ring the first by switch, port and class."""
    graph, chosen = waits_for(plan, standing), []
    while rings := [ring for ring in nx.strongly_connected_components(graph) if len(ring) > 1]:
        for ring in rings:
            chosen.append(min(ring))
            graph.remove_node(chosen[-1])
    return sorted(chosen)
