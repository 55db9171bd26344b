"""The C preprocessor in front of the P4 parser, by pcpp, with errors that name the real file and line."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pcpp import Action, OutputDirective, Preprocessor

from compiler.errors import CompileError, Diagnostic
from compiler.source import Source

BUILTIN_DEFINES: Mapping[str, str] = {"__TARGET_BMV2__": "1"}
"""What p4c-bm2-ss defines for its source."""

MAX_INCLUDE_DEPTH = 64
MAX_GAP = 8
"""Lines without text that are written as newlines; longer gaps become a line marker (as cpp does)."""
MAX_SOURCE_BYTES = 32 * 1024 * 1024

INCLUDE_DIR = Path(__file__).resolve().parent.parent / "p4src" / "include"
"""Where core.p4 and v1model.p4 are."""


MAX_EXPANDED_TOKENS = 1_000_000
"""More than this comes only of macros that multiply one another; p4src expands to some thousands."""


class _P4Preprocessor(Preprocessor):
    """pcpp with its complaints collected instead of printed."""

    def __init__(self) -> None:
        super().__init__()
        self.diagnostics: list[Diagnostic] = []
        self.line_directive = "#line"
        self.assume_encoding = "utf-8"
        self.rewrite_paths: list[tuple[str, str]] = []
        self.depth = 0
        self.expanded = 0

    def expand_macros(self, tokens: Any, expanding_from: Any = ()) -> Any:
        """As pcpp, with an end to macros that multiply one another."""
        result = super().expand_macros(tokens, list(expanding_from))
        if expanding_from:
            self.expanded += len(result)
            if self.expanded > MAX_EXPANDED_TOKENS:
                raise CompileError.about(
                    getattr(tokens[0], "source", None) or "",
                    f"the macros expand to more than {MAX_EXPANDED_TOKENS} tokens ({expanding_from[0]} among them)",
                )
        return result

    def on_error(self, file: str, line: int, msg: str) -> None:
        text = msg.strip()
        if text.startswith("Unterminated"):
            text = f"{text.removeprefix('Unterminated').strip()} has no #endif"
        self.diagnostics.append(Diagnostic(file, line, 1, text))

    def on_comment(self, tok: Any) -> bool:
        return True  # kept, so that columns stay true; the lexer skips them

    def on_file_open(self, is_system_include: bool, includepath: str) -> Any:
        if self.include_depth > MAX_INCLUDE_DEPTH:
            raise CompileError.about(
                includepath,
                f"#include is nested more than {MAX_INCLUDE_DEPTH} deep: does a file include itself?",
            )
        path = Path(includepath)
        if not path.is_file():
            raise FileNotFoundError(includepath)  # pcpp tries the next folder
        return io.StringIO(read_text(path))

    def on_include_not_found(self, is_malformed: bool, is_system: bool, curdir: str, path: str) -> None:
        if is_malformed:
            message = '#include needs "file" or <file>'
        else:
            searched = ", ".join([curdir or ".", *self.path])
            message = f"cannot find the include file {path} (looked in {searched})"
        self.diagnostics.append(Diagnostic(self.source or "", self.lexer.lineno, 1, message))
        raise OutputDirective(Action.IgnoreAndRemove)

    def on_directive_handle(self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any) -> Any:
        if directive.value == "error":
            text = "".join(t.value for t in toks).strip()
            self.diagnostics.append(Diagnostic(directive.source, directive.lineno, 1, f"#error {text}"))
            return True
        if directive.value in ("warning", "pragma", "line"):
            return True
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)

    def text(self) -> str:
        """Everything that is left after `parse`, with line markers wherever the line is not the one that follows from
        the newlines before it. (pcpp's own `write` drops longer gaps, also inside of strings.)"""
        out: list[str] = []
        here: tuple[str | None, int] = (None, 0)  # file and line of the place where writing goes on
        line: list[Any] = []
        while True:
            token = self.token()
            if token is not None:
                line.append(token)
                if not token.value.endswith("\n"):
                    continue
            if line and not all(t.type in self.t_WS for t in line):
                first = line[0]
                place = (getattr(first, "source", None) or here[0], first.lineno)
                gap = place[1] - here[1]
                if place[0] == here[0] and 0 <= gap <= MAX_GAP:
                    out.append("\n" * gap)
                else:
                    out.append(f'{self.line_directive} {place[1]} "{place[0]}"\n')
                body = "".join(t.value for t in line if t.type not in self.t_LINECONT)
                out.append(body)
                here = (place[0], place[1] + body.count("\n"))
            if token is None:
                return "".join(out)
            line = []


def read_text(path: Path) -> str:
    """The text of a source file; CompileError when it cannot be read as UTF-8 text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CompileError.about(str(path), f"cannot read the file: {error.strerror or error}") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise CompileError.about(
            str(path), f"the file has {len(data)} bytes; at most {MAX_SOURCE_BYTES} are accepted"
        )
    if b"\0" in data:
        raise CompileError.about(str(path), "not a text file: it contains a NUL byte")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")


def preprocess(
    path: Path,
    include_dirs: Iterable[Path] = (),
    defines: Mapping[str, str] | None = None,
    undefines: Iterable[str] = (),
) -> Source:
    """`path` with its includes and macros expanded. `include_dirs` (like -I) are searched before Xoff's own
    core.p4 and v1model.p4; `defines` (like -D) come after the built-in ones. Raises CompileError."""
    pre = _P4Preprocessor()
    for name, value in {**BUILTIN_DEFINES, **(defines or {})}.items():
        pre.define(f"{name} {value}".rstrip())
    for name in undefines:
        pre.undef(name)
    for directory in [*include_dirs, INCLUDE_DIR]:
        pre.add_path(str(directory))
    text = read_text(path)
    try:
        pre.parse(text, os.fspath(path))
        result = pre.text()
    except RecursionError:
        raise CompileError.about(str(path), "macros or includes are nested too deeply") from None
    if pre.diagnostics:
        raise CompileError(pre.diagnostics)
    return Source(os.fspath(path), result)
