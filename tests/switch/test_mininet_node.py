"""Mininet switches: all native ones in one process, BMv2 ones beside each other, from a script and from `mn`."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from p4programs import ROOT, compiled
from p4runtime_harness import Client, config_of, exact

mininet_net = pytest.importorskip("mininet.net")
from mininet.topo import Topo  # noqa: E402

from switch.mininet_node import NativeSwitch, RealBmv2Switch  # noqa: E402

pytestmark = pytest.mark.root
GRPC_BASE = 47050


class Line(Topo):
    """h1 - s1 - s2 - h2, with names that clash with nobody's."""

    def build(self, first=1):
        for number in (1, 2):
            self.addSwitch(f"xn{number}", dpid=f"{number + 2:x}")
            self.addHost(f"xm{number}", ip=f"10.9.0.{number}/24", mac=f"0a:00:00:00:00:0{number}")
        self.addLink("xm1", "xn1", port2=1)
        self.addLink("xm2", "xn2", port2=1)
        self.addLink("xn1", "xn2", port1=2, port2=2)


def run_line(switch_class):
    program, p4info = compiled("entities")
    made = partial(switch_class, program=str(program), p4info=str(p4info))
    net = mininet_net.Mininet(Line(), switch=made, controller=None, build=False)
    net.build()
    for number, switch in enumerate(net.switches, 1):
        switch.grpc_port = GRPC_BASE + number
    net.staticArp()
    for host in net.hosts:
        host.cmd("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
    net.start()
    return net


def forward(net, places=(0, 1)):
    """Entries for both hosts in these switches."""
    for place in places:
        switch = net.switches[place]
        client = Client(f"127.0.0.1:{switch.grpc_port}", config_of("entities").p4info)
        client.election_id = None
        client.device_id = switch.device_id
        if not switch.device().p4info.exists() or isinstance(switch, RealBmv2Switch):
            client.set_config(config_of("entities"))
        for number in (1, 2):
            port = 1 if number == place + 1 else 2
            mac = 0x0A0000000000 + number
            client.insert(
                table_entry=client.entry(
                    "forwarding", [exact(1, mac)], client.action("forward_counted", port)
                )
            )
        client.close()


def tcp_bytes(server, client):
    """How many of 300,000 bytes arrive over TCP."""
    listen = "import socket; s = socket.create_server(('', 5000)); print(1, flush=True); c, _ = s.accept()\nn = 0\n"
    count = "while d := c.recv(65536): n += len(d)\nprint(n)"
    python = [sys.executable, "-c"]
    receiving = server.popen([*python, listen + count], text=True)
    assert receiving.stdout.readline() == "1\n"
    send = f"import socket; socket.create_connection(('{server.IP()}', 5000)).sendall(bytes(300_000))"
    sending = client.popen([*python, send], text=True)
    assert sending.wait(20) == 0
    return int(receiving.communicate(timeout=20)[0])


@pytest.mark.parametrize("switch_class", [NativeSwitch, RealBmv2Switch])
def test_hosts_reach_each_other_through_two_programmed_switches(switch_class, monkeypatch):
    if switch_class is RealBmv2Switch:
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/opt/judges/bin")
        if shutil.which("simple_switch_grpc") is None:
            pytest.skip("simple_switch_grpc is not installed")
    net = run_line(switch_class)
    try:
        assert all(switch.connected() for switch in net.switches)
        assert net.ping(timeout="0.3") == 100, "nothing is forwarded before it is programmed"
        forward(net)
        assert net.ping(timeout=5) == 0
        assert tcp_bytes(*net.hosts) == 300_000, "offloads are off, so TCP comes whole and with checksums"
        if switch_class is NativeSwitch:
            net.switches[0].stop(deleteIntfs=False)
            assert net.ping(timeout="0.3") == 100, "a stopped switch forwards nothing"
            net.switches[0].start([])
            assert net.ping(timeout="0.3") == 100, "and has forgotten its entries"
            forward(net, [0])
            assert net.ping(timeout=5) == 0
    finally:
        net.stop()
    assert not any(switch.connected() for switch in net.switches)


def test_mn_starts_them_by_name():
    mn = shutil.which("mn")
    if mn is None:
        pytest.skip("mn is not installed")
    program, p4info = compiled("entities")
    done = subprocess.run(
        [
            mn,
            *(
                "--custom",
                Path(ROOT) / "switch" / "mininet_node.py",
                "--topo",
                "single,2",
                "--controller",
                "none",
            ),
            *("--switch", f"xoff,program={program},p4info={p4info},grpc_port=47099", "--test", "none"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "1 native switches in process" in done.stdout + done.stderr
