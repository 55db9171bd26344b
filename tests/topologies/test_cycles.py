"""The deadlock check says of published fabrics what is known of them."""

from __future__ import annotations

import pytest

from topologies.cycles import check_deadlock
from topologies.planning import PlanOptions, make_plan
from topologies.policies import PolicyOptions
from topologies.routes import RouteOverride
from topologies.spec import topology_from_spec


@pytest.mark.parametrize(
    "spec", ["fattree:k=4", "fattree:k=6", "leafspine", "rail", "dragonflyplus", "torus:dims=3x3"]
)
def test_up_down_routes_and_rings_of_three_cannot_deadlock(spec: str) -> None:
    # Up-down routing has no cycle; on a ring of three no minimal route takes two links of a dimension.
    report = check_deadlock(make_plan(topology_from_spec(spec)))
    assert report.safe
    assert "deadlock-free" in str(report)


@pytest.mark.parametrize("spec", ["torus:dims=4x4", "torus:dims=5", "ring:n=3", "ring:n=4,routes=shortest"])
def test_a_wrap_around_ring_with_one_class_can_deadlock(spec: str) -> None:
    # Dally and Seitz 1987: the ring of a torus needs a second virtual channel.
    plan = make_plan(topology_from_spec(spec))
    report = check_deadlock(plan)
    assert not report.safe
    for channel, following in zip(report.cycle, (*report.cycle[1:], report.cycle[0]), strict=True):
        assert channel.receiver == following.sender
        assert channel.sender in str(report)


def test_three_two_hop_flows_round_a_ring_deadlock_and_two_do_not() -> None:
    plan = make_plan(topology_from_spec("ring"))
    flows = [("h1", "h3"), ("h2", "h1"), ("h3", "h2")]
    assert [str(channel) for channel in check_deadlock(plan, flows).cycle] == [
        "s1->s2 (port 2, class 3)",
        "s2->s3 (port 2, class 3)",
        "s3->s1 (port 2, class 3)",
    ]
    assert check_deadlock(plan, flows[:2]).safe


def test_one_route_the_other_way_round_cures_the_ring() -> None:
    flows = [("h1", "h3"), ("h2", "h1"), ("h3", "h2")]
    cure = PlanOptions(routes=(RouteOverride.parse("s3 to h2 via s2"),))
    assert check_deadlock(make_plan(topology_from_spec("ring"), cure), flows).safe


def test_another_class_on_the_wrap_link_cures_the_ring() -> None:
    plan = make_plan(
        topology_from_spec("ring:n=5"), PlanOptions(policies=PolicyOptions(lossless_classes=(3, 4)))
    )
    two_hops = [(f"h{i + 1}", f"h{(i + 2) % 5 + 1}") for i in range(5)]
    assert not check_deadlock(plan, two_hops, sent=[3]).safe
    assert check_deadlock(plan, two_hops, reclass={("s5", 2): 4}, sent=[3]).safe


def test_a_bounce_off_an_edge_switch_makes_a_cycle_in_a_fat_tree() -> None:
    # Tagger (CoNEXT 2017): traffic rerouted down-up after a failure breaks up-down order.
    routes = (
        RouteOverride.parse("a1 to h16 via e2"),
        RouteOverride.parse("e2 to h16 via a2"),
        RouteOverride.parse("a2 to h15 via e1"),
        RouteOverride.parse("e1 to h15 via a1"),
    )
    report = check_deadlock(make_plan(topology_from_spec("fattree:k=4"), PlanOptions(routes=routes)))
    assert not report.safe
    assert {"e1", "e2"} <= {channel.sender for channel in report.cycle}


def test_without_pfc_nothing_waits() -> None:
    plan = make_plan(topology_from_spec("ring"), PlanOptions(policies=PolicyOptions(pfc=False)))
    report = check_deadlock(plan)
    assert report.safe
    assert "no class is lossless" in str(report)


def test_the_check_of_a_large_fabric_counts_each_directed_link_once() -> None:
    # k=8: 128 host links count towards the fabric only, 256 switch links count both ways.
    assert check_deadlock(make_plan(topology_from_spec("fattree:k=8"))).channels == 128 + 2 * 256
