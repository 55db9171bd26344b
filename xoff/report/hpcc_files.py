"""`fct.txt`, `pfc.txt` and `qlen.txt` in the columns of the HPCC simulator, for its users' scripts.

Source of the columns: alibaba-edu/High-Precision-Congestion-Control, simulation/scratch/third.cc. Times are fabric
nanoseconds. Node ids: hosts are 0..n-1 by rank, switches follow in the plan's order.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

import networkx as nx

from switch.link import wire_bytes
from topologies.plan import FabricPlan
from xoff.rundata import RunData

ROCE_HEADER_BYTES = 14 + 20 + 8 + 12 + 4
"""Ethernet, IPv4, UDP, BTH and ICRC of a middle packet."""
ROCE_UDP_PORT = 4791


def hpcc_ip(node: int) -> int:
    """The address HPCC gives a node: 11.x.y.1."""
    return 0x0B000001 + (node // 256) * 0x10000 + (node % 256) * 0x100


def standalone_fct_ns(plan: FabricPlan, src: str, dst: str, size: int) -> int:
    """Completion time of a message alone in the fabric: base RTT plus serialisation, headers counted.

    Base RTT is twice the propagation plus one full packet's serialisation on every link of a shortest path.
    """
    graph = nx.Graph()
    for host in plan.hosts:
        graph.add_edge(host.name, host.switch, delay=host.delay_ns, rate=host.rate_bps)
    for switch in plan.switches:
        for port in switch.ports:
            graph.add_edge(switch.name, port.peer, delay=port.delay_ns, rate=port.rate_bps)
    path = nx.shortest_path(graph, src, dst)
    links = [graph.edges[a, b] for a, b in itertools.pairwise(path)]
    packet = wire_bytes(min(size, plan.mtu) + ROCE_HEADER_BYTES)
    base_rtt: float = sum(2 * link["delay"] + packet * 8e9 / link["rate"] for link in links)
    packets = max(1, -(-size // plan.mtu))
    total = size + packets * (wire_bytes(plan.mtu + ROCE_HEADER_BYTES) - plan.mtu)
    slowest: int = min(link["rate"] for link in links)
    return round(base_rtt + total * 8e9 / slowest)


def write_hpcc_files(data: RunData) -> list[Path]:
    """Write the three files into the run folder; returns their paths."""
    plan, scale = data.plan, data.plan.time_scale
    ids = {h.name: h.rank for h in plan.hosts}
    ids |= {s.name: len(plan.hosts) + i for i, s in enumerate(plan.switches)}
    hosts = {h.name for h in plan.hosts}

    standalone: dict[tuple[str, str, int], int] = {}
    fct_lines = []
    for m in sorted(data.messages, key=lambda m: m["end"]):
        key = (m["src"], m["dst"], m["bytes"])
        if key not in standalone:
            standalone[key] = standalone_fct_ns(plan, *key)
        fct_lines.append(
            f"{hpcc_ip(ids[m['src']]):08x} {hpcc_ip(ids[m['dst']]):08x} {m.get('sport', 0)} {ROCE_UDP_PORT}"
            f" {m['bytes']} {round(m['start'] / scale)} {round((m['end'] - m['start']) / scale)} {standalone[key]}"
        )

    events = []
    for pause in data.pauses:
        kind = 0 if pause.node in hosts else 1
        port = pause.port + 1 if pause.node in hosts else pause.port
        events.append((round(pause.start / scale), ids[pause.node], kind, port, 1))
        events.append((round(pause.end / scale), ids[pause.node], kind, port, 0))
    pfc_lines = [" ".join(map(str, event)) for event in sorted(events)]

    histograms: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (node, port, _), samples in data.queues.items():
        if node in ids and node not in hosts:
            for _, count in samples:
                histograms[ids[node], port][count // 1000] += 1
    qlen_lines = [f"time: {round(data.end / scale)}"]
    for (node_id, port), histogram in sorted(histograms.items()):
        columns = (str(histogram.get(kb, 0)) for kb in range(max(histogram) + 1))
        qlen_lines.append(f"{node_id} {port} {' '.join(columns)}")

    written = []
    for name, lines in (("fct.txt", fct_lines), ("pfc.txt", pfc_lines), ("qlen.txt", qlen_lines)):
        path = data.folder / name
        path.write_text("".join(line + "\n" for line in lines))
        written.append(path)
    return written
