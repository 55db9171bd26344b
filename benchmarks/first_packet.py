"""From an uncached fabric.p4 to its first forwarded packet: tcc's build at once, beside waiting for the C compiler.

    python -m benchmarks.first_packet [--rounds 5] [--json FILE]

Each round is a new process with a cache that holds the engine's runtime and nothing else. Measured is a switch that
gets its program (read, generate, compile, load: what SetForwardingPipelineConfig does), then the controller's entries,
then one frame; wall-clock milliseconds, medians. `settled` is when the optimised build has taken over.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.engine_throughput import compiled, frame
from compiler.cache import cache_folder
from switch.native.build import runtime
from switch.native.p4runtime.device import P4RuntimeDevice
from tests.fabric.native import Built, NativeSwitch
from tests.fabric.plans import star

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("config", "entries", "first_packet", "settled")


def once(folder: Path) -> dict[str, float]:
    """Milliseconds since the configuration was sent at which each stage was reached."""
    runtime()
    reached: dict[str, float] = {}
    load = P4RuntimeDevice.load

    async def timed(device: P4RuntimeDevice, *arguments: object) -> None:
        await load(device, *arguments)  # type: ignore[arg-type]
        reached["config"] = time.perf_counter()

    P4RuntimeDevice.load = timed  # type: ignore[assignment,method-assign]
    built = Built(folder / "fabric.json", folder / "fabric.p4info.txtpb")
    reached["start"] = time.perf_counter()
    switch = NativeSwitch(built, star(4, rate_bps=100 * 10**9))
    reached["entries"] = time.perf_counter()
    switch.send(1, frame(1082))
    switch.drain()
    assert switch.out, "the frame was not forwarded"
    reached["first_packet"] = time.perf_counter()
    for thread in threading.enumerate():
        if thread.name == "xoff-build":
            thread.join()
    switch.engine.poll(switch.now)
    assert switch.engine.optimised
    reached["settled"] = time.perf_counter()
    return {stage: (reached[stage] - reached["start"]) * 1e3 for stage in STAGES}


def fresh(folder: Path, way: str) -> dict[str, float]:
    """`once` in a new process, with a cache that holds the runtime alone."""
    cache = folder / "cache"
    cache.mkdir()
    for library in cache_folder().glob("runtime-*.so"):
        shutil.copy(library, cache)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_packet", "--once", str(folder)],
        env={**os.environ, "XOFF_CACHE": str(cache), "XOFF_BUILD": way},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    shutil.rmtree(cache)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(once(options.once)))
        return
    runtime()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled(ROOT / "p4src" / "fabric.p4", folder)
        rounds = [{way: fresh(folder, way) for way in ("wait", "swap")} for _ in range(options.rounds)]
    print(f"{'ms after the configuration':<28}" + "".join(f"{stage:>14}" for stage in STAGES))
    results = {}
    for way, label in (("wait", "the C compiler first"), ("swap", "tcc first")):
        results[way] = {stage: statistics.median(r[way][stage] for r in rounds) for stage in STAGES}
        print(f"{label:<28}" + "".join(f"{results[way][stage]:>14.0f}" for stage in STAGES))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
