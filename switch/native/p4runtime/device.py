"""One device as its P4Runtime clients see it: requests, streams, and what the data plane reports.

Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.p4runtime.arbitration import Arbitration, Notification
from switch.native.p4runtime.configurations import Configurations
from switch.native.p4runtime.errors import (
    NOT_FOUND,
    OK,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    SPACE,
    UNIMPLEMENTED,
    BatchError,
    P4RuntimeError,
    raise_if_any,
)
from switch.native.p4runtime.pipeline import Pipeline
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.replication import Replication

STREAM_BACKLOG = 4096
"""Messages that wait for a slow client before packet-ins and digests to it are dropped."""
READ_CHUNK = 256
"""Entities in one ReadResponse."""
MOST_READ = 1 << 18
"""Entities after which a Read is asked no further question; one question may bring more."""


class Stream:
    """One open StreamChannel: the messages that are to go out."""

    def __init__(self, post: Callable[[p4r.StreamMessageResponse], None] | None = None) -> None:
        """`post` takes what is to go out, instead of the queue `outgoing`."""
        self.outgoing: asyncio.Queue[p4r.StreamMessageResponse] = asyncio.Queue()
        self.dropped = 0
        self.end: Callable[[], object] | None = None
        """Ends the stream of a client that does not read what it must be told."""
        self._post = post or self.outgoing.put_nowait

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a message that must arrive; the stream of a client that leaves too many unread is ended."""
        if self.end is not None and self.outgoing.qsize() >= 2 * STREAM_BACKLOG:
            self.end()
            return
        self._post(message)

    def offer(self, message: p4r.StreamMessageResponse) -> bool:
        """Queue a message that may be dropped when the client does not keep up; says whether it was kept."""
        if self.outgoing.qsize() >= STREAM_BACKLOG:
            self.dropped += 1
            return False
        self._post(message)
        return True


class P4RuntimeDevice:
    """The P4Runtime side of one switch."""

    def __init__(
        self,
        device_id: int,
        engine: Engine,
        *,
        wake: Callable[[], None],
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`wake` is called after each change of the engine, so that its packet loop looks again.

        `clock` is a driver's own time in ns, which then also stamps what is sent, and whose driver calls `drain` often
        enough that digests which wait for company need no timer. Without it time is the system's.
        """
        self.device_id = device_id
        self.engine = engine
        self.ports = PortMap(engine.cpu_port)
        self.arbitration = Arbitration(device_id)
        self.packet_outs = 0
        """Packet-outs that have come, refused ones too."""
        self.packet_ins = 0
        """Packet-ins on their way to the primary."""
        self.packet_ins_dropped = 0
        """Packet-ins for which there was no primary, or a client too slow to take them."""
        self._wake = wake
        self._simulated = clock is not None
        self._clock = clock or time.monotonic_ns
        self._date = clock or time.time_ns
        self._replication = Replication(engine, self.ports)
        self._configurations = Configurations(engine, self.ports, self._replication)
        self._lock = asyncio.Lock()
        self._digest_timer: asyncio.TimerHandle | None = None
        self._accepting: set[asyncio.Task[None]] = set()
        """Primaries that are told so when what their predecessors have begun is done."""

    # ---- configuration ----
    async def load(self, message: p4r.ForwardingPipelineConfig) -> None:
        """Run a program from the start; raises P4RuntimeError."""
        try:
            await self._configurations.load(message)
        finally:
            self._changed()

    async def set_config(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """SetForwardingPipelineConfig; raises P4RuntimeError."""
        self._check_device(request.device_id)
        async with self._lock:
            self._check_write(request)
            try:
                await self._configurations.set(request)
            finally:
                self._changed()

    def get_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.ForwardingPipelineConfig | None:
        """GetForwardingPipelineConfig: what was asked for of the present configuration, None without one."""
        self._check_device(request.device_id)
        return self._configurations.get(request.response_type)

    # ---- requests ----
    async def write(self, request: p4r.WriteRequest) -> None:
        """Write; raises P4RuntimeError or BatchError."""
        self._check_device(request.device_id)
        async with self._lock:
            self._check_write(request)
            pipeline = self._configurations.present
            try:
                pipeline.write(request.updates, request.atomicity)
            finally:
                self._changed()

    async def read(self, request: p4r.ReadRequest) -> tuple[list[p4r.ReadResponse], BatchError | None]:
        """Read: the responses to send, and the error to end with. Raises P4RuntimeError."""
        self._check_device(request.device_id)
        async with self._lock:
            pipeline = self._configurations.present
            responses = [p4r.ReadResponse()]
            results: list[P4RuntimeError | None] = []
            for query in request.entities:
                if len(responses) > MOST_READ // READ_CHUNK:
                    raise P4RuntimeError(
                        RESOURCE_EXHAUSTED, f"these are more than {MOST_READ} entities: ask for fewer at once"
                    )
                try:
                    for entity in pipeline.read(query):
                        if len(responses[-1].entities) >= READ_CHUNK:
                            responses.append(p4r.ReadResponse())
                        responses[-1].entities.append(entity)
                    results.append(None)
                except P4RuntimeError as error:
                    results.append(error)
            if not responses[-1].entities and len(responses) > 1:
                responses.pop()
            try:
                raise_if_any(results, "Read failure")
            except BatchError as error:
                return responses, error
            return responses, None

    def capabilities(self, request: p4r.CapabilitiesRequest) -> None:
        """Whether the device that a CapabilitiesRequest names, if any, is here; raises P4RuntimeError."""
        if request.device_id:
            self._check_device(request.device_id)

    # ---- streams ----
    def receive(self, stream: Stream, request: p4r.StreamMessageRequest) -> None:
        """Take a client's stream message; raises P4RuntimeError when the stream is to be closed."""
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._notify(self.arbitration.update(stream, request.arbitration))
            return
        error = p4r.StreamError(space=SPACE)
        try:
            if kind == "packet":
                self.packet_outs += 1
                error.packet_out.packet_out.CopyFrom(request.packet)
                self._packet_out(stream, request.packet)
            elif kind == "digest_ack":
                error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
                self._check_primary(stream, "acknowledge digests")
                self._configurations.present.digests.acknowledge(request.digest_ack)
                self._arm_digests()
            else:
                error.other.SetInParent()
                raise P4RuntimeError(UNIMPLEMENTED, f"stream messages of kind {kind} are not supported")
        except P4RuntimeError as problem:
            error.canonical_code = problem.code
            error.message = problem.message
            stream.offer(p4r.StreamMessageResponse(error=error))

    def leave(self, stream: Stream) -> None:
        """A stream ended."""
        self._notify(self.arbitration.leave(stream))

    # ---- what the data plane reports ----
    def drain(self, pending: set[str]) -> None:
        """Send on the CPU frames, digests and idle entries that wait in the engine."""
        if "cpu" in pending:
            for _, frame in self.engine.take_cpu_frames():
                if self._pipeline is None:
                    packet = p4r.PacketIn(payload=frame)
                else:
                    packet = self._pipeline.packets.packet_in(frame)
                if self._offer(p4r.StreamMessageResponse(packet=packet)):
                    self.packet_ins += 1
                else:
                    self.packet_ins_dropped += 1
        if "digest" in pending:
            now = self._clock()
            for sample in self.engine.take_digests():
                if self._pipeline is not None:
                    self._pipeline.digests.add(sample, now)
        if "digest" in pending or self._simulated:
            self._arm_digests()
        if "idle" in pending:
            self._idle()

    def next_deadline(self) -> int | None:
        """With a driver's own time: when to call `drain` next even if the engine reports nothing, ns of that clock."""
        return None if self._pipeline is None else self._pipeline.digests.next_deadline()

    def port_changed(self, port: int, up: bool) -> None:
        """A port came up or went down."""
        self.ports.set(port, up)
        if self._pipeline is not None and not self._configurations.changing:
            self._pipeline.port_changed(port)

    def port_removed(self, port: int) -> None:
        """There is no such port any more."""
        self.port_changed(port, False)
        self.ports.forget(port)

    async def settle(self) -> None:
        """Wait until no worker thread uses the engine any more; no request may be running."""
        await self._configurations.settle()

    def close(self) -> None:
        """Stop timers."""
        if self._digest_timer is not None:
            self._digest_timer.cancel()

    # ---- what is changed by other means than P4Runtime ----
    @property
    def lock(self) -> asyncio.Lock:
        """Held while a request is served or a configuration is replaced."""
        return self._lock

    @property
    def replication(self) -> Replication:
        """Multicast groups and clone sessions."""
        return self._replication

    def table_changed(self, table: str, timeout_of: tuple[int, int] | None = None) -> None:
        """The engine's table was changed: entries, default, an idle timeout (handle, ns)."""
        if self._pipeline is not None:
            self._pipeline.tables.adopt(table, timeout_of)

    def profile_changed(self, profile: str) -> None:
        """Members or groups of the engine's action profile were changed."""
        if self._pipeline is not None:
            self._pipeline.profiles.adopt(profile)

    def meter_changed(self, meter: str, index: int, rates: tuple[int, int, int, int]) -> None:
        """The engine's meter was configured."""
        if self._pipeline is not None:
            self._pipeline.meters.adopt(meter, index, rates)

    # ---- inside ----
    def _check_device(self, device_id: int) -> None:
        if device_id != self.device_id:
            raise P4RuntimeError(
                NOT_FOUND, f"device {device_id} is not here; this is device {self.device_id}"
            )

    def _check_write(self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest) -> None:
        """Under the lock: a request that waited while another controller became primary is refused."""
        self.arbitration.check_write(
            request.role, request.election_id if request.HasField("election_id") else None
        )

    @property
    def _pipeline(self) -> Pipeline | None:
        return self._configurations.running

    def _changed(self) -> None:
        """The engine was changed, or may have been."""
        self._wake()
        self._arm_digests()

    def _packet_out(self, stream: Stream, packet: p4r.PacketOut) -> None:
        try:
            self._check_primary(stream, "send packets")
            frame = self._configurations.present.packets.packet_out(packet)
            self.engine.rx(self.engine.cpu_port, frame, self._clock())
        finally:
            self._wake()

    def _check_primary(self, stream: Stream, what: str) -> None:
        if not self.arbitration.is_primary(stream):
            raise P4RuntimeError(PERMISSION_DENIED, f"only the primary controller may {what}")

    def _idle(self) -> None:
        by_table: dict[str, p4r.IdleTimeoutNotification] = {}
        for event in self.engine.take_idle_events():
            entry = (
                None if self._pipeline is None else self._pipeline.tables.of_handle(event.table, event.handle)
            )
            if entry is not None:
                message = by_table.setdefault(event.table, p4r.IdleTimeoutNotification())
                message.table_entry.append(entry)
        for message in by_table.values():
            message.timestamp = self._date()
            self._offer(p4r.StreamMessageResponse(idle_timeout_notification=message))

    def _arm_digests(self) -> None:
        """Send the digest lists that are due and look again when the next one is."""
        if self._digest_timer is not None:
            self._digest_timer.cancel()
            self._digest_timer = None
        if self._pipeline is None:
            return
        now = self._clock()
        for digest_list in self._pipeline.digests.ready(now, self._date()):
            self._offer(p4r.StreamMessageResponse(digest=digest_list))
        deadline = self._pipeline.digests.next_deadline()
        if deadline is not None and not self._simulated:
            delay = max(0, deadline - now) / 1e9
            self._digest_timer = asyncio.get_running_loop().call_later(delay, self._arm_digests)

    def _offer(self, message: p4r.StreamMessageResponse) -> bool:
        """Offer a message to every primary; says whether one of them gets it."""
        kept = False
        for stream in self.arbitration.primaries():
            assert isinstance(stream, Stream)
            kept |= stream.offer(message)
        return kept

    def _notify(self, notifications: list[Notification]) -> None:
        """Tell clients who is primary; the primary itself only when no request is in flight any more."""
        for stream, update in notifications:
            assert isinstance(stream, Stream)
            if update.status.code == OK and self._lock.locked():
                task = asyncio.get_running_loop().create_task(self._accept(stream))
                self._accepting.add(task)
                task.add_done_callback(self._accepting.discard)
            else:
                stream.send(p4r.StreamMessageResponse(arbitration=update))

    async def _accept(self, stream: Stream) -> None:
        async with self._lock:
            if self.arbitration.is_primary(stream):
                update = self.arbitration.told(stream)
                stream.send(p4r.StreamMessageResponse(arbitration=update))
