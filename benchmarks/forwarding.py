"""Throughput and latency of one native switch, beside a plain C forwarder and builds of BMv2 on the same two veths.

    sudo python benchmarks/forwarding.py [--seconds 3] [--sizes 64,1024] [--rounds 3] [--programs l3,lpm,fabric]
                                         [--bmv2 ordinary=PATH] [--bmv2 optimised=PATH]

A C sender floods one end; what arrives at the other end is counted there by the interface. The figure that bears
comparison on a shared machine is packets per CPU-second of the forwarding process, as a ratio to the others of the
same round. Then frames are sent one at a time for the latency of one hop, sender and forwarder in the real-time
class, so that other work on the machine counts for little. Each `--bmv2 NAME=PATH` is a build of
simple_switch_grpc to measure; without, those that BMV2 (ordinary) and BMV2_OPTIMISED name in the environment, or the
one on PATH. Programs: a plain L3 switch with one route, the same with 2,000 prefixes (lpm), and fabric.p4 as the
controller programs it. Needs root, a C compiler, iproute2 and chrt. Results go to benchmarks/out/forwarding.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("XOFF_BUILD", "wait")  # measured is the build that a switch ends up with

import asyncio  # noqa: E402

from finsy.proto import p4i, p4r, p4r_grpc  # noqa: E402
from google.protobuf import text_format  # noqa: E402

from benchmarks.forwarding_report import NATIVE, OPTIMISED, ORDINARY, PLAIN, Figure, Run, report  # noqa: E402
from controller.app import FabricController, ProgramFiles  # noqa: E402
from switch.bmv2_runtime import Bmv2Runtime, Bmv2RuntimeError  # noqa: E402
from switch.device import TIMER_PORT  # noqa: E402
from topologies.plan import ClassPolicy, FabricPlan, HostPlan, PortPlan, Route, SwitchPlan  # noqa: E402

NAMESPACE = "xoff-forwarding"
SENDER, IN, OUT, SINK = "xofs", "xofi", "xofo", "xofk"
"""Sender's end and the switch's two ends and the receiver's end of two veth pairs."""
DESTINATION = 0x0A000002
L3 = HERE / "p4" / "l3.p4"
SOURCES = {"l3": L3, "lpm": L3, "fabric": ROOT / "p4src" / "fabric.p4"}
PREFIXES = 2000
QUEUE_PACKETS = 16_384
THRIFT_PORT = 29_090
PROBES = 1000
"""Frames of a latency measurement."""


def run(*command: object, **options: object) -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))} failed: {done.stderr.strip() or done.stdout.strip()}"
        )
    return str(done.stdout)


def inside(*command: object) -> list[str]:
    """The command as run in the benchmark's namespace."""
    return ["ip", "netns", "exec", NAMESPACE, *map(str, command)]


@contextmanager
def veths() -> Iterator[None]:
    """Two veth pairs in a namespace of their own, silent."""
    subprocess.run(["ip", "netns", "delete", NAMESPACE], capture_output=True)
    run("ip", "netns", "add", NAMESPACE)
    try:
        run(*inside("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"))
        run(*inside("ip", "link", "set", "lo", "up"))
        for one, other in ((SENDER, IN), (OUT, SINK)):
            run(*inside("ip", "link", "add", one, "mtu", 9000, "type", "veth", "peer", other, "mtu", 9000))
            run(*inside("ip", "link", "set", one, "up"))
            run(*inside("ip", "link", "set", other, "up"))
        yield
    finally:
        run("ip", "netns", "delete", NAMESPACE)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_before_others(pid: int) -> None:
    """Real-time scheduling for every thread of a process: what else the machine does is not its latency."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))


def arrived() -> int:
    """Packets that the sink's interface has received."""
    return int(run(*inside("cat", f"/sys/class/net/{SINK}/statistics/rx_packets")))


def measure(run_of: Run, pid: int, tools: Path, seconds: float) -> Figure:
    """Flood for `seconds` and count; then single frames."""
    size = run_of.frame_bytes
    before, cpu = arrived(), cpu_seconds(pid)
    begin = time.monotonic()
    offered = int(run(*inside(tools, "send", SENDER, size, seconds)))
    elapsed = time.monotonic() - begin
    last = -1
    while (count := arrived()) != last:  # what is still in buffers when the sender stops
        last = count
        time.sleep(0.1)
    cpu = cpu_seconds(pid) - cpu
    run_before_others(pid)
    probe = inside("chrt", "--rr", 1, tools, "latency", SENDER, SINK, size, PROBES)
    p50, p99, lost = run(*probe).split()
    if int(lost) > PROBES // 100:
        raise SystemExit(f"{run_of.forwarder} lost {lost} of {PROBES} single frames")
    return Figure(run_of, offered, last - before, elapsed, cpu, float(p50), float(p99))


@contextmanager
def plain(tools: Path) -> Iterator[int]:
    """The C forwarder."""
    process = subprocess.Popen(inside("sh", "-c", f"exec {tools} forward {IN} {OUT}"))
    time.sleep(0.3)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Program:
    """A compiled P4 program and how it is called here."""

    name: str
    json: Path
    p4info: Path


@contextmanager
def native(program: Program) -> Iterator[int]:
    """The native switch, programmed to forward."""
    arguments = [sys.executable, "-m", "switch.native", "-i", f"1@{IN}", "-i", f"2@{OUT}", "--stdin-lifeline"]
    arguments += [
        "--device-id",
        "1",
        "--no-p4",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
        "--priority-queues",
        "8",
    ]
    process = subprocess.Popen(
        inside(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        event = json.loads(process.stdout.readline())
        if event["event"] != "ready":
            raise SystemExit(event["message"])
        install(next(iter(event["devices"].values())), program)
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()


def bmv2_builds(given: list[str]) -> dict[str, str]:
    """Name of a build of simple_switch_grpc -> its executable; without NAME=PATH those of this machine."""
    if not given:
        found = {ORDINARY: os.environ.get("BMV2"), OPTIMISED: os.environ.get("BMV2_OPTIMISED")}
        given = [f"{name}={path}" for name, path in found.items() if path]
    if not given and (path := shutil.which("simple_switch_grpc")):
        given = [f"{ORDINARY}={path}"]
    builds: dict[str, str] = {}
    for words in given:
        name, _, path = words.partition("=")
        executable = shutil.which(path)
        if not name or executable is None or name in (*builds, PLAIN, NATIVE):
            raise SystemExit(f"--bmv2 {words}: give NAME=PATH, another name each, of an executable")
        builds[name] = executable
    return builds


@contextmanager
def bmv2(executable: str, program: Program) -> Iterator[int]:
    """simple_switch_grpc, programmed in the same way."""
    arguments = [executable, "-i", f"1@{IN}", "-i", f"2@{OUT}", "--device-id", "1", "--log-level", "off"]
    arguments += [
        "--thrift-port",
        THRIFT_PORT,
        "--notifications-addr",
        "ipc:///tmp/xoff-forwarding.ipc",
        str(program.json),
    ]
    arguments += [
        "--",
        "--grpc-server-addr",
        "127.0.0.1:29559",
        "--priority-queues",
        "8",
        "--cpu-port",
        "510",
    ]
    process = subprocess.Popen(inside(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        install("127.0.0.1:29559", program, THRIFT_PORT)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def install(address: str, program: Program, thrift_port: int = 0) -> None:
    """Make the switch send the sender's frames to port 2, from a process inside the namespace.

    With a `thrift_port` it is BMv2, whose queues are set too.
    """
    words = ["--install", address, "--thrift", thrift_port]
    run(*inside(sys.executable, __file__, *words, "--program", program.name, program.json, program.p4info))


def install_here(address: str, program: Program, thrift_port: int) -> None:
    """What `install` runs."""
    if thrift_port:
        _set_queues(thrift_port)
    if program.name == "fabric":
        asyncio.run(_install_fabric(address, program))
    else:
        _install_route(address, program)


def _set_queues(thrift_port: int) -> None:
    """BMv2's queues as long as the native switch's, and a timer packet that does not lap as fast as it can."""
    deadline = time.monotonic() + 20
    while True:  # nothing tells when it listens
        try:
            with Bmv2Runtime(thrift_port) as runtime:
                for port in (1, 2):
                    runtime.set_queue_depth(QUEUE_PACKETS, port)
                runtime.set_queue_rate(1, TIMER_PORT)
            return
        except Bmv2RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _install_route(address: str, program: Program) -> None:
    import grpc

    info = p4i.P4Info()
    text_format.Parse(program.p4info.read_text(), info)
    stub = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(address))
    stub.SetForwardingPipelineConfig(
        p4r.SetForwardingPipelineConfigRequest(
            device_id=1,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=program.json.read_bytes()),
        ),
        wait_for_ready=True,
        timeout=20,
    )
    table = next(t for t in info.tables if t.preamble.alias == "routes")
    action = next(a for a in info.actions if a.preamble.alias == "next_hop")
    request = p4r.WriteRequest(device_id=1)
    for value, length in prefixes(PREFIXES if program.name == "lpm" else 1):
        entry = p4r.TableEntry(table_id=table.preamble.id)
        entry.match.add(field_id=1, lpm={"value": value.to_bytes(4, "big"), "prefix_len": length})
        entry.action.action.action_id = action.preamble.id
        entry.action.action.params.add(param_id=1, value=b"\x02\0\0\0\0\x03")
        entry.action.action.params.add(param_id=2, value=b"\x02")
        request.updates.add(type=p4r.Update.INSERT).entity.table_entry.CopyFrom(entry)
    stub.Write(request, timeout=60)


def prefixes(count: int) -> list[tuple[int, int]]:
    """(value, length) of `count` routes, the destination's own first, of lengths as routing tables have them."""
    chosen = random.Random(1)
    found = {(DESTINATION, 32): None}
    while len(found) < count:
        length = chosen.choice([8, 12, 16, 18, 20, 22, 24, 24, 24, 28])
        found[chosen.getrandbits(length) << (32 - length), length] = None
    return list(found)


async def _install_fabric(address: str, program: Program) -> None:
    controller = FabricController(two_hosts(), {"s1": address}, ProgramFiles(program.json, program.p4info))
    await controller.start()
    await controller.stop()


def two_hosts() -> FabricPlan:
    """One switch between two hosts; its links are so fast that nothing is queued."""
    rate = 10**11

    def port(number: int) -> PortPlan:
        mac = f"02:00:00:00:00:{number:02x}"
        return PortPlan(number, "02:00:00:00:00:02", f"h{number}", 0, mac, rate, 0, "host")

    switch = SwitchPlan(
        name="s1",
        device_id=1,
        layer="node",
        ports=(port(1), port(2)),
        routes=tuple(Route(f"10.0.0.{number}/32", (number,)) for number in (1, 2)),
        hash_seed=1,
    )
    hosts = tuple(
        HostPlan(
            f"h{n}", n - 1, f"02:00:00:00:00:{n:02x}", f"10.0.0.{n}", "s1", n, "02:00:00:00:00:02", rate, 0
        )
        for n in (1, 2)
    )
    return FabricPlan("two hosts", (switch,), hosts, {0: ClassPolicy(lossless=False)})


def compile_program(name: str, folder: Path) -> Program:
    """Compile with this project's compiler."""
    program = Program(name, folder / f"{name}.json", folder / f"{name}.p4info.txtpb")
    words = (sys.executable, "-m", "compiler", SOURCES[name], "-o", program.json)
    run(*words, "--p4runtime-files", program.p4info, cwd=ROOT)
    return program


def measure_round(
    number: int, size: int, seconds: float, tools: Path, programs: list[Program], builds: dict[str, str]
) -> Iterator[Figure]:
    """Every forwarder once, one after the other."""
    with plain(tools) as pid:
        yield measure(Run(PLAIN, "", size, number), pid, tools, seconds)
    for program in programs:
        with native(program) as pid:
            yield measure(Run(NATIVE, program.name, size, number), pid, tools, seconds)
        for name, executable in builds.items():
            with bmv2(executable, program) as pid:
                yield measure(Run(name, program.name, size, number), pid, tools, seconds)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="64,1024", help="frame bytes")
    parser.add_argument(
        "--bmv2", action="append", default=[], metavar="NAME=PATH", help="a simple_switch_grpc"
    )
    parser.add_argument("--no-bmv2", action="store_true", help="leave simple_switch_grpc out")
    parser.add_argument("--programs", default="l3,lpm,fabric", help=f"of {', '.join(SOURCES)}")
    parser.add_argument("--install", help=argparse.SUPPRESS)
    parser.add_argument("--thrift", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--program", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.install:
        name, program, p4info = given.program
        install_here(given.install, Program(name, Path(program), Path(p4info)), given.thrift)
        return
    if os.geteuid() != 0:
        raise SystemExit("forwarding.py needs root: it makes a network namespace and packet sockets")
    builds = {} if given.no_bmv2 else bmv2_builds(given.bmv2)
    if not builds:
        print("BMv2 is not measured: none is named or on PATH" if not given.no_bmv2 else "BMv2 is left out")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="xoff-forwarding-") as name, veths():
        folder = Path(name)
        tools = folder / "packet_tools"
        run(shutil.which("cc") or "gcc", "-O2", "-o", tools, HERE / "packet_tools.c")
        programs = [compile_program(program, folder) for program in given.programs.split(",")]
        for number in range(given.rounds):
            for size in map(int, given.sizes.split(",")):
                figures += measure_round(number, size, given.seconds, tools, programs, builds)
    report(figures, HERE / "out" / "forwarding.json")


if __name__ == "__main__":
    main()
