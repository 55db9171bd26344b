"""`load_balancing` of an experiment: a mode of the switches, or `reps` with its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast, get_args

from topologies.plan import LoadBalancing
from topologies.suggest import did_you_mean
from traffic.errors import TrafficError
from traffic.nic.config import RepsConfig
from xoff.errors import XoffError
from xoff.units import parse_time

PARAMETERS = {
    "buffer": "buffer",
    "entropies": "entropies",
    "explore": "explore_packets",
    "freezing": "freezing_ns",
}
"""Name in an experiment, field of `RepsConfig`."""


@dataclass(frozen=True)
class Balancing:
    """How the packets of an experiment find their paths."""

    mode: LoadBalancing
    reps: RepsConfig = field(default_factory=RepsConfig)


def parse_balancing(text: str) -> Balancing:
    """`ecmp`, `spray`, `adaptive`, `reps` or `reps:buffer=8,freezing=1ms`. XoffError for anything else."""
    mode, _, body = (part.strip() for part in str(text).partition(":"))
    modes = get_args(LoadBalancing)
    if mode not in modes:
        raise XoffError(f"{text!r} is not one of {', '.join(modes)}{did_you_mean(mode, modes)}.")
    values: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in body.split(","))):
        key, _, value = (word.strip() for word in pair.partition("="))
        if mode != "reps":
            raise XoffError(f"{mode} has no parameters; {pair!r} is none of its.")
        if key not in PARAMETERS:
            raise XoffError(
                f"reps has no parameter {key!r}{did_you_mean(key, PARAMETERS)}; there is {', '.join(PARAMETERS)}."
            )
        if PARAMETERS[key] in values:
            raise XoffError(f"reps: {key} is given twice.")
        if key == "freezing":
            values[PARAMETERS[key]] = parse_time(value)
        elif value.removeprefix("-").isdecimal() and len(value) < 20:
            values[PARAMETERS[key]] = int(value)
        else:
            raise XoffError(f"reps: {key}={value!r} is not a whole number.")
    try:
        return Balancing(cast(LoadBalancing, mode), RepsConfig(**values))
    except TrafficError as error:
        raise XoffError(str(error)) from None
