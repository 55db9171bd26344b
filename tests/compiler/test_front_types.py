"""The typed tree: types, values, implicit casts, overloads and bound arguments."""

from __future__ import annotations

import pytest

from compiler import constants, tree, types
from tests.compiler.frontend import assigned, checked, control
from tests.compiler.typed_tree_contract import nodes, violations


def value_of(expression: str, type_: str = "bit<32>") -> object:
    """The folded value of a constant."""
    program = checked(top=f"const {type_} X = {expression};")
    found = [d for d in program.tree.decls if isinstance(d, tree.ConstDecl) and d.name == "X"]
    return found[0].value


@pytest.mark.parametrize(
    ("expression", "type_", "value"),
    [
        ("8w255 + 8w1", "bit<8>", 0),  # wraps (P4_16 specification, 8.6)
        ("8w0 - 8w1", "bit<8>", 255),
        ("8w250 |+| 8w10", "bit<8>", 255),  # saturates
        ("8w3 |-| 8w10", "bit<8>", 0),
        ("8s127 |+| 8s1", "int<8>", 127),
        ("8s127 + 8s1", "int<8>", -128),
        ("-8s128", "int<8>", -128),
        ("(bit<8>) (-8s1)", "bit<8>", 255),
        ("(int<4>) 4w15", "int<4>", -1),
        ("(bit<4>) 8w0xAB", "bit<4>", 0xB),
        ("8w0xAB ++ 4w0xC", "bit<12>", 0xABC),
        ("8w0xAB[7:4]", "bit<4>", 0xA),
        ("1 << 20", "bit<32>", 1 << 20),
        ("8w0x81 << 1", "bit<8>", 2),
        ("-8s64 >> 2", "int<8>", -16),  # arithmetic shift of signed numbers
        ("~8w0x0F", "bit<8>", 0xF0),
        ("7 / 2 + 7 % 2", "bit<8>", 4),
        ("1 + 2 * 3", "bit<8>", 7),
        ("2 - 1 - 1", "bit<8>", 0),
        ("1 | 2 ^ 3 & 1", "bit<8>", 1 | (2 ^ (3 & 1))),
        ("true ? 8w1 : 8w2", "bit<8>", 1),
        ("0xFFFF_FFFF_FFFF_FFFF_FFFF", "bit<80>", 2**80 - 1),
        ("0b1010_1010", "bit<8>", 0xAA),
        ("0o17", "bit<8>", 15),
        ("(bit<1>) true", "bit<1>", 1),
    ],
)
def test_constants_have_the_values_the_specification_gives(expression: str, type_: str, value: int) -> None:
    assert value_of(expression, type_) == value


def test_an_enum_and_an_error_are_values_of_their_own() -> None:
    assert value_of("HashAlgorithm.crc32", "HashAlgorithm").name == "crc32"
    assert value_of("error.NoMatch", "error") == types.ErrorValue("NoMatch")


def test_a_number_without_width_takes_the_width_of_what_it_meets() -> None:
    (right,) = assigned(checked(body="meta.a = 5;"))
    assert isinstance(right, tree.Cast) and right.implicit
    assert right.type == types.bit(16) and right.value == 5
    assert right.expr.type == types.INT


def test_both_sides_of_an_operator_have_one_type() -> None:
    (right,) = assigned(checked(body="meta.a = meta.b + 1;"))
    assert isinstance(right, tree.Binary)
    assert right.left.type == right.right.type == right.type == types.bit(16)


def test_a_negative_constant_becomes_its_twos_complement() -> None:
    (right,) = assigned(checked(body="meta.a = -1;"))
    assert right.value == 0xFFFF


def test_shift_right_and_closing_angles_are_told_apart() -> None:
    program = checked(
        locals_="register<bit<16>>(4) r; bit<16> x = 0;",
        body="r.read(x, 0); meta.a = x >> 2; meta.b = x >>2;",
    )
    assert [e.op for e in assigned(program)] == [">>", ">>"]
    calls = [n for n in nodes(control(program)) if isinstance(n, tree.Call) and n.method == "read"]
    assert list(calls[0].type_arguments.values()) == [types.bit(16)]


def test_less_than_is_not_a_type_argument() -> None:
    program = checked(locals_="bit<16> c = 1; bit<16> d = 2;", body="if (c < d && d > (c)) { meta.a = 1; }")
    condition = next(n for n in nodes(control(program)) if isinstance(n, tree.If)).condition
    assert isinstance(condition, tree.Binary) and condition.op == "&&"


def test_a_list_takes_the_type_it_is_assigned_to() -> None:
    (right,) = assigned(checked(body="hdr.tags[0] = { 5, 1 };"))
    assert isinstance(right, tree.ListExpr) and isinstance(right.type, types.HeaderType)
    assert [e.type for e in right.elements] == [types.bit(12), types.bit(4)]
    assert right.value == (5, 1)


def test_a_struct_value_may_leave_fields_to_their_defaults() -> None:
    (right,) = assigned(checked(body="meta = { b = 7, ... };"))
    assert right.value == (0, 7, 0, False)


def test_overloads_are_chosen_by_the_number_of_arguments() -> None:
    program = checked(body="mark_to_drop(sm); hdr.ip.setValid();")
    call = next(n for n in nodes(control(program)) if isinstance(n, tree.Call) and n.method == "mark_to_drop")
    assert len(call.target.params) == 1


def test_named_and_default_arguments_are_bound_in_parameter_order() -> None:
    program = checked(
        top="bit<16> f(in bit<16> x, in bit<16> y = 3) { return x + y; }", body="meta.a = f(x = meta.b);"
    )
    (call,) = assigned(program)
    assert isinstance(call, tree.Call)
    assert [b.param.name for b in call.bound] == ["x", "y"]
    assert call.bound[1].expr is not None and call.bound[1].expr.value == 3


def test_type_arguments_are_found_from_the_arguments() -> None:
    program = checked(top="T same<T>(in T x) { return x; }", body="meta.a = same(meta.b);")
    (call,) = assigned(program)
    assert isinstance(call, tree.Call) and call.type == types.bit(16)
    assert [str(t) for t in call.type_arguments.values()] == ["bit<16>"]


def test_a_table_without_default_action_runs_no_action() -> None:
    program = checked(locals_="table t { key = { hdr.ip.dst : lpm; } actions = { } }", body="t.apply();")
    table = control(program).locals[0]
    assert isinstance(table, tree.TableDecl) and table.default_action is not None
    assert table.default_action.action is not None and table.default_action.action.name == "NoAction"


def test_a_lone_default_stands_for_every_component() -> None:
    program = checked(
        parser="""state start { transition select(hdr.ip.ttl, hdr.ip.protocol) {
            (1, 2 &&& 3): accept; (_, 4 .. 6): accept; default: reject; } }"""
    )
    select = next(n for n in nodes(program.tree) if isinstance(n, tree.Select))
    assert [len(c.keys) for c in select.cases] == [2, 2, 2]
    assert select.cases[2].state is tree.REJECT


def test_switch_on_action_run_knows_the_actions() -> None:
    program = checked(
        locals_="action a() { } action b() { } table t { actions = { a; b; } default_action = a(); }",
        body="switch (t.apply().action_run) { a: { meta.a = 1; } b: default: { meta.a = 2; } }",
    )
    switch = next(n for n in nodes(control(program)) if isinstance(n, tree.Switch))
    assert switch.on_action
    assert isinstance(switch.cases[0].label, tree.Name) and isinstance(
        switch.cases[0].label.decl, tree.ActionDecl
    )
    assert switch.cases[1].body is None


def test_constructor_parameters_are_folded_with_their_values() -> None:
    program = checked(
        top="control Sub(inout bit<16> x)(bit<16> k) { apply { x = k + 1; } }",
        locals_="Sub(41) sub;",
        body="sub.apply(meta.a);",
    )
    sub = control(program, "Sub")
    (statement,) = sub.body.statements
    assert isinstance(statement, tree.Assign) and statement.right.value is None
    assert constants.fold(statement.right, {sub.constructor_params[0]: 41}) == 42


@pytest.mark.parametrize("version", ["20180101", "20200408"])
def test_both_families_of_v1model_signatures_are_there(version: str) -> None:
    index = "" if version == "20180101" else ", bit<9>"
    program = checked(
        locals_=f"register<bit<16>{index}>(512) r; bit<16> x;",
        body=f"r.read(x, {'(bit<32>)' if not index else ''}sm.ingress_port);",
        defines={"V1MODEL_VERSION": version},
    )
    assert violations(program) == []


def test_every_construct_of_the_grammar_is_typed() -> None:
    program = checked(
        top="""
        enum bit<4> kind_t { low = 1, high = 9 }
        type bit<9> port_t;
        typedef bit<16> short_t;
        const tuple<bit<8>, bool> PAIR = { 8w1, true };
        bit<16> sum(in bit<16> n) {
            bit<16> s = 0;
            for (bit<16> i = 0; i < n; i += 1) { if (i == 7) { break; } s = s + i; }
            for (bit<16> j in 1 .. 3) { s |+|= j; } return s; }
        @brief("both") @pair[k=1, v="x"] struct wide_t<T> { T first; T second; }
        """,
        locals_="""
        action set(bit<16> v) { meta.a = v; }
        @pragma stage 3
        table t {
            key = { hdr.ip.dst : ternary; (bit<8>) hdr.ip.offset : exact @name("offset"); }
            actions = { set; @defaultonly NoAction; }
            const entries = { (0x0a000000 &&& 0xff000000, 1) : set(5); (_, 2) : set(v = 6); }
            size = 16;
        }
        counter(512, CounterType.packets_and_bytes) c;
        """,
        body="""
        wide_t<bit<16>> w = { first = 1, second = sum(4) };
        meta.a = w.second;
        port_t p = (port_t) sm.ingress_port;
        kind_t k = kind_t.high;
        if (t.apply().hit) { c.count((bit<32>) (bit<9>) p); } else if (hdr.either.isValid()) { exit; }
        switch (k) { kind_t.low: { meta.b = 1; } kind_t.high: { meta.b = 2; } default: { } }
        meta.a[7:0] = PAIR[0];
        meta.a <<= 2;
        hdr.tags.push_front(1);
        hdr.tags[1] = {#};
        meta.narrow = meta.a[3+:8];
        @unlikely { bool b = hdr.tags[0] == { 1, 2 }; meta.flag = !b || (meta.a != 3 ? true : false); }
        """,
        parser="""
        value_set<bit<16>>(4) known;
        state start { pkt.extract(hdr.eth); transition select(hdr.eth.type) {
            0x8100: tags; known: rest; 0x0800 &&& 0xff00: rest; default: accept; } }
        state tags { pkt.extract(hdr.tags.next); transition select(hdr.tags.last.rest, pkt.lookahead<bit<8>>()) {
            (1, _): tags; default: accept; } }
        state rest { option_t o; pkt.extract(o, 32); pkt.advance(8); verify(o.length == 2, error.NoMatch);
            transition accept; }
        """,
    )
    assert violations(program) == []
