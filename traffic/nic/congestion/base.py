"""What a congestion control is: a few events with explicit times, a rate and a window.

Rules of the plug-ins. They own no timer: `advance` is called with the time before the rate is read, and whatever
timers would have run by then are applied in their order, which is exact because only the rate at the moments of
sending is ever seen. All times are ns and all rates bit/s of the driving clock; parameters come in
already scaled. Rates count wire bytes (`switch.link.wire_bytes`), windows count payload bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from traffic.wire.telemetry import HopTelemetry


class CongestionControl(ABC):
    """One flow's sender (the reaction point)."""

    presets: ClassVar[Mapping[str, Mapping[str, float]]] = {"default": {}}
    """Named parameter sets in fabric units; the first is the default."""
    times: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are times (multiplied by the time scale)."""
    rates: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are rates (divided by the time scale)."""
    largest: ClassVar[Mapping[str, float]] = {}
    """Largest accepted value of shares, probabilities and choices. Every parameter is a finite number from 0 on."""
    positive: ClassVar[frozenset[str]] = frozenset()
    """Parameters that must be above 0."""
    uses_cnp: ClassVar[bool] = False
    """CE marks at the receiver are answered with CNPs."""
    uses_telemetry: ClassVar[bool] = False
    """ACKs bring INT."""
    uses_echo: ClassVar[bool] = False
    """Every packet has an ACK of its own, which says whether it was marked."""

    rate_bps: float
    """Pace at which packets may start, bit/s."""
    window_bytes: int | None = None
    """Payload bytes that may be unacknowledged; None = no limit."""

    @abstractmethod
    def __init__(
        self, *, line_rate_bps: int, mtu: int, base_rtt_ns: int, parameters: Mapping[str, float]
    ) -> None: ...

    def advance(self, *, now: int) -> None:  # noqa: B027
        """Time has reached `now`: run the timers due by then. Called before `rate_bps` is read."""

    def on_sent(self, *, now: int, wire_bytes: int) -> None:  # noqa: B027
        """A data packet starts on the link."""

    def on_ack(  # noqa: B027
        self,
        *,
        now: int,
        acked_bytes: int,
        acked_psn: int,
        next_psn: int,
        rtt_ns: int | None,
        telemetry: Sequence[HopTelemetry],
    ) -> None:
        """Everything before `acked_psn` has arrived; `next_psn` is the next to be sent (both count on without
        wrapping). `rtt_ns` is a fresh sample or None; `telemetry` lists hops in path order."""

    def on_cnp(self, *, now: int) -> None:  # noqa: B027
        """The receiver saw congestion."""

    def on_echo(self, *, now: int, marked: bool) -> None:  # noqa: B027
        """Where every packet has an ACK of its own: one came, with the word whether the packet was marked."""

    def on_loss(self, *, now: int) -> None:  # noqa: B027
        """A NAK or a timeout says that a packet was lost."""
