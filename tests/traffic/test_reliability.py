"""RC transport: segmentation, acknowledgement, loss, duplication, reordering, timeouts, errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traffic.fabrics import Meddle, NicPair, drops, pair_plan
from traffic.nic.config import TransportConfig
from traffic.wire.headers import PSN_MASK, Opcode

RTO = 100_000
TRANSPORT = TransportConfig(rto_ns=RTO, ack_interval=4, retry_limit=7)
QPN = NicPair.QPN


def lose(*indices: int, sender: str = "a") -> Meddle:
    """Lose the frames of `sender` with these positions, counted from 0."""
    seen = -1

    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        nonlocal seen
        if who != sender:
            return [(0, frame)]
        seen += 1
        return [] if seen in indices else [(0, frame)]

    return meddle


@pytest.mark.parametrize(
    ("size", "opcodes"),
    [
        (1, [Opcode.WRITE_ONLY_IMM]),
        (1024, [Opcode.WRITE_ONLY_IMM]),
        (1025, [Opcode.WRITE_FIRST, Opcode.WRITE_LAST_IMM]),
        (2048, [Opcode.WRITE_FIRST, Opcode.WRITE_LAST_IMM]),
        (4000, [Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST_IMM]),
    ],
)
@pytest.mark.parametrize("write", [True, False])
def test_a_message_is_cut_at_the_mtu(size: int, opcodes: list[Opcode], write: bool) -> None:
    pair = NicPair()
    pair.a.post(QPN, 9, size, 0, write)
    pair.wire.run()
    expected = [op if write else op - Opcode.WRITE_FIRST for op in opcodes]
    if not write:
        expected = [
            {0: 0, 1: 1, 3: 3, 5: 5}[op] for op in expected
        ]  # WRITE and SEND opcodes have the same order
    assert [opcode for _, _, opcode in pair.data()] == expected
    assert pair.received == [(9, size, pair.received[0][2])]
    assert [id for id, _ in pair.sent] == [9]
    assert pair.responder.bytes_received == size


def test_packet_sequence_numbers_wrap_at_24_bits() -> None:
    first = PSN_MASK - 2
    pair = NicPair(transport=TRANSPORT, a_pair={"send_psn": first}, b_pair={"receive_psn": first})
    pair.a.post(QPN, 1, 6 * 1024, 0)
    pair.wire.run()
    assert [psn for _, psn, _ in pair.data()] == [PSN_MASK - 2, PSN_MASK - 1, PSN_MASK, 0, 1, 2]
    assert [id for id, _ in pair.sent] == [1]


@pytest.mark.parametrize("lost", range(6))
def test_a_loss_across_the_wrap_is_recovered(lost: int) -> None:
    first = PSN_MASK - 2
    pair = NicPair(
        transport=TRANSPORT, meddle=lose(lost), a_pair={"send_psn": first}, b_pair={"receive_psn": first}
    )
    pair.a.post(QPN, 1, 6 * 1024, 0)
    pair.wire.run()
    assert [id for id, _ in pair.sent] == [1]
    assert pair.responder.bytes_received == 6 * 1024


def test_acknowledgements_are_coalesced() -> None:
    pair = NicPair(transport=TransportConfig(ack_interval=4))
    pair.a.post(QPN, 1, 16 * 1024, 0)
    pair.wire.run()
    acks = [f for _, who, f in pair.wire.log if who == "b"]
    asked = {t for t, psn, _ in pair.data() if (psn + 1) % 4 == 0} | {pair.data()[-1][0]}
    assert len(acks) == len(asked)
    assert int.from_bytes(acks[-1][55:58], "big") == 1  # MSN


@pytest.mark.parametrize("lost", range(10))
def test_any_single_lost_packet_of_a_message_is_recovered_by_go_back_n(lost: int) -> None:
    pair = NicPair(transport=TRANSPORT, meddle=lose(lost))
    pair.a.post(QPN, 1, 10 * 1024, 0)
    pair.wire.run()
    assert [id for id, _ in pair.sent] == [1]
    assert [(imm, size) for imm, size, _ in pair.received] == [(1, 10 * 1024)]
    assert pair.responder.bytes_received == 10 * 1024
    [event] = pair.of("retransmit")
    first = pair.requester.config.send_psn
    if lost < 9:
        assert event["cause"] == "nak"
        assert event["t"] < RTO
        assert event["psn"] == (first + lost) & PSN_MASK
    else:  # nothing follows the tail that could show the gap: back to the last acknowledged packet
        assert event["cause"] == "timeout"
        acknowledged = max(p for p in range(first, first + 10) if p % 4 == 0)
        assert event["psn"] == acknowledged & PSN_MASK
        assert pair.requester.retransmitted == first + 10 - acknowledged


def test_one_nak_answers_a_gap_however_many_packets_follow() -> None:
    pair = NicPair(transport=TRANSPORT, meddle=lose(0))
    pair.a.post(QPN, 1, 30 * 1024, 0)
    pair.wire.run()
    assert pair.responder.naks == 1
    assert drops(pair.b)["out_of_order"] == pair.responder.out_of_order


def test_a_lost_nak_is_recovered_by_the_timer() -> None:
    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if who == "a":
            return lose_first(who, frame, now)
        return [] if frame[54] == 0x60 else [(0, frame)]

    lose_first = lose(0)
    pair = NicPair(transport=TRANSPORT, meddle=meddle)
    pair.a.post(QPN, 1, 4 * 1024, 0)
    pair.wire.run()
    assert [event["cause"] for event in pair.of("retransmit")] == ["timeout"]
    assert pair.of("retransmit")[0]["t"] == RTO
    assert [id for id, _ in pair.sent] == [1]


def test_a_lost_last_acknowledgement_is_recovered_and_the_message_delivered_once() -> None:
    pair = NicPair(transport=TransportConfig(rto_ns=RTO, ack_interval=100), meddle=lose(0, sender="b"))
    pair.a.post(QPN, 1, 3 * 1024, 0)
    pair.wire.run()
    assert [event["cause"] for event in pair.of("retransmit")] == ["timeout"]
    assert len(pair.received) == 1
    assert pair.responder.duplicates == 3
    assert [id for id, _ in pair.sent] == [1]


def test_a_later_acknowledgement_covers_a_lost_one() -> None:
    pair = NicPair(transport=TRANSPORT, meddle=lose(0, sender="b"))
    pair.a.post(QPN, 1, 12 * 1024, 0)
    pair.wire.run()
    assert pair.of("retransmit") == []
    assert [id for id, _ in pair.sent] == [1]


def test_a_duplicated_packet_is_delivered_once_and_acknowledged_again() -> None:
    def twice(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        return [(0, frame), (0, frame)]

    pair = NicPair(transport=TRANSPORT, meddle=twice)
    pair.a.post(QPN, 1, 5 * 1024, 0)
    pair.wire.run()
    assert [(imm, size) for imm, size, _ in pair.received] == [(1, 5 * 1024)]
    assert pair.responder.duplicates == 5
    assert pair.of("retransmit") == []


def swap(first: int) -> Meddle:
    """Deliver the frame of a with this position after its successor."""
    seen = -1

    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        nonlocal seen
        if who != "a":
            return [(0, frame)]
        seen += 1
        return [(100, frame)] if seen == first else [(0, frame)]

    return meddle


def test_a_reordered_packet_costs_a_retransmission_without_a_reorder_window() -> None:
    pair = NicPair(transport=TRANSPORT, meddle=swap(1))
    pair.a.post(QPN, 1, 5 * 1024, 0)
    pair.wire.run()
    first = pair.requester.config.send_psn
    asked = [(event["cause"], event["psn"] - first) for event in pair.of("retransmit")]
    assert asked == [("nak", 1), ("nak", 2)]  # the late packet fills its gap, the one before it was dropped
    assert [id for id, _ in pair.sent] == [1]


@pytest.mark.parametrize("first", range(8))
def test_a_reordered_packet_costs_nothing_with_a_reorder_window(first: int) -> None:
    transport = TransportConfig(rto_ns=RTO, ack_interval=4, reorder_window=16)
    pair = NicPair(transport=transport, meddle=swap(first))
    pair.a.post(QPN, 1, 8 * 1024, 0)
    pair.wire.run()
    assert pair.of("retransmit") == []
    assert [(imm, size) for imm, size, _ in pair.received] == [(1, 8 * 1024)]
    assert drops(pair.b) == {}


@pytest.mark.parametrize("lost", range(12))
def test_a_loss_is_recovered_with_a_reorder_window_too(lost: int) -> None:
    transport = TransportConfig(rto_ns=RTO, ack_interval=4, reorder_window=4)
    pair = NicPair(transport=transport, meddle=lose(lost))
    pair.a.post(QPN, 1, 12 * 1024, 0)
    pair.wire.run()
    assert [id for id, _ in pair.sent] == [1]
    assert pair.responder.bytes_received == 12 * 1024
    [event] = pair.of("retransmit")
    assert event["cause"] == ("nak" if lost < 7 else "timeout")


def test_timeouts_back_off_and_end_in_an_error_at_the_exact_time() -> None:
    pair = NicPair(transport=TRANSPORT, meddle=lambda who, frame, now: [])
    pair.a.post(QPN, 1, 1, 0)
    pair.a.post(QPN, 2, 1, 0)
    end = pair.wire.run()
    times = [RTO * (2**i - 1) for i in range(1, 8)]
    assert [event["t"] for event in pair.of("retransmit")] == times
    failed = RTO * (2**8 - 1)
    assert pair.failed == [(1, "retry_exceeded", failed), (2, "retry_exceeded", failed)]
    assert end <= failed + 10_000


def test_a_message_posted_on_a_failed_queue_pair_fails_at_once() -> None:
    pair = NicPair(transport=TransportConfig(rto_ns=RTO, retry_limit=0), meddle=lambda *_: [])
    pair.a.post(QPN, 1, 1, 0)
    pair.wire.run()
    pair.a.post(QPN, 2, 1, 10 * RTO)
    pair.wire.run()
    assert pair.failed == [(1, "retry_exceeded", RTO), (2, "retry_exceeded", 10 * RTO)]


def test_progress_resets_the_retry_count_and_the_timeout() -> None:
    counted = {"data": 0}

    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        """Only every fourth packet of a arrives."""
        if who == "a":
            counted["data"] += 1
            return [(0, frame)] if counted["data"] % 4 == 0 else []
        return [(0, frame)]

    pair = NicPair(transport=TransportConfig(rto_ns=RTO, ack_interval=1, retry_limit=3), meddle=meddle)
    for id in range(8):
        pair.a.post(QPN, id, 1, id * 100 * RTO)
    pair.wire.run()
    assert pair.failed == []
    assert [id for id, _ in pair.sent] == list(range(8))


def test_a_packet_out_of_its_message_is_refused_and_ends_the_queue_pair_at_both_ends() -> None:
    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if who == "a" and frame[42] == Opcode.WRITE_FIRST:
            from traffic.wire.icrc import frame_icrc

            changed = bytearray(frame)
            changed[42] = Opcode.WRITE_MIDDLE
            changed[-4:] = frame_icrc(bytes(changed)).to_bytes(4, "little")
            frame = bytes(changed)
        return [(0, frame)]

    pair = NicPair(transport=TRANSPORT, meddle=meddle)
    pair.a.post(QPN, 1, 3 * 1024, 0)
    pair.wire.run()
    assert [(id, reason) for id, reason, _ in pair.failed] == [(1, "remote_error")]
    assert drops(pair.b)["invalid_request"] == 1
    assert pair.received == []


@settings(max_examples=60, deadline=None)
@given(
    fate=st.lists(st.sampled_from(["lose", "twice", "late", "damage", "pass", "pass"]), max_size=120),
    sizes=st.lists(st.integers(1, 6000), min_size=1, max_size=6),
    window=st.sampled_from([0, 3, 64]),
    first=st.sampled_from([0, PSN_MASK - 3]),
)
def test_every_message_arrives_once_and_in_order_whatever_the_wire_does(
    fate: list[str], sizes: list[int], window: int, first: int
) -> None:
    left = list(fate)

    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        what = left.pop(0) if left else "pass"
        if what == "damage":
            return [(0, frame[:-5] + bytes((frame[-5] ^ 0x40,)) + frame[-4:])]
        return {
            "lose": [],
            "twice": [(0, frame), (250, frame)],
            "late": [(1_500, frame)],
        }.get(what, [(0, frame)])

    pair = NicPair(
        transport=TransportConfig(
            rto_ns=RTO, ack_interval=3, retry_limit=200, rto_backoff=1, reorder_window=window
        ),
        meddle=meddle,
        a_pair={"send_psn": first},
        b_pair={"receive_psn": first},
    )
    for id, size in enumerate(sizes):
        pair.a.post(QPN, id, size, id * 100)
    pair.wire.run()
    assert [(imm, size) for imm, size, _ in pair.received] == list(enumerate(sizes))
    assert [id for id, _ in pair.sent] == list(range(len(sizes)))
    assert pair.failed == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=120), max_size=20))
def test_no_frame_makes_the_nic_raise(frames: list[bytes]) -> None:
    pair = NicPair()
    starts = (
        b"",
        pair.b.config.frame.encode(),
        bytes.fromhex(pair.b.config.frame)[:42],
        bytes(12) + b"\x88\x08",
    )
    for now, frame in enumerate(frames):
        for start in starts:
            pair.b.rx(0, start + frame, now)
    total = sum(packets for packets, _ in pair.b.drops.values()) + pair.b.ignored_packets
    assert total <= pair.b.rx_packets == len(frames) * len(starts)
    assert pair.received == []


@settings(max_examples=40, deadline=None)
@given(
    acks=st.lists(
        st.tuples(st.integers(0, PSN_MASK), st.integers(0, 255), st.integers(0, PSN_MASK)), max_size=30
    )
)
def test_no_acknowledgement_makes_the_sender_forget_or_complete_what_was_not_sent(
    acks: list[tuple[int, int, int]],
) -> None:
    pair = NicPair()
    flow = pair.b.queue_pairs[QPN].responder._template
    for psn, syndrome, msn in acks:
        pair.a.rx(0, flow.acknowledge(psn, syndrome, msn), 0)
    assert pair.sent == [] and not pair.requester.failed
    pair.a.post(QPN, 1, 3000, 10)
    pair.wire.run()
    assert [id for id, _ in pair.sent] == [1]


def test_a_frame_of_another_host_with_our_queue_pair_number_is_not_taken() -> None:
    from traffic.wire.template import FlowTemplate

    pair = NicPair()
    stranger = FlowTemplate(
        bytes.fromhex(NicPair(pair_plan()).b.config.frame),
        remote_ip="10.0.0.2",
        remote_qpn=QPN,
        source_port=0xC000,
        dscp=24,
        ecn=2,
    )
    pair.b.rx(0, stranger.cnp(), 0)  # source 10.0.0.2 itself, not the peer 10.0.0.1
    assert drops(pair.b) == {"unknown_qp": 1}
    assert pair.b.queue_pairs[QPN].requester.cnps == 0


def test_acknowledged_bytes_grow_while_a_message_is_under_way():
    pair = NicPair()
    pair.a.post(NicPair.QPN, 1, 1000 * 1024, 0)
    pair.wire.run(until=50_000)
    acked = pair.requester.bytes_acked
    assert 0 < acked < 1000 * 1024 and acked % 1024 == 0
    pair.wire.run()
    assert pair.requester.bytes_acked == 1000 * 1024
