"""Virtual time: link traversals per CPU-second through fabric.p4, and what a host and a switch cost.

    python -m benchmarks.virtual_time [--k 4 8 16] [--congestion-control none dcqcn] [--bytes N] [--json FILE]

Each case is a whole run in a process of its own (plan, P4 program, switches, controller over P4Runtime, workload): a
permutation on a fat-tree at MTU 4096 and 100 Gb/s. A traversal is a frame, data or control, carried over one link;
CPU time is that of the whole process while the workload runs, samples and records included. Where libns3-dev is
installed, ns-3 carries the same permutation (ns3_permutation.cc) and the ratio is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("XOFF_BUILD", "wait")  # measured is the build that a switch ends up with

OUT = ROOT / "benchmarks" / "out" / "virtual_time.json"
MTU = 4096


@dataclass(frozen=True)
class Result:
    """One case. Bytes are resident memory."""

    k: int
    hosts: int
    switches: int
    congestion_control: str
    message_bytes: int
    driver: str
    traversals: int
    simulated_ns: int
    cpu_seconds: float
    wall_seconds: float
    traversals_per_cpu_second: float
    ns_per_traversal: float
    load_cpu_seconds: float
    """Engines, ports, P4Runtime servers."""
    control_cpu_seconds: float
    """Programming them."""
    bytes_per_switch: int
    """Once programmed, without what the process needs anyway."""
    bytes_per_host: int
    peak_bytes: int
    frame_bytes: int
    """Pools of frames."""


def resident() -> int:
    """Resident memory of this process, bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure(k: int, congestion: str, size: int, load_balancing: str, shift: int) -> Result:
    """Run one case in this process."""
    import asyncio

    from xoff.clocks.context import make_context
    from xoff.clocks.simulation import VirtualRun, in_c
    from xoff.experiment import Experiment
    from xoff.folder import RunFolder
    from xoff.progress import Display

    experiment = Experiment(
        topology=f"fattree:k={k}",
        clock="virtual",
        mtu=MTU,
        workload=f"permutation:bytes={size}" + (f",shift={shift}" if shift else ""),
        congestion_control=congestion,
        telemetry="host" if congestion == "hpcc" else "off",
        load_balancing=load_balancing,
        sample="1ms",
        time_limit="1s",
    )
    context = make_context(experiment)
    figures: dict[str, float] = {}

    class Measured(VirtualRun):
        async def _start_switches(self, *arguments):  # type: ignore[no-untyped-def]
            figures["before"], begun = resident(), time.process_time()
            result = await super()._start_switches(*arguments)
            figures["load"], figures["loaded"] = time.process_time() - begun, time.process_time()
            return result

        def _add_hosts(self, *arguments):  # type: ignore[no-untyped-def]
            start = resident()
            super()._add_hosts(*arguments)
            figures["hosts"] = resident() - start

        async def _simulate(self, *arguments):  # type: ignore[no-untyped-def]
            figures["control"] = time.process_time() - figures["loaded"]
            figures["switches"] = resident() - figures["before"] - figures["hosts"]
            cpu, wall, begun = time.process_time(), time.perf_counter(), self.clock.now
            await super()._simulate(*arguments)
            figures["cpu"] = time.process_time() - cpu
            figures["wall"] = time.perf_counter() - wall
            figures["simulated"] = self.clock.now - begun
            figures["traversals"] = self.clock.traversals
            if not all(endpoint.finished for endpoint in self.endpoints):
                raise SystemExit("the permutation did not finish within its time limit")
            if in_c():
                figures["frames"] = self.clock.fabric.stats().frame_bytes  # type: ignore[union-attr]

    with tempfile.TemporaryDirectory() as folder:
        run_folder = RunFolder.create(Path(folder), experiment)
        files = context.program.write(run_folder.path / "program")
        asyncio.run(Measured(context, files, run_folder, Display(quiet=True)).run())
    switches, hosts = len(context.plan.switches), len(context.plan.hosts)
    return Result(
        k=k,
        hosts=hosts,
        switches=switches,
        congestion_control=congestion,
        message_bytes=size,
        driver="c" if in_c() else "python",
        traversals=int(figures["traversals"]),
        simulated_ns=int(figures["simulated"]),
        cpu_seconds=round(figures["cpu"], 3),
        wall_seconds=round(figures["wall"], 3),
        traversals_per_cpu_second=round(figures["traversals"] / figures["cpu"]),
        ns_per_traversal=round(figures["cpu"] / figures["traversals"] * 1e9, 1),
        load_cpu_seconds=round(figures["load"], 3),
        control_cpu_seconds=round(figures["control"], 3),
        bytes_per_switch=int(figures["switches"]) // switches,
        bytes_per_host=int(figures["hosts"]) // hosts,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        frame_bytes=int(figures.get("frames", 0)),
    )


def measure_apart(k: int, congestion: str, size: int, load_balancing: str, shift: int = 0) -> Result:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", str(k), congestion, str(size), load_balancing, str(shift)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"k={k} {congestion}: {done.stderr.strip()[-2000:]}")
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--congestion-control", nargs="+", default=["none", "dcqcn"])
    parser.add_argument("--load-balancing", default="ecmp")
    parser.add_argument("--bytes", type=int, default=0, help="per host (default: 16 MiB for k=4, else 4 MiB)")
    parser.add_argument("--json", type=Path, default=OUT)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        k, congestion, size, balancing, shift = options.one
        print(json.dumps(asdict(measure(int(k), congestion, int(size), balancing, int(shift)))))
        return
    results = []
    print(f"{'k':>3}{'hosts':>7}{'switches':>9} {'CC':<7}{'traversals':>12}{'CPU s':>8}{'per CPU-s':>12}"
          f"{'ns each':>9}{'build s':>9}{'KiB/switch':>12}{'KiB/host':>10}{'peak MiB':>10}")  # fmt: skip
    for k in options.k:
        for congestion in options.congestion_control:
            size = options.bytes or {4: 16 << 20}.get(k, 4 << 20)
            r = measure_apart(k, congestion, size, options.load_balancing)
            results.append(asdict(r))
            build = r.load_cpu_seconds + r.control_cpu_seconds
            print(f"{k:>3}{r.hosts:>7}{r.switches:>9} {congestion:<7}{r.traversals:>12,}{r.cpu_seconds:>8.2f}"
                  f"{r.traversals_per_cpu_second:>12,}{r.ns_per_traversal:>9.0f}{build:>9.1f}"
                  f"{r.bytes_per_switch / 1024:>12,.0f}{r.bytes_per_host / 1024:>10,.0f}"
                  f"{r.peak_bytes / 2**20:>10,.0f}", flush=True)  # fmt: skip
    beside = [compare(k) for k in options.k if k <= NS3_LARGEST_K] if has_ns3() else []
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"cases": results, "ns3": beside}, indent=1) + "\n")


NS3_LARGEST_K = 8
"""Address and route set-up of ns-3 takes long beyond."""
NS3_LIBRARIES = (
    "core", "network", "internet", "point-to-point", "applications", "nix-vector-routing", "stats", "bridge",
    "traffic-control", "mpi",
)  # fmt: skip


def has_ns3() -> bool:
    """Whether ns-3 programs can be built here."""
    return shutil.which("g++") is not None and ns3_include() is not None


def ns3_include() -> Path | None:
    """The include folder of the installed ns-3."""
    include = Path("/usr/include")
    found = [*include.glob("ns3/core-module.h"), *sorted(include.glob("ns3*/ns3/core-module.h"))]
    return found[-1].parents[1] if found else None


def compare(k: int) -> dict[str, Any]:
    """The same permutation on ns-3 and here: a shift by one more than a pod's hosts, 4 MiB a host."""
    size, shift = 4 << 20, k * k // 4 + 1
    include = ns3_include()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "permutation"
        libraries = [
            f"-lns3-{name}" for name in NS3_LIBRARIES if list(Path("/usr/lib").glob(f"*/libns3-{name}.so"))
        ]
        source = ROOT / "benchmarks" / "ns3_permutation.cc"
        command = ["g++", "-O2", "-std=c++17", f"-I{include}", "-o", str(program), str(source)]
        command += ["-Wl,--allow-shlib-undefined", *libraries]
        subprocess.run(command, check=True)
        done = subprocess.run(
            [program, f"--k={k}", f"--bytes={size}"], capture_output=True, text=True, check=True
        )
    theirs: dict[str, Any] = json.loads(done.stdout)
    ours = measure_apart(k, "none", size, "ecmp", shift)
    ratio = ours.traversals_per_cpu_second / theirs["traversals_per_cpu_second"]
    print(f"ns-3, k={k}, shift {shift}: {theirs['traversals_per_cpu_second']:,} traversals per CPU-second; "
          f"here {ours.traversals_per_cpu_second:,}: {ratio:.1f} times", flush=True)  # fmt: skip
    return {"k": k, "ns3": theirs, "ours": asdict(ours), "ratio": round(ratio, 2)}


if __name__ == "__main__":
    main()
