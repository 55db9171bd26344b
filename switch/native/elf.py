"""A shared library made by tcc says that it needs no executable stack.

tcc writes no PT_GNU_STACK program header, and its absence asks for an executable stack (x86-64 psABI's default). glibc
2.41 and later refuse such a library (Debian 13). There is no room for another header, so one that this library can do
without becomes PT_GNU_STACK: the table for unwinding, which only exceptions of C++ would read.
"""

from __future__ import annotations

import struct
from pathlib import Path

PT_GNU_EH_FRAME, PT_GNU_STACK, PT_GNU_RELRO = 0x6474E550, 0x6474E551, 0x6474E552
PF_W, PF_R = 2, 4
_HEADER = struct.Struct("<II6Q")
"""Elf64_Phdr: type, flags, then offset, addresses, sizes and alignment."""


def segments(library: bytes) -> list[tuple[int, int]]:
    """(type, flags) of the program headers of a 64-bit little-endian ELF file; ValueError when it is another."""
    if library[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    return [_HEADER.unpack_from(library, table + i * size)[:2] for i in range(count)]


def forbid_executable_stack(path: Path) -> None:
    """Give the library a PT_GNU_STACK that is not executable, unless it has one."""
    library = bytearray(path.read_bytes())
    types = [kind for kind, _ in segments(bytes(library))]
    if PT_GNU_STACK in types:
        return
    spare = next((kind for kind in (PT_GNU_EH_FRAME, PT_GNU_RELRO) if kind in types), None)
    if spare is None:
        return
    (table,) = struct.unpack_from("<Q", library, 32)
    (size,) = struct.unpack_from("<H", library, 54)
    header = (PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16)
    _HEADER.pack_into(library, table + types.index(spare) * size, *header)
    path.write_bytes(library)
