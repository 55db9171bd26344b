"""BMv2 JSON that is wrong gets one sentence that names the place, and nothing else."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from p4programs import compiled

from switch.native.cgen import generate
from switch.native.program import Program, ProgramError
from switch.native.program_reader import find_annotated_registers


def document(name: str) -> dict[str, Any]:
    return dict(json.loads(compiled(name)[0].read_text()))


def load(value: Any) -> None:
    generate(Program.from_text(json.dumps(value)))


def first(items: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(i for i in items if all(i.get(k) == v for k, v in wanted.items()))


def ingress(doc: dict[str, Any]) -> dict[str, Any]:
    return first(doc["pipelines"], name="ingress")


def widen(doc: dict[str, Any]) -> None:
    first(doc["header_types"], name="key_t")["fields"][-1][1] = 3


def repeat_field(doc: dict[str, Any]) -> None:
    fields = first(doc["header_types"], name="key_t")["fields"]
    fields.append(fields[0])


def loop(doc: dict[str, Any]) -> None:
    node = ingress(doc)["conditionals"][0]
    node["true_next"] = node["name"]


def unknown_match_kind(doc: dict[str, Any]) -> None:
    next(t for t in ingress(doc)["tables"] if t["key"])["key"][0]["match_type"] = "about"


def no_egress_spec(doc: dict[str, Any]) -> None:
    fields = first(doc["header_types"], name="standard_metadata")["fields"]
    fields.remove(next(f for f in fields if f[0] == "egress_spec"))


def unknown_primitive(doc: dict[str, Any]) -> None:
    next(a for a in doc["actions"] if a["primitives"])["primitives"][0]["op"] = "fly"


BREAKAGES: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "no header types": (
        "tables",
        lambda d: d.update(header_types=3),
        r"header_types: expected an array, found .* \(3\)",
    ),
    "version 3": (
        "tables",
        lambda d: d["__meta__"].update(version=[3, 0]),
        "version 3 of the format is not known",
    ),
    "a field twice": ("tables", repeat_field, "field 'op' is defined twice"),
    "a type": (
        "tables",
        lambda d: d["headers"][0].update(header_type="none"),
        "there is no header type 'none'",
    ),
    "half a byte": ("tables", widen, "not whole bytes"),
    "a state": ("tables", lambda d: d["parsers"][0].update(init_state="x"), "there is no parser state 'x'"),
    "a loop": ("tables", loop, "the control flow loops through"),
    "a dead end": ("tables", lambda d: ingress(d).update(init_table="x"), "init_table 'x' does not exist"),
    "a match kind": ("tables", unknown_match_kind, "match kind 'about' is not known"),
    "no pipelines": ("tables", lambda d: d.update(pipelines=[]), "there is no pipeline 'ingress'"),
    "no egress_spec": ("tables", no_egress_spec, "not a v1model program"),
    "a primitive": (
        "state",
        unknown_primitive,
        r"actions\[.*\]\.primitives\[0\]\.op: primitive 'fly' is not known",
    ),
    "an algorithm": (
        "state",
        lambda d: d["calculations"][0].update(algo="md5"),
        "hash algorithm 'md5' is not known",
    ),
    "a register": ("state", lambda d: d.update(register_arrays=[]), "there is no register array"),
    "a field list": ("decisions", lambda d: d.update(field_lists=[]), "there is no field list 1"),
    "a learn list": ("decisions", lambda d: d.update(learn_lists=[]), "there is no learn list 1"),
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_a_malformed_program_names_the_place(what: str) -> None:
    name, breakage, text = BREAKAGES[what]
    doc = document(name)
    load(doc)
    breakage(doc)
    with pytest.raises(ProgramError, match=text):
        load(doc)


@pytest.mark.parametrize("text", ["", "[", "nothing", '{"header_types": [1', "[" * 100_000])
def test_what_is_no_json_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ProgramError, match="program is not JSON"):
        Program.from_text(text)


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null", "{}"])
def test_json_that_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(ProgramError):
        generate(Program.from_text(text))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [path] if path else []
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        if key not in ("source_info", "__meta__"):
            found += places(child, (*path, key))
    return found


@pytest.mark.parametrize("name", ["tables", "state", "decisions", "headers"])
def test_random_damage_gives_a_program_or_a_program_error(name: str) -> None:
    """One value of the document is replaced, removed or doubled; no other exception may come out."""
    original = document(name)
    everywhere = places(original)
    rng = random.Random(name)
    refused = 0
    for _ in range(120):
        doc = copy.deepcopy(original)
        for _ in range(rng.choice([1, 1, 2])):
            path = rng.choice(everywhere)
            parent: Any = doc
            try:
                for key in path[:-1]:
                    parent = parent[key]
                old = parent[path[-1]]
            except (KeyError, IndexError, TypeError):
                continue
            action = rng.randrange(4)
            if action == 0 and isinstance(parent, dict):
                del parent[path[-1]]
            elif action == 1 and isinstance(parent, list):
                parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(old))
            else:
                replacements = [
                    None,
                    True,
                    0,
                    7,
                    -1,
                    2**40,
                    "",
                    "0x",
                    "0xffffffffffffffffffff",
                    "hdr",
                    [],
                    [1],
                    {},
                    1.5,
                ]
                parent[path[-1]] = rng.choice(replacements)
        try:
            load(doc)
        except ProgramError as error:
            refused += 1
            assert str(error).startswith(("program", "action")), error
    assert refused > 30


# ---- the pause register's annotation ----

P4INFO = """
pkg_info { arch: "v1model" }
registers {
  preamble { id: 1 name: "plain" alias: "plain" annotations: "@brief(\\"@xoff_queue_pause\\")" }
  size: 8
}
registers {
  preamble {
    id: 2
    name: "Ingress.pause"  # a comment with { braces
    annotations: "@hidden"
    annotations: "@xoff_queue_pause"
  }
  type_spec { bitstring { bit { bitwidth: 48 } } }
}
counters { preamble { name: "c" annotations: "@xoff_queue_pause" } }
"""


def test_the_annotated_register_is_found_in_p4info_text() -> None:
    assert find_annotated_registers(P4INFO, "@xoff_queue_pause") == ["Ingress.pause"]
    assert find_annotated_registers("", "@xoff_queue_pause") == []


def test_an_annotated_register_that_the_program_lacks_is_refused() -> None:
    with pytest.raises(
        ProgramError, match=r"register 'Ingress\.pause' \(@xoff_queue_pause\) is not in the program"
    ):
        Program.from_text(compiled("state")[0].read_text(), P4INFO)


def test_two_annotated_registers_are_refused() -> None:
    with pytest.raises(ProgramError, match="more than one register is annotated"):
        Program.from_text(compiled("state")[0].read_text(), P4INFO + P4INFO)
