"""Builds the harnesses in C: with gcc and its sanitizers to replay, with clang and libFuzzer to search."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from switch.native import build
from switch.native.cgen import generate
from switch.native.program import Program
from tests.fuzz.recording import record
from traffic.build import TrafficOptions, build_hosts
from traffic.collectives import permutation
from traffic.nic.config import CongestionConfig, NicConfig, ReceiverConfig, TransportConfig
from traffic.nic.native import nic as native_nic
from traffic.wire.prototype import data_frame

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NIC = ROOT / "traffic" / "nic" / "native"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

PROGRAMS: dict[str, tuple[str, ...]] = {
    "engine": (
        "tests/switch/programs/decisions",
        "tests/switch/programs/tables",
        "tests/switch/programs/state",
        "tests/switch/programs/queues",
        "tests/switch/programs/headers",
        "tests/switch/programs/entities",
        "tests/differential/programs/keys",
        "tests/differential/programs/checksums",
        "tests/differential/programs/metering",
        "tests/differential/programs/selector",
    ),
    "fabric": ("p4src/fabric",),
}
"""Harness -> the programs that its inputs choose from, without `.p4`; the order is part of the corpora's format."""
TARGETS = (*PROGRAMS, "nic")


@dataclass(frozen=True)
class Toolchain:
    """A compiler and what it is asked for."""

    compiler: str
    flags: tuple[str, ...]
    libfuzzer: bool = False


def gcc() -> Toolchain | None:
    """To replay; None where gcc or its sanitizers are missing."""
    found = shutil.which("gcc")
    if found is None:
        return None
    check = [found, *SANITIZERS, "-x", "c", "-", "-o", "/dev/null"]
    done = subprocess.run(check, input="int main(void){return 0;}", text=True, capture_output=True)
    return Toolchain(found, SANITIZERS) if done.returncode == 0 else None


def clang() -> Toolchain | None:
    """To search; None where clang or its libFuzzer is missing."""
    names = ["clang", *(f"clang-{version}" for version in range(30, 10, -1))]
    for name in names:
        found = shutil.which(name)
        if found is None:
            continue
        flags = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")
        check = [found, *flags, "-x", "c", "-", "-o", "/dev/null"]
        text = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return 0; }"
        if subprocess.run(check, input=text, text=True, capture_output=True).returncode == 0:
            return Toolchain(found, flags, libfuzzer=True)
    return None


@functools.cache
def documents(name: str) -> tuple[str, str]:
    """BMv2 JSON and P4Info text of a program of `PROGRAMS`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "compiler", str(ROOT / f"{name}.p4"), "-o", folder]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
        stem = Path(folder) / Path(name).name
        return stem.with_suffix(".json").read_text(), stem.with_suffix(".p4info.txtpb").read_text()


def compiled(name: str) -> Program:
    """A program of `PROGRAMS`."""
    return Program.from_text(*documents(name))


def _prologue(name: str) -> bytes:
    """What a controller writes into fabric.p4; nothing for the other programs."""
    if name != "p4src/fabric":
        return b""
    from tests.fabric.native import Built, NativeSwitch
    from tests.fabric.plans import LOSSLESS, LOSSY, star
    from topologies.plan import IntPolicy

    with tempfile.TemporaryDirectory() as folder:
        built = Built(Path(folder) / "fabric.json", Path(folder) / "fabric.p4info.txtpb")
        for path, text in zip((built.json, built.p4info), documents(name), strict=True):
            path.write_text(text)
        plan = star(
            classes={3: LOSSLESS, 5: LOSSY, 0: LOSSY},
            groups={"10.9.0.0/16": (2, 3), "fd00::2/128": (2,), "0.0.0.0/0": (4,)},
            telemetry=IntPolicy(mode="host"),
        )
        switch = NativeSwitch(built, plan)
        session = record(switch.engine)
        # Recorded from the second time on: the program anew, then everything that was written.
        switch._desired = []
        switch._loop.run_until_complete(switch._device.load(switch._schema.get_pipeline_config()))
        switch.program(switch.intent)
        switch.close()
        return session.commands


def _bytes(name: str, data: bytes) -> str:
    return f"static const unsigned char {name}[] = {{{','.join(map(str, data or bytes(1)))}}};\n"


def _programs_source(names: Sequence[str]) -> str:
    text = '#include "fuzz.h"\n'
    for i, name in enumerate(names):
        prologue = _prologue(name)
        text += f"const struct xf_program *program_{i}(void);\n" + _bytes(f"prologue_{i}", prologue)
        text += f"#define LENGTH_{i} {len(prologue)}\n"
    rows = ", ".join(f"{{program_{i}, prologue_{i}, LENGTH_{i}}}" for i in range(len(names)))
    return (
        text + f"const fuzzed_program fuzzed[] = {{{rows}}};\nconst uint32_t fuzzed_count = {len(names)};\n"
    )


def _nic_configs() -> list[tuple[NicConfig, NicConfig]]:
    """Pairs of NICs: every congestion control, IPv4 and IPv6, with and without INT and a receive buffer."""
    from tests.traffic.fabrics import GBPS, pair_plan

    found = []
    for number, (name, with_int, ipv6, drain, window) in enumerate(
        [
            ("none", False, False, 0, 0),
            ("dcqcn", False, False, 0, 7),
            ("dcqcn", True, True, 30 * GBPS, 64),
            ("hpcc", True, False, 0, 0),
            ("hpcc", True, False, 30 * GBPS, 7),
            ("none", True, False, 10 * GBPS, 0),
        ]
    ):
        plan = pair_plan(mtu=256 if number % 2 else 1024, telemetry="host" if with_int else "off")
        transport = TransportConfig(
            rto_ns=60_000, retry_limit=3, ack_interval=3, reorder_window=window, reorder_ns=3_000
        )
        options = TrafficOptions(congestion=CongestionConfig(name, base_rtt_ns=4_300), transport=transport)
        receiver = ReceiverConfig(
            drain_bps=drain, limit_bytes=40_000, xoff_bytes=12_000, xon_bytes=5_000, pause_quanta=300
        )
        pair = []
        for i, endpoint in enumerate(build_hosts(plan, permutation(["h0", "h1"], 1, shift=1), options)):
            nic = replace(endpoint.nic, receiver=receiver)
            if ipv6:
                queue_pair = replace(nic.queue_pairs[0], remote_ip=f"fd00::{2 - i}")
                ip = f"fd00::{i + 1}"
                frame = data_frame(nic.mac, nic.gateway_mac, ip).hex()
                nic = replace(nic, ip=ip, queue_pairs=(queue_pair,), frame=frame)
            pair.append(nic)
        found.append((pair[0], pair[1]))
    return found


def _setups_source() -> str:
    text, rows = '#include "nic.h"\n', []
    for i, pair in enumerate(_nic_configs()):
        names = []
        for side, config in enumerate(pair):
            native = native_nic.native_config(config)
            queue_pair = native_nic._native_pair(config.queue_pairs[0], config)
            for kind, structure in (("config", native), ("pair", queue_pair)):
                text += _bytes(
                    f"{kind}_{i}_{side}", ctypes.string_at(ctypes.byref(structure), ctypes.sizeof(structure))
                )
        names = [f"{{config_{i}_0, config_{i}_1}}, {{pair_{i}_0, pair_{i}_1}}"]
        rows.append(f"{{{', '.join(names)}}}")
    text += "typedef struct setup { const void *config[2], *pair[2]; } setup;\n"
    text += f"const setup setups[] = {{{', '.join(rows)}}};\nconst uint32_t setup_count = {len(rows)};\n"
    return text


class Builder:
    """Builds harnesses in a folder; what they share is compiled once."""

    def __init__(self, toolchain: Toolchain, folder: Path) -> None:
        self._toolchain = toolchain
        self._folder = folder
        self._objects: dict[tuple[Path, tuple[str, ...]], Path] = {}

    def target(self, name: str) -> Path:
        """The executable of one of `TARGETS`."""
        if name == "nic":
            (self._folder / "setups.c").write_text(_setups_source())
            sources = [HERE / "nic.c", self._folder / "setups.c", *sorted(NIC.glob("*.c"))]
            return self._link(name, [self._object(source) for source in sources])
        return self.engine(
            name, [compiled(each) for each in PROGRAMS[name]], _programs_source(PROGRAMS[name])
        )

    def engine(self, name: str, programs: Sequence[Program], table: str | None = None) -> Path:
        """An executable of engine.c with these programs."""
        if table is None:
            table = _programs_source([""] * len(programs))
        (self._folder / f"{name}_programs.c").write_text(table)
        objects = [self._object(HERE / "engine.c"), self._object(self._folder / f"{name}_programs.c")]
        for i, program in enumerate(programs):
            source = self._folder / f"{name}_{i}.c"
            source.write_text(generate(program))
            objects.append(self._object(source, f"-Dxf_program_get=program_{i}"))
        return self._link(name, objects)

    def _object(self, source: Path, *flags: str) -> Path:
        made = self._objects.get((source, flags))
        if made is not None and source.parent != self._folder:
            return made
        target = self._folder / f"{len(self._objects)}-{source.stem}.o"
        command = [self._toolchain.compiler, "-std=gnu99", "-g", "-O1", "-w", "-DXF_SANITIZE"]
        command += [*self._toolchain.flags, *flags, f"-I{HERE}", f"-I{build.HERE}", f"-I{NIC}"]
        compile_only = [f.replace("fuzzer,", "fuzzer-no-link,") for f in command]
        subprocess.run([*compile_only, "-c", str(source), "-o", str(target)], check=True)
        self._objects[source, flags] = target
        return target

    def _link(self, name: str, objects: Sequence[Path]) -> Path:
        runtime = [self._object(s) for s in build.runtime_sources() if s.name != "loop.c"]
        runtime += [] if self._toolchain.libfuzzer else [self._object(HERE / "replay.c")]
        target = self._folder / f"fuzz-{name}"
        command = [self._toolchain.compiler, *self._toolchain.flags, *map(str, [*objects, *runtime])]
        subprocess.run([*command, "-o", str(target)], check=True)
        return target


def run(executable: Path, *arguments: str, seconds: float = 250) -> int:
    """Run a harness built to replay; returns how many inputs it ran. AssertionError with the sanitizer's report if one
    objected, TimeoutExpired when it is not done in time."""
    done = subprocess.run([str(executable), *arguments], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-4000:]
    return int(done.stdout.split()[0])
