"""What lowered programs do, by the rules of the P4_16 specification (section numbers of version 1.2.5)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import CompileError
from tests.compiler.mini_bmv2 import Switch
from tests.compiler.walk import after, fields, frame, program, walk

# --------------------------------------------------------------------------- expressions (8)


def test_arithmetic_wraps_to_the_width() -> None:
    result = after(
        "hdr.h.c = hdr.h.a + hdr.h.b; hdr.h.d = hdr.h.a - hdr.h.b; hdr.h.w = (bit<16>)hdr.h.a * 300;",
        a=200,
        b=201,
    )
    assert (result["c"], result["d"], result["w"]) == ((200 + 201) % 256, 255, 200 * 300 % 65536)


def test_saturating_operations_stop_at_the_limits() -> None:
    body = "hdr.h.c = hdr.h.a |+| hdr.h.b; hdr.h.d = hdr.h.a |-| hdr.h.b; hdr.h.s = hdr.h.s |+| hdr.h.t;"
    result = after(body, a=200, b=201, s=100, t=100)
    assert (result["c"], result["d"], result["s"]) == (255, 0, 127)


def test_shifts_past_the_width_give_zero_or_the_sign() -> None:
    body = "hdr.h.c = hdr.h.a << hdr.h.b; hdr.h.d = hdr.h.a >> hdr.h.b; hdr.h.s = hdr.h.s >> hdr.h.b;"
    assert after(body, a=255, b=9, s=-2) | {"b": 0} == fields(frame(a=255, c=0, d=0, s=-1))
    result = after(body, a=0x81, b=1, s=-128)
    assert (result["c"], result["d"], result["s"]) == (2, 0x40, -64)
    assert after(body, a=255, b=255, s=-2)["c"] == 0


def test_signed_and_unsigned_comparisons_differ() -> None:
    body = "hdr.h.a = hdr.h.s < hdr.h.t ? 8w1 : 0; hdr.h.b = (bit<8>)hdr.h.s < (bit<8>)hdr.h.t ? 8w1 : 0;"
    result = after(body, s=-1, t=1)
    assert (result["a"], result["b"]) == (1, 0)


def test_casts_truncate_and_extend_the_sign() -> None:
    body = "hdr.h.a = (bit<8>)hdr.h.w; hdr.h.w = (bit<16>)(int<16>)hdr.h.s; hdr.h.t = (int<8>)hdr.h.b;"
    result = after(body, w=0x1234, s=-2, b=0xFE)
    assert (result["a"], result["w"], result["t"]) == (0x34, 0xFFFE, -2)


def test_concatenation_puts_the_left_operand_on_top() -> None:
    assert after("hdr.h.w = hdr.h.a ++ hdr.h.b;", a=0x12, b=0x34)["w"] == 0x1234
    assert after("hdr.h.w = (bit<16>)(hdr.h.s ++ hdr.h.t);", s=-2, t=-1)["w"] == 0xFEFF


def test_slices_can_be_read_and_assigned() -> None:
    result = after(
        "hdr.h.a[7:4] = hdr.h.b[3:0]; hdr.h.w[11:4] = 0xAB; hdr.h.c[2:1][0:0] = 1;", a=0xFF, b=0x05, w=0xFFFF
    )
    assert (result["a"], result["w"], result["c"]) == (0x5F, 0xFABF, 0x02)


def test_bools_combine_compare_and_cast() -> None:
    body = """bool x = hdr.h.a == 1; bool y = hdr.h.b == 1; hdr.h.c = (x != y) ? 8w1 : 0;
              meta.flag = !x && y || x && !y; hdr.h.d = (bit<8>)(bit<1>)meta.flag;"""
    for a in (0, 1):
        for b in (0, 1):
            result = after(body, a=a, b=b)
            assert result["c"] == result["d"] == (a ^ b)


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, object]:
    """An 8-bit expression over a and b, and the function that it is."""
    if depth == 0 or draw(st.booleans()):
        leaf = draw(st.sampled_from(["a", "b", "const"]))
        if leaf == "const":
            number = draw(st.integers(0, 255))
            return f"8w{number}", lambda a, b: number
        return f"hdr.h.{leaf}", (lambda a, b: a) if leaf == "a" else (lambda a, b: b)
    kind = draw(st.sampled_from([*OPERATIONS, "~", "?", "<<", ">>", "slice", "-u"]))
    left, f = draw(expressions(depth=depth - 1))
    if kind == "~":
        return f"(~{left})", lambda a, b: ~f(a, b) & 255
    if kind == "-u":
        return f"(-({left}))", lambda a, b: -f(a, b) & 255
    if kind == "slice":
        high = draw(st.integers(0, 7))
        low = draw(st.integers(0, high))
        mask = (1 << (high - low + 1)) - 1
        return f"((bit<8>)({left})[{high}:{low}])", lambda a, b: f(a, b) >> low & mask
    right, g = draw(expressions(depth=depth - 1))
    if kind == "?":
        return f"({left} < {right} ? {right} : {left})", lambda a, b: max(f(a, b), g(a, b))
    if kind == "<<":
        return f"({left} << {right})", lambda a, b: f(a, b) << g(a, b) & 255 if g(a, b) < 8 else 0
    if kind == ">>":
        return f"({left} >> {right})", lambda a, b: f(a, b) >> g(a, b)
    operation = OPERATIONS[kind]
    return f"({left} {kind} {right})", lambda a, b: operation(f(a, b), g(a, b)) & 255


@settings(max_examples=60, deadline=None)
@given(expressions(), st.integers(0, 255), st.integers(0, 255))
def test_random_expressions_have_the_value_of_their_formula(
    expression: tuple[str, object], a: int, b: int
) -> None:
    text, function = expression
    assert after(f"hdr.h.c = {text};", a=a, b=b)["c"] == function(a, b)  # type: ignore[operator]


# --------------------------------------------------------------------------- order and effects (6.8, 8.4, 8.12)

COUNT = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }"


def test_operands_are_evaluated_from_left_to_right() -> None:
    result = after("hdr.h.c = hdr.h.a + bump(hdr.h.a) + hdr.h.a;", {"declarations": COUNT}, a=10)
    assert (result["a"], result["c"]) == (11, 10 + 11 + 11)


def test_and_or_do_not_evaluate_what_is_not_needed() -> None:
    body = """bool x = hdr.h.a > 5 && bump(hdr.h.b) > 0; bool y = hdr.h.a > 5 || bump(hdr.h.c) > 0;
              hdr.h.d = x && y ? 8w1 : 0;"""
    assert after(body, {"declarations": COUNT}, a=9) == fields(frame(a=9, b=1, c=0, d=1))
    assert after(body, {"declarations": COUNT}, a=1) == fields(frame(a=1, b=0, c=1, d=0))


def test_only_the_chosen_side_of_a_conditional_expression_is_evaluated() -> None:
    body = "hdr.h.d = hdr.h.a == 0 ? bump(hdr.h.b) : bump(hdr.h.c);"
    assert after(body, {"declarations": COUNT}, a=0) == fields(frame(a=0, b=1, d=1))
    assert after(body, {"declarations": COUNT}, a=1) == fields(frame(a=1, c=1, d=1))


def test_the_left_side_is_found_before_the_right_side_runs() -> None:
    parts = {
        "declarations": COUNT,
        "parser": "p.extract(hdr.items.next); p.extract(hdr.items.next); transition accept;",
    }
    document = program("hdr.items[hdr.h.a].v = bump(hdr.h.a);", **parts)
    assert Switch(document).run(frame(rest=bytes(4)))[8:12] == bytes([0, 1, 0, 0])
    assert after("hdr.h.a -= bump(hdr.h.a);", {"declarations": COUNT}, a=10)["a"] == (10 - 11) % 256


def test_an_index_is_evaluated_once_and_before_the_right_side() -> None:
    parts = {
        "declarations": COUNT,
        "parser": "p.extract(hdr.items.next); p.extract(hdr.items.next); transition accept;",
    }
    document = program("hdr.items[bump(hdr.h.a) - 1].v = hdr.h.a;", **parts)
    out = Switch(document).run(frame(rest=bytes(4)))
    assert (out[0], out[8:12]) == (1, bytes([0, 1, 0, 0]))


# --------------------------------------------------------------------------- calls (6.8)


def test_the_last_of_two_out_arguments_for_one_place_wins() -> None:
    declarations = "void two(out bit<8> x, out bit<8> y) { x = 1; y = 2; }"
    assert after("two(hdr.h.a, hdr.h.a);", {"declarations": declarations})["a"] == 2


def test_an_in_argument_is_a_copy() -> None:
    declarations = "void f(in bit<8> old, inout bit<8> x) { x = 7; x = x + old; }"
    assert after("f(hdr.h.a, hdr.h.a);", {"declarations": declarations}, a=3)["a"] == 10


def test_an_action_sees_its_copy_and_the_place_apart() -> None:
    locals = "action act(inout bit<8> x) { x = 5; hdr.h.b = hdr.h.a; }"
    assert after("act(hdr.h.a);", {"locals": locals}, a=3) == fields(frame(a=5, b=3))


def test_return_leaves_the_function_and_copies_out() -> None:
    declarations = """bit<8> f(inout bit<8> x, in bit<8> y) {
        if (y == 0) { x = 1; return 10; }
        x = 2;
        if (y == 1) { return 20; }
        x = 3; return 30; }"""
    for y, expected in ((0, (1, 10)), (1, (2, 20)), (2, (3, 30))):
        result = after("hdr.h.c = f(hdr.h.a, hdr.h.b);", {"declarations": declarations}, b=y)
        assert (result["a"], result["c"]) == expected


def test_generic_functions_take_each_type() -> None:
    declarations = "T pick<T>(in bool first, in T x, in T y) { if (first) { return x; } return y; }"
    body = "hdr.h.a = pick(hdr.h.b == 0, hdr.h.c, hdr.h.d); hdr.h.w = pick<bit<16>>(false, 1, hdr.h.w);"
    assert after(body, {"declarations": declarations}, b=1, c=2, d=3, w=500) == fields(frame(3, 1, 2, 3, 500))


def test_sub_controls_get_arguments_and_keep_instances_apart() -> None:
    declarations = """control Inc(inout bit<8> x)(bit<8> by) {
        bit<8> count = 0;
        table t { key = { x: exact; } actions = { NoAction; } }
        apply { count = count + by; t.apply(); x = x + count; } }"""
    locals = "Inc(1) one; Inc(10) ten;"
    document = program(
        "ten.apply(hdr.h.b); if (hdr.h.d == 0) { one.apply(hdr.h.a); } else { one.apply(hdr.h.c); }",
        locals=locals,
        declarations=declarations,
    )
    assert walk(document, frame(1, 1, 1, 0)) == fields(frame(2, 11, 1, 0))
    assert walk(document, frame(1, 1, 1, 1)) == fields(frame(1, 11, 2, 1))
    names = {t["name"] for p in document["pipelines"] for t in p["tables"]}
    assert {"I.one.t", "I.ten.t"} <= names


# --------------------------------------------------------------------------- exit and return (12.4, 12.5)


def test_exit_in_a_function_of_nested_calls_copies_out_and_ends_ingress_only() -> None:
    declarations = """control Sub(inout bit<8> x) {
        action leave() { x = x + 1; exit; }
        table t { key = { x: exact; } actions = { leave; NoAction; } const entries = { 5: leave(); }
                  default_action = NoAction(); }
        apply { x = x + 1; t.apply(); x = x + 100; } }"""
    parts = {"declarations": declarations, "locals": "Sub() sub;", "egress": "hdr.h.d = 9;"}
    body = "bit<8> y = hdr.h.a; sub.apply(y); hdr.h.b = y; hdr.h.c = 1;"
    assert after(body, parts, a=1) == fields(frame(1, 102, 1, 9))
    assert after(body, parts, a=4) == fields(frame(4, 0, 0, 9))
    copied = "sub.apply(hdr.h.a); hdr.h.c = 1;"
    assert after(copied, parts, a=4) == fields(frame(6, 0, 0, 9))


def test_exit_copies_out_of_every_call_around_it() -> None:
    locals = """action inner(inout bit<8> x) { x = 3; exit; }
                action outer(inout bit<8> y) { inner(y); y = 4; }"""
    assert after("outer(hdr.h.a); hdr.h.b = 1;", {"locals": locals})["a"] == 3
    assert after("outer(hdr.h.a); hdr.h.b = 1;", {"locals": locals})["b"] == 0


def test_exit_copies_out_in_order_when_arguments_share_storage() -> None:
    locals = """action both(inout bytes_t whole, inout bit<8> part) { whole.a = 5; whole.b = 6; part = 7; exit; }"""
    assert after("both(hdr.h, hdr.h.a); hdr.h.c = 1;", {"locals": locals}, a=1, b=2) == fields(frame(7, 6, 0))


def test_return_in_a_control_ends_only_that_control() -> None:
    declarations = "control Sub(inout bit<8> x) { apply { if (x == 0) { return; } x = 9; } }"
    body = "Sub.apply(hdr.h.a); hdr.h.b = 1; if (hdr.h.c == 1) { return; } hdr.h.d = 1;"
    assert after(body, {"declarations": declarations}, a=0, c=1) == fields(frame(0, 1, 1, 0))
    assert after(body, {"declarations": declarations}, a=1, c=0) == fields(frame(9, 1, 0, 1))


# --------------------------------------------------------------------------- statements (12)


def test_switch_on_a_value_takes_one_case_and_falls_through_empty_labels() -> None:
    body = "switch (hdr.h.a) { 1: 2: { hdr.h.b = 10; } 3: { hdr.h.b = 20; } default: { hdr.h.b = 30; } }"
    assert [after(body, a=a)["b"] for a in (1, 2, 3, 4)] == [10, 10, 20, 30]


def test_loops_break_and_continue() -> None:
    body = """for (bit<8> i = 0; i < 10; i = i + 1) {
                if (i == 2) { continue; } if (i == hdr.h.b) { break; } hdr.h.a = hdr.h.a + i; }"""
    assert after(body, b=5)["a"] == 0 + 1 + 3 + 4
    assert after("for (bit<8> i in 250 .. 255) { hdr.h.a = hdr.h.a + 1; }")["a"] == 6


def test_compound_assignment() -> None:
    assert after(
        "hdr.h.a += 3; hdr.h.b <<= 2; hdr.h.c |-|= 5; hdr.h.d[3:0] |= 0xF;", a=255, b=3, c=2
    ) == fields(frame(2, 12, 0, 15))


def test_struct_and_tuple_assignments_happen_at_once() -> None:
    declarations = "struct pair_t { bit<8> x; bit<8> y; }"
    body = """pair_t p = { hdr.h.a, hdr.h.b }; p = { p.y, p.x }; hdr.h.c = p.x; hdr.h.d = p.y;
              tuple<bit<8>, bit<8>> t = { 1, 2 }; hdr.h.a = t[1]; pair_t q = { y = 7, x = 8 }; hdr.h.b = q.x;"""
    assert after(body, {"declarations": declarations}, a=5, b=6) == fields(frame(2, 8, 6, 5))


# --------------------------------------------------------------------------- tables (14.2)

TABLE = """
    action set(bit<8> v) { hdr.h.b = v; }
    action other() { hdr.h.b = 99; }
    table t { key = { hdr.h.a: exact; } actions = { set; other; NoAction; }
              const entries = { 1: set(11); 2: other(); } default_action = NoAction(); }
"""


def test_hit_miss_and_action_run_lead_the_right_way() -> None:
    parts = {"locals": TABLE}
    hit = "if (t.apply().hit) { hdr.h.c = 1; } else { hdr.h.c = 2; }"
    assert [(after(hit, parts, a=a)["b"], after(hit, parts, a=a)["c"]) for a in (1, 2, 3)] == [
        (11, 1),
        (99, 1),
        (0, 2),
    ]
    miss = "bool m = t.apply().miss; hdr.h.c = m ? 8w1 : 0;"
    assert [after(miss, parts, a=a)["c"] for a in (1, 3)] == [0, 1]
    switch = "switch (t.apply().action_run) { set: { hdr.h.c = 1; } other: { hdr.h.c = 2; } default: { hdr.h.c = 3; } }"
    assert [after(switch, parts, a=a)["c"] for a in (1, 2, 3)] == [1, 2, 3]


def test_a_table_can_be_applied_in_two_places() -> None:
    body = """if (hdr.h.d == 0) { t.apply(); hdr.h.c = 1; }
              else { switch (t.apply().action_run) { set: { hdr.h.c = 2; } default: { hdr.h.c = 3; } } }"""
    parts = {"locals": TABLE}
    document = program(body, **parts)
    assert len([t for p in document["pipelines"] for t in p["tables"] if t["name"] == "I.t"]) == 1
    assert [walk(document, frame(a=a, d=d))["c"] for a, d in ((1, 0), (1, 1), (2, 1))] == [1, 2, 3]


def test_keys_can_be_expressions() -> None:
    locals = """table t { key = { hdr.h.a + hdr.h.b: exact @name("sum"); hdr.word.isValid(): exact;
                                  hdr.h.w[11:4]: exact @name("mid"); }
                actions = { hit; NoAction; } const entries = { (5, false, 0xAB): hit(); }
                default_action = NoAction(); }"""
    locals = "action hit() { hdr.h.c = 1; }" + locals
    assert [
        after("t.apply();", {"locals": locals}, a=2, b=b, w=w)["c"]
        for b, w in ((3, 0xFABF), (4, 0xABF), (3, 0))
    ] == [1, 0, 0]


def test_arguments_bound_in_the_action_list_are_copied_in_and_out() -> None:
    locals = """action add(inout bit<8> x, bit<8> by) { x = x + by; hdr.h.c = hdr.h.b; }
        table t { key = { hdr.h.a: exact; } actions = { add(hdr.h.b); } const default_action = add(hdr.h.b, 5); }"""
    assert after("t.apply();", {"locals": locals}, b=1) == fields(frame(0, 6, 1))


# --------------------------------------------------------------------------- headers, stacks, parsers (8.17, 8.18, 13)

ITEMS = {
    "parser": "transition select(hdr.h.a) { 0: accept; default: items; }",
    "states": """state items { p.extract(hdr.items.next);
                   transition select(hdr.items.last.more) { 0: accept; default: items; } }""",
}


def test_stacks_parse_until_the_mark_and_overflow_is_an_error() -> None:
    document = program(
        "hdr.h.d = (bit<8>)(bit<32>)hdr.items.size; if (sm.parser_error == error.StackOutOfBounds) { hdr.h.b = 1; }",
        **ITEMS,
    )
    assert walk(document, frame(a=1, rest=bytes([1, 5, 0, 6])))["b"] == 0
    assert walk(document, frame(a=1, rest=bytes([1, 5, 1, 6, 1, 7, 0, 8])))["b"] == 1


def test_push_and_pop_move_the_elements() -> None:
    document = program("hdr.items.push_front(1); hdr.items[0].setValid(); hdr.items[0].v = 9;", **ITEMS)
    assert Switch(document).run(frame(a=1, rest=bytes([1, 5, 0, 6])))[8:] == bytes([0, 9, 1, 5, 0, 6])
    document = program("hdr.items.pop_front(1);", **ITEMS)
    assert Switch(document).run(frame(a=1, rest=bytes([1, 5, 0, 6])))[8:] == bytes([0, 6])


def test_run_time_indexes_stay_inside_the_stack() -> None:
    document = program("hdr.items[hdr.h.b].v = 7; hdr.h.c = hdr.items[hdr.h.b].v;", **ITEMS)
    out = Switch(document).run(frame(a=1, b=1, rest=bytes([1, 5, 0, 6])))
    assert (out[2], out[8:]) == (7, bytes([1, 5, 0, 7]))
    out = Switch(document).run(frame(a=1, b=200, rest=bytes([1, 5, 0, 6])))
    assert out[8:] == bytes([1, 5, 0, 6])


def test_headers_are_assigned_compared_and_initialised_with_their_validity() -> None:
    body = """word_t w; word_t v = { 5 }; hdr.word = w; hdr.h.a = hdr.word.isValid() ? 8w1 : 0;
              hdr.word = v; hdr.h.b = hdr.word == v ? 8w1 : 0; hdr.h.c = w == v ? 8w1 : 0;
              hdr.word = (word_t) {#}; hdr.h.d = hdr.word.isValid() ? 8w1 : 0;"""
    assert after(body) == fields(frame(0, 1, 0, 0))


def test_a_union_has_one_valid_member() -> None:
    declarations = (
        "header one_t { bit<8> x; } header two_t { bit<8> x; } header_union u_t { one_t one; two_t two; }"
    )
    body = """hdr.u.one.setValid(); hdr.u.two.setValid(); hdr.h.a = hdr.u.one.isValid() ? 8w1 : 0;
              hdr.h.b = hdr.u.two.isValid() ? 8w1 : 0; hdr.u.two.setInvalid(); hdr.h.c = hdr.u.isValid() ? 8w1 : 0;"""
    assert after(body, {"declarations": declarations, "fields": "u_t u;"}) == fields(frame(0, 1, 0, 0))


def test_select_matches_masks_ranges_tuples_and_reports_no_match() -> None:
    parts = {
        "parser": """transition select(hdr.h.a, hdr.h.b) {
            (1, _): one; (0x20 &&& 0xF0, 3 .. 9): two; (_, 0xFF): accept; }""",
        "states": "state one { meta.m = 1; transition accept; } state two { meta.m = 2; transition accept; }",
    }
    body = "hdr.h.c = meta.m; if (sm.parser_error == error.NoMatch) { hdr.h.d = 1; }"
    document = program(body, **parts)
    cases = {
        (1, 77): (1, 0),
        (0x2F, 3): (2, 0),
        (0x2F, 9): (2, 0),
        (0x2F, 10): (0, 1),
        (0x31, 4): (0, 1),
        (9, 255): (0, 0),
    }
    for (a, b), expected in cases.items():
        result = walk(document, frame(a, b))
        assert (result["c"], result["d"]) == expected, (a, b)


def test_parsers_branch_call_sub_parsers_and_keep_their_variables() -> None:
    declarations = """parser Words(packet_in p, out word_t word, inout bit<8> n) {
        state start { p.extract(word); n = n + 1; transition select(word.x[7:0]) { 0: start; default: accept; } } }"""
    parts = {
        "declarations": declarations,
        "parser_locals": "Words() words; bit<8> count = 10;",
        "parser": "if (hdr.h.a == 1) { count = count + 5; words.apply(p, hdr.word, count); } else { count = 3; } "
        "meta.m = count; transition accept;",
    }
    document = program("hdr.h.b = meta.m;", **parts)
    out = Switch(document).run(frame(a=1, rest=bytes([1, 0, 0, 0, 2, 0, 0, 9])))
    assert (out[1], out[8:]) == (17, bytes([2, 0, 0, 9]))
    assert walk(document, frame(a=0))["b"] == 3


def test_lookahead_does_not_consume_and_advance_does() -> None:
    parts = {
        "parser": "meta.m = p.lookahead<bit<8>>(); p.advance(16); p.extract(hdr.word); transition accept;"
    }
    out = Switch(program("hdr.h.a = meta.m;", **parts)).run(frame(rest=bytes([7, 8, 1, 2, 3, 4, 5])))
    assert (out[0], out[8:]) == (7, bytes([1, 2, 3, 4, 5]))


def test_varbit_headers_take_their_length_from_the_packet() -> None:
    parts = {
        "declarations": "header options_t { bit<8> n; varbit<64> data; }",
        "fields": "options_t o; options_t copy;",
        "parser": "bit<8> n = p.lookahead<bit<8>>(); p.extract(hdr.o, (bit<32>)n * 8); transition accept;",
    }
    document = program("hdr.copy = hdr.o; hdr.copy.n = 7;", **parts)
    out = Switch(document).run(frame(rest=bytes([3, 1, 2, 3, 99])))
    assert out[8:] == bytes([3, 1, 2, 3, 7, 1, 2, 3, 99])


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "parts", "said"),
    [
        (
            "",
            {"declarations": "extern void unknown(in bit<8> x);", "egress": "unknown(1);"},
            "extern function unknown",
        ),
        ("", {"egress": "resubmit_preserving_field_list(1);"}, "can only be called in ingress"),
        ("hdr.h.s = hdr.h.s / hdr.h.t;", {}, "/"),
        ("", {"declarations": "header odd_t { bit<3> x; }", "fields": "odd_t odd;"}, "whole bytes"),
    ],
)
def test_what_is_not_supported_is_an_error_with_its_place(
    body: str, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(CompileError) as caught:
        program(body, **parts)
    diagnostic = caught.value.diagnostics[0]
    assert said in diagnostic.message
    assert diagnostic.line > 0 and diagnostic.column > 0
