"""Who runs the points: processes on this machine, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol

from xoff.errors import XoffError
from xoff.sweep.point import Row, run_point

Job = tuple[str, dict[str, Any], "str | None"]
"""(id, the experiment as plain data, folder that keeps its run)"""
LOCAL = "local"
"""Instead of a scheduler's address: a cluster on this machine for the time of the sweep."""


class Pool(Protocol):
    """Runs jobs side by side."""

    where: str
    """In words, for the display."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[str, Row]]:
        """(id, row) of each job as it ends."""

    def close(self) -> None:
        """Stop what is running."""


class Processes:
    """As many processes as cores, one point each at a time."""

    def __init__(self, workers: int) -> None:
        self.where = f"{workers} process{'es' if workers > 1 else ''}"
        # Spawned, not forked: gRPC's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[str, Row]]:
        """Submit all; rows come as they are done."""
        pending: dict[Future[Row], str] = {self._executor.submit(run_point, *job[1:]): job[0] for job in jobs}
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield pending.pop(future), future.result()

    def close(self) -> None:
        """End the processes; a point that was under way is lost."""
        processes = list((self._executor._processes or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the sweep ends us itself


class Dask:
    """The workers of a Dask cluster; each must have this Xoff installed."""

    def __init__(self, address: str, workers: int) -> None:
        try:
            import distributed
        except ImportError:
            raise XoffError(
                "a Dask cluster needs the package distributed: pip install 'xoff[dask]'."
            ) from None
        self._cluster: Any = None
        try:
            if address == LOCAL:
                self._cluster = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.ERROR,
                )
                self._client = distributed.Client(self._cluster)
            else:
                self._client = distributed.Client(address, timeout=10)
        except (OSError, ValueError) as error:
            raise XoffError(f"no Dask scheduler answers at {address}: {error}.") from None
        info = self._client.scheduler_info()
        self.where = f"the Dask cluster {info['address']} ({len(info['workers'])} workers)"
        self._as_completed = distributed.as_completed

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[str, Row]]:
        """Submit all; rows come as they are done. A worker that dies has its points run by another."""
        futures = {self._client.submit(run_point, *job[1:], pure=False): job[0] for job in jobs}
        for future in self._as_completed(futures):
            yield futures[future], future.result()

    def close(self) -> None:
        """Take back what has not begun and leave the cluster, or end it when it is ours."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def make_pool(workers: int, dask: str | None) -> Pool:
    """Processes, or Dask when an address (or `local`) is given."""
    return Dask(dask, workers) if dask else Processes(workers)
