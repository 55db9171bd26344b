"""HPCC's `topology.txt` (ns-3 RDMA simulators) as a fabric.

The file is a stream of words: `<nodes> <switches> <links>`, the switches' node ids, then for each link
`<node> <node> <rate> <delay> <error rate>`, as in `0 16 100Gbps 0.001ms 0`. Ids count from 0; ids that are no
switch are hosts. Host 3 is called h3, switch 16 is s16; hosts are ranked by id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from topologies.fabric import (
    LinkKind,
    TopologyError,
    add_host,
    add_link,
    add_switch,
    check_fabric,
    check_size,
    new_fabric,
)
from topologies.units import parse_rate, parse_time_ns

LINK_FIELDS = ("node", "node", "rate", "delay", "error rate")
LAYERS = {1: "edge", 2: "aggregation", 3: "core"}


@dataclass(frozen=True)
class _Link:
    a: int
    b: int
    rate_bps: int
    delay_ns: int
    where: str


def read_hpcc_topology(path: Path) -> nx.MultiGraph:
    """The fabric in a `topology.txt`. Raises TopologyError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TopologyError(f"{path}: cannot be read: it is not a text file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TopologyError(f"{path}: cannot be read: {reason}") from None
    return parse_hpcc_topology(text, str(path))


def parse_hpcc_topology(text: str, source: str = "topology.txt") -> nx.MultiGraph:
    """As `read_hpcc_topology`, from text; `source` is the name used in errors."""
    first = text.splitlines()[0].split() if text.strip() else []
    if len(first) != 3:
        raise TopologyError(
            f"{source}:1: the first line has {len(first)} words; "
            "it is `<nodes> <switches> <links>`, three whole numbers"
        )
    words = _Words(text, source)
    nodes, n_switches, n_links = (
        words.whole(noun) for noun in ("number of nodes", "number of switches", "number of links")
    )
    if nodes < 1 or not 1 <= n_switches <= nodes:
        raise TopologyError(f"{source}:1: {n_switches} switches among {nodes} nodes make no fabric")
    switch_ids: set[int] = set()
    for _ in range(n_switches):
        switch_ids.add(words.node(nodes, "switch id", unlike=switch_ids))
    links = [_read_link(words, nodes, number, n_links) for number in range(1, n_links + 1)]
    words.end(n_links)
    return _build(nodes, switch_ids, links, source)


class _Words:
    """The words of the file with the lines they stand on."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.line = 1
        self._words = self._scan(text)

    def _scan(self, text: str) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(text.splitlines(), start=1):
            for word in line.split():
                yield number, word

    def next(self, noun: str) -> str:
        try:
            self.line, word = next(self._words)
        except StopIteration:
            raise TopologyError(
                f"{self.source}:{self.line}: the file ends where the {noun} should stand"
            ) from None
        return word

    def where(self) -> str:
        return f"{self.source}:{self.line}"

    def whole(self, noun: str) -> int:
        word = self.next(noun)
        if not (word.isascii() and word.isdigit()):
            raise TopologyError(f"{self.where()}: {word!r} is not a {noun}; a whole number is")
        return int(word)

    def node(self, nodes: int, noun: str, unlike: set[int] | None = None) -> int:
        node = self.whole(noun)
        if node >= nodes:
            raise TopologyError(f"{self.where()}: {noun} {node} is not accepted; ids are 0 to {nodes - 1}")
        if unlike is not None and node in unlike:
            raise TopologyError(f"{self.where()}: {noun} {node} is listed twice")
        return node

    def end(self, n_links: int) -> None:
        leftover = next(self._words, None)
        if leftover is not None:
            raise TopologyError(
                f"{self.source}:{leftover[0]}: {leftover[1]!r} follows after the {n_links} links that line 1 announces"
            )


def _read_link(words: _Words, nodes: int, number: int, n_links: int) -> _Link:
    suffix = f" of link {number} of {n_links}"
    a = words.node(nodes, LINK_FIELDS[0] + suffix)
    where = words.where()
    b = words.node(nodes, LINK_FIELDS[1] + suffix)
    if a == b:
        raise TopologyError(f"{where}: node {a} cannot have a link to itself")
    try:
        rate = parse_rate(words.next(LINK_FIELDS[2] + suffix))
        delay_word = words.next(LINK_FIELDS[3] + suffix)
        # ns-3 reads a bare number as seconds.
        delay = parse_time_ns(delay_word + "s" if delay_word[-1:].isdigit() else delay_word)
    except ValueError as error:
        raise TopologyError(f"{words.where()}: {error}") from None
    loss = words.next(LINK_FIELDS[4] + suffix)
    try:
        lossy = float(loss) != 0
    except ValueError:
        raise TopologyError(f"{words.where()}: {loss!r} is not an error rate; a number is") from None
    if lossy:
        raise TopologyError(
            f"{words.where()}: error rate {loss} is not accepted; links here lose nothing, so it must be 0"
        )
    return _Link(a, b, rate, delay, where)


def _build(nodes: int, switch_ids: set[int], links: list[_Link], source: str) -> nx.MultiGraph:
    check_size(source, len(switch_ids), nodes - len(switch_ids))
    graph = new_fabric("file", path=source)
    depth = _depths(nodes, switch_ids, links, source)
    top = max(depth.values())
    by_depth: dict[int, list[int]] = {}
    for node in range(nodes):
        by_depth.setdefault(depth[node], []).append(node)
    position = {
        node: ((i + 0.5) / len(row), level / top)
        for level, row in by_depth.items()
        for i, node in enumerate(row)
    }
    for node in sorted(switch_ids):
        add_switch(graph, f"s{node}", LAYERS.get(depth[node], f"layer{depth[node]}"), position[node])
    names = {node: f"s{node}" if node in switch_ids else f"h{node}" for node in range(nodes)}
    access = {}
    for link in links:
        host, switch = (link.b, link.a) if link.b not in switch_ids else (link.a, link.b)
        if host in switch_ids:
            continue
        if switch not in switch_ids:
            raise TopologyError(
                f"{link.where}: {host} and {switch} are both hosts; a host is linked to a switch"
            )
        if host in access:
            raise TopologyError(f"{link.where}: host {host} has a second link; a host has one NIC here")
        access[host] = (switch, link)
    for host in sorted(access):
        switch, link = access[host]
        add_host(graph, names[host], names[switch], position[host], link.rate_bps, link.delay_ns)
    for link in links:
        if {link.a, link.b} <= switch_ids:
            low, high = (link.a, link.b) if depth[link.a] <= depth[link.b] else (link.b, link.a)
            kind: LinkKind = "local" if depth[low] == depth[high] else "up"
            add_link(graph, names[low], names[high], kind, link.rate_bps, link.delay_ns)
    try:
        check_fabric(graph)
    except TopologyError as error:
        raise TopologyError(f"{source}: {error}") from None
    return graph


def _depths(nodes: int, switch_ids: set[int], links: list[_Link], source: str) -> dict[int, int]:
    """Hops from the nearest host: 0 for hosts, 1 for edge switches, and so on."""
    peers: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for link in links:
        peers[link.a].append(link.b)
        peers[link.b].append(link.a)
    depth = {node: 0 for node in range(nodes) if node not in switch_ids}
    if not depth:
        raise TopologyError(f"{source}:2: all {nodes} nodes are switches; a fabric needs hosts")
    for node in depth:
        if not peers[node]:
            raise TopologyError(f"{source}: host {node} has no link")
    queue = deque(depth)
    while queue:
        node = queue.popleft()
        for peer in peers[node]:
            if peer not in depth:
                depth[peer] = depth[node] + 1
                queue.append(peer)
    for node in sorted(switch_ids):
        if node not in depth:
            raise TopologyError(f"{source}: switch {node} cannot be reached from any host")
    return depth
