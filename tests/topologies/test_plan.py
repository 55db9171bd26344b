"""A plan is consistent with its graph, repeatable, and survives the disk."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from topologies.fabric import TopologyError
from topologies.fattree import fattree
from topologies.leafspine import leafspine
from topologies.plan import FabricPlan, IntPolicy
from topologies.planning import PlanOptions, make_plan
from topologies.routes import RouteOverride
from topologies.spec import FAMILIES, topology_from_spec


@pytest.mark.parametrize("family", FAMILIES)
def test_both_ends_of_every_link_agree(family: str) -> None:
    plan = make_plan(topology_from_spec(family))
    switches = {switch.name: switch for switch in plan.switches}
    for switch in plan.switches:
        assert [port.number for port in switch.ports] == list(range(1, len(switch.ports) + 1))
        for port in switch.ports:
            if port.kind == "host":
                host = plan.host(port.peer)
                assert (host.switch, host.switch_port, host.gateway_mac) == (
                    switch.name,
                    port.number,
                    port.mac,
                )
                assert (host.mac, host.rate_bps, host.delay_ns) == (
                    port.peer_mac,
                    port.rate_bps,
                    port.delay_ns,
                )
            else:
                far = switches[port.peer].ports[port.peer_port - 1]
                assert (far.peer, far.peer_port, far.peer_mac) == (switch.name, port.number, port.mac)
                opposite = {"up": "down", "down": "up"}.get(port.kind, port.kind)
                assert (far.kind, far.rate_bps, far.delay_ns) == (opposite, port.rate_bps, port.delay_ns)


@pytest.mark.parametrize("family", FAMILIES)
def test_addresses_are_unique_local_and_inside_their_edge_subnet(family: str) -> None:
    plan = make_plan(topology_from_spec(family))
    macs = [host.mac for host in plan.hosts] + [port.mac for switch in plan.switches for port in switch.ports]
    assert len(set(macs)) == len(macs)
    # IEEE 802: bit 0 of the first byte clear = unicast, bit 1 set = locally administered.
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)
    assert len({host.ipv4 for host in plan.hosts}) == len(plan.hosts)
    subnets = {}
    for host in plan.hosts:
        subnets.setdefault(host.switch, set()).add(ipaddress.ip_network(f"{host.ipv4}/24", strict=False))
    assert all(len(found) == 1 for found in subnets.values())
    assert len(set().union(*subnets.values())) == len(subnets)
    assert len({switch.device_id for switch in plan.switches}) == len(plan.switches)
    assert [host.rank for host in plan.hosts] == list(range(len(plan.hosts)))


def test_hash_seeds_differ_by_switch_and_repeat_by_experiment_seed() -> None:
    one, again, other = (make_plan(fattree(4), PlanOptions(seed=seed)) for seed in (7, 7, 8))
    seeds = [switch.hash_seed for switch in one.switches]
    assert len(set(seeds)) == len(seeds)
    assert one == again
    assert seeds != [switch.hash_seed for switch in other.switches]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_read_back_from_disk_is_the_same_plan(family: str, tmp_path: Path) -> None:
    options = PlanOptions(telemetry=IntPolicy("edge", 8), time_scale=1e4, classes={3: {"xoff_bytes": 60_000}})
    plan = make_plan(topology_from_spec(family), options)
    plan.write(tmp_path / "plan.json")
    assert FabricPlan.read(tmp_path / "plan.json") == plan


def test_a_switch_with_more_hosts_than_a_slash_24_is_refused() -> None:
    make_plan(leafspine(leaves=1, spines=0, hosts_per_leaf=253))
    with pytest.raises(TopologyError, match="more than 253 hosts"):
        make_plan(leafspine(leaves=1, spines=0, hosts_per_leaf=254))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PlanOptions(load_balancing="adaptiv"), "did you mean 'adaptive'?"),  # type: ignore[arg-type]
        (PlanOptions(mtu=1500), "accepted: 256, 512, 1024, 2048, 4096"),
        (PlanOptions(time_scale=0), "must be greater than 0"),
        (PlanOptions(telemetry=IntPolicy("edge", 0)), "must be 1 or more"),
        (PlanOptions(routes=(RouteOverride("s9", "h1", ("e1",)),)), "no switch of that name"),
        (PlanOptions(routes=(RouteOverride("e1", "h99", ("a1",)),)), "no host, no switch"),
        (PlanOptions(routes=(RouteOverride("e1", "h9", ("c1",)),)), "its ports lead to h1 (port 1)"),
    ],
)
def test_options_that_make_no_plan_are_refused_with_a_sentence(options: PlanOptions, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        make_plan(fattree(4), options)
    assert words in str(caught.value)
