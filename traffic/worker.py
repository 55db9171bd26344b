"""`hosts-N.json`: the hosts that one worker process runs, and where their interfaces are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from traffic.build import EndpointConfig
from traffic.errors import TrafficError

DEFAULT_PROGRESS_NS = 500_000_000


@dataclass(frozen=True)
class HostAttachment:
    """Where a host's link ends."""

    interface: str
    namespace: str | None
    """Path of its network namespace (`/proc/PID/ns/net` or `/run/netns/NAME`); None = the worker's own."""


@dataclass(frozen=True)
class WorkerHost:
    """A host in a worker."""

    attachment: HostAttachment
    endpoint: EndpointConfig


@dataclass(frozen=True)
class WorkerConfig:
    """One worker process. Times are wall ns."""

    hosts: tuple[WorkerHost, ...]
    records: str
    """File that the records are appended to."""
    sample_ns: int = 100_000_000
    progress_ns: int = DEFAULT_PROGRESS_NS
    stop_after_ns: int = 0
    """Stop the senders this long after the start; 0 = never."""
    epoch_ns: int = 0
    """Zero of the records' times on the monotonic clock; 0 = the start of the workload."""

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(path: Path) -> WorkerConfig:
        """Read what `write` wrote; TrafficError when it is something else."""
        try:
            data = json.loads(path.read_text())
            hosts = tuple(
                WorkerHost(HostAttachment(**h["attachment"]), EndpointConfig.from_json(h["endpoint"]))
                for h in data["hosts"]
            )
            return WorkerConfig(**{**data, "hosts": hosts})
        except OSError as error:
            raise TrafficError(f"{path}: cannot read the hosts of this worker ({error.strerror}).") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TrafficError(
                f"{path}: not a hosts file of this version of Xoff ({type(error).__name__}: {error})."
            ) from None


def write_workers(
    folder: Path,
    endpoints: Sequence[EndpointConfig],
    attachments: Mapping[str, HostAttachment],
    *,
    workers: int = 2,
    sample_ns: int = 100_000_000,
    progress_ns: int = DEFAULT_PROGRESS_NS,
    stop_after_ns: int = 0,
    epoch_ns: int = 0,
) -> list[Path]:
    """Deal the hosts out to `workers` files `folder/hosts-N.json`; records go to `folder/records/hosts-N.jsonl`.

    TrafficError when a host has no attachment.
    """
    missing = [e.nic.name for e in endpoints if e.nic.name not in attachments]
    if missing:
        raise TrafficError(f"no interface is known for host {missing[0]}.")
    paths = []
    workers = max(1, min(workers, len(endpoints)))
    for number in range(workers):
        hosts = tuple(WorkerHost(attachments[e.nic.name], e) for e in endpoints[number::workers])
        path = folder / f"hosts-{number}.json"
        config = WorkerConfig(
            hosts,
            str(folder / "records" / f"hosts-{number}.jsonl"),
            sample_ns,
            progress_ns,
            stop_after_ns,
            epoch_ns,
        )
        config.write(path)
        paths.append(path)
    return paths
