"""The NIC in C is the NIC in Python: the same frames at the same times, records, completions and counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traffic.fabrics import GBPS, Wire, pair_plan
from traffic.build import EndpointConfig, TrafficOptions, build_hosts
from traffic.collectives import permutation
from traffic.errors import TrafficError
from traffic.nic.config import (
    CongestionConfig,
    NicConfig,
    ReceiverConfig,
    RepsConfig,
    TransportConfig,
)
from traffic.nic.congestion import ALGORITHMS
from traffic.nic.native import abi
from traffic.nic.native.nic import PARAMETERS, NativeNic, NicGroup, native_config, supports
from traffic.nic.nic import Nic
from traffic.wire import pfc, telemetry
from traffic.wire.prototype import data_frame
from traffic.wire.template import ipv4_checksum

Meddling = Callable[[str, bytes, int], "list[tuple[int, bytes]]"]


def mark_ce(frame: bytes) -> bytes:
    """The frame as a congested switch sends it on."""
    if frame[12:14] == b"\x86\xdd":
        return frame[:15] + bytes((frame[15] | 0x30,)) + frame[16:]
    head = frame[14:15] + bytes((frame[15] | 3,)) + frame[16:24] + b"\0\0" + frame[26:34]
    return frame[:14] + head[:10] + ipv4_checksum(head).to_bytes(2, "big") + head[12:] + frame[34:]


def push_hop(frame: bytes, node: int, now: int, count: int) -> bytes:
    """The frame with one more hop's telemetry, if it carries telemetry that still takes hops."""
    ipv6 = frame[12:14] == b"\x86\xdd"
    network = 40 if ipv6 else 20
    udp = 14 + network
    shim = udp + 8
    if frame[udp + 2 : udp + 4] != telemetry.INT_UDP_PORT.to_bytes(2, "big") or not frame[shim + 7]:
        return frame
    hop = telemetry._HOP.pack(node, 3 << 24 | (count * 977) % 60_000, now, count * 4_200, 100_000_000)
    headers = bytearray(frame[shim : shim + 16])
    headers[1] += len(hop) // 4
    headers[7] -= 1
    out = bytearray(frame[:shim] + bytes(headers) + hop + frame[shim + 16 :])
    length = int.from_bytes(out[udp + 4 : udp + 6], "big") + len(hop)
    out[udp + 4 : udp + 6] = length.to_bytes(2, "big")
    if ipv6:
        out[18:20] = length.to_bytes(2, "big")
    else:
        out[16:18] = (length + 20).to_bytes(2, "big")
        out[24:26] = b"\0\0"
        out[24:26] = ipv4_checksum(bytes(out[14:34])).to_bytes(2, "big")
    return bytes(out)


@dataclass(frozen=True)
class Fate:
    """What becomes of a frame."""

    kind: str = "deliver"
    number: int = 0


FATES = st.one_of(
    st.just(Fate()),
    st.just(Fate()),
    st.just(Fate("ce")),
    st.just(Fate("lose")),
    st.just(Fate("duplicate")),
    st.builds(Fate, st.just("delay"), st.integers(1, 400_000)),
    st.builds(Fate, st.just("flip"), st.integers(0, 2**16)),
    st.builds(Fate, st.just("cut"), st.integers(0, 120)),
    st.builds(Fate, st.just("pause"), st.integers(0, 0xFFFFFF)),
    st.builds(Fate, st.just("junk"), st.integers(0, 0xFFFF)),
)


def meddler(fates: dict[int, Fate]) -> Meddling:
    """Applies a fate to the frames with these positions (both directions counted together); INT always grows."""
    seen = -1

    def meddle(sender: str, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        nonlocal seen
        seen += 1
        fate = fates.get(seen % 300, Fate())
        frame = push_hop(frame, 5, now + 3, seen)
        if fate.kind == "ce":
            return [(0, mark_ce(frame))]
        if fate.kind == "lose":
            return []
        if fate.kind == "duplicate":
            return [(0, frame), (700, frame)]
        if fate.kind == "delay":
            return [(fate.number, frame)]
        if fate.kind == "flip":
            at, bit = divmod(fate.number, 8)
            at %= len(frame)
            return [(0, frame[:at] + bytes((frame[at] ^ 1 << bit,)) + frame[at + 1 :])]
        if fate.kind == "cut":
            return [(0, frame[: fate.number])]
        if fate.kind == "pause":
            quanta, cls = fate.number & 0xFFFF, fate.number >> 16 & 7
            return [(0, frame), (0, pfc.build(b"\2\0\0\0\0\1", {cls: quanta % 900, 3: quanta % 300}))]
        if fate.kind == "junk":
            return [(0, frame[:12] + fate.number.to_bytes(2, "big") + frame[14:]), (0, frame + b"\0\0\0")]
        return [(0, frame)]

    return meddle


@dataclass(frozen=True)
class Scenario:
    """Two NICs and what they are asked to do."""

    congestion: str = "none"
    preset: str = ""
    mtu: int = 1024
    time_scale: float = 1.0
    with_int: bool = False
    ipv6: bool = False
    transport: TransportConfig = TransportConfig(rto_ns=60_000)
    drain_bps: int = 0
    posts: tuple[tuple[str, int, int, bool], ...] = ()
    """(side, bytes, time, write)."""
    fates: tuple[tuple[int, Fate], ...] = ()
    stop_at: int = 0
    storm: int = 0
    reps: RepsConfig | None = None


TRANSPORTS = st.builds(
    TransportConfig,
    ack_interval=st.sampled_from([1, 3, 16]),
    rto_ns=st.sampled_from([20_000, 60_000, 1_048_576]),
    retry_limit=st.integers(0, 3),
    rto_backoff=st.sampled_from([1.0, 1.5, 2.0]),
    reorder_window=st.sampled_from([0, 1, 7, 64]),
    reorder_ns=st.sampled_from([0, 3_000, 200_000]),
)
BALANCERS = st.one_of(
    st.none(),
    st.builds(
        RepsConfig,
        buffer=st.sampled_from([1, 3, 8, 64]),
        entropies=st.sampled_from([1, 32, 16_384]),
        explore_packets=st.sampled_from([0, 5]),
        freezing_ns=st.sampled_from([0, 1_000, 70_000]),
    ),
)
ALGORITHM_PRESETS = [(name, preset) for name in abi.CONGESTION for preset in ALGORITHMS[name].presets]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    name, preset = draw(st.sampled_from(ALGORITHM_PRESETS))
    posts = st.tuples(
        st.sampled_from("aab"),
        st.one_of(st.integers(0, 5_000), st.integers(0, 200_000)),
        st.integers(0, 50_000),
        st.booleans(),
    )
    return Scenario(
        congestion=name,
        preset=preset,
        mtu=draw(st.sampled_from([256, 1024, 4096])),
        time_scale=draw(st.sampled_from([1.0, 3.0, 10_000.0])),
        with_int=name == "hpcc" or draw(st.booleans()),
        ipv6=draw(st.booleans()),
        transport=draw(TRANSPORTS),
        drain_bps=draw(st.sampled_from([0, 0, 30 * GBPS])),
        posts=tuple(draw(st.lists(posts, min_size=1, max_size=6))),
        fates=tuple(draw(st.dictionaries(st.integers(0, 299), FATES, max_size=12)).items()),
        stop_at=draw(st.sampled_from([0, 0, 0, 40_000])),
        storm=draw(st.sampled_from([0, 0, 40])),
        reps=draw(BALANCERS),
    )


def configs(scenario: Scenario) -> list[NicConfig]:
    """Both NICs of a scenario."""
    plan = pair_plan(
        mtu=scenario.mtu, time_scale=scenario.time_scale, telemetry="host" if scenario.with_int else "off"
    )
    congestion = CongestionConfig(scenario.congestion, scenario.preset, base_rtt_ns=4_300)
    options = TrafficOptions(congestion=congestion, transport=scenario.transport)
    if scenario.reps is not None:
        plan = replace(plan, load_balancing="reps")
        options = replace(options, reps=scenario.reps)
    endpoints: tuple[EndpointConfig, ...] = build_hosts(plan, permutation(["h0", "h1"], 1, shift=1), options)
    receiver = ReceiverConfig(
        drain_bps=scenario.drain_bps, limit_bytes=40_000, xoff_bytes=12_000, xon_bytes=5_000, pause_quanta=300
    )
    found = []
    for i, endpoint in enumerate(endpoints):
        nic = replace(endpoint.nic, receiver=receiver)
        if scenario.ipv6:
            pair = replace(nic.queue_pairs[0], remote_ip=f"fd00::{2 - i}")
            ip = f"fd00::{i + 1}"
            nic = replace(
                nic, ip=ip, queue_pairs=(pair,), frame=data_frame(nic.mac, nic.gateway_mac, ip).hex()
            )
        found.append(nic)
    return found


QPN = 0x11


def outcome(scenario: Scenario, native: bool) -> dict[str, Any]:
    """Everything that can be seen of a run."""
    group = NicGroup()
    seen: list[Any] = []
    nics: dict[str, Nic | NativeNic] = {}
    for side, config in zip("ab", configs(scenario), strict=True):
        nics[side] = (group.nic if native else Nic)(
            config,
            record=lambda kind, t, **fields: seen.append((kind, t, fields)),
            on_sent=lambda qpn, work, now, side=side: seen.append((side, "sent", qpn, asdict(work), now)),  # type: ignore[misc]
            on_received=lambda qpn, imm, size, now, side=side: seen.append((side, "received", qpn, imm, size, now)),  # type: ignore[misc]
            on_failed=lambda qpn, work, why, now, side=side: seen.append((side, "failed", qpn, asdict(work), why, now)),  # type: ignore[misc]
        )  # fmt: skip
    a, b = nics["a"], nics["b"]
    scale = scenario.time_scale
    for id, (side, size, at, write) in enumerate(scenario.posts):
        nics[side].post(QPN, id, size, round(at * scale), write)
    if scenario.storm:
        b.storm(3, scenario.storm, round(30_000 * scale), round(5_000 * scale))
    wire = Wire(a, b, meddler(dict(scenario.fates)))
    if scenario.stop_at:
        wire.run(until=round(scenario.stop_at * scale))
        a.stop(wire.now)
    end = wire.run(until=round(40_000_000 * scale))
    return {
        "end": end,
        "frames": wire.log,
        "seen": seen,
        "deadlines": [a.next_deadline(), b.next_deadline()],
        **{side: state(nic, end) for side, nic in nics.items()},
    }


def state(nic: Nic | NativeNic, now: int) -> dict[str, Any]:
    """A NIC's counters."""
    pair = nic.queue_pairs[QPN]
    out, into = pair.requester, pair.responder
    return {
        "rx": (nic.rx_packets, nic.rx_bytes, nic.ignored_packets, nic.bytes_received),
        "tx": (nic.egress.tx_packets, nic.egress.tx_bytes),
        "drops": nic.drops,
        "pauses": (nic.pauses_received, nic.pauses_sent, nic.paused_ns(now)),
        "sent": (out.una, out.next_psn, out.sent_psn, out.retransmitted, out.bytes_sent, out.bytes_acked),
        "flow": (
            out.cnps,
            out.stale_acks,
            out.failed,
            out.next_ps,
            [asdict(work) for work in out.outstanding],
        ),
        "received": (into.expected, into.msn, into.bytes_received, into.duplicates, into.out_of_order),
        "answers": (into.naks, into.cnps, into.early_peak, into.failed, into.last_telemetry),
        "rate": (nic.rate_of(out, now), out.congestion.window_bytes),
        "reps": out.reps and (out.reps.explored, out.reps.recycled, out.reps.freezes, bool(out.reps.frozen)),
    }


def assert_equal(scenario: Scenario) -> dict[str, Any]:
    reference, native = outcome(scenario, native=False), outcome(scenario, native=True)
    for index, (ours, theirs) in enumerate(zip(native["frames"], reference["frames"])):  # noqa: B905
        assert ours == theirs, f"frame {index}"
    for index, (ours, theirs) in enumerate(zip(native["seen"], reference["seen"])):  # noqa: B905
        assert ours == theirs, f"event {index}"
    assert native == reference
    return reference


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_both_do_the_same_whatever_happens_to_their_frames(scenario: Scenario) -> None:
    assert_equal(scenario)


def sent_at(result: dict[str, Any]) -> int:
    """When the message of `a` was acknowledged."""
    return next(event[-1] for event in result["seen"] if event[:2] == ("a", "sent"))


@pytest.mark.parametrize(("name", "preset"), ALGORITHM_PRESETS)
def test_congestion_control_gives_the_same_bits(name: str, preset: str) -> None:
    marks = tuple((i, Fate("ce")) for i in range(0, 300, 3))
    scenario = Scenario(
        congestion=name, preset=preset, with_int=True, posts=(("a", 900_000, 0, True),), fates=marks
    )
    result = assert_equal(scenario)
    if name != "none":
        line_rate = outcome(replace(scenario, congestion="none", preset=""), native=True)
        assert sent_at(result) > sent_at(line_rate), "it never slowed down"


@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize("with_int", [False, True])
def test_reps_chooses_the_same_entropies(with_int: bool, ipv6: bool) -> None:
    fates = {i: Fate("ce") for i in range(0, 300, 4)} | {
        60: Fate("lose"),
        190: Fate("lose"),
        90: Fate("delay", 9_000),
    }
    scenario = Scenario(
        reps=RepsConfig(freezing_ns=15_000, explore_packets=9), with_int=with_int, ipv6=ipv6,
        fates=tuple(fates.items()), posts=(("a", 900_000, 0, True), ("b", 300_000, 0, True)),
        transport=TransportConfig(reorder_window=64),
    )  # fmt: skip
    result = assert_equal(scenario)
    explored, recycled, freezes, _ = result["a"]["reps"]
    assert explored > 50 and recycled > 100 and freezes >= 1
    assert ("a", "sent", QPN) in [event[:3] for event in result["seen"]]


def test_the_parameters_of_every_algorithm_reach_c() -> None:
    for name, preset in ALGORITHM_PRESETS:
        known = set(ALGORITHMS[name].presets[preset]) - {"cnp_interval_ns"}
        assert known == set(PARAMETERS[name]), (name, preset)


def test_a_slow_receiver_pauses_its_sender_alike() -> None:
    scenario = Scenario(drain_bps=20 * GBPS, posts=(("a", 400_000, 0, True),))
    result = assert_equal(scenario)
    assert result["b"]["pauses"][1][3] > 0 and result["a"]["pauses"][0][3] > 0


def test_what_a_callback_raises_reaches_the_caller() -> None:
    class Mine(Exception):
        pass

    def fail(*_: Any) -> None:
        raise Mine

    config = configs(Scenario())[0]
    nic = NicGroup().nic(config, on_failed=fail)
    nic.post(QPN, 1, 100, 0)
    with pytest.raises(Mine):
        while (due := nic.next_deadline()) is not None:
            nic.poll(due)


@pytest.mark.parametrize("native", [False, True])
def test_a_storm_of_short_pauses_leaves_no_frames_behind(native: bool) -> None:
    config = configs(Scenario())[0]
    nic: Any = NicGroup().nic(config) if native else Nic(config)
    nic.storm(3, 1, 100_000, 0)  # half of one quantum is 2.56 ns, a PFC frame takes 6.72 ns
    sent = 0
    while (due := nic.next_deadline()) is not None and due <= 200_000:
        for _, frame in nic.poll(due):
            sent += frame[12:14] == b"\x88\x08"
            last = due
    assert 0.9 * 100_000 / 7 < sent <= 100_000 / 6.72 + 1
    assert last <= 100_000 + 7 + config.delay_ns


@pytest.mark.parametrize("native", [False, True])
def test_what_is_too_long_for_a_frame_is_counted(native: bool) -> None:
    config = configs(Scenario())[0]
    nic: Any = NicGroup().nic(config) if native else Nic(config)
    nic.rx(0, bytes(20_000), 10)
    assert state(nic, 10)["drops"] == {(-1, "malformed"): [1, 20_000]}


def test_congestion_control_that_c_does_not_have_is_refused_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ALGORITHMS, "mine", ALGORITHMS["none"])
    config = replace(configs(Scenario())[0], congestion=CongestionConfig("mine"))
    assert not supports(config)
    with pytest.raises(TrafficError, match="'mine' exists in Python only"):
        native_config(config)


def test_the_ids_and_lengths_that_do_not_fit_the_headers_are_refused() -> None:
    nic = NicGroup().nic(configs(Scenario())[0])
    with pytest.raises(TrafficError, match="32 bits"):
        nic.post(QPN, 1, 1 << 32, 0)
    with pytest.raises(KeyError):
        nic.post(99, 1, 1, 0)
