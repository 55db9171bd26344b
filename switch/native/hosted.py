"""A switch of a host as the control service sees it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.bringup import StartError
from switch.native.control.controlled import ControlError
from switch.native.p4runtime.device import P4RuntimeDevice

if TYPE_CHECKING:
    from switch.native.node import Switch, SwitchHost


class Hosted:
    """`switch.native.control.controlled.Controlled` for one running switch of a `SwitchHost`."""

    def __init__(self, host: SwitchHost, switch: Switch, engine: Engine, device: P4RuntimeDevice) -> None:
        self._host = host
        self._switch = switch
        self._engine = engine
        self._device = device

    @property
    def name(self) -> str:
        """The switch's name."""
        return self._switch.spec.name

    @property
    def engine(self) -> Engine:
        """Its engine."""
        return self._engine

    @property
    def ports(self) -> Mapping[int, str | None]:
        """Port numbers and what interface each has."""
        return self._host.ports_of(self._switch)

    def set_rate(self, port: int, rate_bps: int) -> None:
        """bit/s on wire bytes; 0 = unlimited."""
        self._host.set_rate(self.name, port, rate_bps)

    def set_delay(self, port: int, delay_ns: int) -> None:
        """Propagation delay, ns."""
        self._host.set_delay(self.name, port, delay_ns)

    def set_up(self, port: int, up: bool) -> None:
        """Administrative state."""
        self._host.set_up(self.name, port, up)

    def add_port(self, port: int, interface: str) -> None:
        """Serve one more interface. Raises ControlError."""
        try:
            self._host.add_port(self.name, port, interface)
        except StartError as error:
            raise ControlError(str(error)) from error

    def remove_port(self, port: int) -> None:
        """Serve a port no more. Raises ControlError."""
        try:
            self._host.remove_port(self.name, port)
        except StartError as error:
            raise ControlError(str(error)) from error

    def set_loss(self, port: int, directions: str, probability: float, every: int, seed: int) -> None:
        """Loss of `tx`, `rx` or `both`."""
        if directions not in ("tx", "rx", "both"):
            raise ControlError(f"a direction is tx, rx or both, not {directions!r}")
        self._host.set_loss(self.name, port, directions, probability, every, seed)

    def set_queue(self, port: int | None, cls: int | None, **settings: float) -> None:
        """As `Engine.set_queue`."""
        self._host.set_queue(self.name, port, cls, **settings)

    def set_buffer(self, size: int) -> None:
        """As `Engine.set_buffer`."""
        self._host.set_buffer(self.name, size)

    def socket_drops(self) -> Mapping[int, Mapping[str, tuple[int, int]]]:
        """Port -> reason -> (packets, bytes) of frames lost between socket and engine."""
        return self._host.socket_drops(self._switch)

    def exclusive(self) -> AbstractAsyncContextManager[object]:
        """Held while a call runs."""
        return self._device.lock

    def wake(self) -> None:
        """The packet loop should look again."""
        self._host.wake(self._switch)

    def table_changed(self, table: str, timeout_of: tuple[int, int] | None = None) -> None:
        """P4Runtime takes over what was changed."""
        self._device.table_changed(table, timeout_of)

    def profile_changed(self, profile: str) -> None:
        """P4Runtime takes over what was changed."""
        self._device.profile_changed(profile)

    def meter_changed(self, meter: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """P4Runtime takes over what was changed."""
        self._device.meter_changed(meter, index, rates)

    def write_copies(self, update: int, entry: p4r.PacketReplicationEngineEntry) -> None:
        """Insert, modify or delete a multicast group or clone session."""
        self._device.replication.write(update, entry)

    def read_copies(self, query: p4r.PacketReplicationEngineEntry) -> list[p4r.PacketReplicationEngineEntry]:
        """The groups or sessions asked for."""
        return list(self._device.replication.read(query))
