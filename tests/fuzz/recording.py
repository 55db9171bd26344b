"""Sessions of tests as inputs of the harness `engine.c`: what a test does with an engine becomes a seed.

    python -m pytest -p tests.fuzz.recording tests/switch/test_engine.py

writes the session of every engine that ran one of the fuzzed programs to `XOFF_FUZZ_SEEDS`/TARGET/. The prologue
of fabric.p4 (what a controller writes) is recorded the same way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from switch.native import abi, binding
from switch.native.program import Program

PORTS = (0, 1, 2, 3, 4, 5, 508, 509, 510)
"""`ports` in engine.c."""
LONGEST = 16_000
"""Bytes of a seed; what a session does beyond is left out."""


def number(value: int) -> bytes:
    """As `number` in fuzz.h reads it."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


class Session:
    """The commands that do what was done."""

    def __init__(self, program: Callable[[], Program | None]) -> None:
        self._program = program
        self.commands = b""
        self._now = 0
        self._slots: dict[tuple[int, int], int] = {}

    def _add(self, *parts: bytes | int) -> None:
        command = b"".join(p if isinstance(p, bytes) else bytes([p & 255]) for p in parts)
        if len(self.commands) + len(command) <= LONGEST:
            self.commands += command

    @staticmethod
    def _words(values: Any, count: int) -> bytes:
        known = list(values[:count]) if values else []
        return b"".join(number(v) for v in known + [0] * (count - len(known)))

    def _port(self, port: int) -> int:
        return PORTS.index(port) if port in PORTS else len(PORTS)

    def _slot(self, table: int, handle: int) -> int:
        return self._slots.setdefault((table, handle), len(self._slots) % 64)

    def called(self, name: str, arguments: tuple[Any, ...]) -> None:
        """A call of the engine's ABI has returned."""
        method = getattr(self, name.removeprefix("xf_").removesuffix("_guarded"), None)
        if method is not None and self._program() is not None:
            method(*arguments[1:])

    def apply_ops(self, operations: Any, count: int, done: Any) -> None:
        for operation in operations[:count]:
            method = _OPERATIONS.get(operation.kind)
            if method is not None:
                method(self, operation)

    # ---- one method for each call that has a command ----
    def rx(self, port: int, frame: bytes, length: int, now: int) -> None:
        self.poll(now)
        if length < 256:
            self._add(0, self._port(port), length, frame)
        else:
            self._add(11, (length % 20_000).to_bytes(2, "big"), self._port(port), 255, frame[:255])

    def poll(self, now: int, *_: Any) -> None:
        if now > self._now:
            self._add(14, min(now - self._now, 2**32 - 1).to_bytes(4, "big"))
            self._now = now

    def _key(self, table: int, key: Any, mask: Any, ranges: Any) -> bytes:
        t = self._table(table)
        return (
            self._words(key, t.key_words)
            + self._words(mask, t.key_words)
            + self._words(ranges, t.range_words)
        )

    def _table(self, table: int) -> Any:
        program = self._program()
        assert program is not None
        return next(t for t in program.tables.values() if t.index == table)

    def _add_entry(self, o: Any) -> None:
        slot = self._slot(o.object, o.id)
        key = self._key(o.object, o.key, o.mask, o.ranges)
        if o.action == abi.NO_ACTION:
            self._add(17, o.object, slot, key, number(o.rank), o.is_group | (o.ref & 15) << 1)
        else:
            self._add(16, o.object, slot, key, number(o.rank), o.action, self._arguments(o))

    def _arguments(self, o: Any) -> bytes:
        return self._words(o.words, self._table(o.object).arg_words)

    def _modify_entry(self, o: Any) -> None:
        if o.action != abi.NO_ACTION:
            self._add(19, o.object, self._slot(o.object, o.id), o.action, self._arguments(o))

    def _default(self, o: Any) -> None:
        if o.action != abi.NO_ACTION:
            self._add(20, o.object, 0, o.action, self._arguments(o))

    def _member(self, o: Any) -> None:
        self._add(25, o.object, o.id % 16, o.action & 127, self._words(o.words, 32))

    def _group(self, o: Any) -> None:
        count = min(o.count, 8)
        rows = [bytes([o.ints[i] % 16, o.weights[i] & 255, o.active[i]]) for i in range(count)]
        self._add(28, count, b"".join(rows), o.object, o.id)

    def _register(self, o: Any) -> None:
        self._add(30, o.object, number(o.id), self._words(o.words, 1) + bytes(7))

    def _meter(self, o: Any) -> None:
        self._add(31, o.object, o.id, self._words(o.words, 4) if o.words else bytes(4), 1 if o.words else 0)

    def _copies(self, o: Any) -> None:
        count = min(o.count, 4)
        pairs = [number(o.ints[i]) for i in range(2 * count)]
        if o.kind == abi.MULTICAST_SET:
            self._add(32, number(o.object), count, *pairs)
        else:
            self._add(33, number(o.object), count, *pairs, number(o.ref), number(o.length), o.rank)

    def _value_set(self, o: Any) -> None:
        self._add(35, o.object & 127, self._words(o.words, 1) + bytes(15))

    def port_up(self, port: int, up: int) -> None:
        self._add(36, self._port(port), up)

    def port_rate(self, port: int, rate: int) -> None:
        self._add(38, self._port(port), number(rate))

    def port_add(self, port: int, rate: int, delay: int) -> None:
        self._add(37, self._port(port), self._port(port), number(rate), number(delay))


_OPERATIONS: dict[int, Callable[[Session, Any], None]] = {
    abi.TABLE_ADD: Session._add_entry,
    abi.TABLE_MODIFY: Session._modify_entry,
    abi.TABLE_DELETE: lambda s, o: s._add(18, o.object, s._slot(o.object, o.id)),
    abi.TABLE_CLEAR: lambda s, o: s._add(21, o.object, 0),
    abi.TABLE_DEFAULT: Session._default,
    abi.TABLE_DEFAULT_RESET: lambda s, o: s._add(21, o.object, 1),
    abi.ENTRY_TIMEOUT: lambda s, o: s._add(23, o.object, s._slot(o.object, o.id), number(o.time)),
    abi.MEMBER_ADD: Session._member,
    abi.GROUP_ADD: lambda s, o: s._add(27, o.object, o.id),
    abi.GROUP_SET: Session._group,
    abi.REGISTER: Session._register,
    abi.METER: Session._meter,
    abi.MULTICAST_SET: Session._copies,
    abi.CLONE_SET: Session._copies,
    abi.VALUE_SET: Session._value_set,
}


class Recorder:
    """Stands where an engine's library stands."""

    def __init__(self, library: Any, session: Session) -> None:
        self._library, self._session = library, session

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            self._session.called(name, arguments)
            return result

        return call


def record(engine: Any) -> Session:
    """Record what is done with an engine from now on."""
    session = Session(lambda: engine._program)
    engine._lib = Recorder(engine._lib, session)
    return session


def pytest_configure(config: Any) -> None:
    """As a plugin of pytest: record every engine."""
    from tests.fuzz.build import PROGRAMS, compiled

    known = {}
    for target, names in PROGRAMS.items():
        for number_, name in enumerate(names):
            known[compiled(name).json_text] = target, number_
    folder = Path(os.environ["XOFF_FUZZ_SEEDS"])
    make, close = binding.Engine.__init__, binding.Engine.close
    sessions: dict[int, Session] = {}

    def __init__(engine: Any, *arguments: Any, **named: Any) -> None:
        make(engine, *arguments, **named)
        sessions[id(engine)] = record(engine)

    def closed(engine: Any) -> None:
        session = sessions.pop(id(engine), None)
        program = getattr(engine, "_program", None)
        if session is not None and program is not None and program.json_text in known and session.commands:
            target, place = known[program.json_text]
            fast = 64 if engine.timestamp_hz == 10**6 else 0
            data = bytes([128 | fast | place]) + session.commands
            path = folder / target / hashlib.sha1(data).hexdigest()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        close(engine)

    binding.Engine.__init__, binding.Engine.close = __init__, closed  # type: ignore[method-assign]
