"""Priority flow control: when pauses are sent, what they do, and that nothing is lost or reordered."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

from controller.queues import required_timer_hz
from tests.fabric import frames as f
from tests.fabric.native import NS, NativeSwitch, Out, frames_of
from tests.fabric.plans import LOSSLESS, port_mac, star, with_policy
from tests.fabric.traffic import data, psn

Make = Callable[..., NativeSwitch]
GBPS_WIRE_500 = (500 + 24) * 8
"""ns that a 500-byte frame occupies a link of 1 Gb/s."""
GBPS_WIRE_PFC = (60 + 24) * 8
QUANTUM_NS = 512


def pauses(outs: list[Out]) -> list[tuple[int, dict[int, int]]]:
    """(time, class to quanta) of the PFC frames."""
    return [(out.time, read) for out in outs if (read := f.read_pfc(out.frame)) is not None]


def test_xoff_is_sent_when_the_held_bytes_cross_xoff(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(20):
        s.send(1, data(1, 2, psn=index), at=1000 + index)
    s.run(50_000)
    assert s.held(1, 3) == 10_000  # at XOFF, not above it
    assert s.take() == []
    s.send(1, data(1, 2, psn=20), at=60_000)
    s.run(200_000)
    assert pauses(s.take(1)) == [(60_000 + GBPS_WIRE_PFC, {3: 0xFFFF})]
    for index in range(21, 30):
        s.send(1, data(1, 2, psn=index))
    s.run(400_000)
    assert s.take() == []  # once, not for every packet above
    assert (s.count("pfc_tx_xoff", 1, 3), s.count("pfc_rx_xoff", 2, 3)) == (1, 1)


def test_a_pause_frame_is_an_802_1qbb_frame_of_60_bytes(switch: Make) -> None:
    s = switch(with_policy(star(), 3, pause_quanta=0x1234))
    s.send(2, f.pfc({3: 0xFFFF}))
    for _ in range(21):
        s.send(1, data(1, 2))
    s.run(10_000)
    assert frames_of(s.take(1)) == [f.pfc({3: 0x1234}, src=port_mac(1))]


def test_xon_is_sent_when_the_held_bytes_reach_xon(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(21):
        s.send(1, data(1, 2, psn=index))
    s.run(100_000)
    s.take()
    s.send(2, f.pfc({3: 0}), at=200_000)
    s.drain()
    # The eleventh departure leaves ten packets: 5000 bytes.
    assert pauses(s.take(1)) == [(200_000 + 10 * GBPS_WIRE_500 + GBPS_WIRE_PFC, {3: 0})]
    assert [psn(frame) for frame in frames_of(s.take(2))] == list(range(21))
    assert s.count("pfc_tx_xon", 1, 3) == 1


def test_a_pause_expires_to_the_nanosecond(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 1000}), at=5000)
    s.send(1, data(1, 2), at=6000)
    s.drain()
    assert [out.time for out in s.take(2)] == [5000 + 1000 * QUANTUM_NS + GBPS_WIRE_500]


def test_quanta_of_a_fraction_of_a_tick_are_rounded_up(switch: Make) -> None:
    s = switch(star(rate_bps=100 * 10**9))  # 5.12 ns a quantum
    for quanta, ticks in ((1, 6), (25, 128), (65535, 335540)):
        s.send(2, f.pfc({3: quanta}))
        assert s.engine.register_read("pause_until", 2 * 8 + 3) - s.now == ticks


def test_a_new_pause_replaces_the_old_one(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 1000}), at=0)
    s.send(2, f.pfc({3: 1000}), at=300_000)
    s.send(1, data(1, 2))
    s.drain()
    assert [out.time for out in s.take(2)] == [300_000 + 1000 * QUANTUM_NS + GBPS_WIRE_500]


def test_one_frame_pauses_and_resumes_several_classes(switch: Make) -> None:
    s = switch(star(classes={3: LOSSLESS, 4: LOSSLESS, 5: LOSSLESS}))
    s.send(2, f.pfc({3: 0xFFFF, 5: 0xFFFF}))
    for dscp in (24, 32, 40):
        s.send(1, data(1, 2, dscp=dscp))
    s.run(100_000)
    assert [frame[15] >> 2 for frame in frames_of(s.take(2))] == [32]
    s.send(2, f.pfc({3: 0xFFFF, 5: 0}))
    s.run(200_000)
    assert [frame[15] >> 2 for frame in frames_of(s.take(2))] == [40]


def test_a_pause_stops_its_class_and_port_only(switch: Make) -> None:
    s = switch(star(classes={3: LOSSLESS}))
    s.send(2, f.pfc({3: 0xFFFF}))
    s.send(1, data(1, 2, dscp=24, psn=1))
    s.send(1, data(1, 2, dscp=0, psn=2))
    s.send(1, data(1, 3, dscp=24, psn=3))
    s.run(100_000)
    assert sorted((out.port, psn(out.frame)) for out in s.take()) == [(2, 2), (3, 3)]


def test_pauses_of_lossy_classes_are_ignored_and_counted(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({0: 0xFFFF, 7: 0xFFFF, 3: 0}))
    s.send(1, data(1, 2, dscp=0))
    s.drain()
    assert len(s.take(2)) == 1
    assert s.count("pfc_ignored", 2) == 1
    assert s.count("pfc_rx_xon", 2, 3) == 1


def test_a_lossless_class_drops_only_beyond_xoff_and_headroom(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(65):
        s.send(1, data(1, 2, psn=index))
    assert s.held(1, 3) == 30_000
    assert s.drops() == {("headroom", 1, 3): 5}
    s.send(2, f.pfc({3: 0}))
    s.drain()
    assert [psn(frame) for frame in frames_of(s.take(2))] == list(range(60))


def test_ingress_ports_are_accounted_apart(switch: Make) -> None:
    s = switch(star())
    s.send(3, f.pfc({3: 0xFFFF}))
    for _ in range(21):
        s.send(1, data(1, 3))
    for _ in range(20):
        s.send(2, data(2, 3))
    s.run(50_000)
    assert (s.held(1, 3), s.held(2, 3), s.queued(3, 3)) == (10_500, 10_000, 20_500)
    assert [out.port for out in s.take()] == [1]


def test_xoff_is_refreshed_before_it_expires(switch: Make) -> None:
    plan = with_policy(star(), 3, pause_quanta=1000)
    hz = required_timer_hz(plan, plan.switches[0])
    assert hz == 4 * 4 / (1000 * QUANTUM_NS / NS)
    s = switch(plan, timer_hz=hz)
    s.send(2, f.pfc({3: 0xFFFF}))  # 33.5 ms
    for _ in range(21):
        s.send(1, data(1, 2), at=1_000_000)
    s.run(6_000_000)
    sent = pauses(s.take(1))
    assert all(quanta == {3: 1000} for _, quanta in sent)
    gaps = [later - sooner for (sooner, _), (later, _) in itertools.pairwise(sent)]
    visit = 4 * NS / hz  # four ports, one a lap
    assert max(gaps) <= visit + 10 and len(gaps) >= 5_000_000 / visit - 2
    assert s.take() == []  # nobody else is paused


def test_refresh_ends_with_xon(switch: Make) -> None:
    plan = with_policy(star(), 3, pause_quanta=1000)
    s = switch(plan, timer_hz=required_timer_hz(plan, plan.switches[0]))
    s.send(2, f.pfc({3: 0xFFFF}))
    for _ in range(21):
        s.send(1, data(1, 2))
    s.run(1_000_000)
    s.send(2, f.pfc({3: 0}))
    s.run(3_000_000)
    sent = pauses(s.take(1))
    assert [quanta for _, quanta in sent][-2:] == [{3: 1000}, {3: 0}]
    assert sent[-1][0] < 1_100_000


def test_a_refresh_names_every_paused_class_in_one_frame(switch: Make) -> None:
    plan = star(classes={3: replace(LOSSLESS, pause_quanta=1000), 4: replace(LOSSLESS, pause_quanta=2000)})
    s = switch(plan, timer_hz=required_timer_hz(plan, plan.switches[0]))
    s.send(2, f.pfc({3: 0xFFFF, 4: 0xFFFF}))
    for dscp in (24, 32):
        for _ in range(21):
            s.send(1, data(1, 2, dscp=dscp))
    s.run(200_000)
    assert {3: 1000, 4: 2000} in [quanta for _, quanta in pauses(s.take(1))]


def test_pause_frames_overtake_data(switch: Make) -> None:
    s = switch(star())
    for _ in range(50):
        s.send(2, data(2, 1), at=0)  # port 1 is busy with 50 frames
    s.take()
    s.send(3, f.pfc({3: 0xFFFF}), at=100)
    for _ in range(21):
        s.send(1, data(1, 3), at=100)
    s.drain(limit=1_000_000)
    out = s.take(1)
    position = next(index for index, each in enumerate(out) if f.read_pfc(each.frame))
    assert position == 1  # behind the frame that was on the wire


def test_a_storm_of_pauses_loses_and_reorders_nothing(switch: Make) -> None:
    s = switch(star())
    rng = random.Random(4)
    sent: dict[int, list[int]] = {1: [], 3: []}
    paused = {1: False, 3: False}
    number, now = 0, 0
    while number < 600:
        now += rng.randrange(1, 9_000)
        s.run(now)
        for port in (1, 3):
            for _, quanta in pauses(s.take(port)):
                paused[port] = quanta[3] > 0
        if rng.random() < 0.3:
            s.send(2, f.pfc({3: rng.choice([0, 0, 10, 100, 1000])}))
        for port in (1, 3):
            if not paused[port]:
                s.send(port, data(port, 2, psn=number, sport=port))
                sent[port].append(number)
                number += 1
    s.send(2, f.pfc({3: 0}))
    s.drain()
    arrived = [frame for frame in frames_of(s.take(2))]
    for port in (1, 3):
        mine = [psn(frame) for frame in arrived if frame[29] == port]
        assert mine == sent[port]
    assert s.drops() == {}
    assert (s.held(1, 3), s.held(3, 3), s.queued(2, 3)) == (0, 0, 0)
    assert s.count("lost", 2, 3) == s.count("holds", 2, 3) == 0


def test_reset_clears_a_ports_accounting_and_resumes_its_upstream(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 0xFFFF}))
    for _ in range(21):
        s.send(1, data(1, 2))
    s.run(50_000)
    s.take()
    s.packet_out(bytes(48), port=1, operation=3)
    s.run(100_000)
    assert s.held(1, 3) == 0
    assert [quanta for _, quanta in pauses(s.take(1))] == [{3: 0}]


def test_an_upstream_is_not_left_paused_for_frames_that_the_traffic_manager_had_no_room_for(
    switch: Make,
) -> None:
    s = switch(star())
    s.engine.set_queue(2, 3, limit_packets=15)  # less than XOFF plus headroom: frames beyond are lost
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(30):
        s.send(1, data(1, 2, psn=index))
    assert s.engine.drops()["queue_packets"][0] == 15
    assert (s.held(1, 3), s.queued(2, 3)) == (15 * 500, 15 * 500)
    s.send(2, f.pfc({3: 0}), at=200_000)
    s.drain()
    assert [psn(frame) for frame in frames_of(s.take(2))] == list(range(15))
    assert (s.held(1, 3), s.queued(2, 3)) == (0, 0)
    assert s.engine.register_read("port_bytes", 2) == s.engine.register_read("xoff_mask", 1) == 0


def test_a_port_that_goes_with_frames_in_its_queue_leaves_no_upstream_paused(switch: Make) -> None:
    s = switch(star())
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(30):
        s.send(1, data(1, 2, psn=index))
    s.run(400_000)
    assert s.count("pfc_tx_xoff", 1, 3) == 1 and s.held(1, 3) == 30 * 500
    s.take()
    s.engine.remove_port(2)
    s.drain()
    assert [classes for _, classes in pauses(s.take(1))] == [{3: 0}]
    assert (s.held(1, 3), s.queued(2, 3), s.count("pfc_tx_xon", 1, 3)) == (0, 0, 1)
