"""A control service's switch that is an engine and nothing around it: no host, no sockets, no restart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.control.controlled import ControlError
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.replication import Replication


class DirectControl:
    """`Controlled` for an engine. Who also serves P4Runtime overrides the last six methods."""

    def __init__(self, name: str, engine: Engine, ports: Mapping[int, str | None]) -> None:
        """`ports` are the numbers that the engine has, and what stands for each."""
        self.name = name
        self.engine = engine
        self.ports = ports
        self._replication = Replication(engine, PortMap(engine.cpu_port))
        self._lock = asyncio.Lock()

    def set_rate(self, port: int, rate_bps: int) -> None:
        """bit/s on wire bytes; 0 = unlimited."""
        self.engine.set_port_rate(port, rate_bps)

    def set_delay(self, port: int, delay_ns: int) -> None:
        """Propagation delay, ns."""
        self.engine.set_port_delay(port, delay_ns)

    def set_up(self, port: int, up: bool) -> None:
        """Administrative state."""
        self.engine.set_port_up(port, up)

    def add_port(self, port: int, interface: str) -> None:
        """Its ports are those it began with."""
        raise ControlError(
            f"interface {interface} cannot become port {port}: the ports of this switch are fixed"
        )

    def remove_port(self, port: int) -> None:
        """Its ports are those it began with."""
        raise ControlError(f"port {port} cannot be removed: the ports of this switch are fixed")

    def set_loss(self, port: int, directions: str, probability: float, every: int, seed: int) -> None:
        """Loss of `tx`, `rx` or `both`."""
        if directions not in ("tx", "rx", "both"):
            raise ControlError(f"a direction is tx, rx or both, not {directions!r}")
        for received in (False, True):
            if directions in ("both", "rx" if received else "tx"):
                self.engine.set_port_loss(port, probability, every, seed=seed, received=received)

    def set_queue(self, port: int | None, cls: int | None, **settings: float) -> None:
        """As `Engine.set_queue`."""
        self.engine.set_queue(port, cls, **settings)
        self.wake()

    def set_buffer(self, size: int) -> None:
        """As `Engine.set_buffer`."""
        self.engine.set_buffer(size)

    def socket_drops(self) -> Mapping[int, Mapping[str, tuple[int, int]]]:
        """There are no sockets."""
        return {}

    def exclusive(self) -> AbstractAsyncContextManager[object]:
        """Held while a call runs."""
        return self._lock

    def wake(self) -> None:
        """Whoever drives the engine looks when it likes."""

    def table_changed(self, table: str, timeout_of: tuple[int, int] | None = None) -> None:
        """There is no P4Runtime to tell."""

    def profile_changed(self, profile: str) -> None:
        """There is no P4Runtime to tell."""

    def meter_changed(self, meter: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """There is no P4Runtime to tell."""

    def write_copies(self, update: int, entry: p4r.PacketReplicationEngineEntry) -> None:
        """Insert, modify or delete a multicast group or clone session."""
        self._replication.write(update, entry)

    def read_copies(self, query: p4r.PacketReplicationEngineEntry) -> list[p4r.PacketReplicationEngineEntry]:
        """The groups or sessions asked for."""
        return list(self._replication.read(query))
