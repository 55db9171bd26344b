"""A fault in the machine code of one switch ends that switch; its neighbours keep their tables and carry frames."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from crashing_switch import FAULTS, marked
from finsy.proto import p4r
from p4programs import compiled
from p4runtime_harness import Client, config_of, exact
from test_daemon import ROOT, TIMEOUT, Process

from switch.control_client import ControlClient
from switch.device import DeviceSpec, PortSpec
from switch.device_file import write_devices
from switch.native.compilers import sanitized

pytestmark = pytest.mark.skipif(
    sanitized(), reason="a sanitizer ends the process at the first fault, on purpose"
)

MAC = 0x0A0000000001


class CrashingProcess(Process):
    """s1, s2 and s3 in one process; port 2 of s1 is joined to port 1 of s2 and port 3 to port 1 of s3."""

    def __init__(self, folder: Path) -> None:
        original, p4info = compiled("entities")
        json_path = folder / "crashing.json"
        json_path.write_text(marked(original.read_text()))
        peers = {"s1": {2: "s2:1", 3: "s3:1"}, "s2": {1: "s1:2"}, "s3": {1: "s1:3"}}
        devices = [
            DeviceSpec(
                name,
                number,
                tuple(PortSpec(port, None, 0, 0, links.get(port)) for port in (1, 2, 3, 4)),
                json_path,
                p4info,
                "127.0.0.1:0",
            )
            for number, (name, links) in enumerate(peers.items(), start=1)
        ]
        write_devices(folder / "devices.json", devices)
        self._said = b""
        self.records = folder / "switch.jsonl"
        self.child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("crashing_switch.py")),
             "--devices", str(folder / "devices.json"), "--records", str(self.records), "--links", "memory"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.addresses = self.ready()
        self.clients = {name: self.connect(name) for name in peers}

    def connect(self, name: str) -> Client:
        client = Client(self.addresses[name], config_of("entities").p4info)
        client.election_id = None
        client.device_id = int(name[1:])
        return client

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        super().close()


@pytest.fixture
def process(tmp_path):
    process = CrashingProcess(tmp_path)
    yield process
    process.close()


def packet_out(client, stream, port, frame):
    """A frame that the switch sends out of a port; to port 0, one that is its own from the CPU port."""
    egress = p4r.PacketMetadata(metadata_id=1, value=bytes([port]))
    padding = p4r.PacketMetadata(metadata_id=2, value=b"\0")
    stream.send(packet=p4r.PacketOut(payload=frame, metadata=[egress, padding]))


def carried(process, name, port):
    """Frames that a port has received."""
    with ControlClient(process.addresses[name]) as control:
        return control.call("GetPorts", port=port)["ports"][0]["rx_packets"]


def through(process, stream, port, name):
    """Send a frame out of a port of s1 and wait until its neighbour has it."""
    before = carried(process, name, 1)
    packet_out(process.clients["s1"], stream, port, MAC.to_bytes(6, "big") + bytes(60))
    deadline = time.monotonic() + TIMEOUT
    while carried(process, name, 1) == before:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("signal", FAULTS)
def test_a_fault_ends_one_switch_and_says_which_and_why(process, signal):
    for client in process.clients.values():
        client.insert(
            table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 4))
        )
    mac = FAULTS[signal][0].to_bytes(6, "big")
    with process.clients["s1"].stream(1) as s1, process.clients["s2"].stream(1) as s2:
        through(process, s1, 2, "s2")
        packet_out(process.clients["s1"], s1, 2, mac + bytes(60))  # crashes s2, in the packet thread
        event = process.event()
        assert (event["event"], event["switch"]) == ("crashed", "s2")
        assert signal in event["message"] and "restart s2" in event["message"]
        with pytest.raises((AssertionError, grpc.RpcError, StopIteration)):
            s2.receive("packet")
        # The neighbours have their tables, links, streams and counters.
        for name in ("s1", "s3"):
            assert len(process.clients[name].read(table_entry=p4r.TableEntry())) >= 1
        through(process, s1, 3, "s3")
        packet_out(process.clients["s1"], s1, 2, MAC.to_bytes(6, "big") + bytes(60))  # nobody is there
        with ControlClient(process.addresses["s1"]) as control:
            deadline = time.monotonic() + TIMEOUT
            while not control.call("GetDrops")["drops"].get("no_interface"):
                assert time.monotonic() < deadline
        # It comes back at its address, with the program and tables that it began with.
        assert process.command("restart s2")["ok"]
        through(process, s1, 2, "s2")
        assert (
            process.connect("s2").read(
                table_entry=p4r.TableEntry(table_id=process.clients["s2"].id("forwarding"))
            )
            == []
        )
    assert process.command("stop")["ok"]
    assert process.child.wait(TIMEOUT) == 0
    notes = [
        r["text"] for r in map(json.loads, process.records.read_text().splitlines()) if r["kind"] == "note"
    ]
    assert notes == [event["message"]]
    assert event["message"] in process.child.stderr.read()


def test_a_packet_out_that_crashes_its_switch_ends_it_alone(process):
    mac = FAULTS["SIGSEGV"][0].to_bytes(6, "big")
    # The packet-out header is in front of what ingress sees: 9 bits of port, 7 of padding.
    payload = mac[2:] + bytes(60)
    with process.clients["s3"].stream(1) as stream:
        assert mac[:2] == b"\x02\x00"
        packet_out(process.clients["s3"], stream, 4, payload)
        event = process.event()
    assert (event["event"], event["switch"]) == ("crashed", "s3")
    with process.clients["s1"].stream(1) as stream:
        through(process, stream, 2, "s2")


def test_switches_may_crash_again_and_again(process):
    mac = FAULTS["SIGSEGV"][0].to_bytes(6, "big")
    with process.clients["s1"].stream(1) as stream:
        for _ in range(5):
            packet_out(process.clients["s1"], stream, 2, mac + bytes(60))
            assert process.event()["switch"] == "s2"
            assert process.command("restart s2")["ok"]
        through(process, stream, 2, "s2")


def test_a_fault_outside_of_the_packet_path_ends_the_process():
    code = (
        "import ctypes\n"
        "from switch.native.packetloop import PacketLoop\n"
        "loop = PacketLoop()\n"
        "loop.start()\n"
        "ctypes.string_at(8)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=TIMEOUT)
    assert done.returncode == -11
