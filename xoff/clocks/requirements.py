"""What this machine lacks for the Mininet clock, said before anything is built."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

from xoff.errors import XoffError


def require_mininet() -> None:
    """XoffError naming every missing piece and what to do about it."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root (run it with sudo; `--clock virtual` needs none)")
    if find_spec("mininet") is None:
        missing.append("the Python package mininet (`make setup` installs it)")
    for tool, package in (("mnexec", "mininet"), ("ip", "iproute2"), ("bash", "bash")):
        if shutil.which(tool) is None:
            missing.append(f"{tool} (Debian package {package}; `make setup` installs it)")
    if missing:
        raise XoffError(f"the Mininet clock needs {', and '.join(missing)}.")
