"""Ports, queues and the buffer of an engine: what is set of them and what they count."""

from __future__ import annotations

import ctypes
from typing import Any

from switch.native import abi
from switch.native.engine_base import EngineBase
from switch.native.engine_types import (
    BufferStats,
    EngineError,
    PortStats,
    QueueSettings,
    QueueStats,
    check,
    uint,
)

_LARGEST_BUFFER = 1 << 40
_MOST: dict[str, int] = {
    "limit_bytes": 2**63 - 1,
    "limit_packets": 2**63 - 1,
    "rate_bps": 2**63 - 1,
    "burst_bytes": _LARGEST_BUFFER,
    "rate_pps": 10**12,
    "guaranteed_bytes": _LARGEST_BUFFER,
    "headroom_bytes": _LARGEST_BUFFER,
    "alpha": 64,
    "weight": 65535,
}
"""Largest value of each setting (xf.h)."""
_KIND = {name: "a number" if name == "alpha" else "a whole number" for name in _MOST}


class EnginePorts(EngineBase):
    """Ports, the traffic manager, drops."""

    def add_port(self, number: int, rate_bps: int = 0, delay_ns: int = 0) -> None:
        """Add a port, up. Rate in bit/s on wire bytes, 0 = unlimited. EngineError "exists"."""
        uint(number, 9, "port number")
        code = self._lib.xf_port_add(self._e, number, uint(rate_bps, 63, "rate"), uint(delay_ns, 63, "delay"))
        check(code, f"adding port {number}")

    def remove_port(self, number: int) -> None:
        """Remove it; what it holds is dropped and counted."""
        check(self._lib.xf_port_remove(self._e, uint(number, 9, "port number")), f"port {number}")

    def set_port_rate(self, number: int, rate_bps: int) -> None:
        """Applies from the next transmission on."""
        code = self._lib.xf_port_rate(self._e, uint(number, 9, "port number"), uint(rate_bps, 63, "rate"))
        check(code, f"rate of port {number}")

    def set_port_delay(self, number: int, delay_ns: int) -> None:
        """Applies from the next transmission on."""
        code = self._lib.xf_port_delay(self._e, uint(number, 9, "port number"), uint(delay_ns, 63, "delay"))
        check(code, f"delay of port {number}")

    def set_port_up(self, number: int, up: bool) -> None:
        """A port that is down drops what it receives or would send, counted as `port_down`."""
        check(self._lib.xf_port_up(self._e, uint(number, 9, "port number"), int(up)), f"port {number}")

    def set_catch_up(self, limit_ns: int) -> None:
        """When called late, make good at most this much lost time (ns); 0, the default, all of it.

        For drivers on the wall clock: a stall of theirs is then lost time instead of a burst.
        """
        self._lib.xf_catch_up(self._e, uint(limit_ns, 63, "catch-up limit"))

    def set_port_loss(
        self, number: int, probability: float, every: int = 0, *, seed: int = 0, received: bool = False
    ) -> None:
        """Lose frames on the wire, counted as `link_loss`: those sent, or with `received` those that come in.

        Each is lost with `probability`, drawn from a sequence of this direction that begins with `seed`; and
        every `every`-th one (0: none). Both 0 heals the link.
        """
        if not 0.0 <= probability <= 1.0:
            raise EngineError("invalid", f"a loss probability lies between 0 and 1, not at {probability}")
        threshold = min(round(probability * 2**64), abi.NEVER)
        check(
            self._lib.xf_port_loss(
                self._e,
                uint(number, 9, "port number"),
                int(received),
                threshold,
                uint(every, 32, "every"),
                seed & abi.NEVER,
            ),
            f"port {number}",
        )

    def set_queue_limit(
        self,
        port: int | None = None,
        cls: int | None = None,
        *,
        bytes: int | None = None,
        packets: int | None = None,
    ) -> None:
        """Limits of one (port, class) queue; None = all (as a limit: none). Also applies to ports added later."""
        self.set_queue(
            port,
            cls,
            limit_bytes=2**63 - 1 if bytes is None else bytes,
            limit_packets=2**63 - 1 if packets is None else packets,
        )

    def set_queue(self, port: int | None = None, cls: int | None = None, **settings: float) -> None:
        """Change settings of one (port, class) queue by `QueueSettings`' names; the others stay.

        None = all, also those of ports added later. Applies from the next packet on. EngineError "invalid".
        """
        to, fields = abi.QueueSettings(), 0
        for name, value in settings.items():
            if name not in _MOST:
                raise EngineError("invalid", f"a queue has no setting '{name}'; there are {', '.join(_MOST)}")
            if not (name == "alpha" or isinstance(value, int)) or not 0 <= value <= _MOST[name]:
                raise EngineError("invalid", f"{name} {value} is not {_KIND[name]} in 0..{_MOST[name]}")
            setattr(to, name, round(value * abi.ALPHA_ONE) if name == "alpha" else value)
            fields |= 1 << abi.QUEUE_SETTINGS.index(name)
        code = self._lib.xf_queue_set(
            self._e,
            -1 if port is None else uint(port, 9, "port number"),
            -1 if cls is None else uint(cls, 3, "class"),
            to,
            fields,
        )
        check(code, "setting a queue")

    def queue_settings(self, port: int, cls: int) -> QueueSettings:
        """What is set of a queue."""
        s = abi.QueueSettings()
        code = self._lib.xf_queue_settings_read(
            self._e, uint(port, 9, "port number"), uint(cls, 3, "class"), s
        )
        check(code, f"port {port}")
        values = {name: getattr(s, name) for name in abi.QUEUE_SETTINGS}
        return QueueSettings(**{**values, "alpha": s.alpha / abi.ALPHA_ONE})

    def set_buffer(self, size: int) -> None:
        """Size (bytes) of the shared part of the buffer; 0, the default: only the queues' own limits hold."""
        code = self._lib.xf_buffer_set(self._e, uint(size, 63, "buffer size"))
        check(code, f"buffer size {size} (at most {_LARGEST_BUFFER})")

    def buffer_stats(self) -> BufferStats:
        """What the buffer holds."""
        s = abi.BufferStats()
        self._lib.xf_buffer_read(self._e, s)
        return BufferStats(*(getattr(s, name) for name in abi.BUFFER_STATS))

    def reset_buffer_watermark(self) -> None:
        """Start the buffer's watermark from what it holds now."""
        self._lib.xf_buffer_watermark_reset(self._e)

    def queue_stats(self, port: int) -> list[QueueStats]:
        """The 8 queues of a port, class 0 first."""
        queues = []
        for cls in range(abi.CLASSES):
            q = abi.QueueStats()
            check(self._lib.xf_queue_read(self._e, uint(port, 9, "port number"), cls, q), f"port {port}")
            names = ("queue_bytes", "queue_packets", "buffer")
            drops = {
                n: (q.drop_packets[i], q.drop_bytes[i]) for i, n in enumerate(names) if q.drop_packets[i]
            }
            queues.append(
                QueueStats(
                    q.bytes,
                    q.packets,
                    q.watermark_bytes,
                    q.watermark_packets,
                    q.in_bytes,
                    q.in_packets,
                    q.paused_until,
                    q.paused_ns,
                    drops,
                )
            )
        return queues

    def port_stats(self, port: int) -> PortStats:
        """Counters of one port."""
        s: Any = abi.port_stats_type()()
        check(self._lib.xf_port_read(self._e, uint(port, 9, "port number"), ctypes.byref(s)), f"port {port}")
        drops = {
            name: (s.drop_packets[i], s.drop_bytes[i])
            for i, name in enumerate(abi.DROP_REASONS)
            if s.drop_packets[i]
        }
        return PortStats(
            s.rx_bytes, s.rx_packets, s.tx_bytes, s.tx_packets, s.rate_bps, s.delay_ns, bool(s.up), drops
        )

    def reset_watermarks(self, port: int) -> None:
        """Start the queues' watermarks from what they hold now."""
        check(self._lib.xf_watermark_reset(self._e, uint(port, 9, "port number")), f"port {port}")

    def drops(self) -> dict[str, tuple[int, int]]:
        """Reason -> (packets, bytes) of the whole switch; every reason, zero where none."""
        count = len(abi.DROP_REASONS)
        packets, octets = (ctypes.c_uint64 * count)(), (ctypes.c_uint64 * count)()
        self._lib.xf_drops_read(self._e, packets, octets)
        return {name: (packets[i], octets[i]) for i, name in enumerate(abi.DROP_REASONS)}
