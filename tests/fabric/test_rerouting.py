"""Rerouting leaves exactly the planned paths that avoid what is down, judged by listing every path."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.intent import SwitchIntent
from controller.rerouting import dead_ends
from topologies.plan import FabricPlan, Route
from topologies.planning import make_plan
from topologies.routes import all_paths
from topologies.spec import topology_from_spec

PLANS = [
    make_plan(topology_from_spec(spec))
    for spec in ("fattree:k=4", "leafspine:leaves=3,spines=3,hosts_per_leaf=1")
]
"""One link at most between two nodes, so that a path names its links."""


def links(plan: FabricPlan) -> list[tuple[str, int]]:
    """Each link between switches, by its end at the lower name."""
    return [
        (s.name, p.number) for s in plan.switches for p in s.ports if p.kind != "host" and s.name < p.peer
    ]


def rerouted(plan: FabricPlan, down: set[tuple[str, int]]) -> FabricPlan:
    """The plan with the routes that the controller then programs."""
    intents = [SwitchIntent.of_plan(plan, switch, 10**9) for switch in plan.switches]
    dead = dead_ends(plan, {intent.switch.name: intent.routes for intent in intents}, down)
    switches = []
    for intent in intents:
        now = replace(intent, dead_ends=dead.get(intent.switch.name, {}))
        routes = tuple(Route(prefix, now.candidates(prefix)) for prefix in now.routes)
        switches.append(replace(intent.switch, routes=routes))
    return replace(plan, switches=tuple(switches))


def crosses(path: list[str], cut: set[frozenset[str]]) -> bool:
    return any(frozenset(pair) in cut for pair in pairwise(path))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_is_left_is_every_planned_path_that_is_whole(data: st.DataObject) -> None:
    plan = data.draw(st.sampled_from(PLANS))
    down = set(data.draw(st.lists(st.sampled_from(links(plan)), max_size=5, unique=True)))
    peers = {(s.name, p.number): p.peer for s in plan.switches for p in s.ports}
    cut = {frozenset((switch, peers[switch, port])) for switch, port in down}
    after = rerouted(plan, down)
    for a, b in permutations([host.name for host in plan.hosts][::3], 2):
        whole = [path for path in all_paths(plan, a, b) if not crosses(path, cut)]
        left = all_paths(after, a, b)
        if whole:
            assert sorted(left) == sorted(whole)
        else:
            assert left  # nothing leads there; the routes stay, and packets are dropped at the link


def test_nothing_changes_while_all_links_are_up() -> None:
    for plan in PLANS:
        assert rerouted(plan, set()) == replace(
            plan, switches=tuple(replace(s, routes=tuple(s.routes)) for s in plan.switches)
        )
