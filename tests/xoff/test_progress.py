"""The live progress line on a terminal, and the plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from xoff.progress import Display


def terminal(file: io.StringIO, kind: str) -> Console:
    """A terminal whose TERM is `kind`."""
    return Console(file=file, force_terminal=True, width=80, _environ={"TERM": kind})


def test_bytes_reported_after_the_bar_is_gone_are_ignored() -> None:
    screen = io.StringIO()
    display = Display(console=terminal(screen, "xterm"))
    with display.transfer("allreduce: 16 ranks", 4096) as bar:
        bar.update(2048)
    shown = screen.getvalue()
    bar.update(4096)
    assert "allreduce: 16 ranks" in shown
    assert screen.getvalue() == shown


@pytest.mark.parametrize("console", ["no terminal", "dumb"])
def test_where_no_line_can_be_redrawn_every_phase_is_one_plain_line(console: str) -> None:
    log = io.StringIO()
    display = Display(
        console=terminal(log, "dumb") if console == "dumb" else Console(file=log, force_terminal=False)
    )
    with display.phase("starting [20] P4 switches"):
        pass
    with display.transfer("allreduce: 16 ranks", 4096) as bar:
        bar.update(4096)
    assert log.getvalue() == "starting [20] P4 switches\nallreduce: 16 ranks\n"


def test_a_line_that_stays_is_not_broken() -> None:
    log = io.StringIO()
    said = (
        "1 ms: set_class_policy(class 3, switches ['s1'], xoff_bytes 300000, xon_bytes 290000, lossless True)"
    )
    Display(console=Console(file=log, width=80)).say(said)
    assert log.getvalue() == said + "\n"
