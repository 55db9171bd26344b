"""`python -m controller.user plan.json controller.py`: a user's controller in a process of its own.

Whatever the file does (raise, loop for ever, exit) ends no more than this process. The first line of standard input
is a JSON object with the switches' addresses; every record that the file emits is printed as
`{"event": "record", "record": {…}}`, its own printing goes to standard error. `ready` is printed when it emits a record
of kind `ready` or returns. End of file on standard input cancels it and, a second later, ends the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from controller.app import ControllerError, run_controller_file
from topologies.plan import FabricPlan

GRACE_S = 1.0


def main(arguments: list[str]) -> int:
    """Run the controller to its end; 0, or 1 after an error."""
    out, sys.stdout = sys.stdout, sys.stderr
    plan, file = FabricPlan.read(Path(arguments[0])), Path(arguments[1])
    addresses: dict[str, str] = json.loads(sys.stdin.readline())
    try:
        asyncio.run(_run(file, plan, addresses, out))
    except ControllerError as error:
        _say(out, event="error", message=str(error))
        return 1
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        told = f": {error}" if str(error) else ""
        _say(out, event="error", message=f"{file} ended with {type(error).__name__}{told}")
        return 1
    _say(out, event="ready")
    # Nothing can be controlled any more, but the records stay open until the run closes our input.
    threading.Event().wait()
    return 0


async def _run(file: Path, plan: FabricPlan, addresses: dict[str, str], out: TextIO) -> None:
    task = asyncio.ensure_future(run_controller_file(file, plan, addresses, _emitter(out)))
    loop = asyncio.get_running_loop()
    threading.Thread(target=_until_input_ends, args=(loop, task), daemon=True).start()
    await task


def _until_input_ends(loop: asyncio.AbstractEventLoop, task: asyncio.Future[None]) -> None:
    sys.stdin.read()
    timer = threading.Timer(GRACE_S, os._exit, (0,))
    timer.daemon = True
    timer.start()
    if loop.is_closed():
        os._exit(0)
    loop.call_soon_threadsafe(task.cancel)
    task.add_done_callback(lambda _: os._exit(0))


def _emitter(out: TextIO) -> Any:
    def emit(record: dict[str, Any]) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            raise TypeError(f"a record is a dictionary with a kind (docs/records.md), not {record!r:.100}")
        if record["kind"] == "ready":
            _say(out, event="ready")
        else:
            _say(out, event="record", record=record)

    return emit


def _say(out: TextIO, **event: Any) -> None:
    out.write(json.dumps(event) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
