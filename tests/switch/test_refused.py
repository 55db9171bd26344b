"""What the traffic manager refuses is shown to a program that asks for it (`@xoff_refused`), and to no other."""

from __future__ import annotations

import struct

import pytest
from p4programs import compiled

from switch.native.binding import Engine
from switch.native.program import Program
from switch.native.trace import trace_packet


def load(annotated: bool = True) -> Program:
    json, p4info = compiled("refused")
    text = p4info.read_text()
    return Program.from_text(json.read_text(), text if annotated else text.replace("@xoff_refused", "@other"))


def frame(port: int, priority: int = 0, copy: int = 0) -> bytes:
    return struct.pack(">HBBI", port, priority, copy, 0) + bytes(92)


def make(program: Program) -> Engine:
    e = Engine(program, timestamp_hz=10**9)
    for port in (1, 2, 3):
        e.add_port(port, 10**9)
    e.clone_session_set(1, 3)
    return e


def counted(e: Engine, port: int = 2) -> tuple[int, int]:
    """(frames that the program believes inside for the port, frames that it saw refused)."""
    return e.register_read("inside", port), e.register_read("refused", port)


@pytest.mark.parametrize(
    ("reason", "settings"),
    [
        ("queue_bytes", {"limit_bytes": 500}),
        ("queue_packets", {"limit_packets": 5}),
        ("buffer", {"alpha": 1.0}),
    ],
)
def test_a_frame_that_its_queue_has_no_room_for_is_shown(reason: str, settings: dict[str, float]) -> None:
    with make(load()) as e:
        e.set_queue(2, 4, **settings)
        if reason == "buffer":
            e.set_buffer(1_000)
        for _ in range(20):
            e.rx(1, frame(2, priority=4), 0)
        refused = e.drops()[reason][0]
        assert 10 <= refused <= 15
        assert e.queue_stats(2)[4].drops[reason] == (refused, refused * 100)
        assert counted(e) == (20 - refused, refused)
        assert e.register_read("refused_by_class", 4) == refused
        assert len(e.poll(10**6)) == 20 - refused
        assert counted(e) == (0, refused)
        assert sum(packets for packets, _ in e.drops().values()) == refused


def test_a_program_that_does_not_ask_is_not_shown_it() -> None:
    program = load(annotated=False)
    assert not program.takes_refused and load().takes_refused
    with make(program) as e:
        e.set_queue(2, limit_packets=0)
        e.rx(1, frame(2), 0)
        assert e.drops()["queue_packets"][0] == 1
        assert counted(e) == (1, 0)


def test_frames_queued_at_a_port_that_goes_are_shown() -> None:
    with make(load()) as e:
        for _ in range(10):
            e.rx(1, frame(2), 0)
        assert len(e.poll(2_000)) == 2  # and the third is being sent
        e.remove_port(2)
        waiting = e.drops()["no_port"][0]
        assert waiting == 10 - 3 and counted(e) == (0, waiting)
        assert all(queue.packets == queue.bytes == 0 for queue in e.queue_stats(2))


def test_a_clone_of_a_refused_frame_leaves() -> None:
    with make(load()) as e:
        e.set_queue(2, limit_packets=0)
        e.rx(1, frame(2, copy=1), 0)
        ((port, data),) = e.poll(10**6)
        assert (port, data) == (3, frame(2, copy=1)[:4] + b"\0\0\0\1" + bytes(92))
        assert counted(e) == (0, 1)


def test_a_clone_of_a_refused_frame_that_is_refused_ends_there() -> None:
    with make(load()) as e:
        e.set_queue(limit_packets=0)
        e.rx(1, frame(2, copy=1), 0)
        assert e.drops()["queue_packets"][0] == 2
        assert e.poll(10**6) == [] and e.next_deadline() is None


def test_a_program_that_is_replaced_is_shown_nothing_of_what_goes_with_it() -> None:
    program = load()
    with make(program) as e:
        for _ in range(10):
            e.rx(1, frame(2, copy=1), 0)
        e.set_pipeline(program)
        assert e.drops()["swap"][0] >= 9
        assert counted(e) == (0, 0)


def test_a_trace_tells_it() -> None:
    with Engine(load(), traced=True) as e:
        e.add_port(1)
        e.add_port(2)
        e.set_queue(2, limit_packets=0)
        trace = trace_packet(e, 1, frame(2))
        assert "refused by the traffic manager: it passes egress for port 511" in trace.text()
        assert trace.drops == {"queue_packets": 1} and not trace.sent
