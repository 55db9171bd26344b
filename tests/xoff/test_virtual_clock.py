"""The virtual clock carries frames between nodes at exact times, in a repeatable order; so does its fabric in C."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xoff.clocks.fabric import FabricClock
from xoff.clocks.virtual import VirtualClock

CLOCKS: dict[str, Callable[[], VirtualClock | FabricClock]] = {
    "python": VirtualClock,
    "c": FabricClock,
    "c, always asking": partial(FabricClock, always_ask=True),
}
both = pytest.mark.parametrize("make_clock", CLOCKS.values(), ids=CLOCKS)


class Delay:
    """A node that sends what it was given after a fixed delay, and echoes frames a number of times."""

    def __init__(self, delay: int, echoes: int = 0) -> None:
        self.delay, self.echoes = delay, echoes
        self.seen: list[tuple[int, int, bytes]] = []
        self.out: list[tuple[int, int, bytes]] = []

    def send(self, now: int, port: int, frame: bytes) -> None:
        self.out.append((now + self.delay, port, frame))

    def rx(self, port: int, frame: bytes, now: int) -> None:
        self.seen.append((now, port, frame))
        if self.echoes:
            self.echoes -= 1
            self.send(now, port, frame)

    def poll(self, now: int) -> list[tuple[int, bytes]]:
        due = [(p, f) for t, p, f in self.out if t <= now]
        self.out = [entry for entry in self.out if entry[0] > now]
        return due

    def next_deadline(self) -> int | None:
        return min((t for t, _, _ in self.out), default=None)


@both
def test_a_frame_arrives_when_its_senders_link_is_done_with_it(make_clock):
    clock, a, b = make_clock(), Delay(100), Delay(30, echoes=1)
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 7)
    a.send(0, 0, b"x")
    assert clock.run() == 130
    assert (b.seen, a.seen) == ([(100, 7, b"x")], [(130, 0, b"x")])
    assert clock.traversals == 2


@both
def test_time_stops_at_until_and_goes_on_from_there(make_clock):
    clock, a, b = make_clock(), Delay(100), Delay(1)
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    a.send(0, 0, b"x")
    assert clock.run(until=99) == 99 and not b.seen
    assert clock.run(until=100) == 100 and b.seen == [(100, 0, b"x")]


@both
def test_timers_fire_in_order_and_before_the_nodes_of_the_same_instant(make_clock):
    clock, a, log = make_clock(), Delay(10), []
    b = Delay(1)
    b.rx = lambda port, frame, now: log.append(("rx", now))  # type: ignore[method-assign]
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    clock.at(10, lambda t: log.append(("second", t)))
    clock.at(5, lambda t: (log.append(("first", t)), a.send(0, 0, b"x")))
    clock.run()
    assert log == [("first", 5), ("second", 10), ("rx", 10)]


@both
def test_simultaneous_frames_arrive_in_the_order_in_which_nodes_were_added(make_clock):
    def order(names: list[str]) -> list[bytes]:
        clock, sink = make_clock(), Delay(1)
        clock.add("sink", sink)
        for port, name in enumerate(names):
            node = Delay(50)
            clock.add(name, node)
            clock.connect(name, 0, "sink", port)
            node.send(0, 0, name.encode())
        clock.run()
        return [frame for _, _, frame in sink.seen]

    assert order(["a", "b", "c"]) == [b"a", b"b", b"c"]
    assert order(["c", "a", "b"]) == [b"c", b"a", b"b"]


@both
def test_a_stop_condition_ends_the_run_at_the_instant_that_made_it_true(make_clock):
    clock, a, b = make_clock(), Delay(10, echoes=10**6), Delay(10, echoes=10**6)
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    a.send(0, 0, b"x")
    assert clock.run(stop=lambda: len(b.seen) == 3) == 50


@both
def test_a_timer_set_by_a_node_for_now_fires_before_time_goes_on(make_clock):
    clock, a, log = make_clock(), Delay(10), []
    b = Delay(1)

    def rx(port: int, frame: bytes, now: int) -> None:
        log.append(("rx", now))
        clock.at(now, lambda t: log.append(("timer", t)))

    b.rx = rx  # type: ignore[method-assign]
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    a.send(0, 0, b"x")
    a.send(5, 0, b"y")
    clock.run()
    assert log == [("rx", 10), ("timer", 10), ("rx", 15), ("timer", 15)]


@both
def test_what_a_node_raises_ends_the_run_and_reaches_the_caller(make_clock):
    clock, a, b = make_clock(), Delay(10), Delay(1)

    def rx(port: int, frame: bytes, now: int) -> None:
        raise ZeroDivisionError

    b.rx = rx  # type: ignore[method-assign]
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    a.send(0, 0, b"x")
    with pytest.raises(ZeroDivisionError):
        clock.run()
    assert clock.now == 10


@both
def test_names_are_unique_and_the_past_is_over(make_clock):
    clock, a = make_clock(), Delay(10)
    clock.add("a", a)
    with pytest.raises(ValueError, match="two nodes are called a"):
        clock.add("a", a)
    clock.run(until=50)
    assert clock.now == 50
    with pytest.raises(ValueError, match="49 ns is in the past of 50 ns"):
        clock.at(49, lambda t: None)


class Hops:
    """Passes a frame on through a port that its bytes choose, after a delay that they choose, until it is used up."""

    def __init__(self, log: list[tuple[int, str, int, bytes]], name: str, ports: int) -> None:
        self.log, self.name, self.ports = log, name, ports
        self.out: list[tuple[int, int, int, bytes]] = []
        self.count = 0

    def send(self, now: int, frame: bytes) -> None:
        if len(frame) > 1 and self.ports:
            self.count += 1
            self.out.append((now + frame[0] % 4, self.count, frame[1] % (self.ports + 1), frame[1:]))

    def rx(self, port: int, frame: bytes, now: int) -> None:
        self.log.append((now, self.name, port, frame))
        self.send(now, frame)

    def poll(self, now: int) -> list[tuple[int, bytes]]:
        due = sorted(item for item in self.out if item[0] <= now)
        self.out = [item for item in self.out if item[0] > now]
        return [(port, frame) for _, _, port, frame in due]

    def next_deadline(self) -> int | None:
        return min((item[0] for item in self.out), default=None)


def carried(
    clock: VirtualClock | FabricClock,
    links: list[tuple[int, int]],
    frames: list[tuple[int, int, bytes]],
    step: int,
) -> tuple[list[tuple[int, str, int, bytes]], int, int, int]:
    """What arrives where and when; the last port of every node leads nowhere."""
    log: list[tuple[int, str, int, bytes]] = []
    degree = [0] * 6
    joined = []
    for a, b in links:
        joined.append((a, degree[a], b, degree[b] + (a == b)))
        degree[a] += 1
        degree[b] += 1
    nodes = [Hops(log, str(i), degree[i]) for i in range(6)]
    for node in nodes:
        clock.add(node.name, node)
    for a, a_port, b, b_port in joined:
        clock.connect(str(a), a_port, str(b), b_port)
    for at, to, frame in frames:
        clock.at(at, lambda t, to=to, frame=frame: nodes[to].send(t, frame))  # type: ignore[misc]
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return len(log) % step == 0

    for _ in range(50):
        clock.run(until=clock.now + 7 * step, stop=stop)
    return log, asked, clock.now, clock.traversals


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=9),
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 5), st.binary(min_size=1, max_size=12)), max_size=9
    ),
    st.integers(1, 5),
)
def test_the_clock_in_c_does_what_the_clock_in_python_does(links, frames, step):
    python = carried(VirtualClock(), links, frames, step)
    assert carried(FabricClock(always_ask=True), links, frames, step) == python
