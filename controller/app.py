"""The fabric controller: brings up every switch of a plan, changes it while it runs, and records what it counts.

A user's own controller is a Python file with `async def main(plan, devices, emit)` (see `run_controller_file`).
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller.counters import pause_cells
from controller.device import OUT_RESET_PORT, OUT_RESUME_PORT, Device
from controller.fixedpoint import FixedPointError, red_slope
from controller.intent import SwitchIntent
from controller.rerouting import Port, dead_ends
from controller.routing import BALANCE_MODES
from controller.session import SessionError, pipeline_schema
from controller.watchdog import Queue, Reading
from controller.weights import Weights, path_weights
from switch.link import PFC_QUANTUM_BITS
from topologies.plan import CLASSES, ClassPolicy, FabricPlan, SwitchBalancing

Emit = Callable[[dict[str, Any]], None]
"""Takes one record (docs/records.md); its `t` is there when the controller was given a clock."""


MAX_QUANTA = 0xFFFF
"""Longest pause of a PFC frame (IEEE 802.1Qbb)."""


class ControllerError(Exception):
    """The fabric could not be programmed; the text is a sentence for the person at the keyboard."""


@dataclass(frozen=True)
class ProgramFiles:
    """What the compiler wrote for the switches."""

    json: Path
    p4info: Path


class FabricController:
    """Every switch of one plan. All methods belong to one asyncio event loop.

    `addresses` maps switch names to `host:port` of their P4Runtime servers; switches of the plan that are not in it
    are left alone. `timestamp_hz` is what the switches' P4 timestamps tick at (`DeviceSpec.timestamp_hz`). `clock`
    gives the records' `t`, ns since the run's epoch.
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
        known = {switch.name for switch in plan.switches}
        for name in addresses:
            if name not in known:
                raise ControllerError(f"switch {name!r} is not in the plan of {plan.name!r}")
        try:
            schema = pipeline_schema(program.p4info, program.json)
        except OSError as error:
            raise ControllerError(f"the program cannot be read: {error}") from error
        self.plan = plan
        self._emit: Emit = _stamped(emit, clock) if emit is not None else lambda record: None
        self._event = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._devices = {
            switch.name: Device(
                SwitchIntent.of_plan(plan, switch, timestamp_hz),
                addresses[switch.name],
                schema,
                self._emit,
                self._event.set,
            )
            for switch in plan.switches
            if switch.name in addresses
        }
        for name, weights in self._path_weights().items():
            device = self._devices[name]
            device.intent = replace(device.intent, weights=weights)

    async def start(self, *, timeout: float = 60.0) -> None:
        """Connect to all switches at once, load the program and write all tables; returns when every one is programmed.

        From then on a switch that restarts is programmed again by itself. Raises ControllerError naming the switches
        that were not ready within `timeout` seconds and why.
        """
        self._tasks = [
            asyncio.create_task(device.follow(), name=f"controller:{device.name}")
            for device in self._devices.values()
        ]
        try:
            await asyncio.wait_for(self._settle(), timeout)
        except asyncio.TimeoutError as error:
            problem = self._problem(within=timeout)
            await self.stop()
            raise ControllerError(problem) from error
        except BaseException:
            await self.stop()
            raise

    async def _settle(self) -> None:
        """Until all are ready; ControllerError as soon as one has given up, the task's error if one failed."""
        while not all(device.ready for device in self._devices.values()):
            if any(device.given_up for device in self._devices.values()):
                raise ControllerError(self._problem())
            self._event.clear()
            waiting = asyncio.create_task(self._event.wait())
            try:
                done, _ = await asyncio.wait([waiting, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            for task in done:
                if task is not waiting and task.exception() is not None:
                    task.result()

    def _problem(self, within: float | None = None) -> str:
        late = [device for device in self._devices.values() if not device.ready]
        bad = [device for device in late if device.given_up] or late
        told = "; ".join(
            f"{device.name} at {device.address}: {device.problem or 'no answer yet'}" for device in bad[:3]
        )
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        limit = f" within {within:g} s" if within is not None else ""
        return f"{len(late)} of {len(self._devices)} switches could not be programmed{limit}: {told}{more}"

    async def stop(self) -> None:
        """Disconnect. The switches keep forwarding as they were programmed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def collect(self) -> None:
        """Read the counters of every switch and emit a record for each that changed since the last call.

        A switch that is away is passed over.
        """
        for device in self._devices.values():
            try:
                await device.collect()
            except SessionError:
                continue  # `follow` has seen it too, and says so in `states`

    def states(self) -> dict[str, str]:
        """Each switch: `ready`, or why it is not."""
        return {
            name: "ready" if device.ready else device.problem or "connecting"
            for name, device in self._devices.items()
        }

    def times_programmed(self, switch: str) -> int:
        """How often a switch has been programmed; grows when it comes back after a restart."""
        return self._device(switch).programmed

    async def wait_programmed(self, switch: str, times: int, *, timeout: float = 30.0) -> None:
        """Until the switch is ready and was programmed at least `times` times; ControllerError after `timeout` s."""
        device = self._device(switch)

        async def done() -> None:
            while not (device.ready and device.programmed >= times):
                self._event.clear()
                await self._event.wait()

        try:
            await asyncio.wait_for(done(), timeout)
        except asyncio.TimeoutError as error:
            raise ControllerError(
                f"{switch} was not programmed again within {timeout:g} s: {device.problem or 'no answer yet'}"
            ) from error

    async def wait_lost(self, switch: str, *, timeout: float = 30.0) -> None:
        """Until it is known that the switch has gone away; ControllerError after `timeout` s."""
        device = self._device(switch)

        async def done() -> None:
            while device.ready:
                self._event.clear()
                await self._event.wait()

        try:
            await asyncio.wait_for(done(), timeout)
        except asyncio.TimeoutError as error:
            raise ControllerError(f"{switch} is still there after {timeout:g} s") from error

    def packet_outs(self) -> dict[str, int]:
        """Packet-outs sent so far, by switch."""
        return {name: device.packet_outs for name, device in self._devices.items()}

    async def wait_packet_ins(self, switch: str, count: int, *, timeout: float = 30.0) -> None:
        """Until so many packet-ins of a switch have been handled in all; ControllerError after `timeout` s."""
        device = self._device(switch)

        async def done() -> None:
            while device.packet_ins < count:
                self._event.clear()
                await self._event.wait()

        try:
            await asyncio.wait_for(done(), timeout)
        except asyncio.TimeoutError as error:
            raise ControllerError(
                f"{switch}: {device.packet_ins} of {count} packet-ins came within {timeout:g} s"
            ) from error

    async def verify_timers(self, *, wait: float = 1.0) -> dict[str, int]:
        """Laps of each switch's timer packet within `wait` seconds (0: PFC refresh is not running there)."""
        before = {name: await device.laps() for name, device in self._devices.items()}
        await asyncio.sleep(wait)
        return {name: await device.laps() - before[name] for name, device in self._devices.items()}

    async def set_route(self, switch: str, prefix: str, ports: Sequence[int]) -> None:
        """Send what goes to `prefix` through `ports` (equal candidates).

        ControllerError on an unknown switch, a bad prefix or a port that the switch does not have.
        """
        device = self._device(switch)
        try:
            network = str(ipaddress.ip_network(prefix))
        except ValueError as error:
            raise ControllerError(f"{prefix!r} is not an IP prefix: {error}") from error
        if not ports:
            raise ControllerError(f"a route needs at least one port ({switch}, {prefix})")
        for port in ports:
            self._check_port(device, port)
        kept = {old: new for old, new in device.intent.routes.items() if _normal(old) != network}
        routes = {**kept, network: tuple(sorted(set(ports)))}
        await self._change(device, replace(device.intent, routes=routes))

    async def set_load_balancing(self, mode: SwitchBalancing, switches: Sequence[str] | None = None) -> None:
        """Change how a candidate is chosen, on all switches or the named ones."""
        if mode not in BALANCE_MODES:
            raise ControllerError(f"load balancing {mode!r} is unknown; accepted: {', '.join(BALANCE_MODES)}")
        await self._change_all(switches, lambda intent: replace(intent, balance=mode))

    async def set_class_policy(
        self, cls: int, policy: ClassPolicy, switches: Sequence[str] | None = None
    ) -> None:
        """Change a class's ECN, PFC and limits, on all switches or the named ones."""
        _check_class(cls)
        try:
            red_slope(policy)
        except FixedPointError as error:
            raise ControllerError(str(error)) from error
        await self._change_all(
            switches, lambda intent: replace(intent, policies={**intent.policies, cls: policy})
        )

    async def set_class_map(self, switch: str, egress_port: int, cls: int, new_class: int) -> None:
        """Packets of `cls` that leave through `egress_port` change to `new_class` (queue and DSCP) from here on.

        `new_class == cls` removes the change. This is how a deadlock's cycle of queues is cut on one link.
        """
        device = self._device(switch)
        self._check_port(device, egress_port)
        _check_class(cls)
        _check_class(new_class)
        changed = {key: new for key, new in device.intent.class_map.items() if key != (egress_port, cls)}
        if new_class != cls:
            changed[egress_port, cls] = new_class
        await self._change(device, replace(device.intent, class_map=changed))

    async def cordon(self, switch: str, port: int) -> None:
        """Take a port out of every group that has another candidate; what is queued there still leaves."""
        device = self._device(switch)
        self._check_port(device, port)
        await self._change(device, replace(device.intent, cordoned=device.intent.cordoned | {port}))

    async def uncordon(self, switch: str, port: int) -> None:
        """Put it back."""
        device = self._device(switch)
        self._check_port(device, port)
        await self._change(device, replace(device.intent, cordoned=device.intent.cordoned - {port}))

    async def set_port_rate(self, switch: str, port: int, rate_bps: int) -> None:
        """A port sends at another rate (fabric bit/s): what the program reckons with follows.

        That is the length of a pause quantum, the refresh of pauses and the rate that telemetry reports. Thresholds
        are bytes and stay.
        """
        device = self._device(switch)
        self._check_port(device, port)
        rates = {**device.intent.rates, port: rate_bps}
        try:
            await self._change(device, replace(device.intent, rates=rates))
        except FixedPointError as error:
            raise ControllerError(f"{switch}, port {port}: {error}") from error
        await self._weigh()

    async def reroute(self, down: Iterable[Port]) -> None:
        """Lead traffic around the links at these switch ports, all others being up (controller/rerouting.py)."""
        routes = {name: device.intent.routes for name, device in self._devices.items()}
        dead = dead_ends(self.plan, routes, down)
        await self._change_all(
            None, lambda intent: replace(intent, dead_ends=dead.get(intent.switch.name, {}))
        )
        await self._weigh()

    def _path_weights(self) -> Weights:
        """What the candidates weigh at the rates and on the routes of now; nothing where the plan does not weigh."""
        if not self.plan.weighted_paths:
            return {}
        intents = {name: device.intent for name, device in self._devices.items()}
        candidates = {
            name: {prefix: intent.candidates(prefix) for prefix in intent.routes}
            for name, intent in intents.items()
        }
        rates = {
            (name, port): rate for name, intent in intents.items() for port, rate in intent.rates.items()
        }
        return path_weights(self.plan, candidates, rates)

    async def _weigh(self) -> None:
        weights = self._path_weights()
        changed = [n for n, d in self._devices.items() if d.intent.weights != weights.get(n, {})]
        if changed:
            await self._change_all(
                changed, lambda intent: replace(intent, weights=weights.get(intent.switch.name, {}))
            )

    def lossless_queues(self) -> dict[Queue, int]:
        """Every egress queue that PFC can pause, and how long 65535 quanta last there, ns of the running clock."""
        return {
            Queue(name, port.number, cls): round(
                MAX_QUANTA * PFC_QUANTUM_BITS * 1e9 / device.intent.wall_rate(port)
            )
            for name, device in self._devices.items()
            for port in device.intent.switch.ports
            for cls in device.intent.lossless_classes()
        }

    async def read_queues(self, queues: Iterable[Queue]) -> dict[Queue, Reading]:
        """Counters of egress queues; those of a switch that is away are missing."""
        by_switch: dict[str, list[Queue]] = {}
        for queue in queues:
            by_switch.setdefault(queue.switch, []).append(queue)

        async def read(name: str, wanted: list[Queue]) -> dict[Queue, Reading]:
            cells = {queue: pause_cells(queue.port, queue.cls) for queue in wanted}
            try:
                values = await self._device(name).read_cells(c for three in cells.values() for c in three)
            except SessionError:
                return {}
            return {
                queue: Reading(*(values[cell][0] for cell in three))
                for queue, three in cells.items()
                if values
            }

        parts = await asyncio.gather(*(read(name, wanted) for name, wanted in by_switch.items()))
        return {queue: reading for part in parts for queue, reading in part.items()}

    async def set_queue_guard(self, queue: Queue, *, obey_pauses: bool, admit: bool) -> None:
        """Whether an egress queue of a lossless class obeys received pauses, and whether it takes packets."""
        device = self._device(queue.switch)
        self._check_port(device, queue.port)
        key = frozenset({(queue.port, queue.cls)})
        intent = device.intent
        unpausable = intent.unpausable - key if obey_pauses else intent.unpausable | key
        shut = intent.shut - key if admit else intent.shut | key
        await self._change(device, replace(intent, unpausable=unpausable, shut=shut))

    async def reset_accounting(self, switch: str, port: int) -> None:
        """Forget the bytes held for and queued at a port and resume its upstream.

        Only for an idle port after a BMv2 switch's own queue overflowed (counter `lost` above 0): frames dropped
        behind the program's back are otherwise counted as held for ever. The native switch hands them back.
        """
        await self._operate(OUT_RESET_PORT, switch, port)

    async def resume(self, switch: str, port: int) -> None:
        """Let the upstream of a port send again, whatever is held for it.

        The way out of a deadlock once its cause is gone and there is room (`set_class_policy` with a larger XOFF):
        frames above XOFF pause the upstream again, frames beyond the headroom are dropped and counted.
        """
        await self._operate(OUT_RESUME_PORT, switch, port)

    async def _operate(self, operation: int, switch: str, port: int) -> None:
        device = self._device(switch)
        self._check_port(device, port)
        try:
            await device.operate(operation, port)
        except SessionError as error:
            raise ControllerError(f"{switch}: {error}") from error

    def _device(self, switch: str) -> Device:
        if switch not in self._devices:
            raise ControllerError(
                f"switch {switch!r} is not under control; there are {', '.join(sorted(self._devices))}"
            )
        return self._devices[switch]

    def _check_port(self, device: Device, port: int) -> None:
        numbers = [p.number for p in device.intent.switch.ports]
        if port not in numbers:
            raise ControllerError(f"{device.name} has no port {port}; it has {', '.join(map(str, numbers))}")

    async def _change(self, device: Device, intent: SwitchIntent) -> None:
        try:
            await device.change(intent)
        except SessionError as error:
            raise ControllerError(f"{device.name}: {error}") from error

    async def _change_all(
        self, switches: Sequence[str] | None, change: Callable[[SwitchIntent], SwitchIntent]
    ) -> None:
        devices = [self._device(name) for name in (self._devices if switches is None else switches)]
        await asyncio.gather(*(self._change(device, change(device.intent)) for device in devices))


def _stamped(emit: Emit, clock: Callable[[], int] | None) -> Emit:
    if clock is None:
        return emit
    return lambda record: emit({"t": clock(), **record})


def _normal(prefix: str) -> str:
    return str(ipaddress.ip_network(prefix))


def _check_class(cls: int) -> None:
    if not 0 <= cls < CLASSES:
        raise ControllerError(f"class {cls} does not exist; classes are 0 to {CLASSES - 1}")


async def run_controller_file(path: Path, plan: FabricPlan, devices: Mapping[str, str], emit: Emit) -> None:
    """Run a user's controller: its `async def main(plan, devices, emit)`; `devices` maps switch names to `host:port`.

    Raises ControllerError when the file cannot be loaded, has no such function, or fails.
    """
    spec = importlib.util.spec_from_file_location("xoff_user_controller", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ControllerError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ControllerError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    main = getattr(module, "main", None)
    if not inspect.iscoroutinefunction(main):
        raise ControllerError(f"{path} needs `async def main(plan, devices, emit)`")
    try:
        await main(plan, devices, emit)
    except Exception as error:
        raise ControllerError(f"{path} failed: {type(error).__name__}: {error}") from error
