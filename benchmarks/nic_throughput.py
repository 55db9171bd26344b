"""How many packets a pair of NICs handles per CPU-second, in memory: no sockets, no switches, one process.

    python benchmarks/nic_throughput.py [--bytes N] [--json FILE]

A packet counts once: it is built and sent by one NIC and received, checked and acknowledged by the other, so its cost
is that of both ends and of the event loop between them. Each case runs three times; the best is the least disturbed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from topologies.plan import ClassPolicy, FabricPlan, HostPlan, IntPolicy
from traffic.build import TrafficOptions, build_hosts
from traffic.collectives import allreduce
from traffic.endpoint import Endpoint
from traffic.nic.config import CongestionConfig
from xoff.clocks.virtual import VirtualClock

RATE_BPS = 100 * 10**9


@dataclass(frozen=True)
class Result:
    """One case."""

    congestion_control: str
    mtu: int
    data_packets: int
    packets: int
    """With ACKs."""
    cpu_seconds: float
    data_packets_per_cpu_second: float
    packets_per_cpu_second: float


def plan(mtu: int, telemetry: bool) -> FabricPlan:
    """Two hosts back to back at 100 Gb/s, 1 us."""
    hosts = tuple(
        HostPlan(f"h{i}", i, f"02:00:00:00:00:0{i}", f"10.0.0.{i + 1}", "none", i, f"02:00:00:00:00:0{1 - i}",
                 RATE_BPS, 1_000)
        for i in range(2)
    )  # fmt: skip
    mode = IntPolicy("host" if telemetry else "off")
    return FabricPlan("pair", (), hosts, {3: ClassPolicy(True)}, telemetry=mode, mtu=mtu)


def run(congestion: str, mtu: int, size: int) -> Result:
    """A ring AllReduce of two ranks, both directions busy all the time."""
    fabric = plan(mtu, congestion == "hpcc")
    configs = build_hosts(fabric, allreduce(["h0", "h1"], size), TrafficOptions(CongestionConfig(congestion)))
    endpoints = [Endpoint(config) for config in configs]
    clock = VirtualClock()
    for endpoint in endpoints:
        clock.add(endpoint.name, endpoint)
        endpoint.start(0)
    clock.connect("h0", 0, "h1", 0)
    begin = time.process_time()
    clock.run(stop=lambda: all(e.finished for e in endpoints))
    seconds = time.process_time() - begin
    data = 2 * 2 * -(-size // 2 // mtu)
    packets = sum(e.nic.egress.tx_packets for e in endpoints)
    return Result(congestion, mtu, data, packets, seconds, data / seconds, packets / seconds)


def main() -> None:
    """Print a table, and write JSON when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bytes", type=int, default=16 << 20, help="AllReduce size (default 16 MiB)")
    parser.add_argument("--json", type=Path, help="write the results here")
    options = parser.parse_args()
    results = []
    print(f"{'CC':<8}{'MTU':>6}{'data packets':>14}{'CPU s':>9}{'data pkt/CPU-s':>16}{'all pkt/CPU-s':>15}")
    for congestion in ("none", "dcqcn", "hpcc"):
        for mtu in (1024, 4096):
            best = min((run(congestion, mtu, options.bytes) for _ in range(3)), key=lambda r: r.cpu_seconds)
            results.append(best)
            print(
                f"{congestion:<8}{mtu:>6}{best.data_packets:>14,}{best.cpu_seconds:>9.3f}"
                f"{best.data_packets_per_cpu_second:>16,.0f}{best.packets_per_cpu_second:>15,.0f}"
            )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
