"""Mininet switches that run P4: all native ones in one process, or one BMv2 process each.

    mn --custom switch/mininet_node.py --switch xoff,program=prog.json,p4info=prog.p4info.txtpb --controller none
    mn --custom switch/mininet_node.py --switch bmv2,program=prog.json --controller none

In a script: `Mininet(topo, switch=partial(NativeSwitch, program=…), controller=None)`. P4Runtime of switch N (its
dpid) listens on 127.0.0.1:(50050 + N), as in the p4lang tutorials.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def _make_importable() -> Path:
    """`mn --custom` executes this file without its package: find the package. Returns the project's folder."""
    here = Path(sys._getframe().f_code.co_filename).resolve().parent.parent
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    return here


_HERE = _make_importable()

from mininet.log import error, info  # noqa: E402
from mininet.node import Switch  # noqa: E402

from switch.bmv2 import Bmv2Error, Bmv2Options, Bmv2Switch, start_switches, stop_switches  # noqa: E402
from switch.device import PRIORITY_QUEUES, DeviceSpec, PortSpec  # noqa: E402
from switch.device_file import write_devices  # noqa: E402
from switch.offloads import disable_offloads  # noqa: E402

GRPC_BASE = 50050
"""P4Runtime port of switch N is GRPC_BASE + N."""


class P4Switch(Switch):
    """A switch that runs a BMv2 JSON program; what runs it is the subclass's business."""

    def __init__(
        self,
        name: str,
        program: str = "",
        p4info: str = "",
        grpc_port: int = 0,
        rate: int = 0,
        priority_queues: int = PRIORITY_QUEUES,
        **params: Any,
    ) -> None:
        """`program` and `p4info` are paths (empty: a controller will push them), `rate` is bit/s of every port."""
        super().__init__(name, **params)
        self.program = Path(program) if program else Path()
        self.p4info = Path(p4info) if p4info else Path()
        self.device_id = int(self.dpid, 16)
        self.grpc_port = int(grpc_port) or GRPC_BASE + self.device_id
        self.rate = int(rate)
        self.priority_queues = int(priority_queues)

    def device(self) -> DeviceSpec:
        """The switch as it is to be started, with the interfaces that Mininet has made."""
        ports = tuple(
            PortSpec(number, interface.name, self.rate)
            for number, interface in sorted(self.intfs.items())
            if interface.name != "lo"
        )
        return DeviceSpec(
            name=self.name,
            device_id=self.device_id,
            ports=ports,
            program_json=self.program.absolute() if self.program != Path() else self.program,
            p4info=self.p4info.absolute() if self.p4info != Path() else self.p4info,
            grpc_address=f"127.0.0.1:{self.grpc_port}",
            priority_queues=self.priority_queues,
        )

    def start(self, controllers: Iterable[Any]) -> None:
        """Switch off the offloads on its links; Mininet starts all switches of a class together (`batchStartup`)."""
        for interface in self.intfs.values():
            if interface.link:
                for end in (interface.link.intf1, interface.link.intf2):
                    namespace = f"{end.node.pid}/" if end.node.inNamespace else ""
                    disable_offloads(f"{namespace}{end.name}")

    def connected(self) -> bool:
        """Whether its process runs."""
        raise NotImplementedError


class NativeSwitch(P4Switch):
    """A native switch. All that Mininet starts together live in one process."""

    process: _NativeProcess | None = None

    @classmethod
    def batchStartup(cls, switches: Sequence[NativeSwitch]) -> Sequence[NativeSwitch]:
        """Start one process for all of them; returns those that run (Mininet's rule)."""
        try:
            process = _NativeProcess([switch.device() for switch in switches])
        except RuntimeError as problem:
            error(f"\n*** {problem}\n")
            return []
        for switch in switches:
            switch.process = process
        info(f"\n*** {len(switches)} native switches in process {process.child.pid}\n")
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[NativeSwitch]) -> Sequence[NativeSwitch]:
        """End their process."""
        for switch in switches:
            if switch.process is not None:
                switch.process.close()
                switch.process = None
        return switches

    def start(self, controllers: Iterable[Any]) -> None:
        """Restart it (`switch NAME start` in Mininet's CLI); the first start is `batchStartup`."""
        super().start(controllers)
        if self.process is not None:
            self.process.command(f"restart {self.name}")

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop this switch alone (`switch NAME stop`), or, after `batchShutdown`, only its interfaces."""
        if self.process is not None:
            self.process.command(f"kill {self.name}")
        super().stop(deleteIntfs)

    def connected(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.child.poll() is None


class RealBmv2Switch(P4Switch):
    """A simple_switch_grpc process (BMv2 must be installed)."""

    running: Bmv2Switch | None = None

    @classmethod
    def batchStartup(cls, switches: Sequence[RealBmv2Switch]) -> Sequence[RealBmv2Switch]:
        """Start a process for each and wait until they all answer."""
        log_dir = Path(tempfile.mkdtemp(prefix="xoff-mn-"))
        try:
            started = start_switches([switch.device() for switch in switches], Bmv2Options(log_dir=log_dir))
        except Bmv2Error as problem:
            error(f"\n*** {problem}\n")
            return []
        for switch in switches:
            switch.running = started[switch.name]
        info(f"\n*** BMv2 logs in {log_dir}\n")
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[RealBmv2Switch]) -> Sequence[RealBmv2Switch]:
        """End their processes."""
        stop_switches([switch.running for switch in switches if switch.running is not None])
        for switch in switches:
            switch.running = None
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:
        """End this switch."""
        if self.running is not None:
            self.running.stop()
            self.running = None
        super().stop(deleteIntfs)

    def connected(self) -> bool:
        """Whether its process runs."""
        return self.running is not None and self.running.process.poll() is None


class _NativeProcess:
    """One `python -m switch.native` with several switches; it ends when our end of its stdin closes."""

    def __init__(self, devices: Sequence[DeviceSpec]) -> None:
        """Raises RuntimeError with the process's own sentence when it does not come up."""
        self._folder = Path(tempfile.mkdtemp(prefix="xoff-mn-"))
        file = self._folder / "devices.json"
        write_devices(file, devices)
        python = _HERE / ".venv" / "bin" / "python"
        self.child = subprocess.Popen(
            [
                str(python) if python.exists() else sys.executable,
                *("-m", "switch.native", "--devices", str(file), "--stdin-lifeline"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "log").open("wb"),
            env={**os.environ, "PYTHONPATH": str(_HERE)},
            text=True,
            start_new_session=True,
        )
        event = self._read()
        if event.get("event") != "ready":
            self.close()
            raise RuntimeError(event.get("message", "the native switches did not start"))

    def command(self, line: str) -> None:
        """Send a command and wait for its answer."""
        assert self.child.stdin is not None
        try:
            print(line, file=self.child.stdin, flush=True)
            answer = self._read()
        except BrokenPipeError:
            answer = {}
        if not answer.get("ok"):
            error(f"*** {answer.get('message', 'the native switches have ended')}\n")

    def close(self) -> None:
        """End the process; harmless when it has ended."""
        if self.child.stdin is not None:
            self.child.stdin.close()
        self.child.wait()
        if self.child.stdout is not None:
            self.child.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> dict[str, Any]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            return {}
        event: dict[str, Any] = json.loads(line)
        return event


switches = {"xoff": NativeSwitch, "bmv2": RealBmv2Switch}
"""For `mn --custom`."""
