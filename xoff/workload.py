"""A workload from what a person writes: `incast:senders=15,bytes=1MB`, a YAML mapping, or the path of a flow.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topologies.plan import FabricPlan
from traffic.collectives import COLLECTIVES, Workload, make
from traffic.workloads.hpcc_flow import read_flows
from xoff.errors import XoffError
from xoff.units import parse_bytes

DEFAULT_BYTES = "4MiB"


def build_workload(spec: str | dict[str, Any], plan: FabricPlan, seed: int) -> Workload:
    """The workload over the plan's hosts (or the first `ranks=N` of them); XoffError or TrafficError otherwise."""
    hosts = [host.name for host in plan.hosts]
    options = dict(spec) if isinstance(spec, dict) else _options(spec)
    if "file" in options:
        return read_flows(Path(str(options["file"])), hosts)
    kind = options.pop("kind", None)
    if not isinstance(kind, str):
        raise XoffError(
            f"workload: give `kind:` (one of {', '.join(COLLECTIVES)}) or `file:` with a flow.txt."
        )
    size = parse_bytes(options.pop("bytes", DEFAULT_BYTES))
    ranks = options.pop("ranks", len(hosts))
    if not isinstance(ranks, int) or isinstance(ranks, bool) or not 2 <= ranks <= len(hosts):
        raise XoffError(
            f"workload: ranks={ranks!r} is not accepted; the fabric has {len(hosts)} hosts, from 2 on."
        )
    if kind == "permutation":
        options.setdefault("seed", seed)
    return make(kind, hosts[:ranks], size, options)


def _options(text: str) -> dict[str, Any]:
    """`kind:key=value,…` as a mapping; whole numbers become numbers, true and false booleans."""
    if text.endswith(".txt"):
        return {"file": text}
    kind, _, body = text.partition(":")
    if kind == "file":
        return {"file": body}
    options: dict[str, Any] = {"kind": kind.strip()}
    for pair in filter(None, (part.strip() for part in body.split(","))):
        key, equals, value = (word.strip() for word in pair.partition("="))
        if not equals or not key or not value:
            raise XoffError(f"workload: {pair!r} is not understood; write {kind}:key=value,…")
        if key in options:
            raise XoffError(f"workload: {key} is given twice.")
        options[key] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)
    return options
