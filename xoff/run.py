"""A run from beginning to end: experiment in, run folder and summary out."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from networkx import NetworkXException

from switch.native.build import BuildError
from switch.native.document import ProgramError
from switch.native.engine_types import EngineError
from xoff.errors import XoffError
from xoff.experiment import Experiment
from xoff.folder import RunFolder
from xoff.metrics import Summary, summarise
from xoff.ownership import hand_over
from xoff.progress import Display
from xoff.rundata import read_run

if TYPE_CHECKING:
    from xoff.clocks.context import RunContext


class Interrupted(XoffError):
    """Ctrl-C or a termination signal; everything has been cleaned up."""


def execute(experiment: Experiment, out: Path, display: Display | None = None) -> Summary:
    """Run the experiment; its folder goes into `out`. XoffError (and what planning raises) on anything that fails."""
    from xoff.clocks.context import make_context

    display = display or Display()
    if experiment.clock == "mininet":
        from xoff.clocks.requirements import require_mininet

        require_mininet()
    with display.phase("planning and compiling"):
        context = make_context(experiment)
    if experiment.clock == "mininet":
        from xoff.clocks.switches import choose_switch

        choose_switch(experiment, context.actions)
    folder = RunFolder.create(out, experiment)
    try:
        return _in_folder(context, folder, display)
    except OSError as error:
        where = error.filename or folder.path
        raise XoffError(f"{where}: {error.strerror or error}.") from error
    finally:
        hand_over(folder.path)


def _in_folder(context: RunContext, folder: RunFolder, display: Display) -> Summary:
    experiment = context.experiment
    context.plan.write(folder.path / "plan.json")
    files = context.program.write(folder.path / "program")
    folder.facts["compile_seconds"] = context.program.seconds
    try:
        if experiment.clock == "mininet":
            from xoff.clocks.mininet import MininetRun

            _until_interrupted(MininetRun(context, files, folder, display).run)
        else:
            from xoff.clocks.simulation import VirtualRun

            run = VirtualRun(context, files, folder, display)
            try:
                _until_interrupted(run.run)
            except Interrupted as interruption:
                if not run.stopped:
                    raise
                write_reports(folder.path)
                raise Interrupted(
                    f"{interruption} A report of what had happened by then is in {folder.path}."
                ) from None
    except (ProgramError, EngineError, BuildError) as error:
        raise XoffError(f"the native switch cannot run {context.program.name}: {error}") from None
    with display.phase("writing the report"):
        return write_reports(folder.path)


def _until_interrupted(run: Callable[[], Awaitable[None]]) -> None:
    """Run to the end; SIGINT or SIGTERM cancels, waits for the clean-up and raises Interrupted."""

    async def main() -> None:
        task = asyncio.ensure_future(run())
        loop = asyncio.get_running_loop()
        received: list[signal.Signals] = []

        def interrupt(number: signal.Signals) -> None:
            received.append(number)
            if len(received) == 1:  # a second one must not cancel the clean-up
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, interrupt, number)
        try:
            await task
        except asyncio.CancelledError:
            if not received:
                raise
            raise Interrupted(f"stopped by {received[0].name}; everything it had made is removed.") from None

    # asyncio leaves Python's own handler behind.
    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)


def write_reports(folder: Path) -> Summary:
    """Summary, page and HPCC files of a run folder, from its records."""
    from xoff.report.hpcc_files import write_hpcc_files
    from xoff.report.page import write_page

    data = read_run(folder)
    try:
        summary = summarise(data)
        (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        write_page(data, summary)
        write_hpcc_files(data)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, NetworkXException) as error:
        # Plan, facts and records have been parsed, but somebody may have changed what they say.
        raise XoffError(
            f"{folder}: no report can be made of this run folder: {type(error).__name__}: {error}."
        ) from error
    return summary
