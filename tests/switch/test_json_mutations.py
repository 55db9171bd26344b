"""BMv2 JSON with several places changed at random: refused in a sentence, or its code is clean under the sanitizers.

`XOFF_MUTANTS` says how many mutants of each program are looked at (default 25), `XOFF_MUTANTS_RUN` how many of the
accepted ones are compiled and fed with packets (default 1); `XOFF_MUTANTS_SEED` begins another sequence.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from p4programs import compiled
from test_engine_sanitized import engine_objects, fuzz, has_sanitizers

from switch.native.cgen import generate
from switch.native.program import Program, ProgramError

MUTANTS = int(os.environ.get("XOFF_MUTANTS", "25"))
RUN = int(os.environ.get("XOFF_MUTANTS_RUN", "1"))
SEED = int(os.environ.get("XOFF_MUTANTS_SEED", "1"))
PROGRAMS = ("decisions", "tables", "state", "headers")
__all__ = ["engine_objects"]  # a fixture


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


@pytest.mark.skipif(not has_sanitizers(), reason="gcc with the sanitizers is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mutant_is_refused_in_a_sentence_or_does_no_harm(
    name: str, engine_objects: list[Path], tmp_path: Path
) -> None:
    json_path, p4info = compiled(name)
    document, info = json.loads(json_path.read_text()), p4info.read_text()
    random = Random(f"{name} {SEED}")
    accepted = refused = 0
    for number in range(MUTANTS):
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
            (tmp_path / "mutant.json").write_text(text)
            folder = tmp_path / str(number)
            folder.mkdir()
            try:
                fuzz(Program.from_text(text, info), engine_objects, folder, 60, seconds=20)
            except subprocess.TimeoutExpired:
                # A packet that is sent round on a link with a rate goes round as long as time does.
                assert "recirculate" in text
    assert accepted + refused == MUTANTS
    assert accepted and refused
