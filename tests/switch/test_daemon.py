"""The switch process: how it starts, what it prints, what it obeys, how it ends."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from finsy.proto import p4r
from p4programs import compiled
from p4runtime_harness import Client, config_of, exact, lpm
from scapy.utils import rdpcap
from veths import veth_pairs

from switch.control_client import ControlClient
from switch.device import DeviceSpec, PortSpec, QueueSpec
from switch.device_file import write_devices
from switch.native.options import OptionsError, parse_options

ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0


class Process:
    """A `python -m switch.native` and what it says."""

    def __init__(self, *arguments, environment=None, stdin=subprocess.PIPE):
        self._said = b""
        self.child = subprocess.Popen(
            [sys.executable, "-m", "switch.native", *map(str, arguments)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )

    def event(self):
        # Several lines may come at once; select sees only what Python has not read ahead.
        while b"\n" not in self._said:
            assert select.select([self.child.stdout], [], [], TIMEOUT)[0], "it said nothing"
            data = os.read(self.child.stdout.fileno(), 65536)
            assert data, self.child.stderr.read()
            self._said += data
        line, _, self._said = self._said.partition(b"\n")
        return json.loads(line)

    def ready(self):
        event = self.event()
        assert event["event"] == "ready", event
        return event["devices"]

    def command(self, line):
        print(line, file=self.child.stdin, flush=True)
        return self.event()

    def end(self):
        """Close stdin; exit code."""
        self.child.stdin.close()
        return self.child.wait(TIMEOUT)

    def close(self):
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def start():
    processes = []

    def start(*arguments, **options):
        processes.append(Process(*arguments, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.close()


def device(name, number, program="entities", **changes):
    json_path, p4info = compiled(program) if program else (Path(), Path())
    values = {
        "name": name,
        "device_id": number,
        "ports": tuple(PortSpec(port, None, 0) for port in (1, 2, 3, 4)),
        "program_json": json_path,
        "p4info": p4info,
        "grpc_address": "127.0.0.1:0",
    }
    return DeviceSpec(**{**values, **changes})


@pytest.fixture
def devices_file(tmp_path):
    def write(*devices):
        write_devices(tmp_path / "devices.json", devices)
        return tmp_path / "devices.json"

    return write


def connect(address):
    client = Client(address, config_of("entities").p4info)
    client.election_id = None
    return client


def pid_ended(process, seconds=TIMEOUT):
    return process.child.wait(seconds)


def test_it_says_where_each_switch_listens_and_ends_when_its_stdin_closes(start, devices_file):
    process = start("--devices", devices_file(device("s1", 3), device("s2", 4)), "--stdin-lifeline")
    addresses = process.ready()
    assert set(addresses) == {"s1", "s2"}
    for address in addresses.values():
        host, port = address.split(":")
        socket.create_connection((host, int(port)), 5).close()
    assert process.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_the_records_are_whole(start, devices_file, tmp_path, number):
    records = tmp_path / "records" / "switch.jsonl"
    epoch = time.monotonic_ns()
    process = start(
        "--devices", devices_file(device("s1", 3)), "--records", records, "--epoch", epoch, "--sample-ms", 10
    )
    address = process.ready()["s1"]
    client = connect(address)
    client.modify(
        table_entry=client.entry("acl", action=client.action("mark", 200, 1), is_default_action=True)
    )
    client.election_id = 1
    with client.stream() as stream:
        # Out to a port that no switch has: a drop, which must be in the records when the process has ended.
        stream.send(
            packet=p4r.PacketOut(
                payload=bytes(12) + b"\x90\x00", metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\x63")]
            )
        )
        stream.send(packet=p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=9, value=b"\1")]))
        stream.receive("error")  # in order: the first was taken before the second was refused
    client.close()
    process.child.send_signal(number)
    assert pid_ended(process) == 0
    lines = records.read_text().splitlines()
    drops = [record for record in map(json.loads, lines) if record["kind"] == "drop"]
    assert [(d["node"], d["port"], d["reason"], d["packets"]) for d in drops] == [("s1", -1, "no_port", 1)]
    assert all(0 < json.loads(line)["t"] < time.monotonic_ns() - epoch for line in lines)


def test_without_the_lifeline_a_closed_stdin_changes_nothing(start, devices_file):
    process = start("--devices", devices_file(device("s1", 3)), stdin=subprocess.DEVNULL)
    address = process.ready()["s1"]
    client = connect(address)
    assert client.get_config().p4info == client.info
    client.close()
    assert process.child.poll() is None


def test_a_killed_switch_forgets_everything_and_comes_back_at_its_address(start, devices_file):
    process = start("--devices", devices_file(device("s1", 3), device("s2", 4)), "--stdin-lifeline")
    address = process.ready()["s1"]
    client = connect(address)
    client.insert(table_entry=client.entry("forwarding", [exact(1, 1)], client.action("drop")))
    assert process.command("kill s1") == {"event": "command", "command": "kill s1", "ok": True}
    host, port = address.split(":")
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), 1)
    assert process.command("restart s1")["ok"]
    client.close()
    client = connect(address)
    assert client.read(table_entry=client.entry("forwarding")) == []
    client.insert(table_entry=client.entry("forwarding", [exact(1, 1)], client.action("drop")))
    client.close()
    assert process.command("rate s1 2 1000000")["ok"]
    assert process.command("down s1 2")["ok"]
    assert process.command("up s1 2")["ok"]
    assert process.command("sample")["ok"]
    assert process.end() == 0


def test_a_switch_may_be_killed_while_it_compiles_a_program(start, devices_file):
    process = start("--devices", devices_file(device("s1", 3, program=None)), "--stdin-lifeline")
    address = process.ready()["s1"]
    for number in range(4):
        config = config_of("entities")
        document = json.loads(config.p4_device_config)
        document["program"] = f"never compiled before {time.time_ns()}"
        config.p4_device_config = json.dumps(document).encode()
        client = connect(address)
        request = p4r.SetForwardingPipelineConfigRequest(device_id=3, action=3, config=config)
        call = client.stub.SetForwardingPipelineConfig.future(request, wait_for_ready=True)
        moment = time.monotonic() + 0.02 * number  # at the call, and ever later in it
        _until(lambda call=call, moment=moment: call.done() or time.monotonic() >= moment)
        assert process.command("kill s1")["ok"]
        assert process.command("restart s1")["ok"]
        call.cancel()
        client.close()
    client = connect(address)
    client.set_config(config_of("entities"))
    client.close()
    assert process.end() == 0


def test_a_wrong_command_is_answered_with_a_sentence(start, devices_file):
    process = start("--devices", devices_file(device("s1", 3)), "--stdin-lifeline")
    process.ready()
    for line, says in (
        ("kill s9", "there is no switch 's9'; there are s1"),
        ("down s1 77", "switch s1 has no port 77"),
        ("rate s1 1 fast", "is not a command; commands are kill NAME"),
        ("kill", "is not a command"),
    ):
        answer = process.command(line)
        assert not answer["ok"], line
        assert says in answer["message"]
    assert process.command("stop")["ok"]
    assert pid_ended(process) == 0


def refused(start, *arguments, **options):
    """The sentence with which it refuses to start."""
    process = start(*arguments, **options)
    event = process.event()
    assert event["event"] == "error", event
    assert pid_ended(process) == 1
    complaint = process.child.stderr.read()
    assert "Traceback" not in complaint
    assert event["message"] in complaint
    return event["message"]


def test_what_keeps_it_from_starting_is_told_in_a_sentence(start, devices_file, tmp_path):
    json_path, _ = compiled("entities")
    assert "devices.json cannot be read: No such file" in refused(
        start, "--devices", tmp_path / "devices.json"
    )
    missing = device("s1", 3, ports=(PortSpec(1, "nope0", 0),))
    assert refused(start, "--devices", devices_file(missing)) == (
        "switch s1, port 1: interface nope0 does not exist"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        message = refused(start, "--devices", devices_file(device("s1", 3, grpc_address=address)))
    assert message == f"switch s1: gRPC address {address} is in use or not local to this machine"
    broken = tmp_path / "broken.json"
    broken.write_text('{"program": ')
    assert "broken.json" in refused(start, "--devices", devices_file(device("s1", 3, program_json=broken)))
    absent = tmp_path / "absent.json"
    assert "absent.json cannot be read" in refused(start, absent, "--device-id", 1)
    no_info = device("s1", 3, p4info=json_path)
    assert "is not P4Info text" in refused(start, "--devices", devices_file(no_info))
    assert "cannot be written" in refused(
        start, "--devices", devices_file(device("s1", 3)), "--records", tmp_path / "devices.json" / "records"
    )
    assert "is not HOST:PORT" in refused(start, json_path, "--", "--grpc-server-addr", "here")


def test_a_missing_compiler_is_told_in_a_sentence(start, devices_file, tmp_path):
    message = refused(
        start,
        "--devices",
        devices_file(device("s1", 3)),
        environment={"XOFF_CC": "no-such-compiler", "XOFF_CACHE": str(tmp_path / "cache")},
    )
    assert "no-such-compiler" in message


def test_simple_switch_grpcs_own_command_line_starts_it(start):
    json_path, _ = compiled("entities")
    process = start(
        *(
            "--device-id",
            3,
            "--no-p4",
            "--thrift-port",
            9090,
            "--log-console",
            "--cpu-port",
            510,
            "--name",
            "s1",
        ),
        *("--", "--grpc-server-addr", "127.0.0.1:0", "--priority-queues", 8, "--drop-port", 511),
    )
    client = connect(process.ready()["s1"])
    client.set_config(config_of("entities"))
    client.insert(table_entry=client.entry("forwarding", [exact(1, 1)], client.action("drop")))
    client.close()
    process.child.terminate()
    assert pid_ended(process) == 0
    assert "--thrift-port is ignored" in process.child.stderr.read()
    started = start(json_path, "--device-id", 3, "--", "--grpc-server-addr", "127.0.0.1:0")
    client = connect(started.ready()["device-3"])
    assert client.get_config() == p4r.ForwardingPipelineConfig(), "as BMv2: JSON alone is no pipeline"
    client.close()


@pytest.mark.parametrize(("options", "packets"), [((), 16_384), (("--bmv2-compat",), 64)])
def test_with_bmv2_compat_a_queue_holds_what_simple_switchs_does(start, options, packets):
    process = start("--device-id", 1, "--no-p4", *options, "--", "--grpc-server-addr", "127.0.0.1:0")
    with ControlClient(process.ready()["device-1"]) as client:
        queues = client.call("GetQueues", port=510)["queues"]
    assert {queue["limit_packets"] for queue in queues} == {packets}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "a BMv2 JSON file is needed"),
        ("prog.json -i s1-eth1", "an interface is given as PORT@NAME"),
        ("prog.json -i 510@s1-eth1", "port 510 is the CPU port"),
        ("prog.json -i 511@s1-eth1", "port 511 is the drop port"),
        ("prog.json -i 1@a -i 1@b", "given to two interfaces"),
        ("prog.json --priority-queues 9", "must be 1..8"),
        ("prog.json --packet-in x", "has no --packet-in"),
        ("prog.json --pcap=/no/such/folder", "there is no directory /no/such/folder"),
        ("prog.json -- --grpc-server-ssl", "needs --grpc-server-cert"),
        ("prog.json --device-id one", "invalid int value"),
        ("prog.json --colour", "unrecognized arguments: --colour"),
        ("prog.json --devices d.json", "takes no program"),
        ("--devices d.json --sample-ms 0", "--sample-ms must be above 0"),
        ("--devices d.json --threads 0", "--threads must be 1..64"),
    ],
)
def test_a_wrong_option_is_told_in_a_sentence(arguments, says):
    with pytest.raises(OptionsError, match=says) as wrong:
        parse_options(arguments.split())
    assert "\n" not in str(wrong.value)


def test_twenty_switches_cost_one_start_up(start, devices_file):
    one = start("--devices", devices_file(device("s1", 1)), "--stdin-lifeline")
    one.ready()
    single = _memory_kib(one), _threads(one)
    begin = time.monotonic()
    many = start("--devices", devices_file(*[device(f"s{n}", n) for n in range(1, 21)]), "--stdin-lifeline")
    assert len(many.ready()) == 20
    took = time.monotonic() - begin
    memory = (_memory_kib(many) - single[0]) / 19
    print(f"20 switches in {took:.2f} s; {memory:.0f} KiB and {_threads(many) - single[1]} threads more")
    assert _threads(many) <= single[1] + 2, "they share threads"
    assert memory < 8 * 1024
    assert one.end() == many.end() == 0


def _memory_kib(process):
    lines = Path(f"/proc/{process.child.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _threads(process):
    return len(list(Path(f"/proc/{process.child.pid}/task").iterdir()))


# ---- with interfaces ----
MAC = 0x0A0000000001


@pytest.fixture(scope="module")
def made_pairs():
    with veth_pairs("daemon", 3) as pairs:
        yield pairs


@pytest.fixture
def pairs(made_pairs):
    made_pairs.listen()
    return made_pairs


def frame(size):
    return MAC.to_bytes(6, "big") + bytes.fromhex("020000000009") + b"\x90\x00" + bytes(size - 14)


def attached(pairs, rate=0, **changes):
    """Switch s1 on the pairs; port 2 has a rate."""
    ports = tuple(PortSpec(n, pairs.switch(n), rate if n == 2 else 0) for n in (1, 2, 3))
    return device("s1", 3, ports=ports, **changes)


def records_of(path, kind):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in found if record["kind"] == kind]


@pytest.mark.root
def test_frames_are_forwarded_and_queues_ports_and_drops_recorded(start, devices_file, pairs, tmp_path):
    records = tmp_path / "switch.jsonl"
    spec = attached(pairs, rate=200_000, queue=QueueSpec(limit_bytes=20_000, limit_packets=1000))
    process = start(
        *("--devices", devices_file(spec), "--stdin-lifeline", "--records", records, "--sample-ms", 20)
    )
    client = connect(process.ready()["s1"])
    client.insert(
        table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 2))
    )
    for _ in range(60):
        pairs.host(1).send(frame(1000))
    # 20,000 bytes are queued, behind one on the wire unless all came in one batch; the others find the queue full.
    passed = len(pairs.receive_all(2, 60, timeout=2))
    assert 20 <= passed <= 25
    assert process.end() == 0
    client.close()
    queues = [(r["port"], r["class"]) for r in records_of(records, "queue")]
    assert set(queues) == {(2, 0)}
    depth = [r["bytes"] for r in records_of(records, "queue")]
    assert 18_000 <= max(depth) <= 20_000
    assert depth[-1] == 0, "the last sample says that it has become empty"
    falling = depth[depth.index(max(depth)) :]
    assert falling == sorted(falling, reverse=True)
    last = {r["port"]: r for r in records_of(records, "port")}
    assert (last[1]["rx_packets"], last[1]["rx_bytes"]) == (60, 60_000)
    assert (last[2]["tx_packets"], last[2]["tx_bytes"]) == (passed, passed * 1000)
    drop = records_of(records, "drop")[-1]
    assert (drop["port"], drop["class"], drop["reason"]) == (2, 0, "queue_bytes")
    assert (drop["packets"], drop["bytes"]) == (60 - passed, (60 - passed) * 1000)


@pytest.mark.root
def test_frames_for_a_controller_that_is_not_there_are_recorded_as_drops(
    start, devices_file, pairs, tmp_path
):
    records = tmp_path / "switch.jsonl"
    process = start("--devices", devices_file(attached(pairs)), "--stdin-lifeline", "--records", records)
    process.ready()
    for _ in range(3):
        pairs.host(1).send(bytes(12) + b"\x10\x05punted")
    _until(lambda: process.command("sample")["ok"] and records_of(records, "drop"))
    assert process.end() == 0
    drop = records_of(records, "drop")[-1]
    assert (drop["port"], drop["reason"], drop["packets"]) == (510, "packet_in", 3)


@pytest.mark.root
def test_switches_share_several_packet_threads(start, devices_file, pairs):
    others = device("s2", 4, ports=(PortSpec(3, pairs.switch(3), 0),))
    here = device("s1", 3, ports=(PortSpec(1, pairs.switch(1), 0), PortSpec(2, pairs.switch(2), 0)))
    process = start("--devices", devices_file(here, others), "--stdin-lifeline", "--threads", 2)
    addresses = process.ready()
    for name, number, port in (("s1", 3, 2), ("s2", 4, 3)):
        client = connect(addresses[name])
        client.device_id = number
        action = client.action("forward_counted", port)
        client.insert(table_entry=client.entry("forwarding", [exact(1, MAC)], action))
        client.close()
    threads = Path(f"/proc/{process.child.pid}/task").glob("*/comm")
    assert [path.read_text() for path in threads].count("xoff-packets\n") == 2
    for came, left in ((1, 2), (3, 3)):
        pairs.host(came).send(frame(90))
        assert pairs.receive(left) == frame(90)


@pytest.mark.root
def test_rate_and_state_of_a_port_change_while_it_runs(start, devices_file, pairs):
    process = start("--devices", devices_file(attached(pairs)), "--stdin-lifeline")
    client = connect(process.ready()["s1"])
    client.insert(
        table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 2))
    )
    pairs.host(1).send(frame(100))
    assert pairs.receive(2) == frame(100)
    assert process.command("rate s1 2 1000000")["ok"]
    begin = time.monotonic()
    for _ in range(10):
        pairs.host(1).send(frame(1226))  # 1250 bytes on the wire: 10 ms each
    assert len(pairs.receive_all(2, 10)) == 10
    assert 0.1 <= time.monotonic() - begin < 1
    assert process.command("rate s1 2 0")["ok"]
    assert process.command("down s1 2")["ok"]
    pairs.host(1).send(frame(100))
    assert pairs.receive(2, 0.2) is None
    assert process.command("up s1 2")["ok"]
    pairs.host(1).send(frame(101))
    assert pairs.receive(2) == frame(101)
    client.close()


@pytest.mark.root
def test_a_group_leaves_a_member_whose_cable_is_pulled(start, devices_file, pairs):
    process = start("--devices", devices_file(attached(pairs)), "--stdin-lifeline")
    client = connect(process.ready()["s1"])
    next_hops = client.id("next_hops")
    group = p4r.ActionProfileGroup(action_profile_id=next_hops, group_id=1)
    for port in (2, 3):
        member = p4r.ActionProfileMember(
            action_profile_id=next_hops, member_id=port, action=client.action("mark", port, port)
        )
        client.insert(action_profile_member=member)
        group.members.add(member_id=port, weight=1, watch_port=bytes([port]))
    client.insert(action_profile_group=group)
    route = p4r.TableAction(action_profile_group_id=1)
    client.insert(table_entry=client.entry("routes", [lpm(1, 10 << 24, 8)], route))

    def flows():
        """By which ports 64 flows leave."""
        pairs.listen()
        for number in range(64):
            fields = bytes([10, 0, 0, 1, 0, number, 0, 0])
            pairs.host(1).send(bytes(12) + b"\x10\x00" + fields + bytes(40))
        left = {2: 0, 3: 0}
        deadline = time.monotonic() + 5
        while sum(left.values()) < 64 and time.monotonic() < deadline:
            for port in left:
                left[port] += len(pairs.receive_all(port, 64, timeout=0.05))
        return left

    both = flows()
    assert both[2] and both[3]
    assert sum(both.values()) == 64
    pairs.link("h3", "down")  # the far end: the switch's end loses its carrier
    _until(lambda: flows() == {2: 64, 3: 0})
    pairs.link("h3", "up")
    _until(lambda: flows() == both)
    client.close()


@pytest.mark.root
def test_captures_are_written_as_bmv2_writes_them(start, pairs, tmp_path):
    json_path, p4info = compiled("entities")
    process = start(
        *("-i", f"1@{pairs.switch(1)}", "-i", f"2@{pairs.switch(2)}", "--device-id", 3, f"--pcap={tmp_path}"),
        *("--stdin-lifeline", "--p4info", p4info, json_path, "--", "--grpc-server-addr", "127.0.0.1:0"),
    )
    client = connect(process.ready()["device-3"])
    client.insert(
        table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 2))
    )
    tagged = frame(80)[:12] + bytes.fromhex("81000064") + frame(80)[12:]
    for one in (frame(70), tagged):
        pairs.host(1).send(one)
    assert len(pairs.receive_all(2, 2)) == 2
    client.close()
    assert process.end() == 0
    captured = {
        path.name: [bytes(packet) for packet in rdpcap(str(path))] for path in tmp_path.glob("*.pcap")
    }
    assert captured == {
        "s1_in.pcap": [frame(70), tagged],
        "s1_out.pcap": [],
        "s2_in.pcap": [],
        "s2_out.pcap": [frame(70), tagged],
    }


@pytest.mark.root
def test_a_switch_restarts_on_its_interfaces_under_traffic(start, devices_file, pairs):
    process = start("--devices", devices_file(attached(pairs)), "--stdin-lifeline")
    address = process.ready()["s1"]
    for _ in range(3):
        pairs.host(1).send(frame(64))
        assert process.command("restart s1")["ok"]
    client = connect(address)
    client.insert(
        table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 2))
    )
    pairs.listen()
    pairs.host(1).send(frame(70))
    assert pairs.receive(2) == frame(70)
    client.close()


def _until(true, timeout=20.0):
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
