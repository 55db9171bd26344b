"""v1model's externs as the compiler writes them, on the native switch; results from published definitions, by hand."""

from __future__ import annotations

import binascii
import zlib
from typing import Any

import pytest

from tests.compiler.both import engine, frames, native
from tests.compiler.walk import PROGRAM, compile_text, frame, program

SECOND = 1_000_000_000


def out(body: str, packet: bytes = frame(1, 2, 3, 4, 0x1234, 5, 6), **parts: str) -> bytes:
    """The one frame that comes out of port 0."""
    ((port, result),) = native(program(body, **parts), packet)
    assert port == 0
    return result


def crc16(data: bytes) -> int:
    """CRC-16/ARC: polynomial 0x8005 reflected, start 0."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def ones_complement(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total = sum(int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


# --------------------------------------------------------------------------- hash, random, checksums

DATA = bytes([1, 2, 0x12, 0x34])


@pytest.mark.parametrize(
    ("algorithm", "value"),
    [
        ("crc16", crc16(DATA)),
        ("crc32", zlib.crc32(DATA) & 0xFFFF),
        ("crc16_custom", crc16(DATA)),
        ("crc32_custom", zlib.crc32(DATA) & 0xFFFF),
        ("identity", 0x1234),
        ("csum16", ones_complement(DATA)),
        ("xor16", 0x0102 ^ 0x1234),
    ],
)
def test_hashes(algorithm: str, value: int) -> None:
    call = f"hash(hdr.h.w, HashAlgorithm.{algorithm}, 16w0, {{ hdr.h.a, hdr.h.b, hdr.h.w }}, 32w65536);"
    assert int.from_bytes(out(call)[4:6], "big") == value


def test_a_hash_is_base_plus_the_remainder_of_computed_inputs() -> None:
    # inputs 4 bits of a + 1, 4 bits 3: one byte 0x23
    call = "hash(hdr.h.w, HashAlgorithm.crc32, 16w100, { (hdr.h.a + 1)[3:0], 4w3 }, 16w10);"
    assert int.from_bytes(out(call)[4:6], "big") == 100 + zlib.crc32(b"\x23") % 10


def test_a_random_number_keeps_to_its_bounds() -> None:
    document = program("random(hdr.h.a, 8w3, hdr.h.b); bit<3> x; random(x, 0, 7); hdr.h.c = (bit<8>)x;")
    with engine(document) as switch:
        seen = {frames(switch, frame(0, 5), now=SECOND + i)[0][1][0] for i in range(60)}
    assert seen == {3, 4, 5}


def test_checksums_are_computed_when_their_condition_holds() -> None:
    compute = "update_checksum(hdr.h.a == 1, { hdr.h.a, hdr.h.b, 16w0x77 }, hdr.h.w, HashAlgorithm.csum16);"
    assert int.from_bytes(out("", compute=compute)[4:6], "big") == ones_complement(b"\1\2\0\x77")
    assert out("hdr.h.a = 2;", compute=compute)[4:6].hex() == "1234"
    nested = f"if (hdr.h.b == 2) {{ {compute} }} else {{ {compute.replace('0x77', '0x78')} }}"
    assert int.from_bytes(out("", compute=nested)[4:6], "big") == ones_complement(b"\1\2\0\x77")
    assert int.from_bytes(out("hdr.h.b = 3;", compute=nested)[4:6], "big") == ones_complement(b"\1\3\0\x78")


def test_checksums_reach_into_the_payload() -> None:
    compute = "update_checksum_with_payload(true, { hdr.h.a, hdr.h.b }, hdr.h.w, HashAlgorithm.csum16);"
    packet = frame(1, 2, rest=b"\x10\x20\x30")
    assert int.from_bytes(out("", packet, compute=compute)[4:6], "big") == ones_complement(
        b"\1\2\x10\x20\x30"
    )


@pytest.mark.parametrize(("w", "error"), [(ones_complement(b"\1\2"), 0), (7, 1)])
def test_a_wrong_checksum_is_reported(w: int, error: int) -> None:
    empty = dict.fromkeys(
        ("states", "fields", "egress", "compute", "parser_locals", "declarations", "locals"), ""
    )
    text = PROGRAM.format(**empty, body="hdr.h.d = (bit<8>)sm.checksum_error;", parser="transition accept;")
    check = "verify_checksum(hdr.h.isValid(), { hdr.h.a, hdr.h.b }, hdr.h.w, HashAlgorithm.csum16);"
    head = "control V(inout headers_t hdr, inout meta_t meta) { apply { "
    assert head in text
    ((_, result),) = native(compile_text(text.replace(head, head + check)), frame(1, 2, w=w))
    assert result[3] == error


# --------------------------------------------------------------------------- state


def test_counters_registers_and_unset_meters() -> None:
    locals_ = """counter(8, CounterType.packets_and_bytes) c; register<bit<12>>(8) r; register<bool>(2) b;
        meter(4, MeterType.bytes) m;"""
    body = """c.count((bit<32>)hdr.h.a); bit<12> x; r.read(x, 3); x = x + 1; r.write(3, x); hdr.h.w = (bit<16>)x;
        b.write(1, hdr.h.b == 2); bool y; b.read(y, 1); hdr.h.c = y ? 8w1 : 0; m.execute_meter(2, hdr.h.d);
        r.read(x, 99);"""
    with engine(program(body, locals=locals_)) as switch:
        results = [frames(switch, frame(5, 2, rest=bytes(12)))[0][1] for _ in range(3)]
        assert switch.counter_read("I.c", 5) == (3, 60)
        assert switch.counter_read("I.c", 4) == (0, 0)
        assert switch.register_read("I.r", 3) == 3
    assert [r[:6].hex() for r in results] == ["050201000001", "050201000002", "050201000003"]


def test_direct_counters_and_meters_belong_to_the_entries() -> None:
    locals_ = """direct_counter(CounterType.packets_and_bytes) dc; direct_meter<bit<8>>(MeterType.packets) dm;
        action hit() { dc.count(); dm.read(hdr.h.b); }
        table t { key = { hdr.h.a: exact; } actions = { hit; } counters = dc; meters = dm; }"""
    with engine(program("hdr.h.b = 9; t.apply();", locals=locals_)) as switch:
        handle = switch.table_add("I.t", [("exact", 1)], "I.hit", [])
        results = [frames(switch, frame(a, 2))[0][1][1] for a in (1, 2, 1)]
        assert switch.entry_counter("I.t", handle) == (2, 16)
    assert results == [0, 9, 0]


def test_members_of_a_selector_are_chosen_by_its_keys() -> None:
    locals_ = """action set(bit<8> v) { hdr.h.d = v; } action_selector(HashAlgorithm.identity, 16, 8) sel;
        table t { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { set; } implementation = sel; }"""
    with engine(program("t.apply();", locals=locals_)) as switch:
        members = [switch.member_add("I.sel", "I.set", [v]) for v in (10, 20, 30)]
        group = switch.group_add("I.sel", [(m, 1, True) for m in members])
        switch.table_add_indirect("I.t", [("exact", 1)], group=group)
        assert [frames(switch, frame(1, b))[0][1][3] for b in range(6)] == [10, 20, 30, 10, 20, 30]


def test_value_sets_decide_in_the_parser() -> None:
    parts = {
        "declarations": "struct pair_t { bit<8> x; bit<16> y; }",
        "parser_locals": "value_set<pair_t>(4) pairs; value_set<bit<8>>(4) ones;",
        "parser": "transition select(hdr.h.a, hdr.h.w) { pairs: yes; (9, _): one; default: accept; }",
        "states": """state yes { meta.m = 1; transition accept; }
            state one { transition select(hdr.h.b) { ones: two; default: accept; } }
            state two { meta.m = 2; transition accept; }""",
    }
    with engine(program("hdr.h.d = meta.m;", **parts)) as switch:
        switch.value_set_set("P.pairs", [[("exact", 1), ("exact", 0x1234)]])
        switch.value_set_set("P.ones", [[("exact", 7)]])
        packets = (frame(1, w=0x1234), frame(1, w=0x1235), frame(9, 7), frame(9, 8))
        assert [frames(switch, p)[0][1][3] for p in packets] == [1, 0, 2, 0]


# --------------------------------------------------------------------------- copies and other ways of a packet


def test_a_dropped_packet_does_not_come_out() -> None:
    assert native(program("mark_to_drop(sm);"), frame()) == []
    assert native(program("mark_to_drop();"), frame()) == []
    assert native(program("", egress="mark_to_drop(sm);"), frame()) == []
    assert native(program("mark_to_drop(sm); sm.egress_spec = 2;"), frame()) == [(2, frame())]


def test_truncate_cuts_what_is_sent() -> None:
    assert out("truncate(5);") == bytes([1, 2, 3, 4, 0x12])


def test_multicast_replicas_know_their_number() -> None:
    with engine(program("sm.mcast_grp = 7;", egress="hdr.h.a = (bit<8>)sm.egress_rid;")) as switch:
        switch.multicast_group_set(7, [(1, 11), (2, 22)])
        assert frames(switch, frame()) == [(1, frame(11)), (2, frame(22))]


KEEP = """struct kept_t { @field_list(1) bit<8> one; @field_list(1, 2) bit<8> both; bit<8> none; }"""


def with_metadata(body: str, egress: str) -> dict[str, Any]:
    """A program whose metadata also holds `kept`, of type kept_t."""
    empty = dict.fromkeys(("states", "fields", "compute", "parser_locals", "locals"), "")
    text = PROGRAM.format(**empty, body=body, egress=egress, declarations="", parser="transition accept;")
    return compile_text(text.replace("struct meta_t {", KEEP + " struct meta_t { kept_t kept;"))


SET = "meta.kept.one = 10; meta.kept.both = 20; meta.kept.none = 30;"
SHOW = "hdr.h.b = meta.kept.one; hdr.h.c = meta.kept.both; hdr.h.d = meta.kept.none;"


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("clone(CloneType.I2E, 5);", (0, 0, 0)),
        ("clone_preserving_field_list(CloneType.I2E, 5, 1);", (10, 20, 0)),
        ("clone_preserving_field_list(CloneType.I2E, 5, 2);", (0, 20, 0)),
        ("clone3(CloneType.I2E, 5, { meta.kept.none, 8w1 });", (0, 0, 30)),
        ("clone3(CloneType.I2E, (bit<32>)hdr.h.a, meta.kept);", (10, 20, 30)),
    ],
)
def test_an_ingress_clone_is_the_packet_as_it_came_with_some_metadata(
    call: str, kept: tuple[int, ...]
) -> None:
    egress = f"if (sm.instance_type == 1) {{ {SHOW} }}"
    document = with_metadata(f"{SET} {call} hdr.h.w = 99; sm.egress_spec = 1;", egress)
    with engine(document) as switch:
        switch.clone_session_set(5, 2)
        result = dict(frames(switch, frame(5, 1, 1, 1, w=7)))
    assert result == {1: frame(5, 1, 1, 1, w=99), 2: frame(5, *kept, w=7)}


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("clone_preserving_field_list(CloneType.E2E, 5, 1);", (10, 20, 0)),
        ("clone3(CloneType.E2E, 5, { meta.kept });", (10, 20, 30)),
    ],
)
def test_an_egress_clone_is_the_packet_as_it_leaves(call: str, kept: tuple[int, ...]) -> None:
    egress = f"if (sm.instance_type == 2) {{ {SHOW} }} else {{ hdr.h.w = 99; {call} }}"
    with engine(with_metadata(SET, egress)) as switch:
        switch.clone_session_set(5, 2)
        result = dict(frames(switch, frame(5)))
    assert result == {0: frame(5, w=99), 2: frame(5, *kept, w=99)}


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("resubmit_preserving_field_list(2);", (0, 20, 0)),
        ("resubmit({ meta.kept.one });", (10, 0, 0)),
        ("resubmit(meta);", (10, 20, 30)),
    ],
)
def test_a_resubmitted_packet_starts_again_as_it_came(call: str, kept: tuple[int, ...]) -> None:
    body = f"if (sm.instance_type == 6) {{ {SHOW} }} else {{ {SET} hdr.h.w = 99; {call} }}"
    assert native(with_metadata(body, ""), frame(5, w=7)) == [(0, frame(5, *kept, w=7))]


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("recirculate_preserving_field_list(1);", (10, 20, 0)),
        ("recirculate({ meta.kept.none, meta.kept.one });", (10, 0, 30)),
    ],
)
def test_a_recirculated_packet_starts_again_as_it_leaves(call: str, kept: tuple[int, ...]) -> None:
    body = f"if (sm.instance_type == 4) {{ {SHOW} }}"
    egress = f"if (hdr.h.w != 99) {{ {SET} hdr.h.w = 99; {call} }}"
    assert native(with_metadata(body, egress), frame(5, w=7)) == [(0, frame(5, *kept, w=99))]


# --------------------------------------------------------------------------- messages


def test_digests_carry_fields_and_computed_values() -> None:
    declarations = "struct seen_t { bit<8> who; bit<16> what; bool flag; }"
    body = """if (hdr.h.d == 0) { digest<seen_t>(1, { hdr.h.a, hdr.h.w + 1, hdr.h.b == 2 }); }
        else { digest(1, { hdr.h.c }); }"""
    with engine(program(body, declarations=declarations)) as switch:
        for d in (0, 1):
            frames(switch, frame(1, 2, 3, d, w=0x1234))
        found = switch.take_digests()
    assert [d.values for d in found] == [(1, 0x1235, 1), (3,)]
    assert found[0].list_name == "seen_t"


def test_log_messages_and_assertions_reach_the_log() -> None:
    body = """log_msg("a is {}, all {}", { hdr.h.a, { hdr.h.b, hdr.h.c } }); log_msg("plain");
        assert(hdr.h.a == 1); assume(hdr.h.b == 3);"""
    with engine(program(body)) as switch:
        frames(switch, frame(1, 2, 3))
        texts = [message.text for message in switch.take_log()]
        assert switch.faults()["asserts"] == 1
    assert "a is 1, all" in texts[0] and "2" in texts[0] and "3" in texts[0]
    assert any("plain" in text for text in texts)


def test_the_reference_functions_agree_with_published_check_values() -> None:
    assert crc16(b"123456789") == 0xBB3D  # CRC-16/ARC
    assert binascii.crc32(b"123456789") == zlib.crc32(b"123456789") == 0xCBF43926
    assert ones_complement(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF ^ 0xDDF2  # RFC 1071, section 3
