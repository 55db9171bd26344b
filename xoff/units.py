"""Quantities as people write them: `4MiB`, `100Gbps`, `1.5us`."""

from __future__ import annotations

import re

from xoff.errors import XoffError

_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*")

_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_BYTES |= {"k": 2**10, "m": 2**20, "g": 2**30}
_RATES = {"": 1.0, "bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "tbps": 1e12}
_RATES |= {unit[:-2] + "b/s": factor for unit, factor in _RATES.items() if unit}
_TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def _parse(text: str | int | float, units: dict[str, float], what: str, example: str) -> float:
    if isinstance(text, bool):
        raise XoffError(f"{text!r} is not a {what}; write it like {example}.")
    if isinstance(text, (int, float)):
        return float(text) * units.get("", 1.0)
    match = _QUANTITY.fullmatch(text)
    unit = match.group(2).lower() if match else None
    if match is None or unit not in units:
        raise XoffError(
            f"{text!r} is not a {what}; write it like {example} (units: {', '.join(u for u in units if u)})."
        )
    return float(match.group(1)) * units[unit]


def parse_bytes(text: str | int | float) -> int:
    """Bytes of `4MiB`, `2MB`, `64k` (k, m, g are binary as in nccl-tests) or a plain number."""
    return round(_parse(text, {k: float(v) for k, v in _BYTES.items()}, "size", "4MiB or 2MB"))


def parse_rate(text: str | int | float) -> int:
    """Bit/s of `100Gbps`, `10Mb/s` or a plain number."""
    rate = round(_parse(text, _RATES, "rate", "100Gbps"))
    if rate <= 0:
        raise XoffError(f"a rate must be above zero, not {text!r}.")
    return rate


def parse_time(text: str | int | float) -> float:
    """Nanoseconds of `1us`, `2ms`, `1.5s`; a plain number is nanoseconds."""
    return _parse(text, {**_TIMES, "": 1.0}, "duration", "1us")


def format_bytes(count: float) -> str:
    """`4.0 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def format_rate(bps: float) -> str:
    """`100 Gb/s`."""
    for factor, unit in ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")):
        if abs(bps) >= factor:
            return f"{bps / factor:.4g} {unit}"
    return f"{bps:.4g} b/s"


def format_time(ns: float) -> str:
    """`1.2 ms`."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= factor:
            return f"{ns / factor:.4g} {unit}"
    return f"{ns:.4g} ns"
