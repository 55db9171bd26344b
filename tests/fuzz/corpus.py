"""Corpora: one archive per target, each input a member named by its hash."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent / "corpus"


def read(target: str) -> list[bytes]:
    """The inputs kept for a target."""
    path = HERE / f"{target}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def unpack(target: str, folder: Path) -> int:
    """Write them as files; returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = read(target)
    for data in inputs:
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    return len(inputs)


def write(target: str, inputs: Iterable[bytes]) -> None:
    """Replace a target's archive; the same inputs give the same bytes."""
    HERE.mkdir(exist_ok=True)
    with zipfile.ZipFile(HERE / f"{target}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted((hashlib.sha1(data).hexdigest(), data) for data in inputs):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, compresslevel=9)


def size(target: str) -> int:
    """Bytes of its archive."""
    return (HERE / f"{target}.zip").stat().st_size
