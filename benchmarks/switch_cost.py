"""What each further switch costs: memory and CPU of one process with 1, 20, 80 and 320 devices running fabric.p4.

    python benchmarks/switch_cost.py [--devices 1,20,80,320] [--ports 8]

Every device has its P4Runtime server, `--ports` ports without interfaces, and the program loaded. The compiled program
is in the cache, as it is on every run but the first. Results go to benchmarks/out/switch_cost.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("XOFF_BUILD", "wait")  # measured is the build that a switch ends up with

from switch.device import DeviceSpec, PortSpec  # noqa: E402
from switch.device_file import write_devices  # noqa: E402


@dataclass(frozen=True)
class Cost:
    """One process that is ready."""

    devices: int
    rss_bytes: int
    cpu_s: float
    ready_s: float


def usage(pid: int) -> tuple[int, float]:
    """Resident bytes and CPU-seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return pages * os.sysconf("SC_PAGE_SIZE"), cpu


def measure(count: int, ports: int, program: Path, p4info: Path, folder: Path) -> Cost:
    """Start `count` devices and read the process when it says that it is ready."""
    devices = [
        DeviceSpec(
            name=f"s{number}",
            device_id=number,
            ports=tuple(PortSpec(port, None, 10**9) for port in range(1, ports + 1)),
            program_json=program,
            p4info=p4info,
            grpc_address="127.0.0.1:0",
        )
        for number in range(1, count + 1)
    ]
    write_devices(folder / "devices.json", devices)
    begin = time.monotonic()
    words = [
        sys.executable,
        "-m",
        "switch.native",
        "--devices",
        str(folder / "devices.json"),
        "--stdin-lifeline",
    ]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        event = json.loads(process.stdout.readline() or '{"event": "error", "message": "it ended"}')
        ready = time.monotonic() - begin
        if event["event"] != "ready":
            raise SystemExit(f"{count} devices: {event['message']}")
        rss, cpu = usage(process.pid)
        process.communicate()
    return Cost(count, rss, cpu, ready)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--devices", default="1,20,80,320")
    parser.add_argument("--ports", type=int, default=8)
    given = parser.parse_args()
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="xoff-switch-cost-") as name:
        folder = Path(name)
        program, p4info = folder / "fabric.json", folder / "fabric.p4info.txtpb"
        words = [sys.executable, "-m", "compiler", str(ROOT / "p4src" / "fabric.p4"), "-o", str(program)]
        subprocess.run([*words, "--p4runtime-files", str(p4info)], check=True, cwd=ROOT)
        measure(1, given.ports, program, p4info, folder)  # fills the cache
        print(f"{'devices':>8}{'RSS MB':>9}{'CPU s':>8}{'ready s':>9}{'MB each':>9}{'CPU ms each':>13}")
        for count in map(int, given.devices.split(",")):
            cost = measure(count, given.ports, program, p4info, folder)
            costs.append(cost)
            line = f"{count:>8}{cost.rss_bytes / 1e6:>9.1f}{cost.cpu_s:>8.2f}{cost.ready_s:>9.2f}"
            if len(costs) > 1:
                more = count - costs[0].devices
                each = (cost.rss_bytes - costs[0].rss_bytes) / more / 1e6
                line += f"{each:>9.2f}{(cost.cpu_s - costs[0].cpu_s) / more * 1e3:>13.1f}"
            print(line, flush=True)
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / "switch_cost.json").write_text(json.dumps([asdict(cost) for cost in costs], indent=1) + "\n")


if __name__ == "__main__":
    main()
