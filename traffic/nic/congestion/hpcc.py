"""HPCC: Li et al., "High Precision Congestion Control", SIGCOMM 2019, algorithm 1.

Every ACK brings what each switch on the path wrote into the packet. From two of them the sender works out the
utilisation of each link, u = min(q, q') / (B T) + txRate / B, keeps the largest, averages it over one base RTT, and
sets its window so that the bottleneck would run at `eta`. The reference window W_c moves once per round trip; in
between, every ACK reacts from the same W_c. The rate is W / T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traffic.nic.congestion.base import CongestionControl
from traffic.wire.telemetry import HopTelemetry

NS_PER_S = 1e9


class Hpcc(CongestionControl):
    """Window and rate of one flow. Parameters (fabric units before scaling):

    `eta`            target utilisation
    `max_stage`      additive rounds before the window follows the utilisation whatever it is
    `rai_bps`        W_AI / T; `rai_share` is added as a share of line rate
    `min_rate_bps`   the rate never falls below
    """

    presets = {  # noqa: RUF012
        "paper": {
            "eta": 0.95,
            "max_stage": 5,
            "rai_bps": 50_000_000,
            "rai_share": 0,
            "min_rate_bps": 100_000_000,
        },
        "hpcc-repo": {
            "eta": 0.95,
            "max_stage": 0,
            "rai_bps": 0,
            "rai_share": 1 / 2_500,
            "min_rate_bps": 100_000_000,
        },
    }
    rates = frozenset({"rai_bps", "min_rate_bps"})
    largest = dict.fromkeys(("eta", "rai_share"), 1.0)
    positive = frozenset({"eta", "min_rate_bps"})
    uses_telemetry = True

    def __init__(
        self, *, line_rate_bps: int, mtu: int, base_rtt_ns: int, parameters: Mapping[str, float]
    ) -> None:
        self._line = float(line_rate_bps)
        self._rtt = float(max(1, base_rtt_ns))
        self._eta = parameters["eta"]
        self._max_stage = round(parameters["max_stage"])
        bytes_per_bps = self._rtt / NS_PER_S / 8
        self._largest = self._line * bytes_per_bps
        self._smallest = min(parameters["min_rate_bps"], self._line) * bytes_per_bps
        self._wai = (parameters["rai_bps"] + parameters["rai_share"] * line_rate_bps) * bytes_per_bps
        self._reference = self._largest
        self._stage = 0
        self._update_psn = 0
        self._last: tuple[HopTelemetry, ...] = ()
        self.utilisation = 1.0
        """U, the averaged utilisation of the busiest link."""
        self.rate_bps = self._line
        self.window_bytes: int = max(1, round(self._largest))

    def on_ack(
        self,
        *,
        now: int,
        acked_bytes: int,
        acked_psn: int,
        next_psn: int,
        rtt_ns: int | None,
        telemetry: Sequence[HopTelemetry],
    ) -> None:
        """Measure, and set window and rate."""
        if not telemetry:
            return
        hops = tuple(telemetry)
        last, self._last = self._last, hops
        if len(last) != len(hops) or any(a.node_id != b.node_id for a, b in zip(last, hops)):  # noqa: B905
            self._update_psn = max(self._update_psn, next_psn)
            return
        if not self._measure(last, hops):
            return
        commit = acked_psn > self._update_psn
        window = self._computed(commit)
        if commit:
            self._update_psn = next_psn
            self._reference = window
        self.window_bytes = max(1, round(window))
        self.rate_bps = window / self._rtt * NS_PER_S * 8

    def _measure(self, last: Sequence[HopTelemetry], hops: Sequence[HopTelemetry]) -> bool:
        """Fold a sample into `utilisation`; False when no link was seen twice at different times."""
        busiest = -1.0
        elapsed = 0.0
        for before, after in zip(last, hops):  # noqa: B905
            interval = after.timestamp_ns - before.timestamp_ns
            sent_bytes = after.tx_bytes - before.tx_bytes
            if interval <= 0 or sent_bytes < 0 or after.rate_bps <= 0:
                continue
            sent = sent_bytes * 8 * NS_PER_S / interval
            capacity = after.rate_bps * self._rtt / NS_PER_S / 8
            link = min(after.queue_bytes, before.queue_bytes) / capacity + sent / after.rate_bps
            if link > busiest:
                busiest, elapsed = link, float(interval)
        if busiest < 0:
            return False
        share = min(elapsed, self._rtt) / self._rtt
        self.utilisation = self.utilisation * (1 - share) + busiest * share
        return True

    def _computed(self, commit: bool) -> float:
        ratio = self.utilisation / self._eta
        if ratio >= 1 or self._stage >= self._max_stage:
            window = self._reference / ratio + self._wai if ratio > 0 else self._largest
            stage = 0
        else:
            window = self._reference + self._wai
            stage = self._stage + 1
        if commit:
            self._stage = stage
        return min(self._largest, max(self._smallest, window))
