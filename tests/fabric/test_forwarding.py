"""Routing, rewriting, and every reason to refuse a frame."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fabric import frames as f
from tests.fabric.native import NativeSwitch, frames_of, ports_of
from tests.fabric.plans import LOSSLESS, LOSSY, host_ip, host_mac, port_mac, star
from tests.fabric.traffic import data, delivered

Make = Callable[..., NativeSwitch]


def test_a_routed_frame_changes_its_macs_and_ttl_and_checksum_only(switch: Make) -> None:
    s = switch(star())
    s.send(1, data(1, 2, psn=7))
    s.drain()
    assert [(out.port, out.frame) for out in s.take()] == [(2, delivered(1, 2, psn=7))]
    assert s.drops() == {}
    assert (s.count("rx", 1, 3), s.count("tx", 2, 3), s.count("roce_data", 1)) == (1, 1, 1)


def test_byte_counts_return_to_zero_after_every_packet_has_left(switch: Make) -> None:
    s = switch(star())
    for index in range(10):
        s.send(1, data(1, 2, psn=index))
    assert s.held(1, 3) == s.queued(2, 3) == 9 * 500  # the first is on the wire
    s.drain()
    assert (s.held(1, 3), s.queued(2, 3), s.engine.register_read("port_bytes", 2)) == (0, 0, 0)


def test_frames_leave_at_line_rate_of_wire_bytes(switch: Make) -> None:
    s = switch(star(rate_bps=10**9))
    for index in range(3):
        s.send(1, data(1, 2, psn=index), at=1000)
    s.drain()
    wire_ns = (500 + 24) * 8
    assert [out.time for out in s.take()] == [1000 + wire_ns, 1000 + 2 * wire_ns, 1000 + 3 * wire_ns]


def test_ipv6_is_routed_with_its_hop_limit_decremented(switch: Make) -> None:
    s = switch(star(groups={"fd00::2/128": (2,)}))
    packet = f.udp(9, f.ROCE_PORT, f.bth() + bytes(100))
    s.send(1, f.ethernet(port_mac(1), host_mac(1), 0x86DD, f.ipv6("fd00::1", "fd00::2", packet)))
    s.drain()
    expected = f.ethernet(
        host_mac(2), port_mac(2), 0x86DD, f.ipv6("fd00::1", "fd00::2", packet, hop_limit=63)
    )
    assert frames_of(s.take(2)) == [expected]
    assert s.count("rx", 1, 3) == 1


def test_a_vlan_tag_is_kept(switch: Make) -> None:
    s = switch(star())
    plain = data(1, 2)
    tag = bytes.fromhex("81006005")
    s.send(1, plain[:12] + tag + plain[12:])
    s.drain()
    expected = delivered(1, 2)
    assert frames_of(s.take(2)) == [expected[:12] + tag + expected[12:]]


def test_the_longest_prefix_wins(switch: Make) -> None:
    s = switch(star(groups={"10.9.0.0/16": (3,), "10.9.1.0/24": (4,), "0.0.0.0/0": (2,)}))
    for address in ("10.9.2.1", "10.9.1.1", "192.0.2.1"):
        s.send(1, data(1, 0, to=address))
    s.drain()
    assert sorted(ports_of(s.take())) == [2, 3, 4]


def test_the_higher_class_leaves_first(switch: Make) -> None:
    s = switch(star(classes={3: LOSSLESS, 5: LOSSY, 0: LOSSY}))
    for index, dscp in enumerate((0, 0, 24, 40)):
        s.send(1, data(1, 2, psn=index, dscp=dscp), at=0)
    s.drain()
    order = [struct.unpack_from(">I", frame, 50)[0] for frame in frames_of(s.take(2))]
    assert order == [0, 3, 2, 1]


def frame(packet: bytes, ethertype: int = 0x0800, dst: str = port_mac(1)) -> bytes:
    return f.ethernet(dst, host_mac(1), ethertype, packet)


def ip(payload: bytes, proto: int = 17) -> bytes:
    return f.ipv4(host_ip(1), host_ip(2), payload, proto=proto)


def bad(frame: bytes, at: int, new: bytes) -> bytes:
    return frame[:at] + new + frame[at + len(new) :]


GOOD = data(1, 2)
TELEMETRY = f.int_headers(instructions=0x8000, hop_ml=1)


REFUSED = [
    ("too_short", GOOD[:30]),
    ("too_short", frame(ip(f.udp(1, 4791, bytes(4))))),
    ("malformed", bad(GOOD, 14, b"\x55")),
    ("malformed", bad(GOOD, 14, b"\x44")),
    ("malformed", frame(ip(bytes(400), proto=99))[:200]),
    ("malformed", frame(ip(f.udp(1, f.INT_PORT, bytes(60))))),
    ("malformed", frame(ip(struct.pack(">HHHH", 1, f.INT_PORT, 20, 0) + TELEMETRY + bytes(92)))),
    ("ip_checksum", bad(GOOD, 24, b"\x12\x34")),
    ("not_ip", frame(bytes(46), 0x0806)),
    ("not_ip", frame(bytes(46), 0x88B5)),
    ("ip_options", bad(GOOD, 14, b"\x46")),
    ("mac_control", frame(b"\x00\x01" + bytes(44), 0x8808, "01:80:c2:00:00:01")),
    ("mac_control", frame(b"\x01\x01" + bytes(44), 0x8808, "02:aa:00:00:00:00")),
    ("l2_destination", bad(GOOD, 0, f.mac(port_mac(2)))),
    ("l2_destination", bad(GOOD, 0, b"\xff" * 6)),
    ("ttl", data(1, 2, ttl=1)),
    ("ttl", data(1, 2, ttl=0)),
    ("no_route", data(1, 2, to="203.0.113.9")),
]
"""Reason and frame."""


@pytest.mark.parametrize(
    ("reason", "refused"), REFUSED, ids=[f"{reason}-{index}" for index, (reason, _) in enumerate(REFUSED)]
)
def test_a_frame_that_is_refused_is_counted_by_reason(switch: Make, reason: str, refused: bytes) -> None:
    s = switch(star())
    s.engine.rx(1, refused, 0)  # as it is: not padded
    s.drain()
    assert s.take() == []
    assert s.drops() == {(reason, 1, -1): 1}


def test_a_port_without_configuration_drops_and_counts(switch: Make) -> None:
    s = switch(star())
    s.engine.add_port(9, 10**9, 0)
    s.send(9, data(1, 2))
    s.drain()
    assert s.take() == []
    assert s.engine.counter_read("drops", 9 * 32 + 10)[0] == 1


def test_ethernet_padding_behind_the_ip_packet_is_accepted(switch: Make) -> None:
    s = switch(star())
    packet = f.ipv4(host_ip(1), host_ip(2), bytes(3), proto=99)
    s.send(1, f.ethernet(port_mac(1), host_mac(1), 0x0800, packet))
    s.drain()
    (out,) = s.take(2)
    assert len(out.frame) == 60
    assert out.frame[14:37] == f.ipv4(host_ip(1), host_ip(2), bytes(3), proto=99, ttl=63)


def test_a_class_change_on_a_link_moves_queue_and_dscp(switch: Make) -> None:
    s = switch(star(classes={3: LOSSLESS, 4: LOSSLESS}))
    s.program(replace(s.intent, class_map={(2, 3): 4}))
    s.send(2, f.pfc({4: 0xFFFF}))
    s.send(1, data(1, 2))
    s.send(1, data(1, 3))
    s.run(100_000)
    assert ports_of(s.take()) == [3]  # only the packet on the changed link waits in class 4
    assert s.queued(2, 4) == s.held(1, 3) == 500
    s.send(2, f.pfc({4: 0}))
    s.drain()
    assert frames_of(s.take(2)) == [delivered(1, 2, dscp=32)]


def test_a_class_change_rewrites_ipv6_too(switch: Make) -> None:
    s = switch(star(groups={"fd00::2/128": (2,)}))
    s.program(replace(s.intent, class_map={(2, 3): 4}))
    packet = f.ipv6("fd00::1", "fd00::2", f.udp(9, f.ROCE_PORT, f.bth() + bytes(100)), dscp=29)
    s.send(1, frame(packet, 0x86DD))
    s.drain()
    (changed,) = frames_of(s.take(2))
    assert changed[14:16] == (6 << 12 | 37 << 6 | 2 << 4).to_bytes(2, "big")  # DSCP 4 * 8 + 5, ECT(0)


def test_acks_naks_and_cnps_are_told_apart(switch: Make) -> None:
    s = switch(star())
    bodies = {
        "roce_ack": f.bth(0x11) + b"\x1f\x00\x00\x01" + bytes(4),
        "roce_nak": f.bth(0x11) + b"\x60\x00\x00\x01" + bytes(4),
        "roce_cnp": f.bth(0x81) + bytes(16) + bytes(4),
        "roce_data": f.bth(0x07) + bytes(64),
    }
    for body in bodies.values():
        s.send(
            1,
            f.ethernet(
                port_mac(1), host_mac(1), 0x0800, f.ipv4(host_ip(1), host_ip(2), f.udp(5, 4791, body))
            ),
        )
    s.drain()
    assert {name: s.count(name, 1) for name in bodies} == dict.fromkeys(bodies, 1)
    assert len(s.take(2)) == 4


def test_a_packet_out_is_sent_as_it_is(switch: Make) -> None:
    s = switch(star())
    frame = data(1, 2)
    s.packet_out(frame, port=3, cls=6)
    s.drain()
    assert [(out.port, out.frame) for out in s.take()] == [(3, frame)]


def test_an_unknown_packet_out_operation_is_counted(switch: Make) -> None:
    s = switch(star())
    s.packet_out(bytes(60), operation=9)
    s.drain()
    assert s.take() == []
    assert s.engine.counter_read("drops", 510 * 32 + 14)[0] == 1


def test_a_lossy_class_drops_above_its_queue_limit(switch: Make) -> None:
    s = switch(star())  # class 0: 8000 bytes
    for index in range(30):
        s.send(1, data(1, 2, psn=index, dscp=0), at=0)
    # The first is on the wire at once, sixteen fill the queue.
    assert s.drops() == {("queue", 2, 0): 13}
    s.drain()
    assert [struct.unpack_from(">I", frame, 50)[0] for frame in frames_of(s.take(2))] == list(range(17))
    assert s.engine.counter_read("drops", 1 * 32 + 11)[0] == 13
