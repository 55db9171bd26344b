"""Records: what happened in a run, as JSON Lines on disk (schema: docs/records.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

Record = dict[str, Any]


class RecordWriter:
    """Appends records to one file, a line each."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", buffering=1)

    def __call__(self, kind: str, t: int, **fields: Any) -> None:
        """Write one record: `kind` at `t` nanoseconds of the run's clock."""
        self._file.write(json.dumps({"t": t, "kind": kind, **fields}, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Flush and close; further writes are errors."""
        self._file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_records(run: Path) -> Iterator[Record]:
    """Every record of a run folder, file by file; a line cut short by a crash is skipped and counted.

    The number of skipped lines of a file is yielded as a `note` record, so that nothing is lost silently.
    """
    for path in sorted((run / "records").glob("*.jsonl")):
        broken = 0
        with path.open() as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError:
                    broken += 1
                    continue
                if isinstance(record, dict) and "kind" in record and "t" in record:
                    yield record
                else:
                    broken += 1
        if broken:
            yield {"t": 0, "kind": "note", "text": f"{path.name}: {broken} broken line(s) skipped"}


def records_sha256(run: Path) -> str:
    """SHA-256 of all records of a run folder, whatever files and order they are in.

    The same as `cat records/*.jsonl | LC_ALL=C sort | sha256sum` in the folder.
    """
    lines = [
        line for path in (run / "records").glob("*.jsonl") for line in path.read_bytes().splitlines(True)
    ]
    digest = hashlib.sha256()
    for line in sorted(lines):
        digest.update(line)
    return digest.hexdigest()
