"""Captures: one tcpdump per host, writing `<run>/pcap/<host>.pcap`."""

from __future__ import annotations

import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

from topologies.mininet_build import FabricNet
from xoff.errors import XoffError

SNAP_BYTES = 65535
DRAIN_SECONDS = 10.0
"""Longest wait for a capture to write what it has."""
_COUNTS = re.compile(
    rb"(\d+) packets? captured, (\d+) packets? received by filter, (\d+) packets? dropped by kernel"
)


class Captures:
    """Every host's frames, both ways, from here on."""

    def __init__(self, net: FabricNet, folder: Path) -> None:
        if shutil.which("tcpdump") is None:
            raise XoffError("pcap: tcpdump is not installed; `make setup` installs it.")
        folder.mkdir(parents=True, exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        for host in net.plan.hosts:
            process = net.get(host.name).popen(
                ["tcpdump", "-i", net.interface(host.name), "-s", str(SNAP_BYTES), "-B", "16384", "-U", "-Z", "root",
                 "--immediate-mode", "-w", str((folder / f"{host.name}.pcap").resolve())],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0,
            )  # fmt: skip
            self._processes.append(process)
        for process in self._processes:
            # tcpdump says "listening on" once its socket is open: frames from then on are in the file.
            assert process.stderr is not None
            line = process.stderr.readline()
            while line and b"listening on" not in line:
                line = process.stderr.readline()
            if not line:
                self.stop()
                raise XoffError("pcap: tcpdump ended before it captured anything.")

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: object) -> None:
        """Stop; a run that ends well must not have lost a capture on the way."""
        problem = self.stop()
        if problem and kind is None:
            raise XoffError(problem)

    def __enter__(self) -> Captures:
        return self

    def stop(self) -> str:
        """End the captures; what they saw is on disk. A sentence when one had ended before: its file is not all."""
        processes, self._processes = self._processes, []
        early = [process.poll() is not None for process in processes]
        lost = sum(_drain(process) for process in processes)
        for process in processes:
            process.terminate()
        told = [
            process.communicate()[1].decode(errors="replace").strip().splitlines() for process in processes
        ]
        for ended, words in zip(early, told):  # noqa: B905
            if ended:
                last = words[-1] if words else "without a word"
                return f"pcap: a capture ended before the run did ({last}); its file is not complete."
        if lost:
            return f"pcap: the kernel dropped {lost} frames that the captures were too slow for; the files lack them."
        return ""


def _drain(process: subprocess.Popen[bytes]) -> int:
    """Wait until tcpdump has written every frame that its socket holds; frames that the kernel dropped.

    tcpdump answers SIGUSR1 with its counts; ended at once it would leave behind what it has not read yet.
    """
    assert process.stderr is not None
    deadline = time.monotonic() + DRAIN_SECONDS
    while process.poll() is None:
        process.send_signal(signal.SIGUSR1)
        if not select.select([process.stderr], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        counts = _COUNTS.search(process.stderr.readline())
        if counts is not None:
            captured, received, dropped = map(int, counts.groups())
            if captured + dropped >= received:
                return dropped
    return 0
