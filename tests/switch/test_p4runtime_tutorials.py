"""The p4lang tutorials' solutions, compiled here, programmed by the tutorials' own controller from their own files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from p4programs import ROOT
from p4runtime_harness import Client
from test_daemon import Process

from switch.device import DeviceSpec, PortSpec
from switch.device_file import write_devices

TUTORIALS = Path("/opt/judges/tutorials")
SHELL_PYTHON = ROOT / ".venv-shell" / "bin" / "python"

pytestmark = [
    pytest.mark.judge,
    pytest.mark.skipif(not TUTORIALS.exists(), reason=f"the tutorials are not in {TUTORIALS}"),
    pytest.mark.skipif(not SHELL_PYTHON.exists(), reason="p4runtime-shell is not installed in .venv-shell"),
]

# exercise, folder of its runtime files
EXERCISES = [
    ("basic", "pod-topo"),
    ("basic", "triangle-topo"),
    ("basic_tunnel", "."),
    ("calc", "."),
    ("ecn", "."),
    ("firewall", "pod-topo"),
    ("link_monitor", "pod-topo"),
    ("load_balance", "."),
    ("mri", "."),
    ("multicast", "sig-topo"),
    ("qos", "."),
    ("source_routing", "."),
]


def build(exercise, folder, target):
    """Copy the runtime files and compile what they name; returns them in order of switches."""
    source = TUTORIALS / "exercises" / exercise
    shutil.copytree(source / folder, target / folder, dirs_exist_ok=True)
    files = sorted((target / folder).glob("s*-runtime.json"))
    for path in files:
        runtime = json.loads(path.read_text())
        program = target / runtime["bmv2_json"]
        if not program.exists():
            program.parent.mkdir(exist_ok=True)
            name = program.stem
            solution = source / "solution" / f"{name}.p4"
            done = subprocess.run(
                [
                    *(
                        sys.executable,
                        "-m",
                        "compiler",
                        solution if solution.exists() else source / f"{name}.p4",
                    ),
                    *("-o", program, "--p4runtime-files", target / runtime["p4info"]),
                ],
                capture_output=True,
                text=True,
                cwd=ROOT,
            )
            assert done.returncode == 0, done.stderr
        # The library looks for programs beside the runtime file; the exercises' Makefile runs it a level up.
        for key in ("p4info", "bmv2_json"):
            runtime[key] = str(target / runtime[key])
        path.write_text(json.dumps(runtime))
    return files


def expected_entries(runtime):
    """How many entries the file adds to each table."""
    counts = {}
    for entry in runtime["table_entries"]:
        if not entry.get("default_action"):
            counts[entry["table"]] = counts.get(entry["table"], 0) + 1
    return counts


@pytest.mark.parametrize(("exercise", "folder"), EXERCISES, ids=lambda value: value)
def test_a_solution_takes_its_runtime_files_and_holds_what_they_say(exercise, folder, tmp_path):
    files = build(exercise, folder, tmp_path)
    assert files
    devices = [
        DeviceSpec(
            name=path.name.split("-")[0],
            device_id=number,
            ports=tuple(PortSpec(port, None, 0) for port in range(1, 6)),
            program_json=Path(),
            p4info=Path(),
            grpc_address="127.0.0.1:0",
        )
        for number, path in enumerate(files, 1)
    ]
    write_devices(tmp_path / "devices.json", devices)
    process = Process("--devices", tmp_path / "devices.json", "--stdin-lifeline")
    try:
        addresses = process.ready()
        words = [
            f"{addresses[device.name]}={device.device_id}={path}"
            for device, path in zip(devices, files, strict=True)
        ]
        done = subprocess.run(
            [
                *(SHELL_PYTHON, Path(__file__).with_name("tutorial_session.py")),
                *(TUTORIALS / "utils", tmp_path / "dump.txt", *words),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        for device, path in zip(devices, files, strict=True):
            check(addresses[device.name], device.device_id, json.loads(path.read_text()))
    finally:
        process.close()


def check(address, device_id, runtime):
    """The switch holds the entries, groups and sessions of the file."""
    info = p4i.P4Info()
    text_format.Parse(Path(runtime["p4info"]).read_text(), info)
    client = Client(address, info)
    client.device_id = device_id
    names = {table.preamble.id: table.preamble.name for table in info.tables}
    counts = {}
    for entry in client.read(table_entry=p4r.TableEntry()):
        if not entry.is_const:
            counts[names[entry.table_id]] = counts.get(names[entry.table_id], 0) + 1
    assert counts == expected_entries(runtime)
    for entry in runtime["table_entries"]:
        if entry.get("default_action"):
            (default,) = client.read(table_entry=client.entry(entry["table"], is_default_action=True))
            assert default.action.action.action_id == client.id(entry["action_name"])
    query = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
    groups = client.read(packet_replication_engine_entry=query)
    wanted = [group["multicast_group_id"] for group in runtime.get("multicast_group_entries", [])]
    assert [group.multicast_group_entry.multicast_group_id for group in groups] == wanted
    client.close()


@pytest.mark.root
def test_the_basic_solution_lets_all_hosts_of_its_pod_ping_each_other(tmp_path):
    mininet_net = pytest.importorskip("mininet.net")
    from mininet.topo import Topo

    from switch.mininet_node import NativeSwitch

    files = build("basic", "pod-topo", tmp_path)
    topology = json.loads((TUTORIALS / "exercises" / "basic" / "pod-topo" / "topology.json").read_text())

    def node(end):
        """(name, port or None) of `s1-p3` or `h1`, under names that no other test uses."""
        name, _, port = end.partition("-p")
        return f"xt{name}", int(port) if port else None

    topo = Topo()
    for name in topology["switches"]:
        topo.addSwitch(f"xt{name}", dpid=name[1:], grpc_port=48050 + int(name[1:]))
    for name, host in topology["hosts"].items():
        topo.addHost(f"xt{name}", ip=host["ip"], mac=host["mac"])
    for one, other, *_ in topology["links"]:
        (left, left_port), (right, right_port) = node(one), node(other)
        topo.addLink(left, right, port1=left_port, port2=right_port)
    net = mininet_net.Mininet(topo, switch=NativeSwitch, controller=None)
    try:
        for name, host in topology["hosts"].items():
            made = net.get(f"xt{name}")
            made.cmd("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
            for command in host["commands"]:
                assert made.cmd(command.replace("eth0", f"xt{name}-eth0")).strip() == ""
        net.start()
        words = [f"127.0.0.1:{48050 + n}={n}={path}" for n, path in enumerate(files, 1)]
        done = subprocess.run(
            [
                *(SHELL_PYTHON, Path(__file__).with_name("tutorial_session.py")),
                *(TUTORIALS / "utils", tmp_path / "dump.txt", *words),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert net.pingAll(timeout="5") == 0
    finally:
        net.stop()
