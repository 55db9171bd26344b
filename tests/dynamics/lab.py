"""Runs experiments in virtual time, as `xoff run --clock virtual` does, and reads what they recorded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from topologies.plan import FabricPlan
from xoff.clocks.context import make_context
from xoff.clocks.simulation import VirtualRun
from xoff.experiment import Experiment
from xoff.folder import RunFolder
from xoff.metrics import Summary, summarise
from xoff.progress import Display
from xoff.records import Record, read_records
from xoff.rundata import RunData, read_run

GBPS = 10**9
US = 1_000
MS = 1_000_000
STAR = "leafspine:leaves=1,spines=0,hosts_per_leaf={}"
"""So many hosts on one switch."""
FOREVER = "1s"


@dataclass
class Outcome:
    """A finished run."""

    folder: Path
    data: RunData

    @cached_property
    def records(self) -> list[Record]:
        """Every record."""
        return list(read_records(self.folder))

    @cached_property
    def summary(self) -> Summary:
        """What `xoff run --json` prints."""
        return summarise(self.data)

    @property
    def plan(self) -> FabricPlan:
        """The fabric."""
        return self.data.plan

    @property
    def begin(self) -> int:
        """When the traffic began, ns."""
        assert self.data.collective is not None
        return int(self.data.collective["start"])

    @property
    def duration(self) -> int:
        """From the traffic's beginning to the last arrival, ns; fails when it did not finish."""
        assert self.data.collective is not None
        assert self.data.collective["end"] is not None, "the workload did not finish"
        return int(self.data.collective["end"]) - self.begin

    def of(self, kind: str) -> list[Record]:
        """Records of a kind, in time order."""
        return sorted((r for r in self.records if r["kind"] == kind), key=lambda r: r["t"])

    def arrivals(self) -> dict[int, int]:
        """When each message had arrived whole, by id, ns since the traffic began."""
        return {r["id"]: r["t"] - self.begin for r in self.of("received")}


def run(tmp_path: Path, **options: Any) -> Outcome:
    """Run the experiment with these options to its end, without congestion control and without samples in between."""
    settings = {"congestion_control": "none", "sample": FOREVER, "time_limit": FOREVER, **options}
    experiment = Experiment(clock="virtual", **settings)
    context = make_context(experiment)
    folder = RunFolder.create(tmp_path / "runs", experiment)
    context.plan.write(folder.path / "plan.json")
    files = context.program.write(folder.path / "program")
    asyncio.run(VirtualRun(context, files, folder, Display(quiet=True)).run())
    return Outcome(folder.path, read_run(folder.path))


# -- what a packet is, counted from the standards and not from the product

FRAME_OVERHEAD = 24
"""FCS 4, preamble 8, inter-frame gap 12 (IEEE 802.3)."""
HEADERS = 14 + 20 + 8 + 12 + 4
"""Ethernet, IPv4, UDP, BTH, ICRC."""
RETH = 16
IMMEDIATE = 4


def packets(message_bytes: int, mtu: int) -> list[int]:
    """Wire bytes of each packet of an RDMA WRITE with immediate: RETH in the first, immediate data in the last."""
    whole, rest = divmod(message_bytes, mtu)
    payloads = [mtu] * whole + ([rest] if rest else [])
    sizes = [payload + -payload % 4 + HEADERS + FRAME_OVERHEAD for payload in payloads]
    sizes[0] += RETH
    sizes[-1] += IMMEDIATE
    return sizes


def byte_ps(rate_bps: int) -> int:
    """Picoseconds of a byte."""
    return 8 * 10**12 // rate_bps


def chain_ns(sizes: list[int], rates: list[int], delay_ns: int) -> int:
    """When the last bit of packets sent back to back from time 0 is through links that store and forward.

    A packet's transmission starts when it is there and the link is free; arrivals are seen at whole ns.
    """
    there = [0] * len(sizes)
    for rate in rates:
        free = 0
        for i, size in enumerate(sizes):
            free = max(free, there[i] * 1000) + size * byte_ps(rate)
            there[i] = -(-free // 1000) + delay_ns
    return there[-1]
