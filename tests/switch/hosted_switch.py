"""A switch host without interfaces in this process, on an event loop in a thread of its own."""

import asyncio
import threading
import time

from p4programs import compiled

from switch.device import DeviceSpec, PortSpec
from switch.native.node import SwitchHost

PORTS = (1, 2, 3, 4)
TIMEOUT = 30.0


class HostedSwitch:
    """`s1`, running tests/switch/programs/NAME.p4 with P4Info; frames that leave are counted as `no_interface`."""

    def __init__(self, program="entities", **host_options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.host = self.call(SwitchHost, **host_options)
        self.run(self.host.start())
        json, p4info = compiled(program)
        ports = tuple(PortSpec(port, None, 0) for port in PORTS)
        self.spec = DeviceSpec("s1", 3, ports, json, p4info, "127.0.0.1:0")
        try:
            self.address = self.run(self.host.add(self.spec))
        except BaseException:
            self.close()
            raise

    @property
    def engine(self):
        return self.host.find("s1").running.engine

    def run(self, coroutine):
        """Run a coroutine on the host's event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT)

    def call(self, function, *arguments, **options):
        """Call a function on the host's event loop."""

        async def wrapped():
            return function(*arguments, **options)

        return self.run(wrapped())

    def send(self, port, frame):
        """A frame arrives; its ingress is over when this returns."""
        self.engine.rx(port, frame, time.monotonic_ns())
        self.host.wake(self.host.find("s1"))

    def close(self):
        self.run(self.host.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()
