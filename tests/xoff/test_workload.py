"""Workloads are written in a line, a mapping or a flow file."""

import pytest

from tests.xoff.synthetic import ring_plan
from traffic.errors import TrafficError
from xoff.errors import XoffError
from xoff.workload import build_workload


def test_a_line_and_a_mapping_say_the_same():
    line = build_workload("allreduce:bytes=3MB,channels=2", ring_plan(), 1)
    mapping = build_workload({"kind": "allreduce", "bytes": "3MB", "channels": 2}, ring_plan(), 1)
    assert line == mapping and line.bytes == 3_000_000 and line.ranks == ("h0", "h1", "h2")


def test_ranks_limits_the_workload_to_the_first_hosts():
    assert build_workload("alltoall:bytes=2MB,ranks=2", ring_plan(), 1).ranks == ("h0", "h1")


def test_a_permutation_follows_the_seed():
    def goals(seed: int) -> tuple[str, ...]:
        return tuple(m.dst for m in build_workload("permutation:bytes=1MB", ring_plan(), seed).messages)

    assert {goals(seed) for seed in range(20)} == {("h1", "h2", "h0"), ("h2", "h0", "h1")}
    assert goals(3) == goals(3)


def test_a_flow_file_is_a_workload(tmp_path):
    path = tmp_path / "flow.txt"
    path.write_text("2\n0 1 3 100 1000 0\n1 2 3 100 2000 0.001\n")
    workload = build_workload(str(path), ring_plan(), 1)
    assert [(m.src, m.dst, m.bytes) for m in workload.messages] == [("h0", "h1", 1000), ("h1", "h2", 2000)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("allredice", "allredice.* is unknown"),
        ("allreduce:4MiB", "write allreduce:key=value"),
        ("allreduce:bytes=lots", "not a quantity"),
        ("allreduce:ranks=9", "the fabric has 3 hosts"),
        ("allreduce:bytes=1,bytes=2", "given twice"),
        ("allreduce:flavour=mint", "no option 'flavour'"),
        ({"bytes": 5}, "give `kind:`"),
        ("nowhere/flow.txt", "cannot read"),
        ("a\0/flow.txt", "cannot read"),
        ("incast:bytes=1MB,senders=7", "7 senders"),
    ],
)
def test_a_wrong_workload_is_one_sentence(spec, message):
    with pytest.raises((XoffError, TrafficError), match=message):
        build_workload(spec, ring_plan(), 1)
