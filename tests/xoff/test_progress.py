"""The live progress line on a terminal, and the plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from xoff.progress import Display, TimeLeftColumn, time_left


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


def test_where_no_line_can_be_redrawn_a_long_workload_tells_how_far_it_is() -> None:
    log = io.StringIO()
    display = Display(console=Console(file=log, force_terminal=False))
    with display.transfer("allreduce: 16 ranks", 40 << 20) as bar:
        for done in range(41):
            bar.update(done << 20, f"{done} us")
    lines = log.getvalue().splitlines()
    assert lines[0] == "allreduce: 16 ranks" and len(lines) == 20
    assert lines[10].startswith("  50%: 20.0 MiB of 40.0 MiB  20 us")


def test_a_plain_line_without_a_note_has_no_gap_before_the_time_that_is_left() -> None:
    log = io.StringIO()
    display = Display(console=Console(file=log, force_terminal=False))
    with display.transfer("allreduce: 16 ranks", 40 << 20) as bar:
        for done in range(41):
            bar.update(done << 20)
    told = log.getvalue().splitlines()[1:]
    assert told
    for line in told:
        amount, *left = line.split(", ")
        assert amount.endswith(" MiB of 40.0 MiB")
        assert all(time.startswith("about ") for time in left)


def test_a_live_line_says_how_long_it_will_take() -> None:
    clock = iter((0.0, 1.0, 2.0, 3.0))
    now = [next(clock)]
    progress = Progress(TimeLeftColumn(), get_time=lambda: now[0])
    task = progress.add_task("", total=1000)
    for now[0] in clock:
        progress.update(task, advance=1)
    assert time_left(progress.tasks[0]) == "about 16 min 37 s left"
    progress.update(task, completed=1000)
    assert time_left(progress.tasks[0]) == ""


def test_a_line_that_stays_is_not_broken() -> None:
    log = io.StringIO()
    said = (
        "1 ms: set_class_policy(class 3, switches ['s1'], xoff_bytes 300000, xon_bytes 290000, lossless True)"
    )
    Display(console=Console(file=log, width=80)).say(said)
    assert log.getvalue() == said + "\n"
