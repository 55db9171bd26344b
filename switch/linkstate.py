"""Administrative state of network interfaces."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable


class LinkStateError(Exception):
    """An interface cannot be brought up or down; the message is what `ip` says."""


def set_interfaces_up(names: Iterable[str], up: bool) -> None:
    """Bring interfaces of this network namespace up or down; raises LinkStateError."""
    batch = "".join(f"link set dev {name} {'up' if up else 'down'}\n" for name in names)
    done = subprocess.run(["ip", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)
    if done.returncode:
        raise LinkStateError(done.stderr.strip())
