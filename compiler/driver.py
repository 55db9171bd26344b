"""From a P4 file to BMv2 JSON and P4Info: the passes in order, and a cache keyed by content."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from compiler import ir, tree
from compiler.bmv2json import Writer, stem_of
from compiler.control_flow import Graph, GraphBuilder, Names, UnsupportedFlow
from compiler.errors import CompileError, Diagnostic
from compiler.lower import lower_program
from compiler.p4info import p4info_entries, p4info_text
from compiler.preprocess import preprocess
from compiler.source import Source
from compiler.typecheck import check_source

RECURSION_LIMIT = 20_000


@dataclass
class Compiled:
    """What a program becomes."""

    json: dict[str, Any]
    """BMv2 JSON."""
    p4info: str
    """P4Info, protobuf text."""
    entries: str | None
    """The constant entries as a P4Runtime WriteRequest, protobuf text; None when there are none."""
    warnings: list[Diagnostic] = field(default_factory=list)


Dump = Callable[[str, object], None]


def compile_source(source: Source, dump: Dump | None = None) -> Compiled:
    """Compile preprocessed text. Raises CompileError."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        if dump is None:
            program = check_source(source)
        else:
            dump("preprocess", source)
            program = check_source(source, lambda parsed: dump("parse", (source, parsed)))
            dump("check", program)
        problems: list[Diagnostic] = []
        try:
            text, entries = _p4info(program)
            if dump is not None:
                dump("p4info", text)
        except CompileError as found:
            problems += found.diagnostics
        try:
            document, warnings = back_end(program, dump)
            if dump is not None:
                dump("json", document)
        except CompileError as found:
            places = {(d.file, d.line) for d in problems}
            problems += [d for d in found.diagnostics if (d.file, d.line) not in places]
        if problems:
            raise CompileError(sorted(problems, key=lambda d: (d.file, d.line, d.column)))
    finally:
        sys.setrecursionlimit(before)
    return Compiled(document, text, entries, [*program.warnings, *warnings])


def back_end(program: tree.TypedProgram, dump: Dump | None = None) -> tuple[dict[str, Any], list[Diagnostic]]:
    """The BMv2 JSON of a checked program, and warnings. Raises CompileError."""
    unit, storage, warnings = lower_program(program)
    if dump is not None:
        dump("lower", unit)
    source = program.source
    names = Names(stem_of(source.path), lambda pos: source.locate(pos).line)
    graphs: list[Graph] = []
    for pipeline in unit.pipelines:
        builder = GraphBuilder(names, lambda name, width: storage.cell(name, ir.bits(width)), unit.actions)
        try:
            graphs.append(builder.build(pipeline))
        except UnsupportedFlow as problem:
            raise CompileError.at(source, problem.pos, problem.message) from None
    if dump is not None:
        dump("graph", graphs)
    return Writer(unit, graphs, source).write(), warnings


def _p4info(program: tree.TypedProgram) -> tuple[str, str | None]:
    has_entries = any(
        isinstance(local, tree.TableDecl) and local.has_entries
        for decl in program.tree.decls
        if isinstance(decl, tree.ControlDecl)
        for local in decl.locals
    )
    return p4info_text(program), p4info_entries(program) if has_entries else None


def compile_program(
    path: Path | str,
    include_dirs: Iterable[Path | str] = (),
    defines: Mapping[str, str] | None = None,
    undefines: Iterable[str] = (),
    dump: Dump | None = None,
) -> Compiled:
    """Compile a P4_16 program for v1model.

    `include_dirs` are searched before Xoff's own core.p4 and v1model.p4; `defines` are macros (name -> text).
    Raises CompileError with every error found.
    """
    source = preprocess(Path(path), [Path(d) for d in include_dirs], defines, undefines)
    return compile_source(source, dump)


# --------------------------------------------------------------------------- cache


@lru_cache(maxsize=1)
def compiler_digest() -> str:
    """A hash of the compiler's own sources: a changed compiler invalidates what it made."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def compile_cached(
    path: Path | str,
    cache_dir: Path | str,
    include_dirs: Iterable[Path | str] = (),
    defines: Mapping[str, str] | None = None,
) -> Compiled:
    """As `compile_program`, but what was compiled before is read from `cache_dir` (made when missing).

    The key is the preprocessed text, the path (it is in the JSON) and the compiler's sources. OSError names the folder
    when it cannot be written.
    """
    source = preprocess(Path(path), [Path(d) for d in include_dirs], defines)
    key = hashlib.sha256()
    for part in (compiler_digest(), os.fspath(path), source.text):
        key.update(part.encode())
        key.update(b"\0")
    folder = Path(cache_dir)
    file = folder / f"{key.hexdigest()[:40]}.json"
    try:
        return _read(json.loads(file.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    compiled = compile_source(source)
    folder.mkdir(parents=True, exist_ok=True)
    stored = {
        "json": compiled.json,
        "p4info": compiled.p4info,
        "entries": compiled.entries,
        "warnings": [vars(w) for w in compiled.warnings],
    }
    handle, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as out:
            json.dump(stored, out)
        Path(name).replace(file)
    except OSError as error:  # a full disk: the error of a write names no file
        Path(name).unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, os.fspath(folder)) from None
    return compiled


def _read(stored: dict[str, Any]) -> Compiled:
    warnings = [Diagnostic(**item) for item in stored["warnings"]]
    return Compiled(stored["json"], stored["p4info"], stored["entries"], warnings)
