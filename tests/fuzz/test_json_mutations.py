"""BMv2 JSON with several places changed at random: refused in a sentence, or its code is clean under the sanitizers.

`XOFF_MUTANTS` says how many mutants of each program are looked at (default 25), `XOFF_MUTANTS_RUN` how many of the
accepted ones are compiled and fed with packets (default 1); `XOFF_MUTANTS_SEED` begins another sequence.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from switch.native.cgen import generate
from switch.native.program import Program, ProgramError
from tests.fuzz.build import Builder, documents, run

MUTANTS = int(os.environ.get("XOFF_MUTANTS", "25"))
RUN = int(os.environ.get("XOFF_MUTANTS_RUN", "1"))
SEED = int(os.environ.get("XOFF_MUTANTS_SEED", "1"))
PROGRAMS = ("decisions", "tables", "state", "headers")


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of everything in the document."""
    keys: list[Any] = []
    if isinstance(node, dict):
        keys = [key for key in node if key != "source_info"]
    elif isinstance(node, list):
        keys = list(range(len(node)))
    for key in keys:
        yield node, key
        yield from places(node[key])


def mutated(document: Any, random: Random) -> Any:
    """A copy with one to three places changed to something of the same kind, dropped, doubled or exchanged."""
    changed = copy.deepcopy(document)
    for _ in range(random.choice([1, 1, 2, 3])):
        everything = list(places(changed))
        where, key = random.choice(everything)
        value = where[key]
        if isinstance(value, bool):
            where[key] = not value
        elif isinstance(value, int):
            where[key] = random.choice([0, 1, value + 1, value - 1, 7, 8, 63, 64, 65, 129, 511, -1, 2**31])
        elif isinstance(value, str) and value.startswith("0x"):
            where[key] = random.choice(["0x00", "0x1", "0xff", "0xffffffff", "0x" + "f" * 40, "-0x1"])
        elif isinstance(value, str):
            others = [c[k] for c, k in everything if isinstance(c[k], str)]
            where[key] = random.choice(others)
        elif isinstance(value, list) and value:
            action = random.randrange(4)
            if action == 0:
                del value[random.randrange(len(value))]
            elif action == 1:
                value.append(copy.deepcopy(random.choice(value)))
            elif action == 2:
                random.shuffle(value)
            else:
                where[key] = []
        elif isinstance(value, dict):
            same = [c[k] for c, k in everything if isinstance(c[k], dict) and c[k].keys() == value.keys()]
            where[key] = copy.deepcopy(random.choice(same))
        else:
            where[key] = None
    return changed


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mutant_is_refused_in_a_sentence_or_does_no_harm(
    name: str, builder: Builder, tmp_path: Path
) -> None:
    text, info = documents(f"tests/switch/programs/{name}")
    document = json.loads(text)
    random = Random(f"{name} {SEED}")
    accepted = refused = 0
    for _ in range(MUTANTS):
        text = json.dumps(mutated(document, random))
        try:
            program = Program.from_text(text, info)
            generate(program)
        except ProgramError as error:
            refused += 1
            assert str(error).strip()
            continue
        accepted += 1
        if accepted <= RUN:
            (tmp_path / "mutant.json").write_text(text)  # what a failure was about
            run(builder.engine("mutant", [Program.from_text(text, info)]), "--random", "1", "60")
    assert accepted + refused == MUTANTS
    assert accepted and refused
