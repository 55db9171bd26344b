"""Weighted paths: what the candidates weigh, and how a switch takes them in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.intent import SwitchIntent
from controller.routing import COPIES, group_ids, member_ids
from controller.weights import MOST_MEMBERS, OVERSUBSCRIPTION, path_weights, reduced
from tests.fabric.native import NativeSwitch, ports_of
from tests.fabric.plans import star
from tests.fabric.test_balancing import FAR, FLOWS, choose, group_plan
from tests.fabric.traffic import data
from topologies.plan import FabricPlan
from topologies.planning import make_plan
from topologies.spec import topology_from_spec

Make = Callable[..., NativeSwitch]
G = 10**9
PREFIX = "10.9.0.0/16"


@pytest.mark.parametrize(
    ("capacities", "weights"),
    [
        ([100, 100, 100], [1, 1, 1]),
        ([200, 100], [2, 1]),
        ([400, 200, 100], [4, 2, 1]),
        ([100, 100, 100, 10], [10, 10, 10, 1]),
        ([100, 40], [3, 1]),  # 0.750 of the traffic over 0.714 of the capacity
    ],
)
def test_rates_in_simple_proportions_weigh_just_that(capacities: list[int], weights: list[int]) -> None:
    assert reduced(capacities) == weights


@given(st.lists(st.integers(1, 64), min_size=2, max_size=16))
def test_no_candidate_gets_much_more_than_its_share_of_a_table_that_is_small(capacities: list[int]) -> None:
    weights = reduced([c * G for c in capacities])
    assert min(weights) >= 1
    if min(capacities) * MOST_MEMBERS // 2 >= sum(capacities):  # each has two members or more
        assert sum(weights) <= MOST_MEMBERS + len(weights)
        for weight, capacity in zip(weights, capacities, strict=True):
            assert weight / sum(weights) <= OVERSUBSCRIPTION * 1.2 * capacity / sum(capacities)


def weights_of(plan: FabricPlan, rates: dict[tuple[str, int], int]) -> dict[str, dict[str, dict[int, int]]]:
    routes = {s.name: {route.prefix: route.ports for route in s.routes} for s in plan.switches}
    return path_weights(plan, routes, rates)


def towards(plan: FabricPlan, switch: str, peer: str) -> int:
    return next(port.number for port in plan.switch(switch).ports if port.peer == peer)


@pytest.fixture(scope="module")
def tree() -> FabricPlan:
    return make_plan(topology_from_spec("fattree:k=4"))


def test_a_fabric_of_equal_links_has_no_weights(tree: FabricPlan) -> None:
    assert weights_of(tree, {}) == {}


def test_a_slow_link_weighs_less_before_it_and_where_paths_lead_over_it(tree: FabricPlan) -> None:
    """c1-a1 at a tenth, both ways: a1 sends less to c1, other pods' aggregations send less for pod 1 there."""
    rates = {("a1", towards(tree, "a1", "c1")): 10 * G, ("c1", towards(tree, "c1", "a1")): 10 * G}
    found = weights_of(tree, rates)
    assert set(found) == {"a1", "a3", "a5", "a7"}
    far = [s for s in tree.switches if s.layer == "edge" and s.name not in ("e1", "e2")]
    assert len(found["a1"]) == len(far)
    slow, fast = towards(tree, "a1", "c1"), towards(tree, "a1", "c2")
    assert all(weights == {slow: 1, fast: 10} for weights in found["a1"].values())
    for name in ("a3", "a5", "a7"):
        c1, c2 = towards(tree, name, "c1"), towards(tree, name, "c2")
        assert list(found[name].values()) == [{c1: 1, c2: 10}] * 2  # the two edge switches of pod 1


def test_where_nothing_leads_on_a_candidate_weighs_what_its_own_link_carries() -> None:
    plan = star(5, groups={"10.0.0.0/24": (2, 3)})
    found = weights_of(plan, {("s1", 3): plan.switches[0].ports[2].rate_bps // 4})
    assert found == {"s1": {"10.0.0.0/24": {2: 4, 3: 1}}}


def test_the_turns_of_a_port_are_rounds_apart() -> None:
    plan = group_plan((2, 3, 4))
    intent = replace(SwitchIntent.of_plan(plan, plan.switches[0], G), weights={PREFIX: {2: 3, 3: 1, 4: 2}})
    assert intent.members(PREFIX) == (2, 3, 4, 2, 4, 2)
    assert member_ids(intent.members(PREFIX)) == [2, 3, 4, 2 + COPIES, 4 + COPIES, 2 + 2 * COPIES]


def test_a_cordoned_port_has_no_turn_whatever_it_weighs() -> None:
    plan = group_plan((2, 3, 4))
    intent = replace(
        SwitchIntent.of_plan(plan, plan.switches[0], G), weights={PREFIX: {2: 2, 3: 1, 4: 1}}, cordoned=frozenset({2})
    )  # fmt: skip
    assert intent.members(PREFIX) == (3, 4)
    assert group_ids(intent).keys() == {(3, 4)}


def test_equal_candidates_keep_the_group_that_they_have_without_weights() -> None:
    plan = group_plan((2, 3))
    intent = SwitchIntent.of_plan(plan, plan.switches[0], G)
    assert group_ids(replace(intent, weights={PREFIX: {2: 1, 3: 1}})) == group_ids(intent)


WEIGHTS = {2: 3, 3: 1, 4: 2}


def test_spray_takes_the_ports_in_turn_as_often_as_they_weigh(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4), mode="spray"))
    s.program(replace(s.intent, weights={PREFIX: WEIGHTS}))
    for _ in range(600):
        s.send(1, data(1, 0, to=FAR))
        s.drain()
    ports = ports_of(s.take())
    assert Counter(ports) == {port: 100 * weight for port, weight in WEIGHTS.items()}
    assert Counter(ports[:6]) == WEIGHTS and ports == ports[:6] * 100


def test_ecmp_gives_each_port_its_share_of_the_flows(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4)))
    s.program(replace(s.intent, weights={PREFIX: WEIGHTS}))
    chosen = Counter(choose(s, range(49152, 49152 + FLOWS)).values())
    for port, weight in WEIGHTS.items():
        share = weight / 6
        assert abs(chosen[port] - FLOWS * share) < 4.5 * (FLOWS * share * (1 - share)) ** 0.5


def test_adaptive_looks_at_every_port_once(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4), mode="adaptive"))
    s.program(replace(s.intent, weights={PREFIX: WEIGHTS}))
    assert set(choose(s, range(60)).values()) == {2, 3, 4}
