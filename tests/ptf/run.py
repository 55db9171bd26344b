"""`sudo python -m tests.ptf FOLDER …`: run the PTF tests below FOLDER against the native switch.

A folder with PTF tests says in its `runptf.sh` how simple_switch_grpc and ptf are called: interfaces, CPU port, test
parameters. The same is done here with `python -m switch.native`, and with this project's compiler for p4c, in a network
namespace of its own. ptf and p4runtime-shell come from `--ptf-environment` (a virtual environment, made on first use).
One line a test; the last line is `N of M tests passed`. Folders whose script starts another switch are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from switch.native.build import cache_folder

ROOT = Path(__file__).parents[2]
NAMESPACE = "xoff-ptf"
SCRIPT = "runptf.sh"
PACKAGES = ("ptf", "p4runtime-shell", "scapy", "psutil")
TIMEOUT_S = 1200
P4RUNTIME_PORT = 9559


DEVICE_CONFIG = '''"""The message in which p4lang's tutorials wrap a program; it is in no package."""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, symbol_database
_kinds = descriptor_pb2.FieldDescriptorProto
_file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
_message = _file.message_type.add(name="P4DeviceConfig")
_message.field.add(name="reassign", number=1, type=_kinds.TYPE_BOOL, label=_kinds.LABEL_OPTIONAL)
_message.field.add(name="device_data", number=3, type=_kinds.TYPE_BYTES, label=_kinds.LABEL_OPTIONAL)
_pool = descriptor_pool.Default()
_pool.Add(_file)
_found = _pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig")
P4DeviceConfig = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(_pool).GetPrototype
P4DeviceConfig = P4DeviceConfig(_found)
'''


class Problem(Exception):
    """A folder cannot be run; the message says why."""


class OtherTarget(Problem):
    """The tests are not for simple_switch_grpc."""


@dataclass(frozen=True)
class Folder:
    """What a runptf.sh says."""

    path: Path
    source: Path
    p4info: Path
    config: Path
    switch_words: tuple[str, ...]
    switch_ports: dict[int, str]
    test_ports: dict[int, str]
    parameters: str
    tests: Path
    python_path: tuple[Path, ...]


def _commands(text: str) -> list[list[str]]:
    """The script's commands as words; comments and continuation lines are gone."""
    joined = re.sub(r"\\\n", " ", text)
    commands = []
    for line in joined.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a here-document or a quoted text over several lines: no command of ours
            continue
        if words:
            commands.append(words)
    return commands


def _interfaces(words: list[str]) -> dict[int, str]:
    found = {}
    for option, value in itertools.pairwise(words):
        if option == "-i":
            number, _, name = value.partition("@")
            found[int(number)] = name
    return found


def read(script: Path) -> Folder:
    """Understand a runptf.sh; raises Problem, OtherTarget when it starts another switch."""
    folder = script.parent
    commands = _commands(script.read_text())

    def command(name: str) -> list[str]:
        for words in commands:
            for place, word in enumerate(words):
                if word.strip("`").split("/")[-1] == name or word == f"`which {name}`":
                    return words[place + 1 :]
                if word == "`which" and words[place + 1 : place + 2] == [f"{name}`"]:
                    return words[place + 2 :]
        raise Problem(f"{script} does not call {name}")

    if not any("simple_switch_grpc" in word for words in commands for word in words):
        raise OtherTarget(f"{script} does not call simple_switch_grpc")
    p4c, switch, ptf = command("p4c"), command("simple_switch_grpc"), command("ptf")
    if "&" in switch:
        switch = switch[: switch.index("&")]
    sources = [w for w in p4c if w.endswith(".p4")]
    parameters = next((w.split("=", 1)[1] for w in ptf if w.startswith("--test-params=")), None)
    if not sources or parameters is None:
        raise Problem(f"{script} names no P4 source or no test parameters")
    named = dict(re.findall(r"(\w+)='([^']*)'", parameters))
    tests = next((b for a, b in itertools.pairwise(ptf) if a == "--test-dir"), ".")
    paths = [folder / p for p in re.findall(r"realpath\s+(\S+?)[`\)\"]", script.read_text())]
    # Helpers that the tests import from beside their folder.
    paths += [p for up in folder.parents for p in (up / "utils", up / "testlib") if p.is_dir()]
    return Folder(
        path=folder,
        source=folder / sources[0],
        p4info=folder / named["p4info"],
        config=folder / named["config"],
        switch_words=tuple(_essential(switch)),
        switch_ports=_interfaces(switch),
        test_ports=_interfaces(ptf),
        parameters=parameters,
        tests=folder / tests,
        python_path=tuple(p for p in paths if p.is_dir()),
    )


def _essential(words: list[str]) -> Iterator[str]:
    """The switch's options, without what concerns its log files."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("--log-file", "--dump-packet-data"):
            skip = True
        elif word != "--log-flush":
            yield word


def _run(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


def _must(*words: str) -> None:
    done = _run(list(words))
    if done.returncode:
        raise Problem(f"{' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def namespace(folder: Folder) -> Iterator[None]:
    """A network namespace with a veth pair for each port."""
    _run(["ip", "netns", "delete", NAMESPACE])
    _must("ip", "netns", "add", NAMESPACE)
    try:
        inside = ("ip", "netns", "exec", NAMESPACE)
        _must(*inside, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        _must(*inside, "ip", "link", "set", "lo", "up")
        for number, name in folder.switch_ports.items():
            peer = folder.test_ports.get(number, f"{name}-peer")
            _must(
                *inside, "ip", "link", "add", name, "mtu", "9500", "type", "veth", "peer", peer, "mtu", "9500"
            )
            for end in (name, peer):
                _must(*inside, "ip", "link", "set", end, "up")
        yield
    finally:
        _run(["ip", "netns", "delete", NAMESPACE])


@contextmanager
def judge(folder: Folder, executable: str) -> Iterator[None]:
    """simple_switch_grpc itself."""
    words = ["ip", "netns", "exec", NAMESPACE, executable, *folder.switch_words]
    said = subprocess.DEVNULL
    with subprocess.Popen(words, stdout=said, stderr=said, cwd=folder.path) as process:
        try:
            for _ in range(100):
                heard = _run(["ip", "netns", "exec", NAMESPACE, "cat", "/proc/net/tcp", "/proc/net/tcp6"])
                if f":{P4RUNTIME_PORT:04X} " in heard.stdout or process.poll() is not None:
                    break
                time.sleep(0.1)
            yield
        finally:
            process.kill()


@contextmanager
def native(folder: Folder, log: Path) -> Iterator[None]:
    """The native switch, called as simple_switch_grpc is."""
    words = ["ip", "netns", "exec", NAMESPACE, sys.executable, "-m", "switch.native", "--stdin-lifeline"]
    words += ["--log-file", str(log), *folder.switch_words]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            said = process.stdout.readline()
            while said and not said.startswith("{"):
                said = process.stdout.readline()
            event = json.loads(said or "{}")
            if event.get("event") != "ready":
                raise Problem(f"the switch did not start: {event.get('message', 'no answer')}")
            yield
        finally:
            process.stdin.close()
            process.wait(20)


def environment(path: Path) -> Path:
    """The folder of ptf's executables; makes the environment when it is not there."""
    if not (path / "bin" / "ptf").exists():
        print(f"making {path} with {', '.join(PACKAGES)}", file=sys.stderr)
        venv.create(path, with_pip=True)
        done = _run([str(path / "bin" / "pip"), "install", "-q", *PACKAGES])
        if done.returncode:
            raise Problem(f"ptf cannot be installed: {done.stderr.strip()[-300:]}")
    for package in path.glob("lib/python*/site-packages/p4"):
        module = package / "tmp" / "p4config_pb2.py"
        if not module.exists():
            module.parent.mkdir(exist_ok=True)
            (module.parent / "__init__.py").touch()
            module.write_text(DEVICE_CONFIG)
    return path / "bin"


def compile_program(folder: Folder) -> None:
    """With this project's compiler, to where the tests look."""
    folder.config.parent.mkdir(parents=True, exist_ok=True)
    (folder.path / "logs").mkdir(exist_ok=True)  # the tutorials' client writes there
    words = [sys.executable, "-m", "compiler", str(folder.source), "-o", str(folder.config)]
    done = _run([*words, "--p4runtime-files", str(folder.p4info)], cwd=ROOT)
    if done.returncode:
        raise Problem(f"{folder.source} does not compile: {done.stderr.strip()[:300]}")


def _paths(folder: Folder, binaries: Path, extra: list[Path]) -> dict[str, str]:
    paths = [str(p) for p in (*extra, *folder.python_path, folder.tests)]
    return {**os.environ, "PYTHONPATH": ":".join(paths), "PATH": f"{binaries}:{os.environ['PATH']}"}


def run_folder(folder: Folder, binaries: Path, bmv2: str | None, extra: list[Path]) -> dict[str, str | None]:
    """Test name -> None when it passed, else why not. One switch for the folder, as its script starts one."""
    compile_program(folder)
    results: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory(prefix="xoff-ptf-") as name, namespace(folder):
        running = native(folder, Path(name) / "switch.log") if bmv2 is None else judge(folder, bmv2)
        with running:
            words = ["ip", "netns", "exec", NAMESPACE, str(binaries / "ptf")]
            for number, interface in folder.test_ports.items():
                words += ["-i", f"{number}@{interface}"]
            words += [f"--test-params={folder.parameters}", "--test-dir", str(folder.tests)]
            words += ["--log-file", str(Path(name) / "ptf.log")]
            environ = _paths(folder, binaries, extra)
            done = subprocess.run(
                words, capture_output=True, text=True, cwd=folder.path, env=environ, timeout=TIMEOUT_S
            )
        results = outcomes(done.stdout + "\n" + done.stderr)
    if not results:
        raise Problem(f"ptf ran no test: {(done.stderr or done.stdout).strip()[-400:]}")
    return results


def outcomes(text: str) -> dict[str, str | None]:
    """What ptf prints: a line `NAME ... ok` a test, and the tracebacks of those that failed."""
    results: dict[str, str | None] = {}
    pending = None
    for line in text.splitlines():
        if found := re.match(r"([\w.]+) \.\.\.\s*(.*)", line):
            pending = found.group(1)
            line = found.group(2)
        if pending is not None and (found := re.search(r"\b(ok|FAIL|ERROR|skipped)\b", line)):
            results[pending] = None if found.group(1) == "ok" else found.group(1)
            pending = None
    for kind, name, trace in re.findall(
        r"^(FAIL|ERROR): ([\w.]+)\n-+\n(.*?)(?=^={10}|^-{10}|\Z)", text, re.MULTILINE | re.DOTALL
    ):
        lines = [line for line in trace.strip().splitlines() if line.strip()]
        results[name] = f"{kind}: {lines[-1] if lines else ''}"[:400]
    return results


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="tests.ptf", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--ptf-environment", type=Path, default=cache_folder() / "ptf-environment")
    parser.add_argument("--python-path", action="append", default=[], type=Path, help="what tests import")
    parser.add_argument("--bmv2", help="simple_switch_grpc, to run the tests against that instead")
    chosen = parser.parse_args(arguments)
    if os.geteuid() != 0:
        print("PTF tests need root: they make a network namespace and packet sockets", file=sys.stderr)
        return 2
    passed = total = 0
    try:
        binaries = environment(chosen.ptf_environment.absolute())
        scripts = sorted(s.absolute() for f in chosen.folders for s in f.rglob(SCRIPT))
        if not scripts:
            raise Problem(f"there is no {SCRIPT} below {', '.join(map(str, chosen.folders))}")
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    for script in scripts:
        print(f"== {script.parent}", flush=True)
        try:
            results = run_folder(read(script), binaries, chosen.bmv2, chosen.python_path)
        except OtherTarget as reason:
            print(f"none  {script.parent.name}: {reason}", flush=True)
            continue
        except (Problem, subprocess.TimeoutExpired) as problem:
            print(f"FAIL  {script.parent.name}: {problem}", flush=True)
            total += 1
            continue
        for name, why in results.items():
            total += 1
            passed += why is None
            print(
                f"{'pass' if why is None else 'FAIL'}  {name}{'' if why is None else ': ' + why}", flush=True
            )
    print(f"{passed} of {total} tests passed")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main())
