"""A real simple_switch_grpc with veth ports, for tests that compare with it. Needs root."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

JUDGES = Path("/opt/judges/bin")
ETH_P_ALL = 3


def tool(name: str) -> str | None:
    """Path of a p4lang tool, on PATH or where this machine keeps its judges."""
    found = shutil.which(name) or (str(JUDGES / name) if (JUDGES / name).exists() else None)
    return found


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bmv2:
    """One switch with host ends of its ports as packet sockets."""

    def __init__(self, ports: int, thrift: int, grpc: str, hosts: dict[int, socket.socket]) -> None:
        self.ports = ports
        self.thrift_port = thrift
        self.address = grpc
        self._hosts = hosts

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame into a port, padded to 60 bytes."""
        self._hosts[port].send(frame.ljust(60, b"\0"))

    def receive(self, seconds: float, *, until: int | None = None) -> list[tuple[int, bytes]]:
        """What leaves the switch within `seconds`, or sooner when `until` frames are there."""
        result: list[tuple[int, bytes]] = []
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and (until is None or len(result) < until):
            ready, _, _ = select.select(list(self._hosts.values()), [], [], left)
            for port, sock in self._hosts.items():
                if sock in ready:
                    data, address = sock.recvfrom(65536)
                    if address[2] != socket.PACKET_OUTGOING:
                        result.append((port, data))
        return result


@contextlib.contextmanager
def bmv2(ports: int, folder: Path, *, device_id: int = 7) -> Iterator[Bmv2]:
    """A running switch without a program; everything is gone afterwards."""
    binary = tool("simple_switch_grpc")
    assert binary is not None
    tag = f"xfb{os.getpid() % 100000}"
    hosts: dict[int, socket.socket] = {}
    process = None
    try:
        for port in range(1, ports + 1):
            near, far = f"{tag}s{port}", f"{tag}h{port}"
            _ip("link", "add", near, "type", "veth", "peer", "name", far)
            for name in (near, far):
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
                _ip("link", "set", name, "up", "mtu", "9216")
            # Without a protocol it hears nothing until it is bound, so no frame of another interface slips in.
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.bind((far, ETH_P_ALL))
            hosts[port] = sock
        thrift, grpc = free_port(), free_port()
        process = subprocess.Popen(
            [binary, "--no-p4", "--device-id", str(device_id), "--thrift-port", str(thrift),
             "--notifications-addr", f"ipc://{folder}/n.ipc", "--log-level", "off",
             *(word for port in range(1, ports + 1) for word in ("-i", f"{port}@{tag}s{port}")),
             "--", "--grpc-server-addr", f"127.0.0.1:{grpc}", "--cpu-port", "510", "--priority-queues", "8"],
            stdout=(folder / "bmv2.log").open("w"), stderr=subprocess.STDOUT,
        )  # fmt: skip
        yield Bmv2(ports, thrift, f"127.0.0.1:{grpc}", hosts)
    finally:
        if process is not None:
            process.kill()
            process.wait()
        for sock in hosts.values():
            sock.close()
        for port in range(1, ports + 1):
            subprocess.run(["ip", "link", "del", f"{tag}s{port}"], capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
