"""The front end against programs that nobody here wrote: p4c's sample and must-fail programs, the p4lang tutorials."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compiler.typecheck import check
from tests.compiler.typed_tree_contract import violations
from tests.conformance import mustfail, p4info

P4C = Path("/opt/judges/p4c")
TESTDATA = P4C / "testdata"
TUTORIALS = Path("/opt/judges/tutorials/exercises")

pytestmark = [
    pytest.mark.judge,
    pytest.mark.skipif(not TESTDATA.is_dir(), reason="p4c's test programs are not on this machine"),
]

EVERY = int(os.environ.get("XOFF_P4C_EVERY", "6"))
"""Every so many programs are tried; 1 tries all."""


def test_v1model_samples_have_a_complete_typed_tree_and_p4cs_p4info() -> None:
    chosen = p4info.references(TESTDATA)[::EVERY]
    assert len(chosen) >= 470 // EVERY
    for path, reference in chosen:
        if path.name in p4info.KNOWN:
            continue
        assert violations(check(path)) == []
        assert p4info.difference(path, reference) is None, path.name


def test_what_differs_from_p4cs_p4info_on_purpose_still_does() -> None:
    for path, reference in p4info.references(TESTDATA):
        if path.name in p4info.KNOWN:
            assert p4info.difference(path, reference) is not None, path.name


def test_programs_that_must_fail_are_refused_at_the_place() -> None:
    chosen = mustfail.programs(TESTDATA)[::EVERY]
    assert len(chosen) >= 580 // EVERY
    wrong = {p.name: why for p in chosen if (why := mustfail.why(TESTDATA, p)) is not None}
    assert set(wrong) <= set(mustfail.KNOWN), wrong


@pytest.mark.skipif(not TUTORIALS.is_dir(), reason="the p4lang tutorials are not on this machine")
def test_the_tutorials_solutions_are_accepted() -> None:
    solutions = sorted(TUTORIALS.glob("*/solution/*.p4"))
    assert len(solutions) >= 10
    for path in solutions:
        assert violations(check(path)) == []
