"""DCQCN, the reaction point: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015.

A CNP cuts the current rate R_C by alpha / 2; without CNPs alpha decays every `alpha_interval_ns`, and R_C climbs back
towards the target R_T, driven by a timer (T rounds) and a byte counter (BC rounds): fast recovery while
max(T, BC) < F, hyper increase when min(T, BC) > F, additive increase otherwise. Implementations disagree about
the order of the steps on a CNP; `order` says which one runs:

0  paper, uet-htsim: R_T = R_C; R_C *= 1 - alpha/2; alpha = (1-g) alpha + g
1  ns3-rdma: alpha = (1-g) alpha + g; then R_T and R_C with the new alpha
2  HPCC's simulator, Mellanox NICs: the CNP only raises two flags. The alpha timer averages them in, and a timer of
   `decrease_interval_ns` cuts the rate at most once each time
"""

from __future__ import annotations

from collections.abc import Mapping

from traffic.nic.congestion.base import CongestionControl

_PAPER: dict[str, float] = {
    "cnp_interval_ns": 50_000,
    "alpha_interval_ns": 55_000,
    "increase_interval_ns": 55_000,
    "decrease_interval_ns": 0,
    "increase_bytes": 10_000_000,
    "fast_recovery_rounds": 5,
    "g": 1 / 256,
    "rai_bps": 40_000_000,
    "rhai_bps": 200_000_000,
    "rai_share": 0,
    "rhai_share": 0,
    "min_rate_bps": 40_000_000,
    "initial_alpha": 1,
    "clamp_target": 1,
    "hyper_grows": 1,
    "order": 0,
}
"""Figure 14 of the paper; R_HAI and the smallest rate, which it does not give, are ns3-rdma's sample and R_AI."""

_HPCC_REPO: dict[str, float] = {
    **_PAPER,
    "cnp_interval_ns": 0,
    "alpha_interval_ns": 1_000,
    "increase_interval_ns": 300_000,
    "decrease_interval_ns": 4_000,
    "increase_bytes": 0,
    "fast_recovery_rounds": 1,
    "rai_bps": 0,
    "rhai_bps": 0,
    "rai_share": 1 / 5_000,
    "rhai_share": 1 / 500,
    "min_rate_bps": 100_000_000,
    "clamp_target": 0,
    "hyper_grows": 0,
    "order": 2,
}
"""`run.py --cc dcqcn`: R_AI is 5 Mb/s per 25 Gb/s of link. Its receiver echoes every mark in an ACK; here every mark
gets a CNP instead."""


class Dcqcn(CongestionControl):
    """Rate and alpha of one flow. Parameters (fabric units before scaling):

    `cnp_interval_ns`       shortest time between CNPs of a flow (the receiver's side, NP)
    `alpha_interval_ns`     alpha decays this long after the last CNP or decay
    `increase_interval_ns`  period of the rate-increase timer
    `decrease_interval_ns`  order 2: period of the decrease check; orders 0 and 1: shortest time between two cuts
    `increase_bytes`        period of the byte counter, wire bytes; 0 = none
    `fast_recovery_rounds`  F
    `g`                     gain of alpha
    `rai_bps`, `rhai_bps`   additive and hyper increase; `rai_share`, `rhai_share` are added as a share of line rate
    `min_rate_bps`          the rate never falls below
    `initial_alpha`         alpha before the first CNP
    `clamp_target`          1: every cut sets R_T to R_C; 0: only the first since the last increase does
    `hyper_grows`           1: hyper increase adds i * R_HAI in its i-th round; 0: R_HAI in every round
    `order`                 see the file's head
    """

    presets = {  # noqa: RUF012
        "paper": _PAPER,
        "ns3-rdma": {
            **_PAPER,
            "increase_interval_ns": 1_500_000,
            "increase_bytes": 150_000,
            "g": 1 / 16,
            "rai_bps": 5_000_000,
            "rhai_bps": 50_000_000,
            "min_rate_bps": 100_000_000,
            "initial_alpha": 0.5,
            "clamp_target": 0,
            "order": 1,
        },
        "ns3-rdma-sample": {
            **_PAPER,
            "increase_interval_ns": 60_000,
            "increase_bytes": 300_000_000,
            "min_rate_bps": 100_000_000,
            "initial_alpha": 0.5,
            "order": 1,
        },
        "hpcc": _HPCC_REPO,
        "hpcc-paper": {
            **_HPCC_REPO,
            "alpha_interval_ns": 50_000,
            "increase_interval_ns": 55_000,
            "decrease_interval_ns": 50_000,
        },
        "uet-htsim": {
            **_PAPER,
            "rai_bps": 0,
            "rhai_bps": 0,
            "rai_share": 1 / 20,
            "rhai_share": 1 / 10,
        },
        "nvidia": {
            **_PAPER,
            "cnp_interval_ns": 4_000,
            "alpha_interval_ns": 1_000,
            "increase_interval_ns": 300_000,
            "decrease_interval_ns": 4_000,
            "increase_bytes": 32_767,
            "fast_recovery_rounds": 1,
            "g": 5 / 1024,
            "rai_bps": 5_000_000,
            "rhai_bps": 50_000_000,
            "min_rate_bps": 1_000_000,
            "initial_alpha": 1023 / 1024,
            "clamp_target": 0,
            "hyper_grows": 0,
            "order": 2,
        },
    }
    times = frozenset(
        {"cnp_interval_ns", "alpha_interval_ns", "increase_interval_ns", "decrease_interval_ns"}
    )
    rates = frozenset({"rai_bps", "rhai_bps", "min_rate_bps"})
    largest = {  # noqa: RUF012
        "g": 1, "initial_alpha": 1, "rai_share": 1, "rhai_share": 1, "clamp_target": 1, "hyper_grows": 1, "order": 2,
    }  # fmt: skip
    positive = frozenset({"min_rate_bps", "alpha_interval_ns", "increase_interval_ns"})
    uses_cnp = True

    def __init__(
        self, *, line_rate_bps: int, mtu: int, base_rtt_ns: int, parameters: Mapping[str, float]
    ) -> None:
        p = parameters
        self._line = float(line_rate_bps)
        self._alpha_interval = max(1, round(p["alpha_interval_ns"]))
        self._increase_interval = max(1, round(p["increase_interval_ns"]))
        self._decrease_interval = round(p["decrease_interval_ns"])
        self._increase_bytes = round(p["increase_bytes"])
        self._rounds = round(p["fast_recovery_rounds"])
        self._g = p["g"]
        self._rai = p["rai_bps"] + p["rai_share"] * line_rate_bps
        self._rhai = p["rhai_bps"] + p["rhai_share"] * line_rate_bps
        self._min = min(p["min_rate_bps"], self._line)
        self._clamp = bool(p["clamp_target"])
        self._hyper_grows = bool(p["hyper_grows"])
        self._order = round(p["order"])
        if self._order == 2:
            self._decrease_interval = max(1, self._decrease_interval)
        self.alpha = p["initial_alpha"]
        self.rate_bps = self._line
        self.target_bps = self._line
        self._active = False
        """A CNP has come; before it no timer runs."""
        self._climbing = False
        """Rate and target are not both at line rate."""
        self._alpha_due = 0
        self._increase_due = 0
        self._decrease_due = 0
        self._last_cut: int | None = None
        self._flag_alpha = False
        self._flag_decrease = False
        self._bytes = 0
        self._timer_rounds = 0
        self._byte_rounds = 0

    # -- events

    def advance(self, *, now: int) -> None:
        """Run the timers that are due, in their order."""
        if not self._active:
            return
        if self._flag_decrease or self._flag_alpha:
            self._advance_flags(now)
        if self._alpha_due <= now:
            expiries = (now - self._alpha_due) // self._alpha_interval + 1
            self.alpha = _decayed(self.alpha, 1 - self._g, expiries)
            self._alpha_due += expiries * self._alpha_interval
        while self._climbing and self._increase_due <= now:
            self._timer_increase()

    def on_sent(self, *, now: int, wire_bytes: int) -> None:
        """Count towards the byte counter."""
        if not self._climbing or not self._increase_bytes:
            return
        self._bytes += wire_bytes
        while self._bytes >= self._increase_bytes:
            self._bytes -= self._increase_bytes
            self._byte_rounds += 1
            self._increase()

    def on_cnp(self, *, now: int) -> None:
        """Cut the rate, or with order 2 note that it has to be cut."""
        self.advance(now=now)
        if self._order == 2:
            if not self._active:
                self._active = True
                self._alpha_due = now + self._alpha_interval
                self._decrease_due = now + self._decrease_interval
            elif not self._flag_decrease and self._decrease_due <= now:
                missed = (now - self._decrease_due) // self._decrease_interval + 1
                self._decrease_due += missed * self._decrease_interval
            self._flag_alpha = self._flag_decrease = True
            return
        self._active = True
        if (
            self._last_cut is not None
            and self._decrease_interval
            and now - self._last_cut < self._decrease_interval
        ):
            return
        self._last_cut = now
        if self._order == 1:
            self.alpha = (1 - self._g) * self.alpha + self._g
        self._cut(now)
        if self._order == 0:
            self.alpha = (1 - self._g) * self.alpha + self._g
        self._alpha_due = now + self._alpha_interval

    # -- steps

    def _advance_flags(self, now: int) -> None:
        """Order 2: the timers' first ticks after a CNP, which must not overtake one another."""
        while self._flag_alpha or self._flag_decrease:
            due = min(
                self._alpha_due,
                self._decrease_due if self._flag_decrease else now + 1,
                self._increase_due if self._climbing else now + 1,
            )
            if due > now:
                return
            if due == self._alpha_due:
                gain = self._g if self._flag_alpha else 0.0
                self.alpha = (1 - self._g) * self.alpha + gain
                self._flag_alpha = False
                self._alpha_due += self._alpha_interval
            elif self._flag_decrease and due == self._decrease_due:
                self._flag_decrease = False
                self._decrease_due += self._decrease_interval
                self._cut(due)
            else:
                self._timer_increase()

    def _cut(self, now: int) -> None:
        if self._clamp or not self._climbing or self._timer_rounds or self._byte_rounds:
            self.target_bps = self.rate_bps
        self.rate_bps = max(self._min, self.rate_bps * (1 - self.alpha / 2))
        self._climbing = True
        self._increase_due = now + self._increase_interval
        self._bytes = 0
        self._timer_rounds = 0
        self._byte_rounds = 0

    def _timer_increase(self) -> None:
        self._increase_due += self._increase_interval
        self._timer_rounds += 1
        self._increase()

    def _increase(self) -> None:
        most = max(self._timer_rounds, self._byte_rounds)
        least = min(self._timer_rounds, self._byte_rounds)
        if not self._increase_bytes:
            least = most  # without a byte counter the timer alone leads through the stages (HPCC)
        if least > self._rounds:
            self.target_bps += self._rhai * (least - self._rounds if self._hyper_grows else 1)
        elif most >= self._rounds:
            self.target_bps += self._rai
        self.target_bps = min(self.target_bps, self._line)
        self.rate_bps = (self.rate_bps + self.target_bps) / 2
        if self.target_bps == self._line and self._line - self.rate_bps < 1:
            self.rate_bps = self._line
            self._climbing = False


def _decayed(value: float, factor: float, times: int) -> float:
    """value * factor ** times by multiplication alone, so that every machine gets the same bits."""
    while times:
        if times & 1:
            value *= factor
        factor *= factor
        times >>= 1
    return value
