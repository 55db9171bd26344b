"""pcap files (https://www.tcpdump.org/manpages/pcap-savefile.5.txt): Ethernet frames with times in nanoseconds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 262144
_MICROSECONDS, _NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
_ETHERNET = 1


class PcapError(Exception):
    """A file cannot be read as pcap; the message says where."""


def create(path: Path) -> BinaryIO:
    """A new capture, open for `write`. Raises OSError."""
    file = path.open("wb")
    # Magic of nanosecond captures, version 2.4, time zone, accuracy, longest frame, Ethernet.
    file.write(struct.pack("=IHHiIII", _NANOSECONDS, 2, 4, 0, 0, MAX_BYTES, _ETHERNET))
    return file


def write(file: BinaryIO, frame: bytes, time_ns: int) -> None:
    """Add a frame."""
    file.write(struct.pack("=IIII", time_ns // 10**9, time_ns % 10**9, len(frame), len(frame)) + frame)


def read(path: Path) -> Iterator[tuple[int, bytes]]:
    """(time in ns, frame) of a capture, in its order. Raises PcapError, OSError."""
    with path.open("rb") as file:
        header = file.read(24)
        for order in "<>":
            magic = struct.unpack(f"{order}I", header[:4])[0] if len(header) == 24 else 0
            if magic in (_MICROSECONDS, _NANOSECONDS):
                break
        else:
            raise PcapError(f"{path} is not a pcap file (pcapng: convert it with editcap -F pcap)")
        link = struct.unpack(f"{order}I", header[20:24])[0] & 0xFFFF
        if link != _ETHERNET:
            raise PcapError(f"{path} holds frames of link type {link}, not Ethernet (1)")
        unit = 1 if magic == _NANOSECONDS else 1000
        record = struct.Struct(f"{order}IIII")
        number = 0
        while data := file.read(record.size):
            number += 1
            if len(data) < record.size:
                raise PcapError(f"{path} ends inside frame {number}")
            seconds, fraction, length, original = record.unpack(data)
            if length > MAX_BYTES:
                raise PcapError(f"{path}: frame {number} claims {length} bytes; {MAX_BYTES} is the most")
            frame = file.read(length)
            if len(frame) < length:
                raise PcapError(f"{path} ends inside frame {number}")
            if original > length:
                raise PcapError(
                    f"{path}: frame {number} was cut from {original} to {length} bytes when captured"
                )
            yield seconds * 10**9 + fraction * unit, frame
