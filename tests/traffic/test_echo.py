"""An ACK for every packet: what it brings back, what the sender makes of it, how the frames look to others."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.traffic.fabrics import GBPS, NicPair, pair_plan
from tests.traffic.test_native_nic import mark_ce
from tests.traffic.test_tshark import dissect
from traffic.build import TrafficOptions
from traffic.nic.config import CongestionConfig, RepsConfig, TransportConfig
from traffic.nic.congestion.mprdma import MpRdma
from traffic.wire.icrc import frame_icrc

SIZE = 100 * 1024
BECN = 0x40


def pair(meddle: Any = None, **options: Any) -> NicPair:
    plan = replace(pair_plan(), load_balancing="reps")
    return NicPair(plan, meddle, options=TrafficOptions(**options))


def port(frame: bytes) -> int:
    return int.from_bytes(frame[34:36], "big")


def sent_by(nics: NicPair, side: str) -> list[bytes]:
    return [frame for _, who, frame in nics.wire.log if who == side]


def test_every_packet_has_an_entropy_and_an_ack_that_brings_it_back_with_its_mark() -> None:
    marked: list[int] = []

    def mark(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if sender == "a" and port(frame) % 3 == 0:
            marked.append(port(frame))
            frame = mark_ce(frame)
        return [(0, frame)]

    nics = pair(mark)
    nics.a.post(nics.QPN, 1, SIZE, 0)
    nics.wire.run()
    data, acks = sent_by(nics, "a"), sent_by(nics, "b")
    assert [port(frame) for frame in acks] == [port(frame) for frame in data]
    assert [port(frame) for frame in acks if frame[46] & BECN] == marked
    assert all(frame[42] == 0x11 and frame[46] & ~BECN == 0 for frame in acks)
    assert len({port(frame) for frame in data}) > 20 and len(marked) > 5
    assert all(frame_icrc(frame) == int.from_bytes(frame[-4:], "little") for frame in data + acks)


def test_an_early_packet_is_answered_before_the_gap_is_closed() -> None:
    """The first packet is 30 us late: the others' ACKs acknowledge nothing, and bring their entropies back."""
    held: list[bytes] = []

    def delay(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if sender == "a" and not held:
            held.append(frame)
            return [(30_000, frame)]
        return [(0, frame)]

    nics = pair(delay)
    nics.a.post(nics.QPN, 1, 10 * 1024, 0)
    nics.wire.run()
    acks = [frame for at, who, frame in nics.wire.log if who == "b" and at < 30_000]
    first = nics.requester.config.send_psn
    assert {int.from_bytes(frame[51:54], "big") for frame in acks} == {(first - 1) & 0xFFFFFF}
    assert [port(frame) for frame in acks] == [port(frame) for frame in sent_by(nics, "a")[1:]]
    assert nics.received and nics.requester.retransmitted == 0


def test_the_window_counts_packets_without_an_answer_wherever_they_wait() -> None:
    """One packet of four on the way is late: the other three places go on being used, three packets a round trip."""
    late: list[int] = []

    def delay(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if sender == "a" and not late:
            late.append(now)
            return [(100_000, frame)]
        return [(0, frame)]

    window = CongestionConfig(
        "mprdma", parameters={"initial_bdp": 1, "max_bdp": 1, "increase_packets": 0}, base_rtt_ns=327
    )
    nics = pair(delay, congestion=window)
    assert nics.requester.congestion.window_bytes == 4088  # a fourth packet is within it, a fifth is not
    nics.a.post(nics.QPN, 1, 4 * SIZE, 0)
    nics.wire.run(until=90_000)
    rounds = 90_000 // (2 * 1_000 + 90 + 8)
    sent = nics.requester.next_psn - nics.requester.config.send_psn
    assert 3 * (rounds - 1) <= sent <= 3 * (rounds + 1) + 1
    assert nics.requester.una == nics.requester.config.send_psn


def test_the_sender_is_never_further_ahead_than_the_receiver_keeps() -> None:
    """A packet that waits longer than the window lasts: nothing is dropped as too early, nothing is sent again."""
    late: list[int] = []

    def delay(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if sender == "a" and not late:
            late.append(now)
            return [(150_000, frame)]
        return [(0, frame)]

    transport = TransportConfig(ack_interval=1, reorder_window=16)
    nics = pair(delay, transport=transport)
    nics.a.post(nics.QPN, 1, SIZE, 0)
    nics.wire.run(until=100_000)
    assert nics.requester.next_psn - nics.requester.una == 17
    nics.wire.run()
    assert nics.received and nics.requester.retransmitted == 0 and not nics.b.drops


def test_without_reps_the_ack_of_a_window_has_the_flows_own_port() -> None:
    nics = NicPair(options=TrafficOptions(congestion=CongestionConfig("mprdma")))
    nics.a.post(nics.QPN, 1, SIZE, 0)
    nics.wire.run()
    data, acks = sent_by(nics, "a"), sent_by(nics, "b")
    assert len(acks) == len(data)
    assert {port(frame) for frame in data + acks} == {nics.requester.config.udp_source_port}


@pytest.mark.judge
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_and_scapy_read_the_echo(tmp_path: Path) -> None:
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether

    nics = pair(lambda sender, frame, now: [(0, mark_ce(frame) if sender == "a" and now % 2 else frame)])
    nics.a.post(nics.QPN, 1, 20 * 1024, 0)
    nics.wire.run()
    frames = sent_by(nics, "a") + sent_by(nics, "b")
    fields = (
        "_ws.malformed",
        "ip.checksum.status",
        "udp.srcport",
        "infiniband.bth.opcode",
        "infiniband.invariant.crc",
    )
    becn = set()
    for frame, row in zip(frames, dissect(frames, tmp_path, *fields, heuristics=False), strict=True):
        malformed, checksum, source, opcode, icrc = row
        assert (malformed, checksum, int(source), int(opcode)) == ("", "1", port(frame), frame[42])
        assert int(icrc, 0).to_bytes(4, "big") == frame_icrc(frame).to_bytes(4, "little")
        layer = Ether(frame)[BTH]
        assert layer.fecn == 0
        becn.add((layer.opcode == 0x11, layer.becn))
    assert becn == {(False, 0), (True, 0), (True, 1)}


# -- MP-RDMA's window

MTU = 1024
RTT_NS = 8_192
BDP = 100 * GBPS * RTT_NS / 8e9


def window(**parameters: float) -> MpRdma:
    known = {**MpRdma.presets["uet-htsim"], "initial_bdp": 1.0, "max_bdp": 4.0, **parameters}
    return MpRdma(line_rate_bps=100 * GBPS, mtu=MTU, base_rtt_ns=RTT_NS, parameters=known)


def test_the_window_grows_by_a_packet_a_round_trip() -> None:
    """dW/dt = 1/W a packet: W^2 grows by 2 packets^2 with every answer."""
    cc = window()
    packets = BDP / MTU
    for _ in range(5 * round(packets)):
        cc.on_echo(now=0, marked=False)
    assert cc.window_bytes / MTU == pytest.approx((packets**2 + 2 * 5 * packets) ** 0.5, abs=0.05)


def test_a_mark_costs_half_a_packet_and_a_loss_a_whole_one() -> None:
    cc = window()
    cc.on_echo(now=0, marked=True)
    assert cc.window_bytes == BDP - MTU / 2
    cc.on_loss(now=0)
    assert cc.window_bytes == BDP - 3 * MTU / 2


def test_marks_of_a_share_p_settle_at_twice_their_odds() -> None:
    """Growth (1-p)/W against loss p/2: W = 2 (1-p) / p packets."""
    cc = window()
    total = 0
    for n in range(40_000):
        cc.on_echo(now=0, marked=n % 20 == 0)
        total += cc.window_bytes if n >= 20_000 else 0
    assert total / 20_000 / MTU == pytest.approx(2 * 0.95 / 0.05, rel=0.03)


def test_the_window_stays_between_a_packet_and_its_largest() -> None:
    cc = window(max_bdp=1.0)
    cc.on_echo(now=0, marked=False)
    assert cc.window_bytes == BDP
    for _ in range(1_000):
        cc.on_echo(now=0, marked=True)
    assert cc.window_bytes == MTU


def test_the_paths_of_a_flow_that_explore_are_one_bandwidth_delay_product() -> None:
    nics = pair(congestion=CongestionConfig("none", base_rtt_ns=RTT_NS))
    assert nics.a.config.reps is not None
    assert nics.a.config.reps.explore_packets == BDP / MTU
    assert nics.a.config.echo and nics.a.config.transport.ack_interval == 1
    assert pair(reps=RepsConfig(explore_packets=3)).a.config.reps == RepsConfig(explore_packets=3)
