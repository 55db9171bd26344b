"""DCQCN and HPCC against their papers' recurrences."""

from __future__ import annotations

from typing import Any

import pytest

from tests.traffic.fabrics import GBPS, NicPair, pair_plan
from traffic.build import TrafficOptions
from traffic.errors import TrafficError
from traffic.nic.config import CongestionConfig
from traffic.nic.congestion import ALGORITHMS, make_parameters, scaled
from traffic.nic.congestion.dcqcn import Dcqcn
from traffic.nic.congestion.hpcc import Hpcc
from traffic.wire.icrc import frame_icrc
from traffic.wire.telemetry import HopTelemetry

LINE = 100 * GBPS
US = 1_000


def dcqcn(preset: str = "paper", line: int = LINE, scale: float = 1.0, **changes: float) -> Dcqcn:
    parameters = make_parameters(CongestionConfig("dcqcn", preset, changes))
    return Dcqcn(
        line_rate_bps=line, mtu=1024, base_rtt_ns=13_000, parameters=scaled(Dcqcn, parameters, scale)
    )


def test_the_paper_preset_has_the_paper_s_parameters() -> None:
    p = make_parameters(CongestionConfig("dcqcn"))
    assert (p["g"], p["fast_recovery_rounds"], p["rai_bps"]) == (1 / 256, 5, 40e6)
    assert (p["cnp_interval_ns"], p["alpha_interval_ns"], p["increase_interval_ns"]) == (50e3, 55e3, 55e3)
    assert p["increase_bytes"] == 10e6


def test_the_first_cnp_halves_the_rate_and_alpha_stays_one() -> None:
    flow = dcqcn()
    flow.on_cnp(now=0)
    assert (flow.rate_bps, flow.target_bps, flow.alpha) == (LINE / 2, LINE, 1.0)


@pytest.mark.parametrize(
    ("order", "rate", "alpha"),
    [
        (0, LINE * (1 - 0.5 / 2), 0.5 * 255 / 256 + 1 / 256),
        (1, LINE * (1 - (0.5 * 255 / 256 + 1 / 256) / 2), 0.5 * 255 / 256 + 1 / 256),
    ],
)
def test_the_order_of_the_steps_on_a_cnp_is_the_preset_s(order: int, rate: float, alpha: float) -> None:
    flow = dcqcn(order=order, initial_alpha=0.5)
    flow.on_cnp(now=0)
    assert flow.rate_bps == pytest.approx(rate, rel=1e-12)
    assert flow.alpha == pytest.approx(alpha, rel=1e-12)


def test_cnps_at_their_interval_follow_the_closed_recurrence() -> None:
    """CNPs every 50 us, faster than both timers: R_n = R_0 prod(1 - alpha_k / 2), alpha_k = 1 from alpha_0 = 1."""
    flow = dcqcn(initial_alpha=0.25, increase_bytes=0)
    rate, alpha = float(LINE), 0.25
    for n in range(40):
        flow.on_cnp(now=n * 50 * US)
        rate = max(rate * (1 - alpha / 2), 40e6)
        alpha = 1 - (1 - 0.25) * (255 / 256) ** (n + 1)
        assert flow.rate_bps == pytest.approx(rate, rel=1e-9)
        assert flow.alpha == pytest.approx(alpha, rel=1e-9)


def test_alpha_decays_by_one_minus_g_every_alpha_interval_without_cnp() -> None:
    flow = dcqcn()
    flow.on_cnp(now=0)
    for n in (0, 1, 2, 10, 1000):
        flow.advance(now=n * 55 * US)
        assert flow.alpha == pytest.approx((255 / 256) ** n, rel=1e-9)
    before = flow.alpha
    flow.advance(now=1001 * 55 * US - 1)
    assert flow.alpha == before


def test_fast_recovery_halves_the_distance_to_the_target_five_times() -> None:
    flow = dcqcn(increase_bytes=0)
    flow.on_cnp(now=0)
    for n in range(1, 5):
        flow.advance(now=n * 55 * US)
        assert flow.rate_bps == pytest.approx(LINE - (LINE / 2) / 2**n, rel=1e-12)
        assert flow.target_bps == LINE


def test_after_fast_recovery_the_target_climbs_by_rai_then_by_growing_steps_of_rhai() -> None:
    flow = dcqcn(increase_bytes=0)
    flow.on_cnp(now=0)
    flow.on_cnp(now=10 * US)
    target = LINE / 2
    assert flow.target_bps == target
    rate = flow.rate_bps
    for n in range(1, 12):
        flow.advance(now=10 * US + n * 55 * US)
        if n > 5:
            target += 200e6 * (n - 5)
        elif n == 5:
            target += 40e6
        rate = (rate + target) / 2
        assert flow.target_bps == pytest.approx(target, rel=1e-12)
        assert flow.rate_bps == pytest.approx(rate, rel=1e-12)


def test_the_byte_counter_alone_reaches_additive_but_not_hyper_increase() -> None:
    flow = dcqcn(increase_interval_ns=10**12, increase_bytes=1_000_000)
    flow.on_cnp(now=0)
    flow.on_cnp(now=1)
    target = flow.target_bps
    for n in range(1, 20):
        flow.on_sent(now=2, wire_bytes=1_000_000)
        if n >= 5:
            target += 40e6
        assert flow.target_bps == pytest.approx(target, rel=1e-12)


def test_a_cnp_restarts_timer_counter_and_rounds() -> None:
    flow = dcqcn(increase_bytes=0)
    flow.on_cnp(now=0)
    flow.advance(now=54 * US)
    flow.on_cnp(now=54 * US)
    before = flow.rate_bps
    flow.advance(now=54 * US + 54_999)
    assert flow.rate_bps == before
    flow.advance(now=54 * US + 55_000)
    assert flow.rate_bps > before


def test_the_rate_never_leaves_the_range_from_the_smallest_to_line_rate() -> None:
    flow = dcqcn()
    for n in range(200):
        flow.on_cnp(now=n * 50 * US)
        assert 40e6 <= flow.rate_bps <= LINE
    flow.advance(now=10**10)
    assert flow.rate_bps == LINE


def test_looking_once_is_looking_often() -> None:
    often, once = dcqcn(), dcqcn()
    for flow in (often, once):
        flow.on_cnp(now=0)
        flow.on_cnp(now=60 * US)
    for now in range(60 * US, 900 * US, 7_001):
        often.advance(now=now)
    often.advance(now=900 * US)
    once.advance(now=900 * US)
    assert (often.rate_bps, often.target_bps) == (once.rate_bps, once.target_bps)
    assert often.alpha == pytest.approx(once.alpha, rel=1e-12)


def test_mellanox_order_cuts_once_per_decrease_interval_after_the_alpha_update() -> None:
    flow = dcqcn("hpcc", rai_share=0, rhai_share=0)
    flow.on_cnp(now=0)
    flow.on_cnp(now=100)
    assert flow.rate_bps == LINE  # nothing happens at once
    flow.advance(now=3_999)
    assert flow.rate_bps == LINE
    flow.advance(now=4_000)  # alpha: one update with a CNP (stays 1), three without, then the cut
    alpha = (255 / 256) ** 3
    assert flow.alpha == pytest.approx(alpha, rel=1e-12)
    assert flow.rate_bps == pytest.approx(LINE * (1 - alpha / 2), rel=1e-12)
    flow.advance(now=9_000)
    assert flow.rate_bps == pytest.approx(LINE * (1 - alpha / 2), rel=1e-12)


@pytest.mark.parametrize("preset", Dcqcn.presets)
def test_every_preset_slows_down_under_cnps_and_recovers(preset: str) -> None:
    flow = dcqcn(preset)
    interval = round(make_parameters(CongestionConfig("dcqcn", preset))["cnp_interval_ns"]) or 5_000
    for n in range(50):
        flow.on_cnp(now=n * interval)
        flow.advance(now=n * interval)
    slow = flow.rate_bps
    assert slow < 0.8 * LINE
    flow.advance(now=10**12)
    assert flow.rate_bps == LINE


def test_a_scaled_flow_is_the_flow_in_slow_motion() -> None:
    fast, slow = dcqcn(), dcqcn(line=LINE // 1000, scale=1000)
    for t in (0, 40, 130, 131, 500):
        fast.on_cnp(now=t * US)
        slow.on_cnp(now=t * US * 1000)
    for t in range(500, 2000, 50):
        fast.advance(now=t * US)
        slow.advance(now=t * US * 1000)
        assert slow.rate_bps * 1000 == pytest.approx(fast.rate_bps, rel=1e-6)


# -- HPCC


def hpcc(rtt: int = 10_000, **changes: float) -> Hpcc:
    parameters = make_parameters(CongestionConfig("hpcc", "", changes))
    return Hpcc(line_rate_bps=LINE, mtu=1024, base_rtt_ns=rtt, parameters=parameters)


def acknowledge(flow: Hpcc, hop: HopTelemetry, acked: int = 0, sent: int = 0) -> None:
    flow.on_ack(now=0, acked_bytes=0, acked_psn=acked, next_psn=sent, rtt_ns=None, telemetry=(hop,))


def hop(t: int, sent: int, queue: int = 0) -> HopTelemetry:
    return HopTelemetry(1, queue, t, sent, LINE)


BDP = LINE * 10_000 / 8 / 1e9


def test_hpcc_starts_with_a_window_of_one_bandwidth_delay_product() -> None:
    flow = hpcc()
    assert flow.window_bytes == BDP
    assert flow.rate_bps == LINE


def test_hpcc_divides_the_reference_window_by_the_measured_utilisation() -> None:
    """A link at line rate with a queue of one BDP: u = 1 + 1; after a full RTT U = u."""
    flow = hpcc()
    acknowledge(flow, hop(0, 0, queue=125_000), acked=0, sent=100)
    acknowledge(flow, hop(10_000, 125_000, queue=125_000), acked=101, sent=200)
    wai = 50e6 * 10_000 / 8 / 1e9
    assert flow.utilisation == pytest.approx(2.0)
    assert flow.window_bytes == pytest.approx(BDP / (2.0 / 0.95) + wai, abs=1)
    assert flow.rate_bps == pytest.approx(flow.window_bytes / 10_000 * 8e9, rel=1e-4)


def test_hpcc_averages_over_the_base_rtt() -> None:
    flow = hpcc()
    acknowledge(flow, hop(0, 0), sent=100)
    acknowledge(flow, hop(1_000, 6_250), acked=50, sent=120)  # half the line rate for a tenth of an RTT
    assert flow.utilisation == pytest.approx(1.0 * 0.9 + 0.5 * 0.1)


def test_hpcc_moves_its_reference_once_per_round_trip() -> None:
    flow = hpcc()
    acknowledge(flow, hop(0, 0, 125_000), acked=0, sent=100)
    acknowledge(flow, hop(10_000, 125_000, 125_000), acked=50, sent=150)
    first = flow.window_bytes
    acknowledge(flow, hop(20_000, 250_000, 125_000), acked=60, sent=160)
    assert flow.window_bytes == first  # same reference, same utilisation
    acknowledge(flow, hop(30_000, 375_000, 125_000), acked=101, sent=201)
    assert flow.window_bytes == first
    acknowledge(flow, hop(40_000, 500_000, 125_000), acked=102, sent=202)
    assert flow.window_bytes == pytest.approx(first / (2 / 0.95), abs=1_000)


def test_hpcc_adds_at_most_max_stage_times_below_the_target() -> None:
    flow = hpcc(rai_bps=1e9)
    wai = 1e9 * 10_000 / 8 / 1e9
    flow._reference = 50_000.0
    t = sent = acked = 0
    acknowledge(flow, hop(0, 0), acked=0, sent=1)
    windows = []
    for _ in range(6):
        t += 10_000
        sent += 75_000  # 60 % of the line
        acked += 10
        acknowledge(flow, hop(t, sent), acked=acked, sent=acked + 1)
        windows.append(flow.window_bytes)
    expected = [50_000 + wai * (i + 1) for i in range(5)]
    assert windows[:5] == pytest.approx(expected, abs=1)
    assert windows[5] == pytest.approx(min(BDP, expected[4] / (0.6 / 0.95) + wai), abs=1)


def test_hpcc_takes_a_new_path_as_a_new_beginning() -> None:
    flow = hpcc()
    acknowledge(flow, hop(0, 0), sent=10)
    other = HopTelemetry(2, 10**6, 10_000, 10**9, LINE)
    acknowledge(flow, other, acked=20, sent=30)
    assert flow.window_bytes == BDP


def push_hop(frame: bytes, hop_bytes: bytes) -> bytes:
    """What a switch does to an INT-MD frame (docs/fabric.md), written against the page and not the product."""
    from traffic.wire.template import ipv4_checksum

    out = bytearray(frame)
    if out[36:38] != (64791).to_bytes(2, "big") or out[53] == 0:
        return frame
    out[58:58] = hop_bytes
    for offset, step in ((16, 28), (38, 28)):
        out[offset : offset + 2] = (int.from_bytes(out[offset : offset + 2], "big") + step).to_bytes(2, "big")
    out[43] += 7
    out[53] -= 1
    out[24:26] = b"\0\0"
    out[24:26] = ipv4_checksum(bytes(out[14:34])).to_bytes(2, "big")
    return bytes(out)


def test_hpcc_end_to_end_holds_the_rate_of_a_bottleneck_that_only_telemetry_shows() -> None:
    """A link of 50 Gb/s after the NIC: HPCC must settle at eta of it with hardly any queue; nothing is dropped."""
    bottleneck = 50 * GBPS
    state = {"free": 0.0, "sent": 0}
    queue: list[float] = []

    def meddle(who: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        if who != "a":
            return [(500, frame)]
        begin = max(now, state["free"])
        waiting = int((begin - now) * bottleneck / 8e9)
        queue.append(waiting)
        fields = (7, waiting, round(begin), state["sent"], bottleneck // 1000)
        hop_bytes = b"".join(v.to_bytes(n, "big") for v, n in zip(fields, (4, 4, 8, 8, 4), strict=True))
        frame = push_hop(frame, hop_bytes)
        wire = len(frame) + 24
        state["sent"] += wire
        state["free"] = begin + wire * 8e9 / bottleneck
        return [(max(1, round(state["free"] - now)) + 500, frame)]

    options = TrafficOptions(CongestionConfig("hpcc", base_rtt_ns=4_000))
    pair = NicPair(pair_plan(telemetry="host"), meddle, options=options)
    size = 4_000 * 1024
    pair.a.post(NicPair.QPN, 1, size, 0)
    pair.wire.run()
    assert [r[:2] for r in pair.received] == [(1, size)]
    assert pair.of("retransmit") == []
    settled = queue[len(queue) // 2 :]
    assert max(settled) < 0.25 * bottleneck * 4_000 / 8e9
    shim, wire = 44, 1024 + 58 + 44 + 24
    ideal = size / 1024 * wire * 8e9 / bottleneck
    assert shim == 16 + 28 and 0.85 < ideal / pair.received[0][2] <= 0.97
    assert all(frame_icrc_of_stripped(f) for t, who, f in pair.wire.log[:20] if who == "a")


def frame_icrc_of_stripped(frame: bytes) -> bool:
    """Whether the ICRC is that of the frame without its telemetry."""
    words = frame[43]
    extra = 4 + 4 * words
    plain = bytearray(frame[:42] + frame[42 + extra :])
    for offset in (16, 38):
        value = int.from_bytes(plain[offset : offset + 2], "big") - extra
        plain[offset : offset + 2] = value.to_bytes(2, "big")
    plain[36:38] = (4791).to_bytes(2, "big")
    return frame_icrc(bytes(plain)) == int.from_bytes(frame[-4:], "little")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CongestionConfig("cubic"), "'cubic' is unknown; there is none, dcqcn, hpcc"),
        (CongestionConfig("dcqcn", "fast"), "no preset 'fast'; there is paper"),
        (CongestionConfig("dcqcn", "", {"gain": 1}), "no parameter 'gain'; there is cnp_interval_ns"),
        (CongestionConfig("none", "", {"g": 1}), "no parameter 'g'; there is no parameter at all"),
    ],
)
def test_a_wrong_name_lists_the_right_ones(config: Any, message: str) -> None:
    with pytest.raises(TrafficError, match=message):
        make_parameters(config)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_moves_a_message(name: str) -> None:
    plan = pair_plan(telemetry="host" if name == "hpcc" else "off")
    pair = NicPair(plan, options=TrafficOptions(CongestionConfig(name)))
    pair.a.post(NicPair.QPN, 1, 100_000, 0)
    pair.wire.run()
    assert [r[:2] for r in pair.received] == [(1, 100_000)]
