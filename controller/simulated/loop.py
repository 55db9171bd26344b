"""An event loop whose clock is the simulation's.

Theory of operation: time stands still while the loop has anything to do. When it would block, it says so (`idle`, with
the time of its next timer) and waits until somebody sets the time or one of its files becomes readable. So
`asyncio.sleep`, `wait_for` and `call_later` take simulated time, and a step of theirs takes none at all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
from collections.abc import Callable
from typing import Any

Idle = Callable[[int | None], None]
"""Called when the loop is about to block, with the simulated ns of its next timer (None: it has none)."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`asyncio`'s loop, on simulated time."""

    def __init__(self, idle: Idle) -> None:
        self.now_ns = 0
        """Simulated time, ns."""
        self._idle = idle
        self._jobs = 0
        super().__init__(_Selector(self._about_to_block))

    def time(self) -> float:
        """Simulated seconds since the run's epoch."""
        return self.now_ns / 1e9

    def set_time(self, now_ns: int) -> None:
        """Let time go on to `now_ns`; timers that are due run next."""
        self.now_ns = max(self.now_ns, now_ns)

    def run_in_executor(  # type: ignore[override]  # as its arguments are handed on, their types are asyncio's
        self, executor: concurrent.futures.Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """As asyncio's; until the job's result has been taken over, the loop is not idle."""
        job: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        job.add_done_callback(self._job_done)
        return job

    def _job_done(self, job: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _about_to_block(self, timeout: float | None) -> None:
        if not self._jobs:
            self._idle(None if timeout is None else self.now_ns + round(timeout * 1e9))


class _Selector(selectors.DefaultSelector):
    """Waits for files only: simulated time does not pass by itself."""

    def __init__(self, about_to_block: Callable[[float | None], None]) -> None:
        super().__init__()
        self._about_to_block = about_to_block

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and round(timeout * 1e9) <= 0):  # a timer is due, to the nanosecond
            return events
        self._about_to_block(timeout)
        return super().select(None)
