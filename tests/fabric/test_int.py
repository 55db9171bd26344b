"""In-band telemetry: byte layout worked out by hand, and everything a hop must leave alone."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from controller.telemetry import ReportError, parse_report
from tests.fabric import frames as f
from tests.fabric.native import NativeSwitch, frames_of
from tests.fabric.plans import host_ip, host_mac, port_mac, star
from tests.fabric.traffic import data, delivered
from topologies.plan import IntPolicy

Make = Callable[..., NativeSwitch]
HOST_MODE = IntPolicy(mode="host")
EDGE_MODE = IntPolicy(mode="edge", sample_every=3)
WIRE_NS = 8  # per byte at 1 Gb/s


def probe(telemetry: bytes, *, rest: bytes = f.bth() + bytes(200), checksum: int = 0, ttl: int = 64) -> bytes:
    """A frame from host 1 to host 2 that carries telemetry headers."""
    body = f.udp(77, f.INT_PORT, telemetry + rest, checksum)
    return f.ethernet(port_mac(1), host_mac(1), 0x0800, f.ipv4(host_ip(1), host_ip(2), body, ttl=ttl))


def after_one_hop(telemetry: bytes, *, rest: bytes = f.bth() + bytes(200), checksum: int = 0) -> bytes:
    """What `probe` must look like at host 2, given its telemetry headers there."""
    frame = probe(telemetry, rest=rest, checksum=checksum, ttl=63)
    return f.mac(host_mac(2)) + f.mac(port_mac(2)) + frame[12:]


def test_every_instruction_in_bitmap_order(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    all_bits = {"instructions": 0xFF80, "ds": 0xC000, "hop_ml": 15}
    s.send(1, data(1, 2, size=1000), at=1000)  # occupies the link: the probe waits
    s.send(1, probe(f.int_headers(**all_bits)), at=2000)
    leaves = 1000 + (1000 + 24) * WIRE_NS
    s.drain()
    hop = b"".join(
        [
            struct.pack(">I", 7),  # node id
            struct.pack(">HH", 1, 2),  # ingress and egress port
            struct.pack(">I", leaves - 2000),  # hop latency, ns
            struct.pack(">I", 3 << 24 | 0),  # queue id, bytes left behind it
            struct.pack(">Q", 2000),  # ingress time
            struct.pack(">Q", leaves),  # egress time
            b"\xff" * 8,  # level 2 interfaces: not available
            struct.pack(">I", 0),  # utilisation: no window yet
            struct.pack(">I", 3 << 24 | 0),  # buffer id, bytes held
            struct.pack(">Q", 1024),  # wire bytes sent before it
            struct.pack(">I", 1_000_000),  # kbit/s
        ]
    )
    expected = after_one_hop(f.int_headers(**all_bits, remaining=7, stack=hop))
    assert frames_of(s.take(2))[1] == expected
    assert s.count("int_pushed", 2) == 1


def test_the_words_that_hpcc_asks_for(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    asked = {"instructions": 0x9400, "ds": 0xC000, "hop_ml": 7}
    for _ in range(3):
        s.send(1, probe(f.int_headers(**asked)), at=5000)
    s.drain()
    length = len(probe(f.int_headers(**asked)))
    slot = (length + 28 + 24) * WIRE_NS
    behind = (0, length, 0)  # the first left at once, before the others came
    for index, frame in enumerate(frames_of(s.take(2))):
        hop = struct.pack(
            ">IIQQI", 7, 3 << 24 | behind[index], 5000 + index * slot, index * (length + 52), 10**6
        )
        assert frame == after_one_hop(f.int_headers(**asked, remaining=7, stack=hop))


def test_the_newest_hop_is_pushed_in_front(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    older = struct.pack(">II", 0xAAAA, 0xBBBB)
    s.send(1, probe(f.int_headers(instructions=0x8000, hop_ml=1, remaining=3, stack=older)))
    s.drain()
    expected = f.int_headers(instructions=0x8000, hop_ml=1, remaining=2, stack=struct.pack(">I", 7) + older)
    assert frames_of(s.take(2)) == [after_one_hop(expected)]


def test_at_the_hop_limit_only_the_e_bit_is_set(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    s.send(1, probe(f.int_headers(instructions=0x8000, hop_ml=1, remaining=0)))
    s.drain()
    expected = f.int_headers(instructions=0x8000, hop_ml=1, remaining=0, flags=2)
    assert frames_of(s.take(2)) == [after_one_hop(expected)]
    assert s.count("int_hop_limit", 2) == 1


@pytest.mark.parametrize(
    ("stack", "payload"),
    [(bytes(4 * 250), 100), (b"", 9216 - 20 - 8 - 16 - 12 - 11)],
    ids=["shim length full", "MTU"],
)
def test_without_room_only_the_m_bit_is_set(switch: Make, stack: bytes, payload: int) -> None:
    s = switch(star(telemetry=HOST_MODE))
    rest = f.bth() + bytes(payload)
    asked = {"instructions": 0xE000, "hop_ml": 3, "stack": stack}
    s.send(1, probe(f.int_headers(**asked), rest=rest))
    s.drain()
    assert frames_of(s.take(2)) == [after_one_hop(f.int_headers(**asked, flags=1), rest=rest)]
    assert s.count("int_mtu", 2) == 1


def test_a_hop_that_just_fits_the_mtu_is_pushed(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    rest = f.bth() + bytes(9216 - 20 - 8 - 16 - 12 - 12)
    s.send(1, probe(f.int_headers(instructions=0xE000, hop_ml=3), rest=rest))
    s.drain()
    (frame,) = frames_of(s.take(2))
    assert len(frame) == 14 + 9216


@pytest.mark.parametrize(
    ("asked", "checksum"),
    [
        ({"instructions": 0x8000, "hop_ml": 1, "version": 1}, 0),
        ({"instructions": 0x8040, "hop_ml": 2}, 0),
        ({"instructions": 0x8001, "hop_ml": 2}, 0),
        ({"instructions": 0x8000, "ds": 0x2000, "hop_ml": 2}, 0),
        ({"instructions": 0x8000, "hop_ml": 2}, 0),
        ({"instructions": 0xC000, "hop_ml": 1}, 0),
        ({"instructions": 0x8000, "ds": 0x8000, "hop_ml": 3, "domain": 9}, 0),
        ({"instructions": 0x8000, "hop_ml": 1}, 0x1234),
    ],
    ids=["version", "reserved", "complement", "unknown DS", "too long", "too short", "domain", "checksum"],
)  # fmt: skip
def test_what_a_hop_cannot_honour_it_leaves_alone(switch: Make, asked: dict[str, int], checksum: int) -> None:
    s = switch(star(telemetry=HOST_MODE))
    s.send(1, probe(f.int_headers(**asked), checksum=checksum))
    s.drain()
    assert frames_of(s.take(2)) == [after_one_hop(f.int_headers(**asked), checksum=checksum)]
    assert s.count("int_skipped", 2) == 1


def test_an_unknown_domain_without_ds_instructions_is_served(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    s.send(1, probe(f.int_headers(instructions=0x8000, hop_ml=1, domain=9)))
    s.drain()
    assert s.count("int_pushed", 2) == 1


def test_ipv6_lengths_grow_with_the_stack(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE, groups={"fd00::2/128": (2,)}))

    def packet(telemetry: bytes, hop_limit: int) -> bytes:
        body = f.udp(77, f.INT_PORT, telemetry + f.bth() + bytes(50))
        return f.ipv6("fd00::1", "fd00::2", body, hop_limit=hop_limit)

    s.send(
        1,
        f.ethernet(
            port_mac(1), host_mac(1), 0x86DD, packet(f.int_headers(instructions=0x8000, hop_ml=1), 64)
        ),
    )
    s.drain()
    grown = f.int_headers(instructions=0x8000, hop_ml=1, remaining=7, stack=struct.pack(">I", 7))
    assert frames_of(s.take(2)) == [f.ethernet(host_mac(2), port_mac(2), 0x86DD, packet(grown, 63))]


def test_the_edge_restores_the_packet_and_reports_it(switch: Make) -> None:
    s = switch(star(telemetry=EDGE_MODE))
    for index in range(6):
        s.send(1, data(1, 2, psn=index), at=index * 10_000)
    s.drain()
    assert frames_of(s.take(2)) == [delivered(1, 2, psn=index) for index in range(6)]
    reports = s.reports()
    assert len(reports) == 2  # the third and the sixth
    for report, index in zip(reports, (2, 5), strict=True):
        assert report[:3] == (1 << 15 | 2 << 6 | 1).to_bytes(3, "big")  # ports 1 and 2, reason 1
        record = parse_report(report[3:])
        assert (record["src"], record["dst"], record["sport"]) == (host_ip(1), host_ip(2), 1000)
        assert record["hops"] == [
            {
                "node_id": 7, "in_port": 1, "out_port": 2, "latency": 0, "queue": 3, "queue_bytes": 0,
                "in_ts": index * 10_000, "out_ts": index * 10_000, "util": 0.0,
                "tx_bytes": index * 524, "rate_kbps": 1_000_000,
            }
        ]  # fmt: skip


def test_telemetry_crosses_three_switches_and_leaves_no_trace(switch: Make) -> None:
    first = switch(star(telemetry=IntPolicy(mode="edge"), kinds={2: "up"}))
    middle = switch(star(telemetry=IntPolicy(mode="edge"), kinds={1: "down", 2: "up"}))
    last = switch(star(telemetry=IntPolicy(mode="edge"), kinds={1: "down"}))
    frame = data(1, 2)
    for hop in (first, middle, last):
        hop.send(1, f.mac(port_mac(1)) + frame[6:])
        hop.drain()
        (frame,) = frames_of(hop.take(2))
    assert frame == delivered(1, 2, ttl=62)
    assert first.reports() == middle.reports() == []
    (report,) = last.reports()
    record = parse_report(report[3:])
    assert len(record["hops"]) == 3
    # Path order: the queue of each later switch was left later on its own clock, tx_bytes count its first packet.
    assert [hop["tx_bytes"] for hop in record["hops"]] == [0, 0, 0]
    assert not record["hops_exceeded"]


def test_acks_and_cnps_and_other_udp_are_not_sampled(switch: Make) -> None:
    s = switch(star(telemetry=IntPolicy(mode="edge")))
    for body, port, checksum in (
        (f.bth(0x11) + bytes(8), f.ROCE_PORT, 0),
        (f.bth(0x81) + bytes(20), f.ROCE_PORT, 0),
        (bytes(50), 53, 0),
        (f.bth() + bytes(50), f.ROCE_PORT, 0xBEEF),
    ):
        packet = f.ipv4(host_ip(1), host_ip(2), f.udp(5, port, body, checksum))
        s.send(1, f.ethernet(port_mac(1), host_mac(1), 0x0800, packet))
    s.drain()
    assert len(s.take(2)) == 4
    assert s.reports() == []


def test_one_departure_can_resume_its_upstream_and_report(switch: Make) -> None:
    s = switch(star(telemetry=IntPolicy(mode="edge")))
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(21):
        s.send(1, data(1, 2, psn=index))
    s.send(2, f.pfc({3: 0}), at=50_000)
    s.drain()
    assert [f.read_pfc(frame) for frame in frames_of(s.take(1))] == [{3: 0xFFFF}, {3: 0}]
    assert frames_of(s.take(2)) == [delivered(1, 2, psn=index) for index in range(21)]
    reports = s.reports()
    assert len(reports) == 21
    # Reports that pass through the loop port may arrive later than others; their queue levels are all there.
    levels = sorted(parse_report(report[3:])["hops"][0]["queue_bytes"] for report in reports)
    assert levels == [500 * behind for behind in range(21)]


def test_a_probe_marked_discard_ends_at_the_sink(switch: Make) -> None:
    s = switch(star(telemetry=IntPolicy(mode="edge")))
    s.send(1, probe(f.int_headers(instructions=0x8000, hop_ml=1, flags=4)))
    s.drain()
    assert s.take(2) == []
    assert len(s.reports()) == 1
    assert s.drops() == {("int_probe", 1, -1): 1}
    assert (s.held(1, 3), s.queued(2, 3)) == (0, 0)


def test_occupancy_saturates_instead_of_wrapping(switch: Make) -> None:
    s = switch(star(telemetry=HOST_MODE))
    s.engine.register_write("queue_bytes", 2 * 8 + 3, 0x2000000)
    s.send(1, probe(f.int_headers(instructions=0x1000, hop_ml=1)))
    s.drain()
    expected = f.int_headers(instructions=0x1000, hop_ml=1, remaining=7, stack=b"\x03\xff\xff\xfe")
    assert frames_of(s.take(2)) == [after_one_hop(expected)]


@pytest.mark.parametrize("cut", [0, 10, 30, 41, 50])
def test_a_report_that_is_cut_short_is_an_error_not_a_crash(switch: Make, cut: int) -> None:
    s = switch(star(telemetry=IntPolicy(mode="edge")))
    s.send(1, data(1, 2))
    s.drain()
    (report,) = s.reports()
    with pytest.raises(ReportError, match=r"ends inside|expected IPv4"):
        parse_report(report[3 : 3 + cut])
