"""A process of a run that speaks JSON lines: events on its stdout, commands on its stdin, its log in a file.

A worker ends when its stdin closes, so nothing outlives the command even when it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xoff.errors import XoffError

Event = dict[str, Any]

ASIDE = ("progress", "failed", "stopped", "record", "idle")
"""Events that come in between and tell how it goes."""
END_SECONDS = 10.0
"""Time that a worker gets to write its last records after its stdin closed."""


class Worker:
    """One such process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self.pid = process.pid
        self._process = process
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self.on_event: Callable[[Event], None] | None = None
        """Gets the events that nobody waits for (`ASIDE`) as they come."""
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Worker:
        """Start it in a session of its own, so that Ctrl-C reaches only the run that owns it."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=sink,
                env=dict(environment),
                start_new_session=True,
                limit=1 << 24,
            )
        return cls(name, process, log)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                with self.log.open("ab") as sink:
                    sink.write(line)
                continue
            if not isinstance(event, dict):
                continue
            if event.get("event") in ASIDE:
                if self.on_event is not None:
                    self.on_event(event)
            else:
                self._events.put_nowait(event)
        await self._process.wait()
        self._events.put_nowait(None)

    async def wait(self, kind: str) -> Event:
        """The next event of that kind. XoffError when the worker reports an error or ends."""
        while True:
            event = await self._events.get()
            if event is None:
                self._events.put_nowait(None)
                raise XoffError(
                    f"{self.name} ended with exit code {self._process.returncode}{self._last_words()}."
                )
            if event.get("event") == "error":
                raise XoffError(f"{self.name}: {event.get('message', 'unknown error')}")
            if event.get("event") == kind:
                return event

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f" ({lines[-1].strip()}; all of it in {self.log})" if lines else f" (log: {self.log})"

    async def send(self, line: str) -> None:
        """Give it a command; a worker that is gone has no use for it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()

    @property
    def running(self) -> bool:
        """It has not ended yet."""
        return self._process.returncode is None

    async def end(self) -> None:
        """Close its stdin and wait for it to end; a worker that does not end in time is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), END_SECONDS)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._reader


def peak_rss_bytes(pid: int) -> int:
    """Most memory that a running process has had resident (VmHWM), 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
