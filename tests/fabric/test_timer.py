"""The timer packet: laps, generations, and the utilisation window that it closes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fabric.native import NS, NativeSwitch
from tests.fabric.plans import star
from tests.fabric.traffic import data

Make = Callable[..., NativeSwitch]


def test_laps_are_made_at_the_timers_rate(switch: Make) -> None:
    s = switch(star(), timer_hz=10_000)
    s.run(NS // 10)
    assert abs(s.count("laps") - 1000) <= 1


def test_starting_again_leaves_one_timer_packet(switch: Make) -> None:
    s = switch(star(), timer_hz=10_000)
    for _ in range(3):
        s.packet_out(bytes(48), operation=1)
    s.run(NS // 10)
    assert abs(s.count("laps") - 1000) <= 5


def test_a_stopped_timer_makes_no_laps(switch: Make) -> None:
    s = switch(star(), timer_hz=10_000)
    s.run(NS // 100)
    s.packet_out(bytes(48), operation=2)
    s.run(s.now + NS // 1000)
    laps = s.count("laps")
    s.run(s.now + NS // 10)
    assert s.count("laps") == laps
    s.packet_out(bytes(48), operation=1)
    s.run(s.now + NS // 100)
    assert s.count("laps") > laps + 90


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_utilisation_is_the_share_of_the_window_that_the_link_was_busy(switch: Make, share: float) -> None:
    s = switch(star(rate_bps=10**9), timer_hz=4000)  # four ports: a window of 1 ms
    wire_ns = (500 + 24) * 8
    now = 0
    while share and now < 5_000_000:
        s.send(1, data(1, 2), at=now)
        now += round(wire_ns / share)
    s.run(5_000_000)
    measured = s.engine.register_read("utilisation", 2) / 65536
    assert abs(measured - share) <= wire_ns / 1_000_000 + 1e-4  # one frame more or less in the window
    assert s.engine.register_read("utilisation", 3) == 0


def test_utilisation_falls_to_zero_on_an_idle_link(switch: Make) -> None:
    s = switch(star(), timer_hz=4000)
    for _ in range(20):
        s.send(1, data(1, 2))
    s.run(1_500_000)
    s.run(5_000_000)
    assert s.engine.register_read("utilisation", 2) == 0


def test_a_timer_frame_from_outside_is_only_a_frame_that_is_not_ip(switch: Make) -> None:
    s = switch(star(), timer_hz=1000)
    s.run(NS // 100)
    laps = s.count("laps")
    s.send(1, bytes(12) + b"\x88\xb5" + (1).to_bytes(2, "big") + bytes(44))
    s.run(s.now + NS // 100)
    assert s.count("not_ip", 1) == 1
    assert abs(s.count("laps") - laps - 10) <= 1
