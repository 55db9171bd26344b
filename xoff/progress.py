"""What a person sees while a run works: the phase, then how far the workload is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from xoff.units import format_bytes

PLAIN_PARTS = 20
"""Where no line can be redrawn, a workload is reported each time another of so many parts is done."""


def time_left(task: Task) -> str:
    """At the speed of the last half minute; empty while that is not known."""
    seconds = task.time_remaining
    if task.total is None or seconds is None or task.finished:
        return ""
    minutes, seconds = divmod(int(seconds), 60)
    return f"about {minutes} min {seconds:02} s left" if minutes else f"about {seconds} s left"


class TimeLeftColumn(ProgressColumn):
    """How long a phase of known length will still take."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """The column's text."""
        return Text(time_left(task))


class Display:
    """Progress on stderr: a live line on a terminal that can redraw one, plain lines elsewhere."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeLeftColumn(),
            console=self._console,
            transient=True,
        )
        self._live = self._console.is_terminal and not self._console.is_dumb_terminal

    def say(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """A phase without a known length."""
        if not self._live:
            self.say(text)
            yield
            return
        with self._progress:
            task = self._progress.add_task(escape(text), total=None, detail="")
            try:
                yield
            finally:
                self._progress.remove_task(task)

    @contextmanager
    def transfer(self, text: str, total_bytes: int) -> Iterator[TransferBar]:
        """The workload: bytes received out of `total_bytes`."""
        if not self._live:
            self.say(text)
        with self._progress if self._live else nullcontext():
            task = self._progress.add_task(escape(text), total=total_bytes, detail="")
            bar = TransferBar(self._progress, task, total_bytes, None if self._live else self.say)
            try:
                yield bar
            finally:
                bar.close()
                self._progress.remove_task(task)


class TransferBar:
    """The bar of `Display.transfer`; what hosts report after it is gone shows nowhere."""

    def __init__(
        self, progress: Progress, task: TaskID, total: int, say: Callable[[str], None] | None = None
    ) -> None:
        """With `say` the progress is not drawn but told, now and then."""
        self._progress: Progress | None = progress
        self._task, self._total, self._say = task, total, say
        self._told = 0

    def update(self, done: int, note: str = "") -> None:
        """`done` bytes have arrived so far."""
        if self._progress is not None:
            detail = f"{format_bytes(done)} of {format_bytes(self._total)}" + (f"  {note}" if note else "")
            self._progress.update(self._task, completed=done, detail=detail)
            part = done * PLAIN_PARTS // max(1, self._total)
            if self._say is not None and self._told < part < PLAIN_PARTS:
                self._told = part
                left = time_left(next(task for task in self._progress.tasks if task.id == self._task))
                self._say(f"  {done / self._total:.0%}: {detail}" + (f", {left}" if left else ""))

    def close(self) -> None:
        """From now on `update` does nothing."""
        self._progress = None
