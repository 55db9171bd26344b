"""Cases that other simulators publish, run in virtual time: their figure and ours, each over its own ideal.

    python benchmarks/peers.py                 # up to 128 hosts
    python benchmarks/peers.py --largest       # and 1,024 hosts: minutes, and several GiB
    python benchmarks/peers.py --only incast   # cases whose name contains the word

Their figures: measured by running them (uet-htsim `validate_outputs`, `htsim_roce`, conweave-ns3), see
docs/crosscheck.md. Ours are the median over seeds, with least and greatest; the ideal is this fabric's: wire bytes
of the messages over the link that must carry them, and the path's propagation and store-and-forward.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from switch.link import wire_bytes
from traffic.collectives.ideal import PACKET_HEADER_BYTES
from xoff.clocks.context import make_context
from xoff.clocks.simulation import VirtualRun
from xoff.experiment import Experiment
from xoff.folder import RunFolder
from xoff.metrics import summarise
from xoff.progress import Display
from xoff.rundata import read_run

SIZE = 2_000_000
MTU = 4096
RATE = 100e9
DELAY_NS = 1_000
HOPS = 6
"""Links between hosts of different pods."""


def flow_ns(mtu: int, copies: int = 1, telemetry: int = 0) -> float:
    """Time of `copies` messages of `SIZE` bytes on one link."""
    whole, rest = divmod(SIZE, mtu)
    sizes = [mtu] * whole + ([rest] if rest else [])
    return copies * sum(wire_bytes(size + PACKET_HEADER_BYTES + telemetry) for size in sizes) * 8e9 / RATE


def path_ns(mtu: int, links: int = HOPS) -> float:
    """Propagation, and storing a full packet at every switch."""
    return links * DELAY_NS + (links - 1) * wire_bytes(mtu + PACKET_HEADER_BYTES) * 8e9 / RATE


@dataclass(frozen=True)
class Case:
    """One row."""

    name: str
    theirs: str
    """Tool, figure in us, ratio to its ideal."""
    ideal_ns: float
    options: dict[str, Any]
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    hosts: int = 16
    mtu: int = field(default=MTU)


INCAST = {"kind": "incast", "bytes": SIZE}
PERMUTATION = {"kind": "permutation", "bytes": SIZE}


def slow_core(k: int, links: int) -> list[dict[str, Any]]:
    """So many links between the core and the first pod at a tenth of their rate, each of another aggregation switch."""
    pairs = [(j * (k // 2) + 1, j + 1) for j in range(links)]
    return [
        {"at": "0ns", "set_rate": {"switch": f"c{core}", "towards": f"a{aggregation}", "rate": "10Gbps"}}
        for core, aggregation in pairs
    ]


REPS = {"ecn": True, "ecn_preset": "uec"}
"""What REPS steers by: a queue's packets are all marked before it pauses anybody."""


def permutation(k: int, hosts: int, mode: str, theirs: str, **options: Any) -> Case:
    """A permutation on a full fat tree."""
    if mode == "reps":
        options = REPS | options
    cc = options.get("congestion_control", "none")
    mtu = options.get("mtu", MTU)
    return Case(
        f"permutation {hosts}, {mode}, {cc}", theirs, flow_ns(mtu) + path_ns(mtu),
        {"topology": f"fattree:k={k}", "workload": PERMUTATION, "load_balancing": mode, **options},
        seeds=(1, 2, 3, 4, 5) if hosts < 1000 else (1,), hosts=hosts, mtu=mtu,
    )  # fmt: skip


def incast(cc: str, theirs: str, *, mtu: int = 1024, telemetry: int = 0, **options: Any) -> Case:
    """15 hosts to one."""
    return Case(
        f"incast 15:1, {', '.join([cc, *options.values()])}", theirs, flow_ns(mtu, 15, telemetry) + path_ns(mtu),
        {"topology": "fattree:k=4", "workload": INCAST, "congestion_control": cc, "mtu": mtu, **options},
        seeds=(1, 2, 3), mtu=mtu,
    )  # fmt: skip


def oversubscribed(hosts: int, leaves: int, spines: int, theirs: str) -> Case:
    """A leaf-spine, 4:1; every host sends to another leaf."""
    per_leaf = hosts // leaves
    return Case(
        f"permutation {hosts} on a 4:1 leaf-spine, spray, none", theirs, flow_ns(MTU, 4) + path_ns(MTU, 4),
        {"topology": f"leafspine:leaves={leaves},hosts_per_leaf={per_leaf},spines={spines}", "load_balancing": "spray",
         "workload": {**PERMUTATION, "shift": per_leaf}}, seeds=(1,), hosts=hosts,
    )  # fmt: skip


def degraded(k: int, links: int, mode: str, theirs: str, **options: Any) -> Case:
    """A permutation on a fat tree with slow links at its core."""
    hosts = k**3 // 4
    if mode == "reps":
        options = REPS | options
    how = options.get("congestion_control", "none")
    if options.get("pfc") is False:
        how += f", no PFC, {options['classes'][3]['queue_limit_bytes'] // 1000} kB queues"
    how += ", weighted" if options.get("wcmp") else ""
    return Case(
        f"permutation {hosts}, {links} slow core link{'s' if links > 1 else ''}, {mode}, {how}", theirs,
        flow_ns(MTU) + path_ns(MTU),
        {
            "topology": f"fattree:k={k}", "workload": PERMUTATION, "load_balancing": mode,
            "actions": slow_core(k, links), **options,
        },
        seeds=(1, 2, 3) if hosts < 1000 else (1,), hosts=hosts,
    )  # fmt: skip


WITH_REPS = ("mprdma", "none", "dcqcn", "dcqcn:preset=hpcc", "hpcc")
LONG_QUEUES, SHORT_QUEUES = (
    {"pfc": False, "classes": {3: {"queue_limit_bytes": size}}} for size in (800_000, 160_000)
)
"""Five bandwidth-delay products, as uet-htsim has them where nothing is trimmed, and one, where it trims."""

WEIGHTED = {"wcmp": True, "control_latency": "10us"}
"""The controller learns of a slow link and weighs the paths anew, this long after."""

CASES = [
    incast("none", "htsim_roce 2451.3: 1.000", mtu=MTU),
    incast("dcqcn", "conweave-ns3 3602.2: 1.425 (htsim NSCC 2478.5: 1.010)"),
    incast("dcqcn:preset=hpcc", "conweave-ns3 3602.2: 1.425", ecn_preset="hpcc"),
    incast("hpcc", "conweave-ns3 2869.1: 1.092", telemetry=44),
    incast("mprdma", "htsim NSCC 2478.5: 1.010", mtu=MTU, ecn_preset="uec"),
    permutation(4, 16, "spray", "htsim_uec 194.0: 1.101"),
    permutation(4, 16, "adaptive", "-"),
    permutation(4, 16, "ecmp", "htsim_roce 502.0: 2.85 (htsim_uec 1 path 527.8: 3.00)"),
    permutation(4, 16, "ecmp", "conweave-ns3 1106.0: 6.14", congestion_control="dcqcn", mtu=1024),
    permutation(4, 16, "ecmp", "conweave-ns3 645.7: 3.58", congestion_control="hpcc", mtu=1024),
    permutation(8, 128, "spray", "htsim_uec 200.9: 1.140"),
    permutation(8, 128, "adaptive", "htsim_roce ecmp_ar 238.2: 1.35"),
    permutation(8, 128, "ecmp", "htsim_roce 821.6: 4.66 (htsim_uec 1 path 694.0: 3.94)"),
    permutation(8, 128, "ecmp", "conweave-ns3 1352.5: 7.51", congestion_control="dcqcn", mtu=1024),
    permutation(8, 128, "ecmp", "conweave-ns3 837.3: 4.65", congestion_control="hpcc", mtu=1024),
    oversubscribed(128, 8, 4, "(1,024 hosts: htsim_uec 785.8: 1.191)"),
    degraded(8, 1, "spray", "(1,024 hosts: htsim oblivious 280.8: 1.59)"),
    degraded(8, 1, "adaptive", "(1,024 hosts: htsim REPS 206.7: 1.17)"),
    degraded(8, 1, "spray", "(1,024 hosts: htsim oblivious 280.8: 1.59)", **WEIGHTED),
    degraded(8, 1, "reps", "(1,024 hosts: htsim REPS 206.7: 1.17)", congestion_control="mprdma", **WEIGHTED),
    *(permutation(4, 16, "reps", "htsim_uec 194.0: 1.101", congestion_control=cc) for cc in WITH_REPS),
    *(permutation(8, 128, "reps", "htsim_uec 200.9: 1.140", congestion_control=cc) for cc in WITH_REPS),
    *(
        degraded(8, 1, "reps", "(1,024 hosts: htsim REPS 206.7: 1.17)", congestion_control=cc)
        for cc in WITH_REPS
    ),
    *(
        degraded(8, 1, "reps", "(1,024 hosts: htsim REPS 206.7: 1.17)", congestion_control="mprdma", **lossy)
        for lossy in (LONG_QUEUES, SHORT_QUEUES)
    ),
]

LARGEST = [
    permutation(16, 1024, "spray", "htsim_uec 200.5: 1.138"),
    permutation(16, 1024, "adaptive", "-"),
    permutation(16, 1024, "ecmp", "htsim_roce 1288.9: 7.31 (htsim_uec 1 path 889.9: 5.05)"),
    oversubscribed(1024, 32, 8, "htsim_uec 785.8: 1.191"),
    degraded(16, 8, "spray", "htsim oblivious 280.8: 1.59"),
    degraded(16, 8, "adaptive", "htsim REPS 206.7: 1.17"),
    degraded(16, 8, "spray", "htsim oblivious 280.8: 1.59", **WEIGHTED),
    degraded(16, 8, "reps", "htsim REPS 206.7: 1.17", congestion_control="mprdma", **WEIGHTED),
    *(permutation(16, 1024, "reps", "htsim_uec 200.5: 1.138", congestion_control=cc) for cc in WITH_REPS),
    *(degraded(16, 8, "reps", "htsim REPS 206.7: 1.17", congestion_control=cc) for cc in WITH_REPS),
    degraded(16, 8, "reps", "htsim REPS 206.7: 1.17", congestion_control="mprdma", **LONG_QUEUES),
]


def measure(case: Case, seed: int, folder: Path) -> dict[str, Any]:
    """Run it once; fabric us and what happened."""
    settings = {
        "congestion_control": "none",
        "mtu": MTU,
        "sample": "1s",
        "time_limit": "100ms",
        **case.options,
    }
    if settings["congestion_control"] == "none":
        settings.setdefault("ecn", False)
    experiment = Experiment(clock="virtual", seed=seed, **settings)
    begun = time.process_time()
    context = make_context(experiment)
    run = RunFolder.create(folder, experiment)
    context.plan.write(run.path / "plan.json")
    files = context.program.write(run.path / "program")
    asyncio.run(VirtualRun(context, files, run, Display(quiet=True)).run())
    summary = summarise(read_run(run.path))
    first = summary["fct_seconds"]["min"] * 1e6 if "fct_seconds" in summary else None
    completion = summary["collective"]["completion_seconds"]
    return {
        "us": completion * 1e6 if completion else None, "first_us": first, "drops": summary["drops_total"],
        "retransmissions": summary["retransmissions"], "pauses": summary["pauses"],
        "cpu_seconds": time.process_time() - begun, "link_traversals": run.facts["link_traversals"],
        "rss_bytes": run.facts["peak_rss_bytes"],
    }  # fmt: skip


def row(case: Case, results: list[dict[str, Any]]) -> str:
    """A line of the table."""
    times = [r["us"] for r in results]
    if any(t is None for t in times):
        return f"| {case.name} | {case.theirs} | not finished | {case.ideal_ns / 1000:.1f} | - | |"
    middle = statistics.median(times)
    spread = f" ({min(times):.1f} to {max(times):.1f})" if len(times) > 1 else ""
    counted = {key: sum(r[key] for r in results) for key in ("drops", "retransmissions", "pauses")}
    happened = ", ".join(f"{count} {key}" for key, count in counted.items() if count)
    ratio = middle * 1000 / case.ideal_ns
    ours = f"{middle:.1f}{spread} | {case.ideal_ns / 1000:.1f} | {ratio:.3f}"
    return f"| {case.name} | {case.theirs} | {ours} | {happened} |"


def main() -> None:
    """Print the table; benchmarks/out/peers.json has everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", action="store_true", help="also the cases with 1,024 hosts")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    print("| case | theirs (us: over their ideal) | ours, us | our ideal, us | over ideal | what happened |")
    print("|---|---|---|---|---|---|")
    everything = {}
    for case in [*CASES, *(LARGEST if options.largest else [])]:
        if options.only not in case.name:
            continue
        with tempfile.TemporaryDirectory(prefix="xoff-peers-") as folder:
            results = [measure(case, seed, Path(folder)) for seed in case.seeds]
        everything[f"{case.name}, mtu {case.mtu}"] = {"ideal_us": case.ideal_ns / 1000, "runs": results}
        print(row(case, results), flush=True)
        (out / "peers.json").write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
