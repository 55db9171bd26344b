"""The NIC's link: exact times, pacing, classes, PFC in both directions, and what a late driver may not change."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switch.link import wire_time_ps
from tests.traffic.fabrics import GBPS, NicPair, drops, pair_plan
from traffic.build import EndpointConfig, TrafficOptions, build_hosts
from traffic.collectives import Message, Workload, permutation
from traffic.endpoint import Endpoint
from traffic.nic.config import CongestionConfig, ReceiverConfig
from traffic.nic.nic import Nic
from traffic.wire import pfc

QPN = NicPair.QPN
QUANTUM_NS_100G = 5.12
FIRST_FRAME = 1024 + 58 + 16
"""RETH comes with the first packet of a message."""
MIDDLE_FRAME = 1024 + 58
LAST_FRAME = 1024 + 58 + 4


def line_rate_ns(packets: int, rate_bps: int, delay_ns: int) -> int:
    """Arrival of the last bit of a message of full packets that starts at 0."""
    ps = wire_time_ps(FIRST_FRAME, rate_bps) + wire_time_ps(LAST_FRAME, rate_bps)
    ps += (packets - 2) * wire_time_ps(MIDDLE_FRAME, rate_bps)
    return -(-ps // 1000) + delay_ns


@pytest.mark.parametrize("rate", [10 * GBPS, 25 * GBPS, 100 * GBPS, 400 * GBPS, 800 * GBPS])
@pytest.mark.parametrize("packets", [2, 3, 1000])
def test_a_transfer_at_line_rate_takes_its_bits_to_the_nanosecond(rate: int, packets: int) -> None:
    pair = NicPair(pair_plan(rate_bps=rate, delay_ns=700))
    pair.a.post(QPN, 1, packets * 1024, 0)
    pair.wire.run()
    assert pair.received == [(1, packets * 1024, line_rate_ns(packets, rate, 700))]


def test_a_hundred_gigabit_megabyte_takes_what_paper_and_pencil_say() -> None:
    # 1024 packets of 1024 + 58 + 24 wire bytes, 20 bytes of RETH and immediate data, 80 ps a byte, 1 us of fibre.
    pair = NicPair()
    pair.a.post(QPN, 1, 1 << 20, 0)
    pair.wire.run()
    assert pair.received[0][2] == -(-(1024 * 1106 + 20) * 80 // 1000) + 1000


def test_time_scale_multiplies_times_and_keeps_bytes() -> None:
    arrivals = []
    for scale in (1.0, 1000.0):
        pair = NicPair(pair_plan(time_scale=scale))
        pair.a.post(QPN, 1, 100 * 1024, 0)
        pair.wire.run()
        arrivals.append(pair.received[0][2])
    assert arrivals[1] == pytest.approx(1000 * arrivals[0], abs=1000)


def test_a_paced_flow_leaves_gaps_of_exactly_its_rate() -> None:
    pair = NicPair(options=TrafficOptions(CongestionConfig("dcqcn")))
    pair.requester.congestion.rate_bps = 25 * GBPS
    pair.a.post(QPN, 1, 100 * 1024, 0)
    pair.wire.run()
    middles = [t for t, _, opcode in pair.data() if opcode == 7]
    gap_ps = (MIDDLE_FRAME + 24) * 8 * 1000 // 25
    first = (FIRST_FRAME + 24) * 8 * 1000 // 25 + wire_time_ps(MIDDLE_FRAME, 100 * GBPS)
    assert middles == [-(-(first + i * gap_ps) // 1000) + 1000 for i in range(98)]


def test_two_flows_of_a_class_share_the_link_packet_by_packet() -> None:
    plan = pair_plan()
    workload = Workload(
        "two", ("h0", "h1"), tuple(Message(i, "h0", "h1", 50 * 1024, channel=i) for i in range(2))
    )
    a, b = (Endpoint(c) for c in build_hosts(plan, workload))
    from tests.traffic.fabrics import Wire

    wire = Wire(a, b)
    a.start(0)
    wire.run()
    qpns = [int.from_bytes(f[47:50], "big") for _, who, f in wire.log if who == "a"]
    assert qpns == [0x11, 0x12] * 50


def test_the_higher_class_goes_first() -> None:
    workload = Workload(
        "two",
        ("h0", "h1"),
        tuple(Message(i, "h0", "h1", 20 * 1024, traffic_class=c) for i, c in enumerate((3, 5))),
    )
    a, b = (Endpoint(c) for c in build_hosts(pair_plan(), workload))
    from tests.traffic.fabrics import Wire

    wire = Wire(a, b)
    a.start(0)
    wire.run()
    assert [f[15] >> 5 for _, who, f in wire.log if who == "a"] == [5] * 20 + [3] * 20


def pause(nic: Nic, traffic_class: int, quanta: int, now: int) -> None:
    nic.rx(0, pfc.build(bytes(6), {traffic_class: quanta}), now)


@pytest.mark.parametrize("quanta", [1, 100, 1000, 65535])
def test_a_pause_expires_to_the_nanosecond(quanta: int) -> None:
    pair = NicPair()
    pause(pair.a, 3, quanta, 50)
    pair.a.post(QPN, 1, 1, 50)
    pair.wire.run()
    until = 50 + quanta * QUANTUM_NS_100G
    frame = wire_time_ps(58 + 20 + 4, 100 * GBPS) / 1000
    assert pair.data()[0][0] == pytest.approx(until + frame + 1000, abs=1)
    [event] = pair.of("pause")
    assert (event["node"], event["port"], event["class"], event["t"]) == ("h0", 0, 3, 50)
    assert event["until"] == pytest.approx(until, abs=1)
    assert pair.a.paused_ns(10**9)[3] == pytest.approx(quanta * QUANTUM_NS_100G, abs=1)


def test_xon_resumes_at_once_and_a_frame_on_the_wire_is_finished() -> None:
    pair = NicPair()
    pair.a.post(QPN, 1, 10 * 1024, 0)
    pair.wire.run(until=10)  # the first frame (89.76 ns) is being sent
    pause(pair.a, 3, 65535, 20)
    pair.wire.run(until=5_000)
    assert len(pair.data()) == 1
    pause(pair.a, 3, 0, 5_000)
    pair.wire.run()
    assert pair.data()[1][0] == 5_000 + -(-wire_time_ps(MIDDLE_FRAME, 100 * GBPS) // 1000) + 1000
    assert [event["until"] > 0 for event in pair.of("pause")] == [True, False]
    assert pair.a.paused_ns(10**9)[3] == 5_000 - 20
    assert pair.received[0][:2] == (1, 10 * 1024)


def test_a_refreshed_pause_counts_once() -> None:
    pair = NicPair()
    pause(pair.a, 3, 1000, 0)
    pause(pair.a, 3, 1000, 2_000)
    assert pair.a.paused_ns(10**6)[3] == 2_000 + 5_120
    assert pair.a.pauses_received[3] == 2


def test_a_pause_of_one_class_does_not_hold_another() -> None:
    workload = Workload(
        "two",
        ("h0", "h1"),
        tuple(Message(i, "h0", "h1", 4 * 1024, traffic_class=c) for i, c in enumerate((3, 5))),
    )
    a, b = (Endpoint(c) for c in build_hosts(pair_plan(), workload))
    from tests.traffic.fabrics import Wire

    wire = Wire(a, b)
    pause(a.nic, 3, 65535, 0)
    a.start(0)
    wire.run(until=100_000)
    assert {f[15] >> 5 for _, who, f in wire.log if who == "a"} == {5}


def test_a_pause_of_a_lossy_class_is_counted_and_not_obeyed() -> None:
    pair = NicPair(pair_plan(lossless=False))
    pause(pair.a, 3, 65535, 0)
    pair.a.post(QPN, 1, 1, 0)
    pair.wire.run(until=10_000)
    assert len(pair.received) == 1
    assert drops(pair.a) == {"pfc_class": 1}


def test_cnps_and_pfc_frames_overtake_a_paused_class() -> None:
    pair = NicPair()
    pause(pair.a, 3, 65535, 0)
    pair.a.post(QPN, 1, 1, 0)
    pair.a._send_pause(3, 100, 0)
    pair.wire.run(until=10_000)
    assert [f[12:14] for _, who, f in pair.wire.log if who == "a"] == [b"\x88\x08"]


def test_a_paused_sender_uses_up_no_retries() -> None:
    pair = NicPair()
    pair.a.post(QPN, 1, 4 * 1024, 0)
    for now in range(0, 10**9, 200_000):  # a second of storm: XOFF before the last one (335 us) runs out
        pause(pair.a, 3, 65535, now)
        pair.wire.run(until=now)
    pair.wire.run()
    assert pair.failed == []
    assert [id for id, _ in pair.sent] == [1]


RECEIVER = ReceiverConfig(
    drain_bps=10 * GBPS, limit_bytes=200_000, xoff_bytes=50_000, xon_bytes=20_000, pause_quanta=2_000
)


def test_a_slow_receiver_pauses_its_sender_and_loses_nothing() -> None:
    pair = NicPair(b_receiver=RECEIVER)
    size = 2_000 * 1024
    pair.a.post(QPN, 1, size, 0)
    pair.wire.run()
    assert [r[:2] for r in pair.received] == [(1, size)]
    assert drops(pair.b) == {} and pair.of("retransmit") == []
    # Drained at 10 Gb/s from the arrival of the first frame on, one after another.
    ps = wire_time_ps(FIRST_FRAME, 10 * GBPS) + 1998 * wire_time_ps(MIDDLE_FRAME, 10 * GBPS)
    ps += wire_time_ps(LAST_FRAME, 10 * GBPS)
    first_arrival = -(-wire_time_ps(FIRST_FRAME, 100 * GBPS) // 1000) + 1000
    assert pair.received[0][2] == pytest.approx(first_arrival + ps / 1000, abs=2)
    buffer = pair.b._buffer
    assert buffer is not None
    # XOFF is crossed by one frame; until it works, one round trip and one frame more can arrive.
    assert RECEIVER.xoff_bytes <= buffer.peak_bytes <= RECEIVER.xoff_bytes + 2_000 * 12.5 + 4 * FIRST_FRAME
    sent = [(e["quanta"] > 0) for e in pair.of("pause_sent")]
    assert True in sent and False in sent
    assert pair.a.paused_ns(10**10)[3] > 0.8 * pair.received[0][2]


def test_xoff_is_renewed_before_it_runs_out() -> None:
    slow = replace(RECEIVER, drain_bps=GBPS // 100)
    pair = NicPair(b_receiver=slow)
    pair.a.post(QPN, 1, 200 * 1024, 0)
    pair.wire.run(until=1_000_000)
    times = [e["t"] for e in pair.of("pause_sent")]
    renewal = 2_000 * QUANTUM_NS_100G / 2
    assert len(times) > 100
    assert all(b - a == pytest.approx(renewal, abs=1) for a, b in pairwise(times))
    assert len(pair.data()) < 80


def test_without_pfc_a_slow_receiver_drops_and_counts() -> None:
    pair = NicPair(pair_plan(lossless=False), b_receiver=RECEIVER)
    pair.a.post(QPN, 1, 400 * 1024, 0)
    pair.wire.run()
    assert drops(pair.b)["receive_buffer"] > 0
    assert [r[:2] for r in pair.received] == [(1, 400 * 1024)]
    assert pair.of("pause_sent") == []


def test_marked_packets_are_answered_with_a_cnp_at_most_once_an_interval() -> None:
    def mark(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        from traffic.wire.template import ipv4_checksum

        if who == "a" and frame[15] & 3 == 2:
            marked = bytearray(frame)
            marked[15] |= 3
            marked[24:26] = b"\0\0"
            marked[24:26] = ipv4_checksum(bytes(marked[14:34])).to_bytes(2, "big")
            return [(0, bytes(marked))]
        return [(0, frame)]

    pair = NicPair(options=TrafficOptions(CongestionConfig("dcqcn")), meddle=mark)
    pair.a.post(QPN, 1, 4_000 * 1024, 0)
    pair.wire.run()
    times = [e["t"] for e in pair.of("cnp") if e["dir"] == "tx"]
    arrivals = [t for t, _, _ in pair.data()]
    expected = []
    for t in arrivals:
        if not expected or t >= expected[-1] + 50_000:
            expected.append(t)
    assert times == expected and len(times) > 5
    assert len([e for e in pair.of("cnp") if e["dir"] == "rx"]) == len(times)
    assert all(f[15] >> 2 == 48 for _, who, f in pair.wire.log if who == "b" and f[42] == 0x81)
    assert pair.requester.congestion.rate_bps < 100 * GBPS


def test_acknowledgements_and_cnps_are_not_ecn_capable() -> None:
    pair = NicPair()
    pair.a.post(QPN, 1, 100 * 1024, 0)
    pair.wire.run()
    assert {f[15] & 3 for _, who, f in pair.wire.log if who == "a"} == {2}
    assert {f[15] & 3 for _, who, f in pair.wire.log if who == "b"} == {0}


def _script(config: EndpointConfig, times: list[int], rate_bps: int) -> list[tuple[bytes, ...]]:
    """Frames of a paced sender that is paused, resumed and polled at `times`."""
    endpoint = Endpoint(config)
    for pair in endpoint.nic.queue_pairs.values():
        pair.requester.congestion.rate_bps = rate_bps
    endpoint.start(0)
    events = [(1_000, 3, 100), (3_000, 3, 0), (3_010, 3, 50), (9_000, 3, 65535), (20_000, 3, 0)]
    frames: list[tuple[bytes, ...]] = []
    steps = sorted([(t, 1, 0) for t in times] + [(t, 0, quanta) for t, _, quanta in events])
    for t, kind, quanta in steps:
        if kind:
            frames += [(frame,) for _, frame in endpoint.poll(t)]
        else:
            pause(endpoint.nic, 3, quanta, t)
    return frames


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 100_000), max_size=60), st.sampled_from([20 * GBPS, 100 * GBPS]))
def test_a_driver_that_looks_late_changes_no_frame(times: list[int], rate: int) -> None:
    options = TrafficOptions(CongestionConfig("dcqcn"))
    config = build_hosts(pair_plan(), permutation(["h0", "h1"], 150 * 1024), options)[0]
    nic = config.nic
    config = EndpointConfig(replace(nic, transport=replace(nic.transport, rto_ns=10**9)), config.sends)
    end = 200_000
    punctual = _script(config, list(range(0, end, 10)), rate)
    late = _script(config, [*times, end], rate)
    assert len(punctual) == 150
    assert late == punctual


def test_the_deadline_is_never_before_something_can_come_out() -> None:
    pair = NicPair()
    pair.a.post(QPN, 1, 10 * 1024, 500)
    polls = 0
    while (due := pair.a.next_deadline()) is not None and due < 5_000:
        polls += 1
        pair.a.poll(due)
    assert polls <= 10 + 2  # one a frame, the post and the first start


def test_a_stalled_driver_catches_up_no_more_than_its_limit() -> None:
    pair = NicPair(pair_plan(rate_bps=10 * GBPS, delay_ns=0))
    pair.a.post(QPN, 1, 100 * 1024, 0)
    pair.a.catch_up(1_000_000, 2_000)
    late = pair.a.poll(1_000_000)
    # The first frame starts 2 us before now and takes 897.6 ns, the second fits too, the third does not.
    assert len(late) == math.floor((2_000 - wire_time_ps(FIRST_FRAME, 10 * GBPS) / 1000)
                                   / (wire_time_ps(MIDDLE_FRAME, 10 * GBPS) / 1000)) + 1  # fmt: skip
    assert pair.a.next_deadline() > 1_000_000
