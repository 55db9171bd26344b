"""Packets per second through one native switch, beside a plain C forwarder (and BMv2) on the same two veths.

    sudo python benchmarks/forwarding.py [--seconds 3] [--sizes 64,1024] [--rounds 3] [--bmv2]

A C sender floods one end; what arrives at the other end is counted there by the interface. The figure that bears
comparison on a shared machine is packets per CPU-second of the forwarding process, as a ratio to the plain forwarder
of the same round. Needs root, a C compiler and iproute2. Results go to benchmarks/out/forwarding.json.
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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from finsy.proto import p4i, p4r, p4r_grpc  # noqa: E402
from google.protobuf import text_format  # noqa: E402

NAMESPACE = "xoff-forwarding"
SENDER, IN, OUT, SINK = "xofs", "xofi", "xofo", "xofk"
"""Sender's end and the switch's two ends and the receiver's end of two veth pairs."""
JUDGES = "/opt/judges/bin"
DESTINATION = 0x0A000002


@dataclass(frozen=True)
class Figure:
    """One measurement."""

    forwarder: str
    frame_bytes: int
    offered: int
    delivered: int
    seconds: float
    cpu_s: float

    @property
    def per_cpu_second(self) -> float:
        """Delivered packets per CPU-second of the forwarding process."""
        return self.delivered / self.cpu_s if self.cpu_s else 0.0


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


def arrived() -> int:
    """Packets that the sink's interface has received."""
    return int(run(*inside("cat", f"/sys/class/net/{SINK}/statistics/rx_packets")))


def measure(forwarder: str, pid: int, tools: Path, size: int, seconds: float) -> Figure:
    """Flood for `seconds` and count."""
    before, cpu = arrived(), cpu_seconds(pid)
    begin = time.monotonic()
    offered = int(run(*inside(tools, "send", SENDER, size, seconds)))
    elapsed = time.monotonic() - begin
    last = -1
    while (count := arrived()) != last:  # what is still in buffers when the sender stops
        last = count
        time.sleep(0.1)
    return Figure(forwarder, size, offered, last - before, elapsed, cpu_seconds(pid) - cpu)


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


@contextmanager
def native(program: Path, p4info: Path) -> Iterator[int]:
    """The native switch with one route."""
    arguments = [sys.executable, "-m", "switch.native", "-i", f"1@{IN}", "-i", f"2@{OUT}", "--stdin-lifeline"]
    arguments += ["--device-id", "1", "--p4info", str(p4info), str(program)]
    arguments += ["--", "--grpc-server-addr", "127.0.0.1:0", "--priority-queues", "8"]
    process = subprocess.Popen(
        inside(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdin is not None
    event = json.loads(process.stdout.readline())
    if event["event"] != "ready":
        raise SystemExit(event["message"])
    program_route(next(iter(event["devices"].values())), p4info)
    try:
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()


@contextmanager
def bmv2(program: Path, p4info: Path) -> Iterator[int]:
    """simple_switch_grpc with the same route."""
    executable = shutil.which("simple_switch_grpc", path=f"{os.environ['PATH']}:{JUDGES}")
    if executable is None:
        raise SystemExit("--bmv2: simple_switch_grpc is not installed")
    arguments = [executable, "-i", f"1@{IN}", "-i", f"2@{OUT}", "--device-id", "1", "--log-level", "off"]
    arguments += [
        "--thrift-port",
        "29090",
        "--notifications-addr",
        "ipc:///tmp/xoff-forwarding.ipc",
        str(program),
    ]
    arguments += ["--", "--grpc-server-addr", "127.0.0.1:29559", "--priority-queues", "8"]
    process = subprocess.Popen(inside(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    try:
        program_route("127.0.0.1:29559", p4info, program)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def program_route(address: str, p4info: Path, program: Path | None = None) -> None:
    """Route the sender's frames to port 2, from a process inside the namespace."""
    words = [sys.executable, __file__, "--route", address, "--p4info", p4info]
    run(*inside(*words, *([] if program is None else ["--program", program])))


def route(address: str, p4info: Path, program: Path | None) -> None:
    """The client that `program_route` runs."""
    import grpc

    info = p4i.P4Info()
    text_format.Parse(p4info.read_text(), info)
    stub = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(address))
    if program is not None:
        stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=1,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=program.read_bytes()),
            ),
            wait_for_ready=True,
        )
    table = next(t for t in info.tables if t.preamble.alias == "routes")
    action = next(a for a in info.actions if a.preamble.alias == "next_hop")
    entry = p4r.TableEntry(table_id=table.preamble.id)
    entry.match.add(field_id=1, lpm={"value": DESTINATION.to_bytes(4, "big"), "prefix_len": 32})
    entry.action.action.action_id = action.preamble.id
    entry.action.action.params.add(param_id=1, value=b"\x02\0\0\0\0\x02")
    entry.action.action.params.add(param_id=2, value=b"\x02")
    update = p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=entry))
    stub.Write(p4r.WriteRequest(device_id=1, updates=[update]), wait_for_ready=True, timeout=20)


def compile_program(folder: Path) -> tuple[Path, Path]:
    """(BMv2 JSON, P4Info) of the router."""
    program, p4info = folder / "l3.json", folder / "l3.p4info.txtpb"
    run(
        *(
            sys.executable,
            "-m",
            "compiler",
            HERE / "p4" / "l3.p4",
            "-o",
            program,
            "--p4runtime-files",
            p4info,
        ),
        cwd=ROOT,
    )
    return program, p4info


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="64,1024", help="frame bytes")
    parser.add_argument("--bmv2", action="store_true", help="measure simple_switch_grpc too")
    parser.add_argument("--route", help=argparse.SUPPRESS)
    parser.add_argument("--p4info", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--program", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.route:
        route(given.route, given.p4info, given.program)
        return
    if os.geteuid() != 0:
        raise SystemExit("forwarding.py needs root: it makes a network namespace and packet sockets")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="xoff-forwarding-") as name, veths():
        folder = Path(name)
        tools = folder / "packet_tools"
        run(shutil.which("cc") or "gcc", "-O2", "-o", tools, HERE / "packet_tools.c")
        program, p4info = compile_program(folder)
        for _ in range(given.rounds):
            for size in map(int, given.sizes.split(",")):
                with plain(tools) as pid:
                    figures.append(measure("plain C", pid, tools, size, given.seconds))
                with native(program, p4info) as pid:
                    figures.append(measure("native l3.p4", pid, tools, size, given.seconds))
                if given.bmv2:
                    with bmv2(program, p4info) as pid:
                        figures.append(measure("BMv2 l3.p4", pid, tools, size, given.seconds))
    report(figures)


def report(figures: list[Figure]) -> None:
    """Print the medians as a table and keep everything in benchmarks/out/."""
    print(f"{'forwarder':<16}{'bytes':>6}{'delivered/s':>13}{'per CPU-s':>12}{'ratio':>7}")
    for size in dict.fromkeys(figure.frame_bytes for figure in figures):
        base = 0.0
        for forwarder in dict.fromkeys(figure.forwarder for figure in figures):
            mine = [f for f in figures if (f.forwarder, f.frame_bytes) == (forwarder, size)]
            efficiency = statistics.median(f.per_cpu_second for f in mine)
            rate = statistics.median(f.delivered / f.seconds for f in mine)
            base = base or efficiency
            print(f"{forwarder:<16}{size:>6}{rate:>13,.0f}{efficiency:>12,.0f}{efficiency / base:>7.2f}")
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    rows = [{**asdict(figure), "per_cpu_second": figure.per_cpu_second} for figure in figures]
    (out / "forwarding.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
