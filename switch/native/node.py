"""Running switches: engine, packet sockets, P4Runtime server and records of each, hosted together in one process."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from switch.device import LOOP_PORT, DeviceSpec, PortSpec
from switch.native.binding import Engine
from switch.native.bringup import StartError, all_ports, load_program, log_messages, new_engine
from switch.native.capture import Capture
from switch.native.control.service import ControlService
from switch.native.hosted import Hosted
from switch.native.links import LinkWatch
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.p4runtime.server import AddressError, P4RuntimeServer
from switch.native.p4runtime.tls import Tls, TlsError
from switch.native.packetloop import PacketLoop
from switch.native.ports import PortError, interface_index, kernel_drops, open_port, split_interface
from switch.native.sampler import RecordFile, Sampler, loop_drops


@dataclass
class _Running:
    """What exists only while a switch runs."""

    engine: Engine
    loop: PacketLoop
    number: int
    """The device's number in its packet loop."""
    sockets: dict[int, socket.socket]
    device: P4RuntimeDevice
    server: P4RuntimeServer
    sampler: Sampler | None
    captures: list[Capture]
    hosted: Hosted
    """The switch as the control service sees it."""


class Switch:
    """One switch of the process, running or killed."""

    def __init__(self, spec: DeviceSpec) -> None:
        self.spec = spec
        self.address = spec.grpc_address
        self.running: _Running | None = None
        self.carrier: dict[int, bool] = {}
        """What the kernel says of each port's link."""
        self.admin_down: set[int] = set()
        self.rates: dict[int, int] = {}
        """Rates set at run time; they last over a restart."""
        self.losses: dict[tuple[int, bool], tuple[float, int, int]] = {}
        """(port, received) -> (probability, every, seed): loss belongs to the link and lasts over a restart."""
        self.delays: dict[int, int] = {}
        self.queues: list[tuple[int | None, int | None, dict[str, float]]] = []
        """(port, class, settings) in the order they were set, None = all; with `buffer` they last over a restart."""
        self.buffer = 0
        self.ending: asyncio.Task[None] | None = None
        """While what is left of a crashed switch is taken down."""


class SwitchHost:
    """The switches of one process: packet threads, one event loop, one record file."""

    def __init__(
        self,
        *,
        threads: int = 1,
        records: RecordFile | None = None,
        sample_s: float = 0.05,
        log: Callable[[str], None] = print,
        pcap: Path | None = None,
        tls: Tls | None = None,
        links_in_memory: bool = False,
        crashed: Callable[[str, str], None] = lambda name, message: None,
    ) -> None:
        """`threads` packet threads share the switches; `pcap` is a folder for captures; `tls` is for every server.

        `links_in_memory` joins ports that name each other as peers within this process (one thread only): their
        interfaces are not touched. `crashed` is told the name of a switch whose program has crashed and a sentence; the
        switch is as if killed then.

        Raises BuildError, PacketLoopError.
        """
        self._loops = [PacketLoop() for _ in range(max(1, threads))]
        self._records = records
        self._sample_s = sample_s
        self._log = log
        self._pcap = pcap
        self._tls = tls
        self._in_memory = links_in_memory
        self._crashed = crashed
        self._switches: dict[str, Switch] = {}
        self._by_number: dict[tuple[int, int], Switch] = {}
        self._watches: dict[str, LinkWatch] = {}
        self._indices: dict[tuple[str, int], tuple[Switch, int]] = {}
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the packet threads and the sampler."""
        loop = asyncio.get_running_loop()
        for place, packets in enumerate(self._loops):
            packets.start()
            loop.add_reader(packets.event_fd(), self._drain, place)
        if self._records is not None:
            self._sampling = loop.create_task(self._sample_all())

    async def add(self, spec: DeviceSpec) -> str:
        """Start a switch; returns its P4Runtime `host:port`. Raises StartError."""
        if spec.name in self._switches:
            raise StartError(f"switch {spec.name} exists already")
        switch = Switch(spec)
        await self._run(switch)
        self._switches[spec.name] = switch
        return switch.address

    async def kill(self, name: str) -> None:
        """Stop a switch at once: its streams break, its tables and queued packets are gone."""
        await self._halt(self.find(name))

    async def restart(self, name: str) -> None:
        """Start a killed (or running) switch anew at the same address, with the program and tables it began with."""
        switch = self.find(name)
        await self._halt(switch)
        await self._run(switch)

    def set_rate(self, name: str, port: int, rate_bps: int) -> None:
        """Change a port's rate in bit/s on wire bytes; 0 = unlimited."""
        switch = self.find(name)
        self._port(switch, port)
        switch.rates[port] = rate_bps
        if switch.running is not None:
            switch.running.engine.set_port_rate(port, rate_bps)
            switch.running.loop.wake(switch.running.number)

    def set_delay(self, name: str, port: int, delay_ns: int) -> None:
        """Change a port's propagation delay in ns."""
        switch = self.find(name)
        self._port(switch, port)
        switch.delays[port] = delay_ns
        if switch.running is not None:
            switch.running.engine.set_port_delay(port, delay_ns)

    def set_queue(self, name: str, port: int | None, cls: int | None, **settings: float) -> None:
        """Change settings of queues; see `Engine.set_queue`."""
        switch = self.find(name)
        if switch.running is not None:
            switch.running.engine.set_queue(port, cls, **settings)
            self.wake(switch)
        for old_port, old_cls, old in switch.queues:
            if port in (None, old_port) and cls in (None, old_cls):  # these queues get the new values
                for setting in settings:
                    old.pop(setting, None)
        switch.queues = [item for item in switch.queues if item[2]]
        switch.queues.append((port, cls, dict(settings)))

    def set_buffer(self, name: str, size: int) -> None:
        """Change the size of the shared buffer in bytes; 0 = none."""
        switch = self.find(name)
        if switch.running is not None:
            switch.running.engine.set_buffer(size)
        switch.buffer = size

    def set_loss(
        self, name: str, port: int, directions: str, probability: float, every: int, seed: int
    ) -> None:
        """Lose frames that the port sends (`tx`), receives (`rx`) or either (`both`); see `Engine.set_port_loss`."""
        switch = self.find(name)
        self._port(switch, port)
        if directions not in ("tx", "rx", "both"):
            raise StartError(f"a direction is tx, rx or both, not {directions!r}")
        for received in (False, True):
            if directions in ("both", "rx" if received else "tx"):
                if switch.running is not None:
                    switch.running.engine.set_port_loss(
                        port, probability, every, seed=seed, received=received
                    )
                switch.losses[port, received] = (probability, every, seed)

    def set_up(self, name: str, port: int, up: bool) -> None:
        """Take a port down administratively, or up again."""
        switch = self.find(name)
        self._port(switch, port)
        if up:
            switch.admin_down.discard(port)
        else:
            switch.admin_down.add(port)
        self._apply_link(switch, port)

    def add_port(self, name: str, number: int, interface: str) -> None:
        """Serve one more interface, without a rate; it lasts over a restart. Raises StartError."""
        switch = self.find(name)
        if number in self.ports_of(switch) or not 0 <= number < LOOP_PORT:
            raise StartError(f"switch {name}: {number} is a port already, or not in 0..{LOOP_PORT - 1}")
        port, running = PortSpec(number, interface, 0), self._required(switch)
        with ExitStack() as undo:
            added = replace(switch.spec, ports=(port,))
            sockets = self._sockets(added, undo)
            captures = self._captures(added, undo)
            undo.pop_all()
        switch.spec = replace(switch.spec, ports=(*switch.spec.ports, port))
        running.engine.add_port(number)
        running.sockets.update(sockets)
        running.captures.extend(captures)
        self._open(switch, port)
        running.sampler = self._sampler(switch, running)

    def remove_port(self, name: str, number: int) -> None:
        """Serve a port no more; it does not come back with a restart. Raises StartError."""
        switch = self.find(name)
        port = next((port for port in switch.spec.ports if port.number == number), None)
        if port is None or self._in_process(port):
            raise StartError(f"switch {name} has no port {number} that can be removed")
        running = self._required(switch)
        switch.spec = replace(switch.spec, ports=tuple(p for p in switch.spec.ports if p is not port))
        sock = running.sockets.pop(number, None)
        if sock is not None:
            running.loop.remove_port(running.number, number)
            for place in [place for place, found in self._indices.items() if found == (switch, number)]:
                del self._indices[place]
            sock.close()
        for kept in (switch.carrier, switch.rates, switch.delays):
            kept.pop(number, None)
        switch.admin_down.discard(number)
        running.engine.remove_port(number)
        running.device.port_removed(number)
        running.sampler = self._sampler(switch, running)

    def find(self, name: str) -> Switch:
        """The switch called `name`; raises StartError."""
        switch = self._switches.get(name)
        if switch is None:
            raise StartError(f"there is no switch {name!r}; there are {', '.join(self._switches) or 'none'}")
        return switch

    def running(self) -> list[Hosted]:
        """The switches that run now."""
        return [switch.running.hosted for switch in self._switches.values() if switch.running is not None]

    def addresses(self) -> dict[str, str]:
        """P4Runtime `host:port` by switch name."""
        return {name: switch.address for name, switch in self._switches.items()}

    def ports_of(self, switch: Switch) -> dict[int, str | None]:
        """The switch's ports, those that lead nowhere included, and the interface of each."""
        ports = {port.number: port.interface for port in all_ports(switch.spec)}
        return dict(sorted({**ports, switch.spec.cpu_port: None}.items()))

    def wake(self, switch: Switch) -> None:
        """The switch's engine was changed: its packet loop should look again."""
        if switch.running is not None:
            switch.running.loop.wake(switch.running.number)

    def socket_drops(self, switch: Switch) -> dict[int, dict[str, tuple[int, int]]]:
        """Port -> reason -> (packets, bytes) of frames that were lost between socket and engine."""
        running = switch.running
        if running is None:
            return {}
        drops = {port: loop_drops(running.loop.port_stats(running.number, port)) for port in running.sockets}
        unattached = running.loop.unattached(running.number)
        cpu = {"packet_in": (running.device.packet_ins_dropped, 0), "no_interface": unattached}
        return {**drops, switch.spec.cpu_port: cpu}

    def sample(self) -> None:
        """Write a sample of every switch now."""
        now = time.monotonic_ns()
        for switch in self._switches.values():
            if switch.running is not None and switch.running.sampler is not None:
                switch.running.sampler.sample(now)

    async def close(self) -> None:
        """Stop every switch, write their last records, stop the threads."""
        if self._sampling is not None:
            self._sampling.cancel()
        for switch in self._switches.values():
            await self._halt(switch)
        loop = asyncio.get_running_loop()
        for packets in self._loops:
            loop.remove_reader(packets.event_fd())
            packets.close()
        for watch in self._watches.values():
            loop.remove_reader(watch.fileno())
            watch.close()
        if self._records is not None:
            self._records.close()

    # ---- one switch ----
    async def _run(self, switch: Switch) -> None:
        spec = switch.spec
        place = min(range(len(self._loops)), key=lambda i: sum(1 for loop, _ in self._by_number if loop == i))
        packets = self._loops[place]
        with ExitStack() as undo:
            sockets = self._sockets(spec, undo)
            captures = self._captures(spec, undo)
            engine = undo.enter_context(new_engine(spec))
            number = packets.add_device(engine)
            undo.callback(packets.remove_device, number)
            device = P4RuntimeDevice(spec.device_id, engine, wake=partial(packets.wake, number))
            for port in all_ports(spec):
                engine.add_port(
                    port.number,
                    switch.rates.get(port.number, port.rate_bps),
                    switch.delays.get(port.number, port.delay_ns),
                )
            for queue_port, cls, settings in switch.queues:
                engine.set_queue(queue_port, cls, **settings)
            engine.set_buffer(switch.buffer)
            for (lossy, received), (probability, every, seed) in switch.losses.items():
                engine.set_port_loss(lossy, probability, every, seed=seed, received=received)
            await load_program(spec, engine, device)
            hosted = Hosted(self, switch, engine, device)
            server = P4RuntimeServer(device, [ControlService(hosted).handler()])
            try:
                switch.address = await server.start(switch.address, self._tls)
            except (AddressError, TlsError) as error:
                raise StartError(f"switch {spec.name}: {error}") from error
            undo.pop_all()
        self._by_number[(place, number)] = switch
        running = _Running(engine, packets, number, sockets, device, server, None, captures, hosted)
        running.sampler = self._sampler(switch, running)
        switch.running = running
        for port in spec.ports:
            self._open(switch, port)
        self._join(switch)

    def _sampler(self, switch: Switch, running: _Running) -> Sampler | None:
        if self._records is None:
            return None
        return Sampler(
            switch.spec.name,
            running.engine,
            [port.number for port in switch.spec.ports],
            running.sockets,
            running.loop,
            running.number,
            self._records,
            partial(getattr, running.device, "packet_ins_dropped"),
        )

    def _open(self, switch: Switch, port: PortSpec) -> None:
        """Follow a port's link and take its frames from now on."""
        running = self._required(switch)
        self._watch(switch, port)
        self._apply_link(switch, port.number)
        sock = running.sockets.get(port.number)
        if sock is not None:
            kernel_drops(sock)  # what arrived before anybody listened is not a loss of this switch
            running.loop.add_port(running.number, port.number, sock.fileno())

    @staticmethod
    def _required(switch: Switch) -> _Running:
        if switch.running is None:
            raise StartError(f"switch {switch.spec.name} is not running")
        return switch.running

    def _in_process(self, port: PortSpec) -> bool:
        """Whether the port's link is one in memory."""
        return self._in_memory and port.peer is not None

    def _join(self, switch: Switch) -> None:
        """Join the switch's ports in memory to those of the switches that run already."""
        for port in switch.spec.ports:
            if not self._in_process(port):
                continue
            name, _, peer_port = str(port.peer).rpartition(":")
            peer = self._switches.get(name, switch if name == switch.spec.name else None)
            if peer is None or peer.running is None or switch.running is None:
                continue
            if peer is switch and int(peer_port) < port.number:
                continue  # a link of the switch with itself, joined from its other end
            switch.running.loop.link(switch.running.number, port.number, peer.running.number, int(peer_port))

    async def _halt(self, switch: Switch) -> None:
        if switch.ending is not None:
            await switch.ending
        running, switch.running = switch.running, None
        if running is not None:
            await self._take_down(running)

    async def _take_down(self, running: _Running) -> None:
        await running.server.stop()
        await running.device.settle()
        if running.sampler is not None and not running.engine.crashed:
            running.sampler.sample(time.monotonic_ns(), everything=True)
            running.sampler.pauses(running.engine.take_pause_events())
        running.loop.remove_device(running.number)
        del self._by_number[(self._loops.index(running.loop), running.number)]
        running.device.close()
        running.engine.close()
        for sock in running.sockets.values():
            sock.close()
        for capture in running.captures:
            capture.close()

    def _sockets(self, spec: DeviceSpec, undo: ExitStack) -> dict[int, socket.socket]:
        sockets = {}
        for port in spec.ports:
            if port.interface is not None and not self._in_process(port):
                try:
                    sockets[port.number] = undo.enter_context(open_port(port.interface))
                except PortError as error:
                    raise StartError(f"switch {spec.name}, port {port.number}: {error}") from error
        return sockets

    def _captures(self, spec: DeviceSpec, undo: ExitStack) -> list[Capture]:
        captures: list[Capture] = []
        if self._pcap is None:
            return captures
        for port in spec.ports:
            if port.interface is not None and not self._in_process(port):
                try:
                    captures.append(Capture(port.interface, self._pcap, self._log))
                except OSError as error:
                    raise StartError(f"--pcap {self._pcap}: {error.filename}: {error.strerror}") from error
                undo.callback(captures[-1].close)
        return captures

    # ---- links ----
    def _watch(self, switch: Switch, port: PortSpec) -> None:
        """Follow the link state of the port's interface."""
        assert switch.running is not None
        switch.carrier.setdefault(port.number, True)
        if port.interface is None or self._in_process(port):
            return
        namespace, _ = split_interface(port.interface)
        index = interface_index(switch.running.sockets[port.number])
        self._indices[(namespace, index)] = (switch, port.number)
        watch = self._watches.get(namespace)
        if watch is None:
            watch = self._watches[namespace] = LinkWatch(namespace)
            asyncio.get_running_loop().add_reader(watch.fileno(), self._links_changed, namespace)
        else:
            watch.refresh()

    def _links_changed(self, namespace: str) -> None:
        for index, usable in self._watches[namespace].changes():
            found = self._indices.get((namespace, index))
            if found is None:
                continue
            switch, port = found
            if switch.carrier.get(port) != usable:
                switch.carrier[port] = usable
                self._apply_link(switch, port)

    def _apply_link(self, switch: Switch, port: int) -> None:
        running = switch.running
        if running is None:
            return
        up = switch.carrier.get(port, True) and port not in switch.admin_down
        running.engine.set_port_up(port, up)
        running.device.port_changed(port, up)
        running.loop.wake(running.number)

    def _port(self, switch: Switch, port: int) -> None:
        if port not in self.ports_of(switch):
            raise StartError(f"switch {switch.spec.name} has no port {port}")

    def _bury(self, switch: Switch, running: _Running, fault: str) -> None:
        """The switch's program has crashed: as if killed, but that nothing is read from its engine any more."""
        switch.running = None
        switch.ending = asyncio.get_running_loop().create_task(self._take_down(running))
        switch.ending.add_done_callback(lambda _: setattr(switch, "ending", None))
        name = switch.spec.name
        message = (
            f"{name}: its program has crashed ({fault}); the others go on, and restart {name} starts it anew"
        )
        if self._records is not None:
            self._records.write("note", time.monotonic_ns(), text=message)
        self._log(message)
        self._crashed(name, message)

    # ---- reports ----
    def _drain(self, place: int) -> None:
        for number in self._loops[place].take_pending():
            switch = self._by_number.get((place, number))
            if switch is None or switch.running is None:
                continue
            running = switch.running
            if fault := running.engine.crashed:
                self._bury(switch, running, fault)
                continue
            pending = running.engine.pending()
            running.device.drain(pending)
            if "pause" in pending:
                events = running.engine.take_pause_events()
                if running.sampler is not None:
                    running.sampler.pauses(events)
            if "log" in pending:
                log_messages(switch.spec, running.engine, self._log)

    async def _sample_all(self) -> None:
        assert self._records is not None
        period = self._sample_s
        due = time.monotonic()
        while True:
            self.sample()
            self._records.flush()
            due = max(due + period, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
