"""Packets per CPU-second through the native engine alone: frames in memory, one engine, one thread.

    python benchmarks/engine_throughput.py [--packets 400000] [--rounds 3] [--sizes 64,1082] [--json FILE]

Programs: a plain L3 switch with one route, the same with 2,000 prefixes, and fabric.p4 as the controller programs it.
Each figure is the median of the rounds. With `XOFF_CC=tcc` it measures what a machine without a C compiler gets.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("XOFF_BUILD", "wait")  # measured is the build that a switch ends up with

from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

from switch.native import abi, build  # noqa: E402
from switch.native.binding import Engine  # noqa: E402
from switch.native.program import Program  # noqa: E402

ROCE_PORT = 4791


def driver(folder: Path) -> ctypes.CDLL:
    """The C loop, compiled with the engine's own compiler."""
    abi.library()
    compiler = build.find_compiler()
    target = folder / "driver.so"
    source = Path(__file__).with_name("engine_driver.c")
    subprocess.run(
        [*compiler.command, *compiler.flags("O2"), f"-I{build.HERE}", "-o", str(target), str(source)],
        check=True,
    )
    loaded = ctypes.CDLL(str(target))
    loaded.drive.restype = ctypes.c_uint64
    loaded.drive.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_char_p,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.POINTER(ctypes.c_uint64),
    ]
    return loaded


def compiled(source: Path, folder: Path) -> Program:
    """A P4 program by this project's compiler."""
    subprocess.run([sys.executable, "-m", "compiler", str(source), "-o", str(folder)], check=True, cwd=ROOT)
    p4info = folder / f"{source.stem}.p4info.txtpb"
    return Program.from_text((folder / f"{source.stem}.json").read_text(), p4info.read_text())


def frame(size: int, destination: str = "10.0.0.2", mac: str = "02:00:00:00:01:01") -> bytes:
    """A RoCEv2-shaped frame of `size` bytes (the IP packet inside is as long as fits)."""
    packet = (
        Ether(dst=mac, src="02:00:00:00:02:01")
        / IP(src="10.0.0.1", dst=destination, tos=24 << 2 | 2, ttl=64)
        / UDP(sport=50000, dport=ROCE_PORT)
        / Raw(bytes(max(0, size - 42)))
    )
    return bytes(packet)[:size].ljust(size, b"\0")


def l3(program: Program, prefixes: int) -> Engine:
    """The plain L3 switch with routes."""
    engine = Engine(program)
    for port in (1, 2):
        engine.add_port(port)
    table = next(t for t in program.tables.values() if t.key and t.key[0].kind == "lpm")
    action = next(a for a in table.actions if a.params)
    sizes = {"port": 2, "dst": 0x0200_0000_0202, "src": 0x0200_0000_0102}
    args = [
        next((v for k, v in sizes.items() if k in name.lower()), 2) & ((1 << w) - 1)
        for name, w in action.params
    ]
    engine.table_add(table.name, [("lpm", 0x0A000002, 32)], action.name, args)
    rng = random.Random(1)
    while len(engine.table_entries(table.name)) < prefixes:
        length = rng.choice([8, 12, 16, 18, 20, 22, 24, 24, 24, 28])
        value = rng.getrandbits(length) << (32 - length)
        if engine.table_find(table.name, [("lpm", value, length)]) is None:
            engine.table_add(table.name, [("lpm", value, length)], action.name, args)
    return engine


def fabric(folder: Path) -> tuple[Engine, object]:
    """fabric.p4 on the first edge switch of a k=4 fat-tree, as the controller programs it."""
    from tests.fabric.native import Built, NativeSwitch
    from tests.fabric.plans import star

    compiled(ROOT / "p4src" / "fabric.p4", folder)
    built = Built(folder / "fabric.json", folder / "fabric.p4info.txtpb")
    switch = NativeSwitch(built, star(4, rate_bps=100 * 10**9))
    return switch.engine, switch


def measure(loop: ctypes.CDLL, engine: Engine, data: bytes, packets: int, rounds: int) -> tuple[float, float]:
    """(packets per CPU-second, share of the frames that left): medians."""
    rates, shares = [], []
    now = ctypes.c_uint64()
    abi.library().xf_time(engine.handle, ctypes.byref(now))
    loop.drive(engine.handle, 1, data, len(data), packets // 8, 1_000, ctypes.byref(now))
    for _ in range(rounds):
        start = time.process_time()
        sent = loop.drive(engine.handle, 1, data, len(data), packets, 1_000, ctypes.byref(now))
        rates.append(packets / (time.process_time() - start))
        shares.append(sent / packets)
    return statistics.median(rates), statistics.median(shares)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="64,1082")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loop = driver(folder)
        plain = compiled(ROOT / "benchmarks" / "p4" / "l3.p4", folder)
        fabric_engine, keep = fabric(folder)
        cases = {
            "l3, 1 route": l3(plain, 1),
            "l3, 2000 prefixes": l3(plain, 2000),
            "fabric.p4": fabric_engine,
        }
        print(f"compiler: {build.find_compiler().name}")
        print(f"{'program':<20} {'bytes':>6} {'packets/CPU-s':>14} {'ns/packet':>10} {'left':>6}")
        for program, engine in cases.items():
            for size in (int(s) for s in options.sizes.split(",")):
                rate, share = measure(loop, engine, frame(size), options.packets, options.rounds)
                print(f"{program:<20} {size:>6} {rate:>14,.0f} {1e9 / rate:>10.0f} {share:>6.0%}")
                results.append({"program": program, "bytes": size, "packets_per_cpu_s": rate, "left": share})
        del keep
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
