"""What a syntax error probably is: habits from other languages, told from the tokens around the place."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = frozenset("table action apply control parser state header struct enum extern key actions".split())
"""Keywords that begin something which never stands inside statements."""

HEADS = {
    "while": "P4 has no while; loops are written for (…)",
    "do": "P4 has no do; loops are written for (…)",
    "foreach": "loops over elements are written for (T x in elements)",
    "elif": "it is written else if",
    "elsif": "it is written else if",
    "elseif": "it is written else if",
    "case": "a case is written value: { … }",
    "def": "a function is written T name(parameters) { … }",
    "function": "a function is written T name(parameters) { … }",
}
"""Words that begin a statement elsewhere."""


def slip(texts: Sequence[str], i: int, message: str) -> str:
    """A hint for `message`, which is about token `i`; empty when there is none."""
    text = texts[i] if i < len(texts) else ""
    before = texts[i - 1] if i > 0 else ""
    hint = ""
    if message.startswith("expected ')' after the condition") and text == "=":
        hint = "to compare, write =="
    elif message.startswith("expected '=' or a call") and text == ";":
        if before == "apply" or before.startswith(("is", "set")):
            hint = f"a call has parentheses: {before}()"
        else:
            hint = "a table is looked up with apply(), an action is called with its arguments"
    elif message.startswith("expected ';' after the statement"):
        hint = HEADS.get(_head(texts, i), "")
    elif message.startswith("expected ';' after the declaration") and text == "(":
        hint = "an instance is written type(arguments) name;"
    elif message.startswith("expected a name") and text == "(" and before in ("bit", "int", "varbit"):
        hint = f"a width is written {before}<8>"
    elif message.startswith("expected a name") and text == "=" and i > 1 and texts[i - 2] == "const":
        hint = f"a constant has a type: const bit<16> {before} = …"
    elif message.startswith("expected a field or method name") and text.isdigit() and texts[i - 2].isdigit():
        hint = "an IPv4 address is one number: 10.0.0.1 is 0x0a000001"
    elif message.startswith("expected a declaration") and text == "}":
        hint = "is there one } too many before it?"
    elif message.startswith("expected an expression") and text in BLOCKS:
        hint = "is a } missing before it?"
    elif text == "#":
        hint = "a comment begins with //"
    return f" ({hint})" if hint else ""


def _head(texts: Sequence[str], i: int) -> str:
    """The word before the parenthesis that closes before token `i`."""
    depth = 0
    for k in range(i - 1, max(-1, i - 200), -1):
        if texts[k] == ")":
            depth += 1
        elif texts[k] == "(":
            depth -= 1
        if depth == 0:
            return texts[k - 1] if texts[k] == "(" and k > 0 else texts[k]
    return ""


C_TYPES = {"char": "bit<8>", "byte": "bit<8>", "short": "bit<16>", "unsigned": "bit<32>", "long": "bit<64>"}


def type_slip(name: str) -> str:
    """A hint for a type that other languages have."""
    found = C_TYPES.get(name)
    stem = name.removesuffix("_t")
    for prefix, word in (("uint", "bit"), ("int", "int"), ("u", "bit"), ("i", "int"), ("s", "int")):
        width = stem.removeprefix(prefix)
        if found is None and stem.startswith(prefix) and width in ("8", "16", "32", "64", "128"):
            found = f"{word}<{width}>"
    if name in ("float", "double"):
        return " (P4 has no floating-point numbers)"
    return f" (P4 writes {found})" if found else ""
