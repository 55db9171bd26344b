"""What a person sees while a run works: the phase, then how far the workload is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from xoff.units import format_bytes


class Display:
    """Progress on stderr: a live line on a terminal that can redraw one, a plain line per phase elsewhere."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
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
            yield TransferBar(None, 0, total_bytes)
            return
        with self._progress:
            task = self._progress.add_task(escape(text), total=total_bytes, detail="")
            bar = TransferBar(self._progress, task, total_bytes)
            try:
                yield bar
            finally:
                bar.close()
                self._progress.remove_task(task)


class TransferBar:
    """The bar of `Display.transfer`; what hosts report after it is gone shows nowhere."""

    def __init__(self, progress: Progress | None, task: int, total: int) -> None:
        self._progress, self._task, self._total = progress, task, total

    def update(self, done: int, note: str = "") -> None:
        """`done` bytes have arrived so far."""
        if self._progress is not None:
            detail = f"{format_bytes(done)} of {format_bytes(self._total)}  {note}"
            self._progress.update(self._task, completed=done, detail=detail)  # type: ignore[arg-type]

    def close(self) -> None:
        """From now on `update` does nothing."""
        self._progress = None
