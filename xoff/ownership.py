"""What `sudo xoff` writes belongs to the person who typed it, so that the same command without sudo can go on there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def sudo_user() -> tuple[int, int] | None:
    """(user id, group id) of the person behind sudo; None when there is none."""
    if os.geteuid() != 0:
        return None
    try:
        user, group = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (user, group) if user > 0 and group >= 0 else None


def hand_over(tree: Path) -> None:
    """Give `tree`, and the folder it lies in when that was made for it, to the person behind sudo.

    Only what root owns changes hands, links are not followed, and the folder around goes only to somebody in whose own
    folder it lies.
    """
    person = sudo_user()
    if person is None:
        return
    parent = tree.absolute().parent
    with contextlib.suppress(OSError):  # a file system without owners
        if parent.parent.stat().st_uid == person[0]:
            _give(parent, person)
        _give(tree, person)
        for folder, folders, files in os.walk(tree):
            for name in (*folders, *files):
                _give(Path(folder, name), person)


def _give(path: Path, person: tuple[int, int]) -> None:
    if path.lstat().st_uid == 0:
        os.chown(path, *person, follow_symlinks=False)
