"""The NIC: queue pairs, congestion control, PFC and one link, as a node of `docs/architecture.md`.

Theory of operation. The NIC has a past and a future. Everything that happened by `now` (timers, starts of
transmissions) is worked through in time order by `_advance` before anything new is let in, so that a late driver
changes no result: a frame that could have left at t has left at t. Frames on their way are handed out by `poll` when
their last bit is at the far end. As frames arrive in the order of their starts, the next deadline is the first
arrival; only when nothing is on its way is it the next start or timer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol

from switch.link import MIN_FRAME_BYTES, PFC_QUANTUM_BITS, PS_PER_S, wire_bytes
from traffic.errors import TrafficError
from traffic.nic.config import NicConfig, QueuePairConfig
from traffic.nic.congestion import CongestionControl, algorithm, make_parameters, scaled
from traffic.nic.egress import NEVER, PFC_CLASS, Egress
from traffic.nic.receive_buffer import ReceiveBuffer
from traffic.nic.reps import Reps
from traffic.nic.requester import Requester, SendWork
from traffic.nic.responder import SHAPES, Responder, read_aeth
from traffic.wire import pfc, telemetry
from traffic.wire.headers import CE, ETHERTYPE_MAC_CONTROL, Opcode
from traffic.wire.parse import FrameReader

PORT = 0
_MAC_CONTROL = ETHERTYPE_MAC_CONTROL.to_bytes(2, "big")
_ACKNOWLEDGE = int(Opcode.ACKNOWLEDGE)
_CNP = int(Opcode.CNP)
NO_CLASS = -1
LONGEST_FRAME_BYTES = 16_384
"""`XF_MAX_FRAME` of the native engine; nothing longer is a frame."""


class Recorder(Protocol):
    """Takes a record (docs/records.md)."""

    def __call__(self, kind: str, t: int, **fields: Any) -> None: ...


class Flow(Protocol):
    """One direction of a queue pair of a NIC."""

    config: QueuePairConfig


def discard(kind: str, t: int, **fields: Any) -> None:
    """A recorder that keeps nothing."""


@dataclass(eq=False, slots=True)
class QueuePair:
    """Both directions of a connection."""

    config: QueuePairConfig
    requester: Requester
    responder: Responder
    remote_ip: bytes


class Nic:
    """One NIC with one port, number 0. All times are ns of the driving clock.

    `on_sent(qpn, work, now)`: a message was acknowledged. `on_received(qpn, immediate, bytes, now)`: one arrived.
    `on_failed(qpn, work, reason, now)`: one will never be. They may call `post`.
    """

    def __init__(
        self,
        config: NicConfig,
        *,
        record: Recorder = discard,
        on_sent: Callable[[int, SendWork, int], None] | None = None,
        on_received: Callable[[int, int | None, int, int], None] | None = None,
        on_failed: Callable[[int, SendWork, str, int], None] | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        scale = config.time_scale
        self.rate_bps = max(1, round(config.rate_bps / scale))
        self.egress = Egress(self.rate_bps, round(config.delay_ns * scale))
        self.rx_packets = 0
        self.rx_bytes = 0
        self.drops: dict[tuple[int, str], list[int]] = {}
        """(class, reason) -> [packets, bytes]; class -1 where it is not known."""
        self.ignored_packets = 0
        """Frames of other protocols, which are the host's and not the NIC's."""
        self.pauses_received = [0] * 8
        """XOFF frames obeyed, by class."""
        self.pauses_sent = [0] * 8
        self.queue_pairs: dict[int, QueuePair] = {}
        self._paused_ps = [0] * 8
        self._paused_from_ps = [0] * 8
        self._record = record
        self._on_sent = on_sent
        self._on_received = on_received
        self._on_failed = on_failed
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._sequence = 0
        self._mac = bytes.fromhex(config.mac.replace(":", ""))
        self._reader = FrameReader(ipaddress.ip_address(config.ip).packed)
        self._pfc_classes = frozenset(config.pfc_classes)
        self._buffer: ReceiveBuffer | None = None
        if config.receiver.drain_bps:
            self._buffer = ReceiveBuffer(
                config.receiver,
                drain_bps=max(1, round(config.receiver.drain_bps / scale)),
                repeat_ns=partial(self._repeat_ns, config.receiver.pause_quanta),
                pfc_classes=config.pfc_classes,
                send_pause=self._send_pause,
                arm=self.at,
                deliver=self._deliver,
            )
        self._connect()

    def _connect(self) -> None:
        config = self.config
        scale = config.time_scale
        prototype = bytes.fromhex(config.frame)
        transport = replace(
            config.transport,
            rto_ns=round(config.transport.rto_ns * scale),
            reorder_ns=round(config.transport.reorder_ns * scale),
        )
        cc = algorithm(config.congestion.name)
        parameters = scaled(cc, make_parameters(config.congestion), scale)
        base_rtt = round(config.congestion.base_rtt_ns * scale)
        cnp_interval = None if config.cnp_interval_ns is None else round(config.cnp_interval_ns * scale)
        payload = bytes(i & 0xFF for i in range(config.mtu))
        shim = telemetry.headers(config.domain_id) if config.telemetry else b""
        for pair in config.queue_pairs:
            if pair.qpn in self.queue_pairs:
                raise TrafficError(f"{self.name}: queue pair {pair.qpn} is configured twice.")
            self.queue_pairs[pair.qpn] = QueuePair(
                pair,
                Requester(
                    pair,
                    prototype=prototype,
                    mtu=config.mtu,
                    transport=transport,
                    congestion=cc(
                        line_rate_bps=self.rate_bps,
                        mtu=config.mtu,
                        base_rtt_ns=base_rtt,
                        parameters=parameters,
                    ),
                    reps=self._reps(pair),
                    echo=config.echo,
                    line_rate_bps=self.rate_bps,
                    payload=payload,
                    shim=shim,
                    on_done=self._sent,
                    on_event=self._event,
                    arm=self._arm_requester,
                ),
                Responder(
                    pair,
                    prototype=prototype,
                    mtu=config.mtu,
                    transport=transport,
                    cnp_interval_ns=cnp_interval,
                    cnp_class=config.cnp_class,
                    echo=config.echo,
                    on_received=self._received,
                    send=self.egress.send,
                ),
                ipaddress.ip_address(pair.remote_ip).packed,
            )

    def _reps(self, pair: QueuePairConfig) -> Reps | None:
        config = self.config.reps
        if config is None:
            return None
        freezing_ns = round(config.freezing_ns * self.config.time_scale)
        return Reps(config, freezing_ns=freezing_ns, seed=pair.send_psn << 16 | pair.udp_source_port)

    # -- the node

    def rx(self, port: int, frame: bytes, now: int) -> None:
        """A frame's last bit arrived at `now`. Nothing that arrives raises: what is no good is counted."""
        self._advance(now)
        self.rx_packets += 1
        self.rx_bytes += wire_bytes(len(frame))
        if len(frame) > LONGEST_FRAME_BYTES:
            self._drop("malformed", frame)
        elif frame[12:14] == _MAC_CONTROL:
            self._mac_control(frame, now)
        elif self._buffer is None:
            self._deliver(frame, now)
        else:
            traffic_class = class_of(frame)
            if not self._buffer.push(traffic_class, frame, now):
                self._drop("receive_buffer", frame, traffic_class)

    def catch_up(self, now: int, limit: int) -> None:
        """Before a late `rx` or `poll`: make good at most the last `limit` ns; what was due before starts late.

        For drivers on the wall clock, whose process may be kept from running (docs/architecture.md).
        """
        self.egress.skip((now - limit) * 1000)

    def poll(self, now: int) -> Sequence[tuple[int, bytes]]:
        """Frames whose last bit has reached the far end by `now`, in time order."""
        self._advance(now)
        in_flight = self.egress.in_flight
        if not in_flight or in_flight[0][0] > now:
            return ()
        frames = [(PORT, in_flight.popleft()[1])]
        while in_flight and in_flight[0][0] <= now:
            frames.append((PORT, in_flight.popleft()[1]))
        return frames

    def next_deadline(self) -> int | None:
        """When to poll next; None while nothing is pending."""
        egress = self.egress
        if egress.in_flight:
            return egress.in_flight[0][0]
        start = egress.next_start()
        due = (start + 999) // 1000 if start < NEVER else None
        if self._timers and (due is None or self._timers[0][0] < due):
            due = self._timers[0][0]
        return due

    def at(self, time: int, action: Callable[[int], None]) -> None:
        """Call `action(time)` when the NIC gets there."""
        self._sequence += 1
        heappush(self._timers, (time, self._sequence, action))

    def _advance(self, now: int) -> None:
        egress, timers = self.egress, self._timers
        now_ps = now * 1000
        while True:
            start = egress.next_start()
            if timers and timers[0][0] * 1000 <= start:
                due = timers[0][0]
                if due > now:
                    break
                if due * 1000 > egress.clock_ps:
                    egress.clock_ps = due * 1000
                heappop(timers)[2](due)
                continue
            if start > now_ps:
                break
            egress.start(start)
        if now_ps > egress.clock_ps:
            egress.clock_ps = now_ps

    # -- work

    def post(self, qpn: int, id: int, size: int, now: int, write: bool = True) -> None:
        """Send `size` bytes with immediate data `id` to the other end of a queue pair, from `now` on."""
        requester = self.queue_pairs[qpn].requester

        def begin(at: int) -> None:
            requester.post(id, size, at, write)
            if requester.failed:
                self._fail_all(requester, at)
            elif requester.has_next():
                self.egress.wake(requester)

        self.at(now, begin)

    def stop(self, now: int) -> None:
        """No data packet starts any more; what is received is still handled and acknowledged."""
        self._advance(now)
        for pair in self.queue_pairs.values():
            pair.requester.stopped = True
        self.egress.drop_flows()

    def set_rate(self, rate_bps: int, now: int) -> None:
        """The next frames leave at `rate_bps` (of the driving clock); a pause quantum stays what it was."""
        self._advance(now)
        self.egress.set_rate(rate_bps)

    def storm(self, traffic_class: int, quanta: int, until: int, now: int) -> None:
        """A NIC gone wrong: XOFF of a class from `now` to `until`, each repeated before half of its pause is over.

        The last one's pause runs out by itself.
        """

        def pause(at: int) -> None:
            self._send_pause(traffic_class, quanta, at)
            again = at + self._repeat_ns(quanta)
            if again < until:
                self.at(again, pause)

        self.at(now, pause)

    def paused_ns(self, now: int) -> list[int]:
        """Time that each class has been paused so far."""
        totals = []
        for c in range(8):
            running = max(0, min(now * 1000, self.egress.pause_ps[c]) - self._paused_from_ps[c])
            totals.append((self._paused_ps[c] + running) // 1000)
        return totals

    @property
    def bytes_received(self) -> int:
        """Payload that arrived in order, all queue pairs."""
        return sum(pair.responder.bytes_received for pair in self.queue_pairs.values())

    def rate_of(self, flow: Flow, now: int) -> float:
        """Current rate of a flow in fabric bit/s."""
        congestion: CongestionControl = self.queue_pairs[flow.config.qpn].requester.congestion
        congestion.advance(now=now)
        return congestion.rate_bps * self.config.time_scale

    # -- receiving

    def _drop(self, reason: str, frame: bytes, traffic_class: int = NO_CLASS) -> None:
        count = self.drops.setdefault((traffic_class, reason), [0, 0])
        count[0] += 1
        count[1] += len(frame)

    def _deliver(self, frame: bytes, now: int) -> None:
        packet = self._reader
        if not packet.read(frame):
            if packet.reason == "not_roce":
                self.ignored_packets += 1
            else:
                self._drop(packet.reason, frame)
            return
        pair = self.queue_pairs.get(packet.dqpn)
        if pair is None or pair.remote_ip != packet.source_ip:
            self._drop("unknown_qp", frame)
            return
        opcode = packet.opcode
        if opcode in SHAPES:
            responder = pair.responder
            if packet.ecn == CE and responder.on_congestion(now):
                self._record("cnp", now, node=self.name, qp=pair.config.qpn, dir="tx")
            reason = responder.on_data(packet, now)
            if reason:
                self._drop(reason, frame, pair.config.traffic_class)
        elif opcode == _ACKNOWLEDGE:
            aeth = read_aeth(packet)
            if aeth is None:
                self._drop("malformed", frame)
                return
            requester = pair.requester
            requester.on_acknowledge(
                packet.psn, aeth[0], packet.telemetry, now, entropy=packet.source_port, marked=packet.becn > 0
            )
            if not requester.scheduled and requester.has_next():
                self.egress.wake(requester)
        elif opcode == _CNP:
            pair.requester.on_cnp(now)
            self._record("cnp", now, node=self.name, qp=pair.config.qpn, dir="rx")
        else:
            self._drop("unsupported_opcode", frame)

    # -- PFC

    def _mac_control(self, frame: bytes, now: int) -> None:
        pauses = pfc.parse(frame)
        if pauses is None:
            self._drop("malformed" if len(frame) < 60 else "mac_control", frame)
            return
        for traffic_class, quanta in pauses:
            if traffic_class in self._pfc_classes:
                self._pause(traffic_class, quanta, now)
            else:
                self._drop("pfc_class", frame, traffic_class)

    def _pause(self, traffic_class: int, quanta: int, now: int) -> None:
        egress = self.egress
        now_ps = now * 1000
        before = egress.pause_ps[traffic_class]
        if quanta == 0 and before <= now_ps:
            return
        self._paused_ps[traffic_class] += max(0, min(now_ps, before) - self._paused_from_ps[traffic_class])
        self._paused_from_ps[traffic_class] = now_ps
        until = now_ps + quanta * PFC_QUANTUM_BITS * PS_PER_S // self.rate_bps
        egress.pause(traffic_class, until)
        self.pauses_received[traffic_class] += quanta > 0
        self._record(
            "pause",
            now,
            node=self.name,
            port=PORT,
            until=(until + 999) // 1000 if quanta else 0,
            **{"class": traffic_class},
        )

    def _repeat_ns(self, quanta: int) -> int:
        """When to repeat an XOFF: when half of its pause is over, but not before it has left, or they would pile up."""
        half = quanta * PFC_QUANTUM_BITS * 10**9 // self.rate_bps // 2
        return max(half, (self.egress.wire_ps(MIN_FRAME_BYTES) + 999) // 1000)

    def _send_pause(self, traffic_class: int, quanta: int, now: int) -> None:
        self.egress.send(PFC_CLASS, pfc.build(self._mac, {traffic_class: quanta}))
        self.pauses_sent[traffic_class] += quanta > 0
        self._record("pause_sent", now, node=self.name, port=PORT, quanta=quanta, **{"class": traffic_class})

    # -- queue pairs

    def _arm_requester(self, requester: Requester, at: int) -> None:
        def expire(now: int) -> None:
            requester.on_timer(now)
            if not requester.scheduled and requester.has_next():
                self.egress.wake(requester)

        self.at(at, expire)

    def _sent(self, requester: Requester, work: SendWork, now: int) -> None:
        if self._on_sent is not None:
            self._on_sent(requester.config.qpn, work, now)

    def _received(self, responder: Responder, immediate: int | None, size: int, now: int) -> None:
        if self._on_received is not None:
            self._on_received(responder.config.qpn, immediate, size, now)

    def _event(self, requester: Requester, cause: str, psn: int, now: int) -> None:
        if cause in ("nak", "timeout"):
            self._record(
                "retransmit", now, node=self.name, qp=requester.config.qpn, psn=psn & 0xFFFFFF, cause=cause
            )
        else:
            self._fail_all(requester, now)

    def _fail_all(self, requester: Requester, now: int) -> None:
        for work in requester.take_failed():
            if self._on_failed is not None:
                self._on_failed(requester.config.qpn, work, requester.failed, now)


def class_of(frame: bytes) -> int:
    """Traffic class of an untagged IP frame by its DSCP; 0 for anything else."""
    if len(frame) < 16:
        return 0
    if frame[12:14] == b"\x08\x00":
        return frame[15] >> 5
    if frame[12:14] == b"\x86\xdd":
        return frame[14] >> 1 & 7
    return 0
