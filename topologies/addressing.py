"""Addresses of a fabric: a /24 per edge switch, MACs that spell their owner, device ids, hash seeds.

Edge switch number e (from 0) owns 10.(e div 256).(e mod 256).0/24: hosts .1 to .253, gateway .254.
MACs are locally administered unicast: 02:00 + the four IPv4 bytes for a host, 02:01 + device id (16 bits) + port
(16 bits) for a switch port.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import networkx as nx

from topologies.fabric import TopologyError, attachments, edge_switches, hosts, switch_of, switches

MAX_HOSTS_PER_EDGE = 253
MAX_EDGES = 65536
GATEWAY_OCTET = 254


@dataclass(frozen=True)
class Addressing:
    """Who has which address."""

    subnet: dict[str, str]
    """Edge switch -> its prefix `10.x.y.0/24`."""
    ipv4: dict[str, str]
    """Host -> address."""
    host_mac: dict[str, str]
    device_id: dict[str, int]
    """Switch -> P4Runtime device id, from 1."""


def assign_addresses(graph: nx.MultiGraph) -> Addressing:
    """Addresses for every node of a fabric. Raises TopologyError when a subnet or the 10/8 block is too small."""
    edges = edge_switches(graph)
    if len(edges) > MAX_EDGES:
        raise TopologyError(
            f"the fabric has {len(edges)} edge switches; 10.0.0.0/8 holds {MAX_EDGES} of them"
        )
    network = {switch: f"10.{number // 256}.{number % 256}" for number, switch in enumerate(edges)}
    used = dict.fromkeys(edges, 0)
    ipv4: dict[str, str] = {}
    for host in hosts(graph):
        switch = switch_of(graph, host)
        used[switch] += 1
        if used[switch] > MAX_HOSTS_PER_EDGE:
            raise TopologyError(
                f"switch {switch} has more than {MAX_HOSTS_PER_EDGE} hosts, the most its /24 can address"
            )
        ipv4[host] = f"{network[switch]}.{used[switch]}"
    return Addressing(
        subnet={switch: f"{prefix}.0/24" for switch, prefix in network.items()},
        ipv4=ipv4,
        host_mac={host: host_mac(address) for host, address in ipv4.items()},
        device_id={switch: number for number, switch in enumerate(switches(graph), start=1)},
    )


def host_mac(ipv4: str) -> str:
    """`10.0.1.2` -> `02:00:0a:00:01:02`."""
    return ":".join(["02", "00", *(f"{int(octet):02x}" for octet in ipv4.split("."))])


def port_mac(device_id: int, port: int) -> str:
    """Device 3, port 1 -> `02:01:00:03:00:01`."""
    return f"02:01:{device_id >> 8:02x}:{device_id & 0xFF:02x}:{port >> 8:02x}:{port & 0xFF:02x}"


def gateway(ipv4: str) -> str:
    """The gateway of a host's /24: `10.0.1.2` -> `10.0.1.254`. No node owns it; its neighbour entry is static."""
    return f"{ipv4.rsplit('.', 1)[0]}.{GATEWAY_OCTET}"


def hash_seed(experiment_seed: int, switch: str) -> int:
    """32 bits that differ from switch to switch and repeat for the same experiment seed."""
    digest = hashlib.sha256(f"{experiment_seed}/{switch}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def gateway_macs(graph: nx.MultiGraph, device_id: dict[str, int]) -> dict[str, str]:
    """Host -> MAC of the switch port it is attached to."""
    macs = {}
    for host in hosts(graph):
        (link,) = attachments(graph, host)
        macs[host] = port_mac(device_id[link.peer], link.peer_port)
    return macs
