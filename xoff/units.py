"""Quantities for people and from people: topologies' units, with errors that the command line prints."""

from __future__ import annotations

from collections.abc import Callable

from topologies import units
from topologies.units import format_rate
from topologies.units import format_time_ns as format_time
from xoff.errors import XoffError

__all__ = ["format_bytes", "format_rate", "format_time", "parse_bytes", "parse_rate", "parse_time"]

Quantity = str | int | float


def _sentence(parse: Callable[[Quantity], int], value: Quantity) -> int:
    try:
        return parse(value)
    except (ValueError, OverflowError) as error:
        raise XoffError(str(error)) from None


def parse_bytes(value: Quantity) -> int:
    """Bytes of `4MiB`, `2MB` or a plain number; XoffError otherwise."""
    return _sentence(units.parse_bytes, value)


def parse_rate(value: Quantity) -> int:
    """Bit/s of `100Gbps` or a plain number; XoffError otherwise."""
    return _sentence(units.parse_rate, value)


def parse_time(value: Quantity) -> int:
    """Nanoseconds of `1us`, `1.5s` or a plain number of nanoseconds; XoffError otherwise."""
    return _sentence(units.parse_time_ns, value)


def format_bytes(count: float) -> str:
    """`4.0 MiB`."""
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
