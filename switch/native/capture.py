"""Captures as simple_switch writes them: NAME_in.pcap and NAME_out.pcap for each interface.

Frames are read from a second packet socket, on the event loop; a flood makes the capture lose frames (counted and
said at its end), never the switch.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from pathlib import Path

from switch.native import pcap
from switch.native.ports import kernel_drops, open_port, split_interface

_PACKET_OUTGOING = 4
_BATCH = 256
_AUXDATA = 8
_SOL_PACKET = 263
_VLAN_VALID, _TPID_VALID = 16, 64


class Capture:
    """The two files of one interface, from now until `close`."""

    def __init__(self, interface: str, folder: Path, log: Callable[[str], None]) -> None:
        """Raises OSError (the files cannot be written), PortError."""
        self._interface = interface
        self._log = log
        name = split_interface(interface)[1]
        self._in = pcap.create(folder / f"{name}_in.pcap")
        self._out = pcap.create(folder / f"{name}_out.pcap")
        self._socket = open_port(interface, outgoing=True)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._readable)

    def close(self) -> None:
        """Write what has arrived, and say what was lost."""
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        while self._readable() == _BATCH:
            pass
        lost = kernel_drops(self._socket)
        if lost:
            self._log(f"capture of {self._interface}: {lost} frames were lost")
        for stream in (self._socket, self._in, self._out):
            stream.close()

    def _readable(self) -> int:
        """Take a batch of frames; returns how many."""
        taken = 0
        while taken < _BATCH:
            try:
                frame, ancillary, _, address = self._socket.recvmsg(pcap.MAX_BYTES, 64)
            except OSError:  # none is left, or the interface went down
                break
            taken += 1
            out = address[2] == _PACKET_OUTGOING
            pcap.write(self._out if out else self._in, _with_tag(frame, ancillary), time.time_ns())
        self._in.flush()
        self._out.flush()
        return taken


def _with_tag(frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> bytes:
    """The frame with the VLAN tag that the kernel took out of it."""
    for level, kind, data in ancillary:
        if (level, kind) == (_SOL_PACKET, _AUXDATA) and len(data) >= 20:
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
            if status & _VLAN_VALID:
                tag = struct.pack(">HH", tpid if status & _TPID_VALID else 0x8100, tci)
                return frame[:12] + tag + frame[12:]
    return frame
