"""The sweep's table: one row a point, as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xoff.sweep.point import METRICS, Row


def write_table(path: Path, keys: Sequence[str], rows: Sequence[Row]) -> None:
    """Write the rows: the sweep's keys first, then `id` and the metrics."""
    columns = {key: _column([row.get(key) for row in rows]) for key in (*keys, "id", *METRICS)}
    temporary = path.with_suffix(".part")
    pq.write_table(pa.table(columns), temporary)
    temporary.replace(path)


def read_table(path: Path) -> list[Row]:
    """The rows of a table that `write_table` wrote."""
    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


def _column(values: Sequence[Any]) -> pa.Array:
    """Numbers, truth values or text; what is neither, or mixed, is text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or kinds <= {str} or kinds <= {int}:
        return pa.array(values)
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values])
    return pa.array([None if value is None else str(value) for value in values])
