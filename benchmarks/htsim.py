"""Virtual time beside uet-htsim on the same permutations: link traversals per CPU-second, interleaved in one run.

    python -m benchmarks.htsim --htsim <uet-htsim>/htsim/sim [--k 4 8 16] [--repeat 3] [--json FILE]

uet-htsim (github.com/ultraethernet/uet-htsim) is built by its user in <uet-htsim>/htsim/sim/build. Its htsim_uec
carries abstract packets by NSCC with trimming, without headers, P4 or payload; Xoff carries whole frames through
fabric.p4. The permutation is a shift by one more than a pod's hosts, so that every path has six links: traversals of
htsim are six times the data packets, retransmissions, acknowledgements and NACKs that it counts. `spray`: 128
entropies there, `spray` here; `single path`: one entropy there, `ecmp` here.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.virtual_time import ROOT, measure_apart

OUT = ROOT / "benchmarks" / "out" / "htsim.json"
LINKS = 6
"""Between hosts of different pods of a three-tier fat tree."""
BYTES = {4: 16 << 20, 8: 4 << 20, 16: 4 << 20}
"""A flow, by k."""
TOPOLOGIES = {8: "fat_tree_128_1os.topo", 16: "fat_tree_1024_1os.topo"}
MODES = {"spray": (128, "spray"), "single path": (1, "ecmp")}
_COUNTS = re.compile(r"New: (\d+) Rtx: (\d+) .*ACKs: (\d+) NACKs: (\d+)")


@dataclass(frozen=True)
class Side:
    """One simulator's run."""

    traversals: int
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Traversals per CPU-second."""
        return self.traversals / self.cpu_seconds


def shift_of(k: int) -> int:
    """Hosts between the two ends of every flow."""
    return k * k // 4 + 1


def theirs(sim: Path, k: int, paths: int) -> Side:
    """The permutation on htsim_uec. SystemExit when it is not there or a flow did not finish."""
    hosts = k**3 // 4
    flows = [f"{i}->{(i + shift_of(k)) % hosts} id {i + 1} start 0 size {BYTES[k]}" for i in range(hosts)]
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder) / "permutation.cm"
        matrix.write_text("\n".join([f"Nodes {hosts}", f"Connections {hosts}", *flows]) + "\n")
        command = [str(sim / "build" / "datacenter" / "htsim_uec"), "-tm", str(matrix), "-sender_cc_only",
                   "-end", "20000", "-paths", str(paths)]  # fmt: skip
        if k in TOPOLOGIES:
            command += ["-topo", str(sim / "datacenter" / "topologies" / TOPOLOGIES[k])]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"htsim: {error}") from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = _COUNTS.search(done.stdout)
    finished = done.stdout.count(" finished at ")
    if counts is None or finished != hosts:
        raise SystemExit(f"htsim: {finished} of {hosts} flows finished")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Side(LINKS * sum(map(int, counts.groups())), cpu)


def ours(k: int, balancing: str) -> Side:
    """The same in virtual time, without congestion control, MTU 4096."""
    result = measure_apart(k, "none", BYTES[k], balancing, shift_of(k))
    return Side(result.traversals, result.cpu_seconds)


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--htsim", type=Path, help="the folder htsim/sim of a uet-htsim that is built")
    parser.add_argument("--k", type=int, nargs="+", default=[4, 8, 16], choices=(4, 8, 16))
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, in turns; the best counts")
    parser.add_argument("--json", type=Path, default=OUT)
    options = parser.parse_args()
    if options.htsim is None:
        print("left out: --htsim says where uet-htsim is")
        return
    rows = []
    print(f"{'k':>3} {'paths':<12}{'htsim: per CPU-s':>18}{'Xoff: per CPU-s':>18}{'ratio':>7}")
    for k in options.k:
        for mode, (paths, balancing) in MODES.items():
            pairs = [(theirs(options.htsim, k, paths), ours(k, balancing)) for _ in range(options.repeat)]
            their_best, our_best = (
                max((pair[i] for pair in pairs), key=lambda side: side.rate) for i in (0, 1)
            )
            ratio = statistics.median(b.rate / a.rate for a, b in pairs)
            rows.append(
                {"k": k, "paths": mode, "htsim": asdict(their_best), "xoff": asdict(our_best), "ratio": ratio}
            )
            print(
                f"{k:>3} {mode:<12}{their_best.rate:>18,.0f}{our_best.rate:>18,.0f}{ratio:>7.2f}", flush=True
            )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
