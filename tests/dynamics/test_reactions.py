"""What the controller does by itself happens at its exact time in virtual time: watchdog, rerouting, changed rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamics.lab import STAR, US, Outcome, chain_ns, run
from xoff.errors import XoffError
from xoff.experiment import Experiment

RATE, DELAY, MTU, LATENCY = 100 * 10**9, 1_000, 4096, 30 * US
PFC_FRAME = 60 + 24
"""Wire bytes."""
QUANTUM_BITS = 512


def notes(outcome: Outcome, word: str) -> list[tuple[int, str]]:
    return [(r["t"] - outcome.begin, r["text"]) for r in outcome.of("note") if word in r["text"]]


STORM = {
    "topology": STAR.format(2), "workload": {"kind": "incast", "senders": 1, "bytes": 20_000_000}, "mtu": MTU,
    "time_limit": "3ms", "control_latency": f"{LATENCY}ns",
    "actions": [{"at": "130us", "pfc_storm": {"host": "h2", "duration": "900us", "quanta": 65535}}],
}  # fmt: skip
POLL, DETECTION, RESTORATION = 50 * US, 200 * US, 400 * US
WATCHDOG = {"detection_time": "200us", "restoration_time": "400us", "poll_interval": "50us"}


@pytest.fixture(scope="module")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(tmp_path_factory.mktemp("drop"), **STORM, watchdog={**WATCHDOG, "action": "drop"})


def test_the_watchdog_acts_its_latency_after_the_poll_that_sees_a_storm(dropped: Outcome) -> None:
    """XOFF comes just after 130 us. From the poll of 150 us on nothing leaves; 200 us later that is a storm."""
    found, restored = notes(dropped, "watchdog")
    assert found == (150 * US + DETECTION + LATENCY, "watchdog: l1 port 2 class 3: paused too long, drop")
    # Its frames come once in half of a pause, for 900 us; the first look after the last one begins the quiet time.
    half_a_pause = 65535 * QUANTUM_BITS * 10**9 // RATE // 2
    last_sent = 130 * US + 900 * US // half_a_pause * half_a_pause
    since = -(-(last_sent + DELAY) // POLL) * POLL
    assert restored == (
        since + RESTORATION + LATENCY,
        "watchdog: l1 port 2 class 3: no PFC frames any more, restored",
    )


def test_a_queue_in_a_storm_drops_what_comes_and_sends_what_it_has(dropped: Outcome) -> None:
    assert dropped.summary["drops"]["queue"] > 0
    assert dropped.summary["finished"]
    arrived = dropped.of("received")
    assert arrived and arrived[-1]["t"] > dropped.begin + 1030 * US


def test_forwarding_ignores_the_storm_and_loses_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, **STORM, watchdog={**WATCHDOG, "action": "forward"})
    assert not outcome.summary["drops"] and outcome.summary["finished"]
    quiet = run(tmp_path, **STORM, watchdog={**WATCHDOG, "action": "alert"})
    assert len(notes(quiet, "watchdog")) == 2
    assert outcome.duration < quiet.duration


def test_the_watchdog_leaves_ordinary_pauses_alone(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        topology=STAR.format(5),
        workload={"kind": "incast", "bytes": 2_000_000},
        mtu=MTU,
        watchdog=WATCHDOG,
    )
    assert outcome.of("pause") and not notes(outcome, "watchdog") and outcome.summary["finished"]


RING = {
    "topology": "ring:n=3,routes=clockwise", "ecn": False, "classes": {3: {"xoff_bytes": 40960, "xon_bytes": 4096}},
    "workload": "permutation:shift=2,bytes=2MB", "control_latency": f"{LATENCY}ns",
}  # fmt: skip


@pytest.mark.parametrize(("scope", "cut"), [("any", 3), ("deadlock", 1)])
def test_a_deadlock_is_cut_and_the_workload_ends(tmp_path: Path, scope: str, cut: int) -> None:
    """The ring is the one of test_deadlock.py, which stays frozen for ever."""
    frozen = run(tmp_path, **RING, time_limit="2ms")
    assert not frozen.summary["finished"]
    freeze = max(p.start for p in frozen.data.pauses if p.node.startswith("s") and p.end >= frozen.data.end)
    outcome = run(tmp_path, **RING, time_limit="60ms", watchdog={**WATCHDOG, "scope": scope})
    assert outcome.summary["finished"]
    found = [note for note in notes(outcome, "watchdog") if "restored" not in note[1]]
    first = [note for note in found if note[0] == found[0][0]]
    # The poll that closes the first whole interval without a packet, and those of the detection time.
    still = -(-(freeze - frozen.begin) // POLL) * POLL
    assert len(first) == cut and first[0][0] == still + DETECTION + LATENCY
    assert first[0][1].startswith("watchdog: s1 port 2 class 3: ")


def test_a_storm_is_no_deadlock(tmp_path: Path) -> None:
    assert not notes(run(tmp_path, **STORM, watchdog={**WATCHDOG, "scope": "deadlock"}), "watchdog")


LINK = {
    "topology": "fattree:k=4", "workload": "permutation:bytes=1MB", "mtu": MTU, "time_limit": "20ms",
    "control_latency": f"{LATENCY}ns", "load_balancing": "spray", "reroute": True,
}  # fmt: skip


def test_traffic_is_led_around_a_link_its_latency_after_it_went_down(tmp_path: Path) -> None:
    down = [{"at": "20us", "link_down": {"switch": "a1", "towards": "c1"}}]
    outcome = run(tmp_path, **LINK, actions=down)
    assert notes(outcome, "rerouting") == [(20 * US + LATENCY, "rerouting: a1 port 3, c1 port 1 down")]
    lost = [r for r in outcome.of("drop") if r["reason"] == "port_down"]
    assert lost and outcome.summary["finished"]
    # What was on its way to the link when the routes changed is all that is lost later.
    stuck = run(tmp_path, **{**LINK, "reroute": False}, actions=down)
    assert not stuck.summary["finished"] or stuck.duration > outcome.duration
    assert sum(r["packets"] for r in last(stuck, "port_down")) > sum(
        r["packets"] for r in last(outcome, "port_down")
    )


def last(outcome: Outcome, reason: str) -> list[dict[str, int]]:
    """The last record of each cumulative count."""
    final = {(r["node"], r["port"]): r for r in outcome.of("drop") if r["reason"] == reason}
    return list(final.values())


@pytest.mark.parametrize("options", [{**STORM, "watchdog": WATCHDOG}, LINK], ids=["watchdog", "rerouting"])
def test_reactions_are_the_same_under_either_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    actions = options.get("actions") or [
        {"at": "20us", "link_down": {"switch": "a1", "towards": "c1"}},
        {"at": "60us", "link_up": {"switch": "a1", "towards": "c1"}},
    ]
    hashes = set()
    for driver in ("c", "python"):
        monkeypatch.setenv("XOFF_DRIVER", driver)
        hashes.add(run(tmp_path, **{**options, "actions": actions}).summary["records_sha256"])
    assert len(hashes) == 1


@pytest.mark.parametrize("gbps", [50, 10])
def test_a_pause_over_a_slowed_link_lasts_its_quanta_at_the_new_rate(tmp_path: Path, gbps: int) -> None:
    """A quantum is 512 bit times of the port (802.1Qbb): the switch's pauses are as long as the link is slow."""
    quanta, slow = 1_000, gbps * 10**9
    outcome = run(
        tmp_path, topology=STAR.format(2), workload={"kind": "incast", "senders": 1, "bytes": 1_000_000}, mtu=MTU,
        control_latency=f"{LATENCY}ns", time_limit="5ms",
        actions=[{"at": "1us", "set_rate": {"switch": "l1", "towards": "h2", "rate": f"{gbps}Gbps"}},
                 {"at": "100us", "pfc_storm": {"host": "h2", "duration": "1ns", "quanta": quanta}}],
    )  # fmt: skip
    assert [time for time, _ in notes(outcome, "now runs at")] == [1 * US + LATENCY]
    (pause,) = [r for r in outcome.of("pause") if r["node"] == "l1" and r["until"] > 0]
    there = outcome.begin + 100 * US + chain_ns([PFC_FRAME], [slow], DELAY)
    assert pause["until"] - there == pytest.approx(quanta * QUANTUM_BITS * 10**9 / slow, abs=1)


def test_what_was_due_after_the_end_is_noted(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, topology=STAR.format(2), workload={"kind": "incast", "senders": 1, "bytes": 10_000},
        time_limit="10ms", actions=[{"at": "9ms", "link_down": {"switch": "l1", "towards": "h1"}}],
    )  # fmt: skip
    ((time, text),) = notes(outcome, "before this could happen")
    assert time < 9_000 * US and text.endswith("link_down(switch l1, towards h1)")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"watchdog": {"detection": "1ms"}}, "it takes detection_time"),
        ({"watchdog": {"action": "reboot"}}, "drop, forward, alert"),
        ({"watchdog": {"scope": "all"}}, "any, deadlock"),
        ({"watchdog": {"detection_time": "1ms", "poll_interval": "2ms"}}, "no longer than detection"),
        ({"watchdog": {"detection_time": "soon"}}, "watchdog: "),
        ({"watchdog": {"detection_time": "1us"}}, "detection_time / 4 is at least 1us"),
        ({"watchdog": {"detection_time": "9us", "poll_interval": "1ns"}}, "poll_interval is at least 1us"),
        ({"watchdog": {"action": "drop"}, "pfc": False}, "nothing is paused"),
        ({"reroute": True, "controller": "none"}, "the built-in controller's"),
    ],
)
def test_a_wrong_reaction_is_told_in_a_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(XoffError, match=sentence):
        Experiment(**options)  # type: ignore[arg-type]
