"""Priority flow control in virtual time: shares, expiry, and how much headroom losslessness takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamics.lab import FRAME_OVERHEAD, GBPS, HEADERS, STAR, US, Outcome, byte_ps, packets, run
from topologies.policies import headroom_bytes

RATE = 100 * GBPS
QUANTUM_PS = 512 * 10**12 // RATE
PFC_WIRE = 60 + FRAME_OVERHEAD


@pytest.mark.parametrize("senders", [2, 3, 5])
def test_under_pfc_alone_each_of_n_senders_is_paused_for_all_but_its_share(
    tmp_path: Path, senders: int
) -> None:
    size = 2_000_000
    outcome = run(
        tmp_path, topology=STAR.format(senders + 1), mtu=1024, ecn=False,
        workload={"kind": "incast", "bytes": size},
    )  # fmt: skip
    # The steady part: after the first pause has come everywhere, before the first sender has finished.
    begin = outcome.begin + 40 * US
    end = outcome.begin + min(outcome.arrivals().values()) - 10 * US
    for host in outcome.plan.hosts[:senders]:
        paused = sum(
            max(0, min(end, pause.end) - max(begin, pause.start))
            for pause in outcome.data.pauses
            if pause.node == host.name
        )
        assert paused / (end - begin) == pytest.approx((senders - 1) / senders, abs=0.02), host.name


@pytest.mark.parametrize("quanta", [1, 100, 40_000])
def test_a_pause_expires_to_the_nanosecond(tmp_path: Path, quanta: int) -> None:
    """The receiver pauses the switch once, before the only packet is there: it leaves when the pause is over."""
    outcome = run(
        tmp_path, topology=STAR.format(2), mtu=1024, workload={"kind": "incast", "senders": 1, "bytes": 1024},
        actions=[{"at": "0ns", "pfc_storm": {"host": "h2", "duration": "1ns", "quanta": quanta}}],
    )  # fmt: skip
    (size,) = packets(1024, 1024)
    wire_ps = size * byte_ps(RATE)
    at_switch = -(-size * byte_ps(RATE) // 1000) + 1000
    paused_at = -(-PFC_WIRE * byte_ps(RATE) // 1000) + 1000
    until = paused_at + -(-quanta * QUANTUM_PS // 1000)
    start = max(at_switch, until)
    assert outcome.arrivals() == {0: -(-(start * 1000 + wire_ps) // 1000) + 1000}


def full_stop(tmp_path: Path, *, delay_ns: int, headroom: float, mtu: int = 1024) -> Outcome:
    """The worst case for headroom: a sender at line rate, and an egress that stands still all the while."""
    formula = headroom_bytes(RATE, delay_ns, mtu)
    return run(
        tmp_path, topology=STAR.format(2), delay=f"{delay_ns}ns", mtu=mtu, ecn=False, time_limit="400us",
        classes={3: {"headroom_bytes": round(formula * headroom)}},
        workload={"kind": "incast", "senders": 1, "bytes": 2_000_000},
        actions=[{"at": "0ns", "pfc_storm": {"host": "h2", "duration": "300us"}}],
    )  # fmt: skip


@pytest.mark.parametrize("delay_ns", [100, 1_000, 5_000, 10_000])
def test_nothing_is_lost_with_the_headroom_of_the_formula(tmp_path: Path, delay_ns: int) -> None:
    outcome = full_stop(tmp_path, delay_ns=delay_ns, headroom=1.0)
    assert outcome.summary["drops"] == {}
    assert outcome.summary["pfc_xoff_sent"] > 0


@pytest.mark.parametrize("delay_ns", [5_000, 10_000])
def test_frames_are_lost_with_half_of_it(tmp_path: Path, delay_ns: int) -> None:
    outcome = full_stop(tmp_path, delay_ns=delay_ns, headroom=0.5)
    assert outcome.summary["drops"].keys() == {"headroom"}
    # This NIC stops after the frame that it has begun; the formula allows for one that takes 394 quanta (IEEE 802.3).
    policy = outcome.plan.classes[3]
    frame, wire_ps = 1024 + HEADERS, (1024 + HEADERS + FRAME_OVERHEAD) * byte_ps(RATE)
    admitted = policy.xoff_bytes // frame + 1  # with the first of them XOFF is decided
    room = (policy.xoff_bytes + policy.headroom_bytes - admitted * frame) // frame
    stop_ps = admitted * wire_ps + 2 * delay_ns * 1000 + PFC_WIRE * byte_ps(RATE)
    on_their_way = stop_ps // wire_ps + 1 - admitted
    assert outcome.summary["drops_lossless"] == pytest.approx(on_their_way - room, abs=1)


def test_a_storm_stops_the_fabric_towards_a_host_and_ends_with_its_last_pause(tmp_path: Path) -> None:
    size, mtu = 500_000, 1024
    outcome = run(
        tmp_path, topology=STAR.format(3), mtu=mtu, ecn=False, workload={"kind": "incast", "bytes": size},
        actions=[{"at": "0ns", "pfc_storm": {"host": "h3", "duration": "500us", "quanta": 10_000}}],
    )  # fmt: skip
    pause = 10_000 * QUANTUM_PS // 1000
    sent = [r["t"] - outcome.begin for r in outcome.of("pause_sent") if r["node"] == "h3"]
    assert sent == list(range(0, 500 * US, pause // 2))
    over = sent[-1] + PFC_WIRE * byte_ps(RATE) // 1000 + 1000 + pause
    sizes = packets(size, mtu)
    wire = 2 * sum(sizes) * byte_ps(RATE) / 1000
    assert outcome.duration == pytest.approx(over + wire, rel=0.01)
    assert outcome.summary["drops_total"] == 0
