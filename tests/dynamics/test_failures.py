"""Failures on a schedule, in virtual time: each does what its description says, at its nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamics.lab import GBPS, STAR, US, byte_ps, packets, run
from xoff.errors import XoffError
from xoff.experiment import Experiment

RATE = 100 * GBPS
PAIR = {
    "topology": STAR.format(2),
    "mtu": 1024,
    "workload": {"kind": "incast", "senders": 1, "bytes": 1_000_000},
}
SIZES = packets(1_000_000, 1024)
UNDISTURBED = (sum(SIZES) + max(SIZES)) * byte_ps(RATE) / 1000 + 2_000


def test_what_is_sent_again_is_what_was_lost_or_came_out_of_order(tmp_path: Path) -> None:
    """Every packet is needed once; under go-back-N nothing is sent again but what did not arrive in its turn."""
    outcome = run(
        tmp_path, topology=STAR.format(4), mtu=1024, pfc=False, congestion_control="none",
        workload={"kind": "incast", "senders": 3, "bytes": 400_000},
        classes={3: {"queue_limit_bytes": 40_000}},
    )  # fmt: skip
    summary = outcome.summary
    assert summary["finished"] and summary["drops"].keys() == {"queue"}
    discarded = summary["host_discards"]
    assert discarded.keys() <= {"out_of_order", "duplicate"}
    assert summary["retransmitted_packets"] == summary["drops_total"] + sum(discarded.values())
    assert summary["retransmitted_packets"] > summary["retransmissions"] > 0


def test_a_link_that_is_down_drops_and_the_transfer_goes_on_when_it_is_up(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, **PAIR,
        actions=[{"at": "20us", "link_down": {"switch": "l1", "towards": "h2"}},
                 {"at": "50us", "link_up": {"switch": "l1", "towards": "h2"}}],
    )  # fmt: skip
    assert outcome.summary["drops"].keys() == {"port_down"}
    assert outcome.summary["retransmissions"] > 0
    assert outcome.summary["finished"]
    assert outcome.duration > UNDISTURBED + 30 * US


@pytest.mark.parametrize("every", [64, 256])
def test_every_nth_frame_of_a_lossy_link_is_lost_and_made_good(tmp_path: Path, every: int) -> None:
    outcome = run(
        tmp_path,
        **PAIR,
        actions=[{"at": "0ns", "lossy_link": {"switch": "l1", "towards": "h2", "every": every}}],
    )
    hops = [r for r in outcome.of("port") if r["node"] == "l1" and r["port"] == 2]
    assert outcome.summary["drops"] == {
        "link_loss": hops[-1]["tx_packets"] // every + hops[-1]["rx_packets"] // (every - 1)
    }
    assert outcome.summary["finished"] and outcome.duration > UNDISTURBED


def test_the_losses_of_a_lossy_link_follow_its_seed(tmp_path: Path) -> None:
    def lossy(seed: int) -> str:
        action = {"at": "0ns", "lossy_link": {"switch": "l1", "towards": "h2", "p": 0.01, "seed": seed}}
        return str(run(tmp_path, **PAIR, actions=[action]).summary["records_sha256"])

    assert lossy(7) == lossy(7) != lossy(8)


def test_a_paused_host_posts_nothing_and_then_what_waited(tmp_path: Path) -> None:
    # A ring of three: h2's second step waits for its first arrival, which comes while it is paused.
    options = {
        "topology": STAR.format(3),
        "workload": {"kind": "allreduce", "bytes": 3 * 10_240},
        "mtu": 1024,
    }
    free = run(tmp_path, **options)
    held = run(
        tmp_path, **options,
        actions=[{"at": "1us", "pause_host": {"host": "h2"}}, {"at": "500us", "resume_host": {"host": "h2"}}],
    )  # fmt: skip
    starts = [m["start"] - held.begin for m in held.of("message") if m["src"] == "h2"]
    assert (
        sorted(starts)[1] == 500 * US
    )  # the first was posted before, the second at the very end of the pause
    assert held.duration > 500 * US > free.duration


def test_a_switch_that_restarts_is_programmed_again_after_the_control_latency(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, **PAIR, control_latency="70us",
        actions=[{"at": "20us", "kill_switch": {"switch": "l1"}}, {"at": "100us", "restart_switch": {"switch": "l1"}}],
    )  # fmt: skip
    assert outcome.summary["finished"]
    assert "no_program" in outcome.summary["drops"]
    lost_until = outcome.begin + 170 * US
    assert all(r["t"] >= lost_until for r in outcome.of("retransmit") if r["cause"] == "nak")
    (note,) = [r["t"] for r in outcome.of("note") if "restart_switch" in r["text"]]
    assert note == lost_until


def test_the_controller_acts_after_its_latency(tmp_path: Path) -> None:
    """Marking is turned on at 10 us: the first CE mark is not before 10 us plus the latency."""
    outcome = run(
        tmp_path, topology=STAR.format(3), mtu=1024, congestion_control="dcqcn", ecn=False, control_latency="30us",
        workload={"kind": "incast", "bytes": 1_000_000},
        actions=[{"at": "10us", "set_class_policy": {
            "class": 3, "ecn_kmin_bytes": 1, "ecn_kmax_bytes": 1, "ecn_pmax": 1.0}}],
    )  # fmt: skip
    first = min(r["t"] for r in outcome.of("cnp") if r["dir"] == "tx") - outcome.begin
    frame = max(SIZES) * byte_ps(RATE) // 1000
    assert 40 * US < first <= 40 * US + 1_000 + 3 * frame


def test_the_same_failures_give_the_same_records(tmp_path: Path) -> None:
    actions = [
        {"at": "5us", "lossy_link": {"switch": "e1", "towards": "a1", "p": 0.02}},
        {"at": "10us", "set_rate": {"switch": "a1", "towards": "c1", "rate": "10Gbps"}},
        {"at": "15us", "link_down": {"switch": "a3", "towards": "c1"}},
        {"at": "20us", "kill_switch": {"switch": "c2"}},
        {"at": "30us", "set_load_balancing": {"mode": "adaptive"}},
        {"at": "40us", "pfc_storm": {"host": "h7", "duration": "50us"}},
        {"at": "60us", "restart_switch": {"switch": "c2"}},
        {"at": "80us", "link_up": {"switch": "a3", "towards": "c1"}},
    ]
    hashes = {
        run(
            tmp_path, topology="fattree:k=4", workload="permutation:bytes=200KB", congestion_control="dcqcn",
            sample="20us", time_limit="1ms", actions=actions,
        ).summary["records_sha256"]
        for _ in range(2)
    }  # fmt: skip
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        ({"set_rate": {"switch": "e1", "towards": "a1", "rate": 0}}, "at least 1 bit"),
        ({"lossy_link": {"switch": "e1", "towards": "a1", "p": 2}}, "probability"),
        ({"lossy_link": {"switch": "e1", "towards": "a1", "every": -1}}, "whole number"),
        ({"pfc_storm": {"host": "h1", "class": 9}}, "0 to 7"),
        ({"pfc_storm": {"host": "h1", "quanta": 0}}, "resume"),
        ({"pause_host": {}}, "needs host"),
        ({"set_rat": {}}, "did you mean set_rate"),
    ],
)
def test_a_wrong_action_is_told_in_a_sentence(action: dict[str, object], complaint: str) -> None:
    with pytest.raises(XoffError, match=complaint):
        Experiment(actions=[{"at": "1us", **action}])
