"""What a sweep's file means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xoff.errors import XoffError
from xoff.sweep.grid import Sweep, parse_sweep, read_sweep


def parse(data: Any) -> Sweep:
    return parse_sweep(data, "sweep.yaml", Path())


def test_a_grid_is_every_combination_in_the_order_of_the_file() -> None:
    sweep = parse({"grid": {"congestion_control": ["none", "dcqcn"], "seed": [1, 2, 3]}})
    assert [(p.experiment.congestion_control, p.experiment.seed) for p in sweep.points] == [
        ("none", 1), ("none", 2), ("none", 3), ("dcqcn", 1), ("dcqcn", 2), ("dcqcn", 3),
    ]  # fmt: skip
    assert sweep.axes == {"congestion_control": ["none", "dcqcn"], "seed": [1, 2, 3]}


def test_dotted_keys_reach_into_workload_topology_and_classes() -> None:
    sweep = parse(
        {
            "base": {
                "workload": "incast:bytes=1MB,senders=2",
                "topology": {"kind": "leafspine", "leaves": 1, "spines": 0},
            },
            "grid": {"workload.senders": [3], "topology.hosts_per_leaf": [8], "classes.3.ecn_kmin_bytes": [5000]},
        }
    )  # fmt: skip
    (point,) = sweep.points
    assert point.experiment.workload == {"kind": "incast", "bytes": "1MB", "senders": 3}
    assert point.experiment.topology == {"kind": "leafspine", "leaves": 1, "spines": 0, "hosts_per_leaf": 8}
    assert point.experiment.classes == {3: {"ecn_kmin_bytes": 5000}}
    assert point.experiment.clock == "virtual"


def test_cases_set_several_keys_together_and_multiply_with_the_grid() -> None:
    sweep = parse(
        {
            "cases": {"tuned": {"load_balancing": "spray", "congestion_control": "hpcc"}, "plain": {}},
            "grid": {"seed": [1, 2]},
        }
    )
    assert [(p.settings["case"], p.settings["seed"], p.experiment.load_balancing) for p in sweep.points] == [
        ("tuned", 1, "spray"), ("tuned", 2, "spray"), ("plain", 1, "ecmp"), ("plain", 2, "ecmp"),
    ]  # fmt: skip


def test_a_point_is_named_by_its_experiment_alone() -> None:
    short = parse({"grid": {"seed": [1, 2]}})
    long = parse(
        {"name": "other", "grid": {"seed": [3, 2, 1]}, "plots": [{"x": "seed", "y": "completion_us"}]}
    )
    ids = {p.experiment.seed: p.id for p in long.points}
    assert all(ids[p.experiment.seed] == p.id for p in short.points)
    assert len(set(ids.values())) == 3


def test_the_base_may_be_an_experiment_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("workload: incast:bytes=1MB\nclock: virtual\n")
    (tmp_path / "sweep.yaml").write_text("base: base.yaml\ngrid: {seed: [5]}\n")
    (point,) = read_sweep(tmp_path / "sweep.yaml").points
    assert point.experiment.workload == "incast:bytes=1MB" and point.experiment.seed == 5


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ([], "mapping"),
        ({"gird": {}}, "gird"),
        ({"grid": {"seed": 3}}, "lists of values"),
        ({"grid": {"seed": []}}, "lists of values"),
        ({"grid": {"sead": [1]}}, "did you mean seed"),
        ({"grid": {"load_balancing": ["fastest"]}}, "fastest"),
        ({"base": {"rate": "1Gbps"}, "grid": {"rate.x": [1]}}, "cannot be set in"),
        ({"grid": {"seed": [1, 1]}}, "same experiment"),
        ({"base": {"clock": "mininet"}}, "virtual time"),
        ({"base": {"hold": True}}, "nobody who does"),
        ({"base": 3}, "base is a mapping"),
        ({"base": "nowhere.yaml"}, "cannot read"),
        ({"grid": {"seed": list(range(1000)), "mtu": [256] * 1000}}, "more than"),
        ({"grid": {"seed": [1, 2]}, "plots": [{"x": "mtu", "y": "completion_us"}]}, "x is one of seed"),
        ({"grid": {"seed": [1, 2]}, "plots": [{"x": "seed"}]}, "x, y"),
    ],
)
def test_what_is_wrong_with_a_sweep_is_told(data: Any, complaint: str) -> None:
    with pytest.raises(XoffError, match=complaint):
        parse(data)


def test_a_file_that_is_no_yaml_is_told(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    for text, complaint in (
        ("grid: [", "not valid YAML"),
        ("grid: {seed: [1]}\ngrid: {seed: [2]}\n", "grid is given twice"),
        (f"grid: {{seed: [0x{'f' * 5000}]}}\n", "at most 64 bits"),
    ):
        path.write_text(text)
        with pytest.raises(XoffError, match=complaint):
            read_sweep(path)
    with pytest.raises(XoffError, match="cannot read"):
        read_sweep(tmp_path / "missing.yaml")
