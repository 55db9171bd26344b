"""A switch under load for minutes: steady P4Runtime writes, frames at line rate; no leak, every frame accounted for.

    sudo python benchmarks/soak.py [--minutes 0.5] [--writes 1000]

The plain L3 switch on two veth pairs in a namespace of its own. A C sender floods it; meanwhile routes are inserted,
modified and deleted, `--writes` updates a second in batches of ten. At the end every frame is accounted for: those the
sender handed to its interface arrived at the sink, or a counter says where they ended. Results go to
benchmarks/out/soak.json; the exit code is 1 when frames are missing or memory grows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from benchmarks import forwarding as bench  # noqa: E402
from benchmarks.switch_cost import usage  # noqa: E402

BATCH = 10
LEAK_BYTES_PER_MINUTE = 1_000_000
"""Growth of resident memory, over the second half of the run, that is called a leak."""
ROUTES = 5_000
"""Routes that come and go."""


def write_here(address: str, info_path: Path, seconds: float, rate: float) -> None:
    """Write for `seconds` at `rate` updates a second; prints what was written as JSON."""
    import grpc
    from finsy.proto import p4i, p4r, p4r_grpc
    from google.protobuf import text_format

    info = p4i.P4Info()
    text_format.Parse(info_path.read_text(), info)
    stub = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(address))
    table = next(t for t in info.tables if t.preamble.alias == "routes").preamble.id
    action = next(a for a in info.actions if a.preamble.alias == "next_hop").preamble.id
    chosen = random.Random(2)
    present: set[int] = set()
    begin = time.monotonic()
    written, slowest, late = 0, 0.0, 0.0
    while (elapsed := time.monotonic() - begin) < seconds:
        request = p4r.WriteRequest(device_id=1)
        for number in chosen.sample(range(ROUTES), BATCH):
            kind = p4r.Update.INSERT
            if number in present:
                kind = chosen.choice([p4r.Update.MODIFY, p4r.Update.DELETE])
            update = request.updates.add(type=kind)
            entry = update.entity.table_entry
            entry.table_id = table
            entry.match.add(
                field_id=1, lpm={"value": (0x0B000000 | number << 8).to_bytes(4, "big"), "prefix_len": 24}
            )
            if kind == p4r.Update.DELETE:
                present.discard(number)
                continue
            present.add(number)
            entry.action.action.action_id = action
            entry.action.action.params.add(param_id=1, value=chosen.randrange(1, 255).to_bytes(1, "big"))
            entry.action.action.params.add(param_id=2, value=b"\x02")
        before = time.monotonic()
        stub.Write(request, timeout=30)
        slowest = max(slowest, time.monotonic() - before)
        written += BATCH
        due = begin + written / rate
        late = max(late, time.monotonic() - due)
        time.sleep(max(0.0, due - time.monotonic()))
    print(json.dumps({"written": written, "seconds": elapsed, "slowest_s": slowest, "latest_s": late}))


def counters(interface: str) -> dict[str, int]:
    """The kernel's statistics of an interface in the namespace."""
    folder = f"/sys/class/net/{interface}/statistics"
    names = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
    words = bench.run(*bench.inside("cat", *(f"{folder}/{name}" for name in names))).split()
    return dict(zip(names, map(int, words), strict=True))


def last_records(path: Path) -> tuple[dict[int, dict[str, int]], dict[str, int]]:
    """Port number -> its counters, and drop reason -> packets: the last of each that were written."""
    ports: dict[int, dict[str, int]] = {}
    drops: dict[tuple[object, ...], tuple[str, int]] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "port":
            ports[record["port"]] = record
        elif record["kind"] == "drop":
            key = (record.get("port"), record.get("class"), record["reason"])
            drops[key] = (record["reason"], record["packets"])
    total: dict[str, int] = {}
    for reason, packets in drops.values():
        total[reason] = total.get(reason, 0) + packets
    return ports, total


def slope(samples: list[tuple[float, int]]) -> float:
    """Bytes a minute, by least squares."""
    times, sizes = [t / 60 for t, _ in samples], [size for _, size in samples]
    return statistics.linear_regression(times, sizes).slope if len(set(times)) > 1 else 0.0


def soak(minutes: float, rate: float, folder: Path) -> dict[str, object]:
    """Run and report."""
    seconds = minutes * 60
    tools = folder / "packet_tools"
    bench.run(shutil.which("cc") or "gcc", "-O2", "-o", tools, HERE / "packet_tools.c")
    program = bench.compile_program("l3", folder)
    records = folder / "switch.jsonl"
    with bench.veths():
        words = [sys.executable, "-m", "switch.native", "-i", f"1@{bench.IN}", "-i", f"2@{bench.OUT}"]
        words += ["--stdin-lifeline", "--records", str(records), "--sample-ms", "1000", "--device-id", "1"]
        words += ["--no-p4", "--", "--grpc-server-addr", "127.0.0.1:0"]
        switch = subprocess.Popen(
            bench.inside(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert switch.stdout is not None
        event = json.loads(switch.stdout.readline())
        address = next(iter(event["devices"].values()))
        bench.install(address, program)
        before = {name: counters(name) for name in (bench.IN, bench.OUT, bench.SINK)}
        writing = [sys.executable, __file__, "--write", address, str(program.p4info)]
        writer = subprocess.Popen(
            bench.inside(*writing, str(seconds), str(rate)), stdout=subprocess.PIPE, text=True
        )
        sent: list[int] = []
        flood = threading.Thread(
            target=lambda: sent.append(
                int(bench.run(*bench.inside(tools, "send", bench.SENDER, 64, seconds)))
            )
        )
        samples: list[tuple[float, int]] = []
        begin = time.monotonic()
        cpu = usage(switch.pid)[1]
        flood.start()
        while flood.is_alive():
            samples.append((time.monotonic() - begin, usage(switch.pid)[0]))
            flood.join(max(0.2, seconds / 100))
        said = json.loads(writer.communicate(timeout=60)[0])
        cpu = usage(switch.pid)[1] - cpu
        settled = -1
        while (now := counters(bench.SINK)["rx_packets"]) != settled:
            settled = now
            time.sleep(0.3)
        after = {name: counters(name) for name in before}
        switch.communicate()
    change = {name: {k: after[name][k] - before[name][k] for k in after[name]} for name in after}
    ports, drops = last_records(records)
    arrived, delivered = change[bench.IN]["rx_packets"], change[bench.SINK]["rx_packets"]
    counted = sum(drops.values())
    late = samples[len(samples) // 2 :]
    return {
        "minutes": minutes,
        "offered": sent[0],
        "lost_before_the_switch": sent[0] - arrived,
        "counted_by_the_kernel": change[bench.IN]["rx_dropped"],
        "arrived": arrived,
        "delivered": delivered,
        "drops": drops,
        "unaccounted": arrived - delivered - counted,
        "switch_received": ports.get(1, {}).get("rx_packets", 0),
        "writes": said,
        "writes_per_s": said["written"] / said["seconds"],
        "rss_first": samples[0][1],
        "rss_last": samples[-1][1],
        "rss_slope_bytes_per_minute": slope(late),
        "cpu_s": cpu,
    }


def main() -> int:
    """Run and say whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--writes", type=float, default=1000, help="updates a second")
    parser.add_argument("--write", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        address, info, seconds, rate = given.write
        write_here(address, Path(info), float(seconds), float(rate))
        return 0
    if os.geteuid() != 0:
        raise SystemExit("soak.py needs root: it makes a network namespace and packet sockets")
    with tempfile.TemporaryDirectory(prefix="xoff-soak-") as name:
        report = soak(given.minutes, given.writes, Path(name))
    for key, value in report.items():
        print(f"{key:<28}{value}")
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / "soak.json").write_text(json.dumps(report, indent=1) + "\n")
    grows = given.minutes >= 2 and float(str(report["rss_slope_bytes_per_minute"])) > LEAK_BYTES_PER_MINUTE
    if report["unaccounted"] or grows:
        print("frames are missing" if report["unaccounted"] else "memory grows")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
