"""Default thresholds: headroom by its formula, marking scaled as HPCC scales it, every number overridable."""

from __future__ import annotations

import pytest

from topologies.fabric import TopologyError
from topologies.policies import (
    ECN_PRESETS,
    PolicyOptions,
    default_policies,
    frame_bytes,
    headroom_bytes,
    peer_response_quanta,
)

G = 10**9


def test_headroom_is_frames_cable_and_response() -> None:
    # 100 Gb/s, 1 us, MTU 1024: a longest frame is 1024 + 82 header bytes + 128 telemetry = 1234, 1258 on the wire; the
    # cable holds 2 us * 12.5 B/ns = 25000 bytes; 394 quanta of 64 bytes are 25216; a pause frame is 84 on the wire.
    assert frame_bytes(1024) == 1234
    exact = 2 * 1258 + 84 + 25000 + 25216
    assert headroom_bytes(100 * G, 1000, 1024) == -(-exact // 1024) * 1024


@pytest.mark.parametrize(
    ("rate", "quanta"),
    # IEEE 802.3 clause 31B.3.7 as tabulated in sonic-swss.
    [
        (800 * G, 905),
        (400 * G, 905),
        (200 * G, 453),
        (100 * G, 394),
        (25 * G, 80),
        (10 * G, 67),
        (G, 2),
        (10**7, 1),
    ],
)
def test_peer_response_follows_the_table_by_rate(rate: int, quanta: int) -> None:
    assert peer_response_quanta(rate) == quanta


@pytest.mark.parametrize(
    ("rate", "kmin", "kmax"), [(25, 100_000, 400_000), (100, 400_000, 1_600_000), (400, 1_600_000, 6_400_000)]
)
def test_the_hpcc_preset_scales_with_the_rate(rate: int, kmin: int, kmax: int) -> None:
    policy = default_policies(rate * G, 1000, 1024, PolicyOptions(ecn="hpcc"))[3]
    assert (policy.ecn_kmin_bytes, policy.ecn_kmax_bytes, policy.ecn_pmax) == (kmin, kmax, 0.2)


@pytest.mark.parametrize("preset", [name for name in ECN_PRESETS if name != "off"])
@pytest.mark.parametrize("rate", [10, 25, 100, 400])
def test_marking_comes_before_pausing_and_xon_lasts_a_round_trip(preset: str, rate: int) -> None:
    policy = default_policies(rate * G, 1000, 1024, PolicyOptions(ecn=preset))[3]
    assert policy.ecn_kmin_bytes < policy.xoff_bytes
    assert policy.xon_bytes < policy.xoff_bytes
    assert policy.xon_bytes >= 2 * 1000 * rate / 8
    assert policy.lossless


def test_switching_marking_off_leaves_pausing_as_it_was() -> None:
    marked, plain = (
        default_policies(100 * G, 1000, 1024, PolicyOptions(ecn=name))[3] for name in ("lab", "off")
    )
    assert (plain.xoff_bytes, plain.xon_bytes, plain.headroom_bytes) == (
        marked.xoff_bytes,
        marked.xon_bytes,
        marked.headroom_bytes,
    )
    assert plain.ecn_kmax_bytes == 0


def test_only_the_data_class_is_lossless_and_without_pfc_none_is() -> None:
    policies = default_policies(100 * G, 1000, 1024)
    assert [cls for cls, policy in policies.items() if policy.lossless] == [3]
    without = default_policies(100 * G, 1000, 1024, PolicyOptions(pfc=False))
    assert not any(policy.lossless for policy in without.values())
    assert without[3].ecn_kmax_bytes > 0


def test_any_field_can_be_replaced_by_class() -> None:
    policy = default_policies(
        100 * G, 1000, 1024, overrides={3: {"xoff_bytes": 60_000, "xon_bytes": 40_000}}
    )[3]
    assert (policy.xoff_bytes, policy.xon_bytes) == (60_000, 40_000)


@pytest.mark.parametrize(
    ("options", "overrides", "words"),
    [
        (PolicyOptions(ecn="hppc"), {}, "did you mean 'hpcc'?"),
        (None, {3: {"xof_bytes": 1}}, "did you mean 'xoff_bytes'?"),
        (None, {9: {}}, "classes are 0 to 7"),
        (None, {3: {"xoff_bytes": 10}}, "xon_bytes"),
        (None, {3: {"ecn_kmin_bytes": 10**9}}, "must not exceed ecn_kmax_bytes"),
        (None, {3: {"ecn_pmax": 2.0}}, "is a probability"),
        (None, {3: {"pause_quanta": 70_000}}, "between 0 and 65535"),
    ],
)
def test_thresholds_that_contradict_are_refused(
    options: PolicyOptions | None, overrides: dict, words: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        default_policies(100 * G, 1000, 1024, options, overrides)
    assert words in str(caught.value)
