"""Where compiled programs are kept: `XOFF_CACHE` or `~/.cache/xoff`; a folder of this run if that cannot be written."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "XOFF_CACHE"


def cache_folder() -> Path:
    """The cache folder, which exists and can be written.

    Without one (no home, a read-only or a full one) it is a temporary folder that the processes started from here share
    and that goes with this process.
    """
    chosen = os.environ.get(VARIABLE)
    try:
        folder = Path(chosen) if chosen else Path.home() / ".cache" / "xoff"
        folder.mkdir(parents=True, exist_ok=True)
        # Writing is tried, because root may write everywhere but on a read-only or a full file system.
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except (OSError, RuntimeError):
        folder = Path(tempfile.mkdtemp(prefix="xoff-cache-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[VARIABLE] = str(folder)
    return folder
