"""Prometheus metrics of the switches of a process, over HTTP.

The text is version 0.0.4 of Prometheus' exposition format
(https://prometheus.io/docs/instrumenting/exposition_formats/); every path but `/metrics` is 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from switch.native.binding import EngineError
from switch.native.control.controlled import Controlled

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_REQUEST = 8192
_PATIENCE_S = 10.0

_METRICS = {
    "xoff_port_rx_bytes": ("counter", "Bytes received."),
    "xoff_port_rx_packets": ("counter", "Frames received."),
    "xoff_port_tx_bytes": ("counter", "Bytes whose transmission began."),
    "xoff_port_tx_packets": ("counter", "Frames whose transmission began."),
    "xoff_port_up": ("gauge", "1 = the port is up."),
    "xoff_port_rate_bps": ("gauge", "Port rate in bit/s on wire bytes; 0 = unlimited."),
    "xoff_queue_bytes": ("gauge", "Bytes in the queue."),
    "xoff_queue_packets": ("gauge", "Packets in the queue."),
    "xoff_queue_watermark_bytes": ("gauge", "Most bytes in the queue since its watermark was reset."),
    "xoff_queue_in_bytes": ("counter", "Bytes admitted to the queue."),
    "xoff_queue_in_packets": ("counter", "Packets admitted to the queue."),
    "xoff_queue_paused": ("gauge", "1 = the queue is paused."),
    "xoff_queue_paused_seconds": ("counter", "Time that the queue has been paused."),
    "xoff_drop_packets": ("counter", "Packets dropped; without port or class where it is not known."),
    "xoff_drop_bytes": ("counter", "Bytes of the packets dropped."),
    "xoff_buffer_size_bytes": ("gauge", "Size of the shared buffer; 0 = there is none."),
    "xoff_buffer_used_bytes": ("gauge", "Bytes in the shared buffer."),
    "xoff_buffer_watermark_bytes": (
        "gauge",
        "Most bytes in the shared buffer since its watermark was reset.",
    ),
    "xoff_table_hits": ("counter", "Lookups that hit an entry."),
    "xoff_table_misses": ("counter", "Lookups that hit none."),
    "xoff_table_entries": ("gauge", "Entries."),
    "xoff_faults": (
        "counter",
        "Faults by kind: failed asserts, indices out of bounds, lost digests and the like.",
    ),
}
"""Name -> (type, help); counters end in `_total` on the wire."""

_CLASS_REASONS = ("queue_bytes", "queue_packets", "buffer")
"""Drops that are counted per queue."""

_Sample = tuple[str, dict[str, object], float]


def render(switches: Iterable[Controlled]) -> str:
    """The metrics of some running switches as text."""
    by_name: dict[str, list[str]] = {name: [] for name in _METRICS}
    for switch in switches:
        for name, labels, value in _samples(switch):
            pairs = {"switch": switch.name, **labels}
            text = ",".join(f'{label}="{_escaped(str(given))}"' for label, given in pairs.items())
            shown = str(int(value)) if value == int(value) else repr(value)
            by_name[name].append(f"{_wire_name(name)}{{{text}}} {shown}")
    lines = []
    for name, samples in by_name.items():
        if samples:
            kind, text = _METRICS[name]
            lines += [f"# HELP {_wire_name(name)} {text}", f"# TYPE {_wire_name(name)} {kind}", *samples]
    return "\n".join(lines) + "\n"


def _wire_name(name: str) -> str:
    return f"{name}_total" if _METRICS[name][0] == "counter" else name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _samples(switch: Controlled) -> Iterable[_Sample]:
    engine = switch.engine
    lost = switch.socket_drops()
    known: dict[str, tuple[int, int]] = {}
    for port in switch.ports:
        stats = engine.port_stats(port)
        where: dict[str, object] = {"port": port}
        for name in ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets", "rate_bps"):
            yield f"xoff_port_{name}", where, getattr(stats, name)
        yield "xoff_port_up", where, int(stats.up)
        for reason, (packets, octets) in stats.drops.items():
            seen = known.get(reason, (0, 0))
            known[reason] = seen[0] + packets, seen[1] + octets
            if reason not in _CLASS_REASONS:
                yield from _drop({**where, "class": ""}, reason, packets, octets)
        for reason, (packets, octets) in lost.get(port, {}).items():
            if packets:
                yield from _drop({**where, "class": ""}, reason, packets, octets)
        for cls, queue in enumerate(engine.queue_stats(port)):
            if not (queue.in_packets or queue.drops or queue.paused_until):
                continue  # series of queues that nobody uses would outnumber all others
            place = {**where, "class": cls}
            for name in ("bytes", "packets", "watermark_bytes", "in_bytes", "in_packets"):
                yield f"xoff_queue_{name}", place, getattr(queue, name)
            yield "xoff_queue_paused", place, int(queue.paused_until > 0)
            yield "xoff_queue_paused_seconds", place, queue.paused_ns / 1e9
            for reason, (packets, octets) in queue.drops.items():
                yield from _drop(place, reason, packets, octets)
    for reason, (packets, octets) in engine.drops().items():
        seen = known.get(reason, (0, 0))
        if packets > seen[0]:
            yield from _drop({"port": "", "class": ""}, reason, packets - seen[0], octets - seen[1])
    buffer = engine.buffer_stats()
    yield "xoff_buffer_size_bytes", {}, buffer.size
    yield "xoff_buffer_used_bytes", {}, buffer.used
    yield "xoff_buffer_watermark_bytes", {}, buffer.watermark
    if engine.loaded:
        for table in engine.program.tables:
            counts = engine.table_stats(table)
            for name in ("hits", "misses", "entries"):
                yield f"xoff_table_{name}", {"table": table}, counts[name]
    for kind, count in engine.faults().items():
        yield "xoff_faults", {"kind": kind}, count


def _drop(where: dict[str, object], reason: str, packets: int, octets: int) -> Iterable[_Sample]:
    labels = {**where, "reason": reason}
    yield "xoff_drop_packets", labels, packets
    yield "xoff_drop_bytes", labels, octets


class MetricsServer:
    """Serves what `switches` gives at the moment of each request."""

    def __init__(self, switches: Callable[[], Iterable[Controlled]]) -> None:
        self._switches = switches
        self._server: asyncio.Server | None = None

    async def start(self, address: str) -> str:
        """Listen on `host:port` (port 0: the system chooses); returns the actual one. Raises OSError, ValueError."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{address!r} is not HOST:PORT")
        self._server = await asyncio.start_server(
            self._serve, host.strip("[]"), int(port), limit=_LONGEST_REQUEST
        )
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE_S)
            status, kind, text = self._answer(request.split(b"\r\n", 1)[0].decode("latin-1").split())
            body = text.encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
            await asyncio.wait_for(writer.drain(), _PATIENCE_S)
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            asyncio.TimeoutError,
            ConnectionError,
        ):
            pass  # whoever asked has gone, or is no HTTP client
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, words: list[str]) -> tuple[str, str, str]:
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "400 Bad Request", "text/plain", "this is an HTTP server\n"
        if words[0] != "GET":
            return "405 Method Not Allowed", "text/plain", "only GET is served\n"
        if words[1].split("?", 1)[0] != "/metrics":
            return "404 Not Found", "text/plain", "the metrics are at /metrics\n"
        try:
            return "200 OK", CONTENT_TYPE, render(self._switches())
        except EngineError as error:  # its program is being replaced
            return "503 Service Unavailable", "text/plain", f"try again: {error}\n"
