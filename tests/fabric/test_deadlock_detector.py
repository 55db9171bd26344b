"""The deadlock detector finds rings of waiting queues in what stands still."""

from __future__ import annotations

from controller.deadlock import victims, waits_for
from controller.watchdog import Queue
from topologies.planning import make_plan
from topologies.spec import topology_from_spec

RING = make_plan(topology_from_spec("ring:n=4"))
TREE = make_plan(topology_from_spec("fattree:k=4"))


def towards(plan, switch: str, peer: str) -> Queue:
    return Queue(switch, next(p.number for p in plan.switch(switch).ports if p.peer == peer), 3)


def around(*names: str) -> list[Queue]:
    return [towards(RING, here, there) for here, there in zip(names, (*names[1:], names[0]), strict=True)]


def test_a_ring_is_found_and_its_first_queue_is_the_victim() -> None:
    ring = around("s1", "s2", "s3", "s4")
    assert victims(RING, ring) == [ring[0]]
    assert set(waits_for(RING, ring).edges) == set(zip(ring, [*ring[1:], ring[0]], strict=True))


def test_queues_in_a_row_and_queues_towards_hosts_are_no_ring() -> None:
    ring = around("s1", "s2", "s3", "s4")
    assert victims(RING, ring[:3]) == []
    assert victims(RING, [*ring[:3], towards(RING, "s4", "h4")]) == []


def test_both_directions_of_a_link_are_no_ring() -> None:
    assert victims(RING, [towards(RING, "s1", "s2"), towards(RING, "s2", "s1")]) == []


def test_two_rings_lose_one_queue_each() -> None:
    one, other = around("s1", "s2", "s3", "s4"), around("s4", "s3", "s2", "s1")
    assert len(victims(RING, [*one, *other])) == 2


def test_the_paths_of_a_tree_are_no_ring() -> None:
    up_and_down = [("e1", "a1"), ("a1", "c1"), ("c1", "a3"), ("a3", "e3")]
    assert victims(TREE, [towards(TREE, *pair) for pair in up_and_down]) == []
