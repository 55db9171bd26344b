"""The vocabulary of a fabric graph: hosts, switches and links in a networkx MultiGraph.

Nodes carry `kind` ("host" or "switch"), `layer` and `position`; links carry the rate, the propagation delay, and
for each end a port number and what that port faces. Parallel links between two switches are separate edges.
Switch ports count from 1 in the order the links are added; a host has one link, on port 0.
Rates are fabric bit/s, delays fabric nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import networkx as nx

from topologies.plan import PortKind

DEFAULT_RATE_BPS = 100 * 10**9
DEFAULT_DELAY_NS = 1000

LinkKind = Literal["up", "local", "global"]
"""How a switch link lies: `up` climbs from `a` to `b`, `local` joins equals, `global` joins groups."""

MAX_PORTS = 508
"""Port numbers 509 to 511 mean timer, CPU and drop on every switch."""
MAX_NAME = 10
"""Longest node name: `<tag>_<name>-eth<port>` must fit the 15 characters of a Linux interface."""


MAX_SWITCHES = 1024
MAX_HOSTS = 8192
"""Largest fabric: its plan, all routes and the deadlock check take minutes; a larger one would take hours."""


class TopologyError(ValueError):
    """A fabric that cannot be built as asked; the message is a sentence for the user."""


@dataclass(frozen=True)
class Attachment:
    """One end of a link, seen from the node that owns it."""

    node: str
    port: int
    peer: str
    peer_port: int
    kind: PortKind
    """What this port faces. A host's only port counts as `up`."""
    rate_bps: int
    delay_ns: int


def check_size(what: str, switches: int, hosts: int) -> None:
    """TopologyError when a fabric of so many switches and hosts is too large to be worked out."""
    if switches > MAX_SWITCHES or hosts > MAX_HOSTS:
        raise TopologyError(
            f"{what}: it would have {switches} switches and {hosts} hosts; "
            f"at most {MAX_SWITCHES} switches and {MAX_HOSTS} hosts are accepted"
        )


def new_fabric(family: str, **parameters: object) -> nx.MultiGraph:
    """An empty fabric of a family (`fattree`, `torus`…) and the parameters it was made from."""
    return nx.MultiGraph(
        family=family, parameters=parameters, routing=None, name=spec_text(family, parameters)
    )


def spec_text(family: str, parameters: dict[str, object]) -> str:
    """The one-line spec of a fabric: `fattree:k=4`."""
    body = ",".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    return f"{family}:{body}" if body else family


def add_switch(
    graph: nx.MultiGraph,
    name: str,
    layer: str,
    position: tuple[float, float] = (0.0, 0.0),
    **attributes: object,
) -> str:
    """Add a switch and return its name."""
    _add_node(graph, name, kind="switch", layer=layer, position=position, **attributes)
    return name


def add_host(
    graph: nx.MultiGraph,
    name: str,
    switch: str,
    position: tuple[float, float] = (0.0, 0.0),
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
    **attributes: object,
) -> str:
    """Add a host on a link of its own to `switch` and return its name. Hosts are ranked in the order of adding."""
    _add_node(graph, name, kind="host", layer="host", position=position, **attributes)
    port = _take_port(graph, switch)
    graph.add_edge(
        name,
        switch,
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        ports={name: 0, switch: port},
        kinds={name: "up", switch: "host"},
    )
    return name


def add_link(
    graph: nx.MultiGraph,
    a: str,
    b: str,
    kind: LinkKind,
    rate_bps: int = DEFAULT_RATE_BPS,
    delay_ns: int = DEFAULT_DELAY_NS,
    ports: tuple[int, int] | None = None,
) -> None:
    """Join two switches, at `ports` (of a, of b) or their next free ones; a second call adds a parallel link."""
    if a == b:
        raise TopologyError(f"switch {a} cannot have a link to itself")
    graph.add_edge(
        a,
        b,
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        ports={a: _take_port(graph, a, ports and ports[0]), b: _take_port(graph, b, ports and ports[1])},
        kinds={a: kind, b: "down" if kind == "up" else kind},
    )


def hosts(graph: nx.MultiGraph) -> list[str]:
    """Host names in rank order."""
    return [name for name, kind in graph.nodes(data="kind") if kind == "host"]


def switches(graph: nx.MultiGraph) -> list[str]:
    """Switch names in the order of adding."""
    return [name for name, kind in graph.nodes(data="kind") if kind == "switch"]


def edge_switches(graph: nx.MultiGraph) -> list[str]:
    """Switches that hosts are attached to, in the order of adding."""
    return [
        name for name in switches(graph) if any(graph.nodes[peer]["kind"] == "host" for peer in graph[name])
    ]


def switch_of(graph: nx.MultiGraph, host: str) -> str:
    """The switch that a host is attached to."""
    return str(next(iter(graph[host])))


def attachments(graph: nx.MultiGraph, node: str) -> list[Attachment]:
    """The ports of a node in ascending order."""
    found = [
        Attachment(
            node=node,
            port=link["ports"][node],
            peer=peer,
            peer_port=link["ports"][peer],
            kind=link["kinds"][node],
            rate_bps=link["rate_bps"],
            delay_ns=link["delay_ns"],
        )
        for _, peer, link in graph.edges(node, data=True)
    ]
    return sorted(found, key=lambda end: end.port)


def switch_graph(graph: nx.MultiGraph) -> nx.MultiGraph:
    """The switches and the links among them (a view)."""
    return graph.subgraph(switches(graph))


def check_fabric(graph: nx.MultiGraph) -> None:
    """Raise TopologyError unless the graph is a fabric: hosts with one link each, all connected, names that fit."""
    names = hosts(graph)
    if not names:
        raise TopologyError("the fabric has no host")
    for host in names:
        if graph.degree(host) != 1:
            raise TopologyError(
                f"host {host} has {graph.degree(host)} links; a host has exactly one (one NIC, one rank)"
            )
    if not nx.is_connected(graph):
        first, *rest = nx.connected_components(graph)
        raise TopologyError(
            f"the fabric is not connected: {min(rest[0])} cannot be reached from {min(first)}"
        )


def _add_node(graph: nx.MultiGraph, name: str, **attributes: object) -> None:
    if name in graph:
        raise TopologyError(f"two nodes are called {name}; names must differ")
    if len(name) > MAX_NAME:
        raise TopologyError(
            f"node name {name!r} is longer than {MAX_NAME} characters, which Linux interfaces cannot hold"
        )
    graph.add_node(name, taken=set(), **attributes)


def _take_port(graph: nx.MultiGraph, switch: str, wanted: int | None = None) -> int:
    if graph.nodes[switch]["kind"] != "switch":
        raise TopologyError(f"{switch} is a host and already has its one link")
    taken: set[int] = graph.nodes[switch]["taken"]
    port = wanted if wanted is not None else max(taken, default=0) + 1
    if port in taken:
        raise TopologyError(f"port {port} of switch {switch} is taken")
    if not 1 <= port <= MAX_PORTS:
        raise TopologyError(f"switch {switch} would need port {port}; ports are 1 to {MAX_PORTS}")
    taken.add(port)
    return port
