"""The actions of the virtual clock's tests, on real interfaces: each leaves the traces that it must."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.fabric.bmv2 import tool
from topologies.mininet_build import FabricNet
from xoff.actions import parse_actions
from xoff.clocks.switches import choose_switch
from xoff.errors import XoffError
from xoff.experiment import Experiment
from xoff.progress import Display
from xoff.records import read_records
from xoff.run import execute

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


def run(tmp_path: Path, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(summary, records) of a small run between two or three hosts of one switch."""
    settings = {
        "topology": "leafspine:leaves=1,spines=0,hosts_per_leaf=3",
        "workload": {"kind": "incast", "senders": 1, "bytes": 1_000_000},
        "congestion_control": "none",
        "time_scale": 5000.0,
        "switch": "native",
        **options,
    }
    summary = execute(Experiment(clock="mininet", **settings), tmp_path, Display(quiet=True))
    return summary, list(read_records(Path(summary["run"])))


def test_a_lossy_link_loses_every_nth_frame_and_the_transfer_recovers(tmp_path: Path) -> None:
    summary, _ = run(
        tmp_path, actions=[{"at": "10us", "lossy_link": {"switch": "l1", "towards": "h3", "every": 100}}]
    )
    assert summary["finished"]
    assert summary["drops"]["link_loss"] >= 5 and summary["retransmissions"] >= 5


def test_a_degraded_link_and_a_paused_host_delay_the_workload(tmp_path: Path) -> None:
    free, _ = run(tmp_path)
    slow, _ = run(
        tmp_path, actions=[{"at": "0ns", "set_rate": {"switch": "l1", "towards": "h1", "rate": "20Gbps"}}]
    )
    assert slow["finished"]
    # 1 MB at 20 Gb/s are 400 us, at 100 Gb/s 80 us: h1's own end of the link was slowed. A microsecond (5 ms of wall
    # time) that the order comes late takes four off.
    assert slow["collective"]["completion_seconds"] > 300e-6
    assert free["collective"]["completion_seconds"] < 300e-6
    held, records = run(
        tmp_path, workload={"kind": "allreduce", "bytes": 300_000},
        actions=[{"at": "1us", "pause_host": {"host": "h2"}}, {"at": "300us", "resume_host": {"host": "h2"}}],
    )  # fmt: skip
    assert held["finished"] and held["collective"]["completion_seconds"] > 300e-6
    assert any("pause_host" in r.get("text", "") for r in records)


def test_a_pfc_storm_of_a_host_pauses_the_switch_towards_it(tmp_path: Path) -> None:
    storm = {"host": "h3", "duration": "400us", "quanta": 20000}
    summary, records = run(tmp_path, actions=[{"at": "5us", "pfc_storm": storm}])
    assert summary["finished"] and summary["drops_lossless"] == 0
    sent = [r for r in records if r["kind"] == "pause_sent" and r["node"] == "h3"]
    assert 7 <= len(sent) <= 9  # every half of 20,000 quanta of 5.12 ns
    assert any(r["kind"] == "pause" and r["node"] == "l1" for r in records)
    assert summary["collective"]["completion_seconds"] > 400e-6


def notes(records: list[dict[str, Any]], word: str) -> list[str]:
    return [record["text"] for record in records if record["kind"] == "note" and word in record["text"]]


def test_the_switch_reckons_pauses_at_the_rate_that_its_port_has_now(tmp_path: Path) -> None:
    """1000 quanta of 512 bits at 10 Gb/s are 51.2 us, 5000 times as long on the wall."""
    _, records = run(
        tmp_path,
        actions=[
            {"at": "10us", "set_rate": {"switch": "l1", "towards": "h3", "rate": "10Gbps"}},
            {"at": "100us", "pfc_storm": {"host": "h3", "duration": "1ns", "quanta": 1000}},
        ],
    )
    assert notes(records, "now runs at 10 Gb/s")
    lengths = [
        r["until"] - r["t"] for r in records if r["kind"] == "pause" and r["node"] == "l1" and r["until"]
    ]
    # The clock of P4 timestamps has microseconds; the frame is seen when the busy machine looks.
    assert lengths and max(lengths) == pytest.approx(51.2e3 * 5000, rel=0.05)


def test_the_watchdog_drops_what_a_storm_would_hold_back(tmp_path: Path) -> None:
    summary, records = run(
        tmp_path,
        watchdog={"detection_time": "100us", "poll_interval": "25us"},
        workload={"kind": "incast", "senders": 1, "bytes": 4_000_000},
        actions=[{"at": "50us", "pfc_storm": {"host": "h3", "duration": "300us"}}],
    )
    storm, restored = notes(records, "watchdog: l1 port 3 class 3")
    assert storm.endswith("paused too long, drop") and restored.endswith("restored")
    assert summary["finished"]


def test_traffic_is_led_around_a_link_that_is_down(tmp_path: Path) -> None:
    summary, records = run(
        tmp_path,
        topology="leafspine:leaves=2,spines=2,hosts_per_leaf=2",
        workload="permutation:bytes=1MB",
        load_balancing="spray",
        reroute=True,
        actions=[{"at": "20us", "link_down": {"switch": "l1", "towards": "s1"}}],
    )
    assert notes(records, "rerouting: l1 port 3, s1 port 1 down")
    assert summary["finished"]


def test_an_action_whose_time_does_not_come_is_noted(tmp_path: Path) -> None:
    _, records = run(tmp_path, actions=[{"at": "25ms", "link_down": {"switch": "l1", "towards": "h1"}}])
    (note,) = notes(records, "before this could happen")
    assert note.endswith("link_down(switch l1, towards h1)")


@pytest.mark.parametrize(("links", "threads"), [("memory", 1), ("veth", 1), ("veth", 2)])
def test_links_in_memory_carry_what_interfaces_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: str, threads: int
) -> None:
    carried = {}
    stop = FabricNet.stop

    def counted(net: FabricNet) -> None:
        for port in (3, 4):
            name = net.interface("l1", port)
            carried[port] = int(Path(f"/sys/class/net/{name}/statistics/rx_packets").read_text())
        stop(net)

    monkeypatch.setattr(FabricNet, "stop", counted)
    summary, _ = run(
        tmp_path,
        topology="leafspine:leaves=2,spines=2,hosts_per_leaf=2",
        workload="alltoall:bytes=200KB",
        load_balancing="spray",
        links=links,
        packet_threads=threads,
    )
    assert summary["finished"] and not summary["drops"]
    # Each of four hosts sends 25 KB across to each of two others: 200 packets over two links, ACKs aside.
    assert (sum(carried.values()) == 0) if links == "memory" else (sum(carried.values()) >= 100)


def test_bmv2s_links_and_processes_go_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = tool("simple_switch_grpc")
    if executable is None:
        pytest.skip("BMv2 is not installed")
    monkeypatch.setenv("PATH", f"{Path(executable).parent}:{os.environ['PATH']}")
    link = {"switch": "l1", "towards": "h3"}
    summary, records = run(
        tmp_path,
        switch="bmv2",
        actions=[
            {"at": "20us", "link_down": link},
            {"at": "60us", "link_up": link},
            {"at": "100us", "kill_switch": {"switch": "l1"}},
            {"at": "150us", "restart_switch": {"switch": "l1"}},
        ],
    )
    assert summary["finished"] and summary["retransmissions"] > 0
    assert [r["text"].partition("(")[0] for r in records if r["kind"] == "note"][:4] == [
        "link_down",
        "link_up",
        "kill_switch",
        "restart_switch",
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"actions": [{"at": 0, "set_rate": {"switch": "s", "towards": "h", "rate": "1Gbps"}}]}, "packets per second"),
        ({"actions": [{"at": 0, "lossy_link": {"switch": "s", "towards": "h", "p": 0.1}}]}, "loses no packets"),
        ({"links": "memory"}, "joins native switches"),
    ],
)  # fmt: skip
def test_what_bmv2_cannot_do_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "simple_switch_grpc").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    experiment = Experiment(switch="bmv2", **options)
    with pytest.raises(XoffError, match=sentence):
        choose_switch(experiment, parse_actions(experiment.actions))
