"""The virtual clock carries frames between nodes at exact times, in a repeatable order."""

from xoff.clocks.virtual import VirtualClock


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


def test_a_frame_arrives_when_its_senders_link_is_done_with_it():
    clock, a, b = VirtualClock(), Delay(100), Delay(30, echoes=1)
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 7)
    a.send(0, 0, b"x")
    assert clock.run() == 130
    assert (b.seen, a.seen) == ([(100, 7, b"x")], [(130, 0, b"x")])
    assert clock.traversals == 2


def test_time_stops_at_until_and_goes_on_from_there():
    clock, a, b = VirtualClock(), Delay(100), Delay(1)
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    a.send(0, 0, b"x")
    assert clock.run(until=99) == 99 and not b.seen
    assert clock.run(until=100) == 100 and b.seen == [(100, 0, b"x")]


def test_timers_fire_in_order_and_before_the_nodes_of_the_same_instant():
    clock, a, log = VirtualClock(), Delay(10), []
    b = Delay(1)
    b.rx = lambda port, frame, now: log.append(("rx", now))  # type: ignore[method-assign]
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    clock.at(10, lambda t: log.append(("second", t)))
    clock.at(5, lambda t: (log.append(("first", t)), a.send(0, 0, b"x")))
    clock.run()
    assert log == [("first", 5), ("second", 10), ("rx", 10)]


def test_simultaneous_frames_arrive_in_the_order_in_which_nodes_were_added():
    def order(names: list[str]) -> list[bytes]:
        clock, sink = VirtualClock(), Delay(1)
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


def test_a_stop_condition_ends_the_run_at_the_instant_that_made_it_true():
    clock, a, b = VirtualClock(), Delay(10, echoes=10**6), Delay(10, echoes=10**6)
    clock.add("a", a)
    clock.add("b", b)
    clock.connect("a", 0, "b", 0)
    a.send(0, 0, b"x")
    assert clock.run(stop=lambda: len(b.seen) == 3) == 50
