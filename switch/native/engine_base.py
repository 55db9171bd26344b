"""What every part of the engine's binding stands on: the loaded program, and how changes reach the C engine."""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType
from typing import Any

from switch.native import abi
from switch.native.engine_types import EngineError, check
from switch.native.journal import Journal
from switch.native.program import Program


class Batch:
    """`EngineBase.batch`."""

    def __init__(self, engine: EngineBase) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        engine = self._engine
        engine._control.acquire()
        engine._depth += 1
        if engine._depth == 1:
            engine._batch = []
            engine.journal.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._engine._depth -= 1
            if self._engine._depth == 0:
                self._end(failed=kind is not None)
        finally:
            self._engine._control.release()

    def _end(self, *, failed: bool) -> None:
        engine = self._engine
        operations, engine._batch = engine._batch or [], None
        try:
            if not failed:
                engine._apply(operations)
        except BaseException:
            failed = True
            raise
        finally:
            if failed:
                engine.journal.take_back()
            else:
                engine.journal.keep()


class EngineBase:
    """What every part of `Engine` stands on."""

    _lib: ctypes.CDLL
    _e: int
    _program: Program | None
    _control: threading.RLock
    _batch: list[tuple[abi.Op, str]] | None
    """Operations that wait for the end of the open batch, each with what it does in words."""
    _depth: int
    """Batches that are open, one in the other."""
    journal: Journal
    """What is known in Python about the engine's state is changed through this."""

    @property
    def program(self) -> Program:
        """The loaded program; EngineError when there is none."""
        if self._program is None:
            raise EngineError("not_found", "no program is loaded")
        return self._program

    def batch(self) -> Batch:
        """Changes made inside `with engine.batch():` take effect together at its end: no packet sees a part of them.

        An exception drops them all, and what Python knows of the engine is as before. Batches inside a batch are
        parts of it. Other threads' changes wait meanwhile; reads inside a batch see the engine as it was before.
        """
        return Batch(self)

    def _change(self, what: str, kind: int, **fields: Any) -> None:
        """Apply one operation (xf.h says what its fields are), or add it to the open batch."""
        operation = abi.Op(kind=kind, **fields)
        with self._control:
            if self._batch is None:
                self._apply([(operation, what)])
            else:
                self._batch.append((operation, what))

    def _apply(self, operations: list[tuple[abi.Op, str]]) -> None:
        if not operations:
            return
        array = (abi.Op * len(operations))(*(operation for operation, _ in operations))
        done = ctypes.c_uint32()
        code = self._lib.xf_apply_ops(self._e, array, len(operations), done)
        if code < 0 < done.value:
            # Each operation was checked before it joined the batch, against what those before it make of the engine.
            raise RuntimeError(
                f"error {code} ({operations[done.value][1]}) in a batch of which {done.value} changes took effect"
            )
        if code < 0:
            check(code, operations[0][1])
