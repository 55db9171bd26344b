"""Collectives as graphs of messages, by name, and what they would take on a perfect fabric."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from traffic.collectives.ideal import Bandwidths, bandwidths, ideal_ns, payload_share
from traffic.collectives.patterns import alltoall, broadcast, incast, permutation
from traffic.collectives.rings import all_gather, allreduce, reduce_scatter
from traffic.collectives.workload import Message, Workload
from traffic.errors import TrafficError

__all__ = [
    "COLLECTIVES",
    "Bandwidths",
    "Message",
    "Workload",
    "all_gather",
    "allreduce",
    "alltoall",
    "bandwidths",
    "broadcast",
    "ideal_ns",
    "incast",
    "make",
    "payload_share",
    "permutation",
    "reduce_scatter",
]

COLLECTIVES: dict[str, Callable[..., Workload]] = {
    "allreduce": allreduce,
    "reducescatter": reduce_scatter,
    "allgather": all_gather,
    "alltoall": alltoall,
    "broadcast": broadcast,
    "incast": incast,
    "permutation": permutation,
}


def make(name: str, ranks: Sequence[str], size: int, options: Mapping[str, Any] | None = None) -> Workload:
    """The workload called `name` over `ranks`, S = `size` bytes; TrafficError names what is wrong."""
    builder = COLLECTIVES.get(name)
    if builder is None:
        raise TrafficError(f"workload {name!r} is unknown; there is {', '.join(COLLECTIVES)}.")
    accepted = {
        p.name: p.default
        for p in inspect.signature(builder).parameters.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for option, value in (options or {}).items():
        if option not in accepted:
            raise TrafficError(f"{name} has no option {option!r}; there is {', '.join(accepted)}.")
        default = accepted[option]
        wanted = str if default is None else type(default)
        if type(value) is not wanted:
            raise TrafficError(f"{name}: {option} must be of type {wanted.__name__}, not {value!r}.")
    return builder(ranks, size, **(options or {}))
