"""`--use-files`: a switch whose ports are pcap files, in simulated time, without interfaces, root or threads.

Frames of all `NAME_in.pcap` enter in the order of their times (of equal ones the lower port first), each at its time
since the first of all; what leaves a port goes to `NAME_out.pcap` with the time its last bit is out. Nothing looks at
the wall clock, so the same files and entries give the same files.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import BinaryIO

from switch.device import DeviceSpec
from switch.native import pcap
from switch.native.bringup import StartError, all_ports, load_program, log_messages, new_engine
from switch.native.control.direct import DirectControl
from switch.native.control.service import ControlService
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.p4runtime.server import AddressError, P4RuntimeServer
from switch.native.p4runtime.tls import Tls, TlsError

TAIL_NS = 10**9
"""How long the switch runs on after the last frame or packet-out, ns of its time; a program may never come to rest."""
_BREATH = 256
"""Frames between two looks at P4Runtime requests."""


class FileSwitch(DirectControl):
    """One switch on files. It is what its control service controls."""

    def __init__(self, spec: DeviceSpec, log: Callable[[str], None]) -> None:
        """Raises StartError, BuildError."""
        ports = {port.number: port.interface for port in all_ports(spec)}
        super().__init__(spec.name, new_engine(spec), dict(sorted({**ports, spec.cpu_port: None}.items())))
        self.spec = spec
        self.address = spec.grpc_address
        self.frames_in = self.frames_out = 0
        self._log = log
        self._now = 0
        self._epoch = 0
        """Time of the first frame in the files, ns."""
        for port in all_ports(spec):
            self.engine.add_port(port.number, port.rate_bps, port.delay_ns)
        self._device = P4RuntimeDevice(spec.device_id, self.engine, wake=self.wake, clock=lambda: self._now)
        self._replication = self._device.replication
        self._server = P4RuntimeServer(self._device, [ControlService(self).handler()])
        self._out: dict[int, BinaryIO] = {}
        self._processing = False
        self._asked = False

    async def start(self, tls: Tls | None = None) -> str:
        """Open the files, load the program and listen; returns `host:port`. Raises StartError."""
        for port in self.spec.ports:
            self._device.port_changed(port.number, True)
            if port.interface is not None:
                for path in (Path(f"{port.interface}_in.pcap"), Path(f"{port.interface}_out.pcap")):
                    try:
                        if path.name.endswith("_out.pcap"):
                            self._out[port.number] = pcap.create(path)
                        else:
                            next(pcap.read(path), None)
                    except OSError as error:
                        raise StartError(f"--use-files: {path}: {error.strerror}") from error
                    except pcap.PcapError as error:
                        raise StartError(f"--use-files: {error}") from error
        await load_program(self.spec, self.engine, self._device)
        try:
            self.address = await self._server.start(self.spec.grpc_address, tls)
        except (AddressError, TlsError) as error:
            raise StartError(f"switch {self.spec.name}: {error}") from error
        return self.address

    async def process(self) -> None:
        """Take every frame of the files through the switch. Raises StartError when a file is broken."""
        self._processing = True
        try:
            for time, _, port, frame in self._frames():
                if not self.frames_in:
                    self._epoch = time - self._now
                self._advance(time - self._epoch - 1)  # arrivals come before transmissions that start then
                self._now = max(self._now, time - self._epoch)
                self.engine.rx(port, frame, self._now)
                self.frames_in += 1
                if self.frames_in % _BREATH == 0:
                    self._report()
                    await asyncio.sleep(0)
        except (OSError, pcap.PcapError) as error:
            raise StartError(f"--use-files: {error}") from error
        finally:
            self._processing = False
        self._settle()

    async def close(self) -> None:
        """Stop serving and close the files."""
        await self._server.stop()
        await self._device.settle()
        self._device.close()
        self.engine.close()
        for file in self._out.values():
            file.close()

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """(time, number in its file, port, frame) in order of time."""
        sources = []
        for port in sorted(self.spec.ports, key=lambda port: port.number):
            if port.interface is not None:
                sources.append(_numbered(Path(f"{port.interface}_in.pcap"), port.number))
        return heapq.merge(*sources, key=lambda item: item[0])

    def _advance(self, until: int) -> None:
        while (deadline := self.engine.next_deadline()) is not None and deadline <= until:
            self._now = max(self._now, deadline)
            for time, port, frame in self.engine.poll_timed(deadline):
                file = self._out.get(port)
                if file is not None:
                    pcap.write(file, frame, self._epoch + time)
                    self.frames_out += 1

    def _settle(self) -> None:
        """Let everything that is on its way arrive."""
        self._asked = False
        if self._processing:
            return
        self._advance(self._now + TAIL_NS)
        self._report()
        for file in self._out.values():
            file.flush()

    def _report(self) -> None:
        pending = self.engine.pending()
        self._device.drain(pending)
        if "pause" in pending:
            self.engine.take_pause_events()
        if "log" in pending:
            log_messages(self.spec, self.engine, self._log)

    # ---- what the control service needs, beside DirectControl ----
    def set_up(self, port: int, up: bool) -> None:
        """Administrative state."""
        super().set_up(port, up)
        self._device.port_changed(port, up)

    def socket_drops(self) -> Mapping[int, Mapping[str, tuple[int, int]]]:
        """Frames for a controller that none took."""
        return {self.spec.cpu_port: {"packet_in": (self._device.packet_ins_dropped, 0)}}

    def exclusive(self) -> AbstractAsyncContextManager[object]:
        """Held while a call runs."""
        return self._device.lock

    def wake(self) -> None:
        """The engine was changed: a packet-out may be on its way."""
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._settle)

    def table_changed(self, table: str, timeout_of: tuple[int, int] | None = None) -> None:
        """P4Runtime takes over what was changed."""
        self._device.table_changed(table, timeout_of)

    def profile_changed(self, profile: str) -> None:
        """P4Runtime takes over what was changed."""
        self._device.profile_changed(profile)

    def meter_changed(self, meter: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """P4Runtime takes over what was changed."""
        self._device.meter_changed(meter, index, rates)


def _numbered(path: Path, port: int) -> Iterator[tuple[int, int, int, bytes]]:
    """A file's frames; one that claims to be earlier than the one before it comes right after it."""
    latest = 0
    for number, (time, frame) in enumerate(pcap.read(path)):
        latest = max(latest, time)
        yield latest, number, port, frame
