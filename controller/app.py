"""The fabric controller: brings up every switch of a plan, changes it while it runs, and records what it counts.

A user's own controller is a Python file with `async def main(plan, devices, emit)` (see `run_controller_file`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topologies.plan import ClassPolicy, FabricPlan, LoadBalancing

Emit = Callable[[dict[str, Any]], None]
"""Takes one record (docs/architecture.md, Records) without its `t`, which the writer stamps if it is missing."""


class ControllerError(Exception):
    """The fabric could not be programmed; the text is a sentence for the person at the keyboard."""


@dataclass(frozen=True)
class ProgramFiles:
    """What the compiler wrote for the switches."""

    json: Path
    p4info: Path


class FabricController:
    """Every switch of one plan. All methods belong to one asyncio event loop.

    `addresses` maps switch names to `host:port` of their P4Runtime servers; switches of the plan that are not in it are left
    alone. `timestamp_hz` is what the switches' P4 timestamps tick at (`DeviceSpec.timestamp_hz`).
    """

    def __init__(
        self,
        plan: FabricPlan,
        addresses: Mapping[str, str],
        program: ProgramFiles,
        emit: Emit | None = None,
        *,
        timestamp_hz: int = 1_000_000,
        clock: Callable[[], int] | None = None,
    ) -> None:
        raise NotImplementedError

    async def start(self, *, timeout: float = 60.0) -> None:
        """Connect to all switches at once, load the program and write all tables; returns when every one is programmed.

        From then on a switch that restarts is programmed again by itself. Raises ControllerError naming the switches
        that were not ready within `timeout` seconds and why.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Disconnect. The switches keep forwarding as they were programmed."""
        raise NotImplementedError

    async def collect(self) -> None:
        """Read the counters of every switch and emit a record for each that changed since the last call."""
        raise NotImplementedError

    async def verify_timers(self, *, wait: float = 1.0) -> dict[str, int]:
        """Laps of each switch's timer packet counted within `wait` seconds (0: PFC refresh is not running there)."""
        raise NotImplementedError

    async def set_route(self, switch: str, prefix: str, ports: Sequence[int]) -> None:
        """Send what goes to `prefix` through `ports` (equal candidates). ControllerError on an unknown switch or port."""
        raise NotImplementedError

    async def set_load_balancing(self, mode: LoadBalancing, switches: Sequence[str] | None = None) -> None:
        """Change how a candidate is chosen, on all switches or the named ones."""
        raise NotImplementedError

    async def set_class_policy(
        self, cls: int, policy: ClassPolicy, switches: Sequence[str] | None = None
    ) -> None:
        """Change a class's ECN, PFC and limits, on all switches or the named ones."""
        raise NotImplementedError

    async def set_class_map(self, switch: str, egress_port: int, cls: int, new_class: int) -> None:
        """Packets of `cls` that leave through `egress_port` change to `new_class` (queue and DSCP) from here on.

        `new_class == cls` removes the change. This is how a deadlock's cycle of queues is cut on one link.
        """
        raise NotImplementedError

    async def cordon(self, switch: str, port: int) -> None:
        """Take a port out of every group that has another candidate; what is queued there still leaves."""
        raise NotImplementedError

    async def uncordon(self, switch: str, port: int) -> None:
        """Put it back."""
        raise NotImplementedError

    async def reset_accounting(self, switch: str, port: int) -> None:
        """Forget the bytes held for and queued at a port and resume its upstream.

        Only for an idle port after a switch's own queue overflowed (counter `lost` above 0): frames dropped
        behind the program's back are otherwise counted as held for ever.
        """
        raise NotImplementedError


async def run_controller_file(path: Path, plan: FabricPlan, devices: Mapping[str, str], emit: Emit) -> None:
    """Run a user's controller: its `async def main(plan, devices, emit)`; `devices` maps switch names to `host:port`.

    Raises ControllerError when the file cannot be loaded or has no such function.
    """
    raise NotImplementedError
