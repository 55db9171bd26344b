"""The forwarding benchmark compares forwarders within a round, and says which aims are reached."""

from __future__ import annotations

import pytest

from benchmarks.forwarding import bmv2_builds
from benchmarks.forwarding_report import NATIVE, OPTIMISED, ORDINARY, PLAIN, Figure, Run, Table


def figure(forwarder: str, program: str, number: int, delivered: int, cpu_s: float, p50_us: float) -> Figure:
    return Figure(Run(forwarder, program, 64, number), delivered, delivered, 1.0, cpu_s, p50_us, 2 * p50_us)


def compared(*rounds: dict[str, tuple[int, float, float]]) -> dict[str, list[str]]:
    """Other forwarder -> words of its line, fabric.p4 at 64 bytes."""
    figures = [
        figure(who, "" if who == PLAIN else "fabric", number, *values)
        for number, measured in enumerate(rounds)
        for who, values in measured.items()
    ]
    lines = list(Table(figures).compared())[1:]
    return {who: line.partition(who)[2].split() for line in lines for who in (PLAIN, ORDINARY) if who in line}


def test_a_round_in_which_the_machine_was_slow_is_slow_for_everyone() -> None:
    fast = {PLAIN: (1000, 1.0, 10.0), NATIVE: (800, 1.0, 20.0), ORDINARY: (40, 1.0, 100.0)}
    slow = {PLAIN: (100, 1.0, 100.0), NATIVE: (80, 1.0, 200.0), ORDINARY: (4, 1.0, 1000.0)}
    lines = compared(slow, fast, slow)
    assert lines[PLAIN] == ["0.80", "2.00", "2.00", "0.7:", "reached"]
    assert lines[ORDINARY] == ["20.00", "0.20", "0.20", "20:", "reached"]


def test_packets_are_counted_per_cpu_second_not_per_second() -> None:
    lines = compared({PLAIN: (1000, 0.5, 10.0), NATIVE: (1000, 1.0, 10.0)})
    assert lines[PLAIN] == ["0.50", "1.00", "1.00", "0.7:", "missed"]


def test_builds_are_named(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = tmp_path / "simple_switch_grpc"
    switch.write_text("#!/bin/sh\n")
    switch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BMV2", raising=False)
    monkeypatch.delenv("BMV2_OPTIMISED", raising=False)
    assert bmv2_builds([]) == {ORDINARY: str(switch)}
    assert bmv2_builds([f"a={switch}", f"b={switch}"]) == {"a": str(switch), "b": str(switch)}
    monkeypatch.setenv("BMV2_OPTIMISED", str(switch))
    assert bmv2_builds([]) == {OPTIMISED: str(switch)}
    for wrong in ([str(switch)], ["a=/no/such"], [f"a={switch}", f"a={switch}"]):
        with pytest.raises(SystemExit):
            bmv2_builds(wrong)
