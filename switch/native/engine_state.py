"""Counters, registers, meters, replication, value sets, digests and logs of an engine, by name."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from switch.native import abi
from switch.native.engine_base import EngineBase
from switch.native.engine_types import Digest, EngineError, LogMessage, check, encode_rates, uint
from switch.native.program import Array, join, limbs, split


class EngineState(EngineBase):
    """What a program keeps besides its tables, and what it reports."""

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

    def counter_write(self, name: str, index: int, packets: int, bytes: int) -> None:
        """Write one cell."""
        counter = self._named(self.program.counters, name, "counter")
        code = self._lib.xf_counter_write(
            self._e,
            counter.index,
            uint(index, 32, "index"),
            uint(packets, 64, "packets"),
            uint(bytes, 64, "bytes"),
        )
        check(code, f"counter '{name}' at {index} (its size is {counter.size})")

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

    def register_write(self, name: str, index: int, value: int) -> None:
        """Write one cell; on the pause register it takes effect at once, as a write by the program does."""
        array = self._named(self.program.registers, name, "register")
        words = abi.words(split(uint(value, array.width, f"register '{name}'"), limbs(array.width)))
        code = self._lib.xf_register_write(self._e, array.index, uint(index, 32, "index"), words)
        check(code, f"register '{name}' at {index} (its size is {array.size})")

    def register_reset(self, name: str) -> None:
        """All cells to 0."""
        array = self._named(self.program.registers, name, "register")
        check(self._lib.xf_register_reset(self._e, array.index), f"register '{name}'")

    def meter_set(self, name: str, index: int, rates: tuple[int, int, int, int] | None) -> None:
        """(cir, cburst, pir, pburst): units (bytes or packets) per second and units; None unsets (all green)."""
        meter = self._named(self.program.meters, name, "meter")
        words, count = encode_rates(rates)
        code = self._lib.xf_meter_set(self._e, meter.index, uint(index, 32, "index"), words, count)
        check(code, f"meter '{name}' at {index} (its size is {meter.size})")

    # ---- replication ----
    @staticmethod
    def _replicas(replicas: Iterable[tuple[int, int]]) -> tuple[Any, int]:
        flat: list[int] = []
        for port, rid in replicas:
            flat += [uint(port, 32, "port"), uint(rid, 32, "rid")]
        return abi.ints(flat), len(flat) // 2

    def multicast_group_set(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Create or replace a multicast group of (port, rid) replicas, replicated in this order."""
        pairs, count = self._replicas(replicas)
        code = self._lib.xf_multicast_set(self._e, uint(group, 32, "multicast group"), pairs, count)
        check(code, f"multicast group {group}")

    def multicast_group_delete(self, group: int) -> None:
        """EngineError "not_found"."""
        code = self._lib.xf_multicast_delete(self._e, uint(group, 32, "multicast group"))
        check(code, f"multicast group {group}")

    def clone_session_set(
        self, session: int, replicas: Iterable[tuple[int, int]] | int, *, group: int = 0, truncate: int = 0
    ) -> None:
        """Create or replace a clone session: one port, or (port, rid) replicas; `group` adds a multicast group's.

        `truncate` > 0 cuts the copies to that many bytes.
        """
        if isinstance(replicas, int):
            replicas = [(replicas, 0xFFFFFFFF)]
        pairs, count = self._replicas(replicas)
        code = self._lib.xf_clone_set(
            self._e,
            uint(session, 32, "clone session"),
            pairs,
            count,
            group,
            uint(truncate, 32, "truncation"),
        )
        check(code, f"clone session {session}")

    def clone_session_delete(self, session: int) -> None:
        """EngineError "not_found"."""
        code = self._lib.xf_clone_delete(self._e, uint(session, 32, "clone session"))
        check(code, f"clone session {session}")

    # ---- parser value sets ----
    def value_set_add(self, name: str, value: Sequence[tuple[int, int | None]]) -> None:
        """Add a member: (value, mask or None) for each field of the set."""
        array = self._named(self.program.value_sets, name, "value set")
        widths = self.program.value_set_widths[name]
        if len(value) != len(widths):
            raise EngineError(
                "invalid", f"value set '{name}' has {len(widths)} fields, {len(value)} were given"
            )
        words: list[int] = []
        masks: list[int] = []
        for (number, mask), width in zip(value, widths, strict=True):
            full = (1 << width) - 1
            words += split(uint(number, width, f"value set '{name}'"), limbs(width))
            masks += split(full if mask is None else uint(mask, width, f"value set '{name}'"), limbs(width))
        code = self._lib.xf_value_set_add(self._e, array.index, abi.words(words), abi.words(masks))
        check(code, f"adding to value set '{name}'")

    def value_set_clear(self, name: str) -> None:
        """Empty the set."""
        array = self._named(self.program.value_sets, name, "value set")
        check(self._lib.xf_value_set_clear(self._e, array.index), f"value set '{name}'")

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


def _signed128(low: int, high: int) -> int:
    value = high << 64 | low
    return value - (1 << 128) if high >> 63 else value


def _format(text: str, values: list[int]) -> str:
    """BMv2's log format: each {…} takes the next value, \\{ and \\} stand for themselves."""
    left = iter(values)
    pattern = re.compile(r"\\[{}]|\{[^}]*\}")
    return pattern.sub(lambda m: m.group()[1] if m.group()[0] == "\\" else str(next(left, m.group())), text)
