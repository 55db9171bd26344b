"""Every kind of frame as Wireshark's dissectors see it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from zlib import crc32

import pytest

from tests.traffic.fabrics import Wire, pair_plan
from tests.traffic.test_wire import LAYERS, stacked, template, underlay
from traffic.build import TrafficOptions, build_hosts
from traffic.collectives import allreduce
from traffic.endpoint import Endpoint
from traffic.nic.config import CongestionConfig, ReceiverConfig
from traffic.wire.icrc import frame_icrc
from traffic.wire.template import LE32

pytestmark = [
    pytest.mark.judge,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]


UPPER_LAYERS = ("rpcordma",)
"""Protocols whose heuristics take any SEND payload for their own."""


def dissect(frames: list[bytes], folder: Path, *fields: str, heuristics: bool = True) -> list[list[str]]:
    """Rows of tshark fields, a list a frame."""
    path = folder / "frames.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)
    command = ["tshark", "-r", str(path), "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=;"]
    for name in () if heuristics else UPPER_LAYERS:
        command += ["--disable-protocol", name]
    for field in fields:
        command += ["-e", field]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split(";") for line in result.stdout.splitlines()]


def test_every_opcode_is_dissected_without_malformed(tmp_path: Path) -> None:
    from scapy.contrib.roce import BTH

    frames = []
    for opcode, layers in LAYERS:
        payload = b"" if opcode in (0x0C, 0x11, 0x12, 0x13, 0x14, 0x81) else b"payload."
        inner = BTH(opcode=opcode, dqpn=3, psn=4) / stacked([x.copy() for x in layers], payload)
        frames.append(bytes(underlay(4) / inner))
    rows = dissect(
        frames,
        tmp_path,
        "_ws.malformed",
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.reth.dmalen",
        "infiniband.immdt",
        "infiniband.aeth.msn",
        heuristics=False,
    )
    for (opcode, layers), row in zip(LAYERS, rows, strict=True):
        malformed, seen, psn, dmalen, immediate, msn = row
        names = [type(layer).__name__ for layer in layers]
        assert malformed == "", hex(opcode)
        assert (int(seen), int(psn)) == (opcode, 4)
        assert (dmalen == "3") == ("RETH" in names)
        assert (immediate != "") == ("ImmDt" in names)
        assert (msn == "3") == ("AETH" in names or "AtomicAETH" in names)


def test_a_run_with_pauses_and_congestion_has_no_malformed_frame(tmp_path: Path) -> None:
    plan = pair_plan()
    options = TrafficOptions(
        CongestionConfig("dcqcn"), receivers={"h1": ReceiverConfig(drain_bps=20_000_000_000)}
    )
    a, b = (Endpoint(c) for c in build_hosts(plan, allreduce(["h0", "h1"], 600_001), options))

    def mark(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if frame[15:16] == b"\x62":  # ECT(0) in class 3: the fabric marks CE and mends the checksum
            from traffic.wire.template import ipv4_checksum

            marked = bytearray(frame)
            marked[15] |= 1
            marked[24:26] = b"\0\0"
            marked[24:26] = ipv4_checksum(bytes(marked[14:34])).to_bytes(2, "big")
            frame = bytes(marked)
        return [(0, frame)]

    wire = Wire(a, b, mark)
    a.start(0)
    b.start(0)
    wire.run(stop=lambda: a.finished and b.finished)
    frames = [frame for _, _, frame in wire.log]
    rows = dissect(
        frames,
        tmp_path,
        "_ws.malformed",
        "ip.checksum.status",
        "infiniband.bth.opcode",
        "infiniband.invariant.crc",
        "macc.opcode",
        "macc.cbfc.pause_time.c3",
        "ip.dsfield.dscp",
    )
    kinds = set()
    for frame, (malformed, checksum, opcode, icrc, mac_control, quanta, dscp) in zip(
        frames, rows, strict=True
    ):
        assert malformed == ""
        if mac_control:
            assert int(mac_control, 0) == 0x0101 and int(quanta, 0) in (0, 0xFFFF)
            kinds.add("xoff" if int(quanta, 0) else "xon")
            continue
        assert checksum == "1"  # good
        if opcode != "129":  # this version does not know the CNP and shows its bytes as data
            assert int(icrc, 0).to_bytes(4, "big") == frame_icrc(frame).to_bytes(4, "little")
        kinds.add({"129": "cnp", "17": "ack"}.get(opcode, "data"))
        assert dscp == ("48" if opcode == "129" else "24")
    assert kinds == {"xoff", "xon", "cnp", "ack", "data"}


def test_an_ipv6_frame_is_dissected(tmp_path: Path) -> None:
    head = template(6).head(0x04, 8)
    body = bytes(12)
    frame = head.data + body + LE32.pack(crc32(body, head.icrc))
    rows = dissect(
        [frame],
        tmp_path,
        "_ws.malformed",
        "ipv6.dst",
        "infiniband.bth.destqp",
        "ipv6.tclass.dscp",
        heuristics=False,
    )
    assert rows == [["", "fd00::1:2", "0x123456", "24"]]


def test_frames_with_telemetry_are_plain_udp_to_it(tmp_path: Path) -> None:
    from tests.traffic.test_congestion import push_hop

    options = TrafficOptions(CongestionConfig("hpcc"))
    a, b = (
        Endpoint(c)
        for c in build_hosts(pair_plan(telemetry="host"), allreduce(["h0", "h1"], 60_001), options)
    )
    hop = b"".join(
        v.to_bytes(n, "big") for v, n in zip((7, 3 << 24, 9, 9, 10**8), (4, 4, 8, 8, 4), strict=True)
    )
    frames: list[bytes] = []

    def pushed(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        frames.append(push_hop(frame, hop))
        return [(0, frames[-1])]

    wire = Wire(a, b, pushed)
    a.start(0)
    b.start(0)
    wire.run()
    rows = dissect(frames, tmp_path, "_ws.malformed", "ip.checksum.status", "udp.dstport", "udp.length")
    assert {(row[0], row[1], row[2]) for row in rows} == {("", "1", "64791")}
    assert all(int(row[3]) == len(frame) - 34 for row, frame in zip(rows, frames, strict=True))
