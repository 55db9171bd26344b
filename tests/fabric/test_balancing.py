"""How one of several equal ports is chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fabric import frames as f
from tests.fabric.native import NativeSwitch, ports_of
from tests.fabric.plans import LOSSLESS, star
from tests.fabric.traffic import data
from topologies.plan import FabricPlan, SwitchBalancing

Make = Callable[..., NativeSwitch]
FAR = "10.9.0.1"
FLOWS = 2048


def group_plan(
    ports: tuple[int, ...], *, mode: SwitchBalancing = "ecmp", seed: int = 0x1234_5678
) -> FabricPlan:
    """A star whose `ports` lead to 10.9.0.0/16; fast, so that queues stay empty."""
    return star(9, rate_bps=100 * 10**9, groups={"10.9.0.0/16": ports}, balance=mode, seed=seed)


def choose(s: NativeSwitch, sports: range | list[int]) -> dict[int, int]:
    """The port that each UDP source port's flow takes."""
    chosen = {}
    for sport in sports:
        s.send(1, data(1, 0, to=FAR, sport=sport))
        s.drain()
        (chosen[sport],) = ports_of(s.take())
    return chosen


@pytest.mark.parametrize("ports", [(2, 3), (2, 3, 4), (2, 3, 4, 5, 6, 7, 8, 9)])
def test_ecmp_spreads_flows_evenly(switch: Make, ports: tuple[int, ...]) -> None:
    chosen = Counter(choose(switch(group_plan(ports)), range(49152, 49152 + FLOWS)).values())
    share = 1 / len(ports)
    sigma = (FLOWS * share * (1 - share)) ** 0.5
    assert set(chosen) == set(ports)
    assert all(abs(count - FLOWS * share) < 4.5 * sigma for count in chosen.values()), chosen


def test_ecmp_keeps_a_flow_on_its_port(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4, 5)))
    assert choose(s, range(100)) == choose(s, range(100))


def test_two_tiers_with_different_seeds_choose_independently(switch: Make) -> None:
    first = choose(switch(group_plan((2, 3), seed=0xAAAA_0001)), range(FLOWS))
    survivors = [sport for sport, port in first.items() if port == 2]
    second = Counter(choose(switch(group_plan((2, 3), seed=0x5555_0002)), survivors).values())
    assert abs(second[2] - len(survivors) / 2) < 4.5 * (len(survivors) / 4) ** 0.5, second


def test_two_tiers_with_one_seed_are_polarised(switch: Make) -> None:
    first = choose(switch(group_plan((2, 3), seed=7)), range(200))
    survivors = [sport for sport, port in first.items() if port == 2]
    assert set(choose(switch(group_plan((2, 3), seed=7)), survivors).values()) == {2}


def test_telemetry_does_not_change_a_packets_path(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4, 5)))
    for sport in range(50):
        plain = data(1, 0, to=FAR, sport=sport)
        shim = f.int_headers(instructions=0x8000, hop_ml=1)
        body = f.udp(sport, f.INT_PORT, shim + plain[42:])
        s.send(1, plain)
        s.send(1, plain[:14] + f.ipv4("10.0.0.1", FAR, body))
        s.drain()
        ports = ports_of(s.take())
        assert len(ports) == 2 and ports[0] == ports[1]


def test_spray_spreads_the_packets_of_one_flow_evenly(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4, 5), mode="spray"))
    for _ in range(FLOWS):
        s.send(1, data(1, 0, to=FAR))
        s.drain()
    ports = ports_of(s.take())
    assert set(ports[:4]) == {2, 3, 4, 5}
    assert ports == ports[:4] * (FLOWS // 4)


def test_spray_does_not_lock_alternating_flows_to_alternate_ports(switch: Make) -> None:
    s = switch(group_plan((2, 3), mode="spray"))
    seen: dict[int, Counter[int]] = {1: Counter(), 2: Counter()}
    for index in range(400):
        flow = 1 + index % 2
        s.send(1, data(1, 0, to=FAR, sport=flow))
        s.drain()
        seen[flow].update(ports_of(s.take()))
    assert all(70 < counts[port] < 130 for counts in seen.values() for port in (2, 3)), seen


def test_adaptive_takes_the_candidate_with_the_fewest_queued_bytes(switch: Make) -> None:
    s = switch(
        star(
            9, groups={"10.9.0.0/16": tuple(range(2, 10))}, balance="adaptive",
            classes={3: replace(LOSSLESS, xoff_bytes=10**6, headroom_bytes=10**6)},
        )
    )  # fmt: skip
    for port in range(2, 10):
        s.send(port, f.pfc({3: 0xFFFF}))
        for _ in range(1 if port == 6 else 2 + port % 3):
            s.send(1, data(1, port))
    before = s.queued(6, 3)
    s.send(1, data(1, 0, to=FAR, size=400))
    assert s.queued(6, 3) == before + 400


def test_adaptive_spreads_flows_evenly_while_loads_are_equal(switch: Make) -> None:
    ports = (2, 3, 4)
    chosen = choose(switch(group_plan(ports, mode="adaptive")), range(FLOWS))
    again = Counter(chosen.values())
    sigma = (FLOWS * 2 / 9) ** 0.5
    # 1/256 of the flows meet an equal tie-break value and go to the lower candidate.
    assert all(abs(again[port] - FLOWS / 3) < 4.5 * sigma + FLOWS / 256 for port in ports), again


def test_the_mode_changes_while_packets_flow(switch: Make) -> None:
    s = switch(group_plan((2, 3, 4, 5)))
    assert len(set(choose(s, [1] * 1).values())) == 1
    s.program(replace(s.intent, balance="spray"))
    for _ in range(40):
        s.send(1, data(1, 0, to=FAR, sport=1))
        s.drain()
    assert set(ports_of(s.take())) == {2, 3, 4, 5}


def test_a_cordoned_port_gets_no_new_packets(switch: Make) -> None:
    s = switch(group_plan((2, 3)))
    s.program(replace(s.intent, cordoned=frozenset({2})))
    assert set(choose(s, range(50)).values()) == {3}
    s.program(replace(s.intent, cordoned=frozenset()))
    assert set(choose(s, range(50)).values()) == {2, 3}


def test_a_group_whose_ports_are_all_cordoned_keeps_them(switch: Make) -> None:
    s = switch(group_plan((2, 3)))
    s.program(replace(s.intent, cordoned=frozenset({2, 3})))
    assert set(choose(s, range(50)).values()) == {2, 3}
