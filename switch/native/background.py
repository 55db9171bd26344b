"""Builds in the background: what is made behind a program that already runs.

A few compilers at a time, at low priority, each in a process group of its own, so that a Ctrl-C at the terminal reaches
this process alone and this process ends them. A library that is asked for again while it is made is made once; one
that nobody waits for any more when its turn comes is not made. At exit running compilers are killed and waited for,
and their folders removed, so that nothing is left behind.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from switch.lifeline import die_with_parent
from switch.native.compilers import BuildError

AT_ONCE = max(1, min(2, (os.cpu_count() or 1) // 2))
"""Compilers that may run at the same time."""
NICENESS = 10
_EXIT_S = 10.0

Run = Callable[[Sequence[str], Path], "tuple[int, str]"]
"""Runs a command whose temporary files go into a folder; returns its exit code and what it printed."""

_log = logging.getLogger(__name__)


class Waiting:
    """Somebody who waits for a library."""

    def wanted(self) -> bool:
        """Whether it still does."""
        raise NotImplementedError

    def built(self, target: Path) -> None:
        """The library is there. Called in a thread of its own, or in the one that asks when it is there already."""
        raise NotImplementedError


class _Job:
    def __init__(self, target: Path, make: Callable[[Run], None]) -> None:
        self.target = target
        self.make = make
        self.waiting: list[Waiting] = []


class Builder:
    """The queue of libraries to be made, and the compilers that run."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._jobs: dict[Path, _Job] = {}
        self._queue: deque[_Job] = deque()
        self._failed: set[Path] = set()
        self._threads: set[threading.Thread] = set()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False
        self._process = 0

    def ask(self, target: Path, make: Callable[[Run], None], waiting: Waiting) -> None:
        """Have `make` put the library at `target`, and tell `waiting`; not if that failed in this process before.

        `make` runs in a thread, with the function that is to run the compiler, and raises BuildError.
        """
        with self._lock:
            if self._over or target in self._failed:
                return
            there = target.exists()
            if not self._process:
                self._process = os.getpid()
                atexit.register(
                    self.close
                )  # after the cache's own, if its folder goes at exit: this runs before
            if not there:
                job = self._jobs.get(target)
                if job is None:
                    job = self._jobs[target] = _Job(target, make)
                    self._queue.append(job)
                    if len(self._threads) < self._at_once:
                        thread = threading.Thread(target=self._work, name="xoff-build", daemon=True)
                        self._threads.add(thread)
                        thread.start()
                job.waiting.append(waiting)
        if there:
            waiting.built(target)

    def close(self) -> None:
        """End the compilers and take no more. Waits until they are gone. At exit this happens by itself."""
        if self._process != os.getpid():
            return  # a forked process: they are its parent's
        with self._lock:
            self._over = True
            self._queue.clear()
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            threads = list(self._threads)
        for thread in threads:
            thread.join(_EXIT_S)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads.discard(threading.current_thread())
                    return
                job = self._queue.popleft()
                if not any(waiting.wanted() for waiting in job.waiting):
                    del self._jobs[job.target]
                    continue
            self._serve(job)

    def _serve(self, job: _Job) -> None:
        problem: BaseException | None = None
        try:
            job.make(self._run)
        except (BuildError, OSError) as error:
            problem = error
        with self._lock:
            del self._jobs[job.target]
            waiting = job.waiting
            over = self._over
            if problem is not None:
                self._failed.add(job.target)
        if over:
            return
        if problem is not None:
            _log.warning("there is no optimised build of a program, which goes on with tcc's: %s", problem)
            return
        for one in waiting:
            if one.wanted():
                one.built(job.target)

    def _run(self, command: Sequence[str], folder: Path) -> tuple[int, str]:
        said = folder / "said"
        with said.open("wb") as output, self._lock:
            if self._over:
                raise BuildError("the process ends")
            process = subprocess.Popen(
                [*die_with_parent(), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(folder)},
                start_new_session=True,
            )
            self._running.add(process)
        with suppress(OSError):  # it may be done, or be a machine that forbids it
            os.setpriority(os.PRIO_PGRP, process.pid, NICENESS)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:  # the number is no other process's as long as it has not been waited for
            code = process.wait()
            self._running.discard(process)
        return code, said.read_text(errors="replace")


_builder = Builder()


def builder() -> Builder:
    """The process's own."""
    return _builder


def _renew() -> None:
    global _builder
    _builder = Builder()


os.register_at_fork(after_in_child=_renew)  # which has none of its parent's threads
