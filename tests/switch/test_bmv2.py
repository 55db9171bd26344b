"""The BMv2 target: started, configured and ended as a switch; against a stand-in, and the real one where it is."""

import json
import os
import select
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from switch.bmv2 import (
    Bmv2Error,
    Bmv2Options,
    command_line,
    packets_per_second,
    start_switches,
    stop_switches,
)
from switch.bmv2_runtime import Bmv2Runtime, Bmv2RuntimeError
from switch.device import DeviceSpec, PortSpec, QueueSpec
from switch.select import SelectError, select_target

FAKE = Path(__file__).with_name("fake_bmv2.py")
ROOT = Path(__file__).parents[2]
JUDGES = Path("/opt/judges/bin")
PROGRAM = Path(__file__).parent / "programs" / "entities.p4"


def spec(name="s1", device_id=1, **changes):
    values = {
        "name": name,
        "device_id": device_id,
        "ports": (PortSpec(1, None, 8_656_000), PortSpec(2, None, 0)),
        "program_json": Path("prog.json"),
        "p4info": Path(),
        "grpc_address": "127.0.0.1:0",
        "queue": QueueSpec(1000, 77),
    }
    return DeviceSpec(**{**values, **changes})


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Options that start the stand-in, and the file it writes."""
    log = tmp_path / "calls.jsonl"
    monkeypatch.setenv("FAKE_BMV2_LOG", str(log))
    return Bmv2Options(log_dir=tmp_path / "logs", mean_frame_bytes=1058, executable=str(FAKE)), log


def calls(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_switch_is_started_with_bmv2s_own_arguments():
    arguments = command_line(
        spec(ports=(PortSpec(1, "s1-eth1", 0), PortSpec(2, None, 0))),
        executable="simple_switch_grpc",
        address="127.0.0.1:50051",
        thrift_port=9090,
        notifications="ipc:///tmp/x.ipc",
        options=Bmv2Options(log_dir=Path("logs"), log_level="debug"),
        log=Path("logs/s1.log"),
    )
    assert (
        arguments
        == (
            "simple_switch_grpc -i 1@s1-eth1 --device-id 1 --thrift-port 9090 --notifications-addr ipc:///tmp/x.ipc"
            " --log-file logs/s1 --log-level debug --log-flush prog.json"
            " -- --grpc-server-addr 127.0.0.1:50051 --cpu-port 510 --drop-port 511 --priority-queues 8"
        ).split()
    )


def test_a_rate_in_bits_becomes_packets_of_the_mean_size():
    # 1000 frames of 1058 bytes a second are 1000 x (1058 + 24) x 8 bit/s on the wire.
    assert packets_per_second(8_656_000, 1058) == 1000
    assert packets_per_second(1, 1058) == 1, "0 would mean unlimited"
    assert packets_per_second(0, 1058) == 0


def test_queue_rates_and_depths_are_set_once_it_answers(fake):
    options, log = fake
    switches = start_switches([spec(timer_hz=250)], options)
    try:
        switch = switches["s1"]
        assert switch.process.poll() is None
        made = [(c["call"], c["arguments"]) for c in calls(log) if "call" in c]
        assert made == [
            ("simple_switch:set_all_egress_queue_depths", [77]),
            ("simple_switch:set_egress_queue_depth", [1, 77]),
            ("simple_switch:set_egress_queue_rate", [1, 1000]),
            ("simple_switch:set_egress_queue_depth", [2, 77]),
            ("simple_switch:set_egress_queue_depth", [509, 77]),
            ("simple_switch:set_egress_queue_rate", [509, 250]),
        ]
    finally:
        stop_switches(switches.values())
    assert switch.process.poll() is not None


def test_two_switches_share_no_port_and_no_socket(fake):
    options, log = fake
    switches = start_switches([spec(), spec("s2", 2)], options)
    stop_switches(switches.values())
    started = [c["arguments"] for c in calls(log) if "call" not in c]
    for flag in ("--thrift-port", "--notifications-addr", "--grpc-server-addr"):
        values = [arguments[arguments.index(flag) + 1] for arguments in started]
        assert len(set(values)) == 2, flag


def test_what_bmv2_said_before_it_ended_is_reported_and_the_others_are_stopped(fake, monkeypatch, tmp_path):
    options, log = fake
    script = tmp_path / "half"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *"--device-id 2"*) echo bad JSON; exit 3;; esac\nexec {FAKE} "$@"\n'
    )
    script.chmod(0o755)
    with pytest.raises(Bmv2Error, match=r"switch s2: .* ended with exit code 3: bad JSON \(log: .*s2.log\)"):
        start_switches([spec(), spec("s2", 2)], replace(options, executable=str(script)))
    address = next(c["arguments"] for c in calls(log) if "call" not in c)
    host, port = address[address.index("--grpc-server-addr") + 1].split(":")
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), 0.2)


def test_a_missing_bmv2_a_used_port_and_a_missing_interface_are_told_before_anything_starts(fake, tmp_path):
    options, log = fake
    with pytest.raises(Bmv2Error, match="no-such-switch is not on PATH"):
        start_switches([spec()], replace(options, executable="no-such-switch"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Bmv2Error, match=f"gRPC address 127.0.0.1:{port} is in use"):
            start_switches([spec(grpc_address=f"127.0.0.1:{port}")], options)
    with pytest.raises(Bmv2Error, match="port 1: interface nope0 does not exist"):
        start_switches([spec(ports=(PortSpec(1, "nope0", 0),))], options)
    assert not log.exists()


def test_a_thrift_port_that_does_not_answer_or_speaks_something_else_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        runtime = Bmv2Runtime(port)
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()
        with pytest.raises(Bmv2RuntimeError):
            runtime.elapsed_us()
        runtime.close()
    with pytest.raises(Bmv2RuntimeError, match="does not answer"):
        Bmv2Runtime(port)


def test_native_is_the_default_and_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("XOFF_SWITCH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    selection = select_target("auto", machine_file=tmp_path / "switch")
    assert (selection.target, selection.reason) == ("native", "the default; BMv2 is not installed")


def test_auto_follows_the_environment_then_the_machine(monkeypatch, tmp_path):
    executable = tmp_path / "simple_switch_grpc"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("XOFF_SWITCH", raising=False)
    machine = tmp_path / "switch"
    assert select_target("auto", machine_file=machine).target == "native", "installed is not asked for"
    machine.write_text("bmv2\n")
    assert select_target("auto", machine_file=machine).target == "bmv2"
    monkeypatch.setenv("XOFF_SWITCH", "native")
    assert select_target("auto", machine_file=machine).target == "native"
    assert select_target("bmv2", machine_file=machine).target == "bmv2"


def test_a_wish_that_cannot_be_met_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SelectError, match="simple_switch_grpc is not on PATH"):
        select_target("bmv2")
    with pytest.raises(SelectError, match="the choices are auto, native, bmv2"):
        select_target("tofino")
    monkeypatch.setenv("XOFF_SWITCH", "tofino")
    with pytest.raises(SelectError, match="it may say native or bmv2"):
        select_target("auto")


PARENT = """
import sys, time
from pathlib import Path
from switch.bmv2 import Bmv2Options, start_switches
from switch.device import DeviceSpec
folder, executable = Path(sys.argv[1]), sys.argv[2]
spec = DeviceSpec("s1", 1, (), Path("prog.json"), Path("p4info"), "127.0.0.1:0")
switches = start_switches([spec], Bmv2Options(log_dir=folder, executable=executable))
print(switches["s1"].process.pid, flush=True)
time.sleep(600)
"""


def test_a_switch_ends_with_the_process_that_started_it_even_when_that_is_killed(fake, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(FAKE)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    try:
        switch = os.pidfd_open(int(parent.stdout.readline()))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    try:
        assert select.select([switch], [], [], 10)[0], "it is still there"
    finally:
        os.close(switch)


@pytest.fixture(scope="module")
def real_bmv2(tmp_path_factory):
    """PATH with the real simple_switch_grpc, and a program compiled for it."""
    path = os.pathsep.join([os.environ["PATH"], str(JUDGES)])
    for tool in ("simple_switch_grpc", "p4c-bm2-ss"):
        if shutil.which(tool, path=path) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("bmv2")
    program = folder / "entities.json"
    compiler = shutil.which("p4c-bm2-ss", path=path)
    subprocess.run([compiler, "--std", "p4-16", "-o", program, PROGRAM], check=True, capture_output=True)
    return path, program, folder


@pytest.mark.judge
def test_real_bmv2_starts_and_takes_rates_and_depths(real_bmv2, monkeypatch):
    path, program, folder = real_bmv2
    monkeypatch.setenv("PATH", path)
    specs = [spec(f"s{number}", number, program_json=program, timer_hz=100) for number in (1, 2, 3)]
    switches = start_switches(specs, Bmv2Options(log_dir=folder / "logs"))
    try:
        for switch in switches.values():
            with switch.runtime() as runtime:
                assert runtime.elapsed_us() > 0
                runtime.register_write("EntitiesIngress.stored", 3, 4711)
                assert runtime.register_read("EntitiesIngress.stored", 3) == 4711
                with pytest.raises(Bmv2RuntimeError):
                    runtime.register_read("EntitiesIngress.stored", 1000)
    finally:
        stop_switches(switches.values())
    assert all(switch.process.poll() is not None for switch in switches.values())


@pytest.mark.judge
def test_real_bmv2s_complaint_about_a_bad_program_is_passed_on(real_bmv2, monkeypatch):
    path, _, folder = real_bmv2
    monkeypatch.setenv("PATH", path)
    broken = folder / "broken.json"
    broken.write_text("{}")
    with pytest.raises(Bmv2Error, match=r"switch s1: .*ended with"):
        start_switches([spec(program_json=broken)], Bmv2Options(log_dir=folder / "logs"))
