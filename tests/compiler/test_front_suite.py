"""The front end against programs that nobody here wrote: p4c's sample and must-fail programs, the p4lang tutorials."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.errors import CompileError
from compiler.p4info import p4info_entries, p4info_text
from compiler.typecheck import check
from tests.compiler.typed_tree_contract import violations

P4C = Path("/opt/judges/p4c")
SAMPLES = P4C / "testdata/p4_16_samples"
REFERENCE = P4C / "testdata/p4_16_samples_outputs"
MUST_FAIL = P4C / "testdata/p4_16_errors"
TUTORIALS = Path("/opt/judges/tutorials/exercises")

pytestmark = [
    pytest.mark.judge,
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="p4c's test programs are not on this machine"),
]

FRAGMENTS = {"bitwise-and.p4", "issue1524.p4", "issue2735.p4", "issue407-2.p4", "issue407-3.p4"}
"""Samples without a main package: there is nothing to instantiate."""

DIFFERENT_ON_PURPOSE = {
    # p4c drops a register whose type is written through a typedef; it is there, and a controller may want it
    "issue2735-bmv2.p4",
    # two action profiles of the same name, which P4Runtime forbids; p4c takes the first of two @name annotations
    "action_profile_max_group_size_annotation.p4",
}


def v1model_samples() -> list[Path]:
    """The sample programs for v1model that are whole programs."""
    if not SAMPLES.is_dir():
        return []
    found = [p for p in SAMPLES.rglob("*.p4") if "include" not in p.parts and p.name not in FRAGMENTS]
    return sorted(p for p in found if "v1model.p4" in p.read_text(errors="replace"))


def test_every_v1model_sample_is_accepted_with_a_complete_typed_tree_and_p4cs_p4info() -> None:
    different: list[str] = []
    compared = 0
    for path in v1model_samples():
        program = check(path)
        assert violations(program) == []
        reference = REFERENCE / f"{path.relative_to(SAMPLES)}.p4info.txtpb"
        if not reference.exists():
            continue
        compared += 1
        if p4info_text(program).strip() != reference.read_text().strip():
            different.append(path.name)
        entries = REFERENCE / f"{path.relative_to(SAMPLES)}.entries.txtpb"
        assert p4info_entries(program).strip() == entries.read_text().strip(), path.name
    assert compared >= 460
    assert set(different) == DIFFERENT_ON_PURPOSE


def test_programs_that_must_fail_get_errors_and_never_a_traceback() -> None:
    accepted = []
    programs = sorted(MUST_FAIL.glob("*.p4"))
    for path in programs:
        try:
            p4info_text(check(path, [P4C / "p4include", P4C / "p4include/bmv2"]))
        except CompileError as error:
            assert error.diagnostics
        else:
            accepted.append(path.name)
    assert len(programs) > 500
    assert len(accepted) <= len(programs) // 12, accepted


@pytest.mark.skipif(not TUTORIALS.is_dir(), reason="the p4lang tutorials are not on this machine")
def test_the_tutorials_solutions_are_accepted() -> None:
    solutions = sorted(TUTORIALS.glob("*/solution/*.p4"))
    assert len(solutions) >= 10
    for path in solutions:
        assert violations(check(path)) == []
