"""Compile a few lines of P4 inside a whole v1model program and walk packets through the result."""

from __future__ import annotations

from typing import Any

from compiler.driver import back_end
from compiler.source import Source
from compiler.typecheck import check_source
from tests.compiler.mini_bmv2 import Switch

PROGRAM = """
#include <core.p4>
#include <v1model.p4>

header bytes_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<16> w; int<8> s; int<8> t; }}
header item_t {{ bit<8> more; bit<8> v; }}
header word_t {{ bit<32> x; }}
struct meta_t {{ bit<8> m; bool flag; }}
{declarations}
struct headers_t {{ bytes_t h; item_t[3] items; word_t word; {fields} }}
parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {parser_locals}
    state start {{ p.extract(hdr.h); {parser} }}
    {states}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {body} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{ {egress} }} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ {compute} }} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

HERE = ("a", "b", "c", "d", "w", "s", "t")


def compile_text(text: str, name: str = "test.p4") -> dict[str, Any]:
    """BMv2 JSON of a whole program."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from compiler.preprocess import preprocess

    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        source = preprocess(path)
        return back_end(check_source(Source(source.path, source.text)))[0]


def program(
    body: str = "",
    *,
    locals: str = "",
    declarations: str = "",
    parser: str = "transition accept;",
    states: str = "",
    fields: str = "",
    egress: str = "",
    compute: str = "",
    parser_locals: str = "",
) -> dict[str, Any]:
    """BMv2 JSON of PROGRAM with the given parts."""
    return compile_text(
        PROGRAM.format(
            body=body,
            locals=locals,
            declarations=declarations,
            parser=parser,
            states=states,
            fields=fields,
            egress=egress,
            compute=compute,
            parser_locals=parser_locals,
        )
    )


def frame(
    a: int = 0, b: int = 0, c: int = 0, d: int = 0, w: int = 0, s: int = 0, t: int = 0, rest: bytes = b""
) -> bytes:
    """A packet whose first header holds these values."""
    return bytes([a, b, c, d, w >> 8, w & 255, s & 255, t & 255]) + rest


def fields(packet: bytes) -> dict[str, int]:
    """The first header of a packet."""
    signed = [v - 256 if v > 127 else v for v in packet[6:8]]
    values = [*packet[:4], packet[4] << 8 | packet[5], *signed]
    return dict(zip(HERE, values, strict=True))


def walk(document: dict[str, Any], packet: bytes) -> dict[str, int]:
    """The first header after a packet's walk."""
    return fields(Switch(document).run(packet))


def after(body: str, parts: dict[str, str] | None = None, **values: int) -> dict[str, int]:
    """The first header after `body` ran in ingress on a packet with `values`."""
    return walk(program(body, **(parts or {})), frame(**values))
