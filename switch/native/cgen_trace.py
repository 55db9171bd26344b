"""Trace points in C: where a program tells what it does, with a snapshot of all its fields.

They are written only when a traced program is asked for. A snapshot is one list of 64-bit words: for each header its
validity, then its fields (a varbit: its length in bits) in the order of `fields_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from switch.native.cgen_expr import Body
from switch.native.cgen_layout import Layout
from switch.native.program import Field, Header, Program, limbs

INGRESS, STATE, PARSED, CONDITION, TABLE, STATEMENT, INGRESS_END, EGRESS, EGRESS_END, DEPARSED = range(10)
"""Kinds of trace points; what `a`, `b` and `c` mean in each is said where it is written."""


@dataclass(frozen=True)
class Point:
    """A field's place in a snapshot; `field` None is the validity of its header."""

    header: Header
    field: Field | None
    index: int
    words: int


def fields_of(program: Program) -> Iterator[Point]:
    """Everything that a snapshot holds, in its order."""
    at = 0
    for header in program.headers.values():
        if not header.metadata:
            yield Point(header, None, at, 1)
            at += 1
        for field in header.type.fields:
            words = 1 if field.varbit else limbs(field.width)
            if field.width:
                yield Point(header, field, at, words)
                at += words


class Tracing:
    """Writes trace points, or nothing when it is off."""

    def __init__(self, program: Program, layout: Layout, on: bool) -> None:
        self.program = program
        self.layout = layout
        self.on = on

    def point(self, body: Body | list[str], kind: int, a: str = "0", b: str = "0", c: str = "0") -> None:
        """Add a trace point."""
        if self.on:
            text = f"trace(x, P, {kind}, {a}, {b}, {c});"
            if isinstance(body, list):
                body.append(text)
            else:
                body.add(text)

    def function(self) -> str:
        """`trace`: takes a snapshot and hands it to the runtime."""
        if not self.on:
            return ""
        lines = []
        count = 0
        for point in fields_of(self.program):
            count = point.index + point.words
            place = self.layout.place(point.header)
            if point.field is None:
                lines.append(f"    w[{point.index}] = {place.valid} != 0;")
                continue
            lvalue = place.field(point.header.type.fields.index(point.field))
            if point.field.varbit:
                lines.append(f"    w[{point.index}] = {lvalue}n;")
            elif point.field.width > 64:
                lines += [f"    w[{point.index + i}] = {lvalue}[{i}];" for i in range(point.words)]
            else:
                lines.append(f"    w[{point.index}] = (uint64_t){lvalue};")
        body = "\n".join(lines)
        return (
            "static void trace(xf_ctx *x, struct phv *P, uint32_t kind, uint64_t a, uint64_t b, uint64_t c) {\n"
            f"    uint64_t w[{count + 1}];\n    (void)P;\n{body}\n"
            f"    xf_trace(x, kind, a, b, c, w, {count});\n}}"
        )
