"""HPCC's flow files: what the published ones look like, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.errors import TrafficError
from traffic.workloads.hpcc_flow import parse_flows, read_flows

HOSTS = [f"h{i}" for i in range(4)]
SHAPE = "2\n2 1 3 100 200000000 2\n0 1 3 100 200000000 2.005\n"
"""The shape of the flow file that HPCC publishes: two flows into host 1."""


def test_a_published_flow_file_is_read() -> None:
    workload = parse_flows(SHAPE, HOSTS)
    first, second = workload.messages
    assert (first.src, first.dst, first.traffic_class, first.bytes, first.start_ns) == (
        "h2", "h1", 3, 200_000_000, 2_000_000_000,
    )  # fmt: skip
    assert (second.src, second.start_ns) == ("h0", 2_005_000_000)
    assert workload.link_bytes == 400_000_000


def test_every_flow_has_a_queue_pair_of_its_own() -> None:
    workload = parse_flows("3\n0 1 3 100 5 0\n0 1 3 100 6 0\n1 0 3 100 7 0\n", HOSTS)
    assert [m.channel for m in workload.messages] == [0, 1, 2]


def test_lines_beyond_the_announced_number_are_not_flows() -> None:
    assert len(parse_flows("1\n0 1 3 100 5 0\n0 2 3 100 5 0\n", HOSTS).messages) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"flow\.txt:1: empty"),
        ("x\n", r"flow\.txt:1: the first line is the number of flows, not 'x'"),
        ("0\n", r"flow\.txt:1: it announces 0 flows"),
        ("2\n0 1 3 100 5 0\n", r"flow\.txt:1: it announces 2 flows, 1 follow"),
        ("1\n\n0 1 3 100 5\n", r"flow\.txt:3: 5 columns; a flow has six: src dst"),
        ("1\n0 9 3 100 5 0\n", r"flow\.txt:2: host 9 is unknown; the fabric has hosts 0 to 3"),
        ("1\n0 0 3 100 5 0\n", r"flow\.txt:2: source and destination are both host 0"),
        ("1\n0 1 8 100 5 0\n", r"flow\.txt:2: priority group 8 is not 0 to 7"),
        ("1\n0 1 3 100 0 0\n", r"flow\.txt:2: 0 bytes"),
        ("1\n0 1 3 100 99999999999999 0\n", r"flow\.txt:2: 99999999999999 bytes"),
        ("1\n0 -1 3 100 5 0\n", r"flow\.txt:2: dst is a whole number, not '-1'"),
        ("1\n0 1 3 100 5 soon\n", r"flow\.txt:2: the start is a number of seconds, not 'soon'"),
        ("1\n0 1 3 100 5 nan\n", r"flow\.txt:2: the start is a number of seconds, not 'nan'"),
        ("1\n0 1 3 100 5 -1\n", r"flow\.txt:2: the start is a number of seconds, not '-1'"),
    ],
)
def test_a_bad_line_is_named_with_its_number(text: str, complaint: str) -> None:
    with pytest.raises(TrafficError, match=complaint):
        parse_flows(text, HOSTS)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match=r"cannot read the flow file \(No such file"):
        read_flows(tmp_path / "none.txt", HOSTS)
    binary = tmp_path / "flow.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TrafficError, match="not a text file"):
        read_flows(binary, HOSTS)


@given(st.text(alphabet="0123456789 .-e\nxn\u0665", max_size=60))
def test_no_text_makes_anything_but_an_error_sentence(text: str) -> None:
    try:
        parse_flows(text, HOSTS)
    except TrafficError as error:
        assert str(error).startswith("flow.txt:")
