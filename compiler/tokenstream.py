"""Walking over tokens: what every part of the parser stands on (look-ahead, expectations, names in scope, recovery)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from compiler.errors import Diagnostic
from compiler.lexer import END, IDENTIFIER, INTEGER, NAME_KEYWORDS, PRAGMA, STRAY, STRING, Tokens
from compiler.slips import slip
from compiler.source import Source

MAX_NESTING = 200
MAX_ERRORS = 20


class SyntaxProblem(Exception):
    """Raised at the first token that does not fit; caught where parsing can go on."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos
        self.message = message


class TooManyErrors(Exception):
    """Parsing is given up; the diagnostics collected so far are the answer."""


class TokenStream:
    """The tokens of a source, a position, and the names in scope.

    P4 cannot be parsed without knowing which identifiers are types (`a < b` or `a<b>(c)`; `(T) x` or `(v) (x)`), so the
    parser keeps a stack of scopes that maps a name to whether it is a type there.
    """

    def __init__(self, source: Source, tokens: Tokens) -> None:
        self.source = source
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.starts = tokens.starts
        self.i = 0
        self.nesting = 0
        self.scopes: list[dict[str, bool]] = [{}]
        self.diagnostics: list[Diagnostic] = []

    # ------------------------------------------------------------- names

    def declare(self, name: str, is_type: bool) -> None:
        """`name` means a type, or something else, from here to the end of the scope."""
        self.scopes[-1][name] = is_type

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names declared inside end with the block."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def is_type_name(self, name: str) -> bool:
        """Whether the innermost declaration of `name` is a type."""
        for scope in reversed(self.scopes):
            known = scope.get(name)
            if known is not None:
                return known
        return False

    # ------------------------------------------------------------- tokens

    def at(self, *kinds: str) -> bool:
        """Whether the next token is one of `kinds`."""
        return self.kinds[self.i] in kinds

    def peek(self, ahead: int = 1) -> str:
        """The kind of a token further on."""
        index = self.i + ahead
        return self.kinds[index] if index < len(self.kinds) else END

    def accept(self, kind: str) -> bool:
        """Skip the next token if it is a `kind`."""
        if self.kinds[self.i] == kind:
            self.i += 1
            return True
        return False

    def expect(self, kind: str, where: str = "") -> int:
        """Skip a `kind` and return its position; a syntax error if something else is there."""
        i = self.i
        if self.kinds[i] == kind:
            self.i = i + 1
            return self.starts[i]
        wanted = f"'{kind}'" if kind not in (IDENTIFIER, INTEGER, STRING) else f"an {kind}"
        self.problem(f"expected {wanted}{' ' + where if where else ''}, found {self.describe()}")

    def at_name(self) -> bool:
        """Whether an identifier, or a keyword usable as one, is next."""
        kind = self.kinds[self.i]
        return kind == IDENTIFIER or kind in NAME_KEYWORDS

    def expect_name(self, what: str = "a name") -> str:
        """Skip a name and return it."""
        i = self.i
        kind = self.kinds[i]
        if kind == IDENTIFIER or kind in NAME_KEYWORDS:
            self.i = i + 1
            return self.texts[i]
        self.problem(f"expected {what}, found {self.describe()}")

    @property
    def pos(self) -> int:
        """Position of the next token."""
        return self.starts[self.i]

    def describe(self) -> str:
        """The next token in words."""
        kind, text = self.kinds[self.i], self.texts[self.i]
        if kind == END:
            return "the end of the file"
        if kind == IDENTIFIER:
            return f"'{text}'"
        if kind in (INTEGER, STRING):
            return f"the {kind} {text if len(text) < 40 else text[:37] + '…'}"
        if kind == PRAGMA:
            return "@pragma"
        if kind == STRAY:
            return f"the character {text!r}, which has no meaning in P4"
        return f"'{text}'" if not text.isalpha() else f"the keyword '{text}'"

    def problem(self, message: str) -> NoReturn:
        """Give up what is being parsed: `message` is about the next token (or the end of the one before it)."""
        pos = self.pos
        if message.startswith("expected ';'") and self.i > 0:
            before = self.i - 1
            end = self.starts[before] + len(self.texts[before])
            if "\n" in self.source.text[end:pos]:
                pos = end  # the person forgot it at the end of the line before
        raise SyntaxProblem(pos, message + slip(self.texts, self.i, message))

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Counts nesting, so that hostile input cannot exhaust the stack."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.problem(f"nested more than {MAX_NESTING} levels deep")
        try:
            yield
        finally:
            self.nesting -= 1

    # ------------------------------------------------------------- recovery

    def report(self, problem: SyntaxProblem) -> None:
        """Keep a syntax error; raises TooManyErrors when enough is enough."""
        self.diagnostics.append(self.source.diagnostic(problem.pos, problem.message))
        if len(self.diagnostics) >= MAX_ERRORS:
            raise TooManyErrors

    def skip_past(self, start: int) -> None:
        """After an error in a statement that began at token `start`: go on behind its `;` or its closing brace, or stay
        before the brace that closes the surrounding block."""
        depth = 0
        for k in range(start, self.i):
            if self.kinds[k] in ("{", "{#}"):
                depth += self.kinds[k] == "{"
            elif self.kinds[k] == "}":
                depth -= 1
        depth = max(0, depth)
        while self.kinds[self.i] != END:
            kind = self.kinds[self.i]
            if kind == "{":
                depth += 1
            elif kind == "}":
                if depth == 0:
                    return
                depth -= 1
                if depth == 0:
                    self.i += 1
                    return
            elif kind == ";" and depth == 0:
                self.i += 1
                return
            self.i += 1
