"""Checking pieces of P4: programs built around a fragment, and what the checker says about them."""

from __future__ import annotations

from compiler import tree
from compiler.errors import CompileError, Diagnostic
from compiler.preprocess import INCLUDE_DIR, preprocess
from compiler.source import Source
from compiler.typecheck import check_source

PRELUDE = """
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<8> ttl; bit<8> protocol; bit<32> src; bit<32> dst; int<8> offset; }
header option_t { bit<8> length; varbit<320> data; }
header tag_t { bit<12> vid; bit<4> rest; }
header_union either_t { ethernet_t a; ipv4_t b; }
struct headers_t { ethernet_t eth; ipv4_t ip; tag_t[3] tags; option_t opt; either_t either; }
struct meta_t { bit<16> a; bit<16> b; bit<8> narrow; bool flag; }
"""

PARTS = """
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    PARSER
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    LOCALS
    apply { BODY }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control Dep(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.eth); } }
V1Switch(P(), Verify(), In(), Out(), Compute(), Dep()) main;
"""

START = "state start { transition accept; }"


def program_text(top: str = "", locals_: str = "", body: str = "", parser: str = START) -> str:
    """A whole v1model program around the given parts."""
    parts = PARTS.replace("PARSER", parser).replace("LOCALS", locals_).replace("BODY", body)
    return f"#include <v1model.p4>\n{PRELUDE}\n{top}\n{parts}"


_CORE: dict[str, str] = {}


def source_of(text: str, defines: dict[str, str] | None = None) -> Source:
    """Preprocessed text of a program given as a string; v1model.p4 is preprocessed once per set of macros."""
    key = repr(sorted((defines or {}).items()))
    if key not in _CORE:
        _CORE[key] = preprocess(INCLUDE_DIR / "v1model.p4", [], defines).text
    rest = text.replace("#include <v1model.p4>", "", 1)
    return Source("program.p4", f'{_CORE[key]}\n#line 1 "program.p4"\n{rest}')


def checked(
    top: str = "",
    locals_: str = "",
    body: str = "",
    parser: str = START,
    defines: dict[str, str] | None = None,
) -> tree.TypedProgram:
    """The checked program around the given parts."""
    return check_source(source_of(program_text(top, locals_, body, parser), defines))


def complaints(top: str = "", locals_: str = "", body: str = "", parser: str = START) -> list[Diagnostic]:
    """What the checker says about a program around the given parts; [] when it is right."""
    try:
        checked(top, locals_, body, parser)
    except CompileError as error:
        return error.diagnostics
    return []


def control(program: tree.TypedProgram, name: str = "In") -> tree.ControlDecl:
    """A control of a checked program."""
    for decl in program.tree.decls:
        if isinstance(decl, tree.ControlDecl) and decl.name == name:
            return decl
    raise KeyError(name)


def assigned(program: tree.TypedProgram) -> list[tree.Expr]:
    """Right sides of the assignments in `In`'s apply block, in order."""
    return [s.right for s in control(program).body.statements if isinstance(s, tree.Assign)]
