"""Annotations and documentation in P4Info messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compiler import tree
from compiler.errors import CompileError
from compiler.source import Source
from compiler.textproto import Message

ELSEWHERE = frozenset(["name", "id", "brief", "description"])
"""Annotations that other fields of P4Info carry."""

EXPRESSION_LISTS = frozenset(["field_list", "optional", "priority"])
"""Annotations whose body is a list of expressions: written with ", " between them."""


def add_annotations(
    message: Message, annotations: Sequence[tree.Annotation], source: Source, leave_out: Collection[str] = ()
) -> None:
    """Adds `annotations` (as text) and `structured_annotations`."""
    structured: list[tree.Annotation] = []
    for annotation in annotations:
        if annotation.form in ("list", "pairs"):
            structured.append(annotation)
        elif annotation.name not in ELSEWHERE and annotation.name not in leave_out:
            message.add("annotations", annotation_text(annotation))
    for annotation in structured:
        _structured(message, annotation, source)


def annotation_text(annotation: tree.Annotation) -> str:
    """`@name` or `@name(tokens)`, tokens separated by spaces as the reference compiler does."""
    if not annotation.tokens:
        return f"@{annotation.name}"
    body = " ".join(annotation.tokens)
    if annotation.name in EXPRESSION_LISTS:
        body = body.replace(" ,", ",")
    return f"@{annotation.name}({body})"


def _structured(message: Message, annotation: tree.Annotation, source: Source) -> None:
    out = message.child("structured_annotations")
    out.add("name", annotation.name)
    if annotation.form == "list":
        if annotation.exprs:
            listed = out.child("expression_list")
            for expr in annotation.exprs:
                _expression(listed.child("expressions"), expr, source)
        return
    pairs = out.child("kv_pair_list")
    for pair in annotation.pairs:
        entry = pairs.child("kv_pairs")
        entry.add("key", pair.name)
        _expression(entry.child("value"), pair.expr, source)


def _expression(message: Message, expr: tree.Expr, source: Source) -> None:
    value = expr.value
    if isinstance(value, bool):
        message.add("bool_value", value)
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise CompileError.at(source, expr.pos, "a number in a structured annotation must fit in 64 bits")
        message.add("int64_value", value)
    elif isinstance(value, str):
        message.add("string_value", value)
    else:
        raise CompileError.at(
            source,
            expr.pos,
            "a structured annotation holds numbers, strings and booleans known at compile time",
        )


def add_documentation(message: Message, annotations: Sequence[tree.Annotation]) -> None:
    """Adds `doc` from @brief and @description."""
    found = {a.name: a for a in annotations if a.name in ("brief", "description") and a.tokens}
    if found:
        doc = message.child("doc")
        for name in ("brief", "description"):
            if name in found:
                doc.add(name, string_of(found[name]))


def string_of(annotation: tree.Annotation) -> str:
    """The string that is an annotation's argument."""
    return annotation.string or ""


def preamble(
    message: Message,
    number: int,
    name: str,
    alias: str,
    annotations: Sequence[tree.Annotation],
    source: Source,
    leave_out: Collection[str] = (),
) -> None:
    """The `preamble` every P4Info object begins with."""
    out = message.child("preamble")
    out.set("id", number)
    out.set("name", name)
    out.set("alias", alias)
    add_annotations(out, annotations, source, leave_out)
    add_documentation(out, annotations)
