"""What a NIC is told: addresses, link, transport, congestion control, receiver. Plain data, in fabric units.

Times and rates are those of the modelled fabric (ns, bit/s); the NIC applies `time_scale` once, when it is
built, and then lives in the time of the clock that drives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from traffic.errors import TrafficError

CNP_CLASS = 6
"""Class of CNPs (DSCP 48), docs/architecture.md."""
FIRST_ENTROPY = 0xC000
"""Least UDP source port of RoCEv2 traffic; the greatest is 0xFFFF (the dynamic ports of RFC 6335)."""
ENTROPIES = 0x10000 - FIRST_ENTROPY
MOST_BUFFERED_ENTROPIES = 64
MOST_EXPLORING_PACKETS = 0xFFFF
LONGEST_FREEZE_NS = 10**12


@dataclass(frozen=True)
class TransportConfig:
    """RC transport, the same for every queue pair of a NIC."""

    ack_interval: int = 16
    """AckReq is set on every this many packets, on the last one of a message and on one that fills the window."""
    rto_ns: int = 1_048_576
    """Retransmission timeout: 4.096 us * 2**8, local ACK timeout 8 of the IB specification."""
    retry_limit: int = 7
    """Timeouts without progress before the queue pair fails (IB retry count)."""
    rto_backoff: float = 2.0
    """The timeout grows by this factor on every timeout without progress."""
    reorder_window: int = 0
    """Packets that may arrive early and be kept. 0 = go-back-N: any gap is answered with a NAK at once."""
    reorder_ns: int = 200_000
    """With a reorder window: a gap that is older than this when a packet arrives counts as a loss."""


@dataclass(frozen=True)
class RepsConfig:
    """REPS: an entropy of its own for every packet (arXiv 2407.21625; names in brackets are the paper's).

    TrafficError for a value out of range.
    """

    buffer: int = 8
    """Good entropies remembered (REPS_BUFFER_SIZE)."""
    entropies: int = ENTROPIES
    """UDP source ports to draw from (EVS_SIZE, 65,536 in the paper, which finds no difference down to 256)."""
    explore_packets: int = 0
    """Packets that explore when freezing ends (NUM_PKTS_BDP); 0: one bandwidth-delay product, from the plan."""
    freezing_ns: int = 10_000_000
    """How long exploration stops after a loss (FREEZING_TIMEOUT); 0: never. Default: uet-htsim `buffer_reps.cpp`."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("buffer", 1, MOST_BUFFERED_ENTROPIES),
            ("entropies", 1, ENTROPIES),
            ("explore_packets", 0, MOST_EXPLORING_PACKETS),
            ("freezing_ns", 0, LONGEST_FREEZE_NS),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise TrafficError(f"reps: {name}={value} is not accepted; it is {least} to {most}.")


@dataclass(frozen=True)
class CongestionConfig:
    """Which congestion control, with which parameters."""

    name: str = "none"
    """A name in `traffic.nic.congestion.ALGORITHMS`."""
    preset: str = ""
    """A named parameter set of the algorithm; empty is its default."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Overrides of single parameters of the preset, by name."""
    base_rtt_ns: int = 13_000
    """Round-trip time of the unloaded fabric at the longest path."""


@dataclass(frozen=True)
class ReceiverConfig:
    """A receive buffer that is drained at a limited rate, and the PFC that guards it."""

    drain_bps: int = 0
    """Rate at which the host takes frames out; 0 = as fast as they come (no buffer, no PFC)."""
    limit_bytes: int = 1 << 20
    """Frames beyond this are dropped (counted)."""
    xoff_bytes: int = 64 * 1024
    """Bytes of one class at which XOFF is sent."""
    xon_bytes: int = 32 * 1024
    """Bytes of one class at or below which XON is sent."""
    pause_quanta: int = 0xFFFF


@dataclass(frozen=True)
class QueuePairConfig:
    """One end of a connected RC queue pair."""

    qpn: int
    remote_qpn: int
    remote: str
    """Name of the host at the other end."""
    remote_ip: str
    udp_source_port: int
    """Entropy for the fabric's path hash, 49152 to 65535."""
    traffic_class: int
    send_psn: int
    """First PSN that this end sends; the other end's `receive_psn`."""
    receive_psn: int
    remote_source_port: int = 0
    """UDP source port of what comes from the other end."""


@dataclass(frozen=True)
class NicConfig:
    """One NIC."""

    name: str
    mac: str
    gateway_mac: str
    ip: str
    """IPv4 or IPv6 address."""
    rate_bps: int
    delay_ns: int
    frame: str
    """A data frame of this NIC, built by scapy, in hex: every header that it sends is patched from it."""
    mtu: int = 1024
    time_scale: float = 1.0
    pfc_classes: tuple[int, ...] = (3,)
    """Classes whose PFC frames are obeyed (and, with a slow receiver, sent)."""
    cnp_interval_ns: int | None = None
    """Shortest time between two CNPs of one queue pair (0: every CE mark is answered); None: none is."""
    cnp_class: int = CNP_CLASS
    telemetry: bool = False
    """INT-MD is added to data frames and echoed in ACKs (`host` mode of the plan)."""
    domain_id: int = 1
    transport: TransportConfig = field(default_factory=TransportConfig)
    congestion: CongestionConfig = field(default_factory=CongestionConfig)
    reps: RepsConfig | None = None
    """An entropy for every packet (needs `echo`); None: one source port per queue pair."""
    echo: bool = False
    """Every packet is answered by an ACK of its own, with its source port and its mark."""
    receiver: ReceiverConfig = field(default_factory=ReceiverConfig)
    queue_pairs: tuple[QueuePairConfig, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; `from_json` is its inverse."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> NicConfig:
        """The configuration that `to_json` wrote."""
        return NicConfig(
            **{
                **data,
                "pfc_classes": tuple(data["pfc_classes"]),
                "transport": TransportConfig(**data["transport"]),
                "congestion": CongestionConfig(**data["congestion"]),
                "reps": RepsConfig(**data["reps"]) if data["reps"] else None,
                "receiver": ReceiverConfig(**data["receiver"]),
                "queue_pairs": tuple(QueuePairConfig(**q) for q in data["queue_pairs"]),
            }
        )
