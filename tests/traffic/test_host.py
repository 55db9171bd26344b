"""The host worker on real interfaces: two network namespaces joined by a veth pair."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.traffic.fabrics import pair_plan
from traffic.build import TrafficOptions, build_hosts
from traffic.collectives import allreduce, permutation
from traffic.nic.config import CongestionConfig
from traffic.worker import HostAttachment, WorkerConfig, write_workers

ROOT = Path(__file__).parents[2]
SCALE = 1_000.0


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def veth() -> Iterator[dict[str, HostAttachment]]:
    """Two namespaces with an interface each."""
    if os.geteuid() != 0:
        pytest.skip("root is needed to make network namespaces")
    mark = f"xtr{os.getpid() % 100000}"
    spaces = [f"{mark}-{i}" for i in range(2)]
    interfaces = [f"{mark}v{i}" for i in range(2)]
    try:
        for space in spaces:
            _ip("netns", "add", space)
            subprocess.run(
                ["ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"],
                check=True,
            )
        _ip(
            "link", "add", interfaces[0], "netns", spaces[0], "type", "veth",
            "peer", "name", interfaces[1], "netns", spaces[1],
        )  # fmt: skip
        for i in range(2):
            _ip("-n", spaces[i], "link", "set", "lo", "up")
            _ip("-n", spaces[i], "addr", "add", f"10.0.0.{i + 1}/24", "dev", interfaces[i])
            _ip("-n", spaces[i], "link", "set", interfaces[i], "up")
        yield {f"h{i}": HostAttachment(interfaces[i], f"/run/netns/{spaces[i]}") for i in range(2)}
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


class WorkerProcess:
    """`python -m traffic.host` and its events."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "traffic.host", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def command(self, text: str) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def until(self, event: str) -> dict[str, Any]:
        """The next event of that name; AssertionError when the process ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            data: dict[str, Any] = json.loads(line)
            if data["event"] == event:
                return data
            assert data["event"] != "error", data
        raise AssertionError(f"no {event}; exit code {self.process.wait()}")

    def close(self) -> int:
        """Close its input and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=10)


@pytest.mark.root
def test_an_allreduce_over_a_veth_completes_at_about_the_scaled_line_rate(
    veth: dict[str, HostAttachment], tmp_path: Path
) -> None:
    plan = pair_plan(time_scale=SCALE)
    workload = allreduce(["h0", "h1"], 1 << 20)
    endpoints = build_hosts(plan, workload, TrafficOptions(CongestionConfig("dcqcn")))
    paths = write_workers(
        tmp_path, endpoints, veth, workers=2, progress_ns=50_000_000, epoch_ns=(began := time.monotonic_ns())
    )
    workers = [WorkerProcess(path) for path in paths]
    for worker in workers:
        worker.until("ready")
    epoch = time.monotonic_ns() + 50_000_000
    for worker in workers:
        worker.command(f"start {epoch}")
    done = [worker.until("done") for worker in workers]
    hosts = [host for event in done for host in event["hosts"]]
    line = 1024 * (1024 + 82) * 8 * 10  # 1 MiB in 1106 wire bytes a packet at 100 Mb/s, ns
    for host in hosts:
        assert host["bytes_received"] == 1 << 20
        assert host["failed"] == {} and host["drops"] == {}
        assert host["retransmitted"] == 0
        assert host["last_received"] >= epoch + line
    assert all(worker.close() == 0 for worker in workers)
    records = [
        json.loads(line)
        for path in sorted((tmp_path / "records").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    messages = [r for r in records if r["kind"] == "message"]
    assert len(messages) == len(workload.messages)
    assert all(epoch - began <= m["post"] <= m["start"] < m["end"] <= m["t"] for m in messages)


@pytest.mark.root
def test_stop_silences_the_senders_and_the_worker_ends_with_its_input(
    veth: dict[str, HostAttachment], tmp_path: Path
) -> None:
    plan = pair_plan(time_scale=SCALE)
    endpoints = build_hosts(plan, permutation(["h0", "h1"], 64 << 20))
    [path] = write_workers(tmp_path, endpoints, veth, workers=1, progress_ns=50_000_000)
    worker = WorkerProcess(path)
    worker.until("ready")
    worker.command(f"start {time.monotonic_ns()}")
    while worker.until("progress")["bytes_received"] == 0:
        pass
    worker.command("stop")
    worker.until("stopped")
    before = -1
    while (received := worker.until("progress")["bytes_received"]) != before:
        before = received
    assert 0 < received < 64 << 20
    assert worker.close() == 0


@pytest.mark.root
def test_an_interface_that_goes_down_is_one_clear_error_line(
    veth: dict[str, HostAttachment], tmp_path: Path
) -> None:
    endpoints = build_hosts(pair_plan(time_scale=SCALE), permutation(["h0", "h1"], 64 << 20))
    [path] = write_workers(tmp_path, endpoints, veth, workers=1)
    worker = WorkerProcess(path)
    worker.until("ready")
    worker.command(f"start {time.monotonic_ns()}")
    space = (veth["h1"].namespace or "").rsplit("/", 1)[-1]
    _ip("-n", space, "link", "set", veth["h1"].interface, "down")
    assert worker.process.stdout is not None
    errors = []
    for line in worker.process.stdout:
        data = json.loads(line)
        if data["event"] == "error":
            errors.append(data["message"])
            break
    assert f"interface {veth['h1'].interface} is gone or down" in errors[0]
    worker.close()


@pytest.mark.root
def test_a_missing_interface_is_one_clear_sentence(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root is needed to open packet sockets")
    endpoints = build_hosts(pair_plan(), permutation(["h0", "h1"], 1))
    attachments = {name: HostAttachment("xtr-none", None) for name in ("h0", "h1")}
    [path] = write_workers(tmp_path, endpoints, attachments, workers=1)
    result = subprocess.run(
        [sys.executable, "-m", "traffic.host", str(path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert result.returncode == 1 and result.stderr == ""
    assert json.loads(result.stdout) == {
        "event": "error",
        "message": "host h0: cannot open interface xtr-none: No such device.",
    }


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hosts": 3}', '{"hosts": [{}]}', "\0"])
def test_a_damaged_hosts_file_is_one_clear_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts-0.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"hosts-0\.json: not a hosts file of this version"):
        WorkerConfig.read(path)


def test_a_hosts_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    endpoints = build_hosts(pair_plan(), allreduce(["h0", "h1"], 5000))
    attachments = {name: HostAttachment(f"{name}-eth0", None) for name in ("h0", "h1")}
    paths = write_workers(tmp_path, endpoints, attachments, workers=2, stop_after_ns=7, epoch_ns=9)
    read = [WorkerConfig.read(path) for path in paths]
    assert tuple(host.endpoint for worker in read for host in worker.hosts) == endpoints
    assert all((worker.stop_after_ns, worker.epoch_ns) == (7, 9) for worker in read)
