"""What a workload takes when nothing but the hosts' links limits it, and nccl-tests' bandwidths.

Closed forms (n ranks, S bytes, link B, latency a of one message): ring AllReduce 2(n-1)/n S/B + 2(n-1) a;
ReduceScatter, AllGather and All-to-All (n-1)/n S/B + (n-1) a (All-to-All posted at once: one a); incast N S/B + a;
permutation S/B + a. Broadcast down a binary tree is bounded by the 2 S/B of a rank with two children.
algbw = S / t, busbw = algbw * factor (nccl-tests doc/PERFORMANCE.md); GB is 10**9 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from switch.link import wire_bytes
from traffic.collectives.workload import Workload
from traffic.wire.headers import (
    BTH_BYTES,
    ETHERNET_BYTES,
    ICRC_BYTES,
    IPV4_BYTES,
    UDP_BYTES,
)

PACKET_HEADER_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES + ICRC_BYTES
"""What a packet of a long message carries beside its payload: 58."""


class Bandwidths(NamedTuple):
    """GB/s as nccl-tests prints them."""

    algbw: float
    busbw: float


def payload_share(mtu: int, extra_bytes: int = 0) -> float:
    """Largest share of a link that payload can have: MTU over the wire bytes of a full packet.

    `extra_bytes`: telemetry in every packet.
    """
    return mtu / wire_bytes(mtu + PACKET_HEADER_BYTES + extra_bytes)


def ideal_ns(workload: Workload, rate_bps: int, latency_ns: float = 0.0) -> float:
    """Completion time with every byte of the busiest host link being payload at `rate_bps`, fabric ns.

    `latency_ns` (a) is added for each of the workload's dependent steps. No real run reaches it: headers alone
    leave `payload_share`.
    """
    return workload.link_bytes * 8 * 1e9 / rate_bps + workload.steps * latency_ns


def bandwidths(workload: Workload, completion_ns: float) -> Bandwidths:
    """algbw and busbw of a run that took `completion_ns` fabric ns."""
    algbw = workload.bytes / completion_ns if completion_ns > 0 else 0.0
    return Bandwidths(algbw, algbw * workload.busbw_factor)
