"""Rerouting around links that are down: each switch leaves out the candidates that no longer lead to a destination.

What is left is a part of the planned routes, so it has no loop and no cycle of buffers that the plan does not have. A
switch from which nothing leads there any more keeps its routes, and its neighbours leave it out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from topologies.plan import FabricPlan

Port = tuple[str, int]
"""(switch, port number)."""
Routes = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Switch to prefix to candidate ports."""


def both_ends(plan: FabricPlan, down: Iterable[Port]) -> frozenset[Port]:
    """The switch ports at either end of links of which one end is known to be down."""
    known = set(down)
    names = {switch.name for switch in plan.switches}
    for switch in plan.switches:
        for port in switch.ports:
            if (switch.name, port.number) in known and port.peer in names:
                known.add((port.peer, port.peer_port))
    return frozenset(known)


def dead_ends(plan: FabricPlan, routes: Routes, down: Iterable[Port]) -> dict[str, dict[str, frozenset[int]]]:
    """For every switch and prefix with such ports, those of its candidates that lead to no host of the prefix."""
    search = _Search(plan, routes, both_ends(plan, down))
    result: dict[str, dict[str, frozenset[int]]] = {}
    for switch, table in routes.items():
        for prefix, ports in table.items():
            hosts = search.within(prefix)
            dead = frozenset(p for p in ports if not any(search.leads(switch, p, host) for host in hosts))
            if dead and hosts:
                result.setdefault(switch, {})[prefix] = dead
    return result


class _Search:
    """Whether packets arrive, by the routes as they are and without the links that are down."""

    def __init__(self, plan: FabricPlan, routes: Routes, down: frozenset[Port]) -> None:
        self.hosts = {ipaddress.IPv4Address(host.ipv4): host.name for host in plan.hosts}
        self._down = down
        self._peers = {(s.name, port.number): port.peer for s in plan.switches for port in s.ports}
        self._tables = {
            switch: sorted(
                ((ipaddress.ip_network(prefix), ports) for prefix, ports in table.items()),
                key=lambda route: -route[0].prefixlen,
            )
            for switch, table in routes.items()
        }
        self._within: dict[str, list[ipaddress.IPv4Address]] = {}
        self._arrives: dict[tuple[str, ipaddress.IPv4Address], bool] = {}

    def within(self, prefix: str) -> list[ipaddress.IPv4Address]:
        """Hosts of a prefix."""
        if prefix not in self._within:
            network = ipaddress.ip_network(prefix)
            self._within[prefix] = [address for address in self.hosts if address in network]
        return self._within[prefix]

    def leads(self, switch: str, port: int, host: ipaddress.IPv4Address) -> bool:
        """Whether what leaves through `port` can arrive."""
        if (switch, port) in self._down:
            return False
        peer = self._peers[switch, port]
        return peer == self.hosts[host] or (peer in self._tables and self._from(peer, host))

    def _from(self, switch: str, host: ipaddress.IPv4Address) -> bool:
        key = (switch, host)
        if key not in self._arrives:
            self._arrives[key] = False  # routes that loop arrive nowhere
            ports = next((ports for net, ports in self._tables[switch] if host in net), ())
            self._arrives[key] = any(self.leads(switch, port, host) for port in ports)
        return self._arrives[key]
