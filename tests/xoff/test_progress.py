"""The live progress line on a terminal, and the plain lines elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from xoff.progress import Display


def test_bytes_reported_after_the_bar_is_gone_are_ignored() -> None:
    screen = io.StringIO()
    display = Display(console=Console(file=screen, force_terminal=True, width=80))
    with display.transfer("allreduce: 16 ranks", 4096) as bar:
        bar.update(2048)
    shown = screen.getvalue()
    bar.update(4096)
    assert "allreduce: 16 ranks" in shown
    assert screen.getvalue() == shown


def test_without_a_terminal_every_phase_is_one_plain_line() -> None:
    log = io.StringIO()
    display = Display(console=Console(file=log, force_terminal=False, width=80))
    with display.phase("starting [20] P4 switches"):
        pass
    with display.transfer("allreduce: 16 ranks", 4096) as bar:
        bar.update(4096)
    assert log.getvalue() == "starting [20] P4 switches\nallreduce: 16 ranks\n"
