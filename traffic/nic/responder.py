"""The receiving half of an RC queue pair: order, duplicates, gaps, acknowledgements.

Rules. `expected` is the next packet in order, a whole number like the requester's. A packet before it is a duplicate
and is acknowledged again. A packet after it opens a gap: without a reorder window it is dropped and the gap is answered
by one NAK, which is not repeated until the expected packet has come (IB specification 9.7.5.1.3); with one, it is
kept, and the NAK is sent when the window is exceeded or the gap has lasted too long.
With `echo` (REPS) every packet, whether expected, early or a duplicate, is answered by an ACK or NAK of its own that
has the packet's UDP source port, and BECN set when the packet had CE.
Payload is not stored: what counts is that every byte came once, in a message of the announced length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from traffic.nic.config import QueuePairConfig, TransportConfig
from traffic.wire.headers import (
    AETH_BYTES,
    CE,
    IMMDT_BYTES,
    NOT_ECT,
    PSN_MASK,
    RETH_BYTES,
    Opcode,
    Syndrome,
    psn_distance,
)
from traffic.wire.parse import FrameReader
from traffic.wire.template import BE32, RETH, FlowTemplate

ANY_LENGTH = -1


class _Shape(NamedTuple):
    """What an opcode says about its packet."""

    first: bool
    last: bool
    write: bool
    immediate: bool
    header_bytes: int


def _shape(opcode: Opcode) -> _Shape:
    name = opcode.name
    first = name.endswith(("FIRST", "ONLY", "ONLY_IMM"))
    last = not name.endswith(("FIRST", "MIDDLE"))
    write = name.startswith("WRITE")
    immediate = name.endswith("IMM")
    return _Shape(
        first, last, write, immediate, (RETH_BYTES if write and first else 0) + IMMDT_BYTES * immediate
    )


SHAPES = {int(op): _shape(op) for op in Opcode if op <= Opcode.WRITE_ONLY_IMM}
"""Of the opcodes that carry SEND and RDMA WRITE data."""
_WRITE_MIDDLE = int(Opcode.WRITE_MIDDLE)


class _Early(NamedTuple):
    shape: _Shape
    size: int
    announced: int
    immediate: int | None
    ack_request: int


class Responder:
    """One direction of one queue pair."""

    def __init__(
        self,
        config: QueuePairConfig,
        *,
        prototype: bytes,
        mtu: int,
        transport: TransportConfig,
        cnp_interval_ns: int | None,
        cnp_class: int,
        echo: bool,
        on_received: Callable[[Responder, int | None, int, int], None],
        send: Callable[[int, bytes | Callable[[int], bytes]], None],
    ) -> None:
        """`transport` and `cnp_interval_ns` are on the driving clock. `echo`: an ACK for every packet, for REPS.

        `on_received(self, immediate, bytes, now)`: a message is complete. `send(class, frame)` queues a frame or
        a function that makes it when its turn comes.
        """
        self.config = config
        self.expected = config.receive_psn
        self.msn = 0
        """Messages completed."""
        self.failed = False
        self.bytes_received = 0
        self.duplicates = 0
        self.out_of_order = 0
        self.naks = 0
        self.cnps = 0
        self.early_peak = 0
        self.last_telemetry: bytes | None = None
        self.new_telemetry: bytes | None = None
        """The same, for whoever samples it and sets it back to None."""
        self._mtu = mtu
        self._window = transport.reorder_window
        self._reorder_ns = transport.reorder_ns
        self._early: dict[int, _Early] = {}
        self._gap_since = -1
        self._nak_sent = False
        self._nak_due: int | None = None
        self._response_queued = False
        self._in_message = False
        self._writing = False
        self._announced = ANY_LENGTH
        self._received = 0
        self._cnp_interval = cnp_interval_ns
        self._cnp_class = cnp_class
        self._echo = echo
        self._next_cnp = 0
        self._template = self._flow(prototype, config.traffic_class)
        self._cnp_frame = self._flow(prototype, cnp_class).cnp()
        self._on_received = on_received
        self._send = send

    def _flow(self, prototype: bytes, traffic_class: int) -> FlowTemplate:
        config = self.config
        return FlowTemplate(
            prototype,
            remote_ip=config.remote_ip,
            remote_qpn=config.remote_qpn,
            source_port=config.udp_source_port,
            dscp=traffic_class << 3,
            ecn=NOT_ECT,
        )

    # -- notification point

    def on_congestion(self, now: int) -> bool:
        """A packet of this queue pair came with CE set; True when it is answered with a CNP now."""
        if self._cnp_interval is None or now < self._next_cnp:
            return False
        self._next_cnp = now + self._cnp_interval
        self.cnps += 1
        self._send(self._cnp_class, self._cnp_frame)
        return True

    # -- data

    def on_data(self, packet: FrameReader, now: int) -> str:
        """A data packet whose checksums hold; returns why it was dropped, or an empty string."""
        reason = self._take(packet, now)
        if self._echo and reason not in ("qp_error", "malformed"):
            entropy, marked = packet.source_port, packet.ecn == CE
            self._send(
                self.config.traffic_class, partial(self._make_response, entropy=entropy, marked=marked)
            )
        return reason

    def _take(self, packet: FrameReader, now: int) -> str:
        if self.failed:
            return "qp_error"
        if packet.telemetry is not None:
            self.last_telemetry = self.new_telemetry = packet.telemetry
        distance = psn_distance(packet.psn, self.expected)
        if distance < 0 or (self._early and self.expected + distance in self._early):
            self.duplicates += 1
            if distance < 0:
                self._respond()
            return "duplicate"
        opcode = packet.opcode
        shape = SHAPES[opcode]
        size = packet.end - packet.body - shape.header_bytes
        announced = ANY_LENGTH
        immediate = None
        if opcode != _WRITE_MIDDLE:
            if size < 0:
                return "malformed"
            offset = packet.body
            if shape.write and shape.first:
                announced = RETH.unpack_from(packet.frame, offset)[2]
                offset += RETH_BYTES
            if shape.immediate:
                immediate = BE32.unpack_from(packet.frame, offset)[0]
        if distance == 0:
            fault = self._accept(shape, size, announced, immediate, now)
            if fault:
                return fault
            ack_request = packet.ack_request
            if self._early or self._gap_since >= 0:
                ack_request |= self._close_gap(now)
            if self.failed:
                return "invalid_request"
            if ack_request:
                self._respond()
            return ""
        self.out_of_order += 1
        return self._open_gap(distance, _Early(shape, size, announced, immediate, packet.ack_request), now)

    def _open_gap(self, distance: int, early: _Early, now: int) -> str:
        if self._gap_since < 0:
            self._gap_since = now
        kept = distance <= self._window
        if kept:
            self._early[self.expected + distance] = early
            self.early_peak = max(self.early_peak, len(self._early))
        if not self._nak_sent and (not kept or now - self._gap_since > self._reorder_ns):
            self._nak_sent = True
            self.naks += 1
            self._nak_due = Syndrome.NAK_PSN_SEQUENCE
            self._respond()
        return "" if kept else "out_of_order"

    def _close_gap(self, now: int) -> int:
        """Take the kept packets that are in order now; whether one of them asked for an ACK."""
        self._nak_sent = False
        self._nak_due = None
        ack_request = 0
        early = self._early
        while (item := early.pop(self.expected, None)) is not None:
            if self._accept(item.shape, item.size, item.announced, item.immediate, now):
                break
            ack_request |= item.ack_request
        self._gap_since = now if early else -1
        return ack_request

    def _accept(self, shape: _Shape, size: int, announced: int, immediate: int | None, now: int) -> str:
        """The next packet in order; `invalid_request` (and the error state) when it does not fit the message."""
        if shape.first:
            fits = not self._in_message
            self._in_message = True
            self._writing = shape.write
            self._announced = announced
            self._received = 0
        else:
            fits = self._in_message and self._writing == shape.write
        self._received += size
        if shape.last:
            fits = fits and size <= self._mtu and self._announced in (ANY_LENGTH, self._received)
        else:
            fits = fits and size == self._mtu
        if not fits:
            self.failed = True
            self._nak_due = Syndrome.NAK_INVALID_REQUEST
            self._respond()
            return "invalid_request"
        self.expected += 1
        self.bytes_received += size
        if shape.last:
            self._in_message = False
            self.msn += 1
            self._on_received(self, immediate, self._received, now)
        return ""

    # -- acknowledgements

    def _respond(self) -> None:
        """Answer with the next turn on the link; with `echo` the packet's own answer says it."""
        if not self._response_queued and not self._echo:
            self._response_queued = True
            self._send(self.config.traffic_class, self._make_response)

    def _make_response(self, now: int, *, entropy: int = 0, marked: bool = False) -> bytes:
        """The ACK or NAK, made when its turn on the link has come, so that it says all that has arrived by then."""
        self._response_queued = False
        shim = b""
        if self.last_telemetry is not None:
            shim = echo_of(self.last_telemetry)
        if self._nak_due is not None:
            syndrome, self._nak_due = self._nak_due, None
            psn = self.expected
        else:
            syndrome, psn = Syndrome.ACK_UNLIMITED, self.expected - 1
        return self._template.acknowledge(
            psn & PSN_MASK, syndrome, self.msn & PSN_MASK, shim, source_port=entropy, becn=marked
        )


def echo_of(shim: bytes) -> bytes:
    """Received INT headers as an ACK returns them: no hop remaining, so that no switch adds another."""
    return shim[:7] + b"\0" + shim[8:]


def read_aeth(packet: FrameReader) -> tuple[int, int] | None:
    """(syndrome, MSN) of an ACK; None when it is too short."""
    if packet.end - packet.body < AETH_BYTES:
        return None
    word: int = BE32.unpack_from(packet.frame, packet.body)[0]
    return word >> 24, word & PSN_MASK
