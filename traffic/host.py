"""`python -m traffic.host hosts-N.json`: runs the NICs of several hosts on their real interfaces.

One process, one epoll loop: the hosts' packet sockets (opened inside their network namespaces), a timer set to the
earliest deadline, and standard input. Events go to standard output, one JSON object a line:

    {"event": "ready", "hosts": [...]}                 sockets are open
    {"event": "progress", "t": ns, "sent": …, "received": …, "failed": …, "messages": …, "bytes_received": …}
    {"event": "failed", "host": …, "id": …, "reason": …}   a message will never complete
    {"event": "stopped", "t": ns}                      senders are silent
    {"event": "done", "t": ns, "hosts": [summary, …]}  every message of these hosts was acknowledged and received
    {"event": "final", "t": ns, "hosts": [summary, …]} the end, after standard input was closed
    {"event": "error", "message": …}                   one sentence; the exit code is 1

Commands come on standard input (`COMMANDS`); one that names a host of another worker is passed over. The process
ends when standard input closes, so it never outlives who started it. `t` of events is wall ns since the start, records
count from the run's epoch (`epoch_ns`), and the times in summaries are `time.monotonic_ns` as they were.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from traffic.endpoint import Endpoint
from traffic.errors import TrafficError
from traffic.linux import Timer, deaf_udp_socket, kernel_drops, network_namespace, packet_socket
from traffic.nic.nic import NO_CLASS
from traffic.wire.headers import ROCE_PORT
from traffic.wire.telemetry import INT_UDP_PORT
from traffic.worker import WorkerConfig, WorkerHost

COMMANDS = (
    "start MONOTONIC_NS | stop | pause HOST | resume HOST | rate HOST FABRIC_BPS | "
    "storm HOST CLASS QUANTA FABRIC_NS"
)
HOST_COMMANDS = {"pause": 0, "resume": 0, "rate": 1, "storm": 3}
"""Number of numbers after the host's name."""
FRAMES_PER_WAKE = 64
"""Frames read from one socket before the others get their turn."""
MAX_FRAME = 65536
CATCH_UP_NS = 10_000_000
"""How much of a stall of this process the NICs make good; the rest is lost time, not a burst."""
TIME_FIELDS = ("until", "post", "start", "end")
GONE = (errno.ENETDOWN, errno.ENXIO, errno.ENODEV)


def emit(event: str, **fields: Any) -> None:
    """Tell the parent."""
    sys.stdout.write(json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n")
    sys.stdout.flush()


class RecordFile:
    """Records as JSON Lines, with times since the run's epoch."""

    def __init__(self, path: Path, epoch: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a")
        self._epoch = epoch

    def __call__(self, kind: str, t: int, **fields: Any) -> None:
        epoch = self._epoch
        for name in TIME_FIELDS:
            if fields.get(name):
                fields[name] -= epoch
        record = {"t": t - epoch, "kind": kind, **fields}
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")

    def flush(self) -> None:
        """Make what was written visible to readers."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


class Host:
    """An endpoint on a packet socket."""

    def __init__(self, config: WorkerHost, record: RecordFile) -> None:
        self.endpoint = Endpoint(config.endpoint, record=record)
        self.interface = config.attachment.interface
        self._namespace = config.attachment.namespace
        self.due: int | None = None
        self.alive = True
        self.failures_told = 0
        name = self.endpoint.name
        try:
            with network_namespace(self._namespace):
                self.socket = packet_socket(self.interface)
                self._deaf: list[socket.socket] = []
                for port in (ROCE_PORT, INT_UDP_PORT):
                    # The port is taken: then the kernel has a listener and will not answer with ICMP either.
                    with contextlib.suppress(OSError):
                        self._deaf.append(deaf_udp_socket(port))
        except OSError as error:
            where = f" in {self._namespace}" if self._namespace else ""
            raise TrafficError(
                f"host {name}: cannot open interface {self.interface}{where}: {os.strerror(error.errno or 0)}"
                + (" (root is needed)." if error.errno == errno.EPERM else ".")
            ) from None

    def _count(self, reason: str, packets: int, size: int = 0) -> None:
        count = self.endpoint.nic.drops.setdefault((NO_CLASS, reason), [0, 0])
        count[0] += packets
        count[1] += size

    def receive(self, now: int) -> None:
        """Take what has arrived, up to a fair share."""
        rx, receive = self.endpoint.rx, self.socket.recv
        self.endpoint.nic.catch_up(now, CATCH_UP_NS)
        for _ in range(FRAMES_PER_WAKE):
            try:
                frame = receive(MAX_FRAME)
            except BlockingIOError:
                break
            except OSError as error:
                self._fault(error)
                break
            rx(0, frame, now)
        self.due = self.endpoint.next_deadline()

    def transmit(self, now: int) -> None:
        """Send what is due."""
        send = self.socket.send
        self.endpoint.nic.catch_up(now, CATCH_UP_NS)
        for _, frame in self.endpoint.poll(now):
            try:
                send(frame)
            except OSError as error:
                self._count(f"tx_{errno.errorcode.get(error.errno or 0, 'error').lower()}", 1, len(frame))
                self._fault(error)
        self.due = self.endpoint.next_deadline()

    def _fault(self, error: OSError) -> None:
        if self.alive and error.errno in GONE:
            self.alive = False
            emit(
                "error",
                message=f"host {self.endpoint.name}: interface {self.interface} is gone or down "
                f"({os.strerror(error.errno or 0)}).",
            )

    def count_kernel_drops(self) -> None:
        """Add what the kernel dropped for want of socket buffer."""
        if self.alive:
            drops = kernel_drops(self.socket)
            if drops:
                self._count("socket_buffer", drops)

    def close(self) -> None:
        """Close the sockets."""
        self.socket.close()
        for sock in self._deaf:
            sock.close()


class Worker:
    """The loop."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._record = RecordFile(Path(config.records), config.epoch_ns)
        self._hosts = [Host(host, self._record) for host in config.hosts]
        self._messages = sum(len(host.endpoint.sends) for host in config.hosts)
        self._timer = Timer()
        self._epoch = 0
        self._started = self._stopped = self._done = False
        self._next_sample: int | None = None
        self._next_progress: int | None = None
        self._stop_at: int | None = None
        self._input = b""
        self._open = True

    def run(self) -> None:
        """Until standard input closes."""
        epoll = select.epoll()
        by_fd = {host.socket.fileno(): host for host in self._hosts}
        stdin = sys.stdin.fileno()
        os.set_blocking(stdin, False)
        for fd in (*by_fd, self._timer.fd, stdin):
            epoll.register(fd, select.EPOLLIN)
        emit("ready", hosts=[host.endpoint.name for host in self._hosts])
        armed: int | None = None
        clock = time.monotonic_ns
        hosts = self._hosts
        while self._open:
            due = self._earliest()
            if due != armed and (armed is None or due is None or due < armed or armed <= clock()):
                self._timer.set(due)
                armed = due
            for fd, _ in epoll.poll():
                host = by_fd.get(fd)
                if host is not None:
                    host.receive(clock())
                    if not host.alive:
                        epoll.unregister(fd)
                        del by_fd[fd]
                elif fd == stdin:
                    self._read_commands(stdin)
                else:
                    self._timer.drain()
                    armed = None
            now = clock()
            for host in hosts:
                if host.due is not None and host.due <= now:
                    host.transmit(now)
            self._housekeeping(now)
        epoll.close()

    def _earliest(self) -> int | None:
        times = [host.due for host in self._hosts if host.due is not None]
        times += [t for t in (self._next_sample, self._next_progress, self._stop_at) if t is not None]
        return min(times, default=None)

    def _housekeeping(self, now: int) -> None:
        if not self._started:
            return
        if self._stop_at is not None and now >= self._stop_at:
            self._stop(now)
        if self._next_sample is not None and now >= self._next_sample:
            self._next_sample = now + self._config.sample_ns
            self._sample(now)
        if not self._done and all(host.endpoint.finished for host in self._hosts):
            self._done = True
            self._sample(now)
            emit("done", t=now - self._epoch, hosts=self._summaries(now))
        if self._next_progress is not None and now >= self._next_progress:
            self._next_progress = now + self._config.progress_ns
            self._progress(now)

    def _sample(self, now: int) -> None:
        for host in self._hosts:
            host.count_kernel_drops()
            host.endpoint.sample(now)
        self._record.flush()

    def _progress(self, now: int) -> None:
        total = {"sent": 0, "received": 0, "failed": 0, "bytes_received": 0}
        for host in self._hosts:
            for name, count in host.endpoint.progress().items():
                total[name] += count
            failed = host.endpoint.failed
            if len(failed) > host.failures_told:
                for id, reason in list(failed.items())[host.failures_told :]:
                    emit("failed", host=host.endpoint.name, id=id, reason=reason)
                host.failures_told = len(failed)
        emit("progress", t=now - self._epoch, messages=self._messages, **total)

    def _summaries(self, now: int) -> list[dict[str, Any]]:
        return [host.endpoint.summary(now) for host in self._hosts]

    # -- commands

    def _read_commands(self, stdin: int) -> None:
        try:
            data = os.read(stdin, 65536)
        except BlockingIOError:
            return
        if not data:
            self._open = False
            return
        self._input += data
        *lines, self._input = self._input.split(b"\n")
        for line in lines:
            self._command(line.decode(errors="replace").split())

    def _command(self, words: list[str]) -> None:
        now = time.monotonic_ns()
        if len(words) == 2 and words[0] == "start" and words[1].isdigit():
            if self._started:
                raise TrafficError("the workload has already been started.")
            self._start(int(words[1]), now)
        elif words == ["stop"]:
            self._stop(now)
        elif words and not self._host_command(words, now):
            raise TrafficError(f"unknown command {' '.join(words)!r}; commands are {COMMANDS}.")

    def _host_command(self, words: list[str], now: int) -> bool:
        """Carry out a command that names a host; False when it is none."""
        numbers = words[2:]
        if (
            len(words) < 2
            or HOST_COMMANDS.get(words[0]) != len(numbers)
            or not all(n.isdigit() for n in numbers)
        ):
            return False
        for host in self._hosts:
            if host.endpoint.name != words[1]:
                continue
            values = [int(n) for n in numbers]
            if words[0] == "pause":
                host.endpoint.pause()
            elif words[0] == "resume":
                host.endpoint.resume(now)
            elif words[0] == "rate":
                host.endpoint.set_rate(values[0], now)
            else:
                traffic_class, quanta, duration = values
                host.endpoint.storm(traffic_class, quanta, duration, now)
            host.due = host.endpoint.next_deadline()
        return True

    def _start(self, epoch: int, now: int) -> None:
        self._started = True
        self._epoch = epoch
        config = self._config
        self._next_sample = max(now, epoch) + config.sample_ns if config.sample_ns else None
        self._next_progress = max(now, epoch) + config.progress_ns if config.progress_ns else None
        self._stop_at = epoch + config.stop_after_ns if config.stop_after_ns else None
        for host in self._hosts:
            host.endpoint.start(epoch)
            host.due = host.endpoint.next_deadline()

    def _stop(self, now: int) -> None:
        self._stop_at = None
        if self._stopped:
            return
        self._stopped = True
        for host in self._hosts:
            host.endpoint.stop(now)
            host.due = host.endpoint.next_deadline()
        emit("stopped", t=now - self._epoch)

    def close(self) -> None:
        """Last records, sockets."""
        now = time.monotonic_ns()
        if self._started:
            self._sample(now)
            emit("final", t=now - self._epoch, hosts=self._summaries(now))
        for host in self._hosts:
            host.close()
        self._timer.close()
        self._record.close()


def main(arguments: list[str]) -> int:
    """The command; returns its exit code."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the parent closes our input
    if len(arguments) != 1:
        emit("error", message="usage: python -m traffic.host hosts-N.json")
        return 2
    try:
        worker = Worker(WorkerConfig.read(Path(arguments[0])))
        gc.collect()
        gc.freeze()
        try:
            worker.run()
        finally:
            worker.close()
    except (TrafficError, OSError) as error:
        with contextlib.suppress(BrokenPipeError):
            emit("error", message=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
