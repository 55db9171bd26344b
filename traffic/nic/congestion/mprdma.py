"""MP-RDMA's window: Lu et al., "Multi-Path Transport for RDMA in Datacenters", NSDI 2018, section 3.1.

One window for all paths of a flow. Every packet is answered on its own: an answer without a mark lets the window grow
by 1 / window packets, one with a mark takes half a packet from it, so that a path that is full costs no more than its
share of the flow. On a loss the window gives up one packet, as in the REPS paper (arXiv 2407.21625, section 4.1). The
rate is the line's: answers clock the packets out.
"""

from __future__ import annotations

from collections.abc import Mapping

from traffic.nic.congestion.base import CongestionControl


class MpRdma(CongestionControl):
    """Window of one flow. Parameters:

    `initial_bdp`         first window, in bandwidth-delay products of the base RTT
    `max_bdp`             the window never grows beyond
    `increase_packets`    growth while no packet is marked, packets a round trip
    `decrease_packets`    lost per marked packet
    `loss_packets`        lost per NAK or timeout
    `min_packets`         the window never falls below
    """

    presets = {  # noqa: RUF012
        "uet-htsim": {
            "initial_bdp": 1.5,
            "max_bdp": 1.5,
            "increase_packets": 1.0,
            "decrease_packets": 0.5,
            "loss_packets": 1.0,
            "min_packets": 1.0,
        },
    }
    """Steps: the paper. First and largest window, which it leaves open: uet-htsim `uec.cpp`."""
    positive = frozenset({"initial_bdp", "max_bdp", "min_packets"})
    uses_echo = True

    def __init__(
        self, *, line_rate_bps: int, mtu: int, base_rtt_ns: int, parameters: Mapping[str, float]
    ) -> None:
        self.rate_bps = line_rate_bps
        self._mtu = float(mtu)
        product = float(line_rate_bps) * float(max(1, base_rtt_ns)) / 8e9
        self._smallest = parameters["min_packets"] * mtu
        self._largest = max(self._smallest, parameters["max_bdp"] * product)
        self._growth = parameters["increase_packets"] * mtu * mtu
        self._cut = parameters["decrease_packets"] * mtu
        self._loss = parameters["loss_packets"] * mtu
        self._window = min(self._largest, max(self._smallest, parameters["initial_bdp"] * product))
        self.window_bytes: int = round(self._window)

    def on_echo(self, *, now: int, marked: bool) -> None:
        """A packet has arrived."""
        self._set(self._window - self._cut if marked else self._window + self._growth / self._window)

    def on_loss(self, *, now: int) -> None:
        """A packet has not."""
        self._set(self._window - self._loss)

    def _set(self, window: float) -> None:
        self._window = min(self._largest, max(self._smallest, window))
        self.window_bytes = round(self._window)
