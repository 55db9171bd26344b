"""P4Info and entries as files: protobuf text as it is, JSON and binary through the protobuf library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compiler.errors import CompileError

TEXT = (".txtpb", ".txt")


def write_p4info(path: Path, text: str) -> None:
    """Write P4Info in the format of the file's suffix: .txtpb, .txt, .json or .bin."""
    _write(path, text, "P4Info")


def write_entries(path: Path, text: str) -> None:
    """Write a P4Runtime WriteRequest in the format of the file's suffix."""
    _write(path, text, "WriteRequest")


def _write(path: Path, text: str, message: str) -> None:
    if path.suffix in TEXT:
        path.write_text(text)
    elif path.suffix in (".json", ".bin"):
        parsed = _parse(path, text, message)
        if path.suffix == ".bin":
            path.write_bytes(parsed.SerializeToString())
        else:
            from google.protobuf import json_format

            path.write_text(json_format.MessageToJson(parsed) + "\n")
    else:
        raise CompileError.about(str(path), f"a {message} file ends in .txtpb, .txt, .json or .bin")


def _parse(path: Path, text: str, message: str) -> Any:
    try:
        from finsy.proto import p4i, p4r
        from google.protobuf import text_format
    except ImportError:
        needed = f"{path.suffix} needs the Python packages protobuf and finsy; .txtpb does not"
        raise CompileError.about(str(path), needed) from None
    target = p4i.P4Info() if message == "P4Info" else p4r.WriteRequest()
    return text_format.Parse(text, target)
