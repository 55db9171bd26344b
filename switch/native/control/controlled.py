"""What the control service needs of a switch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from finsy.proto import p4r

from switch.native.binding import Engine


class ControlError(Exception):
    """A request cannot be followed; the message says why."""


class Controlled(Protocol):
    """One running switch. Changes last over its restart. Everything is called on the event loop's thread."""

    @property
    def name(self) -> str:
        """Its name in records and messages."""

    @property
    def engine(self) -> Engine:
        """Its engine."""

    @property
    def ports(self) -> Mapping[int, str | None]:
        """Port numbers and what interface each has."""

    def set_rate(self, port: int, rate_bps: int) -> None:
        """bit/s on wire bytes; 0 = unlimited. Raises ControlError, as the others, for a port that is not there."""

    def set_delay(self, port: int, delay_ns: int) -> None:
        """Propagation delay, ns."""

    def set_up(self, port: int, up: bool) -> None:
        """Administrative state."""

    def add_port(self, port: int, interface: str) -> None:
        """Serve one more interface."""

    def remove_port(self, port: int) -> None:
        """Serve a port no more."""

    def set_loss(self, port: int, directions: str, probability: float, every: int, seed: int) -> None:
        """Loss of `tx`, `rx` or `both`; see `Engine.set_port_loss`."""

    def set_queue(self, port: int | None, cls: int | None, **settings: float) -> None:
        """As `Engine.set_queue`."""

    def set_buffer(self, size: int) -> None:
        """As `Engine.set_buffer`."""

    def socket_drops(self) -> Mapping[int, Mapping[str, tuple[int, int]]]:
        """Port -> reason -> (packets, bytes) of frames lost between socket and engine."""

    def exclusive(self) -> AbstractAsyncContextManager[object]:
        """Held while a call runs: no program is being replaced meanwhile."""

    def wake(self) -> None:
        """The engine was changed: its packet loop should look again."""

    def table_changed(self, table: str, timeout_of: tuple[int, int] | None = None) -> None:
        """Entries or the default of a table were changed: P4Runtime must know. `timeout_of`: (handle, ns)."""

    def profile_changed(self, profile: str) -> None:
        """Members or groups were changed: P4Runtime must know."""

    def meter_changed(self, meter: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """A meter was configured: P4Runtime must know."""

    def write_copies(self, update: int, entry: p4r.PacketReplicationEngineEntry) -> None:
        """Insert, modify or delete a multicast group or clone session. Raises P4RuntimeError."""

    def read_copies(self, query: p4r.PacketReplicationEngineEntry) -> list[p4r.PacketReplicationEngineEntry]:
        """The groups or sessions asked for. Raises P4RuntimeError."""
