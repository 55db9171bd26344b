"""What every part of the engine's binding stands on."""

from __future__ import annotations

import ctypes
import threading

from switch.native.engine_types import EngineError
from switch.native.program import Program


class EngineBase:
    """What every part of `Engine` stands on: the C engine and the loaded program."""

    _lib: ctypes.CDLL
    _e: int
    _program: Program | None
    _control: threading.RLock

    @property
    def program(self) -> Program:
        """The loaded program; EngineError when there is none."""
        if self._program is None:
            raise EngineError("not_found", "no program is loaded")
        return self._program
