"""Any fabric as a Mininet `Topo`, for scripts and for mn:

    mn --custom topologies/mininet_topo.py --topo xoff,fattree,k=4 --switch lxbr --controller none
    mn --custom topologies/mininet_topo.py --topo xoff,mix/topology.txt …

Names, ports, MACs and addresses are the plan's; interfaces are quiet (no IPv6, no offloads, jumbo MTU). Rates and
delays are not in the links: the switches of `xoff run` keep them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def _make_importable() -> None:
    """`mn --custom` executes this file without its package, with the system's Python: find package and libraries."""
    here = Path(sys._getframe().f_code.co_filename).resolve().parent.parent
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    libraries = here / ".venv" / "lib" / version / "site-packages"
    if sys.prefix == sys.base_prefix and libraries.is_dir() and str(libraries) not in sys.path:
        sys.path.append(str(libraries))


_make_importable()

import networkx as nx  # noqa: E402
from mininet.link import Intf, Link  # noqa: E402
from mininet.node import Host  # noqa: E402
from mininet.topo import Topo  # noqa: E402

from topologies.addressing import gateway  # noqa: E402
from topologies.netns import (  # noqa: E402
    FABRIC_MTU,
    forwarding_off,
    guard_roce_port,
    in_namespace,
    ipv6_off,
    kernel_mac,
    offloads_off,
)
from topologies.planning import PlanOptions, make_plan  # noqa: E402
from topologies.runstate import run_ip  # noqa: E402
from topologies.spec import FAMILIES, build, topology_from_spec  # noqa: E402


class QuietIntf(Intf):
    """An end of a fabric link. In the root namespace the kernel keeps out of what arrives there."""

    def config(self, mac: str | None = None, **_params: Any) -> dict[str, Any]:
        """Silence the interface, then bring it up."""
        if self.node.inNamespace:
            in_namespace(self.node.pid, lambda: self._silence(mac or self.mac, ""))
        else:
            self._silence(kernel_mac(mac or self.mac), " arp off")
        return {}

    def _silence(self, mac: str, arp: str) -> None:
        ipv6_off(self.name)
        forwarding_off(self.name)
        offloads_off(self.name)
        run_ip(
            ["-batch", "-"],
            f"link set dev {self.name} address {mac} mtu {FABRIC_MTU}\nlink set dev {self.name} up{arp}\n",
        )


class QuietLink(Link):
    """A veth pair between two nodes of a fabric."""

    def __init__(self, *nodes: Any, **params: Any) -> None:
        params.update(intf=QuietIntf, cls1=QuietIntf, cls2=QuietIntf)
        super().__init__(*nodes, **params)


class FabricHost(Host):
    """A host that sends everything to its switch and answers ping but not RoCE (UDP 4791)."""

    def config(self, ip: str | None = None, gateway_mac: str | None = None, **params: Any) -> dict[str, Any]:
        """Address the host; `ip` is `address/24`."""
        result: dict[str, Any] = super().config(**{**params, "ip": None, "mac": None, "defaultRoute": None})
        if ip is None or gateway_mac is None:
            return result
        interface = self.defaultIntf()
        address = ip.partition("/")[0]
        via = gateway(address)

        def address_it() -> Any:
            run_ip(
                ["-batch", "-"],
                f"address add {ip} dev {interface} noprefixroute\n"
                f"neighbour replace {via} lladdr {gateway_mac} dev {interface} nud permanent\n"
                f"route add default via {via} dev {interface} onlink\n",
            )
            return guard_roce_port()

        self.guard = in_namespace(self.pid, address_it)
        interface.ip, interface.prefixLen = address, "24"
        return result


class FabricTopo(Topo):
    """The `Topo` of a fabric graph."""

    def build(self, fabric: nx.MultiGraph | None = None, options: PlanOptions | None = None) -> None:
        """Declare the nodes and links of the plan of `fabric`."""
        if fabric is None:
            fabric = topology_from_spec("fattree")
        plan = make_plan(fabric, options)
        for switch in plan.switches:
            self.addSwitch(switch.name, dpid=f"{switch.device_id:016x}")
        for host in plan.hosts:
            self.addHost(
                host.name, cls=FabricHost, ip=f"{host.ipv4}/24", mac=host.mac, gateway_mac=host.gateway_mac
            )
        for switch in plan.switches:
            for port in switch.ports:
                if port.kind == "host" or (switch.name, port.number) < (port.peer, port.peer_port):
                    self.addLink(
                        switch.name,
                        port.peer,
                        port1=port.number,
                        port2=port.peer_port,
                        addr1=port.mac,
                        addr2=port.peer_mac,
                        cls=QuietLink,
                    )


def from_words(family: str = "fattree", *positional: Any, **parameters: Any) -> FabricTopo:
    """`--topo xoff,FAMILY,key=value…` or `--topo xoff,PATH` of an HPCC topology.txt."""
    if positional:
        raise ValueError(f"--topo xoff,{family}: write parameters as key=value, not {positional[0]!r}")
    if str(family).lower() in FAMILIES:
        return FabricTopo(build(str(family), parameters))
    return FabricTopo(topology_from_spec(str(family)))


topos = {"xoff": from_words}
