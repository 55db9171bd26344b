"""Everything in Python that reads other people's bytes: the inputs that were found to matter, and a few made up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import corpus
from tests.fuzz.python_targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_is_taken_or_refused(target: str) -> None:
    inputs = corpus.read(target)
    assert len(inputs) > 20, "the corpora are part of the repository"
    for data in [*inputs, *TARGETS[target].seeds()]:
        TARGETS[target].one(data)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=30)
@given(st.data())
def test_a_changed_input_is_taken_or_refused(target: str, data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from(corpus.read(target))))
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4)):
        if changed:
            changed[place % len(changed)] = value
    TARGETS[target].one(bytes(changed))


def test_a_topology_too_long_for_a_file_name_is_no_family() -> None:
    TARGETS["files"].one(b"\x02" + b"a" * 300)
