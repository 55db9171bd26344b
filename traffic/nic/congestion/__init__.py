"""Congestion control by name. A new one is a class in a file here and a line in ALGORITHMS."""

from __future__ import annotations

from collections.abc import Mapping

from traffic.errors import TrafficError
from traffic.nic.config import CongestionConfig
from traffic.nic.congestion.base import CongestionControl
from traffic.nic.congestion.dcqcn import Dcqcn
from traffic.nic.congestion.hpcc import Hpcc
from traffic.nic.congestion.mprdma import MpRdma
from traffic.nic.congestion.none import LineRate

__all__ = [
    "ALGORITHMS",
    "CongestionControl",
    "algorithm",
    "make_parameters",
    "scaled",
    "wants_cnp",
    "wants_echo",
    "wants_telemetry",
]

LARGEST_PARAMETER = 1e15
"""A petabit a second, a petabyte, or 11 days in ns."""

ALGORITHMS: dict[str, type[CongestionControl]] = {
    "none": LineRate,
    "dcqcn": Dcqcn,
    "hpcc": Hpcc,
    "mprdma": MpRdma,
}


def algorithm(name: str) -> type[CongestionControl]:
    """The class called `name`; TrafficError lists the names."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise TrafficError(
            f"congestion control {name!r} is unknown; there is {', '.join(ALGORITHMS)}."
        ) from None


def wants_cnp(name: str) -> bool:
    """Whether receivers answer CE marks with CNPs."""
    return algorithm(name).uses_cnp


def wants_telemetry(name: str) -> bool:
    """Whether ACKs must bring INT."""
    return algorithm(name).uses_telemetry


def wants_echo(name: str) -> bool:
    """Whether every packet must have an ACK of its own."""
    return algorithm(name).uses_echo


def make_parameters(config: CongestionConfig) -> dict[str, float]:
    """The preset with its overrides, in fabric units; TrafficError names a wrong preset or parameter."""
    cls = algorithm(config.name)
    preset = config.preset or next(iter(cls.presets))
    if preset not in cls.presets:
        raise TrafficError(f"{config.name} has no preset {preset!r}; there is {', '.join(cls.presets)}.")
    parameters = dict(cls.presets[preset])
    for name, value in config.parameters.items():
        if name not in parameters:
            known = ", ".join(parameters) or "no parameter at all"
            raise TrafficError(f"{config.name} has no parameter {name!r}; there is {known}.")
        highest = cls.largest.get(name, LARGEST_PARAMETER)
        if not (value > 0 if name in cls.positive else value >= 0) or not value <= highest:
            least = "above 0 and" if name in cls.positive else "from 0 and"
            raise TrafficError(
                f"{config.name}: {name}={value:g} is not accepted; it is {least} up to {highest:g}."
            )
        parameters[name] = value
    return parameters


def scaled(
    cls: type[CongestionControl], parameters: Mapping[str, float], time_scale: float
) -> dict[str, float]:
    """Parameters of a fabric run at `time_scale`: times multiplied, rates divided."""
    return {
        name: value * time_scale if name in cls.times else value / time_scale if name in cls.rates else value
        for name, value in parameters.items()
    }
