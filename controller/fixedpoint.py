"""Fixed-point numbers of the P4 program: ticks of its clock with 24 fraction bits, and RED's slope.

The program's clock ticks `timestamp_hz` times a second; link rates are those of the running clock
(`FabricPlan.wall_rate`).
"""

from __future__ import annotations

from switch.link import PFC_QUANTUM_BITS
from topologies.plan import ClassPolicy

FRACTION_BITS = 24
_PAUSE_TICKS_BITS = 48
_BYTE_TICKS_BITS = 40
_SLOPE_BITS = 48


class FixedPointError(ValueError):
    """A rate or policy cannot be expressed in the program's number formats."""


def pause_ticks(rate_bps: int, timestamp_hz: int) -> int:
    """Clock ticks per pause quantum (512 bit times) at `rate_bps`, 24 fraction bits, rounded down.

    The program rounds the product up, so a pause is never short, and exact where it is a whole number of ticks.
    """
    return _ticks(PFC_QUANTUM_BITS, rate_bps, timestamp_hz, _PAUSE_TICKS_BITS)


def byte_ticks(rate_bps: int, timestamp_hz: int) -> int:
    """Clock ticks that a byte occupies a link of `rate_bps`, 24 fraction bits, rounded down."""
    return _ticks(8, rate_bps, timestamp_hz, _BYTE_TICKS_BITS)


def _ticks(bits: int, rate_bps: int, timestamp_hz: int, width: int) -> int:
    ticks = (bits * timestamp_hz << FRACTION_BITS) // rate_bps
    if ticks >= 1 << width:
        raise FixedPointError(
            f"a link of {rate_bps} bit/s is too slow for a clock of {timestamp_hz} Hz: {bits} bit times must be fewer "
            f"than {1 << (width - FRACTION_BITS)} ticks"
        )
    return ticks


def red_slope(policy: ClassPolicy) -> int:
    """Marking probability per byte above Kmin in units of 2^-40 (p4src/ecn.p4); 0 where Kmin = Kmax (a step)."""
    span = policy.ecn_kmax_bytes - policy.ecn_kmin_bytes
    if span < 0 or not 0.0 <= policy.ecn_pmax <= 1.0:
        raise FixedPointError(
            f"ECN needs kmin <= kmax and 0 <= pmax <= 1, not kmin {policy.ecn_kmin_bytes}, kmax "
            f"{policy.ecn_kmax_bytes}, pmax {policy.ecn_pmax}"
        )
    if span == 0:
        return 0
    return min(int(policy.ecn_pmax * (1 << 40)) // span, (1 << _SLOPE_BITS) - 1)
