"""What a student is told: the message, and the place it points to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.errors import CompileError
from compiler.source import Source
from compiler.typecheck import check, check_source
from tests.compiler.frontend import complaints

CASES = [
    # part, text, what the message must contain
    ("body", "meta.c = 1;", "meta_t has no field 'c'"),
    ("body", "hdr.ip.tll = 1;", "did you mean 'ttl'?"),
    ("body", "meda.a = 1;", "'meda' is not declared; did you mean 'meta'?"),
    ("body", "meta.a = meta.narrow;", "the assigned value must be bit<16>, not bit<8> (the widths differ"),
    ("body", "meta.a = meta.a + meta.narrow;", "+ needs the same type on both sides, not bit<16> and bit<8>"),
    ("body", "meta.a = hdr.ip.offset;", "bit<16>, not int<8> (one is signed"),
    ("body", "if (meta.a) { }", "the condition of if must be a bool, not bit<16> (compare it with 0)"),
    ("body", "meta.a = 1", "expected ';'"),
    ("body", "mark_to_drop(sm, 1);", "mark_to_drop has no form that takes 2 arguments"),
    (
        "body",
        "hash(meta.a, HashAlgorithm.crc16, 16w0, { hdr.ip.src });",
        "takes 5 arguments, 4 given ('max' is missing)",
    ),
    ("body", "hash(meta.a, HashAlgorithm.crc99, 16w0, { hdr.ip.src }, 16w9);", "no member 'crc99'"),
    ("body", "digest(1, { 5, hdr.ip.src });", "the width of this number is not known"),
    ("body", "hdr.ip.ttl.setValid();", "bit<8> has no method 'setValid'"),
    ("body", "hdr.ip.isvalid();", "did you mean 'isValid'?"),
    ("body", "bit<8> x = 1; bit<8> x = 2;", "'x' is already declared at program.p4:"),
    ("body", "hdr.tags[3].vid = 1;", "the index 3 is outside the stack's 3 elements"),
    ("body", "meta.a[16:1] = 1;", "bit 16 is outside bit<16>, whose highest bit is 15"),
    ("body", "meta.a[1:4] = 1;", "write the higher bit first"),
    ("body", "hdr.tags.next.vid = 1;", "'next' of a header stack can only be used in a parser"),
    ("body", "foo_t x;", "the type 'foo_t' is not declared"),
    ("body", "verify(true, error.NoMatch);", "verify can only be called in a parser"),
    ("body", "meta.a = meta.b / 0;", "division by zero"),
    ("body", "break;", "break is only allowed in a for loop"),
    ("body", "bool b = 1;", "must be bool, not int"),
    ("body", "bit<8> b = true;", "must be bit<8>, not bool"),
    ("body", "hdr.eth = hdr.ip;", "must be ethernet_t, not ipv4_t"),
    ("body", "hdr.tags[0] = { 1 };", "tag_t has 2 fields, the list has 1"),
    ("body", "meta.a = { 1 };", "must be bit<16>, not a list"),
    ("body", "bit<9> p = (bit<9>) hdr.ip.offset;", "change the sign and the width in two casts"),
    ("body", "5 = meta.a;", "this cannot be assigned to"),
    # habits from other languages, and of beginners
    ("body", "if (meta.a = 1) { }", "(to compare, write ==)"),
    ("body", "t.apply;", "(a call has parentheses: apply())"),
    ("body", "meta;", "a table is looked up with apply()"),
    ("body", "while (meta.a > 1) { }", "P4 has no while; loops are written for (…)"),
    ("body", "if (meta.a == 1) { } elif (meta.a == 2) { }", "(it is written else if)"),
    ("body", "uint16_t x;", "the type 'uint16_t' is not declared (P4 writes bit<16>)"),
    ("body", "unsigned x;", "(P4 writes bit<32>)"),
    ("body", "float x;", "P4 has no floating-point numbers"),
    ("top", "struct s { bit(9) x; }", "(a width is written bit<8>)"),
    ("body", "standard_metadata.egress_spec = 1;", "(the parameter of that type is called 'sm' here)"),
    ("body", "# a comment\n", "(a comment begins with //)"),
    ("body", "const FOUR = 4;", "(a constant has a type: const bit<16> FOUR = …)"),
    ("body", "meta.a = 1; } }", "(is there one } too many before it?)"),
    ("locals", "action a() { meta.a = 1; table t { }", "(is a } missing before it?)"),
    ("locals", "counter(16, packets) c;", "'packets' is not declared (it is a member: CounterType.packets)"),
    ("locals", "register<bit<8>> r(16);", "(an instance is written type(arguments) name;)"),
    (
        "locals",
        "action a() { t.apply(); } table t { actions = { a; } }",
        "'t' is not declared before this line, only at program.p4:",
    ),
    (
        "locals",
        "table t { key = { hdr.ip.dst: lpm; } actions = { NoAction; } const entries = { 10.0.0.1: NoAction(); } }",
        "(an IPv4 address is one number: 10.0.0.1 is 0x0a000001)",
    ),
    ("top", "struct s { int x; }", "give it a width: bit<N> or int<N>"),
    ("body", "bit<8> meta = 1;", "'meta' is the name of a parameter here"),
    ("body", "if (meta.a == 1) { bit<8> hdr = 2; }", "'hdr' is the name of a parameter here"),
    (
        "locals",
        "table t { default_action = NoAction; actions = { NoAction; } }",
        "the default action of the table t comes after its list of actions",
    ),
    ("locals", "action a() { meta.a = ; }", "expected an expression, found ';'"),
    ("locals", "action a(in bit<8> x) { x = 1; }", "'x' is an 'in' parameter"),
    ("locals", "action a(bit<8> x) { x = 1; }", "'x' is a directionless parameter"),
    ("locals", "action a(bit<8> k, in bit<8> x) { }", "parameters with a direction come before"),
    ("locals", "table t { key = { hdr.ip.dst : exactt; } actions = { NoAction; } }", "did you mean 'exact'?"),
    (
        "locals",
        "table t { key = { hdr.ip.dst : exact; } actions = { drop_it; } }",
        "the action 'drop_it' is not declared",
    ),
    ("locals", "table t { key = { hdr.ip : exact; } actions = { NoAction; } }", "ipv4_t cannot be a key"),
    ("locals", "table t { key = { hdr.ip.dst : exact; } }", "has no list of actions"),
    (
        "locals",
        "action a(in bit<8> x) { } table t { actions = { a; } }",
        "its parameters with a direction ('x') are given here",
    ),
    (
        "locals",
        "action a() { } action b() { } table t { actions = { a; } default_action = b(); }",
        "'b' is not in the table's list of actions",
    ),
    (
        "locals",
        "action a(bit<8> x) { } table t { actions = { a; } default_action = a(); }",
        "it takes 1 argument, 0 given ('x' is missing)",
    ),
    (
        "locals",
        "table t { key = { hdr.ip.dst : exact; } actions = { NoAction; } const entries = { (1, 2) : NoAction(); } }",
        "1 value expected, 2 given",
    ),
    (
        "locals",
        "table t { key = { hdr.ip.dst : lpm; } actions = { NoAction; } const entries = { 1 &&& 5 : NoAction(); } }",
        "must be ones, then zeros",
    ),
    ("locals", "counter(16) c;", "takes 2 arguments, 1 given"),
    ("locals", "register(16) r;", "register needs its type arguments: register<T>(…)"),
    ("locals", "bit<16> n = 4; register<bit<8>>((bit<32>) n) r;", "must be known at compile time"),
    ("top", "header h_t { bit<8> a; bit<8> a; }", "the field 'a' is already declared"),
    ("top", "header h_t { ethernet_t e; }", "a header cannot have a field of type ethernet_t"),
    ("top", "header h_t { bit<8> a }", "expected ';' after the field a"),
    ("top", "bit<8> f(in bit<8> x) { if (x == 1) { return 2; } }", "can end without returning a value"),
    ("top", "void f() { return 1; }", "returns no value"),
    ("top", "bit<8> f() { return; }", "returns bit<8>; give return a value"),
    ("top", "const bit<8> X = 300 + true;", "+ needs numbers on both sides, not bool"),
    ("top", "const bit<8> X = 1 << 100000;", "is more than the 2048 bits"),
    ("top", "struct s_t { bit<0x_> a; }", "has no digits"),
    ("top", "enum bit<8> e_t { a }", "and a value for a"),
    (
        "top",
        "contorl X(inout meta_t m) { apply { } }",
        "'contorl' begins no declaration; did you mean 'control'?",
    ),
    (
        "locals",
        "table t { keys = { hdr.ip.dst : exact; } }",
        "a table has no property 'keys'; did you mean 'key'?",
    ),
    ("body", "hdr.ip.ttl--;", "P4 has no ++ and --"),
    ("top", "bit<8> f(in bit<8> x) { return f(x); }", "a function cannot call itself"),
    ("body", "meta.a = meta.flag ? 1 : 2;", "one of the two values of ?: needs a width"),
    ("parser", "state start { transition next; }", "there is no state 'next'"),
    ("parser", "state begin { transition accept; }", "has no state 'start'"),
    (
        "parser",
        "state start { pkt.extract(hdr.tags); transition accept; }",
        "one element is extracted with .next",
    ),
    ("parser", "state start { pkt.extract(hdr.opt); transition accept; }", "has a varbit field"),
    ("parser", "state start { transition start; }", "never reaches accept or reject"),
    ("parser", "state start { transition select(hdr.ip.ttl) { 1, 2: accept; } }", "expected ':'"),
    ("parser", "state start { exit; transition accept; }", "exit is not allowed in a parser"),
]


@pytest.mark.parametrize(("part", "text", "message"), CASES)
def test_a_mistake_is_named(part: str, text: str, message: str) -> None:
    found = complaints(**{"locals_" if part == "locals" else part: text})
    assert any(message in d.message for d in found), [str(d) for d in found]
    assert all(d.file == "program.p4" and d.line > 0 for d in found)


def test_a_message_points_to_the_column_and_shows_the_line() -> None:
    (found,) = complaints(body="\n        meta.a = hdr.ip.tll;\n")
    assert found.excerpt == "        meta.a = hdr.ip.tll;"
    assert found.excerpt[found.column - 1 :].startswith("hdr.ip.tll")
    shown = str(found).splitlines()
    assert re.fullmatch(r"program\.p4:\d+:18: error: .*", shown[0])
    assert shown[2].index("^") - 4 == found.column - 1


def test_several_mistakes_are_reported_in_one_run() -> None:
    found = complaints(body="meta.x = 1;\nmeta.a = undeclared;\nhdr.ip.ttl = hdr.ip.src;\n")
    assert len(found) == 3
    assert len({d.line for d in found}) == 3


def test_several_syntax_errors_are_reported_in_one_run() -> None:
    found = complaints(
        locals_="action a() { meta.a = ; }\naction b() { meta.a == 1; }\ntable t { key { } }\n"
    )
    assert [d.line for d in found] == sorted({d.line for d in found}) and len(found) == 3


def test_a_forgotten_brace_gives_one_message() -> None:
    (found,) = complaints(parser="state start { transition next; state next { transition accept; }")
    assert "to close the state start" in found.message


def test_a_missing_system_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bare.p4"
    path.write_text(
        "header h_t { bit<8> a; }\nparser P(packet_in pkt, out h_t h) { state start { transition accept; } }\n"
    )
    with pytest.raises(CompileError, match=r"it comes with #include <core\.p4>"):
        check(path)


def test_one_mistake_gives_one_message() -> None:
    assert len(complaints(body="meta.a = nothing + 1; meta.b = (bit<16>) nothing.x.y;")) == 2


def test_a_forgotten_semicolon_is_reported_on_its_own_line() -> None:
    (found,) = complaints(body="\nmeta.a = 1\nmeta.b = 2;\n")
    assert found.excerpt == "meta.a = 1"


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.p4").write_text("\n\nheader h_t { bit<8> a; bit<8> a; }\n")
    (tmp_path / "main.p4").write_text(
        '#include <v1model.p4>\n#include "part.p4"\nbit<8> f() { return g(); }\n'
    )
    with pytest.raises(CompileError) as caught:
        check(tmp_path / "main.p4")
    places = [(Path(d.file).name, d.line) for d in caught.value.diagnostics]
    assert places == [("main.p4", 3), ("part.p4", 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#include <v1model.p4>\n#include <nothing.p4>\n", "cannot find the include file nothing.p4"),
        ("#if 1\nheader h { }\n", "endif"),
        ("#error not here\n", "#error not here"),
        ("/* never closed", "never closed"),
        ('const string S = "never closed;\n', "never closed"),
        ("", "no package instance called main"),
        ("header h { bit<8> a; } \x01", "has no meaning in P4"),
    ],
)
def test_a_broken_file_gets_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.p4"
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        check(path)
    assert message.lower() in str(caught.value).lower()


def test_a_file_that_is_not_there_or_not_text_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot read the file"):
        check(tmp_path / "absent.p4")
    (tmp_path / "binary.p4").write_bytes(b"\x00\x01")
    with pytest.raises(CompileError, match="NUL"):
        check(tmp_path / "binary.p4")


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.p4"
    path.write_text('#include "loop.p4"\n')
    with pytest.raises(CompileError, match="nested"):
        check(path)


@pytest.mark.parametrize(
    "text",
    [
        "const bit<8> X = " + "(" * 5000 + "1" + ")" * 5000 + ";",
        "const bit<8> X = " + "-" * 5000 + "1;",
        "const bit<8> X = 1" + " + 1" * 5000 + ";",
        "const bit<8> X = a" + ".b" * 5000 + ";",
        "const bit<8> X = " + "9" * 100_000 + ";",
        "const bit<99999999999> X = 1;",
        "const bit<8> X = " + "{" * 3000,
        "void f() { " + "{" * 3000,
        "void f() { " + "if (true) " * 3000 + "; }",
        "typedef " + "tuple<" * 3000 + "bit" + ">" * 3000 + " T;",
        "header h { bit<8> a; } typedef h[1000000000] big;",
        "const int X = 1 << 2000 << 2000 << 2000;",
        "const int A = 1 << 2048; const int B = A * A * A * A * A * A * A * A;",
        "@a" + "(" * 9999,
        "=" * 10_000,
    ],
)
def test_hostile_input_is_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(CompileError):
        check_source(Source("hostile.p4", text))


WORDS = (
    "header struct control parser state transition select action table key actions entries apply if else switch return "
    "bit int varbit bool const typedef enum extern package in out inout true false error match_kind default exit for "
    "this type list tuple value_set x y H S main ( ) { } [ ] < > >> ; : , . .. ... &&& & && | || + ++ - * / % = == != "
    '<= >= ! ~ ? @ _ {#} |+| 8w5 4s3 0x1F 7 "s" @pragma #'
).split()


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_random_tokens_never_give_a_traceback(words: list[str]) -> None:
    try:
        check_source(Source("random.p4", " ".join(words)))
    except CompileError as error:
        assert error.diagnostics and str(error)
