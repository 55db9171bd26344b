"""Default treatment of the traffic classes: PFC thresholds, headroom, ECN marking. Every number is named here.

Headroom is what may still arrive after a switch decides to pause its upstream: the frame it is sending before the
pause frame, the pause frame, the cable both ways, the upstream's reaction time, and the frame the upstream had begun.
It is the rule by which SONiC sizes its buffers (sonic-swss `cfgmgr/buffer_headroom_mellanox.lua`), without the terms
for gearboxes and cells that this switch does not have. Marking thresholds scale with the link rate as HPCC's
`run.py` scales them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from switch.link import PFC_QUANTUM_BITS, WIRE_OVERHEAD_BYTES
from topologies.fabric import TopologyError
from topologies.plan import ClassPolicy
from topologies.suggest import did_you_mean

LOSSLESS_CLASS = 3
"""RDMA data and its ACKs, DSCP 24."""
CNP_CLASS = 6
"""Congestion notifications, DSCP 48."""

ROCE_HEADER_BYTES = 14 + 4 + 20 + 8 + 12 + 16 + 4 + 4
"""Ethernet, VLAN tag, IPv4, UDP, BTH, RETH, immediate data, ICRC: the most a payload of one MTU carries along."""
INT_BYTES = 128
"""Room for telemetry that a frame may pick up on its way."""
PFC_FRAME_BYTES = 60
"""A PFC frame without FCS (IEEE 802.1Q clause 36, minimum frame)."""
XON_OFFSET_BYTES = 3072
"""XON lies this far below XOFF (HPCC `switch-mmu.cc`: resume offset 3 KB)."""
XOFF_TO_MARKS = 1.25
"""XOFF as a multiple of Kmin (Kmax, by preset): a queue fed by a single port is marked before that port is paused."""
LOSSY_QUEUE_BYTES = 1 << 20
"""Queue limit of a lossy class."""
MAX_QUANTA = 0xFFFF
MAX_BYTES = 2**32 - 1
"""Thresholds are 32-bit numbers in the P4 program."""

PEER_RESPONSE_QUANTA = (
    (400 * 10**9, 905),
    (200 * 10**9, 453),
    (100 * 10**9, 394),
    (50 * 10**9, 147),
    (40 * 10**9, 118),
    (25 * 10**9, 80),
    (10 * 10**9, 67),
    (10**9, 2),
    (10**8, 1),
)
"""Longest time from a pause frame's arrival to the end of transmission, in quanta, by link rate at least
(IEEE 802.3 clause 31B.3.7 as SONiC tabulates it)."""


@dataclass(frozen=True)
class EcnPreset:
    """RED thresholds at a reference rate; bytes scale with the rate when `scaled`."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float
    reference_bps: int
    scaled: bool = True
    pause_after_marks: bool = False
    """XOFF follows Kmax instead of Kmin: whoever is paused has been marked on every packet before."""


ECN_PRESETS = {
    "lab": EcnPreset(40_000, 160_000, 0.2, 100 * 10**9, scaled=False),
    "hpcc": EcnPreset(100_000, 400_000, 0.2, 25 * 10**9),
    "dctcp": EcnPreset(30_000, 30_000, 1.0, 10 * 10**9),
    "dcqcn-paper": EcnPreset(5_000, 200_000, 0.01, 40 * 10**9, scaled=False),
    "uec": EcnPreset(32_000, 128_000, 1.0, 100 * 10**9, pause_after_marks=True),
    "sonic": EcnPreset(1_048_576, 2_097_152, 0.05, 100 * 10**9, scaled=False),
    "off": EcnPreset(0, 0, 0.0, 1, scaled=False),
}
"""`lab`: the shape of `hpcc`'s curve at a tenth of its size at 100 Gb/s, so that messages of a few hundred kilobytes,
which a laptop moves in seconds, already meet marking and pausing. `hpcc` and `dctcp`: HPCC `run.py`;
`dcqcn-paper`: SIGCOMM 2015; `uec`: uet-htsim `main_uec.cpp` and REPS, 20 and 80 % of a bandwidth-delay product, for a
fat tree of 1 us links at 100 Gb/s (12.8 us); `sonic`: AZURE_LOSSLESS WRED profile."""


@dataclass(frozen=True)
class PolicyOptions:
    """What the default policies are computed from; every field can be overridden from an experiment."""

    lossless_classes: tuple[int, ...] = (LOSSLESS_CLASS,)
    pfc: bool = True
    """False leaves the lossless classes lossy: the queue limit drops."""
    ecn: str = "lab"
    """A name in `ECN_PRESETS`."""
    ecn_on_lossy: bool = False
    """Mark in the classes that PFC does not protect, too."""
    peer_response_quanta: int | None = None
    """Upstream reaction time in quanta of 512 bit times; None takes the table by rate."""
    extra_headroom_bytes: int = 0
    """Added for a host clock that wakes late (Mininet): bytes of the link rate times the lateness."""
    pause_quanta: int = MAX_QUANTA
    lossy_queue_bytes: int = LOSSY_QUEUE_BYTES


def frame_bytes(mtu: int) -> int:
    """Longest frame, as a packet socket sees it, that carries `mtu` payload bytes."""
    return mtu + ROCE_HEADER_BYTES + INT_BYTES


def peer_response_quanta(rate_bps: int) -> int:
    """Quanta by which the upstream must have stopped, for a link rate."""
    for least, quanta in PEER_RESPONSE_QUANTA:
        if rate_bps >= least:
            return quanta
    return 1


def bytes_on_cable(rate_bps: int, delay_ns: int) -> int:
    """Bytes that a link of this rate and one-way delay holds both ways together."""
    return math.ceil(2 * delay_ns * rate_bps / 8 / 10**9)


def headroom_bytes(rate_bps: int, delay_ns: int, mtu: int, options: PolicyOptions | None = None) -> int:
    """Bytes that may arrive after XOFF is decided, rounded up to 1 KiB, for one (ingress port, class).

    Two longest frames (ours in front of the pause frame, theirs already begun), the pause frame, the round trip
    on the cable and the upstream's reaction.
    """
    options = options or PolicyOptions()
    quanta = options.peer_response_quanta
    if quanta is None:
        quanta = peer_response_quanta(rate_bps)
    on_cable = bytes_on_cable(rate_bps, delay_ns)
    response = quanta * PFC_QUANTUM_BITS // 8
    frames = 2 * (frame_bytes(mtu) + WIRE_OVERHEAD_BYTES) + PFC_FRAME_BYTES + WIRE_OVERHEAD_BYTES
    return _up_to_kib(frames + on_cable + response + options.extra_headroom_bytes)


def default_policies(
    rate_bps: int,
    delay_ns: int,
    mtu: int,
    options: PolicyOptions | None = None,
    overrides: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[int, ClassPolicy]:
    """Policy per class: the lossless classes, then CNPs and everything else lossy.

    `overrides` replaces single fields of `ClassPolicy` by class. Raises TopologyError for an unknown preset,
    class or field, and for thresholds that contradict each other.
    """
    options = options or PolicyOptions()
    preset = ECN_PRESETS.get(options.ecn)
    if preset is None:
        raise TopologyError(
            f"ECN preset {options.ecn!r} is unknown{did_you_mean(options.ecn, ECN_PRESETS)}; "
            f"accepted: {', '.join(ECN_PRESETS)}"
        )
    factor = rate_bps / preset.reference_bps if preset.scaled else 1.0
    ecn: dict[str, Any] = {
        "ecn_kmin_bytes": round(preset.kmin_bytes * factor),
        "ecn_kmax_bytes": round(preset.kmax_bytes * factor),
        "ecn_pmax": preset.pmax,
    }
    # Without marking, pausing keeps the default preset's threshold, so that runs with and without can be compared.
    marks = ecn["ecn_kmax_bytes" if preset.pause_after_marks else "ecn_kmin_bytes"]
    threshold = marks or ECN_PRESETS[PolicyOptions().ecn].kmin_bytes
    # What XON leaves in the queue must last until the upstream's next frame has crossed the cable.
    least_xon = bytes_on_cable(rate_bps, delay_ns) + 2 * frame_bytes(mtu)
    xoff = _up_to_kib(max(XOFF_TO_MARKS * threshold, XON_OFFSET_BYTES + least_xon))
    policies: dict[int, ClassPolicy] = {}
    for cls in range(8):
        if cls in options.lossless_classes and options.pfc:
            policies[cls] = ClassPolicy(
                lossless=True,
                xoff_bytes=xoff,
                xon_bytes=xoff - XON_OFFSET_BYTES,
                headroom_bytes=headroom_bytes(rate_bps, delay_ns, mtu, options),
                pause_quanta=options.pause_quanta,
                queue_limit_bytes=options.lossy_queue_bytes,
                **ecn,
            )
        else:
            marked = ecn if cls in options.lossless_classes or options.ecn_on_lossy else {}
            policies[cls] = ClassPolicy(lossless=False, queue_limit_bytes=options.lossy_queue_bytes, **marked)
    for cls, change in (overrides or {}).items():
        if cls not in policies:
            raise TopologyError(f"traffic class {cls} is not accepted; classes are 0 to 7")
        policies[cls] = override_policy(cls, policies[cls], change)
    for cls, policy in policies.items():
        check_policy(cls, policy)
    return policies


def override_policy(cls: int, policy: ClassPolicy, change: Mapping[str, Any]) -> ClassPolicy:
    """The policy of a class with single fields replaced. TopologyError: unknown field, or a value of the wrong type."""
    known = [f.name for f in fields(ClassPolicy)]
    for key in change:
        if key not in known:
            raise TopologyError(
                f"class {cls} has no setting {key!r}{did_you_mean(key, known)}; accepted: {', '.join(known)}"
            )
        _check_setting(cls, key, change[key])
    return replace(policy, **change)


def _check_setting(cls: int, key: str, value: Any) -> None:
    """TopologyError unless the value has the type of the field, and a size fits the program's 32 bits."""
    where = f"class {cls}: {key}"
    if key == "lossless":
        if not isinstance(value, bool):
            raise TopologyError(f"{where} is true or false, not {value!r:.60}")
    elif isinstance(value, bool) or not isinstance(value, (int, float) if key == "ecn_pmax" else int):
        wanted = "a probability, 0 to 1" if key == "ecn_pmax" else "a whole number"
        raise TopologyError(f"{where} is {wanted}, not {value!r:.60}")


def check_policy(cls: int, policy: ClassPolicy) -> None:
    """TopologyError, naming the class and the field, for thresholds that no switch could follow."""
    for field in fields(ClassPolicy):
        value = getattr(policy, field.name)
        _check_setting(cls, field.name, value)
        if field.name.endswith("_bytes") and not 0 <= value <= MAX_BYTES:
            raise TopologyError(
                f"class {cls}: {field.name} would be {value}; it is 0 to {MAX_BYTES} (32 bits in the switch); "
                "the rate and delay of the links decide what is needed"
            )
    if policy.lossless and policy.xoff_bytes + policy.headroom_bytes > MAX_BYTES:
        raise TopologyError(
            f"class {cls}: xoff_bytes and headroom_bytes together exceed {MAX_BYTES} (32 bits in the switch)"
        )
    if policy.lossless and not 0 <= policy.xon_bytes <= policy.xoff_bytes:
        raise TopologyError(
            f"class {cls}: xon_bytes ({policy.xon_bytes}) must lie between 0 and xoff_bytes ({policy.xoff_bytes})"
        )
    if policy.lossless and policy.xoff_bytes < 1:
        raise TopologyError(f"class {cls} is lossless and needs xoff_bytes of at least 1")
    if policy.ecn_kmax_bytes and not 0 <= policy.ecn_kmin_bytes <= policy.ecn_kmax_bytes:
        raise TopologyError(
            f"class {cls}: ecn_kmin_bytes ({policy.ecn_kmin_bytes}) must not exceed ecn_kmax_bytes "
            f"({policy.ecn_kmax_bytes})"
        )
    if not 0.0 <= policy.ecn_pmax <= 1.0:
        raise TopologyError(f"class {cls}: ecn_pmax ({policy.ecn_pmax}) is a probability, 0 to 1")
    if not 0 <= policy.pause_quanta <= MAX_QUANTA:
        raise TopologyError(
            f"class {cls}: pause_quanta ({policy.pause_quanta}) must lie between 0 and {MAX_QUANTA}"
        )


def _up_to_kib(size: float) -> int:
    return math.ceil(size / 1024) * 1024
