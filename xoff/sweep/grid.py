"""`sweep.yaml`: a base experiment, a grid of keys and values, and the points that they make."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from xoff.errors import XoffError
from xoff.experiment import Experiment, Loader, from_mapping, load

KEYS = ("name", "base", "grid", "cases", "plots")
MOST_POINTS = 100_000
SPECS = ("topology", "workload", "congestion_control")
"""Keys whose text form `kind:key=value,…` is taken apart when the grid names one of its parts."""


@dataclass(frozen=True)
class Plot:
    """A comparison: `y` over `x`, a line or a row of bars for each value of `by`."""

    x: str
    y: str
    by: str | None = None


@dataclass(frozen=True)
class Point:
    """One experiment of the sweep."""

    settings: Mapping[str, Any]
    """What the grid and the cases set here, by the keys that they use."""
    experiment: Experiment

    @property
    def id(self) -> str:
        """Names the experiment by its content, so that a point is found again whatever else the sweep has."""
        text = json.dumps(asdict(self.experiment), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Sweep:
    """A sweep read from its file."""

    name: str
    points: tuple[Point, ...]
    plots: tuple[Plot, ...]

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Every key that is set, with its different values in the order of the file."""
        axes: dict[str, list[Any]] = {}
        for point in self.points:
            for key, value in point.settings.items():
                values = axes.setdefault(key, [])
                if value not in values:
                    values.append(value)
        return axes


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file; XoffError names what is wrong with it."""
    try:
        data = yaml.load(path.read_text(), Loader)  # a SafeLoader
    except OSError as error:
        raise XoffError(f"{path}: cannot read the sweep ({error.strerror}).") from None
    except (UnicodeDecodeError, RecursionError, ValueError, yaml.YAMLError) as error:
        raise XoffError(f"{path}: not valid YAML: {error}.") from None
    return parse_sweep(data, str(path), path.parent)


def parse_sweep(data: Any, where: str, folder: Path) -> Sweep:
    """The sweep of a parsed file; `base` may be a path relative to `folder`."""
    if not isinstance(data, dict):
        raise XoffError(f"{where}: a sweep is a mapping with {', '.join(KEYS)}.")
    for key in data:
        if key not in KEYS:
            raise XoffError(f"{where}: unknown key {key!r}; a sweep has {', '.join(KEYS)}.")
    base = _base(data.get("base", {}), where, folder)
    grid = data.get("grid") or {}
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        raise XoffError(
            f"{where}: grid maps keys to lists of values, as in {{workload.senders: [3, 7, 15]}}."
        )
    cases = data.get("cases") or {"": {}}
    if not isinstance(cases, dict) or not all(isinstance(v, dict) for v in cases.values()):
        raise XoffError(
            f"{where}: cases maps names to settings, as in {{sprayed: {{load_balancing: spray}}}}."
        )
    count = len(cases)
    for values in grid.values():
        count *= len(values)
    if count > MOST_POINTS:
        raise XoffError(f"{where}: {count} points are more than the {MOST_POINTS} that a sweep may have.")
    points = []
    for case, changes in cases.items():
        for values in itertools.product(*grid.values()):
            settings: dict[str, Any] = {"case": str(case)} if case else {}
            settings |= dict(zip(map(str, grid), values, strict=True))
            options = {**base}
            for key, value in [*changes.items(), *zip(grid, values, strict=True)]:
                options = _set(options, str(key), value, where)
            points.append(Point(settings, from_mapping(options, where)))
    _check(points, where)
    sweep = Sweep(str(data.get("name") or Path(where).stem), tuple(points), ())
    return Sweep(sweep.name, sweep.points, _plots(data.get("plots"), sweep, where))


def _base(data: Any, where: str, folder: Path) -> dict[str, Any]:
    """The base experiment's settings; in virtual time unless it says otherwise."""
    if isinstance(data, str):
        path = folder / data
        load(path)
        data = yaml.safe_load(path.read_text())
    if not isinstance(data, dict):
        raise XoffError(
            f"{where}: base is a mapping of an experiment's keys, or the path of an experiment file."
        )
    return {"clock": "virtual", "name": "point", **data}


def _check(points: Sequence[Point], where: str) -> None:
    if any(point.experiment.clock != "virtual" for point in points):
        raise XoffError(
            f"{where}: sweeps run in virtual time; runs in Mininet take the machine in turns (`xoff run`)."
        )
    if any(point.experiment.hold for point in points):
        raise XoffError(f"{where}: hold keeps a fabric for somebody to look at; a sweep has nobody who does.")
    seen: dict[str, Point] = {}
    for point in points:
        other = seen.setdefault(point.id, point)
        if other is not point:
            raise XoffError(
                f"{where}: two points are the same experiment: {point.settings} and {other.settings}."
            )


def _set(options: Mapping[str, Any], key: str, value: Any, where: str) -> dict[str, Any]:
    """A copy of nested mappings with the dotted key set; a spec in text form is taken apart first."""
    first, dot, rest = key.partition(".")
    copy = dict(options)
    name: Any = int(first) if first.isdigit() and first not in copy else first
    if not dot:
        copy[name] = value
        return copy
    inner = copy.get(name, {})
    if isinstance(inner, str):
        inner = _taken_apart(name, inner, key, where)
    if not isinstance(inner, dict):
        raise XoffError(f"{where}: {key}: {first} is {inner!r}, which has no parts.")
    copy[name] = _set(inner, rest, value, where)
    return copy


def _taken_apart(name: Any, text: str, key: str, where: str) -> dict[str, Any]:
    """`incast:senders=3` as {kind: incast, senders: 3}."""
    if name not in SPECS[:2] or text.endswith(".txt"):
        raise XoffError(f"{where}: {key} cannot be set in {text!r}; write {name} as a mapping with `kind`.")
    kind, _, body = text.partition(":")
    parts: dict[str, Any] = {"kind": kind.strip()}
    for pair in filter(None, (part.strip() for part in body.split(","))):
        word, _, value = (piece.strip() for piece in pair.partition("="))
        parts[word] = yaml.safe_load(value) if value else value
    return parts


def _plots(data: Any, sweep: Sweep, where: str) -> tuple[Plot, ...]:
    if data is None:
        return ()
    if not isinstance(data, list):
        raise XoffError(f"{where}: plots is a list, as in [{{x: workload.senders, y: completion_us}}].")
    plots = []
    for item in data:
        if not isinstance(item, dict) or not {"x", "y"} <= item.keys() <= {"x", "y", "by"}:
            raise XoffError(f"{where}: a plot has x, y and perhaps by, not {item!r}.")
        for role in ("x", "by"):
            if role in item and item[role] not in sweep.axes:
                raise XoffError(
                    f"{where}: a plot's {role} is one of {', '.join(sweep.axes)}, not {item[role]!r}."
                )
        plots.append(Plot(str(item["x"]), str(item["y"]), item.get("by")))
    return tuple(plots)
