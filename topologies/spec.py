"""A fabric from what a user writes: `fattree:k=4,oversubscription=2`, a YAML mapping, or the path of a topology.txt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from topologies.dragonflyplus import dragonflyplus
from topologies.fabric import TopologyError
from topologies.fattree import fattree
from topologies.hpcc_file import read_hpcc_topology
from topologies.leafspine import leafspine
from topologies.rail import rail
from topologies.ring import ring
from topologies.suggest import did_you_mean
from topologies.torus import torus
from topologies.units import parse_rate, parse_time_ns

MAX_DIGITS = 40

FAMILIES: dict[str, Callable[..., nx.MultiGraph]] = {
    "fattree": fattree,
    "dragonflyplus": dragonflyplus,
    "torus": torus,
    "leafspine": leafspine,
    "rail": rail,
    "ring": ring,
}
ALIASES = {"rate": "rate_bps", "delay": "delay_ns", "global_delay": "global_delay_ns"}
"""Keys with units, as users write them, and the parameters they set."""
FAMILY_KEY = "kind"
"""Key of the family's name in a mapping; `family` and `type` are taken too."""


def topology_from_spec(spec: str | Path | Mapping[str, Any]) -> nx.MultiGraph:
    """The fabric a spec describes.

    Accepts `FAMILY` or `FAMILY:key=value,…`; a mapping with `kind: FAMILY` and the keys, or `file: PATH`; or the path
    of an HPCC `topology.txt`. Raises TopologyError with a sentence that says what is accepted.
    """
    if isinstance(spec, Mapping):
        return _from_mapping(spec)
    if isinstance(spec, Path):
        return read_hpcc_topology(spec)
    if not isinstance(spec, str):
        raise TopologyError(
            f"a topology is a text such as fattree:k=4 or a mapping, not {type(spec).__name__}"
        )
    if "\0" in spec:
        raise TopologyError(
            "a topology is a text such as fattree:k=4 or a path; it cannot hold a NUL character"
        )
    family, _, body = spec.strip().partition(":")
    if family.lower() in FAMILIES:
        return build(family, _parse_pairs(family, body))
    if family == "file" and body:
        return read_hpcc_topology(Path(body))
    if _is_file(spec) or "/" in spec or spec.endswith(".txt"):
        return read_hpcc_topology(Path(spec))
    raise _unknown_family(family)


def _is_file(spec: str) -> bool:
    try:
        return Path(spec).is_file()
    except OSError:  # longer than a name can be
        return False


def build(family: str, values: Mapping[str, Any]) -> nx.MultiGraph:
    """A fabric of a named family from keys as users write them (`rate: 25G`). Raises TopologyError."""
    maker = FAMILIES.get(family.lower())
    if maker is None:
        raise _unknown_family(family)
    parameters = inspect.signature(maker).parameters
    accepted = accepted_keys(family)
    converted: dict[str, Any] = {}
    for key, value in values.items():
        parameter = ALIASES.get(key, key)
        if parameter not in parameters:
            raise TopologyError(
                f"{family} has no parameter {key!r}{did_you_mean(key, accepted)}; accepted: {', '.join(accepted)}"
            )
        converted[parameter] = _convert(family, key, parameter, value, parameters[parameter].default)
    return maker(**converted)


def accepted_keys(family: str) -> list[str]:
    """The keys a family takes, as users write them."""
    readable = {parameter: key for key, parameter in ALIASES.items()}
    return [readable.get(name, name) for name in inspect.signature(FAMILIES[family.lower()]).parameters]


def _from_mapping(spec: Mapping[str, Any]) -> nx.MultiGraph:
    values = dict(spec)
    if "file" in values:
        path = values.pop("file")
        if values:
            raise TopologyError(
                f"topology: `file` stands alone; {', '.join(map(str, values))} cannot be given with it"
            )
        return read_hpcc_topology(Path(str(path)))
    named = [key for key in (FAMILY_KEY, "family", "type") if key in values]
    if len(named) != 1:
        raise TopologyError(
            f"topology: give `{FAMILY_KEY}: FAMILY` (one of {', '.join(FAMILIES)}) once, or `file: PATH`"
        )
    return build(str(values.pop(named[0])), {str(key): value for key, value in values.items()})


def _parse_pairs(family: str, body: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in body.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise TopologyError(
                f"{family}: {part!r} is not understood; parameters are written key=value, such as "
                f"{family}:{accepted_keys(family)[0]}=…"
            )
        if key in pairs:
            raise TopologyError(f"{family}: {key} is given twice")
        pairs[key] = value
    return pairs


def _convert(family: str, key: str, parameter: str, value: Any, default: Any) -> Any:
    try:
        if parameter.endswith("_bps"):
            return parse_rate(value)
        if parameter.endswith("_ns"):
            return parse_time_ns(value)
    except ValueError as error:
        raise TopologyError(f"{family}: {key}: {error}") from None
    if parameter == "dims":
        return _dims(family, value)
    if parameter == "routes":
        return str(value)
    if parameter == "oversubscription":
        return _ratio(family, key, value)
    if (
        isinstance(value, bool)
        or not str(value).strip().isascii()
        or not str(value).strip().lstrip("+-").isdigit()
        or len(str(value)) > MAX_DIGITS
    ):
        expected = "a whole number" if default is None else f"a whole number such as {default}"
        raise TopologyError(f"{family}: {key}={value} is not accepted; {key} is {expected}")
    return int(value)


def _dims(family: str, value: Any) -> tuple[int, ...]:
    parts = list(value) if isinstance(value, (list, tuple)) else str(value).lower().split("x")
    if not parts or not all(
        str(part).strip().isascii() and str(part).strip().isdigit() and len(str(part)) <= MAX_DIGITS
        for part in parts
    ):
        raise TopologyError(
            f"{family}: dims={value} is not accepted; sizes joined by x, such as 4x4 or 3x3x3"
        )
    return tuple(int(part) for part in parts)


def _ratio(family: str, key: str, value: Any) -> float:
    text = str(value).strip().removesuffix(":1")
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if isinstance(value, bool) or not number < float("inf"):
        raise TopologyError(f"{family}: {key}={value} is not accepted; a ratio such as 2 or 2:1")
    return int(number) if number == int(number) else number


def _unknown_family(family: str) -> TopologyError:
    return TopologyError(
        f"topology {family!r} is unknown{did_you_mean(family, FAMILIES)}; accepted: {', '.join(FAMILIES)}, "
        "or the path of an HPCC topology.txt"
    )
