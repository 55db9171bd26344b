"""Captures in virtual time hold every frame of a host, at the nanosecond at which it passed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether

from switch.native import pcap
from tests.dynamics.lab import HEADERS, IMMEDIATE, RETH, STAR, run

ACK = 0x11


@pytest.mark.parametrize("driver", ["c", "python"])
def test_a_capture_shows_a_packet_leave_and_its_acknowledgement_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    monkeypatch.setenv("XOFF_DRIVER", driver)
    outcome = run(
        tmp_path, topology=STAR.format(2), rate="8Gbps", delay="300ns", pcap=True,
        workload={"kind": "incast", "senders": 1, "target": "h2", "bytes": 1000},
    )  # fmt: skip
    captured = {name: list(pcap.read(outcome.folder / "pcap" / f"{name}.pcap")) for name in ("h1", "h2")}
    # At 8 Gb/s a byte takes a nanosecond; 24 bytes of a frame are not in the capture.
    data = 1000 + HEADERS + RETH + IMMEDIATE + 24
    ack = 62 + 24
    assert [(time - outcome.begin, len(frame)) for time, frame in captured["h1"]] == [
        (data, data - 24),
        (2 * (data + 300) + 2 * (ack + 300), ack - 24),
    ]
    assert [(time - outcome.begin, len(frame)) for time, frame in captured["h2"]] == [
        (2 * (data + 300), data - 24),
        (2 * (data + 300) + ack, ack - 24),
    ]
    assert [Ether(frame)[BTH].opcode == ACK for _, frame in captured["h2"]] == [False, True]


@pytest.mark.parametrize("open_files", [200, 2])
def test_captures_hold_as_many_frames_as_the_hosts_count_in_the_order_of_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_files: int
) -> None:
    monkeypatch.setattr("xoff.clocks.simulated_capture.OPEN_FILES", open_files)
    outcome = run(tmp_path, topology=STAR.format(4), workload="allreduce:bytes=100kB", pcap=True)
    counts = {record["node"]: record for record in outcome.of("port") if record["node"].startswith("h")}
    assert len(counts) == 4
    for name, last in counts.items():
        frames = list(pcap.read(outcome.folder / "pcap" / f"{name}.pcap"))
        assert len(frames) == last["tx_packets"] + last["rx_packets"] > 100
        assert all(before <= after for (before, _), (after, _) in pairwise(frames))
