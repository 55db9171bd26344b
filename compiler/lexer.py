"""P4_16 tokens, from preprocessed text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from compiler.errors import CompileError
from compiler.source import Source

KEYWORDS = frozenset(
    """abstract action actions apply bit bool break const continue control default else entries enum error exit extern
    false for header header_union if in inout int key list match_kind out package parser priority return select state
    string struct switch table this transition true tuple type typedef value_set varbit void _""".split()
)
"""A keyword's token kind is the keyword itself."""

NAME_KEYWORDS = frozenset("actions apply entries key priority state type list".split())
"""Keywords that are also good names."""

IDENTIFIER, INTEGER, STRING, PRAGMA, END = "identifier", "integer", "string", "@pragma", "end of file"
STRAY = "stray character"
"""Token kinds; an operator's kind is the operator itself."""

_TOKEN = re.compile(
    r"""
      (?P<skip>[ \t\r\n\f\v]+ | //[^\n]* | /\*.*?\*/ | ^\#[^\n]*)
    | (?P<pragma>@pragma\b[^\n]*)
    | (?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<integer>(?:[0-9]+[ws])?(?:0[xX][0-9a-fA-F_]+|0[dD][0-9_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*))
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<op>\{\#\} | \.\.\. | \.\. | &&& | \|\+\|= | \|-\|= | \|\+\| | \|-\| | <<= | >>= | << | && | \|\|
        | == | != | >= | <=
        | \+\+ | \+: | \+= | -= | \*= | /= | %= | &= | \|= | \^= | [-+*/%&|^~!<>()\[\]{}:;,?.=@])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


@dataclass
class Tokens:
    """Parallel lists; the last token is `END`."""

    kinds: list[str]
    texts: list[str]
    starts: list[int]


def tokenize(source: Source) -> Tokens:
    """All tokens of `source`; CompileError at a comment or string without end. A character that means nothing in P4
    becomes a `STRAY` token, because free-form annotations may hold anything."""
    text = source.text
    kinds: list[str] = []
    texts: list[str] = []
    starts: list[int] = []
    add_kind, add_text, add_start = kinds.append, texts.append, starts.append
    keywords = KEYWORDS
    match = _TOKEN.match
    pos, length = 0, len(text)
    while pos < length:
        found = match(text, pos)
        if found is None:
            if text[pos] == '"' or text.startswith("/*", pos):
                what = "string" if text[pos] == '"' else "comment"
                raise CompileError.at(source, pos, f"this {what} is never closed")
            add_kind(STRAY)
            add_text(text[pos])
            add_start(pos)
            pos += 1
            continue
        group = found.lastgroup
        end = found.end()
        if group != "skip":
            token = text[pos:end]
            if group == "identifier":
                add_kind(token if token in keywords else IDENTIFIER)
            elif group == "op":
                add_kind(token)
            elif group == "pragma":
                add_kind(PRAGMA)
            else:
                add_kind(group or "")
            add_text(token)
            add_start(pos)
        pos = end
    add_kind(END)
    add_text("")
    add_start(max(0, len(text.rstrip()) - 1) if text.strip() else 0)
    return Tokens(kinds, texts, starts)


class BadNumber(ValueError):
    """An integer literal that is out of bounds."""


def parse_integer(text: str) -> tuple[int, int | None, bool]:
    """(value, width or None, signed) of an integer literal such as `8w0xFF`, `4s7`, `0b1010_1010`.

    Raises BadNumber for a literal without digits or with more than 5000."""
    width: int | None = None
    signed = False
    digits = text
    for mark in "ws":
        prefix, found, rest = text.partition(mark)
        if found and prefix.isdigit():
            if len(prefix) > 6:
                raise BadNumber(f"the width {prefix} is too large")
            width, signed, digits = int(prefix), mark == "s", rest
            break
    base = 10
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "xXdDoObB":
        base = {"x": 16, "d": 10, "o": 8, "b": 2}[digits[1].lower()]
        digits = digits[2:]
    digits = digits.replace("_", "")
    if not digits:
        raise BadNumber(f"the number {text} has no digits")
    if len(digits) > 5000 or (base == 10 and len(digits) > 4000):
        raise BadNumber(f"this number has {len(digits)} digits, which is more than any type can hold")
    return int(digits, base), width, signed
