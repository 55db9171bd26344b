"""P4Info: identifiers, names, annotations, types and entries, against the P4Runtime specification and p4c's numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from compiler.errors import CompileError
from compiler.p4info import p4info_entries, p4info_text
from compiler.p4info_ids import jenkins_one_at_a_time
from compiler.typecheck import check
from tests.compiler.frontend import checked, program_text

REPOSITORY = Path(__file__).resolve().parents[2]
P4C = Path("/opt/judges/bin/p4c-bm2-ss")


def info(**parts: str) -> p4i.P4Info:
    """P4Info of a program around the given parts, read back by protobuf."""
    text = p4info_text(checked(**parts))  # type: ignore[arg-type]
    return text_format.Parse(text, p4i.P4Info(), allow_unknown_field=True)


def entries(**parts: str) -> list[p4r.TableEntry]:
    """Table entries of a program around the given parts."""
    text = p4info_entries(checked(**parts))  # type: ignore[arg-type]
    request = text_format.Parse(text, p4r.WriteRequest(), allow_unknown_field=True)
    return [update.entity.table_entry for update in request.updates]


TABLE = "action set(bit<16> v) { meta.a = v; } table t { key = { hdr.ip.dst : %s; } actions = { set; } %s }"


def table(kind: str = "exact", more: str = "") -> dict[str, str]:
    """Parts of a program with one table."""
    return {"locals_": TABLE % (kind, more), "body": "t.apply();"}


def test_the_hash_is_jenkinss_one_at_a_time() -> None:
    # published values of the function
    assert jenkins_one_at_a_time(b"a") == 0xCA2E9442
    assert jenkins_one_at_a_time(b"The quick brown fox jumps over the lazy dog") == 0x519E91F5


def test_ids_are_the_type_prefix_and_the_hash_of_the_name() -> None:
    found = info(**table())
    assert found.tables[0].preamble.name == "In.t"
    assert found.tables[0].preamble.id == 0x02 << 24 | jenkins_one_at_a_time(b"In.t") & 0xFFFFFF
    names = {a.preamble.name: a.preamble.id for a in found.actions}
    assert names["NoAction"] == 21257015  # the number every p4c program has
    assert set(names) == {"NoAction", "In.set"}


def test_an_id_annotation_overrides_the_hash_and_keeps_the_prefix() -> None:
    found = info(locals_="@id(0x42) table t { actions = { NoAction; } }", body="t.apply();")
    assert found.tables[0].preamble.id == 0x02000042


def test_an_id_used_twice_is_an_error() -> None:
    program = checked(
        locals_="@id(7) table t { actions = { NoAction; } } @id(7) table u { actions = { NoAction; } }",
        body="t.apply(); u.apply();",
    )
    with pytest.raises(CompileError, match="used twice"):
        p4info_text(program)


def test_an_alias_is_the_shortest_suffix_that_is_unique() -> None:
    found = info(
        top="""control A(inout meta_t m) { action x() { } table t { actions = { x; } } apply { t.apply(); } }
        control B(inout meta_t m) { action x() { } action y() { } table t { actions = { x; y; } }
            apply { t.apply(); } }""",
        locals_="A() a; B() b;",
        body="a.apply(meta); b.apply(meta);",
    )
    aliases = {p.preamble.name: p.preamble.alias for p in [*found.tables, *found.actions]}
    assert aliases == {
        "In.a.t": "a.t",
        "In.b.t": "b.t",
        "In.a.x": "a.x",
        "In.b.x": "b.x",
        "In.b.y": "y",
        "NoAction": "NoAction",
    }


def test_match_fields_are_named_as_written() -> None:
    found = info(
        locals_="""table t { key = { hdr.ip.dst : lpm; hdr.tags[1].vid : ternary; meta.a[7:4] : exact;
            hdr.ip.isValid() : exact; meta.b & 0xff : exact; meta.narrow : range @name("small"); meta.flag : optional; }
            actions = { NoAction; } }""",
        body="t.apply();",
    )
    fields = [(f.id, f.name, f.bitwidth, f.match_type) for f in found.tables[0].match_fields]
    kinds = p4i.MatchField.MatchType
    assert fields == [
        (1, "hdr.ip.dst", 32, kinds.LPM),
        (2, "hdr.tags[1].vid", 12, kinds.TERNARY),
        (3, "meta.a[7:4]", 4, kinds.EXACT),
        (4, "hdr.ip.$valid$", 1, kinds.EXACT),
        (5, "meta.b & 0xff", 16, kinds.EXACT),
        (6, "small", 8, kinds.RANGE),
        (7, "meta.flag", 1, kinds.OPTIONAL),
    ]


def test_a_key_too_complex_for_a_name_needs_one() -> None:
    program = checked(
        locals_="table t { key = { meta.a + meta.b : exact; } actions = { NoAction; } }", body="t.apply();"
    )
    with pytest.raises(CompileError, match="@name"):
        p4info_text(program)


def test_the_annotation_that_names_the_pause_register_travels() -> None:
    found = info(
        locals_="@xoff_queue_pause register<bit<48>>(4096) until;", body="bit<48> x; until.read(x, 0);"
    )
    (register,) = found.registers
    assert register.preamble.name == "In.until"
    assert list(register.preamble.annotations) == ["@xoff_queue_pause"]
    assert register.size == 4096 and register.type_spec.bitstring.bit.bitwidth == 48


def test_structured_annotations_and_documentation_travel() -> None:
    found = info(
        locals_="""@brief("one line") @description("two lines") @list[1, "two", true] @pairs[a=1+1, b="x"]
        table t { actions = { NoAction; } }""",
        body="t.apply();",
    )
    head = found.tables[0].preamble
    assert (head.doc.brief, head.doc.description) == ("one line", "two lines")
    assert [a.name for a in head.structured_annotations] == ["list", "pairs"]
    assert head.structured_annotations[1].kv_pair_list.kv_pairs[0].value.int64_value == 2


def test_a_table_that_is_never_applied_is_not_there() -> None:
    found = info(
        locals_="table t { actions = { NoAction; } } table u { actions = { NoAction; } }", body="u.apply();"
    )
    assert [t.preamble.name for t in found.tables] == ["In.u"]


def test_a_table_behind_a_constant_condition_is_not_there() -> None:
    found = info(locals_="table t { actions = { NoAction; } }", body="if (false) { t.apply(); }")
    assert not found.tables


def test_counters_meters_profiles_and_digests_are_there() -> None:
    found = info(
        top="struct note_t { bit<16> a; bool b; }",
        locals_="""
        counter(64, CounterType.bytes) c; meter(32, MeterType.packets) m;
        direct_counter(CounterType.packets_and_bytes) dc; direct_meter<bit<16>>(MeterType.bytes) dm;
        @max_group_size(8) action_selector(HashAlgorithm.crc16, 128, 16) sel;
        action go(bit<9> port) { sm.egress_spec = port; dm.read(meta.b); digest<note_t>(1, { meta.a, true }); }
        table t { key = { hdr.ip.dst : exact; meta.a : selector; } actions = { go; } implementation = sel;
            counters = dc; meters = dm; support_timeout = true; size = 77; }
        """,
        body="t.apply(); c.count(1); m.execute_meter(1, meta.b);",
    )
    (t,) = found.tables
    assert [f.name for f in t.match_fields] == ["hdr.ip.dst"]
    assert t.size == 77 and t.idle_timeout_behavior == p4i.Table.IdleTimeoutBehavior.NOTIFY_CONTROL
    assert set(t.direct_resource_ids) == {
        found.direct_counters[0].preamble.id,
        found.direct_meters[0].preamble.id,
    }
    (profile,) = found.action_profiles
    assert t.implementation_id == profile.preamble.id
    assert profile.with_selector and profile.size == 128 and profile.max_group_size == 8
    assert list(profile.table_ids) == [t.preamble.id]
    assert found.counters[0].spec.unit == p4i.CounterSpec.Unit.BYTES and found.counters[0].size == 64
    assert found.meters[0].spec.unit == p4i.MeterSpec.Unit.PACKETS
    assert found.digests[0].preamble.name == "note_t"
    assert [m.name for m in found.type_info.structs["note_t"].members] == ["a", "b"]


def test_new_types_and_their_translation_are_there() -> None:
    found = info(
        top="""@p4runtime_translation("p4.org/psa/v1/PortId_t", bit<32>) type bit<9> port_t;
        @p4runtime_translation("", string) type bit<16> name_t;""",
        locals_="action go(port_t p, name_t n) { sm.egress_spec = (bit<9>) p; } table t { actions = { go; } }",
        body="t.apply();",
    )
    params = next(a for a in found.actions if a.preamble.name == "In.go").params
    assert [(p.bitwidth, p.type_name.name) for p in params] == [(32, "port_t"), (0, "name_t")]
    types_ = found.type_info.new_types
    assert types_["port_t"].translated_type.sdn_bitwidth == 32
    assert types_["name_t"].translated_type.HasField("sdn_string")


def test_controller_headers_take_their_names_from_the_annotation() -> None:
    found = info(
        top="""@controller_header("packet_out") header packet_out_header_t { bit<9> egress_port; bit<7> pad; }""",
    )
    (header,) = found.controller_packet_metadata
    assert header.preamble.name == header.preamble.alias == "packet_out"
    assert header.preamble.id == 0x04923187  # p4c's number for this type name
    assert [(m.id, m.name, m.bitwidth) for m in header.metadata] == [(1, "egress_port", 9), (2, "pad", 7)]


def test_two_actions_of_one_control_plane_name_are_an_error() -> None:
    program = checked(
        locals_='@name("x") action a() { } @name("x") action b() { } table t { actions = { a; b; } }',
        body="t.apply();",
    )
    with pytest.raises(CompileError, match=r"two actions have the control-plane name 'In\.x'"):
        p4info_text(program)


def test_constant_ternary_entries_count_their_priority_down() -> None:
    rows = entries(**table("ternary", "const entries = { 1 &&& 3 : set(7); 8 : set(8); _ : set(9); }"))
    assert [r.priority for r in rows] == [3, 2, 1]
    assert rows[0].match[0].ternary.value == b"\0\0\0\x01" and rows[0].match[0].ternary.mask == b"\0\0\0\x03"
    assert rows[1].match[0].ternary.mask == b"\xff\xff\xff\xff"
    assert not rows[2].match  # "don't care" is left out
    assert rows[0].action.action.params[0].value == b"\0\x07"


def test_an_lpm_entry_carries_its_prefix_length() -> None:
    (row,) = entries(**table("lpm", "const entries = { 0x0a000000 &&& 0xff000000 : set(7); }"))
    assert row.match[0].lpm.value == b"\x0a\0\0\0" and row.match[0].lpm.prefix_len == 8
    assert row.priority == 0


def test_entries_with_priorities_are_written_in_their_order() -> None:
    more = """largest_priority_wins = false; priority_delta = 10;
        entries = { priority=30: 1 : set(1); 2 &&& 3 : set(2); priority=5: 3 : set(3); }"""
    rows = entries(**table("ternary", more))
    assert [(r.priority, r.action.action.params[0].value[-1]) for r in rows] == [(5, 3), (30, 1), (40, 2)]


def test_the_text_escapes_what_is_not_ascii() -> None:
    found = info(locals_='@name("größe") table t { actions = { NoAction; } }', body="t.apply();")
    assert found.tables[0].preamble.name == "In.größe"


@pytest.mark.judge
@pytest.mark.skipif(not P4C.exists(), reason="p4c is not on this machine")
def test_the_fabric_has_p4cs_p4info(tmp_path: Path) -> None:
    _same_as_p4c(REPOSITORY / "p4src" / "fabric.p4", tmp_path)


@pytest.mark.judge
@pytest.mark.skipif(not P4C.exists(), reason="p4c is not on this machine")
def test_nested_controls_have_p4cs_p4info(tmp_path: Path) -> None:
    path = tmp_path / "nested.p4"
    path.write_text(
        program_text(
            top="""action shared(bit<16> v) { }
            control A(inout meta_t m)(bit<32> n) { counter(n, CounterType.packets) c;
                action x() { m.a = 1; } table t { key = { m.a : exact; } actions = { x; shared; } size = n; }
                apply { t.apply(); c.count(0); } }
            control B(inout meta_t m) { A(16) one; A(32) two; apply { one.apply(m); two.apply(m); } }""",
            locals_="B() first; table own { actions = { shared; } const default_action = shared(3); } B() second;",
            body="first.apply(meta); own.apply(); second.apply(meta);",
        )
    )
    _same_as_p4c(path, tmp_path)


def _same_as_p4c(path: Path, scratch: Path) -> None:
    out = scratch / "p4info.txtpb"
    command = [
        str(P4C),
        "--std",
        "p4-16",
        "-o",
        str(scratch / "out.json"),
        "--p4runtime-files",
        str(out),
        str(path),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert p4info_text(check(path)).strip() == out.read_text().strip()
