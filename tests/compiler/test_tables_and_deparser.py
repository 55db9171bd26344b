"""Tables and the deparser: a small program for every form, and the packet that it makes, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from compiler import CompileError
from tests.compiler.both import both
from tests.compiler.walk import PROGRAM, compile_text, frame, program

TWO_ITEMS = "p.extract(hdr.items.next); p.extract(hdr.items.next); transition accept;"
TABLE = "action set(bit<8> v) { hdr.h.d = v; }"
SET = "actions = { set; }"
TERNARY, RANGE = "key = { hdr.h.a: ternary; }", "key = { hdr.h.a: range; }"
SMALLEST = "largest_priority_wins = false;"


@pytest.mark.parametrize(
    ("keys", "entries", "packet", "d"),
    [
        ("key = { hdr.h.a: exact; hdr.h.b: exact; }", "const entries = { (1, 2): set(9); }", (1, 2), 9),
        (TERNARY, "const entries = { 1 &&& 3: set(8); _: set(7); }", (5,), 8),
        (TERNARY, "const entries = { 1 &&& 3: set(8); _: set(7); }", (6,), 7),
        (TERNARY, "entries = { priority = 10: 1: set(1); priority = 20: _: set(2); }", (1,), 2),
        (TERNARY, SMALLEST + "entries = { priority = 10: 1: set(1); priority = 20: _: set(2); }", (1,), 1),
        # the second entry gets 10 + 5
        (
            TERNARY,
            SMALLEST + "priority_delta = 5; entries = { priority = 10: 9: set(1); _: set(2); }",
            (1,),
            2,
        ),
        (TERNARY, "const entries = { 1: set(1) @priority(9); _: set(2) @priority(3); }", (1,), 2),
        (RANGE, "const entries = { 3 .. 5: set(1); 0 .. 9: set(2); }", (4,), 1),
        (RANGE, "const entries = { 3 .. 5: set(1); 0 .. 9: set(2); }", (6,), 2),
        (
            "key = { hdr.h.w: lpm; }",
            "const entries = { 0x1200 &&& 0xff00: set(1); 0x1230 &&& 0xfff0: set(2); }",
            (),
            2,
        ),
        (
            "key = { hdr.h.a: optional; hdr.h.b: optional; }",
            "const entries = { (1, _): set(1); (_, 2): set(2); }",
            (7, 2),
            2,
        ),
        (
            "key = { hdr.h.a: exact; }",
            "const default_action = set(6); const entries = { 9: set(1); }",
            (1,),
            6,
        ),
        ("", "const default_action = set(5);", (), 5),
        (
            "key = { hdr.h.isValid(): exact; hdr.word.isValid(): ternary; }",
            "const entries = { (true, false): set(4); }",
            (),
            4,
        ),
        (
            'key = { hdr.h.a + hdr.h.b: exact @name("sum"); hdr.h.w[15:12]: exact; }',
            "const entries = { (3, 1): set(4); }",
            (1, 2),
            4,
        ),
        ("key = { hdr.h.s: exact; }", "const entries = { -3: set(2); }", (0,), 2),
    ],
)
def test_tables_match(keys: str, entries: str, packet: tuple[int, ...], d: int) -> None:
    document = program("t.apply();", locals=f"{TABLE} table t {{ {keys} {SET} {entries} size = 64; }}")
    assert both(document, frame(*packet, w=0x1234, s=-3))[3] == d


def test_table_only_and_default_only_actions() -> None:
    locals_ = (
        TABLE
        + """table t { key = { hdr.h.a: exact; } actions = { @tableonly set; @defaultonly NoAction; }
        const default_action = NoAction(); const entries = { 1: set(3); } }"""
    )
    document = program("t.apply();", locals=locals_)
    assert [both(document, frame(a))[3] for a in (1, 2)] == [3, 0]


def test_keys_of_enums_and_new_types_take_their_members() -> None:
    parts = {
        "declarations": "enum bit<8> Kind { ip = 4, arp = 6 } type bit<8> port_t;",
        "locals": TABLE
        + """table t { key = { (Kind)hdr.h.a: exact @name("kind"); (port_t)hdr.h.b: exact @name("port"); }
            actions = { set; } const entries = { (Kind.arp, (port_t)8w2): set(9); } }""",
    }
    document = program("t.apply();", **parts)
    assert both(document, frame(6, 2))[3] == 9
    assert both(document, frame(4, 2))[3] == 0


def test_a_hit_is_a_value() -> None:
    locals_ = (
        TABLE + "table t { key = { hdr.h.a: exact; } actions = { set; } const entries = { 1: set(9); } }"
    )
    document = program("bool hit = t.apply().hit; hdr.h.b = hit && hdr.h.c == 3 ? 8w1 : 0;", locals=locals_)
    assert [both(document, frame(a, 0, 3)).hex()[:8] for a in (1, 2)] == ["01010309", "02000300"]


def test_a_table_is_applied_in_branches_that_exclude_each_other() -> None:
    locals_ = (
        TABLE + "table t { key = { hdr.h.a: exact; } actions = { set; } const entries = { 1: set(9); } }"
    )
    body = """if (hdr.h.b == 0) { t.apply(); hdr.h.c = 1; } else if (t.apply().hit) { hdr.h.c = 2; }
        else { hdr.h.c = 3; }"""
    document = program(body, locals=locals_)
    results = [both(document, frame(*ab)).hex()[4:8] for ab in ((1, 0), (1, 1), (2, 0), (2, 1))]
    assert results == ["0109", "0209", "0100", "0300"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("t.apply(); hdr.h.b = 1; t.apply();", "could come to the table I.t twice"),
        ("for (bit<8> i in 0 .. hdr.h.a) { t.apply(); }", "the table I.t in a loop"),
    ],
)
def test_no_way_comes_to_a_table_twice(body: str, said: str) -> None:
    with pytest.raises(CompileError, match=said):
        program(body, locals=TABLE + "table t { key = { hdr.h.a: exact; } actions = { set; } }")


# --------------------------------------------------------------------------- deparser


def deparsed(deparser: str) -> dict[str, Any]:
    """A program that extracts `h` and two items and deparses like this."""
    declarations = """void one(packet_out p, in item_t i) { p.emit(i); return; p.emit(i); }
        control Both(packet_out p, in item_t[3] items) { apply { p.emit(items[0]); p.emit(items[1]); } }"""
    parts = dict.fromkeys(("body", "locals", "states", "fields", "egress", "compute", "parser_locals"), "")
    text = PROGRAM.format(**parts, declarations=declarations, parser=TWO_ITEMS)
    return compile_text(text.replace("p.emit(hdr);", deparser))


@pytest.mark.parametrize(
    ("deparser", "out"),
    [
        ("p.emit(hdr.items); p.emit(hdr.h);", "0105 0006" + "01" * 8),
        ("p.emit(hdr.items[1]); p.emit(hdr.items[0]);", "0006 0105"),
        ("p.emit(hdr.h); return; p.emit(hdr.items);", "01" * 8),
        ("p.emit(hdr.items[0]); exit; p.emit(hdr.items);", "0105"),
        ("if (hdr.items.size == 3) { p.emit(hdr.items[0]); } else { p.emit(hdr.items[1]); }", "0105"),
        ("p.emit((item_t){#}); p.emit({ hdr.items[0], hdr.items[1] });", "0105 0006"),
        ("one(p, hdr.items[1]); Both.apply(p, hdr.items);", "0006 0105 0006"),
        ("bit<8> x = hdr.h.a; x = x + 1; p.emit(hdr.items[0]); x = 3;", "0105"),
        ("; { p.emit(hdr.items[0]); { return; } } p.emit(hdr.items[1]);", "0105"),
        ("p.emit(hdr.word); p.emit(hdr.items[2]);", ""),
    ],
)
def test_deparsers(deparser: str, out: str) -> None:
    packet = bytes([1] * 8) + bytes([1, 5, 0, 6])
    assert both(deparsed(deparser), packet).hex() == out.replace(" ", "")


@pytest.mark.parametrize(
    ("deparser", "said"),
    [
        ("if (hdr.h.a == 1) { p.emit(hdr.h); }", "if is not supported in the deparser"),
        ("for (bit<8> i in 0 .. 1) { p.emit(hdr.items[i]); }", "for is not supported in the deparser"),
        ("item_t i = hdr.items[0]; p.emit(i);", "emits headers of the packet"),
        ("p.emit<item_t>({ 1, 2 });", "emits headers of the packet"),
        ("p.emit(hdr.items[hdr.h.a]);", "emits headers of the packet"),
        ("item_t i; i.setValid();", "cannot branch or change headers"),
    ],
)
def test_what_a_deparser_cannot_do(deparser: str, said: str) -> None:
    with pytest.raises(CompileError) as caught:
        deparsed(deparser)
    assert said in str(caught.value)
