"""What a P4 author is told: diagnostics with a place, a sentence and the line they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.source import Source


@dataclass(frozen=True)
class Diagnostic:
    """One message. `line` and `column` count from 1; 0 means that the message is about the file as a whole."""

    file: str
    line: int
    column: int
    message: str
    severity: str = "error"
    """`error` or `warning`."""
    excerpt: str = ""
    """The source line, without its newline."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{place}: {self.severity}: {self.message}"
        if self.excerpt:
            pad = "".join("\t" if c == "\t" else " " for c in self.excerpt[: self.column - 1])
            text += f"\n    {self.excerpt}\n    {pad}^"
        return text


class CompileError(Exception):
    """The program cannot be compiled; `diagnostics` says why, in source order."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))

    @staticmethod
    def at(source: Source, pos: int, message: str) -> CompileError:
        """One error at offset `pos` of the preprocessed text."""
        return CompileError([source.diagnostic(pos, message)])

    @staticmethod
    def about(file: str, message: str) -> CompileError:
        """One error about a file as a whole."""
        return CompileError([Diagnostic(file, 0, 0, message)])
