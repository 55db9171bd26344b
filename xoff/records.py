"""Records: what happened in a run, as JSON Lines on disk (schema: docs/records.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

Record = dict[str, Any]

_line = json.JSONEncoder(separators=(",", ":")).encode

_Kind = Any  # a type or a tuple of types, as isinstance takes them
_NUMBER = (int, float)
_QUEUE: dict[str, _Kind] = {"node": str, "port": int, "class": int}
_COUNT: dict[str, _Kind] = {"packets": int, "bytes": int}
FIELDS: Mapping[str, Mapping[str, _Kind]] = {
    "queue": _QUEUE | _COUNT,
    "port": {"node": str, "port": int, "tx_bytes": int, "tx_packets": int, "rx_bytes": int, "rx_packets": int},
    "pause": _QUEUE | {"until": int},
    "drop": {"node": str, "reason": str} | _COUNT,
    "counter": {"node": str, "name": str} | _COUNT,
    "message": {"src": str, "dst": str, "bytes": int, "sport": int, "post": int, "start": int, "end": int},
    "flow": {"node": str, "dst": str, "qp": int, "sent": int, "acked": int, "rate": _NUMBER},
    "cnp": {"node": str, "qp": int, "dir": str},
    "retransmit": {"node": str, "qp": int},
    "collective": {"op": str, "ranks": int, "bytes": int, "start": int, "end": (int, type(None)), "ideal_ns": _NUMBER,
                   "busbw_factor": _NUMBER, "payload_ceiling": _NUMBER},
    "note": {"text": str},
}  # fmt: skip
"""What reports rely on in a record, by kind (docs/records.md has all of it); other kinds need only `t`."""
_OPTIONAL = {"port": int, "class": int}
"""Checked where they are there."""


def is_record(value: Any) -> bool:
    """Whether a parsed line is a record as `docs/records.md` says, so that a report can rely on it."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or not _is(value.get("t"), int):
        return False
    fields = FIELDS.get(value["kind"], {})
    return all(_is(value.get(name), kind) for name, kind in fields.items()) and all(
        _is(value[name], kind) for name, kind in _OPTIONAL.items() if name in value
    )


def _is(value: Any, kind: _Kind) -> bool:
    """As isinstance; a boolean is no number, and a number is finite and of 64 bits."""
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    return not isinstance(value, _NUMBER) or -(2**63) <= value < 2**64


class RecordWriter:
    """Appends records to one file, a line each."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", buffering=1)

    def __call__(self, kind: str, t: int, **fields: Any) -> None:
        """Write one record: `kind` at `t` nanoseconds of the run's clock."""
        self._file.write(_line({"t": t, "kind": kind, **fields}) + "\n")

    def write_all(self, records: Iterable[tuple[int, str, dict[str, Any]]]) -> None:
        """Write many at once, each as time, kind and fields."""
        self._file.write(
            "".join(_line({"t": t, "kind": kind, **fields}) + "\n" for t, kind, fields in records)
        )

    def close(self) -> None:
        """Flush and close; further writes are errors."""
        self._file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OrderedRecords:
    """Records that come in any order and are written in the order of time, then of nodes' names, then as they came."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        self._kept: list[tuple[int, str, dict[str, Any]]] = []

    def __call__(self, kind: str, t: int, **fields: Any) -> None:
        """Keep one record."""
        self._kept.append((t, kind, fields))

    def flush(self) -> None:
        """Write what is kept; nothing that comes later is of an earlier time."""
        kept, self._kept = self._kept, []
        kept.sort(key=lambda record: (record[0], record[2].get("node", "")))
        self._writer.write_all(kept)


def read_records(run: Path) -> Iterator[Record]:
    """Every record of a run folder, file by file; a line cut short by a crash is skipped and counted.

    The number of skipped lines of a file is yielded as a `note` record, so that nothing is lost silently.
    """
    for path in sorted((run / "records").glob("*.jsonl")):
        broken = 0
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    broken += 1
                    continue
                if is_record(record):
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
