"""Fabrics in Mininet: silent until somebody speaks, exactly wired, quickly made, and gone without a trace."""

from __future__ import annotations

import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from topologies.addressing import gateway
from topologies.planning import make_plan
from topologies.runstate import RunState, clean, group_members, marked_processes, run_ip, start_time
from topologies.spec import topology_from_spec

pytestmark = pytest.mark.root
pytest.importorskip("mininet", reason="Mininet is not installed (make setup as root installs it)")

from scapy.compat import raw  # noqa: E402
from scapy.layers.inet import ICMP, IP, UDP  # noqa: E402
from scapy.layers.l2 import ARP, Ether  # noqa: E402

from topologies.mininet_build import FabricNet  # noqa: E402
from topologies.netns import FABRIC_MTU, in_namespace  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
ETH_P_ALL = 3
QUIET_S = 2.5
"""Router solicitations, duplicate address detection and MLD reports all come within two seconds of `up`."""


@contextmanager
def fabric(spec: str, folder: Path) -> Iterator[FabricNet]:
    state = RunState.create(folder=folder)
    try:
        net = FabricNet(make_plan(topology_from_spec(spec)), state)
        try:
            yield net
        finally:
            net.stop()
    finally:
        state.clear()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[FabricNet]:
    with fabric("leafspine:leaves=1,spines=0,hosts_per_leaf=2", tmp_path) as net:
        yield net


def packet_socket(interface: str | None = None) -> socket.socket:
    """A socket that sees the frames of one interface, or of all."""
    if interface is None:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # Without a protocol it hears nothing until it is bound, so no frame of another interface slips in.
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind((interface, ETH_P_ALL))
    return sock


def incoming(sock: socket.socket, seconds: float, prefix: str = "") -> Iterator[bytes]:
    """Frames that arrive on interfaces with the prefix, until nothing can come any more."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([sock], [], [], left)[0]:
            frame, (name, _, kind, *_rest) = sock.recvfrom(65535)
            if name.startswith(prefix) and kind != socket.PACKET_OUTGOING:
                yield frame


def test_an_idle_fabric_is_silent_and_a_ping_is_heard(tmp_path: Path) -> None:
    with packet_socket() as everywhere, fabric("fattree:k=4", tmp_path) as net:
        tag = net.state.tag + "-"
        assert list(incoming(everywhere, QUIET_S, tag)) == []
        net.get("h1").sendCmd("ping -c 1 -W 1 10.0.7.2")
        frame = Ether(next(incoming(everywhere, 5, tag)))
        net.get("h1").waitOutput()
        host = net.plan.host("h1")
        assert (frame.src, frame.dst) == (host.mac, host.gateway_mac)
        assert (frame[IP].src, frame[IP].dst) == (host.ipv4, "10.0.7.2")


def test_a_fabric_changes_no_setting_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mininet import net as mininet_net

    def touched() -> None:
        raise AssertionError("Mininet set limits and sysctls of the whole machine")

    monkeypatch.setattr(mininet_net, "fixLimits", touched)
    monkeypatch.setattr(mininet_net.Mininet, "inited", False)
    with fabric("leafspine:leaves=1,spines=0,hosts_per_leaf=2", tmp_path / "second"):
        pass
    with pytest.raises(AssertionError, match="Mininet set limits"):  # a Mininet of somebody else still does
        mininet_net.Mininet(build=False, controller=None)


def test_a_host_answers_ping_but_not_roce(pair: FabricNet) -> None:
    host = pair.plan.host("h1")
    base = Ether(dst=host.mac, src=host.gateway_mac) / IP(src="10.0.0.2", dst=host.ipv4)
    with packet_socket(pair.interface("l1", 1)) as port:
        port.send(raw(base / UDP(sport=50000, dport=4791) / (b"\0" * 64)))
        port.send(raw(base / ICMP(id=7, seq=1) / b"after it"))
        # Answers keep the order of the questions, so the first frame back decides.
        answer = Ether(next(incoming(port, 5)))
        assert answer[ICMP].type == 0
        assert bytes(answer[ICMP].payload) == b"after it"
        port.send(raw(base / UDP(sport=50000, dport=4790) / (b"\0" * 64)))
        unreachable = Ether(next(incoming(port, 5)))
        assert (unreachable[ICMP].type, unreachable[ICMP].code) == (3, 3)


def test_the_machine_under_a_fabric_neither_answers_nor_forwards(pair: FabricNet, tmp_path: Path) -> None:
    # An address of the root namespace, as a cloud machine may have one inside 10/8.
    name = f"{pair.state.tag}-own"
    run_ip(["link", "add", name, "group", str(pair.state.group), "type", "veth"])
    run_ip(["address", "add", "10.0.0.77/32", "dev", name])
    run_ip(["link", "set", name, "up"])
    host = pair.plan.host("h1")
    pid = pair.get("h1").pid
    with in_namespace(pid, lambda: packet_socket("h1-eth0")) as nic:
        nic.send(raw(Ether(dst="ff:ff:ff:ff:ff:ff", src=host.mac) / ARP(psrc=host.ipv4, pdst="10.0.0.77")))
        nic.send(raw(Ether(dst=host.gateway_mac, src=host.mac) / IP(src=host.ipv4, dst="10.0.0.77") / ICMP()))
        nic.send(
            raw(Ether(dst=host.gateway_mac, src=host.mac) / IP(src=host.ipv4, dst="10.0.0.2", ttl=1) / ICMP())
        )
        assert list(incoming(nic, 0.5)) == []


@pytest.mark.parametrize("spec", ["ring:n=3", "fattree:k=4"])
def test_every_link_carries_jumbo_frames_to_the_peer_the_plan_names(spec: str, tmp_path: Path) -> None:
    with fabric(spec, tmp_path) as net:
        for switch in net.plan.switches:
            for port in switch.ports:
                if port.kind == "host":
                    pid = net.get(port.peer).pid
                    name = net.interface(port.peer)
                    far = in_namespace(pid, lambda name=name: packet_socket(name))
                else:
                    far = packet_socket(net.interface(port.peer, port.peer_port))
                with far, packet_socket(net.interface(switch.name, port.number)) as near:
                    sent = raw(Ether(dst=port.peer_mac, src=port.mac, type=0x88B5)) + b"x" * FABRIC_MTU
                    near.send(sent)
                    assert next(incoming(far, 5)) == sent


def test_interfaces_have_the_planned_names_and_no_offloads(tmp_path: Path) -> None:
    with fabric("fattree:k=4", tmp_path) as one, fabric("fattree:k=4", tmp_path) as two:
        names = [
            net.interface(switch.name, port.number)
            for net in (one, two)
            for switch in net.plan.switches
            for port in switch.ports
        ]
        assert len(set(names)) == len(names) == 2 * (16 + 2 * 32)
        assert max(map(len, names)) <= 15
        assert set(group_members(one.state.group)) == set(names[:80])
        shown = subprocess.run(["ethtool", "-k", names[0]], capture_output=True, text=True, check=True).stdout
        for text in (shown, one.get("h1").cmd("ethtool -k h1-eth0")):
            features = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            for feature in ("rx-checksumming", "tx-checksumming", "scatter-gather"):
                assert features[feature] == "off"
            for feature in ("generic-segmentation-offload", "generic-receive-offload"):
                assert features[feature] == "off"


def test_mininet_knows_the_fabric_it_did_not_build(pair: FabricNet) -> None:
    host = pair.get("h2")
    assert (host.IP(), host.MAC(), host.defaultIntf().name) == (
        "10.0.0.2",
        pair.plan.host("h2").mac,
        "h2-eth0",
    )
    assert pair.linksBetween(host, pair.get("l1"))
    assert gateway(host.IP()) in host.cmd("ip route")
    assert host.cmd("cat /proc/sys/net/ipv6/conf/h2-eth0/disable_ipv6").strip() in ("1", "")


def test_sixteen_hosts_and_forty_eight_links_take_seconds(tmp_path: Path) -> None:
    begun = time.monotonic()
    with fabric("fattree:k=4", tmp_path):
        built = time.monotonic() - begun
    assert built < 5
    assert time.monotonic() - begun - built < 5


def test_stop_leaves_neither_interface_nor_process_nor_file(tmp_path: Path) -> None:
    with fabric("ring:n=3", tmp_path) as net:
        state = net.state
        net.get("h1").cmd("sleep 1000 &")
        stubborn = net.get("h2").popen(
            ["sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 1000; done"]
        )
        assert stubborn.stdout.readline() == b"up\n"
        assert len(marked_processes(state.run)) >= 6 + 2
        assert len(group_members(state.group)) == 9
    assert stubborn.wait(5) == -signal.SIGKILL
    assert group_members(state.group) == []
    assert marked_processes(state.run) == set()
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys
from pathlib import Path
from topologies.mininet_build import FabricNet
from topologies.planning import make_plan
from topologies.runstate import RunState
from topologies.spec import topology_from_spec
state = RunState.create(sys.argv[1], Path(sys.argv[2]))
try:
    net = FabricNet(make_plan(topology_from_spec("ring:n=3")), state)
    try:
        net.get("h1").cmd("sleep 1000 &")
        print("up", flush=True)
        sys.stdin.read()
    finally:
        net.stop()
finally:
    state.clear()
"""


def hold(run: str, folder: Path) -> subprocess.Popen[str]:
    """A process that keeps a ring of three up until its standard input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, run, str(folder)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_clean_removes_what_a_killed_run_left_and_nothing_else(tmp_path: Path) -> None:
    killed, living = hold("killed", tmp_path), hold("living", tmp_path)
    try:
        dead, alive = (RunState.read(tmp_path / f"{name}.json") for name in ("killed", "living"))
        killed.kill()
        killed.wait()
        assert group_members(dead.group)
        done = clean(tmp_path)
        assert any("killed: removed" in sentence for sentence in done)
        assert any("living: still running" in sentence for sentence in done)
        assert group_members(dead.group) == []
        assert marked_processes("killed") == set()
        assert len(group_members(alive.group)) == 9
        assert not dead.path.exists()
    finally:
        killed.communicate()
        living.communicate()
    assert living.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    process = hold("interrupted", tmp_path)
    state = RunState.read(tmp_path / "interrupted.json")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert group_members(state.group) == []
    assert marked_processes("interrupted") == set()
    assert list(tmp_path.iterdir()) == []


def test_a_fabric_that_fails_half_way_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: object) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr("topologies.mininet_build._configure", refuse)
    state = RunState.create(folder=tmp_path)
    with pytest.raises(RuntimeError, match="no more"):
        FabricNet(make_plan(topology_from_spec("ring")), state)
    assert group_members(state.group) == []
    assert marked_processes(state.run) == set()
    state.clear()


@pytest.mark.judge
def test_mn_builds_any_fabric_from_the_custom_file() -> None:
    if shutil.which("mn") is None or shutil.which("brctl") is None:
        pytest.skip("mn and brctl (Debian package bridge-utils) are needed")
    shape = "xoff,leafspine,leaves=1,spines=0,hosts_per_leaf=2"
    script = "h1 ip -br address show h1-eth0\nh1 ethtool -k h1-eth0\nnet\nexit\n"
    done = subprocess.run(
        [
            "mn",
            "--custom",
            "topologies/mininet_topo.py",
            "--topo",
            shape,
            "--switch",
            "lxbr",
            "--controller",
            "none",
        ],
        input=script,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=120,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "10.0.0.1/24" in told
    assert "tx-checksumming: off" in told
    assert "h2-eth0:l1-eth2" in told


def test_a_process_number_used_again_is_not_taken_for_the_run(tmp_path: Path) -> None:
    state = RunState.create(folder=tmp_path)
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        begun = start_time(bystander.pid)
        assert begun is not None
        state.processes.append((bystander.pid, begun - 1))
        state.record()
        state.clear()
        assert bystander.poll() is None
        bystander.kill()
