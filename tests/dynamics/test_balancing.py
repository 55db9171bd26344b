"""Load balancing: collisions of ECMP's hash, and what spraying and adaptive routing make of the same traffic."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from compiler.cache import cache_folder
from compiler.driver import compile_cached
from tests.dynamics.lab import GBPS, Outcome, byte_ps, packets, run
from tests.fabric.native import Built, NativeSwitch, ports_of
from tests.fabric.plans import star
from tests.fabric.traffic import data
from xoff.prepare import FABRIC_P4

SEEDS = 200
FAR = "10.9.0.1"

FACTORS = {
    (2, 2): 1.500, (2, 4): 1.250, (4, 4): 2.125, (8, 8): 2.597, (4, 2): 2.750, (8, 4): 3.538, (16, 8): 4.201,
    (32, 8): 7.048, (8, 2): 5.094,
}  # fmt: skip
"""(flows, paths) -> expected flows on the fullest path of a uniform hash."""


@cache
def distribution(flows: int, paths: int) -> tuple[float, float]:
    """(mean, standard deviation) of the fullest path's flows: the number of ways with at most k everywhere, exactly."""

    def at_most(k: int) -> float:
        ways = [1.0] + [0.0] * flows  # exponential generating function (sum of x^i / i!, i <= k) ** paths
        for _ in range(paths):
            ways = [
                sum(ways[n - i] / math.factorial(i) for i in range(min(k, n) + 1)) for n in range(flows + 1)
            ]
        return ways[flows] * math.factorial(flows) / paths**flows

    below = [0.0] + [at_most(k) for k in range(1, flows + 1)]
    chance = {k: below[k] - below[k - 1] for k in range(1, flows + 1)}
    mean = sum(k * p for k, p in chance.items())
    return mean, math.sqrt(sum((k - mean) ** 2 * p for k, p in chance.items()))


@pytest.mark.parametrize(("flows", "paths"), FACTORS)
def test_the_closed_form_is_the_published_one(flows: int, paths: int) -> None:
    assert distribution(flows, paths)[0] == pytest.approx(FACTORS[flows, paths], abs=0.0006)


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Built:
    compiled = compile_cached(FABRIC_P4, cache_folder() / "programs")
    folder = tmp_path_factory.mktemp("fabric")
    (folder / "fabric.p4info.txtpb").write_text(compiled.p4info)
    (folder / "fabric.json").write_text(json.dumps(compiled.json))
    return Built(folder / "fabric.json", folder / "fabric.p4info.txtpb")


@pytest.mark.parametrize(("flows", "paths"), FACTORS)
def test_ecmp_collides_as_often_as_a_uniform_hash(fabric: Built, flows: int, paths: int) -> None:
    """200 sets of flows through the program's own hash, each with the hash seed of another switch."""
    fullest = []
    rng = random.Random(flows * 100 + paths)
    ports = tuple(range(2, 2 + paths))
    switch = None
    for seed in range(SEEDS):
        if seed % 20 == 0:
            if switch is not None:
                switch.close()
            plan = star(9, rate_bps=100 * GBPS, groups={"10.9.0.0/16": ports}, seed=rng.getrandbits(32))
            switch = NativeSwitch(fabric, plan)
        assert switch is not None
        for source in rng.sample(range(49152, 65536), flows):
            switch.send(1, data(1, 0, to=FAR, sport=source, size=100))
        switch.drain()
        chosen = ports_of(switch.take())
        assert len(chosen) == flows
        fullest.append(max(Counter(chosen).values()))
    assert switch is not None
    switch.close()
    mean, deviation = distribution(flows, paths)
    assert sum(fullest) / SEEDS == pytest.approx(mean, abs=3.5 * deviation / math.sqrt(SEEDS))


@pytest.fixture(scope="module")
def permutation(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """A permutation of 16 hosts whose pairs are all in different pods, under each balancing."""
    found = {}
    for mode in ("ecmp", "spray", "adaptive"):
        outcome = run(
            tmp_path_factory.mktemp(mode), topology="fattree:k=4", mtu=4096, load_balancing=mode, ecn=False,
            workload={"kind": "permutation", "shift": 4, "bytes": 1_000_000},
        )  # fmt: skip
        assert outcome.summary["drops_total"] == 0
        found[mode] = {"duration": outcome.duration, "spread": outcome.summary["path_spread"]}
    return found


def test_spraying_uses_every_path_of_a_full_fabric(permutation: dict[str, dict[str, float]]) -> None:
    wire = sum(packets(1_000_000, 4096)) * byte_ps(100 * GBPS) / 1000
    assert permutation["spray"]["duration"] < 1.1 * (wire + 6_000)
    assert permutation["spray"]["spread"] < 1.02


def test_ecmp_is_as_slow_as_its_worst_collision(permutation: dict[str, dict[str, float]]) -> None:
    # At least two of 16 flows share a link (with certainty but for a chance of about 10^-4): twice the time or more.
    assert permutation["ecmp"]["duration"] > 1.9 * permutation["spray"]["duration"]


def test_adaptive_routing_lies_between_spraying_and_ecmp(permutation: dict[str, dict[str, float]]) -> None:
    spray, adaptive, ecmp = (permutation[m]["duration"] for m in ("spray", "adaptive", "ecmp"))
    assert 0.98 * spray <= adaptive < ecmp
    assert permutation["adaptive"]["spread"] < permutation["ecmp"]["spread"]


def test_weighted_paths_are_as_fast_as_the_slow_link_lets_its_switch_be(tmp_path: Path) -> None:
    """c1-a1 at a tenth: half of the pod's bytes leave over a1's 10 + 100 Gb/s, in that proportion, not 2 x 10."""
    sizes = packets(2_000_000, 4096)
    found = {
        weighted: run(
            tmp_path, topology="fattree:k=4", mtu=4096, load_balancing="spray", ecn=False, wcmp=weighted,
            workload={"kind": "permutation", "shift": 4, "bytes": 2_000_000}, control_latency="0ns",
            actions=[{"at": "0ns", "set_rate": {"switch": "c1", "towards": "a1", "rate": "10Gbps"}}],
        )
        for weighted in (False, True)
    }  # fmt: skip
    half = 4 * sum(sizes) / 2 * 8
    assert found[True].duration == pytest.approx(half / 110 + 10_000, rel=0.05)
    assert found[False].duration == pytest.approx(half / 20 + 10_000, rel=0.05)
    assert found[True].summary["drops_total"] == 0


def test_weights_follow_a_link_back_to_its_rate(tmp_path: Path) -> None:
    """Slow for 50 us of the run: afterwards both links of a1 get the same again."""
    outcome = run(
        tmp_path, topology="fattree:k=4", mtu=4096, load_balancing="spray", ecn=False, wcmp=True,
        workload={"kind": "permutation", "shift": 4, "bytes": 4_000_000}, control_latency="0ns", sample="10us",
        actions=[
            {"at": at, "set_rate": {"switch": "c1", "towards": "a1", "rate": rate}}
            for at, rate in (("0ns", "10Gbps"), ("50us", "100Gbps"))
        ],
    )  # fmt: skip
    sent = {
        core: [
            (r["t"] - outcome.begin, r["tx_bytes"])
            for r in outcome.of("port")
            if r["node"] == "a1" and r["port"] == _towards(outcome, "a1", core)
        ]
        for core in ("c1", "c2")
    }

    def between(core: str, begin: int, end: int) -> int:
        values = [total for t, total in sent[core] if begin <= t <= end]
        return values[-1] - values[0]

    assert between("c1", 10_000, 50_000) < 0.15 * between("c2", 10_000, 50_000)
    assert between("c1", 120_000, 250_000) > 0.9 * between("c2", 120_000, 250_000)


def _towards(outcome: Outcome, switch: str, peer: str) -> int:
    return next(port.number for port in outcome.plan.switch(switch).ports if port.peer == peer)
