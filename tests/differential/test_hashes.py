"""Hashes of programs/hashes.p4 on the native engine, against the algorithms' definitions."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from switch.native.binding import Engine
from switch.native.program import Program

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "programs" / "hashes.p4"
MASK32 = 0xFFFFFFFF


def crc16(data: bytes) -> int:
    """CRC-16/ARC: polynomial 0x8005, reflected, from 0."""
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xA001 if value & 1 else 0)
    return value


def words(data: bytes) -> list[int]:
    """16-bit words, the last one padded with zeros."""
    data += bytes(len(data) % 2)
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def csum16(data: bytes) -> int:
    """RFC 1071."""
    total = sum(words(data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def xor16(data: bytes) -> int:
    """All words, by exclusive or."""
    value = 0
    for word in words(data):
        value ^= word
    return value


def joined(*fields: tuple[int, int]) -> bytes:
    """(value, bits) one after the other, zeros to the next byte."""
    bits = "".join(f"{value:0{width}b}" for value, width in fields)
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("hashes")
    json, p4info = folder / "hashes.json", folder / "hashes.txtpb"
    words = [sys.executable, "-m", "compiler", str(SOURCE), "-o", str(json), "--p4runtime-files", str(p4info)]
    subprocess.run(words, check=True, cwd=ROOT)
    with Engine(Program.from_text(json.read_text(), p4info.read_text())) as made:
        made.add_port(1)
        yield made


@pytest.mark.parametrize(
    ("number", "algorithm", "with_b", "with_flag"),
    [
        (0, zlib.crc32, True, False),
        (1, crc16, True, False),
        (2, csum16, False, True),
        (5, xor16, False, True),
        (9, zlib.crc32, False, False),  # crc32_custom as BMv2 sets it out
    ],
)
def test_a_hash_is_taken_over_the_bits_of_its_fields_in_order(
    engine: Engine, number: int, algorithm: Callable[[bytes], int], with_b: bool, with_flag: bool
) -> None:
    random = Random(number)
    for _ in range(50):
        base, limit = random.getrandbits(16), random.randrange(1, 1 << 32)
        odd, flag, a, b, c, wide = (random.getrandbits(n) for n in (7, 1, 48, 13, 3, 128))
        frame = joined((number, 8), (base, 16), (limit, 32), (odd, 7), (flag, 1), (a, 48), (b, 13), (c, 3))
        frame += wide.to_bytes(16, "big") + bytes(12)
        fields = [(odd, 7)] + [(flag, 1)] * with_flag + [(a, 48)] + [(b, 13)] * with_b + [(wide, 128)]
        engine.rx(1, frame, 1_000)
        ((_, out),) = engine.poll(1_000)
        expected = base + algorithm(joined(*fields)) % limit & MASK32
        assert int.from_bytes(out[32:36], "big") == expected
