"""What the controller does by itself while a fabric runs: its PFC watchdog and its rerouting.

It is asked (`look`, `port_changed`) and answers with what it decides; whoever asks knows the time and carries the
reactions out: at once in Mininet, `control_latency` later in virtual time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from controller.app import FabricController
from controller.deadlock import victims
from controller.watchdog import Queue, Watchdog, WatchdogOptions


@dataclass(frozen=True)
class Reaction:
    """A decision of the controller."""

    note: str
    """What and why, for the records."""
    carry_out: Callable[[], Awaitable[None]]
    """Raises ControllerError when a switch refuses."""


class Reactions:
    """The built-in controller's own doings. `watchdog` None: none; `reroute`: around links that are down."""

    def __init__(
        self, controller: FabricController, watchdog: WatchdogOptions | None = None, *, reroute: bool = False
    ) -> None:
        self._controller = controller
        self._reroute = reroute
        self._down: set[tuple[str, int]] = set()
        self._guarded: frozenset[Queue] = frozenset()
        """Queues on which the watchdog has acted."""
        self._watchdog = None if watchdog is None else Watchdog(watchdog, controller.lossless_queues())

    @property
    def poll_ns(self) -> int | None:
        """How often to call `look`, ns of the running clock; None: never."""
        return None if self._watchdog is None else self._watchdog.options.poll_ns

    async def look(self, now: int) -> list[Reaction]:
        """Read the counters and decide. `now` is ns of the running clock."""
        watchdog = self._watchdog
        if watchdog is None:
            return []
        changed = watchdog.look(now, await self._controller.read_queues(watchdog.queues))
        over = [queue for queue, storm in changed if not storm and queue in self._guarded]
        if watchdog.options.scope == "deadlock":
            begun = victims(self._controller.plan, watchdog.storms - self._guarded)
        else:
            begun = [queue for queue, storm in changed if storm]
        self._guarded = self._guarded.difference(over).union(begun)
        return [self._guard(queue, storm=False) for queue in over] + [
            self._guard(queue, storm=True) for queue in begun
        ]

    def _guard(self, queue: Queue, *, storm: bool) -> Reaction:
        assert self._watchdog is not None
        options = self._watchdog.options
        obey, admit = (options.action == "alert", options.action != "drop") if storm else (True, True)
        why = "in a deadlock" if options.scope == "deadlock" else "paused too long"
        told = f"{why}, {options.action}" if storm else "no PFC frames any more, restored"
        return Reaction(
            f"watchdog: {queue.switch} port {queue.port} class {queue.cls}: {told}",
            partial(self._controller.set_queue_guard, queue, obey_pauses=obey, admit=admit),
        )

    async def ports_changed(self, ports: list[tuple[str, int]], up: bool) -> list[Reaction]:
        """Switch ports came up or went down at once."""
        self._down = self._down - set(ports) if up else self._down | set(ports)
        if not self._reroute:
            return []
        names = ", ".join(f"{switch} port {port}" for switch, port in ports)
        note = f"rerouting: {names} {'up' if up else 'down'}"
        return [Reaction(note, partial(self._controller.reroute, frozenset(self._down)))]
