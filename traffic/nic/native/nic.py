"""The binding of the NIC in C: `NativeNic` stands where a `traffic.nic.nic.Nic` can stand.

A `NicGroup` makes NICs whose records come out in the order of what happened, whichever NIC wrote them. Completions call
Python at once; records are kept in C and come out before the next completion, or when a call or run has returned.
"""

from __future__ import annotations

import ctypes
import ipaddress
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any

from switch.native.fabric import Fabric
from traffic.errors import TrafficError
from traffic.nic.config import NicConfig, QueuePairConfig
from traffic.nic.congestion import algorithm, make_parameters, scaled
from traffic.nic.native import abi
from traffic.nic.nic import PORT, Flow, Recorder, discard
from traffic.nic.requester import SendWork
from traffic.wire import telemetry

if TYPE_CHECKING:
    from ctypes import _Pointer

PARAMETERS = {
    "none": (),
    "dcqcn": (
        "alpha_interval_ns",
        "increase_interval_ns",
        "decrease_interval_ns",
        "increase_bytes",
        "fast_recovery_rounds",
        "g",
        "rai_bps",
        "rhai_bps",
        "rai_share",
        "rhai_share",
        "min_rate_bps",
        "initial_alpha",
        "clamp_target",
        "hyper_grows",
        "order",
    ),
    "hpcc": ("eta", "max_stage", "rai_bps", "rai_share", "min_rate_bps"),
    "mprdma": (
        "initial_bdp",
        "max_bdp",
        "increase_packets",
        "decrease_packets",
        "loss_packets",
        "min_packets",
    ),
}
"""What the init functions in congestion.c, hpcc.c and mprdma.c take, in their order."""


def supports(config: NicConfig) -> bool:
    """Whether this NIC exists in C: its congestion control may be one that is written in Python alone."""
    return config.congestion.name in abi.CONGESTION


class NicGroup:
    """NICs with one order of records."""

    def __init__(self) -> None:
        self._lib = abi.library()
        self._notify = abi.NOTIFY(self._on_notice)
        handle = self._lib.xn_group_new(self._notify)
        if not handle:
            raise MemoryError("could not make a group of NICs")
        self.handle: int = handle
        self.fabric: Fabric | None = None
        self._error: BaseException | None = None
        self._members: dict[int, NativeNic] = {}
        self._events = (abi.Event * abi.EVENTS)()
        self._finalizer = weakref.finalize(self, self._lib.xn_group_free, handle)
        self._finalizer.atexit = False

    def nic(
        self,
        config: NicConfig,
        *,
        record: Recorder = discard,
        on_sent: Callable[[int, SendWork, int], None] | None = None,
        on_received: Callable[[int, int | None, int, int], None] | None = None,
        on_failed: Callable[[int, SendWork, str, int], None] | None = None,
    ) -> NativeNic:
        """A new member; the arguments are those of `traffic.nic.nic.Nic`."""
        nic = NativeNic(self, config, record, on_sent, on_received, on_failed)
        self._members[nic.number] = nic
        return nic

    def attach(self, fabric: Fabric) -> None:
        """The members are nodes of this fabric."""
        if self.fabric is None:
            self.fabric = fabric
            fabric.after_run.append(self.drain)
            self._lib.xn_group_entered(self.handle, fabric.entered, fabric.handle)
        elif self.fabric is not fabric:
            raise TrafficError("NICs of one group belong to one fabric.")

    def drain(self) -> None:
        """Hand out the records that C has kept."""
        events = self._events
        while count := self._lib.xn_events_take(self.handle, events, abi.EVENTS):
            for i in range(count):
                event = events[i]
                self._members[event.nic].write(event)

    def finish(self) -> None:
        """After a call into C from outside of a run: records, and what a callback raised."""
        self.drain()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _on_notice(self, pointer: _Pointer[abi.Message]) -> None:
        try:
            self.drain()
            message = pointer.contents
            if message.notice != abi.EVENTS_FULL:
                self._members[message.nic].notice(message)
        except BaseException as error:
            if self.fabric is not None:
                self.fabric.fail(error)
            elif self._error is None:
                self._error = error


class _Egress:
    """The part of `traffic.nic.egress.Egress` that others look at."""

    def __init__(self, nic: NativeNic) -> None:
        self._nic = nic

    @property
    def tx_packets(self) -> int:
        """Frames whose transmission started."""
        return int(self._nic.stats().tx_packets)

    @property
    def tx_bytes(self) -> int:
        """Their wire bytes."""
        return int(self._nic.stats().tx_bytes)


class _Congestion:
    """What congestion control says, as of its last event."""

    def __init__(self, nic: NativeNic, qpn: int) -> None:
        self._nic, self._qpn = nic, qpn

    def advance(self, *, now: int) -> None:
        """Run the timers due by `now`."""
        self._nic.rate(self._qpn, now)

    @property
    def rate_bps(self) -> float:
        """Pace, bit/s of the driving clock."""
        return float(self._nic.pair_stats(self._qpn).rate_bps)

    @property
    def window_bytes(self) -> int | None:
        """Payload bytes that may be unacknowledged."""
        window = int(self._nic.pair_stats(self._qpn).window)
        return None if window < 0 else window

    @property
    def alpha(self) -> float:
        """DCQCN."""
        return float(self._nic.pair_stats(self._qpn).alpha)

    @property
    def target_bps(self) -> float:
        """DCQCN."""
        return float(self._nic.pair_stats(self._qpn).target_bps)

    @property
    def utilisation(self) -> float:
        """HPCC."""
        return float(self._nic.pair_stats(self._qpn).utilisation)


class _Reps:
    """What REPS counts."""

    def __init__(self, nic: NativeNic, qpn: int) -> None:
        self._nic, self._qpn = nic, qpn

    @property
    def frozen(self) -> bool:
        """Whether it does not explore."""
        return bool(self._nic.pair_stats(self._qpn).frozen)

    def __getattr__(self, name: str) -> int:
        """`explored`, `recycled`, `freezes`."""
        return _counted(self._nic, self._qpn, name, abi.REPS)


class NativeRequester:
    """The sending half of a queue pair, read from C."""

    def __init__(self, nic: NativeNic, config: QueuePairConfig) -> None:
        self._nic = nic
        self.config = config
        self.congestion = _Congestion(nic, config.qpn)
        self.reps = None if nic.config.reps is None else _Reps(nic, config.qpn)

    @property
    def outstanding(self) -> tuple[SendWork, ...]:
        """Messages not fully acknowledged."""
        return self._nic.outstanding(self.config.qpn)

    @property
    def failed(self) -> str:
        """Why the queue pair is in the error state; empty while it works."""
        return abi.FAILURES[self._nic.pair_stats(self.config.qpn).failure]

    @property
    def cnps(self) -> int:
        """CNPs received."""
        return int(self._nic.pair_stats(self.config.qpn).cnps_received)

    def __getattr__(self, name: str) -> int:
        """`una`, `next_psn`, `sent_psn`, `retransmitted`, `bytes_sent`, `bytes_acked`, `stale_acks`, `next_ps`."""
        return _counted(self._nic, self.config.qpn, name, abi.REQUESTER)


class NativeResponder:
    """The receiving half of a queue pair, read from C."""

    def __init__(self, nic: NativeNic, config: QueuePairConfig) -> None:
        self._nic = nic
        self.config = config

    @property
    def failed(self) -> bool:
        """Whether it is in the error state."""
        return bool(self._nic.pair_stats(self.config.qpn).receiver_failed)

    @property
    def cnps(self) -> int:
        """CNPs sent."""
        return int(self._nic.pair_stats(self.config.qpn).cnps_sent)

    @property
    def last_telemetry(self) -> bytes | None:
        """INT headers of the last packet that had any."""
        return self._nic.telemetry(self.config.qpn, fresh=False)

    @property
    def new_telemetry(self) -> bytes | None:
        """The same, once for each: reading it takes it."""
        return self._nic.telemetry(self.config.qpn, fresh=True)

    @new_telemetry.setter
    def new_telemetry(self, value: None) -> None:
        """It has been taken by reading."""

    def __getattr__(self, name: str) -> int:
        """`expected`, `msn`, `bytes_received`, `duplicates`, `out_of_order`, `naks`, `early_peak`."""
        return _counted(self._nic, self.config.qpn, name, abi.RESPONDER)


def _counted(nic: NativeNic, qpn: int, name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise AttributeError(name)
    return int(getattr(nic.pair_stats(qpn), name))


class NativePair:
    """Both directions of a connection."""

    __slots__ = ("config", "requester", "responder")

    def __init__(self, nic: NativeNic, config: QueuePairConfig) -> None:
        self.config = config
        self.requester = NativeRequester(nic, config)
        self.responder = NativeResponder(nic, config)


class NativeNic:
    """One NIC; made by `NicGroup.nic`. Its interface is that of `traffic.nic.nic.Nic`."""

    def __init__(
        self,
        group: NicGroup,
        config: NicConfig,
        record: Recorder,
        on_sent: Callable[[int, SendWork, int], None] | None,
        on_received: Callable[[int, int | None, int, int], None] | None,
        on_failed: Callable[[int, SendWork, str, int], None] | None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.rate_bps = max(1, round(config.rate_bps / config.time_scale))
        self.egress = _Egress(self)
        self._group = group
        self._record = record
        self._on_sent, self._on_received, self._on_failed = on_sent, on_received, on_failed
        self._lib = abi.library()
        handle = self._lib.xn_new(group.handle, byref(native_config(config)))
        if not handle:
            raise MemoryError("could not make a NIC")
        self.handle: int = handle
        self._finalizer = weakref.finalize(self, self._lib.xn_free, handle)
        self._finalizer.atexit = False
        self.number: int = self._lib.xn_number(handle)
        self.queue_pairs: dict[int, NativePair] = {}
        for pair in config.queue_pairs:
            if pair.qpn in self.queue_pairs:
                raise TrafficError(f"{self.name}: queue pair {pair.qpn} is configured twice.")
            if self._lib.xn_add_pair(handle, byref(_native_pair(pair, config))):
                raise MemoryError("could not make a queue pair")
            self.queue_pairs[pair.qpn] = NativePair(self, pair)
        self._frames = (abi.Frame * abi.FRAMES)()
        self._stats = abi.Stats()
        self._pair_stats = abi.PairStats()

    # -- the node

    def join(self, fabric: Fabric) -> int:
        """Become a node of a fabric; returns its number there."""
        self._group.attach(fabric)
        self._lib.xn_use_pool(self.handle, fabric.pool)
        return fabric.add_native(self._lib.xn_node_type(), self.handle, self)

    def rx(self, port: int, frame: bytes, now: int) -> None:
        """A frame's last bit arrived at `now`."""
        self._lib.xn_rx(self.handle, frame, len(frame), now)
        self._group.finish()

    def poll(self, now: int) -> Sequence[tuple[int, bytes]]:
        """Frames whose last bit has reached the far end by `now`, in time order."""
        out = []
        count = abi.FRAMES
        while count == abi.FRAMES:
            count = self._lib.xn_poll(self.handle, now, self._frames, abi.FRAMES)
            out += [(PORT, ctypes.string_at(f.data, f.length)) for f in self._frames[:count]]
        self._group.finish()
        return out

    def next_deadline(self) -> int | None:
        """When to poll next; None while nothing is pending."""
        due: int = self._lib.xn_deadline(self.handle)
        return None if due == abi.NEVER else due

    # -- work

    def post(self, qpn: int, id: int, size: int, now: int, write: bool = True) -> None:
        """Send `size` bytes with immediate data `id` to the other end of a queue pair, from `now` on."""
        if not 0 <= id < 1 << 32 or not 0 <= size < 1 << 32:
            raise TrafficError(f"message {id} of {size} bytes: both must fit 32 bits (ImmDt, RETH).")
        if self._lib.xn_post(self.handle, qpn, id, size, now, write):
            raise KeyError(qpn)

    def stop(self, now: int) -> None:
        """No data packet starts any more; what is received is still handled and acknowledged."""
        self._lib.xn_stop(self.handle, now)
        self._group.finish()

    def set_rate(self, rate_bps: int, now: int) -> None:
        """The next frames leave at `rate_bps` (of the driving clock); a pause quantum stays what it was."""
        self._lib.xn_set_rate(self.handle, rate_bps, now)
        self._group.finish()

    def storm(self, traffic_class: int, quanta: int, until: int, now: int) -> None:
        """See `traffic.nic.nic.Nic.storm`."""
        self._lib.xn_storm(self.handle, traffic_class, quanta, until, now)

    def catch_up(self, now: int, limit: int) -> None:
        """See `traffic.nic.nic.Nic.catch_up`."""
        self._lib.xn_catch_up(self.handle, max(0, now - limit))

    # -- what happened

    def notice(self, message: abi.Message) -> None:
        """A message is sent, received or failed."""
        if message.notice == abi.RECEIVED:
            if self._on_received is not None:
                immediate = message.id if message.has_id else None
                self._on_received(message.qpn, immediate, message.bytes, message.now)
            return
        work = _work(message)
        if message.notice == abi.SENT:
            work.ended = message.now
            if self._on_sent is not None:
                self._on_sent(message.qpn, work, message.now)
        elif self._on_failed is not None:
            self._on_failed(message.qpn, work, abi.FAILURES[message.failure], message.now)

    def write(self, event: abi.Event) -> None:
        """One record."""
        kind, time = event.kind, event.time
        if kind == abi.CNP_SENT:
            self._record("cnp", time, node=self.name, qp=event.qpn, dir="tx")
        elif kind == abi.CNP_RECEIVED:
            self._record("cnp", time, node=self.name, qp=event.qpn, dir="rx")
        elif kind == abi.PAUSE:
            cls = {"class": event.cls}
            self._record("pause", time, node=self.name, port=PORT, until=event.value, **cls)
        elif kind == abi.PAUSE_SENT:
            cls = {"class": event.cls}
            self._record("pause_sent", time, node=self.name, port=PORT, quanta=event.value, **cls)
        else:
            cause = "nak" if kind == abi.NAKED else "timeout"
            self._record("retransmit", time, node=self.name, qp=event.qpn, psn=event.value, cause=cause)

    def stats(self, now: int = 0) -> abi.Stats:
        """Counters; `paused_ns` as of `now`. Valid until the next call."""
        self._lib.xn_stats_read(self.handle, now, byref(self._stats))
        return self._stats

    def pair_stats(self, qpn: int) -> abi.PairStats:
        """One queue pair's state. Valid until the next call."""
        self._lib.xn_pair_read(self.handle, qpn, byref(self._pair_stats))
        return self._pair_stats

    def outstanding(self, qpn: int) -> tuple[SendWork, ...]:
        """Messages not fully acknowledged, oldest first."""
        count = self.pair_stats(qpn).outstanding
        if not count:
            return ()
        room = (abi.Message * count)()
        count = self._lib.xn_outstanding(self.handle, qpn, room, count)
        return tuple(_work(message) for message in room[:count])

    def telemetry(self, qpn: int, *, fresh: bool) -> bytes | None:
        """INT headers that came last; with `fresh` only if they were not taken so before."""
        buffer = ctypes.create_string_buffer(abi.MAX_SHIM)
        count = self._lib.xn_telemetry(self.handle, qpn, fresh, buffer)
        return buffer.raw[:count] if count else None

    def rate(self, qpn: int, now: int) -> float:
        """Pace of a queue pair once its timers have run up to `now`, bit/s of the driving clock."""
        rate: float = self._lib.xn_rate(self.handle, qpn, now)
        return rate

    def rate_of(self, flow: Flow, now: int) -> float:
        """Current rate of a flow in fabric bit/s."""
        return self.rate(flow.config.qpn, now) * self.config.time_scale

    def paused_ns(self, now: int) -> list[int]:
        """Time that each class has been paused so far."""
        return list(self.stats(now).paused_ns)

    @property
    def drops(self) -> dict[tuple[int, str], list[int]]:
        """(class, reason) -> [packets, bytes]; class -1 where it is not known."""
        stats = self.stats()
        return {
            (row - 1, reason): [stats.drop_packets[row][i], stats.drop_bytes[row][i]]
            for row in range(abi.CLASSES + 1)
            for i, reason in enumerate(abi.DROP_REASONS)
            if stats.drop_packets[row][i]
        }

    @property
    def bytes_received(self) -> int:
        """Payload that arrived in order, all queue pairs."""
        return int(self.stats().bytes_received)

    @property
    def rx_packets(self) -> int:
        """Frames received."""
        return int(self.stats().rx_packets)

    @property
    def rx_bytes(self) -> int:
        """Their wire bytes."""
        return int(self.stats().rx_bytes)

    @property
    def ignored_packets(self) -> int:
        """Frames of other protocols."""
        return int(self.stats().ignored)

    @property
    def pauses_received(self) -> list[int]:
        """XOFF frames obeyed, by class."""
        return list(self.stats().pauses_received)

    @property
    def pauses_sent(self) -> list[int]:
        """XOFF frames sent, by class."""
        return list(self.stats().pauses_sent)


def _work(message: abi.Message) -> SendWork:
    return SendWork(
        message.id,
        message.bytes,
        bool(message.write),
        message.first_psn,
        message.end_psn,
        message.posted,
        -1 if message.started == abi.NEVER else message.started,
        retransmitted=message.retransmitted,
    )


def native_config(config: NicConfig) -> abi.Config:
    """`xn_config`, with times and rates on the driving clock. TrafficError for an algorithm that C does not have."""
    scale = config.time_scale
    name = config.congestion.name
    cls = algorithm(name)
    if not supports(config):
        raise TrafficError(f"congestion control {name!r} exists in Python only.")
    rate = max(1, round(config.rate_bps / scale))
    prototype = bytes.fromhex(config.frame)
    receiver, transport = config.receiver, config.transport
    values: dict[str, Any] = {
        "rate_bps": rate,
        "delay_ns": round(config.delay_ns * scale),
        "rto_ns": round(transport.rto_ns * scale),
        "reorder_ns": round(transport.reorder_ns * scale),
        "cnp_interval_ns": -1 if config.cnp_interval_ns is None else round(config.cnp_interval_ns * scale),
        "base_rtt_ns": round(config.congestion.base_rtt_ns * scale),
        "drain_bps": max(1, round(receiver.drain_bps / scale)) if receiver.drain_bps else 0,
        "limit_bytes": receiver.limit_bytes,
        "xoff_bytes": receiver.xoff_bytes,
        "xon_bytes": receiver.xon_bytes,
        "rto_backoff": transport.rto_backoff,
        "mtu": config.mtu,
        "ack_interval": transport.ack_interval,
        "retry_limit": transport.retry_limit,
        "reorder_window": transport.reorder_window,
        "congestion": abi.CONGESTION.index(name),
        "cnp_class": config.cnp_class,
        "pfc_classes": sum(1 << c for c in config.pfc_classes),
        "pause_quanta": receiver.pause_quanta,
        "ipv6": int(":" in config.ip),
        "prototype_bytes": len(prototype),
        "echo": int(config.echo),
    }
    if (reps := config.reps) is not None:
        values |= {
            "reps_buffer": reps.buffer,
            "reps_entropies": reps.entropies,
            "reps_explore": reps.explore_packets,
            "reps_freezing_ns": round(reps.freezing_ns * scale),
        }
    native = abi.Config(**values)
    parameters = scaled(cls, make_parameters(config.congestion), scale)
    for i, parameter in enumerate(PARAMETERS[name]):
        native.parameters[i] = parameters[parameter]
    _copy(native.mac, bytes.fromhex(config.mac.replace(":", "")))
    _copy(native.ip, ipaddress.ip_address(config.ip).packed)
    _copy(native.prototype, prototype)
    if config.telemetry:
        shim = telemetry.headers(config.domain_id)
        native.shim_bytes = len(shim)
        _copy(native.shim, shim)
    return native


def _native_pair(pair: QueuePairConfig, config: NicConfig) -> abi.PairConfig:
    address = ipaddress.ip_address(pair.remote_ip)
    if address.version != ipaddress.ip_address(config.ip).version:
        raise ValueError(f"{pair.remote_ip} is not of the IP version of the NIC.")
    native = abi.PairConfig(
        pair.send_psn, pair.receive_psn, pair.qpn, pair.remote_qpn, pair.udp_source_port, pair.traffic_class
    )
    _copy(native.remote_ip, address.packed)
    return native


def _copy(field: Any, data: bytes) -> None:
    if len(data) > len(field):
        raise ValueError(f"{len(data)} bytes where {len(field)} fit")
    ctypes.memmove(field, data, len(data))
