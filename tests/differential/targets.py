"""Both switches behind one face: load a program, write updates, send packets, read state."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from switch.native.binding import Engine
from switch.native.p4runtime.device import P4RuntimeDevice, Stream
from switch.native.p4runtime.errors import BatchError, P4RuntimeError
from tests.differential.hidden_flags import zero_invalid_reads

DEVICE = 1
CPU_PORT = 505
"""The native engine's, which BMv2 runs without: to it, it is a port as any other."""
QUEUES = 8
SECOND = 1_000_000_000
LAPS = 3_000
"""Polls after which a packet that never leaves (an endless recirculation) is given up."""
BMV2_TIMEOUT = 10.0
Output = tuple[int, bytes]


class Endless(Exception):
    """The switch is never done with a packet."""


class Died(Exception):
    """The switch's process ended."""


@dataclass
class Reads:
    """State after a run, in comparable form."""

    counters: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    direct: dict[str, dict[bytes, tuple[int, int]]] = field(default_factory=dict)
    registers: dict[str, list[int]] = field(default_factory=dict)
    digests: dict[str, list[bytes]] = field(default_factory=dict)


def _requests(info: p4i.P4Info) -> Iterator[tuple[str, str, p4r.Entity]]:
    for counter in info.counters:
        entity = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=counter.preamble.id))
        yield "counter", counter.preamble.name, entity
    names = {t.preamble.id: t.preamble.name for t in info.tables}
    for direct in info.direct_counters:
        if direct.direct_table_id not in names:
            continue
        entry = p4r.TableEntry(table_id=direct.direct_table_id)
        entry.counter_data.SetInParent()
        yield "direct", names[direct.direct_table_id], p4r.Entity(table_entry=entry)


def _sort(info: p4i.P4Info, kind: str, name: str, entities: Sequence[p4r.Entity], reads: Reads) -> None:
    """Keep counters as far as their unit says."""
    if kind == "counter":
        unit = next(c.spec.unit for c in info.counters if c.preamble.name == name)
        for entity in entities:
            entry = entity.counter_entry
            values = _counted(unit, entry.data)
            if any(values):
                reads.counters.setdefault(name, {})[entry.index.index] = values
        return
    number = next(t.preamble.id for t in info.tables if t.preamble.name == name)
    unit = next(c.spec.unit for c in info.direct_counters if c.direct_table_id == number)
    for entity in entities:
        matches = sorted(m.SerializeToString() for m in entity.table_entry.match)
        key = b"|".join(matches) + str(entity.table_entry.priority).encode()
        reads.direct.setdefault(name, {})[key] = _counted(unit, entity.table_entry.counter_data)


def _counted(unit: int, data: p4r.CounterData) -> tuple[int, int]:
    packets = data.packet_count if unit != p4i.CounterSpec.BYTES else 0
    octets = data.byte_count if unit != p4i.CounterSpec.PACKETS else 0
    return packets, octets


class Native:
    """The native engine in this process, with its P4Runtime device and a clock of its own."""

    def __init__(
        self, *, start: int = SECOND, step: int = 1_000_000, rate_bps: int = 0, seed: int = 0
    ) -> None:
        self.engine = Engine(None, device_id=DEVICE, cpu_port=CPU_PORT, priority_queues=QUEUES, seed=seed)
        for port in range(512):
            if port not in (CPU_PORT, self.engine.drop_port):
                self.engine.add_port(port, rate_bps)
        self.now = start
        self.step = step
        self._loop = asyncio.new_event_loop()
        self.device = P4RuntimeDevice(DEVICE, self.engine, wake=lambda: None, clock=lambda: self.now)
        self.stream = Stream()
        self.digests: dict[int, list[bytes]] = {}

    def close(self) -> None:
        self.device.close()
        self._loop.close()
        self.engine.close()

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def load(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Raises P4RuntimeError."""
        self._run(self.device.load(config))
        hello = p4r.StreamMessageRequest()
        hello.arbitration.device_id = DEVICE
        hello.arbitration.election_id.low = 1
        self.device.receive(self.stream, hello)

    def write(self, update: p4r.Update) -> str | None:
        """None, or why not."""
        request = p4r.WriteRequest(device_id=DEVICE, updates=[update])
        request.election_id.low = 1
        try:
            self._run(self.device.write(request))
        except BatchError as error:
            return next(r.message for r in error.results if r is not None)
        except P4RuntimeError as error:
            return error.message
        return None

    def send(self, port: int, frame: bytes) -> list[Output]:
        """What leaves because of this frame. Raises Endless."""
        self.now += self.step
        self.engine.rx(port, frame, self.now)
        out: list[Output] = []
        for _ in range(LAPS):
            out += self.engine.poll(self.now)
            out += [(CPU_PORT, frame) for _, frame in self.engine.take_cpu_frames()]
            after = self.engine.next_deadline()
            if after is None:
                if "digest" in self.engine.pending():
                    self._drain()
                return out
            self.now = max(self.now, after)
        raise Endless

    def _drain(self) -> None:
        """Send on what waits in the engine, on the event loop that the device's timers belong to."""

        async def drained() -> None:
            self.device.drain(self.engine.pending())

        self._run(drained())
        while not self.stream.outgoing.empty():  # a client that does not read loses messages
            message = self.stream.outgoing.get_nowait()
            if message.WhichOneof("update") == "digest":
                kept = self.digests.setdefault(message.digest.digest_id, [])
                kept += [d.SerializeToString() for d in message.digest.data]

    def reads(self, info: p4i.P4Info) -> Reads:
        """Counters, registers and digests."""
        self._drain()
        reads = Reads()
        for kind, name, entity in _requests(info):
            responses, error = self._run(
                self.device.read(p4r.ReadRequest(device_id=DEVICE, entities=[entity]))
            )
            if error is None:
                _sort(info, kind, name, [e for r in responses for e in r.entities], reads)
        for register in info.registers:
            if register.preamble.name in (self.engine.program.registers if self.engine.loaded else {}):
                reads.registers[register.preamble.name] = self.engine.register_read_all(
                    register.preamble.name
                )
        for digest in info.digests:
            if digest.preamble.id in self.digests:
                reads.digests[digest.preamble.name] = self.digests[digest.preamble.id]
        return reads


def _dataplane() -> Any:
    """The message in both directions of BMv2's data plane service: id, device_id, port and packet, numbered 1 to 4."""
    file = descriptor_pb2.FileDescriptorProto(name="xoff_bmv2_dataplane.proto", package="xoff_bmv2")
    kinds = descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name="Frame")
    fields = (
        ("id", kinds.TYPE_UINT64),
        ("device_id", kinds.TYPE_UINT64),
        ("port", kinds.TYPE_UINT32),
        ("packet", kinds.TYPE_BYTES),
    )
    for number, (name, kind) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    file.syntax = "proto3"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("xoff_bmv2.Frame"))


_Frame = _dataplane()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Bmv2:
    """simple_switch_grpc, fed through its data plane service.

    A stream of that service ends when the switch has finished with every packet sent on it, so nothing here waits for
    silence. Each answer carries the number of the packet that caused it.
    """

    def __init__(self, executable: str, *, zero_invalid_reads: bool) -> None:
        self._zero = zero_invalid_reads
        self._folder = tempfile.TemporaryDirectory(prefix="xoff-differential-")
        p4runtime, dataplane, self._thrift = _free_ports(3)
        self._cli = Path(executable).parent / "simple_switch_CLI"
        command = [executable, "--no-p4", "--device-id", str(DEVICE), "--log-level", "off"]
        command += ["--thrift-port", str(self._thrift)]
        command += ["--notifications-addr", f"ipc://{self._folder.name}/notifications", "--"]
        command += ["--grpc-server-addr", f"127.0.0.1:{p4runtime}", "--priority-queues", str(QUEUES)]
        command += ["--dp-grpc-server-addr", f"127.0.0.1:{dataplane}"]
        self._said = Path(self._folder.name, "said")
        with self._said.open("w") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said, cwd=self._folder.name)
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{p4runtime}", options=options)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._dp_channel = grpc.insecure_channel(f"127.0.0.1:{dataplane}", options=options)
        self._packets = self._dp_channel.stream_stream(
            "/p4.bm.DataplaneInterface/PacketStream",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=_Frame.FromString,
        )
        self._outgoing: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._incoming: queue.Queue[p4r.StreamMessageResponse | None] = queue.Queue()
        self._messages: Any = None
        self._sent = 0
        self.zeroed = False
        """Whether its fields of invalid headers read as zero."""

    def close(self) -> None:
        self._outgoing.put(None)
        if self._messages is not None:
            self._messages.cancel()
        self._channel.close()
        self._dp_channel.close()
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()

    def _alive(self) -> None:
        if self.process.poll() is not None:
            text = " ".join(self._said.read_text(errors="replace").split())[-300:]
            raise Died(f"ended with {self.process.returncode}: {text}")

    def _receive(self, messages: Any) -> None:
        try:
            for message in messages:
                self._incoming.put(message)
        except grpc.RpcError:
            self._incoming.put(None)

    def _wait(self) -> None:
        """Until it listens."""
        ready = grpc.channel_ready_future(self._channel)
        for _ in range(100):
            self._alive()
            try:
                ready.result(0.2)
                return
            except grpc.FutureTimeoutError:
                continue
        raise Died("does not listen")

    def load(self, config: p4r.ForwardingPipelineConfig) -> str | None:
        """None, or why the switch refuses the program."""
        self._wait()
        self.zeroed = self._zero and zero_invalid_reads(self.process.pid)
        self._messages = self._stub.StreamChannel(iter(self._outgoing.get, None))
        threading.Thread(target=self._receive, args=(self._messages,), daemon=True).start()
        hello = p4r.StreamMessageRequest()
        hello.arbitration.device_id = DEVICE
        hello.arbitration.election_id.low = 1
        self._outgoing.put(hello)
        if self._incoming.get(timeout=20) is None:
            raise Died("closed its stream")
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, config=config
        )
        request.election_id.low = 1
        try:
            self._stub.SetForwardingPipelineConfig(request, timeout=30)
        except grpc.RpcError as error:
            time.sleep(0.05)
            self._alive()
            return f"{error.code().name}: {error.details()}"
        return None

    def write(self, update: p4r.Update) -> str | None:
        """None, or why not."""
        request = p4r.WriteRequest(device_id=DEVICE, updates=[update])
        request.election_id.low = 1
        try:
            self._stub.Write(request, timeout=20)
        except grpc.RpcError as error:
            self._alive()
            texts = [error.details()]
            for key, value in error.trailing_metadata() or ():
                if key == "grpc-status-details-bin":
                    texts.append(re.sub(rb"[^ -~]+", b" ", value).decode())
            return " ".join(texts)
        return None

    def send(self, packets: Sequence[tuple[int, bytes]]) -> list[list[Output]]:
        """What leaves because of each packet, in order. Raises Endless, Died."""
        first = self._sent + 1
        self._sent += len(packets)
        frames = [
            _Frame(id=first + i, device_id=DEVICE, port=port, packet=data)
            for i, (port, data) in enumerate(packets)
        ]
        out: list[list[Output]] = [[] for _ in packets]
        try:
            for answer in self._packets(iter(frames), timeout=BMV2_TIMEOUT):
                if answer.id:
                    out[answer.id - first].append((answer.port, answer.packet))
                else:
                    out[-1].append((answer.port, answer.packet))
        except grpc.RpcError as error:
            time.sleep(0.05)
            self._alive()
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise Endless from None
            raise Died(f"{error.code().name}: {error.details()}") from None
        return out

    def reads(self, info: p4i.P4Info) -> Reads:
        """Counters, registers (through Thrift) and digests."""
        reads = Reads()
        for kind, name, entity in _requests(info):
            request = p4r.ReadRequest(device_id=DEVICE, entities=[entity])
            try:
                entities = [e for r in self._stub.Read(request, timeout=20) for e in r.entities]
            except grpc.RpcError:
                self._alive()
                continue
            _sort(info, kind, name, entities, reads)
        if info.registers:
            names = [r.preamble.name for r in info.registers]
            for name, text in zip(names, self._command([f"register_read {n}" for n in names]), strict=False):
                found = re.search(r"= ([-\d, ]+)", text)
                if found:
                    reads.registers[name] = [int(word) for word in found.group(1).split(",")]
        names_of = {d.preamble.id: d.preamble.name for d in info.digests}
        for message in self._pending() if info.digests else ():
            if message.WhichOneof("update") == "digest":
                kept = reads.digests.setdefault(names_of.get(message.digest.digest_id, "?"), [])
                kept += [d.SerializeToString() for d in message.digest.data]
        return reads

    def _command(self, lines: Sequence[str]) -> list[str]:
        """simple_switch_CLI's answers; empty where it is not installed."""
        if not self._cli.exists():
            return []
        done = subprocess.run(
            [str(self._cli), "--thrift-port", str(self._thrift)],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ,
        )
        return [part for part in done.stdout.split("RuntimeCmd: ")[1:] if part.strip()]

    def _pending(self) -> Iterator[p4r.StreamMessageResponse]:
        """Messages that have come in on the stream, until none has come for a while.

        BMv2 hands digests to P4Runtime in a thread of its own; nothing reports when that is done.
        """
        while True:
            try:
                message = self._incoming.get(timeout=0.7)
            except queue.Empty:
                return
            if message is None:
                return
            yield message
