"""From plan and workload to running hosts: addresses, queue pairs, dependencies, whole collectives in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.traffic.fabrics import GBPS, Wire, pair_plan
from topologies.plan import ClassPolicy, FabricPlan, HostPlan, PortPlan, SwitchPlan
from traffic.build import EndpointConfig, TrafficOptions, base_rtt_ns, build_hosts
from traffic.collectives import COLLECTIVES, Message, Workload, allreduce, alltoall, make, permutation
from traffic.endpoint import Endpoint
from traffic.errors import TrafficError
from traffic.nic.config import CongestionConfig, TransportConfig
from traffic.nic.congestion import CongestionControl


def many_hosts(n: int) -> FabricPlan:
    """n hosts of one subnet; how they are joined is the test's business."""
    hosts = tuple(
        HostPlan(f"h{i}", i, f"02:00:00:00:00:{i:02x}", f"10.0.0.{i + 1}", "s", i + 1, "02:ff:00:00:00:01",
                 100 * GBPS, 1000)
        for i in range(n)
    )  # fmt: skip
    return FabricPlan("many", (), hosts, {3: ClassPolicy(True)})


class Hub:
    """A perfect switch: every frame reaches the host of its IP address after 1 us, with no queue."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self.endpoints = endpoints
        self._by_ip = {bytes(int(x) for x in e.config.nic.ip.split(".")): e for e in endpoints}

    def run(self) -> int:
        """To the end; returns the time."""
        from heapq import heappop, heappush

        flying: list[tuple[int, int, bytes]] = []
        now = count = 0
        while True:
            times = [t for e in self.endpoints if (t := e.next_deadline()) is not None]
            if flying:
                times.append(flying[0][0])
            if not times:
                return now
            now = max(now, min(times))
            while flying and flying[0][0] <= now:
                frame = heappop(flying)[2]
                self._by_ip[frame[30:34]].rx(0, frame, now)
            for endpoint in self.endpoints:
                for _, frame in endpoint.poll(now):
                    count += 1
                    heappush(flying, (now + 1000, count, frame))


def test_queue_pairs_of_both_ends_fit_together() -> None:
    plan = many_hosts(5)
    configs = {
        c.nic.name: c for c in build_hosts(plan, alltoall([f"h{i}" for i in range(5)], 5000, channels=2))
    }
    for name, config in configs.items():
        qpns = [pair.qpn for pair in config.nic.queue_pairs]
        assert len(set(qpns)) == len(qpns) == 8
        for pair in config.nic.queue_pairs:
            [other] = [q for q in configs[pair.remote].nic.queue_pairs if q.qpn == pair.remote_qpn]
            assert (other.remote, other.remote_qpn) == (name, pair.qpn)
            assert (pair.send_psn, pair.receive_psn) == (other.receive_psn, other.send_psn)
            assert other.remote_ip == config.nic.ip
            assert 0xC000 <= pair.udp_source_port <= 0xFFFF


def test_ports_and_psns_depend_on_the_seed_and_nothing_else() -> None:
    plan, workload = many_hosts(4), allreduce([f"h{i}" for i in range(4)], 4000)
    same = build_hosts(plan, workload, TrafficOptions(seed=1))
    assert same == build_hosts(plan, workload, TrafficOptions(seed=1))
    other = build_hosts(plan, workload, TrafficOptions(seed=2))
    ports = [[q.udp_source_port for c in configs for q in c.nic.queue_pairs] for configs in (same, other)]
    assert ports[0] != ports[1]


def test_configurations_survive_json() -> None:
    options = TrafficOptions(CongestionConfig("dcqcn", "nvidia", {"g": 0.5}))
    for config in build_hosts(
        many_hosts(4), alltoall([f"h{i}" for i in range(4)], 4000, ordered=True), options
    ):
        assert EndpointConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("cc", ["none", "dcqcn"])
def test_every_collective_runs_to_its_end(name: str, cc: str) -> None:
    ranks = [f"h{i}" for i in range(6)]
    workload = make(name, ranks, 60_001)
    endpoints = [
        Endpoint(c) for c in build_hosts(many_hosts(6), workload, TrafficOptions(CongestionConfig(cc)))
    ]
    for endpoint in endpoints:
        endpoint.start(0)
    end = Hub(endpoints).run()
    summaries = [e.summary(end) for e in endpoints]
    assert all(e.finished for e in endpoints)
    assert sum(s["bytes_received"] for s in summaries) == sum(m.bytes for m in workload.messages)
    assert sorted(m["id"] for s in summaries for m in s["messages"]) == [m.id for m in workload.messages]
    assert all(s["drops"] == {} and s["unsent"] == s["unreceived"] == 0 for s in summaries)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_message_is_posted_when_what_it_waits_for_has_happened(ordered: bool) -> None:
    ranks = [f"h{i}" for i in range(5)]
    workload = alltoall(ranks, 50_000, ordered=True) if ordered else allreduce(ranks, 50_000)
    endpoints = [Endpoint(c) for c in build_hosts(many_hosts(5), workload)]
    for endpoint in endpoints:
        endpoint.start(1_000)
    end = Hub(endpoints).run()
    messages, received = {}, {}
    for endpoint in endpoints:
        summary = endpoint.summary(end)
        messages |= {m["id"]: m for m in summary["messages"]}
        received |= {int(id): t for id, t in summary["received"].items()}
    for message in workload.messages:
        ready = [
            received[i] if workload.messages[i].dst == message.src else messages[i]["end"]
            for i in message.after
        ]
        assert messages[message.id]["post"] == max(ready, default=1_000)


def test_a_ring_allreduce_on_perfect_links_takes_its_closed_form() -> None:
    """2(n-1) steps; each is one share at line rate plus one latency: both links' delay and the frame twice."""
    n, packets = 4, 16
    workload = allreduce([f"h{i}" for i in range(n)], n * packets * 1024)
    endpoints = [Endpoint(c) for c in build_hosts(many_hosts(n), workload)]
    for endpoint in endpoints:
        endpoint.start(0)
    end = Hub(endpoints).run()
    last = max(e.summary(end)["last_received"] for e in endpoints)
    step = (packets * 1106 + 20) * 0.08 + 2_000
    acks = 86 * 0.08  # an ACK may be on the link when the next share is ready
    assert 2 * (n - 1) * step <= last <= 2 * (n - 1) * (step + acks + 1)


def test_start_times_are_those_of_the_fabric_after_the_epoch() -> None:
    plan = pair_plan(time_scale=100.0)
    workload = Workload("timed", ("h0", "h1"), (Message(0, "h0", "h1", 1, start_ns=5_000),))
    a, b = (Endpoint(c) for c in build_hosts(plan, workload))
    a.start(7_000)
    wire = Wire(a, b)
    wire.run()
    [message] = a.summary(wire.now)["messages"]
    assert message["post"] == message["start"] == 507_000


def test_what_depends_on_a_failed_message_is_not_sent_and_nothing_hangs() -> None:
    workload = Workload(
        "chain", ("h0", "h1"), (Message(0, "h0", "h1", 1), Message(1, "h0", "h1", 1, after=(0,)))
    )
    options = TrafficOptions(transport=TransportConfig(rto_ns=1_000, retry_limit=2))
    a, b = (Endpoint(c) for c in build_hosts(pair_plan(), workload, options))
    a.start(0)
    wire = Wire(a, b, lambda who, frame, now: [])
    wire.run()
    assert a.failed == {0: "retry_exceeded"}
    assert a.summary(wire.now)["unsent"] == 1
    assert not a.finished


def test_stopped_senders_fall_silent_and_receivers_go_on_acknowledging() -> None:
    a, b = (Endpoint(c) for c in build_hosts(pair_plan(), permutation(["h0", "h1"], 1 << 20)))
    wire = Wire(a, b)
    a.start(0)
    b.start(0)
    wire.run(until=20_000)
    a.stop(20_000)
    wire.run()
    assert b.sent == 1 and a.received == 1
    assert a.sent == 0
    sent = [t for t, who, f in wire.log if who == "a" and len(f) > 1000]
    assert max(sent) <= 20_000 + 1_000 + 90


def line_of_switches(n: int) -> FabricPlan:
    """h0 - s0 - s1 … - h1, 1 us and 100 Gb/s a link."""
    plan = pair_plan()
    switches = []
    for i in range(n):
        ports = []
        for number, peer in ((1, f"s{i - 1}" if i else "h0"), (2, f"s{i + 1}" if i < n - 1 else "h1")):
            ports.append(PortPlan(number, "", peer, 1, "", 100 * GBPS, 1_000, "up"))
        switches.append(SwitchPlan(f"s{i}", i + 1, "node", tuple(ports), (), 1))
    hosts = (replace(plan.hosts[0], switch="s0"), replace(plan.hosts[1], switch=f"s{n - 1}"))
    return replace(plan, switches=tuple(switches), hosts=hosts)


@pytest.mark.parametrize("n", [2, 5])
def test_the_base_rtt_is_store_and_forward_there_and_propagation_back(n: int) -> None:
    links = n + 1
    data, ack = (1024 + 78 + 24) * 0.08, (62 + 24) * 0.08
    assert base_rtt_ns(line_of_switches(n)) == pytest.approx(links * (2_000 + data + ack), abs=links)


def test_spraying_plans_get_a_reorder_window_and_hpcc_an_ack_per_packet() -> None:
    ranks = permutation(["h0", "h1"], 1)
    [config, _] = build_hosts(pair_plan(), ranks)
    assert config.nic.transport.reorder_window == 0
    [config, _] = build_hosts(replace(pair_plan(), load_balancing="spray"), ranks)
    assert config.nic.transport.reorder_window > 0
    hpcc = TrafficOptions(CongestionConfig("hpcc"))
    [config, _] = build_hosts(pair_plan(telemetry="host"), ranks, hpcc)
    assert config.nic.transport.ack_interval == 1 and config.nic.telemetry
    with pytest.raises(TrafficError, match="telemetry mode must be 'host', not 'off'"):
        build_hosts(pair_plan(), ranks, hpcc)


def test_plans_balanced_by_the_hosts_give_every_packet_an_entropy_and_an_ack() -> None:
    plan = replace(pair_plan(), load_balancing="reps")
    for config in build_hosts(plan, permutation(["h0", "h1"], 1)):
        assert config.nic.reps is not None and config.nic.echo
        assert (config.nic.transport.ack_interval, config.nic.transport.reorder_window) == (1, 512)
        assert EndpointConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    [config, _] = build_hosts(pair_plan(), permutation(["h0", "h1"], 1))
    assert config.nic.reps is None and not config.nic.echo
    assert EndpointConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(TrafficError, match="the fabric has no host 'h7'"):
        build_hosts(pair_plan(), permutation(["h0", "h7"], 1))


def test_the_same_run_twice_is_the_same_frames_at_the_same_times() -> None:
    logs = []
    for _ in range(2):
        options = TrafficOptions(CongestionConfig("dcqcn"))
        a, b = (Endpoint(c) for c in build_hosts(pair_plan(), allreduce(["h0", "h1"], 100_000), options))
        a.start(0)
        b.start(0)
        wire = Wire(a, b)
        wire.run()
        logs.append(wire.log)
    assert logs[0] == logs[1]


def test_flow_samples_carry_the_rate_in_fabric_units() -> None:
    records: list[dict[str, object]] = []
    options = TrafficOptions(CongestionConfig("dcqcn"))
    config = build_hosts(pair_plan(time_scale=1000.0), permutation(["h0", "h1"], 1 << 20), options)[0]
    endpoint = Endpoint(config, record=lambda kind, t, **f: records.append({"kind": kind, "t": t, **f}))
    endpoint.start(0)
    endpoint.poll(10_000_000)
    endpoint.sample(10_000_000)
    [flow] = [r for r in records if r["kind"] == "flow"]
    assert flow["rate"] == 100 * GBPS
    congestion: CongestionControl = next(iter(endpoint.nic.queue_pairs.values())).requester.congestion
    assert congestion.rate_bps == GBPS // 10


def test_a_receiver_with_telemetry_records_one_int_sample_a_flow() -> None:
    from tests.traffic.test_congestion import push_hop

    records: list[dict[str, Any]] = []
    options = TrafficOptions(CongestionConfig("hpcc"))
    configs = build_hosts(pair_plan(telemetry="host"), permutation(["h0", "h1"], 50_000), options)
    a = Endpoint(configs[0])
    b = Endpoint(configs[1], record=lambda kind, t, **f: records.append({"kind": kind, "t": t, **f}))
    hop = b"".join(
        v.to_bytes(n, "big")
        for v, n in zip((7, 3 << 24 | 99, 1234, 5678, 10**8), (4, 4, 8, 8, 4), strict=True)
    )
    wire = Wire(a, b, lambda who, frame, now: [(0, push_hop(frame, hop) if who == "a" else frame)])
    a.start(0)
    wire.run()
    for _ in range(2):
        b.sample(wire.now)
    [sample] = [r for r in records if r["kind"] == "int"]
    [pair] = configs[0].nic.queue_pairs
    assert (sample["src"], sample["dst"], sample["node"]) == ("h0", "h1", "h1")
    assert sample["sport"] == pair.udp_source_port
    assert sample["hops"] == [
        {"node_id": 7, "queue": 3, "queue_bytes": 99, "out_ts": 1234, "tx_bytes": 5678, "rate_bps": 10**11}
    ]


@pytest.mark.parametrize("cc", ["none", "hpcc"])
def test_ipv6_hosts_run_the_same_workloads(cc: str) -> None:
    plan = pair_plan(telemetry="host" if cc == "hpcc" else "off")
    plan = replace(plan, hosts=tuple(replace(h, ipv4=f"fd00::{h.rank + 1}") for h in plan.hosts))
    options = TrafficOptions(CongestionConfig(cc))
    a, b = (Endpoint(c) for c in build_hosts(plan, allreduce(["h0", "h1"], 100_001), options))
    a.start(0)
    b.start(0)
    wire = Wire(a, b)
    wire.run()
    assert a.finished and b.finished
    assert {f[12:14] for _, _, f in wire.log} == {b"\x86\xdd"}
    assert a.summary(wire.now)["drops"] == b.summary(wire.now)["drops"] == {}
