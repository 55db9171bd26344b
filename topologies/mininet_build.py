"""A fabric in Mininet, built in one go: hosts as namespaces, switch ports as veth ends in the root namespace.

Mininet starts a shell per command; here `ip -batch` makes all links at once, and Mininet's own objects (net.get,
host.cmd, CLI) are told about them afterwards. A quiet fabric carries no frame that nobody sent: no IPv6, no
offloads, static neighbours, and kernels that answer for their host's ping but not for RoCE (docs/topologies.md).
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Switch

from topologies.addressing import gateway
from topologies.linkup import LinkEvents
from topologies.netns import (
    FABRIC_MTU,
    forwarding_off,
    guard_roce_port,
    in_namespace,
    ipv6_off,
    kernel_mac,
    offloads_off,
)
from topologies.plan import FabricPlan, HostPlan
from topologies.runstate import RunState, delete_interface_group, end_processes, marked_processes, run_ip

MAX_INTERFACE_NAME = 15
UP_S = 10.0
"""Within so long the kernel has every link up; it takes milliseconds."""


class RunHost(Host):
    """A Mininet host whose shell, and all it starts, carries the run's marker."""

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        params.setdefault("env", self.params["environment"])
        return super()._popen(cmd, **params)


class RunSwitch(Switch):
    """A switch as Mininet's tools see it. What forwards its frames (native or BMv2) is started by `xoff`."""

    def start(self, controllers: Iterable[Any]) -> None:
        """Nothing to do: the data plane is another process."""

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        params.setdefault("env", self.params["environment"])
        return super()._popen(cmd, **params)


class BuiltIntf(Intf):
    """An interface that exists and is configured already."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Nothing to do."""
        return {}


class BuiltLink(Link):
    """A link that exists already and goes with the whole fabric."""

    @classmethod
    def makeIntfPair(cls, *_arguments: Any, **_keywords: Any) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do: `FabricNet.stop` removes all links at once."""


class FabricNet(Mininet):
    """A running fabric. Use it in a `with` block, or call `stop()`, which may be called at any point and twice."""

    hosts: list[Any]
    switches: list[Any]
    links: list[Any]
    nameToNode: dict[str, Any]  # Mininet's name

    def __init__(self, plan: FabricPlan, state: RunState) -> None:
        """Build the fabric of `plan`, all of it recorded in `state`. Raises RuntimeError with a sentence.

        Needs root. When it fails half-way, what was made is removed again (`state` itself stays).
        """
        if os.geteuid():
            raise RuntimeError(
                "a Mininet fabric needs root (network namespaces and veth pairs); run it with sudo"
            )
        _check_namespaces()
        self.plan = plan
        self.state = state
        self._guards: list[socket.socket] = []
        self._names = {
            (switch.name, port.number): _interface_name(state.tag, switch.name, port.number)
            for switch in plan.switches
            for port in switch.ports
        }
        self._names |= {(host.name, 0): f"{host.name}-eth0" for host in plan.hosts}
        with _machine_left_alone():
            super().__init__(
                topo=None,
                build=False,
                controller=None,
                host=RunHost,
                switch=RunSwitch,
                link=BuiltLink,
                intf=BuiltIntf,
            )
        try:
            self._make()
        except BaseException:
            self.stop()
            raise

    def interface(self, node: str, port: int = 0) -> str:
        """Name of an interface: a switch port in the root namespace, or a host's port 0 in the host's namespace."""
        return self._names[node, port]

    def namespace(self, host: str) -> Path:
        """The network namespace of a host, as a file to enter or to pass on."""
        return Path(f"/proc/{self.get(host).pid}/ns/net")

    def stop(self) -> None:
        """Remove everything: links first, then the hosts and whatever runs in them."""
        delete_interface_group(self.state.group)
        for guard in self._guards:
            guard.close()
        self._guards.clear()
        nodes = [*self.hosts, *self.switches]
        shells = {node.pid for node in nodes if node.shell}
        end_processes(marked_processes(self.state.run) - shells)
        for node in nodes:
            node.terminate()
        self.hosts, self.switches, self.links = [], [], []
        self.nameToNode = {}

    def _make(self) -> None:
        environment = self.state.environment()
        for host in self.plan.hosts:
            node = self.addHost(host.name, ip=None, environment=environment)
            self.state.record(processes=[node.pid], namespaces=[f"{host.name}={_namespace_id(node.pid)}"])
        for switch in self.plan.switches:
            self.addSwitch(switch.name, dpid=f"{switch.device_id:016x}", environment=environment)
        self.state.record(
            interfaces=[name for (node, port), name in self._names.items() if port],
            processes=[switch.pid for switch in self.switches],
        )
        run_ip(["-batch", "-"], "\n".join(self._link_commands()) + "\n")
        ports = [name for (_, port), name in self._names.items() if port]
        for name in ports:
            ipv6_off(name)
            forwarding_off(name)
            offloads_off(name)
        with LinkEvents() as events:
            run_ip(["-batch", "-"], "".join(f"link set dev {name} up arp off\n" for name in ports))
            for host in self.plan.hosts:
                self._guards.append(in_namespace(self.get(host.name).pid, partial(_configure, host)))
            events.wait_until_up(self.state.group, UP_S)
        self._tell_mininet()
        self.built = True

    def _link_commands(self) -> list[str]:
        common = f"mtu {FABRIC_MTU} group {self.state.group}"
        commands = []
        for switch in self.plan.switches:
            for port in switch.ports:
                name = self._names[switch.name, port.number]
                mine = f"link add name {name} {common} address {kernel_mac(port.mac)} type veth peer"
                theirs = f"name {self._names[port.peer, port.peer_port]} {common}"
                if port.kind == "host":
                    commands.append(
                        f"{mine} {theirs} address {port.peer_mac} netns {self.get(port.peer).pid}"
                    )
                elif (switch.name, port.number) < (port.peer, port.peer_port):
                    commands.append(f"{mine} {theirs} address {kernel_mac(port.peer_mac)}")
        return commands

    def _tell_mininet(self) -> None:
        for switch in self.plan.switches:
            for port in switch.ports:
                if port.kind == "host" or (switch.name, port.number) < (port.peer, port.peer_port):
                    self.addLink(
                        switch.name,
                        port.peer,
                        port1=port.number,
                        port2=port.peer_port,
                        intfName1=self._names[switch.name, port.number],
                        intfName2=self._names[port.peer, port.peer_port],
                        addr1=port.mac,
                        addr2=port.peer_mac,
                        fast=True,
                    )
        for host in self.plan.hosts:
            interface = self.get(host.name).defaultIntf()
            interface.ip, interface.prefixLen = host.ipv4, "24"


@contextmanager
def _machine_left_alone() -> Iterator[None]:
    """Keep Mininet's start-up, once a process, from changing settings of the whole machine for good.

    All that it does for a fabric is to let this process open more files; that is done here.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before, Mininet.inited = Mininet.inited, True
    try:
        yield
    finally:
        Mininet.inited = before


def _check_namespaces() -> None:
    """Try what Mininet does for every host, because Mininet itself would wait for ever where it fails."""
    try:
        tried = subprocess.run(["mnexec", "-cn", "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError(
            "the command `mnexec` is not installed (Debian and Ubuntu: apt-get install mininet)"
        ) from None
    if tried.returncode:
        raise RuntimeError(f"this machine lets no network namespace be made: mnexec: {tried.stderr.strip()}")


def _configure(host: HostPlan) -> socket.socket:
    """In the host's namespace: its interface up, addressed, silent; everything goes to the switch."""
    interface = f"{host.name}-eth0"
    for scope in ("all", "default", interface):
        ipv6_off(scope)
    offloads_off(interface)
    guard = guard_roce_port()
    via = gateway(host.ipv4)
    run_ip(
        ["-batch", "-"],
        f"link set dev lo up\n"
        f"link set dev {interface} up\n"
        f"address add {host.ipv4}/24 dev {interface} noprefixroute\n"
        f"neighbour replace {via} lladdr {host.gateway_mac} dev {interface} nud permanent\n"
        f"route add default via {via} dev {interface} onlink\n",
    )
    return guard


def _interface_name(tag: str, switch: str, port: int) -> str:
    name = f"{tag}-{switch}-eth{port}"
    if len(name) > MAX_INTERFACE_NAME:
        raise RuntimeError(
            f"port {port} of switch {switch} cannot be named: {name} exceeds Linux's 15 characters"
        )
    return name


def _namespace_id(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())
