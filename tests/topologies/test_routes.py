"""Routes reach every host, by all shortest paths or as the family says, and a user's route wins."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.fabric import TopologyError, add_host, add_link, add_switch, hosts, new_fabric
from topologies.fattree import fattree
from topologies.planning import PlanOptions, make_plan
from topologies.ring import ring
from topologies.routes import RouteOverride, RouteTable, all_paths
from topologies.spec import topology_from_spec
from topologies.torus import torus


@pytest.mark.parametrize(
    "spec", ["fattree:k=4", "dragonflyplus", "leafspine", "rail", "ring:n=5,routes=shortest", "torus"]
)
def test_every_route_is_a_shortest_path_and_no_other_is_left_out(spec: str) -> None:
    graph = topology_from_spec(spec)
    plan = make_plan(graph)
    simple = nx.Graph(graph)
    for source, destination in itertools.permutations(hosts(graph)[:9], 2):
        routed = {tuple(path) for path in all_paths(plan, source, destination)}
        shortest = {tuple(path) for path in nx.all_shortest_paths(simple, source, destination)}
        assert routed <= shortest
        if graph.graph["routing"] is None:
            assert routed == shortest


def test_minimal_dragonflyplus_paths_cross_one_global_link() -> None:
    plan = make_plan(topology_from_spec("dragonflyplus"))
    for path in all_paths(plan, "h1", "h12"):
        assert [name[0] for name in path] == ["h", "l", "s", "s", "l", "h"]


def test_a_torus_corrects_its_dimensions_in_order() -> None:
    plan = make_plan(torus((5, 5)))
    # h1 is at (0, 0), h14 at (2, 3): two steps forward in the first dimension, then two back in the second.
    assert all_paths(plan, "h1", "h14") == [["h1", "s0_0", "s1_0", "s2_0", "s2_4", "s2_3", "h14"]]


def test_clockwise_routes_go_round_the_long_way() -> None:
    plan = make_plan(ring(4))
    assert all_paths(plan, "h2", "h1") == [["h2", "s2", "s3", "s4", "s1", "h1"]]


def test_remote_subnets_are_one_route_each_and_own_hosts_one_each() -> None:
    for switch in make_plan(fattree(8)).switches:
        lengths = [route.prefix.partition("/")[2] for route in switch.routes]
        own = 4 if switch.layer == "edge" else 0
        assert (lengths.count("32"), lengths.count("24")) == (own, 31 if own else 32)


def test_parallel_links_are_separate_candidates() -> None:
    graph = new_fabric("test")
    for name in ("s1", "s2"):
        add_switch(graph, name, "node")
        add_host(graph, f"h{name}", name)
    for _ in range(3):
        add_link(graph, "s1", "s2", "local")
    plan = make_plan(graph)
    assert RouteTable(plan.switch("s1")).ports(plan.host("hs2").ipv4) == (2, 3, 4)


def test_a_route_by_hand_wins_for_the_host_it_names() -> None:
    plan = make_plan(fattree(4), PlanOptions(routes=(RouteOverride.parse("e1 to h16 via a2"),)))
    assert {path[2] for path in all_paths(plan, "h1", "h16")} == {"a2"}
    assert {path[2] for path in all_paths(plan, "h1", "h15")} == {"a1", "a2"}


@pytest.mark.parametrize(
    ("text", "override"),
    [
        ("s1 to h3 via s2", RouteOverride("s1", "h3", ("s2",))),
        ("s1 to 10.0.2.0/24 via s2, s3", RouteOverride("s1", "10.0.2.0/24", ("s2", "s3"))),
        (" s1 to s3 via port 2,4 ", RouteOverride("s1", "s3", (2, 4))),
    ],
)
def test_a_route_is_read_from_a_sentence(text: str, override: RouteOverride) -> None:
    assert RouteOverride.parse(text) == override


@pytest.mark.parametrize("text", ["s1 h3 s2", "s1 to h3", "s1 to h3 via port s2", ""])
def test_a_route_that_is_no_sentence_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="route"):
        RouteOverride.parse(text)


def test_a_loop_made_by_hand_is_named() -> None:
    routes = (RouteOverride.parse("a1 to e8 via e1"),)
    plan = make_plan(fattree(4), PlanOptions(routes=routes))
    with pytest.raises(TopologyError, match="e1 -> a1 -> e1"):
        all_paths(plan, "h1", "h16")


@settings(max_examples=40, deadline=None)
@given(
    family=st.sampled_from(["fattree", "torus", "dragonflyplus", "leafspine"]),
    a=st.integers(2, 4),
    b=st.integers(1, 3),
    data=st.data(),
)
def test_every_pair_of_hosts_is_joined_in_fabrics_of_any_size(
    family: str, a: int, b: int, data: st.DataObject
) -> None:
    spec = {
        "fattree": f"fattree:k={2 * (a // 2)},hosts_per_edge={b}",
        "torus": f"torus:dims={a}x{a + b - 1},hosts_per_switch={b}",
        "dragonflyplus": f"dragonflyplus:groups={a},leaves={b},spines=2,hosts_per_leaf=1,global_links={b}",
        "leafspine": f"leafspine:leaves={a},spines={b},hosts_per_leaf={b}",
    }[family]
    plan = make_plan(topology_from_spec(spec))
    names = [host.name for host in plan.hosts]
    source, destination = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    if source != destination:
        paths = all_paths(plan, source, destination)
        assert paths
        assert all(path[0] == source and path[-1] == destination for path in paths)
