"""No congestion control: line rate, no window. What is left is PFC."""

from __future__ import annotations

from collections.abc import Mapping

from traffic.nic.congestion.base import CongestionControl


class LineRate(CongestionControl):
    """Always the link's rate."""

    def __init__(
        self, *, line_rate_bps: int, mtu: int, base_rtt_ns: int, parameters: Mapping[str, float]
    ) -> None:
        self.rate_bps = line_rate_bps
