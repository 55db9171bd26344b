"""Runs real simple_switch on pcap files (no interface, no root), as the judge of the native engine."""

from __future__ import annotations

import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

JUDGES = Path("/opt/judges/bin")
SPACING_US = 250
_HEADER = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")


def tool(name: str) -> str | None:
    """A judge on PATH or in /opt/judges."""
    found = shutil.which(name)
    if found is None and (JUDGES / name).exists():
        found = str(JUDGES / name)
    return found


def write_pcap(path: Path, frames: Sequence[tuple[int, bytes]]) -> None:
    """Frames with their times in microseconds."""
    with path.open("wb") as file:
        file.write(_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for t, data in frames:
            file.write(_RECORD.pack(t // 10**6, t % 10**6, len(data), len(data)) + data)


def read_pcap(path: Path) -> list[bytes]:
    """The frames of a file that may still be growing."""
    data = path.read_bytes() if path.exists() else b""
    frames, at = [], _HEADER.size
    while at + _RECORD.size <= len(data):
        length = _RECORD.unpack_from(data, at)[2]
        frames.append(data[at + _RECORD.size : at + _RECORD.size + length])
        at += _RECORD.size + length
    return frames


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def simple_switch(
    program: Path,
    frames: Sequence[tuple[int, bytes]],
    ports: Sequence[int],
    commands: Sequence[str] = (),
    seconds: float = 20.0,
    wait: int = 1,
) -> dict[int, list[bytes]]:
    """Send (port, frame) in order; what left by port. `commands` are simple_switch_CLI's; the switch waits for them."""
    switch, cli = tool("simple_switch"), tool("simple_switch_CLI")
    assert switch and cli
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for port in ports:
            timed = [(10**6 + i * SPACING_US, data) for i, (p, data) in enumerate(frames) if p == port]
            write_pcap(folder / f"p{port}_in.pcap", timed)
        thrift = _free_port()
        command = [switch, "--use-files", str(wait), "--thrift-port", str(thrift), "--log-level", "off"]
        command += ["--notifications-addr", f"ipc://{folder}/notifications.ipc"]
        for port in ports:
            command += ["-i", f"{port}@{folder}/p{port}"]
        process = subprocess.Popen(
            [*command, str(program)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            # The default queue holds 64 packets, far fewer than a burst of a file.
            text = "\n".join(["set_queue_depth 1000000", *commands]) + "\n"
            deadline = time.monotonic() + seconds
            while True:
                answer = subprocess.run(
                    [cli, "--thrift-port", str(thrift)], input=text, capture_output=True, text=True
                )
                if "Could not connect" not in answer.stdout + answer.stderr:
                    break
                assert time.monotonic() < deadline and process.poll() is None, answer.stdout + answer.stderr
                time.sleep(0.1)
            sizes: list[int] = []
            quiet_from = time.monotonic() + wait + 0.2 + len(frames) * SPACING_US / 1e6
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.2)
                paths = [folder / f"p{port}_out.pcap" for port in ports]
                now = [path.stat().st_size if path.exists() else 0 for path in paths]
                if now == sizes and time.monotonic() > quiet_from + 0.4:
                    break
                sizes = now
            assert process.poll() is None, f"simple_switch ended with {process.poll()}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return {port: read_pcap(folder / f"p{port}_out.pcap") for port in ports}
