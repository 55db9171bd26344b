"""Topologies as users write them, and what a slip of the pen gets for an answer."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.fabric import TopologyError
from topologies.planning import make_plan
from topologies.spec import topology_from_spec
from topologies.summary import summarise
from topologies.units import parse_bytes, parse_rate, parse_time_ns


def test_text_and_mapping_say_the_same() -> None:
    text = topology_from_spec("fattree:k=4,oversubscription=2:1,rate=25G,delay=0.5us")
    mapping = topology_from_spec(
        {"kind": "fattree", "k": 4, "oversubscription": 2, "rate": "25Gbps", "delay": "500ns"}
    )
    assert make_plan(text) == make_plan(mapping)
    assert summarise(text).oversubscription == 2.0
    host = make_plan(text).hosts[0]
    assert (host.rate_bps, host.delay_ns) == (25 * 10**9, 500)


@pytest.mark.parametrize("dims", ["4x4", "4X4", [4, 4], (4, 4)])
def test_torus_sizes_are_written_with_an_x_or_as_a_list(dims: object) -> None:
    assert topology_from_spec({"kind": "torus", "dims": dims}).graph["dims"] == (4, 4)


def test_a_path_is_read_as_a_topology_file(tmp_path: Path) -> None:
    path = tmp_path / "topology.txt"
    path.write_text("3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n")
    for spec in (str(path), path, f"file:{path}", {"file": str(path)}):
        assert summarise(topology_from_spec(spec)).hosts == 2


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("fattree:k=5", "k is an even number of switch ports"),
        ("fattree:k=four", "k is a whole number such as 4"),
        ("fattree:k=4.0", "k is a whole number such as 4"),
        ("fattree:oversubscripton=2", "did you mean 'oversubscription'?"),
        ("fattree:oversubscripton=2", "accepted: k, oversubscription, hosts_per_edge, rate, delay"),
        ("fattree:k", "parameters are written key=value"),
        ("fattree:k=4,k=6", "k is given twice"),
        ("fattree:rate=fast", "rate 'fast' is not a quantity; accepted: 100G"),
        ("fattree:delay=-1us", "must not be negative"),
        ("fattree:oversubscription=much", "a ratio such as 2 or 2:1"),
        ("fat-tree", "did you mean 'fattree'?"),
        ("fattree4", "did you mean 'fattree'?"),
        ("hypercube", "accepted: fattree, dragonflyplus, torus, leafspine, rail, ring"),
        ("torus:dims=4by4", "sizes joined by x"),
        ("/nowhere/topology.txt", "cannot be read: No such file"),
        ({"k": 4}, "give `kind: FAMILY`"),
        ({"kind": "fattree", "family": "torus"}, "once"),
        ({"file": "a.txt", "k": 4}, "`file` stands alone"),
        ({"kind": "fattree", "k": True}, "k=True is not accepted"),
        ({"kind": "fattree", "k": [4]}, "is not accepted"),
        (4, "not int"),
    ],
)
def test_a_slip_gets_a_sentence_that_says_what_is_accepted(spec: object, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        topology_from_spec(spec)  # type: ignore[arg-type]
    assert words in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30).map(lambda tail: f"fattree:{tail}") | st.text(max_size=30))
def test_any_text_gives_a_fabric_or_a_topology_error(text: str) -> None:
    with contextlib.suppress(TopologyError):
        topology_from_spec(text)


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("100G", 10**11),
        ("25Gbps", 25 * 10**9),
        ("10 Mb/s", 10**7),
        ("12.5GB/s", 10**11),
        ("1e9", 10**9),
        (400, 400),
    ],
)
def test_rates_are_read_with_their_units(text: str | int, bps: int) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "ns"), [("1us", 1000), ("0.001ms", 1000), ("2s", 2 * 10**9), (7, 7), ("1µs", 1000)]
)
def test_times_are_read_with_their_units(text: str | int, ns: int) -> None:
    assert parse_time_ns(text) == ns


@pytest.mark.parametrize(("text", "size"), [("64KiB", 65536), ("400KB", 400_000), ("2M", 2_000_000), (9, 9)])
def test_sizes_are_read_with_their_units(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("spec", ["/\0", "a\0.txt", {"file": "x\0"}, "file:\0"])
def test_a_path_with_a_nul_character_is_refused_in_a_sentence(spec: object) -> None:
    with pytest.raises(TopologyError):
        topology_from_spec(spec)  # type: ignore[arg-type]
