"""The engine, generated programs and the NIC in C under the sanitizers: every input that was ever found to matter, and
random ones.

`XOFF_FUZZ_RUNS` says how many random inputs a harness gets (default 150). A failure prints the sanitizer's report.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz import corpus
from tests.fuzz.build import TARGETS, Builder, run

RUNS = int(os.environ.get("XOFF_FUZZ_RUNS", "150"))


@pytest.fixture(scope="session")
def harness(builder: Builder) -> dict[str, Path]:
    """The executables."""
    return {name: builder.target(name) for name in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_does_no_harm(target: str, harness: dict[str, Path], tmp_path: Path) -> None:
    count = corpus.unpack(target, tmp_path)
    assert count > 50, "the corpora are part of the repository"
    assert run(harness[target], *map(str, tmp_path.iterdir())) == count


@pytest.mark.parametrize("target", TARGETS)
def test_random_input_does_no_harm(target: str, harness: dict[str, Path]) -> None:
    assert run(harness[target], "--random", "1", str(RUNS)) == RUNS
