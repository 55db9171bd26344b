"""One native switch running fabric.p4 in virtual time: frames in, frames out, nothing else moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import finsy as fy
from finsy.proto import p4r

from controller import device as controller_device
from controller.counters import cells
from controller.device import OUT_START_TIMER
from controller.intent import SwitchIntent
from controller.reconcile import updates
from switch.device import CPU_PORT, LOOP_PORT, TIMER_PORT
from switch.link import wire_bytes
from switch.native.binding import Engine
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.program import Program
from topologies.plan import FabricPlan

NS = 10**9
TIMER_FRAME_BYTES = 60


class Out(NamedTuple):
    """A frame whose last bit reached the far end of `port` at `time` (ns)."""

    time: int
    port: int
    frame: bytes


@dataclass(frozen=True)
class Built:
    """fabric.p4 compiled."""

    json: Path
    p4info: Path

    def program(self) -> Program:
        """As the engine loads it."""
        return Program.from_text(self.json.read_text(), self.p4info.read_text())

    def schema(self) -> fy.P4Schema:
        """As the controller sees it."""
        return fy.P4Schema(self.p4info, self.json)


class NativeSwitch:
    """A native switch programmed by what the controller would write for the first switch of a plan."""

    def __init__(
        self,
        built: Built,
        plan: FabricPlan,
        *,
        timestamp_hz: int = NS,
        timer_hz: float = 0.0,
        delay_ns: int = 0,
        seed: int = 1,
        name: str | None = None,
    ) -> None:
        self.now = 0
        self.out: list[Out] = []
        self._schema = built.schema()
        switch = plan.switch(name) if name else plan.switches[0]
        self.intent = SwitchIntent.of_plan(plan, switch, timestamp_hz)
        self.engine = Engine(
            built.program(), device_id=switch.device_id, timestamp_hz=timestamp_hz, seed=seed
        )
        for port in switch.ports:
            self.engine.add_port(port.number, plan.wall_rate(port.rate_bps), delay_ns)
        self.engine.add_port(LOOP_PORT)
        if timer_hz:
            self.engine.add_port(TIMER_PORT, round(wire_bytes(TIMER_FRAME_BYTES) * 8 * timer_hz))
        self._device = P4RuntimeDevice(
            switch.device_id, self.engine, wake=lambda: None, clock=lambda: self.now
        )
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._device.load(self._schema.get_pipeline_config()))
        self._desired: list[p4r.Entity] = []
        self.program(self.intent)
        if timer_hz:
            self.packet_out(bytes(48), operation=OUT_START_TIMER)

    def program(self, intent: SwitchIntent) -> None:
        """Make the switch hold `intent`, as the controller does it."""
        desired = fy.p4entity.encode_entities(controller_device.entities(intent), self._schema)
        request = p4r.WriteRequest(device_id=intent.switch.device_id, updates=updates(self._desired, desired))
        self._loop.run_until_complete(self._device.write(request))
        self._desired = desired
        self.intent = intent

    def packet_out(self, payload: bytes, *, port: int = 0, cls: int = 0, operation: int = 0) -> None:
        """A packet-out as the P4Runtime server hands it to the engine."""
        header = (port << 7 | cls << 4 | operation).to_bytes(2, "big")
        self.engine.rx(CPU_PORT, header + payload, self.now)
        self._poll()

    def send(self, port: int, frame: bytes, at: int | None = None) -> None:
        """The frame's last bit arrives on `port` at time `at` (now if not given)."""
        if at is not None:
            self.run(at)
        self.engine.rx(port, frame.ljust(60, b"\0"), self.now)
        self._poll()

    def run(self, until: int) -> None:
        """Advance to `until`, event by event."""
        while (deadline := self.engine.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self._poll()
        self.now = max(self.now, until)
        self._poll()

    def drain(self, limit: int = 10 * NS) -> None:
        """Advance until nothing is pending, at most `limit` ns (a paused queue or a timer never ends by itself)."""
        end = self.now + limit
        while (deadline := self.engine.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self._poll()

    def _poll(self) -> None:
        self.out += [Out(time, port, frame) for time, port, frame in self.engine.poll_timed(self.now)]

    def take(self, port: int | None = None) -> list[Out]:
        """Frames that left since the last call, of one port or all; those of other ports stay."""
        taken = [out for out in self.out if port is None or out.port == port]
        self.out = [out for out in self.out if not (port is None or out.port == port)]
        return taken

    def reports(self) -> list[bytes]:
        """Packet-ins since the last call, with their packet-in header."""
        return [frame for _, frame in self.engine.take_cpu_frames()]

    def count(self, name: str, port: int = -1, cls: int = -1) -> int:
        """Packets of a counter or drop reason, by the name that records have."""
        for cell in cells(self.intent):
            if (cell.name, cell.port, cell.cls) == (name, port, cls):
                return self.engine.counter_read(cell.counter, cell.cell)[0]
        raise KeyError((name, port, cls))

    def drops(self) -> dict[tuple[str, int, int], int]:
        """Every P4 drop counter above 0: (reason, port, class) to packets."""
        return {
            (cell.name, cell.port, cell.cls): packets
            for cell in cells(self.intent)
            if cell.drop and (packets := self.engine.counter_read(cell.counter, cell.cell)[0])
        }

    def held(self, port: int, cls: int) -> int:
        """Bytes held for an ingress port and class."""
        return self.engine.register_read("held_bytes", port * 8 + cls)

    def queued(self, port: int, cls: int) -> int:
        """Bytes in an egress queue by the program's count."""
        return self.engine.register_read("queue_bytes", port * 8 + cls)

    def close(self) -> None:
        """Free the engine."""
        self._device.close()
        self.engine.close()
        self._loop.close()


def frames_of(outs: Sequence[Out]) -> list[bytes]:
    """Just the frames."""
    return [out.frame for out in outs]


def ports_of(outs: Iterable[Out]) -> list[int]:
    """Just the ports."""
    return [out.port for out in outs]
