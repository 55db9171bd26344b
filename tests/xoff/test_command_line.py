"""What the command line says: help that loses no word, tables with units."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from typer.testing import CliRunner

from xoff.cli import app
from xoff.experiment import Experiment


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\s+", " ", re.sub(r"[│╭╮╰╯─┌┐└┘┬┴]", " ", result.output))


def test_the_help_of_an_option_is_shown_in_whole():
    shown = output("run", "--help")
    for field in fields(Experiment):
        if f"--{field.name.replace('_', '-')}" in shown:
            assert field.metadata["help"].replace("`", "") in shown, field.name


@pytest.mark.parametrize("command", ["run", "demo", "sweep", "topo", "shell", "report", "clean"])
def test_no_help_has_a_gap_where_a_placeholder_was(command):
    assert not re.search(r"runs/-|/\.pcap|Default: [.│]", output(command, "--help"))


def test_a_fat_tree_is_described_by_its_closed_forms():
    shown = output("topo", "fattree:k=4,oversubscription=2")
    assert "hosts 16 " in shown  # k^3/4
    assert "switches 20 (8 edge, 8 aggregation, 4 core)" in shown  # 5k^2/4
    assert "bisection 8 links, 400 Gb/s each way" in shown  # k^3/8 links of half the rate
    assert "edge switches 2 between 8 pairs, 4 between 48 pairs" in shown  # k/2 in a pod, (k/2)^2 else
    assert "deadlock-free" in shown
