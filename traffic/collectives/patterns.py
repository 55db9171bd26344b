"""Collectives and patterns that are not rings: all-to-all, broadcast tree, incast, permutation."""

from __future__ import annotations

import random
from collections.abc import Sequence

from traffic.collectives.rings import shares
from traffic.collectives.workload import DATA_CLASS, Message, Workload, check_size
from traffic.errors import TrafficError


def alltoall(
    ranks: Sequence[str],
    size: int,
    *,
    channels: int = 1,
    traffic_class: int = DATA_CLASS,
    ordered: bool = False,
) -> Workload:
    """Pairwise All-to-All: every rank sends size/n to every other; busbw factor (n-1)/n.

    In step s rank r sends to r + s. `ordered`: a step waits for the acknowledgement of the one before and
    for what it has to receive in it; otherwise all are posted at once, as nccl-tests does, in that order.
    """
    check_size("alltoall", ranks, size, len(ranks) * (len(ranks) - 1) * channels)
    n = len(ranks)
    parts = shares(size, n)
    messages: list[Message] = []
    ids: dict[tuple[int, int, int], int] = {}
    for step in range(1, n):
        for rank in range(n):
            peer = (rank + step) % n
            for channel, part in enumerate(shares(parts[peer], channels)):
                if not part:
                    continue
                after: tuple[int, ...] = ()
                if ordered and step > 1:
                    before = ids.get((rank, step - 1, channel))
                    arrived = ids.get(((rank - step + 1) % n, step - 1, channel))
                    after = tuple(i for i in (before, arrived) if i is not None)
                ids[rank, step, channel] = len(messages)
                messages.append(
                    Message(len(messages), ranks[rank], ranks[peer], part, channel, traffic_class, after)
                )
    return Workload(
        "alltoall",
        tuple(ranks),
        tuple(messages),
        size,
        (n - 1) / n,
        link_bytes=busiest_link_bytes(messages),
        steps=n - 1 if ordered else 1,
    )


def broadcast(
    ranks: Sequence[str],
    size: int,
    *,
    channels: int = 1,
    traffic_class: int = DATA_CLASS,
    slices: int = 1,
) -> Workload:
    """Broadcast of `size` bytes from the first rank down a binary tree; busbw factor 1.

    Rank r passes on to 2r + 1 and 2r + 2. `slices` cuts the data so that levels overlap.
    """
    check_size("broadcast", ranks, size, (len(ranks) - 1) * channels * slices)
    n = len(ranks)
    messages: list[Message] = []
    for channel, channel_bytes in enumerate(shares(size, channels)):
        for part in shares(channel_bytes, slices):
            if not part:
                continue
            arrived: dict[int, int] = {}
            for child in range(1, n):
                parent = (child - 1) // 2
                arrived[child] = len(messages)
                messages.append(
                    Message(
                        len(messages),
                        ranks[parent],
                        ranks[child],
                        part,
                        channel,
                        traffic_class,
                        (arrived[parent],) if parent else (),
                    )
                )
    return Workload(
        "broadcast",
        tuple(ranks),
        tuple(messages),
        size,
        1.0,
        link_bytes=busiest_link_bytes(messages),
        steps=n.bit_length() - 1,
    )


def incast(
    ranks: Sequence[str],
    size: int,
    *,
    channels: int = 1,
    traffic_class: int = DATA_CLASS,
    target: str | None = None,
    senders: int = 0,
) -> Workload:
    """N-to-1: `senders` ranks (0: all others) send `size` bytes each to `target` (default: the last) at once."""
    check_size("incast", ranks, size, (len(ranks) - 1) * channels)
    goal = ranks[-1] if target is None else target
    if goal not in ranks:
        raise TrafficError(f"incast: the target {goal!r} is not one of the ranks.")
    sources = [r for r in ranks if r != goal]
    if senders > len(sources) or senders < 0:
        raise TrafficError(f"incast: {senders} senders asked for, {len(sources)} ranks can send.")
    sources = sources[: senders or len(sources)]
    messages: list[Message] = []
    for source in sources:
        for channel, part in enumerate(shares(size, channels)):
            if part:
                messages.append(Message(len(messages), source, goal, part, channel, traffic_class))
    return Workload(
        "incast", tuple(ranks), tuple(messages), size, 1.0, link_bytes=busiest_link_bytes(messages)
    )


def permutation(
    ranks: Sequence[str],
    size: int,
    *,
    channels: int = 1,
    traffic_class: int = DATA_CLASS,
    seed: int = 1,
    shift: int = 0,
) -> Workload:
    """Every rank sends `size` bytes to one other and receives from one other.

    `shift`: to the rank that many further on; 0: a permutation without fixed points drawn from `seed`.
    """
    check_size("permutation", ranks, size, len(ranks) * channels)
    n = len(ranks)
    if shift % n:
        goals = [(i + shift) % n for i in range(n)]
    elif shift:
        raise TrafficError(f"permutation: a shift of {shift} sends every one of {n} ranks to itself.")
    else:
        goals = _derangement(n, random.Random(seed))
    messages: list[Message] = []
    for rank, goal in enumerate(goals):
        for channel, part in enumerate(shares(size, channels)):
            if part:
                messages.append(
                    Message(len(messages), ranks[rank], ranks[goal], part, channel, traffic_class)
                )
    return Workload(
        "permutation", tuple(ranks), tuple(messages), size, 1.0, link_bytes=busiest_link_bytes(messages)
    )


def _derangement(n: int, rng: random.Random) -> list[int]:
    """A uniformly drawn permutation that moves everything (by rejection; one draw in e succeeds)."""
    order = list(range(n))
    while True:
        rng.shuffle(order)
        if all(goal != rank for rank, goal in enumerate(order)):
            return order


def busiest_link_bytes(messages: Sequence[Message]) -> int:
    """Most payload bytes that one host sends or receives."""
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    for message in messages:
        sent[message.src] = sent.get(message.src, 0) + message.bytes
        received[message.dst] = received.get(message.dst, 0) + message.bytes
    return max([*sent.values(), *received.values()])
