"""Warnings: what is never used, read before it is set, or in an invalid header; silence where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.typecheck import check
from tests.compiler.frontend import START, checked

FABRIC = Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"


def warnings(locals_: str = "", body: str = "", parser: str = START, top: str = "") -> list[str]:
    """Messages of the warnings about a program around the given parts."""
    return [w.message for w in checked(top, locals_, body, parser).warnings]


TABLE = "bit<16> q; action a() { q = 1; } table t { actions = { a; } }"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"locals_": TABLE}, "the table 't' is never applied"),
        ({"locals_": "action b() { }"}, "the action 'b' is used by no table and never called"),
        (
            {"parser": f"{START} state lost {{ transition accept; }}"},
            "no transition leads to the state 'lost'",
        ),
        ({"body": "bit<16> x; meta.a = x;"}, "'x' is read before it has a value"),
        ({"body": "bit<16> x; if (meta.flag) { meta.a = x; }"}, "'x' is read before it has a value"),
        ({"body": "meta_t m; meta.a = m.b;"}, "'m.b' is read before it has a value"),
        ({"body": "ethernet_t h; meta.a = h.type;"}, "'h.type' is read while the header 'h' is invalid"),
        (
            {"body": "hdr.ip.setInvalid(); meta.narrow = hdr.ip.ttl;"},
            "'hdr.ip.ttl' is read while the header 'hdr.ip' is invalid",
        ),
        ({"top": "void f(out bit<8> x) { bit<8> y = x; x = y; }"}, "'x' is read before it has a value"),
        ({"body": "meta.a = 65536;"}, "65536 does not fit in bit<16>; it becomes 0"),
        ({"body": "meta.a = meta.b << 16;"}, "a shift by 16 leaves nothing of bit<16>"),
        ({"locals_": "bit<8> meta;"}, "'meta' hides the parameter of the same name"),
        (
            {
                "locals_": "table t { key = { hdr.ip.dst: lpm; } actions = { NoAction; } "
                "const entries = { 0x0a000000 / 24: NoAction(); } }",
                "body": "t.apply();",
            },
            "/ divides; a prefix is written value &&& mask",
        ),
        ({"body": "mark_to_drop();"}, "'mark_to_drop' is deprecated"),
    ],
)
def test_what_is_likely_a_mistake_is_warned_about(parts: dict[str, str], message: str) -> None:
    assert any(message in w for w in warnings(**parts)), warnings(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"locals_": TABLE, "body": "t.apply(); meta.a = q;"},  # an action may have set it
        {"body": "bit<16> x; if (meta.flag) { x = 1; } meta.a = x;"},  # one path sets it
        {"body": "bit<16> x; hash(x, HashAlgorithm.crc16, 16w0, { meta.b }, 16w9); meta.a = x;"},
        {"body": "ethernet_t h; h.setValid(); meta.a = h.type;"},
        {"body": "ethernet_t h = hdr.eth; meta.a = h.type;"},
        {"body": "hdr.ip.setInvalid(); if (hdr.ip.isValid()) { meta.a = 1; }"},
        {"body": "bit<16> x; for (bit<16> i = 0; i < 3; i = i + 1) { x = i; } meta.a = x;"},
        {"locals_": '@noWarn("unused") action b() { }'},
        {"top": "bit<8> f(out bit<8> x) { x = 1; return x; }"},
    ],
)
def test_what_may_be_right_is_not_warned_about(parts: dict[str, str]) -> None:
    assert warnings(**parts) == []


def test_the_fabric_has_no_warnings() -> None:
    assert [str(w) for w in check(FABRIC).warnings] == []
