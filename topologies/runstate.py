"""What a run has made on this machine, written down before it is made, so that nothing else is ever removed.

One file a run, `/run/xoff/<run>.json`: the process that owns the run, the processes it started (each with its
start time, because process numbers are used again), its interface group and names, its network namespaces.
Everything a run starts inherits the environment variable `XOFF_RUN`, by which its processes are known even when the run
died before it could write them down.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STATE_FOLDER = Path("/run/xoff")
MARKER = "XOFF_RUN"
GRACE_S = 2.0
"""Time between asking a process to end and ending it."""
TAG_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass
class RunState:
    """The state file of one run. Every change is on disk before the method returns."""

    run: str
    tag: str
    """Three characters, unique among runs, that start the names of the run's interfaces."""
    group: int
    """Number of the interface group (`ip link … group`) that holds the run's interfaces in the root namespace."""
    owner: tuple[int, int]
    """(pid, start time) of the process that owns the run."""
    boot: str
    interfaces: list[str] = field(default_factory=list)
    processes: list[tuple[int, int]] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    """Network namespaces as `host=net:[inode]`, for the reader; they go with the processes in them."""
    folder: Path = STATE_FOLDER

    @staticmethod
    def create(run: str | None = None, folder: Path = STATE_FOLDER) -> RunState:
        """Claim a run. `run` names it (letters, digits, `-`, `_`, `.`); None takes one from clock and chance.

        Raises FileExistsError when a run of that name has a state file, PermissionError when not root.
        """
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        taken = {state.tag for state in _states(folder)}
        tag = _new_tag(taken)
        name = run or f"{time.strftime('%Y%m%d-%H%M%S')}-{tag}"
        if not name or name.startswith(".") or any(not (c.isalnum() or c in "-_.") for c in name):
            raise ValueError(f"run name {name!r} is not accepted; letters, digits, '-', '_' and '.' are")
        state = RunState(
            run=name,
            tag=tag,
            group=secrets.randbelow(2**30) + 2**20,
            owner=(os.getpid(), start_time(os.getpid()) or 0),
            boot=_boot_id(),
            folder=folder,
        )
        # The file claims the name: of two runs of one name, one fails here.
        with state.path.open("x", encoding="utf-8") as file:
            file.write(state._text())
        return state

    @property
    def path(self) -> Path:
        """The state file."""
        return self.folder / f"{self.run}.json"

    def environment(self) -> dict[str, str]:
        """The environment for a process of this run."""
        return {**os.environ, MARKER: self.run}

    def record(
        self, interfaces: Iterable[str] = (), processes: Iterable[int] = (), namespaces: Iterable[str] = ()
    ) -> None:
        """Write down interfaces (before they are made), processes and namespaces of the run."""
        self.interfaces += interfaces
        self.processes += [(pid, begun) for pid in processes if (begun := start_time(pid)) is not None]
        self.namespaces += namespaces
        partial = self.path.with_suffix(".new")
        partial.write_text(self._text(), encoding="utf-8")
        partial.replace(self.path)

    def owner_is_alive(self) -> bool:
        """The process that made the run still runs."""
        return self.boot == _boot_id() and start_time(self.owner[0]) == self.owner[1]

    def clear(self) -> list[str]:
        """End the run's processes (but the caller), remove interfaces and state file; sentences on what went."""
        done: list[str] = []
        if self.boot == _boot_id():
            known = {pid for pid, begun in self.processes if start_time(pid) == begun}
            ended = end_processes((known | marked_processes(self.run)) - {os.getpid()})
            if ended:
                done.append(f"{self.run}: ended {len(ended)} processes")
            removed = delete_interface_group(self.group)
            if removed:
                done.append(f"{self.run}: removed {removed} interfaces")
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".new").unlink(missing_ok=True)
        return done

    def _text(self) -> str:
        return json.dumps(
            {
                "run": self.run,
                "tag": self.tag,
                "group": self.group,
                "owner": self.owner,
                "boot": self.boot,
                "interfaces": self.interfaces,
                "processes": self.processes,
                "namespaces": self.namespaces,
            },
            indent=1,
        )

    @staticmethod
    def read(path: Path) -> RunState:
        """Read a state file. Raises ValueError, with a sentence, for a file that is none."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return RunState(
                run=str(data["run"]),
                tag=str(data["tag"]),
                group=int(data["group"]),
                owner=_pid_pair(data["owner"]),
                boot=str(data["boot"]),
                interfaces=[str(name) for name in data["interfaces"]],
                processes=[_pid_pair(pair) for pair in data["processes"]],
                namespaces=[str(name) for name in data["namespaces"]],
                folder=path.parent,
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no state file of a run: {error}") from None


def read_states(folder: Path = STATE_FOLDER) -> tuple[list[RunState], list[str]]:
    """All runs that have a state file, and a sentence for each file that cannot be read."""
    found: list[RunState] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(RunState.read(path))
        except ValueError as error:
            problems.append(str(error))
    return found, problems


def clean(folder: Path = STATE_FOLDER, running_too: bool = False) -> list[str]:
    """Clear what runs that died left behind; sentences on what was done.

    A run whose owner still lives is left alone, unless `running_too`.
    """
    states, done = read_states(folder)
    for state in states:
        if state.owner_is_alive() and not running_too:
            done.append(f"{state.run}: still running (process {state.owner[0]}), left alone")
            continue
        if state.owner_is_alive() and state.owner[0] != os.getpid():
            end_processes({state.owner[0]})
        done += state.clear() or [f"{state.run}: nothing was left"]
    return done


def start_time(pid: int) -> int | None:
    """When a process began, in kernel ticks since boot; None when it is gone (or a zombie)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def marked_processes(run: str) -> set[int]:
    """Processes that carry the run's marker in the environment they were started with."""
    needle = f"{MARKER}={run}".encode()
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if needle in variables:
                found.add(int(entry.name))
    return found


def end_processes(pids: Iterable[int], grace_s: float = GRACE_S) -> set[int]:
    """End processes: asked (SIGTERM, and SIGHUP for shells), after `grace_s` killed. Returns those that were there."""
    open_fds: dict[int, int] = {}
    for pid in pids:
        try:
            open_fds[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
    try:
        for signals, patience in (((signal.SIGTERM, signal.SIGHUP), grace_s), ((signal.SIGKILL,), GRACE_S)):
            waiting = _signal_and_wait(open_fds, signals, patience)
            if not waiting:
                break
    finally:
        for descriptor in open_fds.values():
            os.close(descriptor)
    return set(open_fds)


def delete_interface_group(group: int) -> int:
    """Delete the interfaces of a group in this namespace, all at once; how many there were."""
    if group == 0:
        raise ValueError("group 0 holds every interface that was never put into a group")
    members = group_members(group)
    if members:
        run_ip(["link", "delete", "group", str(group)])
    return len(members)


def group_members(group: int) -> list[str]:
    """Names of the interfaces in a group, in this namespace."""
    # Not from /sys/class/net, which shows the namespace that /sys was mounted in.
    shown = run_ip(["-oneline", "link", "show", "group", str(group)])
    return sorted(line.split(": ")[1].partition("@")[0] for line in shown.splitlines())


def run_ip(arguments: list[str], batch: str | None = None) -> str:
    """Run `ip` and return what it prints; RuntimeError with its words when it fails or is not installed."""
    try:
        done = subprocess.run(["ip", *arguments], input=batch, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        raise RuntimeError(
            "the command `ip` is not installed (Debian and Ubuntu: apt-get install iproute2)"
        ) from None
    if done.returncode:
        told = "; ".join(line.strip() for line in done.stderr.splitlines() if line.strip())
        raise RuntimeError(f"ip {' '.join(arguments)}: {told or f'exit code {done.returncode}'}")
    return done.stdout


def _signal_and_wait(
    descriptors: dict[int, int], signals: tuple[signal.Signals, ...], patience_s: float
) -> bool:
    """Send the signals, wait for the ends; True when some process is still there after `patience_s`."""
    poll = select.poll()
    waiting: set[int] = set()
    for descriptor in descriptors.values():
        try:
            for number in signals:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            continue
        poll.register(descriptor, select.POLLIN)
        waiting.add(descriptor)
    deadline = time.monotonic() + patience_s
    while waiting:
        left = deadline - time.monotonic()
        if left <= 0:
            return True
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            waiting.discard(descriptor)
    return False


def _states(folder: Path) -> list[RunState]:
    return read_states(folder)[0]


def _new_tag(taken: set[str]) -> str:
    while True:
        tag = "x" + "".join(secrets.choice(TAG_ALPHABET) for _ in range(2))
        if tag not in taken and not any(name.startswith(f"{tag}-") for _, name in socket.if_nameindex()):
            return tag


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_pair(value: Any) -> tuple[int, int]:
    pid, begun = value
    return int(pid), int(begun)
