"""`hold`: the fabric stays when the workload is over, to be looked at from another terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from xoff.progress import Display


async def hold(display: Display, folder: Path) -> None:
    """Return at Ctrl-C. The run then ends as it would have without it, report and all."""
    display.say(
        "the fabric stays as it is: in another terminal `xoff shell SWITCH` looks at a switch and "
        f"`xoff report {folder}` tells the result; Ctrl-C here ends it"
    )
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        display.say("")  # ends the line in which the terminal shows ^C
