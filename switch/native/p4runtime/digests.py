"""Digest lists: samples collected, duplicates kept back, lists sent when full or old, and acknowledged.

No clock is read here: `now` is nanoseconds of the caller's monotonic clock (P4Runtime, "DigestEntry").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r

from switch.native.binding import Digest
from switch.native.journal import Journal
from switch.native.p4runtime import data
from switch.native.p4runtime.errors import ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND, P4RuntimeError
from switch.native.p4runtime.info import Info, find

MAX_LIST_SIZE = 1024
MAX_HELD = 65_536
"""Samples of a digest that are remembered at most; of lists that nobody acknowledges the oldest are forgotten then."""
"""Samples in one list when the client sets no limit."""

Sample = tuple[int, ...]


@dataclass
class _Stream:
    """One digest that a client has enabled."""

    config: p4r.DigestEntry.Config
    buffer: list[Sample] = field(default_factory=list)
    since: int = 0
    """When the first sample of the buffer came (ns)."""
    unacknowledged: dict[int, tuple[int, tuple[Sample, ...]]] = field(default_factory=dict)
    """List id -> (sent at, samples)."""
    held: set[Sample] = field(default_factory=set)
    """Samples that are in the list being collected or sent and not acknowledged."""
    last_list_id: int = 0

    @property
    def limit(self) -> int:
        """Samples in a full list."""
        return min(self.config.max_list_size or MAX_LIST_SIZE, MAX_HELD)

    @property
    def one_by_one(self) -> bool:
        """Whether every sample is to be told at once."""
        return self.config.max_list_size == 1 or self.config.max_timeout_ns == 0


class Digests:
    """The digests of one pipeline."""

    def __init__(self, info: Info, journal: Journal) -> None:
        """What is configured is changed through `journal`."""
        self._info = info
        self._journal = journal
        self._streams: dict[int, _Stream] = {}
        self._by_name = {message.preamble.name: digest_id for digest_id, message in info.digests.items()}
        for digest_id, message in info.digests.items():
            self._by_name.setdefault(message.preamble.alias, digest_id)

    def write(self, update: int, entry: p4r.DigestEntry) -> None:
        """Enable, reconfigure or disable a digest; raises P4RuntimeError."""
        name = find("digest", self._info.digests, entry.digest_id).preamble.name
        enabled = entry.digest_id in self._streams
        if update == p4r.Update.INSERT and enabled:
            raise P4RuntimeError(ALREADY_EXISTS, f"digest {name} is enabled already")
        if update != p4r.Update.INSERT and not enabled:
            raise P4RuntimeError(NOT_FOUND, f"digest {name} is not enabled")
        if update == p4r.Update.DELETE:
            self._journal.remove(self._streams, entry.digest_id)
            return
        config = entry.config
        if config.max_timeout_ns < 0 or config.max_list_size < 0 or config.ack_timeout_ns < 0:
            raise P4RuntimeError(INVALID_ARGUMENT, f"digest {name}: a size or timeout is negative")
        kept = p4r.DigestEntry.Config()
        kept.CopyFrom(config)
        if enabled:
            self._journal.put(self._streams[entry.digest_id], "config", kept)
        else:
            self._journal.set(self._streams, entry.digest_id, _Stream(kept))

    def read(self, query: p4r.DigestEntry) -> Iterator[p4r.DigestEntry]:
        """The configuration asked for; id 0 means all. Raises P4RuntimeError."""
        if query.digest_id:
            name = find("digest", self._info.digests, query.digest_id).preamble.name
            if query.digest_id not in self._streams:
                raise P4RuntimeError(NOT_FOUND, f"digest {name} is not enabled")
        for digest_id, stream in self._streams.items():
            if query.digest_id in (0, digest_id):
                yield p4r.DigestEntry(digest_id=digest_id, config=stream.config)

    def add(self, sample: Digest, now: int) -> None:
        """Take a sample from the data plane."""
        stream = self._streams.get(self._by_name.get(sample.list_name, 0))
        if stream is None or sample.values in stream.held:
            return
        if not stream.buffer:
            stream.since = now
        stream.buffer.append(sample.values)
        if stream.config.ack_timeout_ns or not stream.one_by_one:
            stream.held.add(sample.values)
            if not stream.config.ack_timeout_ns and len(stream.buffer) % stream.limit == 0:
                stream.held.clear()  # the next sample begins another list

    def ready(self, now: int, timestamp_ns: int) -> list[p4r.DigestList]:
        """The lists that are full or old enough to be sent; `timestamp_ns` is the time of day they carry."""
        lists = []
        for digest_id, stream in self._streams.items():
            self._expire(stream, now)
            limit = stream.limit
            while stream.buffer and (
                len(stream.buffer) >= limit or now - stream.since >= stream.config.max_timeout_ns
            ):
                samples, stream.buffer = tuple(stream.buffer[:limit]), stream.buffer[limit:]
                lists.append(self._list(digest_id, stream, samples, now, timestamp_ns))
        return lists

    def acknowledge(self, ack: p4r.DigestListAck) -> None:
        """A client has acted on a list: its samples may come again. Raises P4RuntimeError."""
        name = find("digest", self._info.digests, ack.digest_id).preamble.name
        stream = self._streams.get(ack.digest_id)
        sent = stream.unacknowledged.pop(ack.list_id, None) if stream is not None else None
        if stream is None or sent is None:
            raise P4RuntimeError(NOT_FOUND, f"digest {name}: no list {ack.list_id} waits to be acknowledged")
        stream.held.difference_update(sent[1])

    def next_deadline(self) -> int | None:
        """When to call `ready` next (ns), None when nothing waits."""
        deadlines = []
        for stream in self._streams.values():
            if stream.buffer:
                deadlines.append(stream.since + stream.config.max_timeout_ns)
            deadlines += [at + stream.config.ack_timeout_ns for at, _ in stream.unacknowledged.values()]
        return min(deadlines, default=None)

    def _list(
        self, digest_id: int, stream: _Stream, samples: tuple[Sample, ...], now: int, timestamp_ns: int
    ) -> p4r.DigestList:
        stream.last_list_id += 1
        message = p4r.DigestList(digest_id=digest_id, list_id=stream.last_list_id, timestamp=timestamp_ns)
        spec = self._info.digests[digest_id].type_spec
        for sample in samples:
            message.data.append(data.to_message(spec, sample, self._info.message.type_info))
        if stream.config.ack_timeout_ns:
            stream.unacknowledged[stream.last_list_id] = (now, samples)
            while len(stream.held) > MAX_HELD and len(stream.unacknowledged) > 1:
                oldest = next(iter(stream.unacknowledged))
                stream.held.difference_update(stream.unacknowledged.pop(oldest)[1])
        elif len(samples) < stream.limit:
            stream.held.difference_update(samples)
        return message

    @staticmethod
    def _expire(stream: _Stream, now: int) -> None:
        for list_id, (sent, samples) in list(stream.unacknowledged.items()):
            if now - sent >= stream.config.ack_timeout_ns:
                del stream.unacknowledged[list_id]
                stream.held.difference_update(samples)
