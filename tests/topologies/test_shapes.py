"""Counts, bisection, diameter and path diversity of every family against closed forms."""

from __future__ import annotations

import pytest

from topologies.dragonflyplus import dragonflyplus
from topologies.fabric import (
    TopologyError,
    add_host,
    add_link,
    add_switch,
    attachments,
    check_fabric,
    new_fabric,
)
from topologies.fattree import fattree
from topologies.leafspine import leafspine
from topologies.rail import rail
from topologies.ring import ring
from topologies.summary import summarise
from topologies.torus import torus


@pytest.mark.parametrize("k", [2, 4, 6, 8, 10])
def test_a_fat_tree_has_the_closed_form_counts(k: int) -> None:
    # Al-Fares et al., SIGCOMM 2008: k^3/4 hosts, 5k^2/4 switches, full bisection; k=4, 6, 8 are 16/20/48, 54/45/162,
    # 128/80/384 in hosts/switches/links.
    summary = summarise(fattree(k))
    assert summary.hosts == k**3 // 4
    assert summary.switches == 5 * k**2 // 4
    assert summary.switches_by_layer == {"edge": k**2 // 2, "aggregation": k**2 // 2, "core": k**2 // 4}
    assert summary.links == 3 * k**3 // 4
    assert summary.bisection_bps == summary.hosts * 100 * 10**9 // 2
    assert summary.oversubscription == 1.0
    assert summary.diameter == 6 if k > 2 else 4


@pytest.mark.parametrize("k", [4, 6, 8])
def test_a_fat_tree_has_k_half_paths_within_a_pod_and_their_square_between_pods(k: int) -> None:
    edges, half = k * k // 2, k // 2
    assert summarise(fattree(k)).paths == {half: edges * (half - 1), half**2: edges * (edges - half)}


def test_an_oversubscribed_fat_tree_keeps_its_shape_and_loses_uplink_bandwidth() -> None:
    full, half = summarise(fattree(4)), summarise(fattree(4, oversubscription=2))
    assert (half.hosts, half.switches, half.links, half.paths) == (
        full.hosts,
        full.switches,
        full.links,
        full.paths,
    )
    assert half.oversubscription == 2.0
    assert half.bisection_bps == full.bisection_bps // 2


def test_more_hosts_per_edge_than_uplinks_is_oversubscription() -> None:
    summary = summarise(fattree(4, hosts_per_edge=6))
    assert (summary.hosts, summary.oversubscription) == (48, 3.0)
    assert summarise(fattree(4, oversubscription=1, hosts_per_edge=6)).oversubscription == 1.0


@pytest.mark.parametrize(
    ("dims", "hosts", "bisection", "diameter"),
    # Bisection of a k-ary n-cube: 2 k^(n-1) links, k even or odd (Dally and Towles, ch. 5): 8 for 4x4, 18 for 3x3x3, 32
    # for 4x4x4. Diameter: the sum of half the sizes, and the two host links.
    [
        ((4, 4), 16, 8, 6),
        ((3, 3, 3), 27, 18, 5),
        ((4, 4, 4), 64, 32, 8),
        ((6,), 6, 2, 5),
        ((2, 2, 2), 8, 4, 5),
    ],
)
def test_a_torus_has_the_closed_form_counts(
    dims: tuple[int, ...], hosts: int, bisection: int, diameter: int
) -> None:
    summary = summarise(torus(dims))
    switch_links = hosts * sum(0.5 if size == 2 else 1 for size in dims)
    assert (summary.hosts, summary.switches, summary.links) == (hosts, hosts, hosts + switch_links)
    assert (summary.bisection_links, summary.diameter) == (bisection, diameter)


def test_the_average_distance_in_a_4x4_torus_is_two_and_two_fifteenths_hops() -> None:
    assert summarise(torus((4, 4))).average_hops == pytest.approx(2 * 16 / 15)


@pytest.mark.parametrize(
    ("groups", "leaves", "spines", "per_leaf"), [(3, 2, 2, 2), (4, 4, 4, 2), (2, 1, 1, 1)]
)
def test_dragonflyplus_joins_every_two_groups(groups: int, leaves: int, spines: int, per_leaf: int) -> None:
    summary = summarise(dragonflyplus(groups, leaves, spines, per_leaf))
    assert summary.hosts == groups * leaves * per_leaf
    assert summary.switches_by_layer == {"leaf": groups * leaves, "spine": groups * spines}
    pairs = groups * (groups - 1) // 2
    assert summary.links == summary.hosts + groups * leaves * spines + pairs * spines
    assert summary.diameter == 5
    # Within a group one path per spine; between groups one per global link of the two.
    between = groups * (groups - 1) * leaves**2
    expected = {spines: groups * leaves * (leaves - 1) + between}
    assert summary.paths == {count: pairs for count, pairs in expected.items() if pairs}


def test_global_links_spread_over_the_spines() -> None:
    fabric = dragonflyplus(groups=3, leaves=1, spines=2, hosts_per_leaf=1, global_links=1)
    for spine in ("s1", "s2", "s3", "s4", "s5", "s6"):
        assert sum(end.kind == "global" for end in attachments(fabric, spine)) == 1


def test_parallel_global_links_are_separate_links() -> None:
    fabric = dragonflyplus(groups=2, leaves=1, spines=1, hosts_per_leaf=1, global_links=3)
    ends = [end for end in attachments(fabric, "s1") if end.kind == "global"]
    assert [(end.port, end.peer, end.peer_port) for end in ends] == [(2, "s2", 2), (3, "s2", 3), (4, "s2", 4)]


def test_same_rail_traffic_stays_on_one_leaf() -> None:
    fabric = rail(servers=4, rails=8, spines=4)
    for host in range(1, 33):
        (end,) = attachments(fabric, f"h{host}")
        assert end.peer == f"l{(host - 1) % 8 + 1}"
    summary = summarise(fabric)
    assert (summary.hosts, summary.switches_by_layer) == (32, {"leaf": 8, "spine": 4})


@pytest.mark.parametrize(("spines", "ratio"), [(4, 1.0), (2, 2.0), (1, 4.0)])
def test_fewer_spines_oversubscribe_a_leaf_spine(spines: int, ratio: float) -> None:
    assert summarise(leafspine(leaves=4, spines=spines, hosts_per_leaf=4)).oversubscription == ratio


def test_a_leaf_without_spines_is_a_star() -> None:
    summary = summarise(leafspine(leaves=1, spines=0, hosts_per_leaf=16))
    assert (summary.hosts, summary.switches, summary.diameter, summary.bisection_links) == (16, 1, 2, 0)


def test_ports_of_a_ring_lead_clockwise_first() -> None:
    fabric = ring(4, hosts_per_switch=2)
    for i in range(4):
        ends = {end.port: end.peer for end in attachments(fabric, f"s{i + 1}")}
        assert ends[3] == f"s{(i + 1) % 4 + 1}"
        assert ends[4] == f"s{(i - 1) % 4 + 1}"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fattree(5), "k=5 is not accepted"),
        (lambda: fattree(0), "k=0 is not accepted"),
        (lambda: fattree(4, oversubscription=0.5), "it is 1 (none) or more"),
        (lambda: torus((4, 1)), "sizes of 2 or more"),
        (lambda: torus((2, 2, 2, 2)), "1 to 3 sizes"),
        (lambda: ring(2), "3 or more switches"),
        (lambda: ring(3, routes="clokwise"), "did you mean 'clockwise'?"),
        (lambda: dragonflyplus(groups=1), "it is 2 or more"),
        (lambda: leafspine(leaves=2, spines=0), "at least 1 spine"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_with_a_sentence(make, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        make()
    assert words in str(caught.value)


def test_a_fabric_in_two_pieces_is_refused() -> None:
    fabric = new_fabric("test")
    for name in ("s1", "s2"):
        add_switch(fabric, name, "node")
    add_host(fabric, "h1", "s1")
    with pytest.raises(TopologyError, match="s2 cannot be reached from h1"):
        check_fabric(fabric)
    add_link(fabric, "s1", "s2", "local")
    check_fabric(fabric)
