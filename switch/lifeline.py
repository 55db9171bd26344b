"""Processes that end when the process that started them ends, however that ends."""

from __future__ import annotations

import shutil


def die_with_parent() -> list[str]:
    """What to put before a command so that it does; nothing where `setpriv` is not installed.

    The command ends with the thread that starts it. It is not a function for the child to call before it executes the
    command: that takes a fork of this process, which may have gRPC's threads.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
