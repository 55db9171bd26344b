"""A NIC and the part of the workload that its host sends: posts each message when what it waits for has happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from switch.native.fabric import Fabric
from traffic.build import EndpointConfig, SendConfig
from traffic.nic.native.nic import NativeNic, NativePair
from traffic.nic.nic import Nic, QueuePair, Recorder, discard
from traffic.nic.requester import SendWork
from traffic.wire import telemetry


class Endpoint:
    """A node (`rx`, `poll`, `next_deadline`) that runs its messages once `start` has been called.

    All times are ns of the driving clock; records carry them as they are.
    """

    def __init__(
        self,
        config: EndpointConfig,
        *,
        record: Recorder = discard,
        make_nic: Callable[..., Nic | NativeNic] = Nic,
    ) -> None:
        """`make_nic` is `Nic` or a `NicGroup.nic`, which is the same NIC in C."""
        self.config = config
        self.name = config.nic.name
        self.nic = make_nic(
            config.nic,
            record=record,
            on_sent=self._on_sent,
            on_received=self._on_received,
            on_failed=self._on_failed,
        )
        self.sent = 0
        """Messages acknowledged."""
        self.received = 0
        self.failed: dict[int, str] = {}
        """Reason by message id."""
        self.last_received_ns = -1
        self._record = record
        self._epoch = 0
        self._sends = {send.id: send for send in config.sends}
        self._waiting = {s.id: len(s.after_received) + len(s.after_sent) for s in config.sends}
        self._after_received: dict[int, list[SendConfig]] = {}
        self._after_sent: dict[int, list[SendConfig]] = {}
        for send in config.sends:
            for id in send.after_received:
                self._after_received.setdefault(id, []).append(send)
            for id in send.after_sent:
                self._after_sent.setdefault(id, []).append(send)
        self._frozen = False
        self._held: list[SendConfig] = []
        """What became ready to be sent while the host was paused."""
        self._results: list[dict[str, Any]] = []
        self._received_at: dict[int, int] = {}
        self.rx = self.nic.rx
        self.next_deadline = self.nic.next_deadline

    def join(self, fabric: Fabric) -> int:
        """Become a node of a fabric in C; returns its number there."""
        return self.nic.join(fabric) if isinstance(self.nic, NativeNic) else fabric.add_python(self)

    def poll(self, now: int) -> Sequence[tuple[int, bytes]]:
        """See `traffic.nic.nic.Nic.poll`."""
        return self.nic.poll(now)

    # -- the run

    def start(self, epoch: int) -> None:
        """The workload's time zero; may lie ahead."""
        self._epoch = epoch
        for send in self.config.sends:
            if not self._waiting[send.id]:
                self._post(send, epoch)

    def stop(self, now: int) -> None:
        """Send no more data; keep receiving and acknowledging."""
        self.nic.stop(now)

    def pause(self) -> None:
        """The host's software stops: nothing new is posted. Its NIC goes on with what it was given."""
        self._frozen = True

    def resume(self, now: int) -> None:
        """What waited is posted now, in the order in which it became ready."""
        self._frozen = False
        held, self._held = self._held, []
        for send in held:
            self._post(send, now)

    def storm(self, traffic_class: int, quanta: int, duration_ns: int, now: int) -> None:
        """See `Nic.storm`; the duration is in fabric ns."""
        until = now + round(duration_ns * self.config.nic.time_scale)
        self.nic.storm(traffic_class, quanta, until, now)

    def set_rate(self, rate_bps: int, now: int) -> None:
        """The host's link sends at `rate_bps`, fabric bit/s."""
        self.nic.set_rate(max(1, round(rate_bps / self.config.nic.time_scale)), now)

    @property
    def finished(self) -> bool:
        """Every message of this host has been acknowledged and every one for it has arrived."""
        return self.sent == len(self._sends) and self.received == self.config.receives

    def _post(self, send: SendConfig, now: int) -> None:
        if self._frozen:
            self._held.append(send)
            return
        earliest = self._epoch + round(send.start_ns * self.config.nic.time_scale)
        self.nic.post(send.qpn, send.id, send.bytes, max(now, earliest))

    def _release(self, followers: list[SendConfig] | None, now: int) -> None:
        for send in followers or ():
            self._waiting[send.id] -= 1
            if not self._waiting[send.id]:
                self._post(send, now)

    def _on_sent(self, qpn: int, work: SendWork, now: int) -> None:
        self.sent += 1
        send = self._sends[work.id]
        pair = self.nic.queue_pairs[qpn].config
        result = {
            "id": work.id,
            "src": self.name,
            "dst": send.dst,
            "bytes": work.bytes,
            "sport": pair.udp_source_port,
            "qp": qpn,
            "post": work.posted,
            "start": work.started,
            "end": now,
            "retransmitted": work.retransmitted,
        }
        self._results.append(result)
        self._record("message", now, node=self.name, **result)
        self._release(self._after_sent.pop(work.id, None), now)

    def _on_received(self, qpn: int, immediate: int | None, size: int, now: int) -> None:
        self.received += 1
        self.last_received_ns = now
        if immediate is not None:
            self._received_at[immediate] = now
            self._record("received", now, node=self.name, id=immediate, bytes=size)
            self._release(self._after_received.pop(immediate, None), now)

    def _on_failed(self, qpn: int, work: SendWork, reason: str, now: int) -> None:
        self.failed[work.id] = reason
        send = self._sends[work.id]
        self._record("failed", now, node=self.name, id=work.id, src=self.name, dst=send.dst, reason=reason)

    # -- what happened

    def sample(self, now: int) -> None:
        """Write `port` and `drop` records, and per queue pair a `flow` record if it sends, an `int` if it got INT."""
        nic = self.nic
        self._record(
            "port",
            now,
            node=self.name,
            port=0,
            tx_bytes=nic.egress.tx_bytes,
            tx_packets=nic.egress.tx_packets,
            rx_bytes=nic.rx_bytes,
            rx_packets=nic.rx_packets,
        )
        for (traffic_class, reason), (packets, size) in sorted(nic.drops.items()):
            self._record(
                "drop",
                now,
                node=self.name,
                port=0,
                reason=reason,
                packets=packets,
                bytes=size,
                **{"class": traffic_class},
            )
        for pair in nic.queue_pairs.values():
            requester = pair.requester
            if requester.outstanding:
                self._record(
                    "flow",
                    now,
                    node=self.name,
                    dst=pair.config.remote,
                    qp=pair.config.qpn,
                    sent=requester.bytes_sent,
                    acked=requester.bytes_acked,
                    rate=round(nic.rate_of(requester, now)),
                )
            self._sample_telemetry(pair, now)

    def _sample_telemetry(self, pair: QueuePair | NativePair, now: int) -> None:
        """An `int` record of the last packet that came with telemetry since the last sample."""
        data, pair.responder.new_telemetry = pair.responder.new_telemetry, None
        if data is None:
            return
        hops = [
            {
                "node_id": hop.node_id,
                "queue": pair.config.traffic_class,
                "queue_bytes": hop.queue_bytes,
                "out_ts": hop.timestamp_ns,
                "tx_bytes": hop.tx_bytes,
                "rate_bps": hop.rate_bps,
            }
            for hop in telemetry.hops(data)
        ]
        self._record(
            "int",
            now,
            node=self.name,
            src=pair.config.remote,
            dst=self.name,
            sport=pair.config.remote_source_port,
            hops=hops,
        )

    def progress(self) -> dict[str, int]:
        """Counts for a progress display: messages and payload bytes."""
        return {
            "sent": self.sent,
            "received": self.received,
            "failed": len(self.failed),
            "bytes_received": self.nic.bytes_received,
        }

    def summary(self, now: int) -> dict[str, Any]:
        """Everything that was counted; times in ns of the driving clock, -1 where there is none."""
        nic = self.nic
        requesters = [pair.requester for pair in nic.queue_pairs.values()]
        responders = [pair.responder for pair in nic.queue_pairs.values()]
        drops: dict[str, int] = {}
        for (_, reason), (packets, _) in sorted(nic.drops.items()):
            drops[reason] = drops.get(reason, 0) + packets
        return {
            "host": self.name,
            "messages": self._results,
            "received": {str(id): at for id, at in self._received_at.items()},
            "failed": {str(id): reason for id, reason in self.failed.items()},
            "unsent": len(self._sends) - self.sent - len(self.failed),
            "unreceived": self.config.receives - self.received,
            "last_received": self.last_received_ns,
            "bytes_sent": sum(r.bytes_sent for r in requesters),
            "bytes_received": sum(r.bytes_received for r in responders),
            "retransmitted": sum(r.retransmitted for r in requesters),
            "naks_sent": sum(r.naks for r in responders),
            "duplicates": sum(r.duplicates for r in responders),
            "cnps_sent": sum(r.cnps for r in responders),
            "cnps_received": sum(r.cnps for r in requesters),
            "pauses_received": nic.pauses_received,
            "pauses_sent": nic.pauses_sent,
            "paused_ns": nic.paused_ns(now),
            "tx_packets": nic.egress.tx_packets,
            "tx_bytes": nic.egress.tx_bytes,
            "rx_packets": nic.rx_packets,
            "rx_bytes": nic.rx_bytes,
            "icrc_errors": drops.get("icrc", 0),
            "drops": drops,
            "ignored": nic.ignored_packets,
        }
