"""HPCC's topology.txt: its published shape is read, and every fault is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.fabric import TopologyError, attachments
from topologies.hpcc_file import parse_hpcc_topology, read_hpcc_topology
from topologies.planning import make_plan
from topologies.routes import all_paths
from topologies.summary import summarise

# Four hosts (0-3) on two edge switches (4, 5) under two spines (6, 7), one spine link doubled.
SMALL = """\
8 4 9
4 5 6 7
0 4 100Gbps 0.001ms 0
1 4 100Gbps 0.001ms 0
2 5 100Gbps 0.001ms 0.000000
3 5 25Gbps 1us 0
4 6 400Gbps 0.001ms 0
4 7 400Gbps 0.001ms 0
5 6 400Gbps 500ns 0
7 5 400Gbps 0.000001 0
5 7 400Gbps 0.001ms 0
"""


def fat(pods: int, tors: int, aggs: int, cores: int, per_tor: int) -> str:
    """A file with the shape of HPCC's fat.txt, which has 320 hosts and 56 switches."""
    hosts = pods * tors * per_tor
    tor, agg, core = hosts, hosts + pods * tors, hosts + pods * (tors + aggs)
    links = [f"{host} {tor + host // per_tor} 100Gbps 0.001ms 0" for host in range(hosts)]
    for pod in range(pods):
        for i in range(tors):
            links += [f"{tor + pod * tors + i} {agg + pod * aggs + j} 400Gbps 0.001ms 0" for j in range(aggs)]
        for j in range(aggs):
            for m in range(cores // aggs):
                links.append(f"{agg + pod * aggs + j} {core + j * (cores // aggs) + m} 400Gbps 0.001ms 0")
    nodes = hosts + pods * (tors + aggs) + cores
    ids = " ".join(str(node) for node in range(hosts, nodes))
    return f"{nodes} {nodes - hosts} {len(links)}\n{ids}\n" + "\n".join(links) + "\n"


def test_the_published_shape_is_read() -> None:
    summary = summarise(parse_hpcc_topology(fat(pods=5, tors=4, aggs=4, cores=16, per_tor=16)))
    assert (summary.hosts, summary.switches) == (320, 56)
    assert summary.switches_by_layer == {"edge": 20, "aggregation": 20, "core": 16}
    assert summary.oversubscription == 1.0
    assert summary.diameter == 6


def test_ids_rates_delays_and_parallel_links_are_kept() -> None:
    graph = parse_hpcc_topology(SMALL)
    plan = make_plan(graph)
    assert [host.name for host in plan.hosts] == ["h0", "h1", "h2", "h3"]
    assert (plan.host("h3").rate_bps, plan.host("h3").delay_ns) == (25 * 10**9, 1000)
    to_spines = [(end.peer, end.rate_bps, end.delay_ns, end.kind) for end in attachments(graph, "s5")[2:]]
    assert to_spines == [
        ("s6", 400 * 10**9, 500, "up"),
        ("s7", 400 * 10**9, 1000, "up"),
        ("s7", 400 * 10**9, 1000, "up"),
    ]
    assert len(all_paths(plan, "h0", "h2")) == 2


def test_line_breaks_do_not_matter_as_in_the_simulator() -> None:
    header, rest = SMALL.split("\n", 1)
    flowing = f"{header}\n{' '.join(rest.split())}\n"
    assert make_plan(parse_hpcc_topology(flowing)) == make_plan(parse_hpcc_topology(SMALL))


def broken(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "t:1: the first line has 0 words"),
        ("320 8 0 56 500 A100\n", "t:1: the first line has 6 words"),
        (broken("8 4 9", "8 four 9"), "t:1: 'four' is not a number of switches"),
        (broken("8 4 9", "8 9 9"), "t:1: 9 switches among 8 nodes"),
        (broken("4 5 6 7", "4 5 6 8"), "t:2: switch id 8 is not accepted; ids are 0 to 7"),
        (broken("4 5 6 7", "4 5 6 6"), "t:2: switch id 6 is listed twice"),
        (broken("1 4 100Gbps", "1 1 100Gbps"), "t:4: node 1 cannot have a link to itself"),
        (broken("1 4 100Gbps", "1 0 100Gbps"), "are both hosts"),
        (broken("3 5 25Gbps", "3 5 fast"), "t:6: rate 'fast' is not a quantity"),
        (broken("3 5 25Gbps 1us", "3 5 25Gbps 1parsec"), "t:6: time '1parsec' has an unknown unit"),
        (broken("1us 0", "1us 0.01"), "t:6: error rate 0.01 is not accepted"),
        (broken("1us 0", "1us none"), "t:6: 'none' is not an error rate"),
        (broken("0 4 100Gbps", "0 11 100Gbps"), "t:3: node of link 1 of 9 11 is not accepted"),
        (broken("8 4 9", "8 4 10"), "t:11: the file ends where the node of link 10 of 10 should stand"),
        (broken("8 4 9", "8 4 8"), "t:11: '5' follows after the 8 links that line 1 announces"),
        (broken("3 5 25Gbps", "2 4 25Gbps"), "t: host 3 has no link"),
        (broken("2 5 100Gbps 0.001ms 0.000000", "3 4 100Gbps 0.001ms 0"), "t: host 2 has no link"),
        (broken("4 7 400Gbps", "0 7 400Gbps"), "t:8: host 0 has a second link"),
        ("2 2 1\n0 1\n0 1 1Gbps 1us 0\n", "t:2: all 2 nodes are switches"),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_hpcc_topology(text, "t")
    assert words in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"nowhere\.txt: cannot be read: No such file"):
        read_hpcc_topology(tmp_path / "nowhere.txt")
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TopologyError, match="it is not a text file"):
        read_hpcc_topology(binary)
