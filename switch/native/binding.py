"""The engine from Python: one `Engine` is one switch, driven by `rx`, `poll` and `next_deadline`.

Names are those of the BMv2 JSON (control-plane names: `MyIngress.ipv4_lpm`); values are non-negative integers; times
are nanoseconds of the caller's clock. Every method may be called from any thread: the engine locks itself, and ctypes
releases the GIL meanwhile. Objects are described by `Engine.program` (`switch.native.program`).
"""

from __future__ import annotations

import ctypes
import logging
import signal
import threading
import weakref

from switch.device import CPU_PORT, DROP_PORT, PRIORITY_QUEUES
from switch.native import abi
from switch.native.build import CompiledProgram, compile_program
from switch.native.engine_ports import EnginePorts
from switch.native.engine_state import EngineState
from switch.native.engine_tables import EngineTables
from switch.native.engine_types import (
    BufferStats,
    Digest,
    EngineError,
    Entry,
    ErrorKind,
    IdleEvent,
    Key,
    LogMessage,
    PauseEvent,
    PortStats,
    QueueSettings,
    QueueStats,
    check,
)
from switch.native.journal import Journal
from switch.native.program import Program

__all__ = [
    "BufferStats",
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
    "QueueSettings",
    "QueueStats",
]


_log = logging.getLogger(__name__)


class _State:
    """What must be freed with an engine, apart from it so that a finalizer can hold it."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self.library = library
        self.handle = handle
        self.lock = threading.RLock()
        """Held while what the engine runs changes."""
        self.codes: tuple[CompiledProgram, ...] = ()
        """The builds of the program, the first one and the one that took its place; the engine may run either."""

    def load(self, code: CompiledProgram | None) -> int:
        """What xf_load returns; `code` is closed by and by, at once if it cannot be loaded."""
        with self.lock:
            rc: int = self.library.xf_load(self.handle, None if code is None else code.descriptor)
            old, self.codes = self.codes, () if code is None or rc < 0 else (code,)
            for one in old:
                one.close()
        if code is not None and rc < 0:
            code.close()
        return rc

    def offer(self, code: CompiledProgram, better: CompiledProgram) -> int:
        """Offer another build of `code`; what xf_offer returns, 0 if another program is loaded by now.

        `code` stays loaded, since it may be running.
        """
        with self.lock:
            rc = 0
            if self.codes == (code,):
                rc = int(self.library.xf_offer(self.handle, code.descriptor, better.descriptor))
                if rc >= 0:
                    self.codes = (code, better)
                    return rc
        better.close()
        return rc

    def close(self) -> None:
        with self.lock:
            if self.handle:
                self.library.xf_free(self.handle)
                self.handle = 0
            old, self.codes = self.codes, ()
            for one in old:
                one.close()


class Engine(EngineTables, EngineState, EnginePorts):
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
        traced: bool = False,
        bmv2_compat: bool = False,
    ) -> None:
        """Compile `program` (or take it from the cache) and load it; None starts without one (every frame is
        dropped and counted until `set_pipeline`).

        `bmv2_compat`: re-entering packets have ingress timestamp 0, as in simple_switch.
        `traced` makes its programs tell what they do (`switch.native.trace`), which costs a lot per packet.
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
        if bmv2_compat:
            self._lib.xf_bmv2_compat(handle)
        self._e = handle
        self._state = _State(self._lib, handle)
        self._finalizer = weakref.finalize(self, self._state.close)
        self._control = threading.RLock()
        self._batch = None
        self._depth = 0
        self.journal = Journal()
        self.traced = traced
        self._frames = (abi.Frame * abi.FRAMES)()
        self._polling = threading.Lock()
        self._program = None
        self._forget_tables(None)
        self._value_sets = {}
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
    def crashed(self) -> str | None:
        """The signal (`SIGSEGV`…) of a fault in the packet path that has ended the engine (guard.c); None = it works.

        All that may be done with it then is `close`.
        """
        number = int(self._lib.xf_crashed(self._e)) if self._e else 0
        return signal.Signals(number).name if number else None

    @property
    def handle(self) -> int:
        """Address of the C `xf_engine`, for a packet loop in C."""
        return self._e

    def close(self) -> None:
        """Free the engine. Also on garbage collection and as a context manager.

        Waits for a program that another thread is loading; one that comes later is refused.
        """
        with self._control:
            self._finalizer()
            self._e = 0

    def set_pipeline(self, program: Program | None) -> None:
        """Replace the program and all its state; ports, multicast groups and clone sessions stay.

        Raises ProgramError, BuildError, EngineError.
        """
        code = None if program is None else compile_program(program, traced=self.traced)
        with self._control:
            if not self._e:
                if code is not None:
                    code.close()
                raise EngineError("invalid", "the engine is closed")
            rc = self._state.load(code)
            self._program = program if rc >= 0 else None
            self._forget_tables(self._program)
            self._value_sets = {}
            check(rc, "loading the program")
        if code is not None:
            code.when_optimised(self._go_on_with)

    @property
    def optimised(self) -> bool:
        """Whether the best build that this machine makes is running, rather than the one that was there at once."""
        codes = self._state.codes
        return bool(codes) and codes[-1].optimised and self._lib.xf_running(self._e) == codes[-1].descriptor

    def _go_on_with(self, code: CompiledProgram, better: CompiledProgram) -> None:
        """Offer another build of `code` to the engine, which takes it up before the next frame or poll.

        Nothing waits here for the packet path, which may hold the engine for long (a fabric's run).
        """
        if self._state.offer(code, better) < 0:
            _log.warning("the optimised build of a program has another layout; the one by tcc goes on")

    # ---- packet path ----
    def rx(self, port: int, frame: bytes, now: int) -> None:
        """The frame's last bit arrived on `port` at `now`."""
        self._lib.xf_rx_guarded(self._e, port, frame, len(frame), now)

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

    def take_pause_events(self) -> list[PauseEvent]:
        """Pause changes since the last call, in time order."""
        out: list[PauseEvent] = []
        events, lost = (abi.PauseEvent * 256)(), ctypes.c_uint64()
        while True:
            count = self._lib.xf_pause_take(self._e, events, 256, ctypes.byref(lost))
            out += [PauseEvent(e.time, e.port, e.cls, e.until) for e in events[:count]]
            if count < 256:
                return out
