"""`python -m controller.user plan.json controller.py`: a user's controller in a process of its own.

Whatever the file does (raise, loop for ever, exit) ends no more than this process. The first line of standard input
is a JSON object with the switches' addresses; every record that the file emits is printed as
`{"event": "record", "record": {…}}`, its own printing goes to standard error. `ready` is printed when it emits a record
of kind `ready` or returns. End of file on standard input cancels it and, a second later, ends the process. Both streams
are the run's alone: what the file, a library or a process of its own writes to descriptor 1 is in the log, and
descriptor 0 is empty.

With `--simulated` its event loop runs on the time of a simulation (controller/simulated/): a line `now NS` on standard
input sets it, `down ADDRESS` and `up ADDRESS` say that a switch goes away and is back. Whenever the controller has
nothing left to do it prints an event `idle` with its account of calls, the number of lines it has heard, and the time
of its next timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from controller.app import ControllerError, run_controller_file
from controller.simulated.calls import Account, account_for_calls
from controller.simulated.loop import SimulatedLoop
from topologies.plan import FabricPlan

GRACE_S = 1.0


def main(arguments: list[str]) -> int:
    """Run the controller to its end; 0, or 1 after an error."""
    commands, out = _keep_streams()
    plan, file = FabricPlan.read(Path(arguments[0])), Path(arguments[1])
    process = _Simulated(commands, out) if "--simulated" in arguments[2:] else _Process(commands, out)
    addresses: dict[str, str] = json.loads(commands.readline())
    try:
        process.run(file, plan, addresses)
    except ControllerError as error:
        _say(out, event="error", message=str(error))
        return 1
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        told = f": {error}" if str(error) else ""
        _say(out, event="error", message=f"{file} ended with {type(error).__name__}{told}")
        return 1
    process.ended()
    # Nothing can be controlled any more, but the records stay open until the run closes our input.
    threading.Event().wait()
    return 0


def _keep_streams() -> tuple[TextIO, TextIO]:
    """Standard input and output under other descriptors, which no process of the controller's inherits."""
    commands = os.fdopen(os.dup(0), encoding="utf-8")
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, out


class _Process:
    """Runs the controller on the system's time."""

    def __init__(self, commands: TextIO, out: TextIO, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._commands = commands
        self._out = out
        self._loop = loop or asyncio.new_event_loop()

    def run(self, file: Path, plan: FabricPlan, addresses: dict[str, str]) -> None:
        """To its end; raises what it raises."""
        asyncio.set_event_loop(self._loop)
        try:
            task = self._loop.create_task(run_controller_file(file, plan, addresses, self.emit))
            threading.Thread(target=self._listen, args=(task,), daemon=True).start()
            self._loop.run_until_complete(task)
        finally:
            self._close()

    def _close(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def ended(self) -> None:
        """The controller has returned."""
        self.ready()

    def ready(self) -> None:
        """The traffic may begin."""
        _say(self._out, event="ready")

    def heard(self, line: str) -> None:
        """A line of standard input, in a thread of its own."""

    def emit(self, record: dict[str, Any]) -> None:
        """Takes the controller's records."""
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            raise TypeError(f"a record is a dictionary with a kind (docs/records.md), not {record!r:.100}")
        if record["kind"] == "ready":
            self.ready()
        else:
            _say(self._out, event="record", record=record)

    def _listen(self, task: asyncio.Task[None]) -> None:
        for line in self._commands:
            self.heard(line)
        timer = threading.Timer(GRACE_S, os._exit, (0,))
        timer.daemon = True
        timer.start()
        if self._loop.is_closed():
            os._exit(0)
        self._loop.call_soon_threadsafe(task.cancel)
        task.add_done_callback(lambda _: os._exit(0))


class _Simulated(_Process):
    """Runs it on the time of a simulation."""

    def __init__(self, commands: TextIO, out: TextIO) -> None:
        self._clock = SimulatedLoop(self._idle)
        super().__init__(commands, out, self._clock)
        self._account = Account()
        self._ready = False
        self._heard = 0
        self._said: dict[str, Any] = {}
        account_for_calls(self._account)

    def ready(self) -> None:
        """Told with the next word that it is idle."""
        self._ready = True

    def ended(self) -> None:
        """Nothing is asked or said any more."""
        self._ready = True
        self._tell(None, ended=True)

    def heard(self, line: str) -> None:
        """What the simulation says."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the controller has just ended
            self._loop.call_soon_threadsafe(self._act, line)

    def _act(self, line: str) -> None:
        word, argument = line.split()
        self._heard += 1
        if word == "now":
            self._clock.set_time(int(argument))
        elif word == "down":
            self._account.down.add(argument)
        else:
            self._account.down.discard(argument)

    def _idle(self, timer: int | None) -> None:
        self._tell(timer, ended=False)

    def _tell(self, timer: int | None, *, ended: bool) -> None:
        state = {
            "heard": self._heard,
            "timer": timer,
            "ready": self._ready,
            "ended": ended,
            **self._account.take(),
        }
        if state != self._said or state["order"]:
            self._said = state
            _say(self._out, event="idle", **state)


def _say(out: TextIO, **event: Any) -> None:
    out.write(json.dumps(event) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
