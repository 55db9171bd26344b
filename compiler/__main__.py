"""`python -m compiler prog.p4 -o out/` writes out/prog.json and out/prog.p4info.txtpb; takes p4c-bm2-ss's flags."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from compiler.driver import Compiled, compile_source
from compiler.dump import PASSES, dump_object
from compiler.errors import CompileError, Diagnostic
from compiler.preprocess import preprocess
from compiler.protobuf_output import write_entries, write_p4info
from compiler.source import Source


def version() -> str:
    """The installed version, or that of the source tree."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("xoff")
    except PackageNotFoundError:
        return "0 (source tree)"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(
        prog="python -m compiler",
        description="Compile a P4_16 program for v1model to BMv2 JSON and P4Info.",
        epilog="Without -o nothing is written: the program is only checked.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("program", nargs="?", help="the P4_16 file")
    add("-o", metavar="OUT", help="a folder (gets prog.json, prog.p4info.txtpb) or a JSON file")
    add("-I", dest="include", metavar="DIR", action="append", default=[], help="look here for includes first")
    add("-D", dest="define", metavar="NAME[=TEXT]", action="append", default=[], help="define a macro")
    add(
        "-U", dest="undefine", metavar="NAME", action="append", default=[], help="remove a macro's definition"
    )
    add(
        "--p4runtime-files",
        metavar="FILES",
        help="write P4Info, comma separated; .txtpb .txt, .json or .bin each",
    )
    add(
        "--p4runtime-entries-files",
        metavar="FILES",
        help="write constant entries as a P4Runtime WriteRequest",
    )
    add(
        "--std", choices=("p4-16", "p4-14"), default="p4-16", help="language version; only p4-16 is supported"
    )
    add("--target", default="bmv2", help="bmv2")
    add("--arch", default="v1model", help="v1model")
    add("-E", dest="preprocess", action="store_true", help="print the preprocessed program and stop")
    add("--pp", metavar="FILE", help="write the program as it was understood, as P4; - for standard output")
    add("--Werror", action="store_true", help="warnings are errors")
    add("--Wdisable", action="store_true", help="no warnings")
    add("--json-errors", action="store_true", help="diagnostics as a JSON list on standard error")
    passes = ", ".join(PASSES)
    add(
        "--dump",
        metavar="PASS",
        choices=PASSES,
        action="append",
        default=[],
        help=f"print after a pass: {passes}",
    )
    add("--version", action="version", version=f"xoff P4 compiler {version()}")
    return options


class UsageError(Exception):
    """The command line asks for something that there is not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 when the program was compiled, 1 when it was not, 2 for a wrong command line."""
    options = parser()
    chosen = options.parse_args(arguments)
    if chosen.program is None:
        options.error("which P4 file?")
    try:
        _check_target(chosen)
        return _run(chosen)
    except UsageError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except CompileError as problem:
        report(problem.diagnostics, chosen.json_errors)
        return 1
    except OSError as problem:
        print(f"error: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1


def _check_target(chosen: argparse.Namespace) -> None:
    if chosen.std != "p4-16":
        raise UsageError("P4_14 is not supported; convert the program to P4_16 first")
    if chosen.target != "bmv2":
        raise UsageError(f"target {chosen.target} is not supported: only bmv2")
    if chosen.arch != "v1model":
        raise UsageError(f"architecture {chosen.arch} is not supported: only v1model")


def report(diagnostics: Sequence[Diagnostic], as_json: bool) -> None:
    """Print diagnostics on standard error."""
    if as_json:
        print(json.dumps([dataclasses.asdict(d) for d in diagnostics], indent=1), file=sys.stderr)
        return
    for diagnostic in diagnostics:
        print(diagnostic, file=sys.stderr)


def _run(chosen: argparse.Namespace) -> int:
    defines = {}
    for item in chosen.define:
        name, _, text = item.partition("=")
        defines[name] = text if "=" in item else "1"
    path = Path(chosen.program)
    source = preprocess(path, [Path(d) for d in chosen.include], defines, chosen.undefine)
    if chosen.preprocess:
        sys.stdout.write(source.text)
        return 0

    def dump(name: str, what: object) -> None:
        if name in chosen.dump:
            dump_object(what, sys.stdout)

    if chosen.pp:
        _pretty(source, chosen)
    compiled = compile_source(source, dump)
    if compiled.warnings and not chosen.Wdisable:
        diagnostics = compiled.warnings
        if chosen.Werror:
            diagnostics = [dataclasses.replace(d, severity="error") for d in diagnostics]
        report(diagnostics, chosen.json_errors)
        if chosen.Werror:
            return 1
    elif chosen.json_errors:
        report([], True)
    _write(compiled, path, chosen)
    return 0


def _pretty(source: Source, chosen: argparse.Namespace) -> None:
    from compiler.parser import parse
    from compiler.pretty import pretty_source

    out = pretty_source(source, parse(source))
    if chosen.pp == "-":
        sys.stdout.write(out)
    else:
        Path(chosen.pp).write_text(out)


def _write(compiled: Compiled, path: Path, chosen: argparse.Namespace) -> None:
    if chosen.o:
        out = Path(chosen.o)
        if chosen.o.endswith(os.sep) or out.is_dir() or not out.suffix:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{path.stem}.json").write_text(_text(compiled))
            (out / f"{path.stem}.p4info.txtpb").write_text(compiled.p4info)
            if compiled.entries is not None:
                (out / f"{path.stem}.entries.txtpb").write_text(compiled.entries)
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(_text(compiled))
    for name in filter(None, (chosen.p4runtime_files or "").split(",")):
        write_p4info(Path(name), compiled.p4info)
    for name in filter(None, (chosen.p4runtime_entries_files or "").split(",")):
        write_entries(Path(name), compiled.entries or "")


def _text(compiled: Compiled) -> str:
    """One line per object of the document: quick to write, and to look at."""
    parts = []
    for key, value in compiled.json.items():
        if isinstance(value, list) and value:
            lines = ",\n  ".join(json.dumps(item) for item in value)
            parts.append(f"{json.dumps(key)}: [\n  {lines}\n ]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
