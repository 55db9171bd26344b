"""HPCC's `flow.txt` (alibaba-edu/High-Precision-Congestion-Control, `simulation/mix`).

The first line is the number of flows; each further one is `src dst priority-group dport bytes start-seconds`, nodes
being numbers. Node n is the n-th host of the fabric (hosts come first in HPCC's topologies). Every flow has a queue
pair of its own, as there; the priority group is the traffic class; the destination port is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from traffic.collectives.patterns import busiest_link_bytes
from traffic.collectives.workload import MAX_MESSAGE_BYTES, Message, Workload
from traffic.errors import TrafficError

COLUMNS = "src dst priority-group dport bytes start-seconds"


def read_flows(path: Path, hosts: Sequence[str]) -> Workload:
    """The workload of a flow file; TrafficError names file, line and what would be accepted."""
    try:
        text = path.read_text()
    except OSError as error:
        raise TrafficError(f"{path}: cannot read the flow file ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise TrafficError(f"{path}: not a text file; a flow file has lines of `{COLUMNS}`.") from None
    except ValueError as error:  # a NUL character in the path
        raise TrafficError(f"{str(path)!r}: cannot read the flow file ({error}).") from None
    return parse_flows(text, hosts, str(path))


def parse_flows(text: str, hosts: Sequence[str], name: str = "flow.txt") -> Workload:
    """The same from the text itself."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise TrafficError(f"{name}:1: empty; the first line is the number of flows.")
    number, head = lines[0]
    if len(head) != 1 or not _is_number(head[0]):
        raise TrafficError(f"{name}:{number}: the first line is the number of flows, not {' '.join(head)!r}.")
    announced = int(head[0])
    flows = lines[1:]
    if announced < 1:
        raise TrafficError(f"{name}:{number}: it announces {announced} flows; at least 1 is needed.")
    if len(flows) < announced:
        raise TrafficError(f"{name}:{number}: it announces {announced} flows, {len(flows)} follow.")
    channels: dict[tuple[int, int], int] = {}
    messages = []
    for id, (number, words) in enumerate(flows[:announced]):
        message = _flow(id, words, hosts, f"{name}:{number}", channels)
        messages.append(message)
    return Workload(
        Path(name).name,
        tuple(hosts),
        tuple(messages),
        link_bytes=busiest_link_bytes(messages),
    )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 20


def _flow(
    id: int, words: list[str], hosts: Sequence[str], where: str, channels: dict[tuple[int, int], int]
) -> Message:
    if len(words) != 6:
        raise TrafficError(f"{where}: {len(words)} columns; a flow has six: {COLUMNS}.")
    for column, word in zip(COLUMNS.split()[:5], words[:5]):  # noqa: B905
        if not _is_number(word):
            raise TrafficError(f"{where}: {column} is a whole number, not {word!r}.")
    src, dst, group, _, size = (int(word) for word in words[:5])
    try:
        start = float(words[5])
    except ValueError:
        start = -1.0
    if not 0 <= start < 1e6:
        raise TrafficError(f"{where}: the start is a number of seconds, not {words[5]!r}.")
    for node in (src, dst):
        if node >= len(hosts):
            raise TrafficError(
                f"{where}: host {node} is unknown; the fabric has hosts 0 to {len(hosts) - 1}."
            )
    if src == dst:
        raise TrafficError(f"{where}: source and destination are both host {src}.")
    if group > 7:
        raise TrafficError(f"{where}: priority group {group} is not 0 to 7.")
    if not 1 <= size <= MAX_MESSAGE_BYTES:
        raise TrafficError(f"{where}: {size} bytes; 1 to {MAX_MESSAGE_BYTES} are possible.")
    pair = (min(src, dst), max(src, dst))
    channel = channels[pair] = channels.get(pair, -1) + 1
    return Message(
        id,
        hosts[src],
        hosts[dst],
        size,
        channel=channel,
        traffic_class=group,
        start_ns=round(start * 1e9),
    )
