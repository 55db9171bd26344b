"""ECN marking against its curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.fixedpoint import FixedPointError, red_slope
from tests.fabric import frames as f
from tests.fabric.native import NativeSwitch, frames_of
from tests.fabric.plans import LOSSLESS, host_mac, port_mac, star
from tests.fabric.traffic import data, ecn_of
from topologies.plan import FabricPlan

Make = Callable[..., NativeSwitch]
DEEP = replace(LOSSLESS, xoff_bytes=10**6, headroom_bytes=10**6)
KMIN, KMAX, PMAX = 5_000, 15_000, 0.5


def red(
    kmin: int = KMIN, kmax: int = KMAX, pmax: float = PMAX, groups: dict[str, tuple[int, ...]] | None = None
) -> FabricPlan:
    """A star whose class 3 marks."""
    policy = replace(DEEP, ecn_kmin_bytes=kmin, ecn_kmax_bytes=kmax, ecn_pmax=pmax)
    return star(classes={3: policy}, groups=groups)


def fill_and_drain(s: NativeSwitch, packets: int, **options: int) -> list[bytes]:
    """Queue packets behind a pause, then let them go; packet i sees (packets - 1 - i) * 500 bytes behind it."""
    s.send(2, f.pfc({3: 0xFFFF}))
    for index in range(packets):
        s.send(1, data(1, 2, psn=index, **options))
    s.send(2, f.pfc({3: 0}))
    s.drain()
    return frames_of(s.take(2))


def test_marking_follows_the_red_curve(switch: Make) -> None:
    s = switch(red())
    rounds, packets = 200, 40
    marked: Counter[int] = Counter()
    for _ in range(rounds):
        for index, frame in enumerate(fill_and_drain(s, packets)):
            marked[(packets - 1 - index) * 500] += ecn_of(frame) == 3
    for behind in range(0, packets * 500, 500):
        if behind <= KMIN:
            assert marked[behind] == 0, behind
        elif behind > KMAX:
            assert marked[behind] == rounds, behind
        else:
            p = PMAX * (behind - KMIN) / (KMAX - KMIN)
            assert abs(marked[behind] - rounds * p) < 4.5 * (rounds * p * (1 - p)) ** 0.5 + 1, behind
    between = range(KMIN + 500, KMAX + 500, 500)
    expected = sum(PMAX * (q - KMIN) / (KMAX - KMIN) for q in between) * rounds
    assert abs(sum(marked[q] for q in between) - expected) < 4.5 * expected**0.5
    assert s.count("ecn_marked", 2, 3) == sum(marked.values())


def test_equal_thresholds_make_a_step(switch: Make) -> None:
    s = switch(red(5_000, 5_000, 1.0))
    marks = [ecn_of(frame) for frame in fill_and_drain(s, 20)]
    assert marks == [3] * 9 + [2] * 11  # 9500 … 5500 bytes behind, then 5000 … 0


@pytest.mark.parametrize("ecn", [0, 3])
def test_only_ect_packets_are_marked(switch: Make, ecn: int) -> None:
    s = switch(red(500, 500, 1.0))
    assert {ecn_of(frame) for frame in fill_and_drain(s, 10, ecn=ecn)} == {ecn}
    assert s.count("ecn_marked", 2, 3) == 0


def test_ect1_is_marked_too_and_the_header_checksum_stays_right(switch: Make) -> None:
    s = switch(red(500, 500, 1.0))
    frames = fill_and_drain(s, 4, ecn=1)
    assert [ecn_of(frame) for frame in frames] == [3, 3, 1, 1]
    assert all(f.internet_checksum(frame[14:34]) == 0 for frame in frames)


def test_ipv6_is_marked(switch: Make) -> None:
    s = switch(red(500, 500, 1.0, groups={"fd00::2/128": (2,)}))
    s.send(2, f.pfc({3: 0xFFFF}))
    packet = f.ipv6("fd00::1", "fd00::2", f.udp(9, f.ROCE_PORT, f.bth() + bytes(400)))
    for _ in range(3):
        s.send(1, f.ethernet(port_mac(1), host_mac(1), 0x86DD, packet))
    s.send(2, f.pfc({3: 0}))
    s.drain()
    assert [frame[15] >> 4 & 3 for frame in frames_of(s.take(2))] == [3, 2, 2]


def test_a_class_without_thresholds_never_marks(switch: Make) -> None:
    s = switch(star(classes={3: DEEP}))
    assert {ecn_of(frame) for frame in fill_and_drain(s, 60)} == {2}


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(FixedPointError, match="kmin <= kmax"):
        red_slope(replace(DEEP, ecn_kmin_bytes=2, ecn_kmax_bytes=1, ecn_pmax=0.1))
    with pytest.raises(FixedPointError, match="pmax"):
        red_slope(replace(DEEP, ecn_kmin_bytes=1, ecn_kmax_bytes=2, ecn_pmax=1.1))
