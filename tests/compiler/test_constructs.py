"""A small program for every construct that reaches v1model, and the packet that it makes, worked out by hand.

Each runs on the native switch and on the interpreter of BMv2 JSON. Tables and the deparser, externs, and the order of
evaluation (`test_lower_semantics`) have files of their own.
"""

from __future__ import annotations

import pytest

from compiler import CompileError
from compiler.typecheck import check_source
from tests.compiler.both import both, native
from tests.compiler.frontend import source_of
from tests.compiler.walk import PROGRAM, compile_text, frame, program

TWO_ITEMS = "p.extract(hdr.items.next); p.extract(hdr.items.next); transition accept;"


def first(body: str, packet: bytes = frame(1, 2, 3, 4, 0x1234, 5, 6), **parts: str) -> str:
    """The first eight bytes (a b c d w w s t), in hexadecimal, after `body` ran in ingress."""
    return both(program(body, **parts), packet)[:8].hex()


# --------------------------------------------------------------------------- numbers and their types


@pytest.mark.parametrize(
    ("body", "out"),
    [
        ("hdr.h.a = 8w250 + 10; hdr.h.b = 3 - 5;", "04fe0304 1234 0506"),
        (
            "hdr.h.s = 100; hdr.h.s = hdr.h.s |+| 100; hdr.h.t = -128; hdr.h.t = hdr.h.t |-| 1;",
            "01020304 1234 7f80",
        ),
        ("hdr.h.a |-|= 5; hdr.h.b |+|= 255;", "00ff0304 1234 0506"),
        ("hdr.h.w = hdr.h.w / 10; hdr.h.d = hdr.h.d % 3;", "01020301 01d2 0506"),
        ("hdr.h.w = (bit<16>)(hdr.h.a ++ hdr.h.b ++ 4w5);", "01020304 1025 0506"),
        ("hdr.h.w[11:4] = hdr.h.w[15:8]; hdr.h.a = hdr.h.w[4+:8];", "12020304 1124 0506"),
        ("hdr.h.s = (int<8>)hdr.h.w[7:0] - 0x35; hdr.h.w = (bit<16>)(int<16>)hdr.h.s;", "01020304 ffff ff06"),
        ("bit<3> n = 7; n = n + 2; hdr.h.a = (bit<8>)n;", "01020304 1234 0506"),
        ("int<4> m = -8; m = -m; hdr.h.s = (int<8>)m;", "01020304 1234 f806"),
        ("hdr.h.w = hdr.h.w << hdr.h.d; hdr.h.a = hdr.h.a << 8;", "00020304 2340 0506"),
        ("hdr.h.s = -7; hdr.h.s = hdr.h.s >> hdr.h.a;", "01020304 1234 fc06"),
        (
            "bool x = (bool)hdr.h.a[0:0]; hdr.h.b = (bit<8>)(bit<1>)(x && !(hdr.h.c == 4));",
            "01010304 1234 0506",
        ),
        ("hdr.h.a += 4; hdr.h.b *= 7; hdr.h.c ^= 0xf; hdr.h.d <<= 2;", "050e0c10 1234 0506"),
        ("hdr.h.w >>= 4; hdr.h.w &= 0xf3; hdr.h.w |= 0x8000;", "01020304 8023 0506"),
    ],
)
def test_numbers(body: str, out: str) -> None:
    assert first(body) == out.replace(" ", "")


def test_constants_of_any_size_are_computed_exactly() -> None:
    declarations = (
        "const int BIG = (1 << 100) + 7; const bit<8> LOW = (bit<8>)(BIG % 256); typedef bit<8> byte_t; "
    )
    body = """hdr.h.a = LOW; hdr.h.b = (bit<8>)(BIG >> 98); hdr.h.w = (bit<16>)(-7 + (1 << 16));
        const byte_t k = 9; hdr.h.c = k;"""
    # (2^100 + 7) mod 256 = 7;  2^100 >> 98 = 4;  65529 = 0xfff9
    assert first(body, declarations=declarations) == "07040904fff90506"


def test_fields_wider_than_64_and_128_bits() -> None:
    parts = {
        "declarations": "header wide_t { bit<200> x; bit<136> y; }",
        "fields": "wide_t wide;",
        "parser": "p.extract(hdr.wide); transition accept;",
    }
    body = """hdr.wide.x = hdr.wide.x + (200w1 << 199) + 1; hdr.wide.y = ~hdr.wide.y; hdr.h.a = hdr.wide.x[199:192];
              hdr.h.b = hdr.wide.y > (136w1 << 135) ? 8w1 : 0; hdr.wide.y[71:64] = 0x55;"""
    x, y = 0x80 << 192 | 0xFF, 1
    packet = frame(1, 2) + x.to_bytes(25, "big") + y.to_bytes(17, "big")
    out = both(program(body, **parts), packet)
    ones = (1 << 136) - 2
    assert out[:2] == bytes([0, 1])  # 2^199 + 2^199 wraps to 0
    assert out[8:33] == (0x100).to_bytes(25, "big")
    assert out[33:] == (ones & ~(0xFF << 64) | 0x55 << 64).to_bytes(17, "big")


# --------------------------------------------------------------------------- structs, tuples, enums, new types


def test_enums_with_and_without_values_and_new_types() -> None:
    declarations = """enum Colour { red, green, blue } enum bit<8> Kind { ip = 4, arp = 6 } type bit<8> Port;
        struct note_t { Colour colour; Kind kind; Port port; }"""
    body = """note_t n = { Colour.green, Kind.arp, (Port)hdr.h.b }; if (hdr.h.a == 1) { n.colour = Colour.blue; }
        switch (n.colour) { Colour.red: { hdr.h.a = 10; } Colour.green: { hdr.h.a = 20; } default: { hdr.h.a = 30; } }
        hdr.h.b = n.kind == Kind.arp ? 8w1 : 0; n.kind = (Kind)4; hdr.h.c = (bit<8>)n.kind;
        hdr.h.d = (bit<8>)n.port + 1;"""
    assert first(body, declarations=declarations) == "1e01040312340506"


def test_tuples_are_compared_indexed_and_copied() -> None:
    body = """tuple<bit<8>, bit<16>> t = { hdr.h.a, hdr.h.w }; tuple<bit<8>, bit<16>> u = t; u[0] = 7;
        hdr.h.a = t[0] + u[0]; hdr.h.b = t == { 8w1, 16w0x1234 } ? 8w1 : 0; hdr.h.c = t == u ? 8w1 : 0;"""
    assert first(body) == "0801000412340506"


def test_initialisers_with_names_defaults_and_invalid_headers() -> None:
    declarations = "struct pair_t { bit<8> x; bit<8> y; bool z; }"
    body = """pair_t p = { y = 5, ... }; hdr.h.a = p.x + p.y; pair_t q = ...; hdr.h.b = q.z ? 8w1 : 0;
        hdr.word = { x = 9 }; hdr.h.c = (bit<8>)hdr.word.x; hdr.word = (word_t){#};
        hdr.h.d = hdr.word.isValid() ? 8w1 : 0;
        item_t[3] s = { { 1, 2 }, { 3, 4 }, {#} }; hdr.items = s;"""
    document = program(body, declarations=declarations)
    assert both(document, frame(1, 2, 3, 4)).hex() == "0500090000000000" + "01020304"


def test_generic_structs_headers_unions_and_controls() -> None:
    declarations = """struct box_t<T> { T x; bit<8> y; } header gen_t<T> { T x; }
        header_union either_t<T> { gen_t<T> one; word_t two; }
        control Set<T>(inout T place)(T value) { apply { place = value; } }"""
    parts = {
        "declarations": declarations,
        "fields": "gen_t<bit<16>> g; either_t<bit<8>> e;",
        "parser": "p.extract(hdr.g); p.extract(hdr.e.one); transition accept;",
        "locals": "Set<bit<8>>(7) set; Set<bit<16>>(0xabcd) wide;",
    }
    body = """box_t<bit<16>> b = { hdr.g.x, 3 }; hdr.h.w = b.x + 1; set.apply(hdr.h.a); wide.apply(hdr.g.x);
        hdr.h.b = hdr.e.one.x; box_t<box_t<bit<8>>> n = { { 1, 2 }, 4 }; hdr.h.c = n.x.y + n.y;"""
    out = both(program(body, **parts), frame(1, 2, 3, 4, rest=bytes([0, 9, 0x77])))
    assert out.hex() == "0777060 4000a0000".replace(" ", "") + "abcd77"


def test_nested_structs_in_headers_and_metadata() -> None:
    declarations = """struct inner_t { bit<4> hi; bit<4> lo; } header outer_t { inner_t first; bit<8> rest; }
        struct deep_t { inner_t i; bit<8>[2] array; }"""
    parts = {
        "declarations": declarations,
        "fields": "outer_t outer;",
        "parser": "p.extract(hdr.outer); transition accept;",
    }
    body = """inner_t swapped = { hdr.outer.first.lo, hdr.outer.first.hi }; hdr.outer.first = swapped;
        deep_t d; d.i = hdr.outer.first; d.array[0] = 1; d.array[hdr.h.a[0:0]] = 6; deep_t e = d;
        hdr.h.b = (bit<8>)e.i.hi; hdr.h.c = e.array[1]; hdr.h.d = e.array[0];"""
    out = both(program(body, **parts), frame(1, 2, 3, 4, rest=bytes([0x5A, 0x77])))
    assert out.hex() == "010a060100000000" + "a577"


# --------------------------------------------------------------------------- loops and switches


@pytest.mark.parametrize(
    ("body", "added"),
    [
        ("for (bit<8> i = 0; i < 4; i += 1) { hdr.h.a += i; }", 0 + 1 + 2 + 3),
        (
            "for (bit<8> i = 0, bit<8> j = 10; i < j; i += 1, j -= 1) { if (i == 2) continue; hdr.h.a += 1; }",
            4,
        ),
        ("for (bit<8> i in 2 .. hdr.h.c) { hdr.h.a += i; }", 2 + 3),
        ("for (bit<8> i in hdr.h.c .. 2) { hdr.h.a += i; }", 0),
        ("for (bit<8> i in (list<bit<8>>){ 10, 20, 30 }) { if (i == 30) break; hdr.h.a += i; }", 10 + 20),
        ("for (item_t i in hdr.items) { if (i.isValid()) { hdr.h.a += i.v; } }", 40 + 41),
        (
            "for (bit<8> i in 0 .. 2) { for (bit<8> j in 0 .. 2) { if (j == i) break; hdr.h.a += 1; } }",
            0 + 1 + 2,
        ),
    ],
)
def test_loops(body: str, added: int) -> None:
    packet = frame(1, 2, 3, 4, rest=bytes([1, 40, 0, 41]))
    assert int(first(body, packet, parser=TWO_ITEMS)[:2], 16) == 1 + added


def test_switch_on_numbers_bools_and_errors() -> None:
    body = """switch (hdr.h.a) { 0: 1: { hdr.h.b = 9; } 2: { hdr.h.b = 8; } }
        switch (hdr.h.c == 3) { true: { hdr.h.c = 7; } default: { hdr.h.c = 6; } }
        switch (sm.parser_error) { error.PacketTooShort: { hdr.h.d = 1; } default: { hdr.h.d = 0; } }"""
    parts = {"parser": "p.extract(hdr.word); transition accept;"}
    assert first(body, **parts) == "0109070112340506"
    assert first(body, frame(2, 2, 4, 9, rest=bytes(4)), **parts) == "0208060000000000"


# --------------------------------------------------------------------------- parser


def test_a_union_is_chosen_by_lookahead_and_unions_stand_in_stacks() -> None:
    parts = {
        "declarations": """header small_t { bit<8> kind; bit<8> v; } header large_t { bit<8> kind; bit<16> v; }
            header_union any_t { small_t small; large_t large; }""",
        "fields": "any_t[3] any;",
        "parser": "transition more;",
        "states": """state more { transition select(p.lookahead<bit<8>>()) { 1: small; 2: large; default: accept; } }
            state small { p.extract(hdr.any.next.small); transition more; }
            state large { p.extract(hdr.any.next.large); transition more; }""",
    }
    body = """hdr.h.a = hdr.any[0].large.isValid() ? 8w1 : 0; hdr.h.b = hdr.any[1].small.v; hdr.any[1].small.v = 0x55;
        hdr.any[0].small.setValid(); hdr.any[0].small = { 1, 0x66 }; hdr.h.c = hdr.any[0].large.isValid() ? 8w1 : 0;
        hdr.h.d = hdr.any[2].isValid() ? 8w1 : 0;"""
    packet = frame(rest=bytes.fromhex("02aabb 0177 00ff"))
    assert both(program(body, **parts), packet).hex() == "0177000000000000" + "0166" + "0155" + "00ff"


def test_extract_without_a_place_skips() -> None:
    parts = {"parser": "p.extract<item_t>(_); p.extract(hdr.word); transition accept;"}
    out = both(program("hdr.word.x = hdr.word.x + 1;", **parts), frame(rest=bytes([9, 9, 0, 0, 0, 1, 5])))
    assert out[8:].hex() == "0000000205"  # the two skipped bytes are gone


def test_lookahead_of_a_header_reads_its_fields_and_stays() -> None:
    parts = {
        "parser": """item_t i = p.lookahead<item_t>(); meta.m = i.v; p.advance(8);
            transition select(p.lookahead<bit<4>>(), i.more) { (7, 3): take; default: accept; }""",
        "states": "state take { p.extract(hdr.items.next); transition accept; }",
    }
    document = program("hdr.h.a = meta.m; hdr.h.b = hdr.items[0].isValid() ? 8w1 : 0;", **parts)
    assert both(document, frame(rest=bytes([3, 0x75, 1])))[:2].hex() == "7501"
    assert both(document, frame(rest=bytes([4, 0x75, 1])))[:2].hex() == "7500"


def test_the_packets_length_is_known_while_it_is_parsed() -> None:
    parts = {"parser": "meta.m = (bit<8>)p.length(); transition accept;"}
    assert first("hdr.h.a = meta.m;", frame(rest=bytes(5)), **parts)[:2] == "0d"


def test_an_error_of_its_own_stops_the_parser_and_reaches_ingress() -> None:
    parts = {
        "declarations": "error { TooOld, Unused }",
        "parser": "verify(hdr.h.a == 1, error.TooOld); p.extract(hdr.word); transition accept;",
    }
    body = "hdr.h.b = sm.parser_error == error.TooOld ? 8w1 : 0; hdr.h.c = hdr.word.isValid() ? 8w1 : 0;"
    assert first(body, frame(1, rest=bytes(4)), **parts)[:6] == "010001"
    assert first(body, frame(2, rest=bytes(4)), **parts)[:6] == "020100"


def test_reject_goes_on_to_ingress_as_bmv2_does() -> None:
    parts = {"parser": "transition select(hdr.h.a) { 1: reject; default: word; }"}
    parts["states"] = "state word { p.extract(hdr.word); transition accept; }"
    document = program("hdr.h.b = 9;", **parts)
    assert both(document, frame(1, rest=b"\7")).hex() == "0109000000000000" + "07"


def test_varbit_fields_are_compared_and_copied_with_their_length() -> None:
    parts = {
        "declarations": "header opt_t { bit<8> n; varbit<32> data; }",
        "fields": "opt_t one; opt_t two; opt_t three;",
        "parser": "p.extract(hdr.one, 16); p.extract(hdr.two, (bit<32>)hdr.h.a * 8); transition accept;",
    }
    body = "hdr.h.b = hdr.one.data == hdr.two.data ? 8w1 : 0; hdr.three = hdr.two; hdr.three.n = 7;"
    document = program(body, **parts)
    out = both(document, frame(2, rest=bytes.fromhex("01aabb 02aabb")))
    assert out.hex() == "0201000000000000" + "01aabb" + "02aabb" + "07aabb"
    assert both(document, frame(2, rest=bytes.fromhex("01aabb 02aabc")))[1] == 0
    assert both(document, frame(1, rest=bytes.fromhex("01aabb 02aa")))[1] == 0


def test_too_long_a_varbit_is_an_error() -> None:
    parts = {
        "declarations": "header opt_t { bit<8> n; varbit<32> data; }",
        "fields": "opt_t one;",
        "parser": "p.extract(hdr.one, (bit<32>)hdr.h.a * 4); transition accept;",
    }
    body = """hdr.h.b = sm.parser_error == error.HeaderTooShort ? 8w1 : 0;
        hdr.h.c = sm.parser_error == error.ParserInvalidArgument ? 8w1 : 0;"""
    document = program(body, **parts)
    results = {a: native(document, frame(a, rest=bytes(12)))[0][1][1:3].hex() for a in (8, 10, 3)}
    assert results == {8: "0000", 10: "0100", 3: "0001"}


def test_sub_parsers_share_stacks_and_are_applied_directly() -> None:
    declarations = """parser Item(packet_in p, inout item_t[3] items, out bit<8> seen) {
        state start { p.extract(items.next); seen = items.last.v; transition accept; } }"""
    parts = {
        "declarations": declarations,
        "parser_locals": "Item() item; bit<8> x; bit<8> y;",
        "parser": "item.apply(p, hdr.items, x); Item.apply(p, hdr.items, y); meta.m = x + y; transition accept;",
    }
    assert (
        first("hdr.h.a = meta.m; hdr.h.b = hdr.items[1].v;", frame(rest=bytes([0, 5, 0, 6])), **parts)[:4]
        == "0b06"
    )


def test_functions_with_ifs_run_in_parsers() -> None:
    declarations = "bit<8> pick(in bit<8> x) { if (x == 1) { return 5; } return 6; }"
    parts = {"declarations": declarations, "parser": "meta.m = pick(hdr.h.a); transition accept;"}
    document = program("hdr.h.b = meta.m;", **parts)
    assert [both(document, frame(a))[1] for a in (1, 2)] == [5, 6]


def test_a_run_time_index_in_the_parser_picks_the_element() -> None:
    parts = {
        "parser_locals": "bit<2> i = 0;",
        "parser": "transition more;",
        "states": """state more { p.extract(hdr.items[i]); i = i + 1; hdr.items[i - 1].v = hdr.items[i - 1].v + 1;
            transition select(hdr.items[i - 1].more) { 0: accept; default: more; } }""",
    }
    document = program("hdr.h.a = sm.parser_error == error.StackOutOfBounds ? 8w1 : 0;", **parts)
    assert both(document, frame(rest=bytes([1, 5, 0, 6]))).hex() == "0000000000000000" + "01060007"
    assert both(document, frame(rest=bytes([1, 5] * 4)))[0] == 1


# --------------------------------------------------------------------------- what BMv2 cannot do


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {
                "parser_locals": "value_set<bit<8>>(4) vs;",
                "parser": "transition select(hdr.h.a, hdr.h.b) { (vs, 2): accept; }",
            },
            "a value_set beside other keys",
        ),
        (
            {"declarations": "header two_t { varbit<8> x; varbit<8> y; }", "fields": "two_t two;"},
            "more than one varbit field",
        ),
        (
            {"compute": "update_checksum(true, { hdr.h.a + 1 }, hdr.h.w, HashAlgorithm.csum16);"},
            "only fields and constants",
        ),
        ({"compute": "hdr.h.a = 1;"}, "only checksum calls"),
        ({"body": "bit<8> x = (bit<8>)((int)hdr.h.a + 1);"}, "cannot become int"),
        ({"locals": "Checksum16() ck;", "body": "hdr.h.w = ck.get({ hdr.h.a });"}, "no extern Checksum16"),
        ({"locals": "register<meta_t>(4) r;"}, "a register of meta_t"),
        ({"fields": "bit<8> bare;"}, ""),
    ],
)
def test_what_the_target_cannot_do_is_refused_in_words(parts: dict[str, str], said: str) -> None:
    with pytest.raises(CompileError, match=None) as caught:
        program(**parts)
    assert any(said in d.message for d in caught.value.diagnostics), caught.value


@pytest.mark.parametrize("version", ["20180101", "20200408"])
def test_both_versions_of_v1model_have_their_signatures(version: str) -> None:
    new = version == "20200408"
    locals_ = (
        "counter<bit<4>>(16, CounterType.bytes) c; register<bit<8>, bit<4>>(16) r; PortId_t port;"
        if new
        else "counter(16, CounterType.bytes) c; register<bit<8>>(16) r; bit<9> port;"
    )
    body = "port = sm.ingress_port; c.count(3); r.write(3, 8w7); r.read(hdr.h.a, 3);"
    empty = {k: "" for k in ("states", "fields", "egress", "compute", "parser_locals", "declarations")}
    text = PROGRAM.format(**empty, body=body, locals=locals_, parser="transition accept;")
    document = compile_text(f"#define V1MODEL_VERSION {version}\n{text}")
    assert native(document, frame())[0][1][0] == 7


def test_a_version_that_never_was_is_an_error() -> None:
    with pytest.raises(CompileError, match="V1MODEL_VERSION is -5"):
        check_source(source_of("#include <v1model.p4>\n", {"V1MODEL_VERSION": "-5"}))
