"""Weights, shapers and the shared buffer of the traffic manager, in virtual time against their closed forms."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe import GBPS, PAUSE, engine, frame, seen, wire_ns

from switch.native.binding import Engine, EngineError, QueueSettings

FOREVER = 10**15


def wire(length: int) -> int:
    """Bytes on the wire (IEEE 802.3): FCS, preamble and gap are 24, a frame is 60 at least."""
    return max(length, 60) + 24


@pytest.fixture
def port_2() -> Iterator[Engine]:
    """Frames come in on port 1 and leave through port 2 at 10 Gb/s."""
    with engine() as e:
        e.set_queue_limit()
        e.add_port(1)
        e.add_port(2, 10 * GBPS)
        yield e


def departures(e: Engine, until: int) -> list[tuple[int, int, int]]:
    """(start of transmission, class, length) of everything that has left by `until`."""
    return [(seen(data).egress_ts, seen(data).priority, len(data)) for _, data in e.poll(until)]


def fill(e: Engine, cls: int, count: int, length: int) -> None:
    for _ in range(count):
        e.rx(1, frame(2, cls, length=length), 0)


# ---- weights ----
@pytest.mark.parametrize(
    "weights, lengths",
    [
        ({0: 1, 1: 1}, {0: 100, 1: 1500}),
        ({0: 1, 1: 2, 2: 5}, {0: 1500, 1: 300, 2: 999}),
        ({0: 60, 3: 30, 7: 10}, {0: 9000, 3: 76, 7: 1500}),
        ({c: c + 1 for c in range(8)}, {c: 100 + 150 * c for c in range(8)}),
    ],
)
def test_backlogged_classes_share_wire_bytes_by_weight_at_every_time_scale(
    port_2: Engine, weights: dict[int, int], lengths: dict[int, int]
) -> None:
    for cls, weight in weights.items():
        port_2.set_queue(2, cls, weight=weight)
        fill(port_2, cls, 1_250_000 // wire(lengths[cls]) + 1, lengths[cls])
    sent = departures(port_2, 1_000_000)
    # The link never idles: what has started by then are the frames of 1 ms at 10 Gb/s, 1.25 MB.
    assert sum(wire(length) for _, _, length in sent) == pytest.approx(1_250_000, abs=wire(9000))
    rng = random.Random(1)
    windows = [(0, len(sent))] + [sorted(rng.sample(range(len(sent)), 2)) for _ in range(200)]
    for first, last in windows:
        octets = dict.fromkeys(weights, 0)
        for _, cls, length in sent[first:last]:
            octets[cls] += wire(length)
        for a, b in itertools.combinations(weights, 2):
            # A quantum (256 bytes a unit of weight) more or less, and one frame of each that overdrew.
            bound = 256 + wire(lengths[a]) / weights[a] + wire(lengths[b]) / weights[b]
            assert abs(octets[a] / weights[a] - octets[b] / weights[b]) <= bound, (first, last)


def test_strict_classes_above_the_weighted_ones_go_first_and_those_below_last(port_2: Engine) -> None:
    for cls in (2, 4):
        port_2.set_queue(2, cls, weight=1)
    for cls in (1, 2, 3, 4, 5, 7):
        fill(port_2, cls, 8, 500)
    order = [cls for _, cls, _ in departures(port_2, FOREVER)]
    assert order[:16] == [7] * 8 + [5] * 8
    assert Counter(order[16:32]) == {4: 8, 2: 8}
    assert Counter(order[16:24]) == {4: 4, 2: 4}
    assert order[32:] == [3] * 8 + [1] * 8


def test_the_share_of_an_empty_class_goes_to_the_others_and_is_not_saved_up(port_2: Engine) -> None:
    for cls, weight in ((0, 1), (1, 1), (2, 8)):
        port_2.set_queue(2, cls, weight=weight)
    fill(port_2, 0, 1000, 976)
    fill(port_2, 1, 1000, 976)
    # class 2 is silent for 400 us: each of the others gets half of the link
    early = Counter(cls for _, cls, _ in departures(port_2, 400_000))
    assert abs(early[0] - early[1]) <= 1 and early[0] + early[1] == 500  # 0.8 us each
    for _ in range(1000):
        port_2.rx(1, frame(2, 2, length=976), 400_000)
    late = Counter(cls for _, cls, _ in departures(port_2, 800_000))
    assert late[2] == pytest.approx(0.8 * 500, abs=3)
    assert late[0] == pytest.approx(0.1 * 500, abs=2)


def test_a_paused_weighted_class_waits_and_then_takes_its_share_only(port_2: Engine) -> None:
    for cls, weight in ((3, 3), (4, 1)):
        port_2.set_queue(2, cls, weight=weight)
    port_2.rx(1, frame(3, 0, PAUSE, value=100_000, index=2 * 8 + 3), 0)
    fill(port_2, 3, 1000, 976)
    fill(port_2, 4, 1000, 976)
    sent = departures(port_2, 300_000)
    assert {cls for start, cls, _ in sent if start < 100_000} == {4}
    after = Counter(cls for start, cls, _ in sent if start >= 100_000)
    assert after[3] == pytest.approx(3 * after[4], abs=4)


def test_weights_change_while_frames_wait(port_2: Engine) -> None:
    for cls in (0, 1):
        fill(port_2, cls, 2000, 976)
    assert {cls for _, cls, _ in departures(port_2, 80_000)[1:]} == {1}  # strict
    port_2.set_queue(2, weight=4)
    half = Counter(cls for _, cls, _ in departures(port_2, 400_000))
    assert abs(half[0] - half[1]) <= 2
    port_2.set_queue(2, weight=0)
    assert {cls for _, cls, _ in departures(port_2, 480_000)[1:]} == {1}


# ---- shapers ----
@pytest.mark.parametrize("rate", [GBPS, 333_333_333, 1_000_000])
def test_a_shaped_queue_starts_its_frames_at_exactly_its_rate(port_2: Engine, rate: int) -> None:
    port_2.set_queue(2, 3, rate_bps=rate)
    fill(port_2, 3, 50, 976)
    starts = [start for start, _, _ in departures(port_2, FOREVER)]
    assert starts == [math.floor(i * wire_ns(976, rate)) for i in range(50)]


def test_a_shaper_lets_a_burst_through_and_no_more(port_2: Engine) -> None:
    """Generic cell rate algorithm: frame n starts no earlier than n T - tau, tau = burst / rate."""
    port_2.set_queue(2, 3, rate_bps=GBPS, burst_bytes=10_000)
    fill(port_2, 3, 40, 976)
    starts = [start for start, _, _ in departures(port_2, FOREVER)]
    line, spacing, tolerance = wire_ns(976, 10 * GBPS), wire_ns(976, GBPS), 80_000
    expected = [0.0]
    for n in range(1, 40):
        expected.append(max(expected[-1] + line, n * spacing - tolerance))
    assert starts == [math.floor(start) for start in expected]


def test_a_shaper_in_packets_spaces_frames_of_any_length_alike(port_2: Engine) -> None:
    port_2.set_queue(2, 0, rate_pps=1000)
    for length in (76, 1500, 300):
        fill(port_2, 0, 3, length)
    assert [start for start, _, _ in departures(port_2, FOREVER)] == [i * 1_000_000 for i in range(9)]


def test_the_slower_of_two_shapers_holds(port_2: Engine) -> None:
    port_2.set_queue(2, 0, rate_pps=1_000_000, rate_bps=GBPS)  # 1 us a frame; 8 us for 976 bytes, 0.8 for 76
    for length in (976, 76, 76, 976):
        fill(port_2, 0, 1, length)
    assert [start for start, _, _ in departures(port_2, FOREVER)] == [0, 8000, 9000, 10_000]


def test_what_a_shaped_class_leaves_of_the_link_goes_to_the_others(port_2: Engine) -> None:
    port_2.set_queue(2, 7, rate_bps=2 * GBPS)
    fill(port_2, 7, 2000, 976)
    fill(port_2, 0, 2000, 976)
    sent = Counter(cls for _, cls, _ in departures(port_2, 800_000))
    assert sent[7] == pytest.approx(200, abs=1)  # 2 Gb/s: 4 us a frame
    assert sent[0] == pytest.approx(800, abs=1)


def test_a_shaper_lifted_while_a_frame_waits_frees_it_at_once(port_2: Engine) -> None:
    port_2.set_queue(2, 3, rate_bps=1000)  # 8 s for a frame of 1000 bytes on the wire
    fill(port_2, 3, 2, 976)
    assert len(departures(port_2, 1_000_000)) == 1
    port_2.set_queue(2, 3, rate_bps=0)
    assert [start for start, _, _ in departures(port_2, 2_000_000)] == [1_000_000]


def test_a_late_poll_changes_nothing_for_weights_and_shapers() -> None:
    def run(step: int) -> list[tuple[int, int, int]]:
        rng = random.Random(3)
        arrivals = sorted(
            (rng.randrange(50_000), rng.randrange(8), rng.randrange(76, 1500)) for _ in range(400)
        )
        with engine() as e:
            e.add_port(1)
            e.add_port(2, 10 * GBPS)
            e.set_queue(2, 1, weight=3)
            e.set_queue(2, 2, weight=5, rate_bps=GBPS, burst_bytes=3000)
            e.set_queue(2, 6, rate_pps=200_000)
            out = []
            for time, cls, length in arrivals:
                if step:
                    out += [
                        item for at in range(max(0, time - 500), time, step) for item in departures(e, at)
                    ]
                e.rx(1, frame(2, cls, length=length), time)
            return out + departures(e, FOREVER)

    assert run(37) == run(0)


# ---- the shared buffer ----
HOLD = 10**12
"""No frame leaves before: every class of the ports is paused."""


def hold(e: Engine, *ports: int) -> None:
    """Pause every class of the ports."""
    for port, cls in itertools.product(ports, range(8)):
        e.register_write("pause", port * 8 + cls, HOLD)


@pytest.mark.parametrize("alpha", [1 / 8, 0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("queues", [1, 2, 5])
def test_queues_fed_without_end_come_to_hold_the_share_of_choudhury_and_hahne(
    alpha: float, queues: int
) -> None:
    """Each alpha B / (1 + alpha N), to the packet (IEEE/ACM ToN 6(2), 1998, equation 3)."""
    size, length = 1_000_000, 100
    with engine() as e:
        e.set_queue_limit()
        for port in range(1, queues + 2):
            e.add_port(port)
        hold(e, *range(2, queues + 2))
        e.set_buffer(size)
        e.set_queue(alpha=alpha)
        for _ in range(size // length // queues + 2):
            for port in range(2, queues + 2):
                e.rx(1, frame(port, 3, length=length), 0)
        held = [e.queue_stats(port)[3].bytes for port in range(2, queues + 2)]
        share = alpha * size / (1 + alpha * queues)
        assert all(share - (1 + alpha) * length <= q <= share + length for q in held), (held, share)
        buffer = e.buffer_stats()
        assert buffer.used == sum(held) == buffer.watermark
        drops = e.drops()
        assert drops["buffer"][0] > 0 and drops["queue_bytes"] == (0, 0)
        of_queues = [e.queue_stats(port)[3].drops["buffer"] for port in range(2, queues + 2)]
        assert (sum(p for p, _ in of_queues), sum(b for _, b in of_queues)) == drops["buffer"]


def test_the_threshold_is_alpha_times_what_is_free_when_the_packet_comes() -> None:
    rng = random.Random(5)
    with engine() as e:
        e.set_queue_limit()
        e.add_port(1)
        for port in (2, 3):
            e.add_port(port)
        hold(e, 2, 3)
        e.set_buffer(50_000)
        alphas = {(2, 0): 0.25, (2, 1): 1.0, (3, 0): 0.5, (3, 7): 4.0}
        for (port, cls), alpha in alphas.items():
            e.set_queue(port, cls, alpha=alpha)
        held = dict.fromkeys(alphas, 0)
        for _ in range(600):
            queue, length = rng.choice(list(alphas)), rng.randrange(76, 1500)
            free = 50_000 - sum(held.values())
            if length <= free and held[queue] + length <= alphas[queue] * free:
                held[queue] += length
            e.rx(1, frame(queue[0], queue[1], length=length), 0)
            assert e.queue_stats(queue[0])[queue[1]].bytes == held[queue]


def test_guaranteed_bytes_are_there_when_the_buffer_is_full_and_headroom_after_them(port_2: Engine) -> None:
    hold(port_2, 2)
    port_2.set_buffer(10_000)
    port_2.set_queue(2, 0, alpha=64)
    fill(port_2, 0, 200, 100)
    assert (
        port_2.buffer_stats().used == 10_000 - 10_000 % 100 - 100
    )  # 64 (10,000 - q) >= q + 100 until q = 9,900
    port_2.set_queue(2, 5, alpha=0, guaranteed_bytes=1000, headroom_bytes=500)
    fill(port_2, 5, 30, 100)
    stats = port_2.queue_stats(2)[5]
    assert (stats.bytes, stats.drops) == (1500, {"buffer": (15, 1500)})
    buffer = port_2.buffer_stats()
    assert (buffer.used, buffer.guaranteed_used, buffer.headroom_used) == (9900, 1000, 500)


def test_a_packet_may_lie_half_in_the_guaranteed_bytes(port_2: Engine) -> None:
    hold(port_2, 2)
    port_2.set_buffer(10_000)
    port_2.set_queue(2, 5, guaranteed_bytes=250)
    fill(port_2, 5, 3, 100)
    assert port_2.buffer_stats().used == 50


def test_leaving_packets_give_back_headroom_then_shared_then_guaranteed_bytes(port_2: Engine) -> None:
    port_2.set_port_rate(2, GBPS)
    port_2.set_buffer(4000)
    port_2.set_queue(2, 5, alpha=1, guaranteed_bytes=1000, headroom_bytes=1000)
    # Of the shared part it gets 2000 (alpha 1), so 10 + 20 + 10 frames wait.
    fill(port_2, 5, 60, 100)
    held = []
    for i in range(42):
        buffer = port_2.buffer_stats()
        held.append((buffer.guaranteed_used, buffer.used, buffer.headroom_used))
        port_2.poll(i * 992)  # 124 bytes on the wire: 992 ns
    assert held[0] == (1000, 2000, 1000)
    assert held[10] == (1000, 2000, 0)
    assert held[30] == (1000, 0, 0)
    assert held[40] == (0, 0, 0)
    assert port_2.buffer_stats().watermark == 2000
    port_2.reset_buffer_watermark()
    assert port_2.buffer_stats().watermark == 0


def test_a_buffer_switched_on_counts_what_waits_already(port_2: Engine) -> None:
    hold(port_2, 2)
    port_2.set_queue(2, 1, guaranteed_bytes=300)
    fill(port_2, 1, 10, 100)
    assert port_2.buffer_stats().used == 0
    port_2.set_buffer(2000)
    assert port_2.buffer_stats().used == 700
    port_2.set_queue(2, 1, guaranteed_bytes=400)
    assert port_2.buffer_stats().used == 600
    port_2.set_buffer(0)
    assert port_2.buffer_stats().used == 0
    fill(port_2, 1, 100, 100)
    assert port_2.queue_stats(2)[1].bytes == 11_000


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("rx"), st.integers(2, 3), st.integers(0, 7), st.integers(76, 3000)),
            st.tuples(st.just("poll"), st.integers(0, 5000)),
            st.tuples(st.just("buffer"), st.sampled_from([0, 3000, 20_000])),
            st.tuples(
                st.just("set"),
                st.integers(0, 7),
                st.sampled_from(["guaranteed_bytes", "headroom_bytes", "weight", "rate_bps"]),
                st.integers(0, 4000),
            ),
            st.tuples(st.just("port"), st.integers(2, 3)),
        ),
        max_size=60,
    )
)
def test_every_byte_in_a_queue_is_accounted_for_once(steps: list[tuple]) -> None:
    now = 0
    with engine() as e:
        for port in (1, 2, 3):
            e.add_port(port, GBPS)
        for step in steps:
            match step:
                case ("rx", port, cls, length):
                    e.rx(1, frame(port, cls, length=length), now)
                case ("poll", ns):
                    now += ns
                    e.poll(now)
                case ("buffer", size):
                    e.set_buffer(size)
                case ("set", cls, name, value):
                    e.set_queue(None, cls, **{name: value})
                case ("port", port):
                    e.remove_port(port)
                    e.add_port(port, GBPS)
            buffer = e.buffer_stats()
            queued = sum(q.bytes for port in (2, 3) for q in e.queue_stats(port))
            if buffer.size:
                assert buffer.used + buffer.guaranteed_used + buffer.headroom_used == queued
            else:
                assert buffer.used == 0
        e.set_queue(rate_bps=0)
        e.poll(now + 10**9)
        assert e.buffer_stats().used == 0
        assert all(q.bytes == 0 for port in (2, 3) for q in e.queue_stats(port))


# ---- settings ----
def test_a_queue_starts_with_strict_priority_and_its_own_limits_only(port_2: Engine) -> None:
    assert port_2.queue_settings(1, 0) == QueueSettings(2**63 - 1, 2**63 - 1, 0, 0, 0, 0, 0, 1.0, 0)
    with engine() as e:
        e.add_port(1)
        assert e.queue_settings(1, 7) == QueueSettings(16 << 20, 16384, 0, 0, 0, 0, 0, 1.0, 0)
        assert e.buffer_stats().size == 0


def test_settings_for_all_reach_ports_that_come_later_and_others_stay(port_2: Engine) -> None:
    port_2.set_queue(None, 3, weight=7, alpha=0.125)
    port_2.set_queue(2, 3, headroom_bytes=99)
    port_2.add_port(9)
    assert (port_2.queue_settings(9, 3).weight, port_2.queue_settings(9, 3).alpha) == (7, 0.125)
    assert (port_2.queue_settings(2, 3).weight, port_2.queue_settings(2, 3).headroom_bytes) == (7, 99)
    assert port_2.queue_settings(9, 3).headroom_bytes == 0
    assert port_2.queue_settings(2, 4).weight == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": 65536},
        {"weight": -1},
        {"weight": 1.5},
        {"alpha": 65},
        {"alpha": -0.5},
        {"rate_bps": 2**63},
        {"burst_bytes": 2**41},
        {"colour": 1},
    ],
)
def test_settings_out_of_range_are_refused_and_change_nothing(port_2: Engine, wrong: dict) -> None:
    before = port_2.queue_settings(2, 0)
    with pytest.raises(EngineError) as caught:
        port_2.set_queue(2, 0, limit_bytes=1, **wrong)
    assert caught.value.kind == "invalid"
    assert port_2.queue_settings(2, 0) == before
