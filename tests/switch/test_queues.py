"""The traffic manager in virtual time: exact rates, strict priority, pauses, delays, limits, late polls."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from probe import (
    CLONE_IN_EGRESS,
    EGRESS_DROP,
    GBPS,
    PAUSE,
    PAUSE_IN_EGRESS,
    RECIRCULATE,
    RECIRCULATE_ALWAYS,
    REGISTER,
    RESUBMIT_ALWAYS,
    engine,
    frame,
    queues_program,
    seen,
    wire_ns,
)

from switch.native.binding import Engine, PauseEvent


def drain(e: Engine, until: int | None = None) -> list[tuple[int, int, bytes]]:
    """Poll at every deadline (up to `until`); all frames as (time, port, frame)."""
    frames: list[tuple[int, int, bytes]] = []
    while (deadline := e.next_deadline()) is not None and (until is None or deadline <= until):
        frames += e.poll_timed(deadline)
    return frames


@pytest.fixture
def two_ports():
    with engine() as e:
        e.add_port(1)
        e.add_port(2, 10 * GBPS, 500)
        yield e


def test_a_frame_arrives_after_its_wire_time_and_the_link_delay(two_ports: Engine) -> None:
    two_ports.rx(1, frame(2, length=1000), 10_000)
    # 1024 wire bytes at 10 Gb/s are 819.2 ns
    assert two_ports.next_deadline() == 10_000
    assert two_ports.poll(10_000) == []
    assert two_ports.next_deadline() == 10_000 + math.ceil(819.2) + 500
    assert two_ports.poll(10_000 + 819 + 500) == []
    ((port, data),) = two_ports.poll(10_000 + 820 + 500)
    assert port == 2 and len(data) == 1000
    assert two_ports.next_deadline() is None


def test_frames_shorter_than_60_bytes_take_the_time_of_60() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        for _ in range(2):
            e.rx(1, frame(2, length=59), 0)
        times = [t for t, _, _ in drain(e)]
    assert times == [672, 1344]  # 84 bytes at 1 Gb/s


@pytest.mark.parametrize("rate", [100 * GBPS, 40 * GBPS, 25 * GBPS, 10 * GBPS, 7_000_000, 333_333_333])
@pytest.mark.parametrize("length", [64, 200, 1082, 9216])
def test_back_to_back_frames_keep_the_line_rate_without_rounding(rate: int, length: int) -> None:
    count = 500
    with engine() as e:
        e.set_queue_limit()
        e.add_port(1)
        e.add_port(2, rate)
        for _ in range(count):
            e.rx(1, frame(2, length=length), 0)
        times = [t for t, _, _ in drain(e)]
    assert len(times) == count
    for i, t in enumerate(times, 1):
        exact = i * wire_ns(length, rate)
        assert exact - i * 0.001 <= t < exact + 1, (i, t, exact)


def test_a_late_poll_does_not_slow_the_link_down() -> None:
    """The same arrivals polled often and polled once leave at the same instants and see the same timestamps."""
    rng = random.Random(7)
    arrivals = sorted(
        (rng.randrange(0, 60_000), rng.randrange(8), rng.randrange(64, 1500)) for _ in range(200)
    )

    def run(poll_times: list[int]) -> list[tuple[int, int, bytes]]:
        events = sorted(
            [(t, 0, a) for a in arrivals for t in [a[0]]] + [(t, 1, None) for t in poll_times],
            key=lambda x: x[:2],
        )
        out = []
        with engine() as e:
            e.add_port(1)
            e.add_port(2, 25 * GBPS, 100)
            for t, _, arrival in events:
                if arrival is None:
                    out += e.poll_timed(t)
                else:
                    e.rx(1, frame(2, arrival[1], length=max(76, arrival[2])), t)
        return out

    often = run([*range(0, 200_001, 97), 10**9])
    assert run([10**9]) == often
    assert len(often) == 200


def test_a_frame_that_comes_after_the_link_was_idle_starts_when_it_comes(two_ports: Engine) -> None:
    two_ports.rx(1, frame(2, length=976), 0)
    two_ports.rx(1, frame(2, length=976), 5_000)
    two_ports.rx(1, frame(2, length=976), 5_100)
    starts = [seen(data).egress_ts for _, data in two_ports.poll(10**6)]
    assert starts == [0, 5_000, 5_800]


def test_the_highest_priority_goes_first_and_equals_keep_their_order() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.rx(1, frame(2, 0, tag=b"first"), 0)
        e.poll(1)  # its transmission has begun
        sent = []
        for i, priority in enumerate([3, 0, 7, 3, 5, 7, 0, 1]):
            tag = bytes([priority, i])
            sent.append(tag)
            e.rx(1, frame(2, priority, tag=tag), 10)
        tags = [data[-2:] for _, _, data in drain(e)[1:]]
    assert tags == sorted(sent, key=lambda tag: (-tag[0], tag[1]))


def test_a_running_transmission_is_not_preempted_but_the_next_slot_goes_to_the_higher_class() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        for _ in range(3):
            e.rx(1, frame(2, 0, length=976), 0)  # 8 us each
        e.rx(1, frame(2, 6, length=976), 3_000)
        order = [(seen(data).priority, seen(data).egress_ts) for _, _, data in drain(e)]
    assert order == [(0, 0), (6, 8_000), (0, 16_000), (0, 24_000)]


def test_ports_do_not_share_their_links() -> None:
    with engine() as e:
        e.add_port(1)
        for port in (2, 3, 4):
            e.add_port(port, GBPS)
            e.rx(1, frame(port, length=976), 0)
        assert [t for t, _, _ in drain(e)] == [8_000, 8_000, 8_000]


def test_an_unlimited_port_sends_at_once() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, 0, 30)
        for _ in range(100):
            e.rx(1, frame(2, length=1500), 77)
        assert len(e.poll(106)) == 0
        assert len(e.poll(107)) == 100


def test_the_rate_changes_from_the_next_frame_on() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        for _ in range(3):
            e.rx(1, frame(2, length=976), 0)
        e.poll(100)
        e.set_port_rate(2, 10 * GBPS)
        assert [t for t, _, _ in drain(e)] == [8_000, 8_800, 9_600]


# ---- what egress sees ----


def test_egress_sees_depths_and_times_of_its_own_queue() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        for i in range(4):
            e.rx(1, frame(2, 4, length=976), 100 * i)
        e.rx(1, frame(2, 1, length=976), 500)
        views = [seen(data) for _, _, data in drain(e)]
    # The first starts at 0, before the second comes: 8 us each.
    assert [v.egress_ts for v in views] == [0, 8_000, 16_000, 24_000, 32_000]
    assert [v.enq_ts for v in views] == [0, 100, 200, 300, 500]
    assert [v.deq_delta for v in views] == [0, 7_900, 15_800, 23_700, 31_500]
    assert [v.enq_depth for v in views] == [0, 0, 1, 2, 0]
    assert [v.deq_depth for v in views] == [0, 2, 1, 0, 0]


def test_timestamps_tick_in_the_unit_asked_for() -> None:
    with engine(timestamp_hz=10**6) as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        for _ in range(2):
            e.rx(1, frame(2, length=976), 1_234_567_890)
        views = [seen(data) for _, _, data in drain(e)]
    assert [v.ingress_ts for v in views] == [1_234_567, 1_234_567]
    assert [v.egress_ts for v in views] == [1_234_567, 1_234_575]


# ---- egress drops, recirculation ----


def test_a_packet_that_egress_drops_costs_no_link_time(two_ports: Engine) -> None:
    for op in (0, EGRESS_DROP, EGRESS_DROP, 0):
        two_ports.rx(1, frame(2, op=op, length=976), 0)
    starts = [seen(data).egress_ts for _, data in two_ports.poll(10**6)]
    assert starts == [0, 800]
    assert two_ports.drops()["egress"] == (2, 2 * 976)


def test_a_recirculated_packet_costs_the_link_its_length_and_comes_back_when_it_has_been_sent() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS, 10**6)
        e.rx(1, frame(2, op=RECIRCULATE, length=976), 0)
        ((t, port, data),) = drain(e)
    view = seen(data)
    assert view.passes == 4
    assert view.ingress_ts == 3 * 8_000 and view.egress_ts == 3 * 8_000
    assert (t, port) == (4 * 8_000 + 10**6, 2)


def test_a_port_without_interface_is_a_clock() -> None:
    """A resident packet on the timer port makes one lap per slot, for ever and exactly."""
    with engine() as e:
        e.add_port(1)
        e.add_port(509, 672_000)  # 84 bytes a millisecond
        e.rx(1, frame(509, op=RECIRCULATE_ALWAYS, length=60), 0)
        assert drain(e, until=10**9) == []
        e.poll(10**9)
        assert e.next_deadline() == 10**9 + 10**6
        assert e.drops()["loop"] == (0, 0)


@pytest.mark.parametrize("op", [RECIRCULATE_ALWAYS, RESUBMIT_ALWAYS])
def test_a_packet_that_goes_round_at_one_instant_is_dropped_and_counted(op: int) -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2)
        e.rx(1, frame(2, op=op), 5)
        assert e.poll(5) == []
        assert e.drops()["loop"] == (1, 100)
        assert e.next_deadline() is None


@pytest.mark.parametrize(("compat", "stamp"), [(False, 3 * 8_000), (True, 0)])
def test_with_bmv2_compat_a_packet_that_re_enters_has_no_ingress_timestamp(compat: bool, stamp: int) -> None:
    """simple_switch writes it when a packet is received, and clears all metadata of one that comes back."""
    with engine(bmv2_compat=compat) as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.rx(1, frame(2, op=RECIRCULATE, length=976), 0)
        ((_, _, data),) = drain(e)
    assert seen(data).ingress_ts == stamp and seen(data).egress_ts == 3 * 8_000


@pytest.mark.parametrize("op", [RECIRCULATE_ALWAYS, RESUBMIT_ALWAYS])
def test_with_bmv2_compat_too_a_packet_that_goes_round_for_ever_ends(op: int) -> None:
    with engine(bmv2_compat=True) as e:
        e.add_port(1)
        e.add_port(2)
        e.rx(1, frame(2, op=op), 5)
        assert e.poll(5) == []
        assert e.drops()["loop"] == (1, 100)


def test_clones_that_clone_again_end() -> None:
    with engine() as e:
        e.set_queue_limit(packets=16)
        e.add_port(1)
        e.add_port(2)
        e.clone_session_set(1, [(2, 1), (2, 2)])
        e.rx(1, frame(2, op=CLONE_IN_EGRESS), 5)
        frames = e.poll(5)
        assert e.drops()["loop"][0] > 0
        assert len(frames) < 16 * 130
        assert e.next_deadline() is None


# ---- pauses ----


def test_the_pause_register_is_found_by_its_annotation() -> None:
    assert queues_program().pause_register == REGISTER


def test_a_paused_queue_is_served_again_at_the_nanosecond_its_pause_expires() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.rx(1, frame(0, op=PAUSE, index=2 * 8 + 3, value=12_345), 100)
        e.rx(1, frame(2, 3, length=976), 200)
        e.rx(1, frame(2, 4, length=976), 200)
        frames = drain(e)
        events = e.take_pause_events()
    assert [(seen(d).priority, seen(d).egress_ts) for _, _, d in frames] == [(4, 200), (3, 12_345)]
    assert events == [PauseEvent(100, 2, 3, 12_345), PauseEvent(12_345, 2, 3, 0)]


def test_a_queue_is_served_at_the_tick_its_register_names() -> None:
    """At 1 MHz the pause ends when the tick counter reaches the value, as `register <= now` says."""
    with engine(timestamp_hz=10**6) as e:
        e.add_port(1)
        e.add_port(2)
        e.register_write(REGISTER, 2 * 8, 55)
        e.rx(1, frame(2), 54_999)
        assert e.poll(54_999) == []
        assert e.next_deadline() == 55_000
        assert len(e.poll(55_000)) == 1


def test_a_resume_wakes_the_port_at_once() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.rx(1, frame(0, op=PAUSE, index=2 * 8, value=10**9), 0)
        e.rx(1, frame(2, length=976), 100)
        assert e.poll(5_000) == []
        e.rx(1, frame(0, op=PAUSE, index=2 * 8, value=0), 7_000)
        ((_, _, data),) = drain(e)
        assert seen(data).egress_ts == 7_000
        assert [ev.until for ev in e.take_pause_events()] == [10**9, 0]
        assert e.queue_stats(2)[0].paused_ns == 7_000


def test_a_refresh_prolongs_a_pause() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2)
        e.rx(1, frame(2), 0)
        e.poll(0)
        e.rx(1, frame(0, op=PAUSE, index=2 * 8, value=1_000), 10)
        e.rx(1, frame(2), 20)
        e.rx(1, frame(0, op=PAUSE, index=2 * 8, value=5_000), 900)
        ((t, _, _),) = drain(e)
        assert t == 5_000
        assert [(ev.time, ev.until) for ev in e.take_pause_events()] == [
            (10, 1_000),
            (900, 5_000),
            (5_000, 0),
        ]


def test_a_pause_written_by_egress_holds_the_very_next_frame() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.rx(1, frame(2, 3, PAUSE_IN_EGRESS, index=2 * 8 + 3, value=50_000, length=976), 0)
        e.rx(1, frame(2, 3, length=976), 0)
        assert [seen(d).egress_ts for _, _, d in drain(e)] == [0, 50_000]


def test_a_frame_on_the_wire_is_not_stopped_by_a_pause() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.rx(1, frame(2, 3, length=976), 0)
        e.rx(1, frame(0, op=PAUSE, index=2 * 8 + 3, value=10**6), 1)
        assert drain(e)[0][0] == 8_000


def test_a_pause_of_a_port_that_is_added_later_counts() -> None:
    with engine() as e:
        e.register_write(REGISTER, 2 * 8 + 1, 10_000)
        e.add_port(1)
        e.add_port(2)
        e.rx(1, frame(2, 1), 500)
        assert [t for t, _, _ in drain(e)] == [10_000]


def test_the_largest_register_value_pauses_without_end() -> None:
    with engine(timestamp_hz=1) as e:
        e.add_port(1)
        e.add_port(2)
        e.register_write(REGISTER, 2 * 8, 2**48 - 1)
        e.rx(1, frame(2), 10)
        assert e.poll(10) == []
        assert e.next_deadline() is None
        e.register_reset(REGISTER)
        assert len(e.poll(11)) == 1


def test_indices_beyond_the_ports_are_ignored() -> None:
    with engine() as e:
        e.add_port(1)
        e.rx(1, frame(0, op=PAUSE, index=4095, value=10**6), 0)
        e.rx(1, frame(0, op=PAUSE, index=4096, value=10**6), 0)
        assert e.faults()["out_of_bounds"] == 1


# ---- limits and drops ----


def test_a_queue_holds_as_many_bytes_as_its_limit_and_drops_the_rest() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, GBPS)
        e.set_queue_limit(2, 3, bytes=1_000)
        e.register_write(REGISTER, 2 * 8 + 3, 10**6)
        for length in (400, 400, 201, 200, 76):
            e.rx(1, frame(2, 3, length=length), 0)
        stats = e.queue_stats(2)[3]
        assert (stats.bytes, stats.packets, stats.watermark_bytes) == (1_000, 3, 1_000)
        assert stats.drops == {"queue_bytes": (2, 277)}
        assert e.drops()["queue_bytes"] == (2, 277)
        assert e.port_stats(2).drops == {"queue_bytes": (2, 277)}
        assert len(drain(e)) == 3
        after = e.queue_stats(2)[3]
        assert (after.bytes, after.packets, after.watermark_bytes) == (0, 0, 1_000)
        e.reset_watermarks(2)
        assert e.queue_stats(2)[3].watermark_bytes == 0


def test_a_queue_holds_as_many_packets_as_its_limit() -> None:
    with engine() as e:
        e.set_queue_limit(packets=4)
        e.add_port(1)
        e.add_port(2, GBPS)
        for _ in range(6):
            e.rx(1, frame(2, 1), 0)
        for _ in range(2):
            e.rx(1, frame(2, 2), 0)
        assert e.drops()["queue_packets"] == (2, 200)
        assert len(drain(e)) == 6


def test_every_frame_is_sent_or_counted_as_dropped() -> None:
    rng = random.Random(3)
    ports = [1, 2, 3, 4]
    with engine(priority_queues=4) as e:
        e.set_queue_limit(bytes=3_000, packets=8)
        for port in ports:
            e.add_port(port, GBPS)
        e.set_port_up(4, False)
        sent = 0
        out = 0
        now = 0
        for _ in range(2_000):
            now += rng.randrange(500)
            sent += 1
            e.rx(
                rng.choice([*ports, 9]),
                frame(
                    rng.choice([*ports, 300, 511]),
                    rng.randrange(8),
                    rng.choice([0, 0, EGRESS_DROP]),
                    length=rng.randrange(76, 1500),
                ),
                now,
            )
            out += len(e.poll(now))
        out += len(drain(e))
        drops = {name: count for name, (count, _) in e.drops().items() if count}
        assert out + sum(drops.values()) == sent
        assert set(drops) == {
            "ingress",
            "egress",
            "queue_bytes",
            "queue_packets",
            "priority",
            "no_port",
            "port_down",
            "rx_no_port",
        } - ({"queue_packets"} if "queue_packets" not in drops else set())


def test_a_port_that_comes_up_again_sends_again() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2)
        e.set_port_up(2, False)
        e.rx(1, frame(2), 0)
        assert e.poll(0) == []
        e.set_port_up(2, True)
        e.rx(1, frame(2), 1)
        assert len(e.poll(1)) == 1
        assert e.drops()["port_down"] == (1, 100)


def test_a_removed_port_drops_what_it_holds() -> None:
    with engine() as e:
        e.add_port(1)
        e.add_port(2, 1_000)
        for _ in range(3):
            e.rx(1, frame(2), 0)
        e.poll(0)
        e.remove_port(2)
        assert e.drops()["no_port"] == (2, 200)
        assert len(drain(e)) == 1  # the one on the wire


# ---- the CPU port ----


def test_frames_to_the_cpu_port_are_taken_apart_from_the_others() -> None:
    with engine() as e:
        e.add_port(1)
        e.rx(1, frame(510, tag=b"up"), 40)
        assert e.poll(40) == []
        assert e.pending() == {"cpu"}
        ((t, data),) = e.take_cpu_frames()
        assert (t, data[-2:]) == (40, b"up")
        assert e.pending() == set()


def test_a_packet_out_enters_at_the_cpu_port() -> None:
    with engine() as e:
        e.add_port(1)
        e.rx(510, frame(1), 40)
        assert [port for port, _ in e.poll(40)] == [1]


def test_cpu_frames_that_nobody_takes_are_bounded_and_counted() -> None:
    with engine() as e:
        e.add_port(1)
        for i in range(5_000):
            e.rx(1, frame(510), i)
            e.poll(i)
        assert e.drops()["cpu_queue"][0] == 5_000 - 4_096
        assert len(e.take_cpu_frames()) == 4_096


# ---- time ----


def test_time_does_not_run_backwards(two_ports: Engine) -> None:
    two_ports.rx(1, frame(2, length=976), 5_000)
    two_ports.rx(1, frame(2, length=976), 10)
    two_ports.rx(1, frame(510), 10)
    assert two_ports.poll(20) == []
    assert len(two_ports.take_cpu_frames()) == 1  # done at 5000, the latest time known
    assert [seen(d).ingress_ts for _, d in two_ports.poll(10**6)] == [5_000, 5_000]


def test_a_clock_that_starts_late_is_no_different() -> None:
    def run(start: int) -> list[tuple[int, int]]:
        with engine() as e:
            e.add_port(1)
            e.add_port(2, 3 * GBPS, 11)
            for i, length in enumerate(itertools.islice(itertools.cycle([76, 500, 1500]), 30)):
                e.rx(1, frame(2, i % 8, length=length), start + 37 * i)
            return [(t - start, (seen(d).egress_ts - start) % 2**48) for t, _, d in drain(e)]

    assert run(0) == run(200 * 86_400 * 10**9) == run(2**47)


def test_port_counters_count_frames_in_and_out(two_ports: Engine) -> None:
    for _ in range(3):
        two_ports.rx(1, frame(2, length=200), 0)
    two_ports.poll(10**6)
    into, out = two_ports.port_stats(1), two_ports.port_stats(2)
    assert (into.rx_packets, into.rx_bytes, into.tx_packets) == (3, 600, 0)
    assert (out.tx_packets, out.tx_bytes, out.rate_bps, out.delay_ns) == (3, 600, 10 * GBPS, 500)


def test_a_stalled_driver_catches_up_no_more_than_its_limit(two_ports: Engine) -> None:
    # Ten frames of 819.2 ns; the driver looks 100 us late and may make good 2 us: what started within the last 2 us
    # has left, at line rate, and the rest follows from there.
    two_ports.set_catch_up(2_000)
    for _ in range(10):
        two_ports.rx(1, frame(2, length=1000), 0)
    late = two_ports.poll_timed(100_000)
    assert [t for t, _, _ in late] == [math.ceil(98_000 + n * 819.2) + 500 for n in (1,)]
    rest = drain(two_ports)
    assert [t for t, _, _ in rest] == [math.ceil(98_000 + n * 819.2) + 500 for n in range(2, 11)]
