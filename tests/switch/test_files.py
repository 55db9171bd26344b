"""`--use-files`: pcap files in and out, in simulated time; beside real simple_switch with the same files."""

import itertools
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from bmv2_files import read_pcap, simple_switch, tool, write_pcap
from finsy.proto import p4r
from p4programs import ROOT, compiled
from p4runtime_harness import Client, config_of, exact
from probe import GBPS, frame, seen
from test_daemon import Process

from switch.control_client import ControlClient
from switch.device import DeviceSpec, PortSpec
from switch.native import pcap
from switch.native.bringup import StartError
from switch.native.files import FileSwitch
from switch.native.options import OptionsError, parse_options


def capture(path, frames):
    """A nanosecond capture of (time, frame)."""
    with pcap.create(path) as file:
        for time_ns, data in frames:
            pcap.write(file, data, time_ns)


@pytest.fixture
def run(tmp_path):
    """Run programs/queues.p4 on files: {port: [(time, frame)]} in, the same out."""
    import asyncio

    def run(inputs, rate=10 * GBPS, delay_ns=0, before=lambda switch: None):
        ports = sorted({1, 2, 3, *inputs})
        for port in ports:
            capture(tmp_path / f"p{port}_in.pcap", inputs.get(port, []))
        json, p4info = compiled("queues")
        specs = tuple(PortSpec(port, str(tmp_path / f"p{port}"), rate, delay_ns) for port in ports)
        spec = DeviceSpec("s1", 1, specs, json, p4info, "127.0.0.1:0", timestamp_hz=10**9)

        async def process():
            switch = FileSwitch(spec, print)
            try:
                await switch.start()
                before(switch)
                await switch.process()
            finally:
                await switch.close()

        asyncio.run(process())
        return {port: list(pcap.read(tmp_path / f"p{port}_out.pcap")) for port in ports}

    return run


T = 1_700_000_000 * 10**9


def test_a_frame_leaves_after_its_time_on_the_wire(run):
    out = run({1: [(T, frame(2, length=1000)), (T + 5000, frame(3, length=226))]}, delay_ns=500)
    assert [t - T for t, _ in out[2]] == [820 + 500]  # 1024 bytes at 10 Gb/s are 819.2 ns
    assert [t - T for t, _ in out[3]] == [5000 + 200 + 500]
    assert seen(out[3][0][1]).ingress_ts == 5000
    assert out[1] == []


def test_frames_of_all_files_enter_in_the_order_of_their_times(run):
    inputs = {
        1: [(T + 100, frame(2, tag=b"b")), (T + 300, frame(2, tag=b"d"))],
        2: [(T, frame(2, tag=b"a")), (T + 300, frame(2, tag=b"e"))],
        3: [(T + 200, frame(2, tag=b"c"))],
    }
    assert [data[-1:] for _, data in run(inputs, rate=0)[2]] == [b"a", b"b", b"c", b"d", b"e"]


def test_queues_and_their_settings_work_on_files_as_on_interfaces(run):
    frames = [(T, frame(2, cls, length=976)) for cls in (0, 1) * 20]
    out = run({1: frames}, before=lambda switch: switch.engine.set_queue(2, 1, rate_bps=GBPS))
    slow = [t - T for t, data in out[2] if seen(data).priority == 1]
    assert [b - a for a, b in itertools.pairwise(slow)] == [8000] * 19
    fast = [t - T for t, data in out[2] if seen(data).priority == 0]
    assert fast[-1] < 20 * 800 + 3 * 800 + 8000


def test_the_same_files_give_the_same_files(run):
    frames = {
        port: [(T + 37 * i, frame(1 + i % 3, i % 8, length=76 + i)) for i in range(300)] for port in (1, 2)
    }
    assert run(frames) == run(frames)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic, unit", [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_pcap_is_read_in_every_byte_order_and_resolution(tmp_path, order, magic, unit):
    path = tmp_path / "x.pcap"
    header = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + struct.pack(f"{order}IIII", 7, 123, 4, 4) + b"abcd")
    assert list(pcap.read(path)) == [(7 * 10**9 + 123 * unit, b"abcd")]


HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"", "is not a pcap file"),
        (struct.pack("<I", 0x0A0D0D0A) + bytes(40), "editcap"),
        (HEADER[:20] + struct.pack("<I", 113), "link type 113"),
        (HEADER + b"12345", "ends inside frame 1"),
        (HEADER + struct.pack("<IIII", 0, 0, 4, 4) + b"abc", "ends inside frame 1"),
        (HEADER + struct.pack("<IIII", 0, 0, 4, 60) + b"abcd", "was cut from 60 to 4 bytes"),
        (HEADER + struct.pack("<IIII", 0, 0, 2**32 - 1, 60), "claims 4294967295 bytes"),
    ],
)
def test_a_broken_file_is_told_in_one_sentence(run, tmp_path, content, complaint):
    def spoil(switch):
        (tmp_path / "p1_in.pcap").write_bytes(content)

    with pytest.raises(StartError) as caught:
        run({}, before=spoil)
    assert complaint in str(caught.value) and "p1_in.pcap" in str(caught.value)


def test_options_that_do_not_go_with_files_are_refused():
    for words, complaint in (
        ("--use-files -1 prog.json", "seconds to wait"),
        ("--use-files 0 --records r prog.json", "--records is of no use"),
        ("--use-files 0 --devices d.json", "one switch"),
    ):
        with pytest.raises(OptionsError) as caught:
            parse_options(words.split())
        assert complaint in str(caught.value)


@pytest.fixture
def process(tmp_path):
    processes = []

    def start(program, *options, **changes):
        json_path, p4info = compiled(program)
        interfaces = [word for port in (1, 2) for word in ("-i", f"{port}@{tmp_path}/p{port}")]
        processes.append(
            Process(*options, *interfaces, "--name", "s1", "--p4info", p4info, json_path,
                    "--", "--grpc-server-addr", "127.0.0.1:0", "--priority-queues", 8, **changes)
        )  # fmt: skip
        return processes[-1]

    for port in (1, 2):
        capture(tmp_path / f"p{port}_in.pcap", [])
    yield start
    for one in processes:
        one.close()


def test_the_process_waits_then_works_the_files_off_and_goes_on_serving(process, tmp_path):
    ethernet = bytes.fromhex("000000000007 000000000001 0800") + bytes(50)
    capture(tmp_path / "p1_in.pcap", [(T, ethernet)] * 3)
    started = process("entities", "--use-files", 3)
    address = started.ready()["s1"]
    client = Client(address, config_of("entities").p4info)
    client.device_id, client.election_id = 0, None
    client.insert(table_entry=client.entry("forwarding", [exact(1, 7)], client.action("forward_counted", 2)))
    assert started.event() == {"event": "files", "frames_in": 3, "frames_out": 3}
    assert read_pcap(tmp_path / "p2_out.pcap") == [ethernet] * 3
    with ControlClient(address) as control:
        assert control.call("GetPorts", port=2)["ports"][0]["tx_packets"] == 3
    client.election_id = 1
    with client.stream() as stream:
        packet = p4r.PacketOut(payload=ethernet)
        packet.metadata.add(metadata_id=1, value=b"\x02")
        packet.metadata.add(metadata_id=2, value=b"\x00")
        stream.send(packet=packet)
        deadline = time.monotonic() + 20
        while len(read_pcap(tmp_path / "p2_out.pcap")) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert read_pcap(tmp_path / "p2_out.pcap") == [ethernet] * 4
    client.close()
    assert started.command("stop")["ok"]
    assert started.child.wait(20) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
def test_files_need_no_root():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        Path(folder).chmod(0o777)
        forward_without_root(Path(folder))


def forward_without_root(tmp_path: Path) -> None:
    json_path, _ = compiled("queues")
    program = tmp_path / "queues.json"
    program.write_text(json_path.read_text())
    capture(tmp_path / "p1_in.pcap", [(T, frame(1))])
    child = subprocess.Popen(
        [sys.executable, "-m", "switch.native", "--use-files", "0", "-i", f"1@{tmp_path}/p1", program,
         "--", "--grpc-server-addr", "127.0.0.1:0"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=65534, group=65534,
        env={**os.environ, "XOFF_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)},
    )  # fmt: skip
    try:
        for expected in ('"ready"', '"frames_out": 1'):
            assert expected in child.stdout.readline()
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


@pytest.mark.judge
def test_simple_switch_writes_the_same_files(process, tmp_path):
    if tool("simple_switch") is None or tool("simple_switch_CLI") is None:
        pytest.skip("simple_switch is not installed")
    commands = [
        "table_add forwarding forward_counted 00:00:00:00:00:07 => 2",
        "table_add forwarding drop 00:00:00:00:00:08 =>",
        "table_add acl mark 10.0.0.0&&&255.0.0.0 1->0x10 5&&&0xff => 2 0x11 10",
        "table_set_default acl mark 1 2",
        "mirroring_add 5 2",
        "mc_mgrp_create 1",
        "mc_node_create 9 1 2",
        "mc_node_associate 1 0",
    ]
    head = "000000000001"
    frames = [
        (1, bytes.fromhex("000000000007" + head + "0800") + bytes(50)),
        (2, bytes.fromhex("000000000008" + head + "0800") + bytes(50)),
        (1, bytes.fromhex("000000000009" + head + "1001" + "0a010203 0009 05 00") + bytes(40)),
        (2, bytes.fromhex("000000000009" + head + "1001" + "0b010203 0009 05 00") + bytes(40)),
        (1, bytes.fromhex("000000000009" + head + "1002") + bytes(60)),
        (2, bytes.fromhex("000000000009" + head + "1003") + bytes(60)),
        (1, bytes.fromhex("000000000009" + head + "1007" + "00000000 0000 03 00") + bytes(60)),
        (1, bytes.fromhex("000000000009" + head + "100a" + "00000000 0007 03 00") + bytes(60)),
    ]
    expected = simple_switch(compiled("entities")[0], frames, [1, 2], commands, wait=5)
    for port in (1, 2):
        timed = [(10**6 + i * 250, data) for i, (p, data) in enumerate(frames) if p == port]
        write_pcap(tmp_path / f"p{port}_in.pcap", timed)
    started = process("entities", "--use-files", 5)
    with ControlClient(started.ready()["s1"]) as control:
        for command in commands:
            assert control.command(command)[1], command
    assert started.event()["frames_in"] == len(frames)
    assert {port: read_pcap(tmp_path / f"p{port}_out.pcap") for port in (1, 2)} == expected
    assert sum(map(len, expected.values())) >= 8
