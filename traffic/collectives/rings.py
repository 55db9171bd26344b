"""Ring collectives, as NCCL runs them: every rank talks to its right neighbour, one chunk a step."""

from __future__ import annotations

from collections.abc import Sequence

from traffic.collectives.workload import DATA_CLASS, Message, Workload, check_size
from traffic.errors import TrafficError


def shares(size: int, parts: int) -> list[int]:
    """`size` bytes in `parts` shares that differ by at most one byte; TrafficError without a part."""
    if parts < 1:
        raise TrafficError(f"channels or slices: {parts}; at least 1 is needed.")
    return [size * (i + 1) // parts - size * i // parts for i in range(parts)]


def _ring(
    name: str,
    ranks: Sequence[str],
    size: int,
    steps: int,
    *,
    channels: int,
    traffic_class: int,
    busbw_factor: float,
) -> Workload:
    """Chunk c starts at rank c and moves right once a step; each hop waits for the one before.

    The ring is the same for reduce-scatter and all-gather: what is done with a chunk on arrival costs no link time.
    """
    check_size(name, ranks, size, len(ranks) * steps * channels)
    count = len(ranks)
    messages: list[Message] = []
    for channel, channel_bytes in enumerate(shares(size, channels)):
        chunks = shares(channel_bytes, count)
        previous: dict[int, int] = {}
        for step in range(steps):
            for rank in range(count):
                chunk = (rank - step) % count
                if not chunks[chunk]:
                    continue
                id = len(messages)
                messages.append(
                    Message(
                        id,
                        ranks[rank],
                        ranks[(rank + 1) % count],
                        chunks[chunk],
                        channel=channel,
                        traffic_class=traffic_class,
                        after=(previous[chunk],) if step else (),
                    )
                )
                previous[chunk] = id
    carried: dict[str, int] = dict.fromkeys(ranks, 0)
    for message in messages:
        carried[message.src] += message.bytes
    return Workload(
        name, tuple(ranks), tuple(messages), size, busbw_factor, link_bytes=max(carried.values()), steps=steps
    )


def allreduce(
    ranks: Sequence[str], size: int, *, channels: int = 1, traffic_class: int = DATA_CLASS
) -> Workload:
    """Ring AllReduce of `size` bytes a rank: 2(n-1) steps of size/n each; busbw factor 2(n-1)/n."""
    n = len(ranks)
    return _ring(
        "allreduce",
        ranks,
        size,
        2 * (n - 1),
        channels=channels,
        traffic_class=traffic_class,
        busbw_factor=2 * (n - 1) / max(n, 1),
    )


def reduce_scatter(
    ranks: Sequence[str], size: int, *, channels: int = 1, traffic_class: int = DATA_CLASS
) -> Workload:
    """Ring ReduceScatter of `size` bytes a rank in, size/n out: n-1 steps; busbw factor (n-1)/n."""
    n = len(ranks)
    return _ring(
        "reducescatter",
        ranks,
        size,
        n - 1,
        channels=channels,
        traffic_class=traffic_class,
        busbw_factor=(n - 1) / max(n, 1),
    )


def all_gather(
    ranks: Sequence[str], size: int, *, channels: int = 1, traffic_class: int = DATA_CLASS
) -> Workload:
    """Ring AllGather of size/n bytes a rank in, `size` out: n-1 steps; busbw factor (n-1)/n."""
    n = len(ranks)
    return _ring(
        "allgather",
        ranks,
        size,
        n - 1,
        channels=channels,
        traffic_class=traffic_class,
        busbw_factor=(n - 1) / max(n, 1),
    )
