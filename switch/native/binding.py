"""The engine from Python: one `Engine` is one switch, driven by `rx`, `poll` and `next_deadline`.

Names are those of the BMv2 JSON (control-plane names: `MyIngress.ipv4_lpm`); values are non-negative integers; times
are nanoseconds of the caller's clock. Every method may be called from any thread: the engine locks itself, and ctypes
releases the GIL meanwhile. Objects are described by `Engine.program` (`switch.native.program`).
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

from switch.device import CPU_PORT, DROP_PORT, PRIORITY_QUEUES
from switch.native import abi
from switch.native.build import CompiledProgram, compile_program
from switch.native.engine_state import EngineState
from switch.native.engine_tables import EngineTables
from switch.native.engine_types import (
    Digest,
    EngineError,
    Entry,
    ErrorKind,
    IdleEvent,
    Key,
    LogMessage,
    PauseEvent,
    PortStats,
    QueueStats,
    check,
    uint,
)
from switch.native.program import Program

__all__ = [
    "Digest",
    "Engine",
    "EngineError",
    "Entry",
    "ErrorKind",
    "IdleEvent",
    "Key",
    "LogMessage",
    "PauseEvent",
    "PortStats",
    "QueueStats",
]


class _State:
    """What must be freed with an engine, apart from it so that a finalizer can hold it."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self.library = library
        self.handle = handle
        self.code: CompiledProgram | None = None

    def close(self) -> None:
        if self.handle:
            self.library.xf_free(self.handle)
            self.handle = 0
        if self.code is not None:
            self.code.close()
            self.code = None


class Engine(EngineTables, EngineState):
    """One native switch running one program."""

    def __init__(
        self,
        program: Program | None,
        *,
        device_id: int = 0,
        cpu_port: int = CPU_PORT,
        drop_port: int = DROP_PORT,
        timestamp_hz: int = 10**6,
        priority_queues: int = PRIORITY_QUEUES,
        seed: int = 0,
    ) -> None:
        """Compile `program` (or take it from the cache) and load it; None starts without one (every frame is
        dropped and counted until `set_pipeline`).

        Raises ProgramError, switch.native.build.BuildError (no compiler), EngineError.
        """
        if not 1 <= timestamp_hz <= 10**9:
            raise EngineError("invalid", f"timestamp_hz {timestamp_hz} is not in 1..10^9")
        if not 1 <= priority_queues <= abi.CLASSES:
            raise EngineError("invalid", f"priority_queues {priority_queues} is not in 1..{abi.CLASSES}")
        if not 0 <= cpu_port < 512:
            raise EngineError("invalid", f"cpu_port {cpu_port} is not in 0..511")
        self.device_id = device_id
        self.cpu_port = cpu_port
        self.drop_port = drop_port
        self.timestamp_hz = timestamp_hz
        self.priority_queues = priority_queues
        self._lib = abi.library()
        handle = self._lib.xf_new(
            device_id & 0xFFFFFFFF, cpu_port, drop_port, timestamp_hz, priority_queues, seed & abi.NEVER
        )
        if not handle:
            raise EngineError("memory", "could not make an engine")
        self._e = handle
        self._state = _State(self._lib, handle)
        self._finalizer = weakref.finalize(self, self._state.close)
        self._control = threading.RLock()
        self._frames = (abi.Frame * abi.FRAMES)()
        self._polling = threading.Lock()
        self._program = None
        self._forget_tables(None)
        if program is not None:
            try:
                self.set_pipeline(program)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def loaded(self) -> bool:
        """Whether a program is loaded."""
        return self._program is not None

    @property
    def handle(self) -> int:
        """Address of the C `xf_engine`, for a packet loop in C."""
        return self._e

    def close(self) -> None:
        """Free the engine. Also on garbage collection and as a context manager."""
        self._finalizer()
        self._e = 0

    def set_pipeline(self, program: Program | None) -> None:
        """Replace the program and all its state; ports, multicast groups and clone sessions stay."""
        code = None if program is None else compile_program(program)
        with self._control:
            rc = self._lib.xf_load(self._e, None if code is None else code.descriptor)
            old, self._state.code = self._state.code, code if rc >= 0 else None
            if old is not None:
                old.close()
            self._program = program if rc >= 0 else None
            if rc < 0 and code is not None:
                code.close()
            self._forget_tables(self._program)
            check(rc, "loading the program")

    # ---- packet path ----
    def rx(self, port: int, frame: bytes, now: int) -> None:
        """The frame's last bit arrived on `port` at `now`."""
        self._lib.xf_rx(self._e, port, frame, len(frame), now)

    def poll(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that have reached the far end by `now`, in time order."""
        return [(port, frame) for _, port, frame in self.poll_timed(now)]

    def poll_timed(self, now: int) -> list[tuple[int, int, bytes]]:
        """As `poll`, with the arrival time first: (time, port, frame)."""
        out: list[tuple[int, int, bytes]] = []
        frames = self._frames
        with self._polling:  # the bytes belong to the engine until the next poll
            while True:
                count = self._lib.xf_poll(self._e, now, frames, abi.FRAMES)
                for i in range(count):
                    f = frames[i]
                    out.append((f.time, f.port, ctypes.string_at(f.data, f.length)))
                if count < abi.FRAMES:
                    return out

    def next_deadline(self) -> int | None:
        """When to call `poll` next; None = nothing pending."""
        at: int = self._lib.xf_deadline(self._e)
        return None if at == abi.NEVER else at

    def pending(self) -> set[str]:
        """Which of "cpu", "digest", "pause", "idle", "log" have something to take."""
        bits = self._lib.xf_pending(self._e)
        return {name for name, bit in abi.PENDING.items() if bits & bit}

    def take_cpu_frames(self) -> list[tuple[int, bytes]]:
        """(time, frame) sent to the CPU port, oldest first; never handed out by `poll`.

        A packet-out is `rx(cpu_port, frame, now)`.
        """
        out: list[tuple[int, bytes]] = []
        with self._control:
            frames = (abi.Frame * abi.FRAMES)()
            while True:
                count = self._lib.xf_cpu_take(self._e, frames, abi.FRAMES)
                out += [(f.time, ctypes.string_at(f.data, f.length)) for f in frames[:count]]
                if count < abi.FRAMES:
                    return out

    # ---- ports and queues ----
    def add_port(self, number: int, rate_bps: int = 0, delay_ns: int = 0) -> None:
        """Add a port, up. Rate in bit/s on wire bytes, 0 = unlimited. EngineError "exists"."""
        uint(number, 9, "port number")
        code = self._lib.xf_port_add(self._e, number, uint(rate_bps, 63, "rate"), uint(delay_ns, 63, "delay"))
        check(code, f"adding port {number}")

    def remove_port(self, number: int) -> None:
        """Remove it; what it holds is dropped and counted."""
        check(self._lib.xf_port_remove(self._e, uint(number, 9, "port number")), f"port {number}")

    def set_port_rate(self, number: int, rate_bps: int) -> None:
        """Applies from the next transmission on."""
        code = self._lib.xf_port_rate(self._e, uint(number, 9, "port number"), uint(rate_bps, 63, "rate"))
        check(code, f"rate of port {number}")

    def set_port_delay(self, number: int, delay_ns: int) -> None:
        """Applies from the next transmission on."""
        code = self._lib.xf_port_delay(self._e, uint(number, 9, "port number"), uint(delay_ns, 63, "delay"))
        check(code, f"delay of port {number}")

    def set_port_up(self, number: int, up: bool) -> None:
        """A port that is down drops what it receives or would send, counted as `port_down`."""
        check(self._lib.xf_port_up(self._e, uint(number, 9, "port number"), int(up)), f"port {number}")

    def set_catch_up(self, limit_ns: int) -> None:
        """When called late, make good at most this much lost time (ns); 0, the default, all of it.

        For drivers on the wall clock: a stall of theirs is then lost time instead of a burst.
        """
        self._lib.xf_catch_up(self._e, uint(limit_ns, 63, "catch-up limit"))

    def set_port_loss(
        self, number: int, probability: float, every: int = 0, *, seed: int = 0, received: bool = False
    ) -> None:
        """Lose frames on the wire, counted as `link_loss`: those sent, or with `received` those that come in.

        Each is lost with `probability`, drawn from a sequence of this direction that begins with `seed`; and
        every `every`-th one (0: none). Both 0 heals the link.
        """
        if not 0.0 <= probability <= 1.0:
            raise EngineError("invalid", f"a loss probability lies between 0 and 1, not at {probability}")
        threshold = min(round(probability * 2**64), abi.NEVER)
        check(
            self._lib.xf_port_loss(
                self._e,
                uint(number, 9, "port number"),
                int(received),
                threshold,
                uint(every, 32, "every"),
                seed & abi.NEVER,
            ),
            f"port {number}",
        )

    def set_queue_limit(
        self,
        port: int | None = None,
        cls: int | None = None,
        *,
        bytes: int | None = None,
        packets: int | None = None,
    ) -> None:
        """Limits of one (port, class) queue; None = all (as a limit: none). Also applies to ports added later."""
        code = self._lib.xf_queue_limit(
            self._e,
            -1 if port is None else uint(port, 9, "port number"),
            -1 if cls is None else uint(cls, 3, "class"),
            2**63 if bytes is None else uint(bytes, 63, "byte limit"),
            2**63 if packets is None else uint(packets, 63, "packet limit"),
        )
        check(code, "setting a queue limit")

    def queue_stats(self, port: int) -> list[QueueStats]:
        """The 8 queues of a port, class 0 first."""
        queues = []
        for cls in range(abi.CLASSES):
            q = abi.QueueStats()
            check(self._lib.xf_queue_read(self._e, uint(port, 9, "port number"), cls, q), f"port {port}")
            names = ("queue_bytes", "queue_packets")
            drops = {
                n: (q.drop_packets[i], q.drop_bytes[i]) for i, n in enumerate(names) if q.drop_packets[i]
            }
            queues.append(
                QueueStats(
                    q.bytes,
                    q.packets,
                    q.watermark_bytes,
                    q.watermark_packets,
                    q.in_bytes,
                    q.in_packets,
                    q.paused_until,
                    q.paused_ns,
                    drops,
                )
            )
        return queues

    def port_stats(self, port: int) -> PortStats:
        """Counters of one port."""
        s: Any = abi.port_stats_type()()
        check(self._lib.xf_port_read(self._e, uint(port, 9, "port number"), ctypes.byref(s)), f"port {port}")
        drops = {
            name: (s.drop_packets[i], s.drop_bytes[i])
            for i, name in enumerate(abi.DROP_REASONS)
            if s.drop_packets[i]
        }
        return PortStats(
            s.rx_bytes, s.rx_packets, s.tx_bytes, s.tx_packets, s.rate_bps, s.delay_ns, bool(s.up), drops
        )

    def reset_watermarks(self, port: int) -> None:
        """Start the queues' watermarks from what they hold now."""
        check(self._lib.xf_watermark_reset(self._e, uint(port, 9, "port number")), f"port {port}")

    def drops(self) -> dict[str, tuple[int, int]]:
        """Reason -> (packets, bytes) of the whole switch; every reason, zero where none."""
        count = len(abi.DROP_REASONS)
        packets, octets = (ctypes.c_uint64 * count)(), (ctypes.c_uint64 * count)()
        self._lib.xf_drops_read(self._e, packets, octets)
        return {name: (packets[i], octets[i]) for i, name in enumerate(abi.DROP_REASONS)}

    def take_pause_events(self) -> list[PauseEvent]:
        """Pause changes since the last call, in time order."""
        out: list[PauseEvent] = []
        events, lost = (abi.PauseEvent * 256)(), ctypes.c_uint64()
        while True:
            count = self._lib.xf_pause_take(self._e, events, 256, ctypes.byref(lost))
            out += [PauseEvent(e.time, e.port, e.cls, e.until) for e in events[:count]]
            if count < 256:
                return out
