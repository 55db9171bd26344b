"""The sending half of an RC queue pair: segmentation, window, ACK, NAK, timeout, go-back-N.

Rules. PSNs are whole numbers here that count on from the first one; only the wire has 24 bits. Between `una` (oldest
not acknowledged) and `next_psn` lies what is in flight, `sent_psn` is the furthest that was ever sent, so a packet
below it is a retransmission. A NAK or a timeout moves `next_psn` back to `una`; nothing else does.
Retransmission timeouts are counted from the last progress; the timer runs only while something has been
sent since the last rollback, so a paused link does not eat retries.
Where every packet is answered on its own (`echo`), an ACK that acknowledges nothing new still says that a packet has
arrived: the window then counts packets without an answer, so that one that waits on a slow path does not stop those on
others, and the requester is never further ahead than the responder keeps packets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

from switch.link import PS_PER_S, wire_bytes
from traffic.nic.config import QueuePairConfig, TransportConfig
from traffic.nic.congestion import CongestionControl
from traffic.nic.reps import Reps
from traffic.wire import telemetry
from traffic.wire.headers import (
    ECT0,
    PSN_MASK,
    SYNDROME_KIND_ACK,
    SYNDROME_KIND_MASK,
    SYNDROME_KIND_NAK,
    Opcode,
    Syndrome,
    psn_distance,
)
from traffic.wire.template import ACK_REQUEST, BE32, LE32, RETH, FlowTemplate, Head

_WRITE_FIRST = int(Opcode.WRITE_FIRST)
_WRITE_MIDDLE = int(Opcode.WRITE_MIDDLE)
_WRITE_LAST_IMM = int(Opcode.WRITE_LAST_IMM)
_WRITE_ONLY_IMM = int(Opcode.WRITE_ONLY_IMM)
_AS_SEND = {
    _WRITE_FIRST: int(Opcode.SEND_FIRST),
    _WRITE_MIDDLE: int(Opcode.SEND_MIDDLE),
    _WRITE_LAST_IMM: int(Opcode.SEND_LAST_IMM),
    _WRITE_ONLY_IMM: int(Opcode.SEND_ONLY_IMM),
}
_WITH_RETH = frozenset({_WRITE_FIRST, _WRITE_ONLY_IMM})
_WITH_IMM = frozenset(
    {_WRITE_LAST_IMM, _WRITE_ONLY_IMM, int(Opcode.SEND_LAST_IMM), int(Opcode.SEND_ONLY_IMM)}
)
REMOTE_KEY = 0x1000
MAX_OUTSTANDING = 1 << 22
"""Packets between `una` and `next_psn`: well under half the PSN space, so that old and new cannot be confused."""
MAX_HEADS = 256


@dataclass(eq=False, slots=True)
class SendWork:
    """A message being sent. Times are ns of the driving clock, -1 before they are known."""

    id: int
    bytes: int
    write: bool
    """RDMA WRITE with immediate; else SEND with immediate."""
    first_psn: int
    end_psn: int
    """First PSN after it."""
    posted: int
    started: int = -1
    ended: int = -1
    retransmitted: int = 0
    """Packets of it sent again."""


class Requester:
    """One direction of one queue pair, as a flow of the NIC's egress."""

    def __init__(
        self,
        config: QueuePairConfig,
        *,
        prototype: bytes,
        mtu: int,
        transport: TransportConfig,
        congestion: CongestionControl,
        reps: Reps | None,
        echo: bool,
        line_rate_bps: int,
        payload: bytes,
        shim: bytes,
        on_done: Callable[[Requester, SendWork, int], None],
        on_event: Callable[[Requester, str, int, int], None],
        arm: Callable[[Requester, int], None],
    ) -> None:
        """`transport` has its times already on the driving clock. `payload` holds at least `mtu` bytes.

        `on_done(self, work, now)`: acknowledged. `on_event(self, cause, psn, now)`: `nak` or `timeout` sent it
        back to `psn`, or `retry_exceeded`, `remote_error` ended the queue pair. `arm(self, at)`: call `on_timer` then.
        """
        self.config = config
        self.congestion = congestion
        self.reps = reps
        """Chooses each packet's source port; None: all have the flow's."""
        self.traffic_class = config.traffic_class
        self.scheduled = False
        self.next_ps = 0
        self.una = self.next_psn = self.sent_psn = self._tail_psn = config.send_psn
        self.failed = ""
        """Why the queue pair is in the error state; empty while it works."""
        self.stopped = False
        self.retransmitted = 0
        self.bytes_sent = 0
        """Payload, each byte once."""
        self._bytes_done = 0
        self.cnps = 0
        self.stale_acks = 0
        self._mtu = mtu
        self._transport = transport
        self._line = line_rate_bps
        self._payload = payload[:mtu]
        self._shim = shim
        self._template = FlowTemplate(
            prototype,
            remote_ip=config.remote_ip,
            remote_qpn=config.remote_qpn,
            source_port=config.udp_source_port,
            dscp=config.traffic_class << 3,
            ecn=ECT0,
        )
        self._echo = echo
        self._furthest = (
            transport.reorder_window if echo and transport.reorder_window else MAX_OUTSTANDING - 1
        )
        """Packets that `next_psn` may be ahead of `una`."""
        self._unanswered = 0
        """With `echo`: packets sent since the last rollback that no ACK has answered."""
        self._heads: dict[tuple[int, int, int], Head] = {}
        self._unacked: deque[SendWork] = deque()
        self._to_send: deque[SendWork] = deque()
        self._retries = 0
        self._rto = transport.rto_ns
        self._deadline = 0
        """When the retransmission timer expires, ns; 0 = not running."""
        self._armed = False
        self._probes: deque[tuple[int, int]] = deque()
        """(PSN with AckReq sent for the first time, start ns): round-trip samples to come."""
        self._on_done = on_done
        self._on_event = on_event
        self._arm = arm

    # -- posting

    def post(self, id: int, size: int, now: int, write: bool = True) -> SendWork:
        """Queue a message of `size` bytes."""
        first = self._tail_psn
        self._tail_psn = first + max(1, -(-size // self._mtu))
        work = SendWork(id, size, write, first, self._tail_psn, now)
        self._unacked.append(work)
        self._to_send.append(work)
        return work

    @property
    def outstanding(self) -> tuple[SendWork, ...]:
        """Messages not fully acknowledged."""
        return tuple(self._unacked)

    # -- sending

    def has_next(self) -> bool:
        """Whether a packet may go as soon as pacing allows."""
        if not self._to_send or self.failed or self.stopped:
            return False
        ahead = self.next_psn - self.una
        flight = self._unanswered if self._echo else ahead
        window = self.congestion.window_bytes
        return ahead <= self._furthest and (window is None or flight * self._mtu < window)

    def next_frame(self, start_ps: int) -> bytes | None:
        """The next packet; pacing counts from its start."""
        if not self.has_next():
            return None
        now = start_ps // 1000
        mtu = self._mtu
        psn = self.next_psn
        work = self._to_send[0]
        first = psn == work.first_psn
        last = psn + 1 == work.end_psn
        size = work.bytes - (psn - work.first_psn) * mtu if last else mtu
        self.next_psn = psn + 1
        self._unanswered += 1
        congestion = self.congestion
        if last:
            opcode = _WRITE_ONLY_IMM if first else _WRITE_LAST_IMM
            self._to_send.popleft()
        else:
            opcode = _WRITE_FIRST if first else _WRITE_MIDDLE
        if not work.write:
            opcode = _AS_SEND[opcode]
        word = psn & PSN_MASK
        if last or (psn + 1) % self._transport.ack_interval == 0 or not self.has_next():
            word |= ACK_REQUEST
        port = 0 if self.reps is None else self.reps.next_entropy()
        frame = self._build(opcode, size, word, work, port)
        if psn < self.sent_psn:
            self.retransmitted += 1
            work.retransmitted += 1
        else:
            self.sent_psn = psn + 1
            self.bytes_sent += size
            if word & ACK_REQUEST:
                self._probes.append((psn, now))
            if first:
                work.started = now
        wire = wire_bytes(len(frame))
        congestion.advance(now=now)
        congestion.on_sent(now=now, wire_bytes=wire)
        rate = congestion.rate_bps
        if rate < self._line:
            self.next_ps = start_ps + int(wire * 8 * PS_PER_S / rate)
        if not self._deadline:
            self._restart_timer(now)
        return frame

    def _build(self, opcode: int, size: int, word: int, work: SendWork, source_port: int) -> bytes:
        first = opcode in _WITH_RETH
        key = (opcode, size, source_port)
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            pad = -size & 3
            extra = (16 if first else 0) + (4 if opcode in _WITH_IMM else 0)
            head = self._heads[key] = self._template.head(
                opcode, extra + size + pad, pad=pad, shim=self._shim, source_port=source_port
            )
        payload = self._payload if size == self._mtu else self._payload[:size] + bytes(-size & 3)
        if opcode == _WRITE_MIDDLE:
            body = BE32.pack(word) + payload
        else:
            body = BE32.pack(word)
            if first:
                body += RETH.pack(0, REMOTE_KEY, work.bytes)
            if opcode in _WITH_IMM:
                body += BE32.pack(work.id)
            body += payload
        return head.data + body + LE32.pack(crc32(body, head.icrc))

    # -- acknowledgements

    @property
    def bytes_acked(self) -> int:
        """Payload bytes acknowledged so far, those of unfinished messages included."""
        if not self._unacked:
            return self._bytes_done
        work = self._unacked[0]
        return self._bytes_done + min(max(0, self.una - work.first_psn) * self._mtu, work.bytes)

    def on_acknowledge(
        self,
        psn: int,
        syndrome: int,
        echoed: bytes | None,
        now: int,
        *,
        entropy: int = 0,
        marked: bool = False,
    ) -> None:
        """An ACK or NAK for this queue pair arrived; `entropy` and `marked` are those of the packet that it answers."""
        if self.failed:
            return
        if self._echo:
            self._unanswered = max(0, self._unanswered - 1)
            if self.reps is not None:
                self.reps.on_ack(entropy, marked, now)
            self.congestion.on_echo(now=now, marked=marked)
        kind = syndrome & SYNDROME_KIND_MASK
        distance = psn_distance(psn, self.una)
        acked = self.una + distance + (1 if kind == SYNDROME_KIND_ACK else 0)
        if acked > self.sent_psn or acked < self.una or (kind == SYNDROME_KIND_ACK and acked == self.una):
            self.stale_acks += 1
            return
        if kind == SYNDROME_KIND_NAK and syndrome != Syndrome.NAK_PSN_SEQUENCE:
            self._fail("remote_error", now)
            return
        if acked > self.una:
            self._progress(acked, echoed, now)
        if syndrome == Syndrome.NAK_PSN_SEQUENCE and self.next_psn > acked:
            self._on_event(self, "nak", acked, now)
            self._lost(now)

    def _progress(self, acked: int, echoed: bytes | None, now: int) -> None:
        acked_bytes = (acked - self.una) * self._mtu
        self.una = acked
        if self.next_psn < acked:  # acknowledged while going back
            self.next_psn = acked
            while self._to_send and self._to_send[0].end_psn <= acked:
                self._to_send.popleft()
        rtt = None
        probes = self._probes
        while probes and probes[0][0] < acked:
            rtt = now - probes.popleft()[1]
        self._retries = 0
        self._rto = self._transport.rto_ns
        if acked < self.next_psn:
            self._restart_timer(now)
        else:
            self._deadline = self._unanswered = 0
        self.congestion.advance(now=now)
        self.congestion.on_ack(
            now=now,
            acked_bytes=acked_bytes,
            acked_psn=acked,
            next_psn=self.next_psn,
            rtt_ns=rtt,
            telemetry=telemetry.hops(echoed) if echoed is not None else (),
        )
        unacked = self._unacked
        while unacked and unacked[0].end_psn <= acked:
            work = unacked.popleft()
            work.ended = now
            self._bytes_done += work.bytes
            self._on_done(self, work, now)

    def _lost(self, now: int) -> None:
        if self.reps is not None:
            self.reps.on_failure(now)
        self.congestion.on_loss(now=now)
        self._go_back(now)

    def _go_back(self, now: int) -> None:
        self.next_psn = self.una
        self._unanswered = 0
        self._to_send = deque(work for work in self._unacked if work.end_psn > self.una)
        self._probes.clear()  # Karn: a packet sent twice gives no sample
        self._deadline = 0

    def on_cnp(self, now: int) -> None:
        """The receiver reports congestion."""
        self.cnps += 1
        self.congestion.on_cnp(now=now)

    # -- timer and failure

    def _restart_timer(self, now: int) -> None:
        self._deadline = now + self._rto
        if not self._armed:
            self._armed = True
            self._arm(self, self._deadline)

    def on_timer(self, now: int) -> None:
        """The armed time has come; the deadline may have moved since."""
        self._armed = False
        if not self._deadline or self.failed or self.stopped:
            return
        if self._deadline > now:
            self._armed = True
            self._arm(self, self._deadline)
            return
        if self._retries >= self._transport.retry_limit:
            self._fail("retry_exceeded", now)
            return
        self._retries += 1
        self._rto = round(self._rto * self._transport.rto_backoff)
        self._on_event(self, "timeout", self.una, now)
        self._lost(now)

    def take_failed(self) -> tuple[SendWork, ...]:
        """The messages that the error state has cut off, each once."""
        works = tuple(self._unacked)
        self._unacked.clear()
        self._to_send.clear()
        return works

    def _fail(self, reason: str, now: int) -> None:
        self.failed = reason
        self._deadline = 0
        self._to_send.clear()
        self._on_event(self, reason, self.una, now)
