"""Switches on what BMv2 can do and its command line cannot ask for: invalid headers' fields read as zero.

behavioral-model 1.15 has the variable (`bm::Field::ret_zero_on_invalid_hdr_read`) and reads the option, but never
declares it to its parser. Without it a field of an invalid header has what some earlier packet left there.
"""

from __future__ import annotations

import struct
from pathlib import Path

FLAGS = (b"_ZN2bm5Field23handle_invalid_hdr_readE", b"_ZN2bm5Field28ret_zero_on_invalid_hdr_readE")
_SYMTAB = 2


def zero_invalid_reads(pid: int) -> bool:
    """Set the flags in the running process; False when its executable has no symbols."""
    path = Path(f"/proc/{pid}/exe").resolve()
    found = _symbols(path.read_bytes(), FLAGS)
    if len(found) < len(FLAGS):
        return False
    base = min(
        int(line.split("-")[0], 16)
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
        if line.endswith(str(path))
    )
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for address in found.values():
            memory.seek(base + address)
            memory.write(b"\1")
    return True


def _symbols(data: bytes, names: tuple[bytes, ...]) -> dict[bytes, int]:
    """Addresses in the symbol table of a 64-bit little-endian position-independent ELF file."""
    if data[:6] != b"\x7fELF\2\1":
        return {}
    sections, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + i * size) for i in range(count)]
    found: dict[bytes, int] = {}
    for _, kind, _, _, offset, length, link, _, _, each in headers:
        if kind != _SYMTAB:
            continue
        strings = headers[link][4]
        wanted = {data.find(b"\0" + n + b"\0", strings) + 1 - strings: n for n in names}
        for at in range(offset, offset + length, each):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if name in wanted:
                found[wanted[name]] = value
    return found
