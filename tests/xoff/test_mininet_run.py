"""Whole runs in Mininet, as the command line starts them: what comes out, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topologies.runstate import MARKER, STATE_FOLDER

pytestmark = pytest.mark.root

RING = """
topology: ring:n=3,routes=clockwise
workload: permutation:shift=2,bytes=20MB
congestion_control: none
time_scale: 2000
time_limit: 60ms
"""


def command(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "xoff.cli", "run", "--out", str(out), *options]


def xoff(out: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(out, *options), capture_output=True, text=True, timeout=240, env={**os.environ, **environment}
    )


def run(out: Path, *options: str) -> dict:
    """The summary of a run that must succeed."""
    result = xoff(out, "--json", *options)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)


def leftovers(run_name: str) -> list[str]:
    """What a run left on the machine: its state file, processes with its marker, interfaces with its tag."""
    found = [str(path) for path in STATE_FOLDER.glob(f"{run_name}*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if f"{MARKER}={run_name}".encode() in environment.split(b"\0"):
            found.append((process / "comm").read_text().strip())
    tag = run_name.rsplit("-", 1)[-1]
    return found + [path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(f"{tag}-")]


def wait_for(condition, seconds: float = 60.0):
    """What `condition` returns once it is true; the caller's events come from another process's files."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value


def start(out: Path, tmp_path: Path) -> tuple[subprocess.Popen[str], str, Path]:
    """A long run in a process of its own whose traffic flows: (process, its state's name, its folder)."""
    file = tmp_path / "ring.yaml"
    file.write_text(RING)
    before = {path.stem for path in STATE_FOLDER.glob("*.json")}
    process = subprocess.Popen(
        command(out, str(file)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    folder = wait_for(lambda: next(iter(out.glob("*-run")), None) if out.exists() else None)
    wait_for(lambda: '"flow"' in "".join(p.read_text() for p in (folder / "records").glob("hosts-*.jsonl")))
    mine = [p.stem for p in STATE_FOLDER.glob("*.json")
            if p.stem not in before and json.loads(p.read_text())["owner"][0] == process.pid]  # fmt: skip
    return process, mine[0], folder


def test_an_allreduce_crosses_twenty_switches_without_loss(tmp_path):
    summary = run(tmp_path, "--workload", "allreduce:bytes=512KiB", "--time-scale", "5000")
    assert summary["finished"] and summary["switches"] == 20 and summary["switch"] == "native"
    assert summary["drops_lossless"] == 0 and summary["retransmissions"] == 0
    collective = summary["collective"]
    assert collective["busbw_GBps"] == pytest.approx(collective["algbw_GBps"] * 2 * 15 / 16)
    assert 0 < collective["share_of_ideal"] <= collective["payload_ceiling"]
    folder = Path(summary["run"])
    assert summary["messages"] == 16 * 30
    assert len((folder / "fct.txt").read_text().splitlines()) == 16 * 30
    assert "<svg" in (folder / "report.html").read_text()


def test_pfc_keeps_an_incast_lossless_and_without_it_frames_are_lost(tmp_path):
    incast = ("--workload", "incast:bytes=200KB", "--topology", "fattree:k=2,hosts_per_edge=4",
              "--congestion-control", "none", "--time-scale", "2000")  # fmt: skip
    paused = run(tmp_path, *incast)
    assert paused["drops_total"] == 0 and paused["pfc_xoff_sent"] > 0 and paused["paused_seconds"] > 0
    (tmp_path / "lossy.yaml").write_text("classes: {3: {queue_limit_bytes: 100000}}\n")
    lossy = run(tmp_path, str(tmp_path / "lossy.yaml"), *incast, "--no-pfc")
    assert lossy["drops_total"] > 0 and lossy["retransmissions"] > 0 and lossy["pfc_xoff_sent"] == 0
    assert lossy["finished"]


def test_hpcc_runs_on_the_telemetry_of_every_hop(tmp_path):
    summary = run(tmp_path, "--topology", "fattree:k=2", "--workload", "allreduce:bytes=200KB",
                  "--congestion-control", "hpcc", "--time-scale", "5000")  # fmt: skip
    assert summary["finished"] and summary["drops_total"] == 0


def test_edge_telemetry_reports_every_hop_in_path_order(tmp_path):
    summary = run(tmp_path, "--topology", "fattree:k=2", "--workload", "permutation:bytes=100KB", "--telemetry",
                  "edge", "--time-scale", "5000")  # fmt: skip
    plan = json.loads((Path(summary["run"]) / "plan.json").read_text())
    ids = {switch["device_id"]: switch["name"] for switch in plan["switches"]}
    lines = (Path(summary["run"]) / "records" / "controller.jsonl").read_text().splitlines()
    reports = [record for record in map(json.loads, lines) if record["kind"] == "int"]
    assert reports
    for report in reports:
        path = [ids[hop["node_id"]] for hop in report["hops"]]
        assert path in (["e1", "a1", "c1", "a2", "e2"], ["e2", "a2", "c1", "a1", "e1"])


def test_hpccs_topology_and_flow_files_run(tmp_path):
    (tmp_path / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 100Gbps 0.001ms 0\n")
    (tmp_path / "flow.txt").write_text("2\n0 1 3 100 20000 0\n1 0 3 100 30000 0.00001\n")
    summary = run(
        tmp_path, "--topology", str(tmp_path / "topology.txt"), "--workload", str(tmp_path / "flow.txt")
    )
    assert summary["finished"] and summary["messages"] == 2
    rows = sorted(line.split() for line in (Path(summary["run"]) / "fct.txt").read_text().splitlines())
    assert [row[4] for row in rows] == ["20000", "30000"]
    assert [row[0] for row in rows] == ["0b000001", "0b000101"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path, number):
    process, name, _ = start(tmp_path / "out", tmp_path)
    assert leftovers(name)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "everything it had made is removed" in errors
    assert leftovers(name) == []


def test_clean_removes_what_a_killed_run_left_and_nothing_else(tmp_path):
    process, name, _ = start(tmp_path / "out", tmp_path)
    other, other_name, _ = start(tmp_path / "other", tmp_path)
    try:
        process.kill()
        process.communicate()
        assert leftovers(name)
        result = subprocess.run(
            [sys.executable, "-m", "xoff.cli", "clean"], capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 0 and name in result.stdout
        assert leftovers(name) == []
        assert other.poll() is None and leftovers(other_name)
    finally:
        other.send_signal(signal.SIGINT)
        other.communicate(timeout=60)
    assert leftovers(other_name) == []


def test_a_switch_process_that_dies_ends_the_run_with_one_sentence(tmp_path):
    process, name, _ = start(tmp_path / "out", tmp_path)
    state = json.loads((STATE_FOLDER / f"{name}.json").read_text())
    for pid, _ in state["processes"]:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"switch.native" in words:
            os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "switches ended with exit code -9" in errors and "Traceback" not in errors
    assert leftovers(name) == []


def test_a_killed_switch_stops_its_flows_and_a_restarted_one_is_programmed_again(tmp_path):
    file = tmp_path / "kill.yaml"
    file.write_text(
        "topology: fattree:k=2\nworkload: permutation:bytes=400KB\ntime_scale: 20000\ntime_limit: 20ms\n"
        "actions: [{at: 10us, kill_switch: {switch: c1}}, {at: 60us, restart_switch: {switch: c1}}]\n"
    )
    summary = run(tmp_path, str(file))
    assert summary["finished"] and summary["retransmissions"] > 0


def test_frames_of_a_run_are_well_formed_for_tshark(tmp_path):
    import shutil

    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    storm = tmp_path / "storm.yaml"  # PFC frames are in the captures whatever the incast does
    storm.write_text("actions: [{at: 5us, pfc_storm: {host: h1, duration: 5us, quanta: 100}}]\n")
    summary = run(tmp_path, str(storm), "--topology", "fattree:k=2,hosts_per_edge=2", "--workload",
                  "incast:bytes=300KB", "--pcap", "--time-scale", "5000")  # fmt: skip
    captures = sorted((Path(summary["run"]) / "pcap").glob("*.pcap"))
    assert len(captures) == summary["hosts"]
    counted = {
        json.loads(line)["node"]: json.loads(line)
        for records in (Path(summary["run"]) / "records").glob("hosts-*.jsonl")
        for line in records.read_text().splitlines()
        if '"kind":"port"' in line
    }
    fields = [
        "-e",
        "frame.protocols",
        "-e",
        "_ws.malformed",
        "-e",
        "macc.opcode",
        "-e",
        "infiniband.bth.opcode",
    ]
    seen: dict[str, int] = {"roce": 0, "pfc": 0}
    for capture in captures:
        told = subprocess.run(
            ["tshark", "-r", str(capture), "-T", "fields", *fields], capture_output=True, text=True
        )
        port = counted[capture.stem]
        assert len(told.stdout.splitlines()) == port["rx_packets"] + port["tx_packets"]
        for line in told.stdout.splitlines():
            protocols, malformed, mac_control, opcode = line.split("\t")
            assert not malformed, line
            seen["pfc"] += mac_control in ("0x0101", "257")
            seen["roce"] += "infiniband" in protocols and bool(opcode)
    assert seen["roce"] > 500 and seen["pfc"] > 0
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
    from scapy.utils import PcapReader

    import traffic.wire  # noqa: F401  (binds RETH and the rest)

    checked = 0
    with PcapReader(str(captures[-1])) as reader:
        for packet in reader:
            if BTH in packet and checked < 200:
                received = bytes(packet)
                rebuilt = Ether(received)
                del rebuilt[BTH].icrc
                assert bytes(rebuilt) == received
                checked += 1
    assert checked


def test_p4runtime_shell_reads_a_switch_of_the_running_fabric(tmp_path):
    from xoff.shell import SHELL

    if not SHELL.exists():
        pytest.skip("p4runtime-shell is not installed (make setup)")
    process, name, _ = start(tmp_path / "out", tmp_path)
    try:
        told = subprocess.run(
            [sys.executable, "-m", "xoff.cli", "shell", "s1"],
            input='for entry in table_entry["FabricIngress.routing.ipv4_lpm"].read(): print(entry)\nexit\n',
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "lpm" in told.stdout and told.stdout.count("table_id") == 3, told.stdout + told.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert leftovers(name) == []


def test_a_capture_that_ends_too_early_is_not_passed_over(tmp_path):
    """The wrapper ends at the first frames, as tcpdump does on a full disk."""
    import shutil

    tcpdump = shutil.which("tcpdump")
    if tcpdump is None:
        pytest.skip("tcpdump is not installed")
    wrapper = tmp_path / "bin" / "tcpdump"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {tcpdump} -c 5 "$@"\n')
    wrapper.chmod(0o755)
    # Three seconds of traffic: tcpdump may look at what the kernel has collected for it only once a second.
    result = xoff(tmp_path, "--topology", "ring:n=3", "--workload", "allreduce:bytes=1500kB", "--time-scale", "20000",
                  "--pcap", PATH=f"{wrapper.parent}:{os.environ['PATH']}")  # fmt: skip
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "a capture ended before the run did" in result.stderr
