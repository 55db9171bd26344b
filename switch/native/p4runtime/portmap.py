"""Port numbers as P4Runtime clients write them, and which of the ports are up."""

from __future__ import annotations

from switch.native.p4runtime import bytestrings
from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError

SDN_PORT_CPU = 0xFFFFFFFD
"""The CPU port's reserved SDN number (p4runtime.proto, `SdnPort`)."""
PORT_BITS = 9
"""v1model's port numbers."""


class PortMap:
    """The ports of one device."""

    def __init__(self, cpu_port: int) -> None:
        self._cpu_port = cpu_port
        self._up: dict[int, bool] = {}

    def set(self, port: int, up: bool) -> None:
        """A port exists and is up or down."""
        self._up[port] = up

    def forget(self, port: int) -> None:
        """A port is gone: it cannot be watched any more."""
        self._up.pop(port, None)

    def is_up(self, port: int) -> bool:
        """Whether the port exists and is up; the CPU port always is."""
        return port == self._cpu_port or self._up.get(port, False)

    def number(self, port: bytes | int) -> int:
        """The data-plane port number; any 9-bit number will do. Raises P4RuntimeError."""
        value = bytestrings.decode(port, 32, "port") if isinstance(port, bytes) else port
        if value == SDN_PORT_CPU:
            return self._cpu_port
        if not 0 <= value < 1 << PORT_BITS:
            raise P4RuntimeError(INVALID_ARGUMENT, f"port {value} is not a port number (0..511)")
        return value

    def existing(self, port: bytes | int) -> int:
        """As `number`, for a port that must be one of the device's. Raises P4RuntimeError."""
        value = self.number(port)
        if value not in self._up and value != self._cpu_port:
            raise P4RuntimeError(INVALID_ARGUMENT, f"the device has no port {value} to watch")
        return value
