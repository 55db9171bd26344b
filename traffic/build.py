"""From a plan and a workload to what every host runs: addresses, queue pairs, its share of the messages.

Both drivers start here: the virtual clock makes an `Endpoint` of every configuration, the Mininet one writes
them to `hosts-N.json` for `python -m traffic.host`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from zlib import crc32

from switch.link import PS_PER_S, wire_time_ps
from topologies.plan import FabricPlan
from traffic.collectives.workload import Workload
from traffic.errors import TrafficError
from traffic.nic.config import (
    MOST_EXPLORING_PACKETS,
    CongestionConfig,
    NicConfig,
    QueuePairConfig,
    ReceiverConfig,
    RepsConfig,
    TransportConfig,
)
from traffic.nic.congestion import make_parameters, wants_cnp, wants_echo, wants_telemetry
from traffic.wire.prototype import data_frame

FIRST_QPN = 0x11
"""QPNs 0 and 1 are special in the IB specification; a round number apart is easy to see in a capture."""
MULTIPATH_REORDER_WINDOW = 512
"""Packets that may arrive early when the fabric spreads a flow over several paths."""


@dataclass(frozen=True)
class TrafficOptions:
    """What a run chooses beyond plan and workload. Fabric units."""

    congestion: CongestionConfig = field(default_factory=CongestionConfig)
    """Its `base_rtt_ns` of 0 means: work it out from the plan."""
    transport: TransportConfig | None = None
    """None: the defaults, with a reorder window where the plan sends a flow over several paths."""
    reps: RepsConfig = field(default_factory=RepsConfig)
    """Used where the plan's load balancing is `reps`; its `explore_packets` of 0 means: work it out from the plan."""
    receivers: Mapping[str, ReceiverConfig] = field(default_factory=dict)
    """Slow receivers by host name."""
    seed: int = 1
    """Of UDP source ports and first PSNs."""


@dataclass(frozen=True)
class SendConfig:
    """A message that an endpoint sends."""

    id: int
    dst: str
    qpn: int
    bytes: int
    start_ns: int
    """Fabric ns since the start of the run."""
    after_received: tuple[int, ...] = ()
    after_sent: tuple[int, ...] = ()


@dataclass(frozen=True)
class EndpointConfig:
    """A NIC and its host's share of the workload."""

    nic: NicConfig
    sends: tuple[SendConfig, ...] = ()
    receives: int = 0
    """Number of messages that the workload sends to this host."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; `from_json` is its inverse."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> EndpointConfig:
        """The configuration that `to_json` wrote."""
        sends = tuple(
            SendConfig(
                **{
                    **s,
                    "after_received": tuple(s["after_received"]),
                    "after_sent": tuple(s["after_sent"]),
                }
            )
            for s in data["sends"]
        )
        return EndpointConfig(NicConfig.from_json(data["nic"]), sends, data["receives"])


def build_hosts(
    plan: FabricPlan, workload: Workload, options: TrafficOptions | None = None
) -> tuple[EndpointConfig, ...]:
    """One configuration per host of the plan, in its order; hosts without messages get a silent NIC.

    QPNs, UDP source ports and first PSNs depend on the names, channels and seed alone. TrafficError when the
    workload names a host that the plan does not have.
    """
    options = options or TrafficOptions()
    hosts = {h.name: h for h in plan.hosts}
    for rank in workload.ranks:
        if rank not in hosts:
            raise TrafficError(f"workload {workload.name}: the fabric has no host {rank!r}.")
    congestion = options.congestion
    if congestion.base_rtt_ns <= 0:
        congestion = CongestionConfig(
            congestion.name, congestion.preset, congestion.parameters, base_rtt_ns(plan)
        )
    parameters = make_parameters(congestion)
    echo = plan.load_balancing == "reps" or wants_echo(congestion.name)
    transport = options.transport
    if transport is None:
        multipath = plan.load_balancing != "ecmp"
        each = echo or wants_telemetry(congestion.name)
        transport = TransportConfig(
            ack_interval=1 if each else TransportConfig.ack_interval,
            reorder_window=MULTIPATH_REORDER_WINDOW if multipath else 0,
        )
    if wants_telemetry(congestion.name) and plan.telemetry.mode != "host":
        raise TrafficError(
            f"congestion control {congestion.name} reads INT: the plan's telemetry mode must be 'host', "
            f"not {plan.telemetry.mode!r}."
        )
    reps = _reps(plan, options.reps, congestion.base_rtt_ns)
    pairs, numbers = _connect(plan, workload, options.seed)
    sends: dict[str, list[SendConfig]] = {name: [] for name in hosts}
    receives = dict.fromkeys(hosts, 0)
    destination = {m.id: m.dst for m in workload.messages}
    for m in workload.messages:
        arrived = tuple(i for i in m.after if destination[i] == m.src)
        sent = tuple(i for i in m.after if destination[i] != m.src)
        qpn = numbers[m.src, m.dst, m.channel, m.traffic_class]
        sends[m.src].append(SendConfig(m.id, m.dst, qpn, m.bytes, m.start_ns, arrived, sent))
        receives[m.dst] += 1
    lossless = tuple(sorted(c for c, policy in plan.classes.items() if policy.lossless))
    configs = []
    for host in plan.hosts:
        nic = NicConfig(
            name=host.name,
            mac=host.mac,
            gateway_mac=host.gateway_mac,
            ip=host.ipv4,
            rate_bps=host.rate_bps,
            delay_ns=host.delay_ns,
            frame=data_frame(host.mac, host.gateway_mac, host.ipv4).hex(),
            mtu=plan.mtu,
            time_scale=plan.time_scale,
            pfc_classes=lossless,
            cnp_interval_ns=round(parameters.get("cnp_interval_ns", 0))
            if wants_cnp(congestion.name)
            else None,
            telemetry=plan.telemetry.mode == "host",
            domain_id=plan.telemetry.domain_id,
            transport=transport,
            congestion=congestion,
            reps=reps,
            echo=echo,
            receiver=options.receivers.get(host.name, ReceiverConfig()),
            queue_pairs=tuple(pairs[host.name]),
        )
        configs.append(EndpointConfig(nic, tuple(sends[host.name]), receives[host.name]))
    return tuple(configs)


def _reps(plan: FabricPlan, config: RepsConfig, rtt_ns: int) -> RepsConfig | None:
    """REPS as the NICs take it; None where the switches alone balance."""
    if plan.load_balancing != "reps":
        return None
    if config.explore_packets:
        return config
    fastest = max((h.rate_bps for h in plan.hosts), default=0)
    product = fastest * rtt_ns / 8e9 / plan.mtu
    return replace(config, explore_packets=min(max(1, round(product)), MOST_EXPLORING_PACKETS))


def _connect(
    plan: FabricPlan, workload: Workload, seed: int
) -> tuple[dict[str, list[QueuePairConfig]], dict[tuple[str, str, int, int], int]]:
    """Queue pairs of every host, and the local QPN of every (src, dst, channel, class)."""
    rank = {h.name: index for index, h in enumerate(plan.hosts)}
    address = {h.name: h.ipv4 for h in plan.hosts}
    connections = sorted(
        {
            (min(rank[m.src], rank[m.dst]), max(rank[m.src], rank[m.dst]), m.channel, m.traffic_class)
            for m in workload.messages
        }
    )
    pairs: dict[str, list[QueuePairConfig]] = {h.name: [] for h in plan.hosts}
    numbers: dict[tuple[str, str, int, int], int] = {}
    for low, high, channel, traffic_class in connections:
        a, b = plan.hosts[low].name, plan.hosts[high].name
        qpn = {name: FIRST_QPN + len(pairs[name]) for name in (a, b)}
        for local, remote in ((a, b), (b, a)):
            forward = f"{seed}/{local}/{remote}/{channel}/{traffic_class}"
            backward = f"{seed}/{remote}/{local}/{channel}/{traffic_class}"
            numbers[local, remote, channel, traffic_class] = qpn[local]
            pairs[local].append(
                QueuePairConfig(
                    qpn=qpn[local],
                    remote_qpn=qpn[remote],
                    remote=remote,
                    remote_ip=address[remote],
                    udp_source_port=_source_port(forward),
                    traffic_class=traffic_class,
                    send_psn=crc32(f"psn/{forward}".encode()) & 0xFFFFFF,
                    receive_psn=crc32(f"psn/{backward}".encode()) & 0xFFFFFF,
                    remote_source_port=_source_port(backward),
                )
            )
    return pairs, numbers


def _source_port(flow: str) -> int:
    """Entropy for the fabric's hash: 49152 to 65535."""
    return 0xC000 | crc32(f"port/{flow}".encode()) & 0x3FFF


def base_rtt_ns(plan: FabricPlan) -> int:
    """Unloaded round trip between the two hosts furthest apart, fabric ns.

    A full data packet is stored and forwarded by every switch on the way, an ACK on the way back;
    link delays and rates are the plan's, the hosts' links standing for the slowest.
    """
    delay, hops = _longest_path(plan)
    slowest = min((h.rate_bps for h in plan.hosts), default=1)
    data = wire_time_ps(plan.mtu + 78, slowest)
    ack = wire_time_ps(62, slowest)
    return 2 * delay + hops * (data + ack) // (PS_PER_S // 10**9)


def _longest_path(plan: FabricPlan) -> tuple[int, int]:
    """(propagation delay in ns, links) between the two hosts with the most switches between them."""
    switches = {s.name: s for s in plan.switches}
    attached = sorted({h.switch for h in plan.hosts})
    host_delay = {s: max(h.delay_ns for h in plan.hosts if h.switch == s) for s in attached}
    best = (0, 2)
    for origin in attached:
        reached = {origin: (0, 0)}
        queue = deque([origin])
        while queue:
            name = queue.popleft()
            delay, hops = reached[name]
            for port in switches[name].ports:
                if port.peer in switches and port.peer not in reached:
                    reached[port.peer] = (delay + port.delay_ns, hops + 1)
                    queue.append(port.peer)
        for other in attached:
            if other in reached:
                delay, hops = reached[other]
                best = max(best, (delay + host_delay[origin] + host_delay[other], hops + 2))
    return best
