"""The compiler answers whatever it is given, with a result or with errors (benchmarks/fuzz_compiler.py: for hours)."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import CompileError, compile_program
from compiler.driver import compile_source
from compiler.preprocess import preprocess
from tests.compiler.frontend import source_of
from tests.compiler.fuzzing import Grower, mutate, nearly_right

EXAMPLES = int(os.environ.get("XOFF_FUZZ_EXAMPLES", "80"))
FABRIC = Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"
within = settings(max_examples=EXAMPLES, deadline=10_000, suppress_health_check=list(HealthCheck))
"""Ten seconds each, at most."""

randoms = st.integers(0, 1 << 60).map(Random)


def answered(text: str) -> bool:
    """True when the program compiled; its errors must all say where and what."""
    try:
        compile_source(source_of(f"#include <v1model.p4>\n{text}"))
    except CompileError as error:
        assert error.diagnostics
        assert all(d.message and (d.line > 0 or d.file) for d in error.diagnostics)
        return False
    return True


@within
@given(st.randoms(use_true_random=False))
def test_programs_grown_from_the_grammar_are_answered(random: Random) -> None:
    answered(Grower(random).program())


@within
@given(randoms)
def test_programs_that_are_nearly_right_are_answered(random: Random) -> None:
    answered(nearly_right(random))


@pytest.fixture(scope="module")
def fabric() -> str:
    """p4src/fabric.p4 after v1model.p4."""
    text = preprocess(FABRIC).text
    return text[text.index(";", text.index("package V1Switch")) + 1 :]


def test_mutations_of_the_fabric_program_are_answered(fabric: str) -> None:
    for seed in range(EXAMPLES):
        answered(mutate(fabric, Random(seed)))


def test_the_generators_reach_both_ends_of_the_compiler() -> None:
    results = [answered(nearly_right(Random(seed))) for seed in range(30)]
    assert any(results) and not all(results)


@within
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes_in_a_file_are_answered(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.p4"
    path.write_bytes(data)
    with pytest.raises(CompileError) as caught:
        compile_program(path)
    assert caught.value.diagnostics


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "{" * 100_000,
        "const int x = " + "(" * 5000 + "1" + ")" * 5000 + ";",
        "const int x = " + "1 + " * 20_000 + "1;",
        "const int x = 1 << 1000000000;",
        "const int x = 1 << (1 << 30);",
        "const bit<1> x = (bit<1>)(" + "9" * 100_000 + ");",
        "header h_t { " + "bit<8> a; " * 5000 + "}",
        "struct s { " + " ".join(f"bit<8> f{i};" for i in range(20_000)) + " }",
        "const bit<8> x = " + "-" * 50_000 + "1;",
        "typedef " + "tuple<" * 3000 + "bit<8>" + ">" * 3000 + " t;",
        "control c() { apply { " + "if (true) " * 10_000 + "; } }",
        "control c() { apply { " + "{" * 10_000 + "}" * 10_000 + " } }",
        "@a(" + "(" * 10_000 + ")" * 10_000 + ") const int x = 1;",
        '@a("' + "x" * 1_000_000 + '") const int x = 1;',
        "enum bit<8> e { " + ", ".join(f"m{i} = {i}" for i in range(3000)) + " }",
        "bit<8>[1000000000] x;",
    ],
    ids=lambda text: text[:24],
)
def test_programs_of_a_hostile_size_are_answered_in_time(text: str) -> None:
    assert not answered(text)


@pytest.mark.parametrize(
    "text",
    [
        "#define A A A\n#define B A A\nB",
        "#define A(x) A(x)\nA(A(A(1)))",
        "#if 1\n",
        "#else\n#endif\n",
        '#include "any.p4"\n',
        "#if 1 / 0\n#endif\n",
        "#define A(x, y\nA(1)",
        '#line 99999999999999999999 "x"\nconst',
        "\\\n" * 1000,
        "#" * 10_000,
    ],
    ids=lambda text: text[:16].strip(),
)
def test_whatever_the_preprocessor_is_given_is_answered(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.p4"
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        compile_program(path)
    assert caught.value.diagnostics
