"""A fabric from Python: engines and other nodes joined by links in one process, driven by one event queue in C.

Nodes are numbered in the order in which they were added. A node may be an engine, something in C that offers an
`xf_node_type` (`add_native`), or a Python object with `rx`, `poll` and `next_deadline`.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_int, c_uint8, c_uint32, c_uint64, c_void_p
from enum import IntEnum
from typing import Protocol

from switch.native import abi
from switch.native.binding import Engine
from switch.native.engine_types import check

_RX = CFUNCTYPE(None, c_uint32, c_uint32, POINTER(c_uint8), c_uint32, c_uint64)
_POLL = CFUNCTYPE(None, c_uint32, c_uint64)
_DEADLINE = CFUNCTYPE(c_uint64, c_uint32)
_TAP = CFUNCTYPE(None, c_uint32, c_uint32, c_uint32, c_uint32, POINTER(c_uint8), c_uint32, c_uint64)

Tap = Callable[[int, int, bytes, int], None]
"""Called with sending node, receiving node, frame and the time in ns at which its last bit arrived."""


class _Foreign(Structure):
    """xf_foreign."""

    _fields_ = (("rx", _RX), ("poll", _POLL), ("deadline", _DEADLINE))


class FabricStats(Structure):
    """xf_fabric_stats."""

    _fields_ = tuple((n, c_uint64) for n in ("now", "traversals", "polls", "instants", "frame_bytes"))

    now: int
    traversals: int
    polls: int
    instants: int
    frame_bytes: int


_PROTOTYPES: dict[str, tuple[object, tuple[object, ...]]] = {
    "xf_fabric_new": (c_void_p, (POINTER(_Foreign),)),
    "xf_fabric_free": (None, (c_void_p,)),
    "xf_fabric_add_engine": (c_int, (c_void_p, c_void_p)),
    "xf_fabric_add_node": (c_int, (c_void_p, c_void_p, c_void_p)),
    "xf_fabric_add_foreign": (c_int, (c_void_p,)),
    "xf_fabric_connect": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, c_uint32)),
    "xf_fabric_tap": (c_int, (c_void_p, c_uint32, _TAP)),
    "xf_fabric_run": (c_int, (c_void_p, c_uint64, c_int)),
    "xf_fabric_run_ahead": (c_int, (c_void_p, c_uint64)),
    "xf_fabric_interrupt": (None, (c_void_p,)),
    "xf_fabric_send": (None, (c_void_p, c_uint32, ctypes.c_char_p, c_uint32)),
    "xf_fabric_touch": (None, (c_void_p, c_uint32)),
    "xf_fabric_touch_all": (None, (c_void_p,)),
    "xf_fabric_advance": (None, (c_void_p, c_uint64)),
    "xf_fabric_pool": (c_void_p, (c_void_p,)),
    "xf_fabric_entered": (None, (c_void_p,)),
    "xf_fabric_read": (None, (c_void_p, POINTER(FabricStats))),
}


_ASK_REPORTS = 4


class Result(IntEnum):
    """Why `Fabric.run` returned (xf_fabric_result)."""

    IDLE = 0
    REACHED = 1
    INTERRUPTED = 2
    ASKED = 3
    REPORTED = 4


class Ask(IntEnum):
    """After which instants `Fabric.run` returns (xf_fabric_ask)."""

    NEVER = 0
    ENTERED = 1
    """Those in which Python code ran."""
    ALWAYS = 2


class PythonNode(Protocol):
    """A node whose code is Python (docs/architecture.md)."""

    def rx(self, port: int, frame: bytes, now: int) -> None:
        """A frame's last bit arrived at `now` ns."""

    def poll(self, now: int) -> Sequence[tuple[int, bytes]]:
        """Frames whose last bit has reached the far end by `now`, in time order."""

    def next_deadline(self) -> int | None:
        """Absolute ns of the next call to `poll` that can yield or change something."""


class Fabric:
    """Nodes, links and the queue. Everything that is added must live as long as it does."""

    def __init__(self) -> None:
        self._lib = abi.library()
        if self._lib.xf_fabric_new.restype is not c_void_p:
            for name, (result, arguments) in _PROTOTYPES.items():
                function = getattr(self._lib, name)
                function.restype, function.argtypes = result, arguments
        self._foreign = _Foreign(_RX(self._rx), _POLL(self._poll), _DEADLINE(self._deadline))
        handle = self._lib.xf_fabric_new(byref(self._foreign))
        if not handle:
            raise MemoryError("could not make a fabric")
        self.handle: int = handle
        """Address of the C `xf_fabric`."""
        self.error: BaseException | None = None
        """What a Python node raised; the run ends with the instant in which it did."""
        self.after_run: list[Callable[[], None]] = []
        """Called whenever a run has returned: what was kept back during it comes out."""
        self._nodes: dict[int, PythonNode] = {}
        self._kept: list[object] = []
        self._finalizer = weakref.finalize(self, self._lib.xf_fabric_free, handle)
        self._finalizer.atexit = False

    def close(self) -> None:
        """Take it apart; engines stay usable on their own."""
        self._finalizer()
        self.handle = 0

    def add_engine(self, engine: Engine) -> int:
        """Add an engine; EngineError "exists" when it is in a fabric already."""
        self._kept.append(engine)
        return self._added(self._lib.xf_fabric_add_engine(self.handle, engine.handle))

    def add_native(self, type_address: int, node_address: int, keep: object) -> int:
        """Add a node in C by the addresses of its `xf_node_type` and of itself; `keep` is kept alive."""
        self._kept.append(keep)
        return self._added(self._lib.xf_fabric_add_node(self.handle, type_address, node_address))

    def add_python(self, node: PythonNode) -> int:
        """Add a Python node."""
        number = self._added(self._lib.xf_fabric_add_foreign(self.handle))
        self._nodes[number] = node
        return number

    @staticmethod
    def _added(number: int) -> int:
        check(number, "adding a node to the fabric")
        return number

    def connect(self, a: int, a_port: int, b: int, b_port: int) -> None:
        """Join two ports by a link."""
        check(self._lib.xf_fabric_connect(self.handle, a, a_port, b, b_port), "joining two nodes by a link")

    def tap(self, nodes: Iterable[int], seen: Tap) -> None:
        """Show `seen` every frame that these nodes send or receive. A fabric has one tap."""

        def called(
            sender: int, _out: int, receiver: int, _in: int, frame: object, length: int, now: int
        ) -> None:
            try:
                seen(sender, receiver, ctypes.string_at(frame, length), now)  # type: ignore[arg-type]
            except BaseException as error:
                self.fail(error)

        function = _TAP(called)
        self._kept.append(function)
        for node in nodes:
            check(self._lib.xf_fabric_tap(self.handle, node, function), "tapping a node")

    def run(self, until: int | None, ask: Ask, *, reports: bool = False) -> Result:
        """Run every instant up to `until` (ns, inclusive); raises what a Python node raised.

        With `reports` it also returns after an instant in which an engine got something to tell a controller
        (`Engine.pending`: cpu, digest, idle).
        """
        limit = abi.NEVER - 1 if until is None else until
        return self._ran(self._lib.xf_fabric_run(self.handle, limit, ask | (_ASK_REPORTS if reports else 0)))

    def run_ahead(self, until: int) -> Result:
        """The same with each node in turn running ahead of the others by the shortest link's delay, which saves time.

        Every node sees the same events at the same times. Python code that is called meanwhile may look at the
        node that calls it, but not at others, whose time may be another.
        """
        return self._ran(self._lib.xf_fabric_run_ahead(self.handle, until))

    def _ran(self, result: int) -> Result:
        for action in self.after_run:
            action()
        self._raise()
        return Result(result)

    def _raise(self) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    @property
    def pool(self) -> int:
        """Address of the `xf_pool` that nodes in C take frames from."""
        pool: int = self._lib.xf_fabric_pool(self.handle)
        return pool

    @property
    def entered(self) -> int:
        """Address of `xf_fabric_entered`, for nodes in C that call Python."""
        address = ctypes.cast(self._lib.xf_fabric_entered, c_void_p).value
        assert address is not None
        return address

    def interrupt(self) -> None:
        """From inside `run`: let it return after this instant."""
        self._lib.xf_fabric_interrupt(self.handle)

    def touch(self, node: int) -> None:
        """Look at a node's deadline again."""
        self._lib.xf_fabric_touch(self.handle, node)
        self._raise()

    def touch_all(self) -> None:
        """Look at every node's deadline again."""
        self._lib.xf_fabric_touch_all(self.handle)
        self._raise()

    def advance(self, now: int) -> None:
        """Let time pass without an event."""
        self._lib.xf_fabric_advance(self.handle, now)

    def stats(self) -> FabricStats:
        """Time, and what was counted."""
        stats = FabricStats()
        self._lib.xf_fabric_read(self.handle, byref(stats))
        return stats

    # -- called from C; an exception must not be lost there

    def fail(self, error: BaseException) -> None:
        """Keep the first error and end the run."""
        if self.error is None:
            self.error = error
        self.interrupt()

    def _rx(self, number: int, port: int, frame: object, length: int, now: int) -> None:
        try:
            self._nodes[number].rx(port, ctypes.string_at(frame, length), now)  # type: ignore[arg-type]
        except BaseException as error:
            self.fail(error)

    def _poll(self, number: int, now: int) -> None:
        try:
            for port, frame in self._nodes[number].poll(now):
                self._lib.xf_fabric_send(self.handle, port, bytes(frame), len(frame))
        except BaseException as error:
            self.fail(error)

    def _deadline(self, number: int) -> int:
        try:
            due = self._nodes[number].next_deadline()
            return abi.NEVER if due is None else max(0, due)
        except BaseException as error:
            self.fail(error)
            return abi.NEVER
