"""A workload: messages between hosts, and which of them wait for which."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from traffic.errors import TrafficError

DATA_CLASS = 3
"""Traffic class of RDMA data unless a workload says otherwise (docs/architecture.md)."""

MAX_MESSAGE_BYTES = 2**32 - 1
"""RETH's DMA length (InfiniBand architecture, volume 1, 9.2)."""
MAX_MESSAGES = 1_000_000
"""More than this would not fit the memory of the machines that this is for: about 2 GB of Python objects."""


@dataclass(frozen=True)
class Message:
    """One RDMA message."""

    id: int
    """Unique in the workload, 0 to 2**32 - 1; travels as immediate data."""
    src: str
    dst: str
    bytes: int
    """Payload, at least 1."""
    channel: int = 0
    """Messages of the same hosts, class and channel share a queue pair, hence an order and a path hash."""
    traffic_class: int = DATA_CLASS
    after: tuple[int, ...] = ()
    """Ids that must have happened first: a message to `src` must have arrived, one from `src` been acknowledged."""
    start_ns: int = 0
    """Not before this time since the start of the run, fabric ns."""


@dataclass(frozen=True)
class Workload:
    """Messages as a directed acyclic graph, with what is needed to judge their completion time."""

    name: str
    """`allreduce`, `alltoall`, …, or the name of an imported file."""
    ranks: tuple[str, ...]
    """Host names in rank order."""
    messages: tuple[Message, ...]
    bytes: int = 0
    """Size S as nccl-tests counts it for this operation; 0 where it has no such size."""
    busbw_factor: float = 1.0
    """busbw / algbw (nccl-tests doc/PERFORMANCE.md); 1 where it defines none."""
    link_bytes: int = 0
    """Payload bytes that the busiest host link must carry in one direction: what the ideal time is made of."""
    steps: int = 1
    """Messages one after another on the longest dependency chain: how often the latency is paid."""
    attributes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate(self)


def check_size(name: str, ranks: Sequence[str], size: int, messages: int) -> None:
    """TrafficError unless there are two ranks, a byte and at most `MAX_MESSAGES` of the `messages` of its shape."""
    if messages > MAX_MESSAGES:
        raise TrafficError(
            f"{name}: {messages} messages; a workload has at most {MAX_MESSAGES} (fewer ranks, channels or slices)."
        )
    if len(ranks) < 2:
        raise TrafficError(f"{name}: {len(ranks)} rank(s); at least 2 are needed.")
    if size < 1:
        raise TrafficError(f"{name}: {size} bytes; at least 1 is needed.")


def validate(workload: Workload) -> None:
    """TrafficError when ids repeat, a host is unknown, a dependency is unknown to its host, or there is a cycle."""
    known = set(workload.ranks)
    if len(known) != len(workload.ranks):
        raise TrafficError(f"workload {workload.name}: a host is listed twice among its ranks.")
    by_id: dict[int, Message] = {}
    for message in workload.messages:
        where = f"workload {workload.name}, message {message.id}"
        if message.id in by_id:
            raise TrafficError(f"{where}: the id is used twice.")
        if not 0 <= message.id < 2**32:
            raise TrafficError(f"{where}: an id is a 32-bit number.")
        for host in (message.src, message.dst):
            if host not in known:
                raise TrafficError(f"{where}: host {host!r} is not one of its ranks.")
        if message.src == message.dst:
            raise TrafficError(f"{where}: source and destination are both {message.src}.")
        if message.bytes < 1:
            raise TrafficError(f"{where}: it has {message.bytes} bytes; at least 1 is needed.")
        if message.bytes > MAX_MESSAGE_BYTES:
            raise TrafficError(
                f"{where}: it has {message.bytes} bytes; a message has at most {MAX_MESSAGE_BYTES} (32 bits in RETH)."
            )
        if not 0 <= message.traffic_class < 8:
            raise TrafficError(f"{where}: class {message.traffic_class} is not 0 to 7.")
        by_id[message.id] = message
    waiting = {}
    followers: dict[int, list[int]] = {}
    for message in workload.messages:
        for needed in message.after:
            other = by_id.get(needed)
            if other is None:
                raise TrafficError(
                    f"workload {workload.name}, message {message.id}: it waits for {needed}, "
                    "which does not exist."
                )
            if message.src not in (other.src, other.dst):
                raise TrafficError(
                    f"workload {workload.name}, message {message.id}: {message.src} cannot know of "
                    f"message {needed} ({other.src} to {other.dst})."
                )
            followers.setdefault(needed, []).append(message.id)
        waiting[message.id] = len(message.after)
    free = deque(i for i, count in waiting.items() if count == 0)
    done = 0
    while free:
        done += 1
        for follower in followers.get(free.popleft(), ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                free.append(follower)
    if done != len(waiting):
        stuck = next(i for i, count in waiting.items() if count)
        raise TrafficError(
            f"workload {workload.name}: messages wait for each other in a cycle ({stuck} is in it)."
        )
