"""From a fabric graph and options to the `FabricPlan` that controller, hosts and reports share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import networkx as nx

from topologies.addressing import assign_addresses, hash_seed, port_mac
from topologies.fabric import TopologyError, attachments, check_fabric, hosts, switches
from topologies.plan import (
    FabricPlan,
    HostPlan,
    IntPolicy,
    LoadBalancing,
    PortPlan,
    Route,
    SwitchPlan,
)
from topologies.policies import PolicyOptions, default_policies
from topologies.routes import RouteOverride, build_routes
from topologies.suggest import did_you_mean

MTUS = (256, 512, 1024, 2048, 4096)
"""RoCE path MTUs (InfiniBand architecture, volume 1)."""


@dataclass(frozen=True)
class PlanOptions:
    """What an experiment chooses beyond the shape of the fabric."""

    name: str | None = None
    """Of the plan; None takes the fabric's spec."""
    load_balancing: LoadBalancing = "ecmp"
    weighted_paths: bool = False
    telemetry: IntPolicy = field(default_factory=IntPolicy)
    time_scale: float = 1.0
    mtu: int = 1024
    seed: int = 1
    policies: PolicyOptions = field(default_factory=PolicyOptions)
    classes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Fields of `ClassPolicy` to replace, by class."""
    routes: tuple[RouteOverride, ...] = ()


def make_plan(graph: nx.MultiGraph, options: PlanOptions | None = None) -> FabricPlan:
    """The plan of a fabric. Raises TopologyError, with a sentence, for a graph or options that make no fabric."""
    options = options or PlanOptions()
    check_fabric(graph)
    _check_options(options)
    addresses = assign_addresses(graph)
    routes = build_routes(graph, addresses, options.routes)
    return FabricPlan(
        name=options.name or str(graph.graph["name"]),
        switches=tuple(
            _switch_plan(graph, name, addresses.device_id, addresses.host_mac, routes[name], options.seed)
            for name in switches(graph)
        ),
        hosts=tuple(
            _host_plan(graph, name, rank, addresses.device_id, addresses.ipv4[name], addresses.host_mac[name])
            for rank, name in enumerate(hosts(graph))
        ),
        classes=default_policies(*_sizing_link(graph), options.mtu, options.policies, options.classes),
        load_balancing=options.load_balancing,
        weighted_paths=options.weighted_paths,
        telemetry=options.telemetry,
        time_scale=options.time_scale,
        mtu=options.mtu,
    )


def _switch_plan(
    graph: nx.MultiGraph,
    name: str,
    device_id: dict[str, int],
    host_mac: dict[str, str],
    routes: tuple[Route, ...],
    seed: int,
) -> SwitchPlan:
    return SwitchPlan(
        name=name,
        device_id=device_id[name],
        layer=graph.nodes[name]["layer"],
        ports=tuple(
            PortPlan(
                number=end.port,
                mac=port_mac(device_id[name], end.port),
                peer=end.peer,
                peer_port=end.peer_port,
                peer_mac=host_mac[end.peer]
                if end.kind == "host"
                else port_mac(device_id[end.peer], end.peer_port),
                rate_bps=end.rate_bps,
                delay_ns=end.delay_ns,
                kind=end.kind,
            )
            for end in attachments(graph, name)
        ),
        routes=routes,
        hash_seed=hash_seed(seed, name),
        position=graph.nodes[name]["position"],
    )


def _host_plan(
    graph: nx.MultiGraph, name: str, rank: int, device_id: dict[str, int], ipv4: str, mac: str
) -> HostPlan:
    (end,) = attachments(graph, name)
    return HostPlan(
        name=name,
        rank=rank,
        mac=mac,
        ipv4=ipv4,
        switch=end.peer,
        switch_port=end.peer_port,
        gateway_mac=port_mac(device_id[end.peer], end.peer_port),
        rate_bps=end.rate_bps,
        delay_ns=end.delay_ns,
    )


def _sizing_link(graph: nx.MultiGraph) -> tuple[int, int]:
    """(fastest rate, longest delay): the link that default thresholds and headroom are computed for."""
    links = [link for _, _, link in graph.edges(data=True)]
    return max(link["rate_bps"] for link in links), max(link["delay_ns"] for link in links)


def _check_options(options: PlanOptions) -> None:
    modes = get_args(LoadBalancing)
    if options.load_balancing not in modes:
        raise TopologyError(
            f"load balancing {options.load_balancing!r} is unknown"
            f"{did_you_mean(options.load_balancing, modes)}; accepted: {', '.join(modes)}"
        )
    if options.mtu not in MTUS:
        raise TopologyError(
            f"mtu {options.mtu} is not a RoCE path MTU; accepted: {', '.join(map(str, MTUS))}"
        )
    if not options.time_scale > 0:
        raise TopologyError(f"time scale {options.time_scale} must be greater than 0")
    if options.telemetry.mode not in ("off", "host", "edge"):
        raise TopologyError(f"telemetry {options.telemetry.mode!r} is unknown; accepted: off, host, edge")
    if options.telemetry.sample_every < 1:
        raise TopologyError("telemetry samples one packet in `sample_every`, which must be 1 or more")
