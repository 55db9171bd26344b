"""Rates, times and sizes as people write them: `100G`, `25Gbps`, `10 Mb/s`, `1us`, `0.001ms`, `64KiB`."""

from __future__ import annotations

import re
from fractions import Fraction

_EXPONENT = r"(?:[eE][+-]?\d{1,3})?"
_NUMBER = rf"([+-]?\d{{1,40}}(?:\.\d{{0,40}})?{_EXPONENT}|[+-]?\.\d{{1,40}}{_EXPONENT})"
_QUANTITY = re.compile(_NUMBER + r"\s*([A-Za-zµ/]*)", re.ASCII)

MAX_RATE_BPS = 10**15
"""1 Pb/s: a thousand times what any port of today carries."""
MAX_TIME_NS = 10**18
"""31 years: a time scale of 10,000,000,000 would still fit 64 bits for a second."""
MAX_BYTES = 2**62

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_PREFIXES = {**_DECIMAL, **_BINARY}
_TIMES_PS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}


def parse_rate(value: str | int | float) -> int:
    """Bit/s of a rate: `100G`, `100Gbps`, `100 Gb/s`, `12.5GBps` (bytes), or a plain number of bit/s.

    Raises ValueError with a sentence.
    """
    accepted = "accepted: 100G, 100Gbps, 100Gb/s, 12.5GB/s or a number of bit/s"
    number, unit = _split(value, "rate", accepted)
    bits = 1
    for suffix, factor in (("bps", 1), ("b/s", 1), ("bit/s", 1), ("Bps", 8), ("B/s", 8)):
        if unit.endswith(suffix):
            unit, bits = unit[: -len(suffix)], factor
            break
    prefix = _PREFIXES.get(unit.lower())
    if prefix is None:
        raise ValueError(f"rate {value!r} has an unknown unit; {accepted}")
    rate = round(number * prefix * bits)
    if rate < 1:
        raise ValueError(f"rate {value!r} must be at least 1 bit/s")
    if rate > MAX_RATE_BPS:
        raise ValueError(f"rate {value!r} must be at most {format_rate(MAX_RATE_BPS)}")
    return rate


def parse_time_ns(value: str | int | float) -> int:
    """Nanoseconds of a duration: `1us`, `0.001ms`, `500ns`, or a plain number of nanoseconds.

    Raises ValueError with a sentence.
    """
    accepted = "accepted: 1us, 0.001ms, 500ns, 2s or a number of nanoseconds"
    number, unit = _split(value, "time", accepted)
    scale = _TIMES_PS.get(unit or "ns")
    if scale is None:
        raise ValueError(f"time {value!r} has an unknown unit; {accepted}")
    if number < 0:
        raise ValueError(f"time {value!r} must not be negative")
    time = round(number * scale / 1000)
    if time > MAX_TIME_NS:
        raise ValueError(f"time {value!r} must be at most {format_time_ns(MAX_TIME_NS)}")
    return time


def parse_bytes(value: str | int | float) -> int:
    """Bytes of a size: `64KiB`, `400KB`, `1MiB`, or a plain number of bytes. Raises ValueError with a sentence."""
    accepted = "accepted: 64KiB, 400KB, 2MB or a number of bytes"
    number, unit = _split(value, "size", accepted)
    prefix = _PREFIXES.get(unit.removesuffix("B").lower())
    if prefix is None:
        raise ValueError(f"size {value!r} has an unknown unit; {accepted}")
    if number < 0:
        raise ValueError(f"size {value!r} must not be negative")
    size = round(number * prefix)
    if size > MAX_BYTES:
        raise ValueError(f"size {value!r} must be at most {MAX_BYTES} bytes")
    return size


def format_rate(bps: float) -> str:
    """`100 Gb/s`, `12.5 Mb/s`."""
    return _format(bps, ((10**12, "Tb/s"), (10**9, "Gb/s"), (10**6, "Mb/s"), (10**3, "kb/s")), "b/s")


def format_time_ns(ns: float) -> str:
    """`1 us`, `2.5 ms`."""
    return _format(ns, ((10**9, "s"), (10**6, "ms"), (10**3, "us")), "ns")


def _split(value: str | int | float, noun: str, accepted: str) -> tuple[Fraction, str]:
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError(f"{noun} {value!r:.60} is not a quantity; {accepted}")
    return Fraction(match.group(1)), match.group(2)


def _format(value: float, units: tuple[tuple[int, str], ...], least: str) -> str:
    for scale, name in units:
        if value >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value:.4g} {least}"
