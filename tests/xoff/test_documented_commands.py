"""What the pages tell people to type is accepted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from xoff import run as run_module
from xoff.cli import app
from xoff.clocks.context import make_context
from xoff.experiment import Experiment, from_mapping

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *REPOSITORY.glob("labs/*/README.md"),
]
COMMAND = re.compile(
    r"^    (?:sudo )?(?:\.venv/bin/)?xoff (run|topo|demo|trace) ?(.*?)(?:\s{2,}#.*|\s+#.*)?$", re.MULTILINE
)
COMMANDS = sorted(
    {(m.group(1), m.group(2).strip()) for page in PAGES for m in COMMAND.finditer(page.read_text())}
)


class Accepted(Exception):
    """The command line was understood; carries the experiment."""


@pytest.mark.parametrize(("command", "arguments"), COMMANDS)
def test_a_documented_command_is_accepted(command, arguments, monkeypatch):
    words = shlex.split(arguments)
    if any(word in ("--help", "<file>") or word.startswith(("runs/", "incast.yaml")) for word in words):
        pytest.skip("a placeholder of the page")
    seen: list[Experiment] = []

    def execute(experiment: Experiment, out: Path) -> None:
        seen.append(experiment)
        make_context(experiment)
        raise Accepted

    monkeypatch.setattr(run_module, "execute", execute)
    monkeypatch.chdir(REPOSITORY)
    result = CliRunner().invoke(app, [command, *words])
    if command in ("topo", "trace"):
        assert result.exit_code == 0, result.output
    else:
        assert seen and isinstance(result.exception, Accepted), (result.output, result.exception)


def test_there_are_commands_to_try():
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_example_experiment_is_one():
    page = (REPOSITORY / "docs" / "experiments.md").read_text()
    block = re.search(r"^    name: .*?(?=^\S)", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    text = "\n".join(line[4:] for line in block.group().splitlines() if "xoff run" not in line)
    make_context(from_mapping(yaml.safe_load(text), "the page"))


def test_the_example_actions_are_ones():
    page = (REPOSITORY / "docs" / "experiments.md").read_text()
    block = re.search(r"^    actions:\n(?:      .*\n)+", page, re.MULTILINE)
    assert block is not None
    from xoff.actions import parse_actions

    assert parse_actions(yaml.safe_load(block.group())["actions"])


def test_the_example_sweep_is_the_one_that_the_page_shows():
    from xoff.sweep.grid import read_sweep

    path = REPOSITORY / "docs" / "sweep.yaml"
    page = (REPOSITORY / "docs" / "sweeps.md").read_text()
    assert "".join(f"    {line}\n" for line in path.read_text().splitlines()) in page
    assert len(read_sweep(path).points) == 36
