"""Weights of unequal paths (WCMP): Zhou et al., "WCMP: Weighted Cost Multipathing for Improved Fairness in Data
Centers", EuroSys 2014.

A candidate weighs what can pass through it: the rate of its link, or what the paths behind it carry together, whichever
is less. A group repeats its members in proportion. As there, the proportions are reduced to a small table: the smallest
one in which no candidate gets more than `OVERSUBSCRIPTION` times its share, or the best of at most `MOST_MEMBERS`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from controller.rerouting import Port, Routes
from topologies.plan import FabricPlan

OVERSUBSCRIPTION = 1.05
MOST_MEMBERS = 64

Weights = dict[str, dict[str, dict[int, int]]]
"""Switch to prefix to candidate port to its weight."""


def path_weights(plan: FabricPlan, routes: Routes, rates: Mapping[Port, int]) -> Weights:
    """Weights of every switch's prefixes whose candidates are not alike; the others are left out.

    `routes`: the candidates that are in use now. `rates`: fabric bit/s of ports whose rate is not the planned one.
    """
    capacity = _Capacity(plan, routes, rates)
    result: Weights = {}
    for switch, table in routes.items():
        for prefix, ports in table.items():
            if len(ports) < 2 or (host := capacity.host_of(prefix)) is None:
                continue
            weights = reduced([capacity.through(switch, port, host) for port in ports])
            if len(set(weights)) > 1:
                result.setdefault(switch, {})[prefix] = dict(zip(ports, weights, strict=True))
    return result


def reduced(capacities: Sequence[float]) -> list[int]:
    """Small whole numbers, at least 1, in about the proportion of the capacities."""
    total = sum(capacities)
    if len(set(capacities)) < 2:
        return [1] * len(capacities)
    best, excess = [1] * len(capacities), float("inf")
    for size in range(len(capacities), MOST_MEMBERS + 1):
        weights = [max(1, round(capacity * size / total)) for capacity in capacities]
        most = max(
            w / sum(weights) / (c / total) if c else 1.0 for w, c in zip(weights, capacities, strict=True)
        )
        if most < excess:
            best, excess = weights, most
        if excess <= OVERSUBSCRIPTION:
            break
    return best


class _Capacity:
    """What can flow from a switch's port to a host, bit/s, over the routes in use."""

    def __init__(self, plan: FabricPlan, routes: Routes, rates: Mapping[Port, int]) -> None:
        self._hosts = [ipaddress.IPv4Address(host.ipv4) for host in plan.hosts]
        self._host_of: dict[str, int | None] = {}
        self._links = {
            (switch.name, port.number): (port.peer, rates.get((switch.name, port.number), port.rate_bps))
            for switch in plan.switches
            for port in switch.ports
        }
        self._tables = {switch: _by_length(table) for switch, table in routes.items()}
        self._behind: dict[tuple[str, int], float] = {}

    def host_of(self, prefix: str) -> int | None:
        """Address of one of its hosts; they are all behind the same switches."""
        if prefix not in self._host_of:
            network = ipaddress.ip_network(prefix)
            self._host_of[prefix] = next((int(host) for host in self._hosts if host in network), None)
        return self._host_of[prefix]

    def through(self, switch: str, port: int, host: int) -> float:
        """The link's rate, or less where what is behind it carries less."""
        peer, rate = self._links[switch, port]
        return min(rate, self._from(peer, host)) if peer in self._tables else rate

    def _from(self, switch: str, host: int) -> float:
        key = (switch, host)
        if key not in self._behind:
            self._behind[key] = 0.0  # routes that loop carry nothing
            found = (table.get(host >> shift) for shift, table in self._tables[switch])
            ports = next(filter(None, found), ())
            self._behind[key] = sum(self.through(switch, port, host) for port in ports)
        return self._behind[key]


def _by_length(table: Mapping[str, tuple[int, ...]]) -> list[tuple[int, dict[int, tuple[int, ...]]]]:
    """IPv4 routes for longest prefix match: (bits behind the prefix, prefix to ports), longest first."""
    lengths: dict[int, dict[int, tuple[int, ...]]] = {}
    for prefix, ports in table.items():
        network = ipaddress.ip_network(prefix)
        if network.version == 4:
            shift = 32 - network.prefixlen
            lengths.setdefault(shift, {})[int(network.network_address) >> shift] = ports
    return sorted(lengths.items())
