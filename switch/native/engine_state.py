"""Counters, registers, meters, replication, value sets, digests and logs of an engine, by name."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from switch.native import abi
from switch.native.cgen_calc import custom_crc_widths
from switch.native.engine_base import EngineBase
from switch.native.engine_types import (
    Digest,
    EngineError,
    Key,
    LogMessage,
    MeterCounts,
    check,
    encode_rates,
    meter_counts,
    uint,
)
from switch.native.program import Array, join, limbs, split

MAX_GROUP = 1 << 17
MAX_SESSION = 1 << 15
MAX_REPLICAS = 1 << 16
"""Multicast groups and clone sessions are numbered below, and hold at most (pre.c)."""

SetMember = Key
"""A member of a value set."""


class EngineState(EngineBase):
    """What a program keeps besides its tables, and what it reports."""

    priority_queues: int
    _value_sets: dict[str, tuple[SetMember, ...]]

    @staticmethod
    def _named(arrays: dict[str, Array], name: str, what: str) -> Array:
        found = arrays.get(name)
        if found is None:
            raise EngineError("not_found", f"there is no {what} '{name}'")
        return found

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """(packets, bytes); bytes are ingress frame bytes."""
        counter = self._named(self.program.counters, name, "counter")
        pair = (ctypes.c_uint64 * 2)()
        code = self._lib.xf_counter_read(self._e, counter.index, uint(index, 32, "index"), 1, pair)
        check(code, f"counter '{name}' at {index} (its size is {counter.size})")
        return pair[0], pair[1]

    def counter_read_all(self, name: str) -> list[tuple[int, int]]:
        """(packets, bytes) of every cell."""
        return [(int(p), int(b)) for p, b in self.counter_read_array(name)]

    def counter_read_array(self, name: str) -> Any:
        """The same as a numpy array of shape (size, 2), uint64."""
        counter = self._named(self.program.counters, name, "counter")
        cells = np.zeros((counter.size, 2), dtype=np.uint64)
        code = self._lib.xf_counter_read(self._e, counter.index, 0, counter.size, cells.ctypes.data)
        check(code, f"counter '{name}'")
        return cells

    @staticmethod
    def _cells(array: Array, index: int | None, what: str) -> dict[str, int]:
        """The operation's fields for one cell, or for all (None)."""
        if index is None:
            return {"object": array.index, "id": 0, "count": array.size}
        if not 0 <= index < array.size:
            raise EngineError("invalid", f"{what} '{array.name}' at {index} (its size is {array.size})")
        return {"object": array.index, "id": index, "count": 1}

    def counter_write(self, name: str, index: int | None, packets: int, bytes: int) -> None:
        """Write one cell, or all (None)."""
        counter = self._named(self.program.counters, name, "counter")
        self._change(
            f"counter '{name}'",
            abi.COUNTER,
            packets=uint(packets, 64, "packets"),
            bytes=uint(bytes, 64, "bytes"),
            **self._cells(counter, index, "counter"),
        )

    def register_read(self, name: str, index: int) -> int:
        """One cell."""
        array = self._named(self.program.registers, name, "register")
        words = (ctypes.c_uint64 * limbs(array.width))()
        code = self._lib.xf_register_read(self._e, array.index, uint(index, 32, "index"), 1, words)
        check(code, f"register '{name}' at {index} (its size is {array.size})")
        return join(list(words))

    def register_read_all(self, name: str) -> list[int]:
        """Every cell."""
        array = self._named(self.program.registers, name, "register")
        count = limbs(array.width)
        words = (ctypes.c_uint64 * max(1, array.size * count))()
        code = self._lib.xf_register_read(self._e, array.index, 0, array.size, words)
        check(code, f"register '{name}'")
        if count == 1:
            return list(words[: array.size])
        return [join(words[i * count : (i + 1) * count]) for i in range(array.size)]

    def register_write(self, name: str, index: int | None, value: int) -> None:
        """Write one cell, or all (None); on the pause register it takes effect at once, as the program's writes do."""
        array = self._named(self.program.registers, name, "register")
        self._change(
            f"register '{name}'",
            abi.REGISTER,
            words=abi.words(split(uint(value, array.width, f"register '{name}'"), limbs(array.width))),
            **self._cells(array, index, "register"),
        )

    def register_reset(self, name: str) -> None:
        """All cells to 0."""
        self.register_write(name, None, 0)

    def meter_set(self, name: str, index: int | None, rates: tuple[int, int, int, int] | None) -> None:
        """(cir, cburst, pir, pburst): units (bytes or packets) per second and units; None unsets (all green).

        `index` None means every cell.
        """
        meter = self._named(self.program.meters, name, "meter")
        self._change(
            f"meter '{name}'", abi.METER, words=encode_rates(rates), **self._cells(meter, index, "meter")
        )

    def meter_counts(self, name: str, index: int | None) -> list[MeterCounts]:
        """What one cell, or each (None), has coloured: (packets, bytes) of green, yellow, red."""
        meter = self._named(self.program.meters, name, "meter")
        cells = self._cells(meter, index, "meter")
        words = (ctypes.c_uint64 * (6 * cells["count"] + 1))()
        code = self._lib.xf_meter_read(self._e, meter.index, cells["id"], cells["count"], words)
        check(code, f"meter '{name}'")
        return [meter_counts(words[6 * i : 6 * i + 6]) for i in range(cells["count"])]

    def meter_clear(self, name: str, index: int | None) -> None:
        """Count what one cell, or each (None), colours from 0 again."""
        meter = self._named(self.program.meters, name, "meter")
        self._change(f"meter '{name}'", abi.METER_CLEAR, **self._cells(meter, index, "meter"))

    # ---- replication ----
    @staticmethod
    def _replicas(replicas: Iterable[tuple[int, int]]) -> dict[str, Any]:
        flat: list[int] = []
        for port, rid in replicas:
            flat += [uint(port, 32, "port"), uint(rid, 32, "rid")]
        if len(flat) // 2 > MAX_REPLICAS:
            raise EngineError("invalid", f"{len(flat) // 2} replicas are more than {MAX_REPLICAS}")
        return {"ints": abi.ints(flat), "count": len(flat) // 2}

    def multicast_group_set(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Create or replace a multicast group of (port, rid) replicas, replicated in this order."""
        if not 0 < group < MAX_GROUP:
            raise EngineError("invalid", f"multicast group {group} is not in 1..{MAX_GROUP - 1}")
        self._change(f"multicast group {group}", abi.MULTICAST_SET, object=group, **self._replicas(replicas))

    def multicast_group_delete(self, group: int) -> None:
        """EngineError "not_found"."""
        self._change(
            f"multicast group {group}", abi.MULTICAST_DELETE, object=uint(group, 32, "multicast group")
        )

    def clone_session_set(
        self,
        session: int,
        replicas: Iterable[tuple[int, int]] | int,
        *,
        group: int = 0,
        truncate: int = 0,
        cls: int = 0,
    ) -> None:
        """Create or replace a clone session: one port, or (port, rid) replicas; `group` adds a multicast group's.

        `truncate` > 0 cuts the copies to that many bytes; `cls` > 0 is their traffic class, which else is what the
        program leaves in `priority`.
        """
        if isinstance(replicas, int):
            replicas = [(replicas, 0xFFFFFFFF)]
        if not 0 <= session < MAX_SESSION:
            raise EngineError("invalid", f"clone session {session} is not in 0..{MAX_SESSION - 1}")
        if not 0 <= cls < self.priority_queues:
            raise EngineError("invalid", f"class {cls} is not in 0..{self.priority_queues - 1}")
        self._change(
            f"clone session {session}",
            abi.CLONE_SET,
            object=session,
            ref=uint(group, 32, "multicast group"),
            length=uint(truncate, 32, "truncation"),
            rank=cls,
            **self._replicas(replicas),
        )

    def clone_session_delete(self, session: int) -> None:
        """EngineError "not_found"."""
        self._change(f"clone session {session}", abi.CLONE_DELETE, object=uint(session, 32, "clone session"))

    # ---- parser value sets ----
    def value_set(self, name: str) -> tuple[SetMember, ...]:
        """Its members."""
        self._named(self.program.value_sets, name, "value set")
        return self._value_sets.get(name, ())

    def value_set_set(self, name: str, members: Sequence[SetMember]) -> None:
        """Replace all members at once; each has an element for every field of the set, as a table's key.

        EngineError "full", "invalid".
        """
        array = self._named(self.program.value_sets, name, "value set")
        widths = self.program.value_set_widths[name]
        if len(members) > array.size:
            raise EngineError("full", f"value set '{name}' holds {array.size} members at most")
        wrong = next((member for member in members if len(member) != len(widths)), None)
        if wrong is not None:
            raise EngineError(
                "invalid", f"value set '{name}' has {len(widths)} fields, {len(wrong)} were given"
            )
        starts = [sum(map(limbs, widths[:i])) for i in range(len(widths))]
        ranged = [i for i in range(len(widths)) if any(member[i][0] == "range" for member in members)]
        words: list[int] = []
        for member in members:
            fields = [_set_element(e, width, name) for e, width in zip(member, widths, strict=True)]
            for part in range(2):
                for field, width in zip(fields, widths, strict=True):
                    words += split(field[part], limbs(width))
            for i in ranged:
                words += split(fields[i][2], limbs(widths[i])) + split(fields[i][3], limbs(widths[i]))
        with self.batch():
            self._change(
                f"value set '{name}'",
                abi.VALUE_SET,
                object=array.index,
                count=len(members),
                words=abi.words(words),
                ranges_count=len(ranged),
                ints=abi.ints([number for i in ranged for number in (starts[i], limbs(widths[i]))]),
            )
            self.journal.set(self._value_sets, name, tuple(tuple(member) for member in members))

    # ---- hashes ----
    def custom_crcs(self) -> dict[str, int]:
        """Bits of each calculation by crc16_custom or crc32_custom, by its name."""
        return {name: width for name, width in custom_crc_widths(self.program).items() if width}

    def crc_set(
        self,
        name: str,
        polynomial: int,
        initial: int,
        final_xor: int,
        *,
        reflect_data: bool,
        reflect_remainder: bool,
    ) -> None:
        """Set the parameters of a calculation by a custom CRC (crc.c); they last until another program is loaded."""
        width = self.custom_crcs().get(name)
        if width is None:
            known = ", ".join(self.custom_crcs()) or "none"
            raise EngineError(
                "not_found", f"there is no calculation by a custom CRC called '{name}'; there are {known}"
            )
        numbers = [uint(number, width, f"'{name}'") for number in (polynomial, initial, final_xor)]
        self._change(
            f"custom CRC '{name}'",
            abi.CRC,
            object=list(self.program.calculations).index(name),
            words=abi.words([*numbers, int(reflect_data), int(reflect_remainder)]),
        )

    # ---- digests ----
    def take_digests(self) -> list[Digest]:
        """Digest samples since the last call, oldest first, without deduplication."""
        out: list[Digest] = []
        number, time = ctypes.c_uint32(), ctypes.c_uint64()
        words = (ctypes.c_uint64 * 256)()
        with self._control:
            while True:
                count = self._lib.xf_digest_take(self._e, number, words, 256, time)
                if count < 0:
                    return out
                widths = self._program.digest_widths.get(number.value) if self._program else None
                if widths is None or self._program is None or sum(limbs(w) for w in widths) != count:
                    continue  # from a program that was replaced
                values, at = [], 0
                for width in widths:
                    values.append(join(words[at : at + limbs(width)]))
                    at += limbs(width)
                name = self._program.digests[number.value].name
                out.append(Digest(number.value, name, tuple(values), time.value))

    # ---- traces ----
    def take_trace(self) -> list[int]:
        """Words of what a traced program told since the last call, as xf.h lays them out."""
        room, lost = 1 << 14, ctypes.c_uint64()
        while True:
            words = (ctypes.c_uint64 * room)()
            used = self._lib.xf_trace_take(self._e, words, room, lost)
            if used <= room:
                return list(words[:used])
            room = used

    # ---- faults and logs ----
    def faults(self) -> dict[str, int]:
        """Counted faults: asserts, out_of_bounds, digests_lost, logs_lost, parser_errors, checksum_errors,
        parser_loops."""
        faults = abi.Faults()
        self._lib.xf_faults_read(self._e, faults)
        return {name: getattr(faults, name) for name in abi.FAULTS}

    def take_log(self) -> list[LogMessage]:
        """`log_msg` texts and failed asserts since the last call."""
        out: list[LogMessage] = []
        number, time = ctypes.c_uint32(), ctypes.c_uint64()
        values = (ctypes.c_uint64 * 256)()
        with self._control:
            messages = [] if self._program is None else self._program.log_messages
            while True:
                count = self._lib.xf_log_take(self._e, number, values, 256, time)
                if count < 0:
                    return out
                if number.value >= len(messages):
                    continue  # from a program that was replaced
                text, failed = messages[number.value]
                numbers = [_signed128(values[i], values[i + 1]) for i in range(0, count, 2)]
                out.append(LogMessage(time.value, text if failed else _format(text, numbers), failed))


def _set_element(element: tuple[Any, ...], width: int, name: str) -> tuple[int, int, int, int]:
    """(value, mask, low, high) of a value set's field."""
    full, what = (1 << width) - 1, f"value set '{name}'"
    kind, numbers = element[0], element[1:]
    if kind == "range":
        return 0, 0, uint(numbers[0], width, what), uint(numbers[1], width, what)
    if kind == "ternary":
        mask = uint(numbers[1], width, what)
    elif kind == "lpm":
        mask = full ^ (full >> numbers[1])
    else:
        mask = 0 if numbers[0] is None else full
    return uint(numbers[0] or 0, width, what), mask, 0, full


def _signed128(low: int, high: int) -> int:
    value = high << 64 | low
    return value - (1 << 128) if high >> 63 else value


def _format(text: str, values: list[int]) -> str:
    """BMv2's log format: each {…} takes the next value, \\{ and \\} stand for themselves."""
    left = iter(values)
    pattern = re.compile(r"\\[{}]|\{[^}]*\}")
    return pattern.sub(lambda m: m.group()[1] if m.group()[0] == "\\" else str(next(left, m.group())), text)
