"""What the native switch does with a packet, step by step, in words.

    python -m switch.trace prog.json --p4info prog.p4info.txtpb --entries commands.txt --packet 0a0b… --port 1

Entries are commands of simple_switch_CLI, one a line. Nothing else is needed: no interface, no root, no controller.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from switch.device import CPU_PORT, DROP_PORT, LOOP_PORT
from switch.native import pcap
from switch.native.binding import Engine, EngineError
from switch.native.build import BuildError
from switch.native.control.commands import Commands
from switch.native.control.direct import DirectControl
from switch.native.program import Program, ProgramError
from switch.native.trace import HORIZON_NS, Trace, trace_packet

PORTS = range(64)
"""The ports that the switch has, and the loop port."""


class TraceError(Exception):
    """The trace cannot be made; the message says why."""


class TracedSwitch:
    """A program, its entries, and packets one after the other."""

    def __init__(
        self,
        program: Path,
        p4info: Path | None = None,
        *,
        entries: Sequence[str] = (),
        cpu_port: int = CPU_PORT,
    ) -> None:
        """`entries` are command lines. Raises TraceError, ProgramError, BuildError, EngineError."""
        text = _read(program)
        loaded = Program.from_text(text, None if p4info is None else _read_p4info(p4info))
        self.engine = Engine(loaded, cpu_port=cpu_port, drop_port=DROP_PORT, traced=True)
        ports = [port for port in (*PORTS, LOOP_PORT) if port != cpu_port]
        for port in ports:
            self.engine.add_port(port)
        self._commands = Commands(DirectControl("traced", self.engine, dict.fromkeys(ports)))
        self._now = 0
        for number, line in enumerate(entries, 1):
            answer, ok = self._commands.run(line)
            if not ok:
                raise TraceError(
                    f"entry line {number} ({line.strip()}): {answer[-1].removeprefix('Error: ')}"
                )

    def trace(self, port: int, frame: bytes) -> Trace:
        """Send a packet and follow it; the next one comes when all is over. Raises TraceError."""
        if port not in (*PORTS, LOOP_PORT, self.engine.cpu_port):
            raise TraceError(
                f"there is no port {port}; there are 0 to {PORTS[-1]} and {self.engine.cpu_port}"
            )
        trace = trace_packet(self.engine, port, frame, self._now)
        self._now += 2 * HORIZON_NS
        return trace

    def close(self) -> None:
        """Free the engine."""
        self.engine.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m switch.trace", description="What the switch does with a packet."
    )
    parser.add_argument("program", type=Path, metavar="PROGRAM.json", help="BMv2 JSON")
    parser.add_argument("--p4info", type=Path, metavar="FILE", help="P4Info text of the program")
    parser.add_argument(
        "--entries", type=Path, metavar="FILE", help="commands of simple_switch_CLI, one a line"
    )
    packet = parser.add_mutually_exclusive_group(required=True)
    packet.add_argument("--packet", metavar="HEX", help="the frame's bytes in hexadecimal")
    packet.add_argument(
        "--pcap", type=Path, metavar="FILE", help="the frames of a capture, one after the other"
    )
    parser.add_argument("--port", type=int, default=1, help="where they come in (default 1)")
    parser.add_argument(
        "--cpu-port", type=int, default=CPU_PORT, help=f"the controller's port (default {CPU_PORT})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a packet instead of words")
    given = parser.parse_args(arguments)
    try:
        frames = (
            [_frame(given.packet)] if given.pcap is None else [frame for _, frame in pcap.read(given.pcap)]
        )
        entries = [] if given.entries is None else _read(given.entries).splitlines()
        switch = TracedSwitch(given.program, given.p4info, entries=entries, cpu_port=given.cpu_port)
        for number, frame in enumerate(frames):
            trace = switch.trace(given.port, frame)
            if given.json:
                print(json.dumps(_plain(trace)))
            else:
                print(("\n" if number else "") + trace.text())
        switch.close()
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except (TraceError, ProgramError, BuildError, EngineError, pcap.PcapError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _plain(trace: Trace) -> dict[str, Any]:
    sent = [{"time_ns": time, "port": port, "frame": frame.hex()} for time, port, frame in trace.sent]
    return {"steps": [asdict(step) for step in trace.steps], "sent": sent, "drops": trace.drops}


def _frame(text: str) -> bytes:
    try:
        return bytes.fromhex(text.replace(":", "").removeprefix("0x"))
    except ValueError:
        raise TraceError(
            "--packet takes pairs of hexadecimal digits, as in 0001020304050a0b0c0d0e0f0800"
        ) from None


def _read_p4info(path: Path) -> str:
    """Text that P4Runtime would take, too."""
    from finsy.proto import p4i
    from google.protobuf import text_format

    text = _read(path)
    try:
        text_format.Parse(text, p4i.P4Info())
    except text_format.ParseError as error:
        raise TraceError(f"{path} is not P4Info text: {error}") from None
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is not text") from error


if __name__ == "__main__":
    sys.exit(main())
