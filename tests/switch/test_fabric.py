"""Engines that hand frames to each other in C do what they do when Python carries every frame."""

from __future__ import annotations

import random

import pytest
from p4programs import compiled

from switch.native.binding import Engine
from switch.native.engine_types import EngineError
from switch.native.fabric import Ask, Fabric, Result
from switch.native.program import Program
from xoff.clocks.fabric import FabricClock
from xoff.clocks.virtual import VirtualClock

US = 1_000
PORTS = range(6)


class Host:
    """Sends frames at given times and keeps what arrives."""

    def __init__(self, frames: list[tuple[int, int, bytes]]) -> None:
        self.out = sorted(frames)
        self.seen: list[tuple[int, int, bytes]] = []

    def rx(self, port: int, frame: bytes, now: int) -> None:
        self.seen.append((now, port, frame))

    def poll(self, now: int) -> list[tuple[int, bytes]]:
        due = [(port, frame) for at, port, frame in self.out if at <= now]
        self.out = [item for item in self.out if item[0] > now]
        return due

    def next_deadline(self) -> int | None:
        return self.out[0][0] if self.out else None


@pytest.fixture(scope="module")
def program() -> Program:
    json, p4info = compiled("decisions")
    return Program.from_text(json.read_text(), p4info.read_text())


def make_engine(program: Program, number: int) -> Engine:
    """A switch whose program clones, resubmits, recirculates and multicasts as the first byte asks."""
    engine = Engine(program, device_id=number, seed=number)
    for port in PORTS:
        engine.add_port(port, 10**10, 300)
    engine.multicast_group_set(7, [(3, 30), (4, 40), (2, 20)])
    engine.clone_session_set(5, 5)
    engine.clone_session_set(6, 4)
    engine.clone_session_set(8, [], group=7)
    return engine


def frames(seed: int) -> list[tuple[int, int, bytes]]:
    """Frames for every operation of the program, of every size class."""
    rng = random.Random(seed)
    return [
        (
            rng.randrange(20 * US),
            0,
            bytes((op,)) + bytes(20) + rng.randbytes(rng.choice((1, 60, 300, 2000, 9000))),
        )
        for op in list(range(32)) * 3
    ]


def outcome(clock: VirtualClock | FabricClock, program: Program, seed: int) -> list[object]:
    """Two engines joined by three cables, a host at each."""
    engines = [make_engine(program, 1), make_engine(program, 2)]
    hosts = [Host(frames(seed)), Host(frames(seed + 1))]
    for i in (0, 1):
        clock.add(f"s{i}", engines[i])
    for i in (0, 1):
        clock.add(f"h{i}", hosts[i])
        for port in (0, 4, 5):
            clock.connect(f"s{i}", port, f"h{i}", port)
    for port in (1, 2, 3):
        clock.connect("s0", port, "s1", port)
    clock.run(until=100 * US)
    result: list[object] = [clock.traversals, *(host.seen for host in hosts)]
    for engine in engines:
        result += [engine.drops(), engine.faults(), *(engine.port_stats(p) for p in PORTS)]
        engine.close()
    return result


@pytest.mark.parametrize("seed", range(4))
def test_every_decision_is_the_same_under_either_clock(program: Program, seed: int) -> None:
    python = outcome(VirtualClock(), program, seed)
    assert isinstance(python[0], int) and python[0] > 500
    assert outcome(FabricClock(), program, seed) == python


def test_an_engine_is_in_one_fabric_at_most_until_that_is_closed(program: Program) -> None:
    engine, first, second = make_engine(program, 1), Fabric(), Fabric()
    first.add_engine(engine)
    with pytest.raises(EngineError, match="exists already"):
        second.add_engine(engine)
    first.close()
    second.add_engine(engine)
    assert second.run(None, Ask.NEVER) is Result.IDLE


def busy_pair(program: Program) -> tuple[FabricClock, Engine, Engine, Host]:
    """Two engines with frames queued and under way between them."""
    clock, a, b = FabricClock(), make_engine(program, 1), make_engine(program, 2)
    host = Host([(0, 0, bytes(300))] * 40)
    for name, node in (("a", a), ("b", b), ("h", host)):
        clock.add(name, node)
    clock.connect("h", 0, "a", 0)
    for port in (1, 2, 3):
        clock.connect("a", port, "b", port)
    clock.run(until=2 * US)
    assert a.next_deadline() is not None
    return clock, a, b, host


def test_an_engine_may_be_closed_while_frames_are_on_their_way_to_it(program: Program) -> None:
    clock, a, b, _ = busy_pair(program)
    sent = sum(a.port_stats(port).tx_packets for port in PORTS)
    b.close()
    clock.run(until=100 * US)
    assert sum(a.port_stats(port).tx_packets for port in PORTS) > sent


def test_another_program_may_be_loaded_while_frames_are_queued(program: Program) -> None:
    clock, a, _, host = busy_pair(program)
    a.set_pipeline(program)
    assert a.drops()["swap"][0] > 0
    host.out = [(clock.now + US, 0, bytes(300))]
    before = a.port_stats(0).rx_packets
    clock.touch("h")
    clock.run(until=100 * US)
    assert a.port_stats(0).rx_packets == before + 1


def test_engines_go_on_by_themselves_when_their_fabric_is_closed(program: Program) -> None:
    clock, a, b, _ = busy_pair(program)
    clock.close()
    delivered = 0
    while (due := a.next_deadline()) is not None:
        for port, frame in a.poll(due):
            b.rx(port, frame, due)
            delivered += 1
    assert delivered > 0 and b.next_deadline() is not None
