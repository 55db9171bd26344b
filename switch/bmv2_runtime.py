"""BMv2's Thrift runtime: the few calls that only it offers (egress queue depth and rate, registers).

simple_switch serves Thrift's binary protocol, unframed, with the service name before the method
(`simple_switch:set_egress_queue_rate`). Those calls take and return plain numbers, so this speaks them
directly and needs no generated code.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType

_VERSION_CALL = 0x80010001
_TYPE_REPLY = 2
_TYPE_EXCEPTION = 3
_STOP, _BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64 = 0, 2, 3, 4, 6, 8, 10
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
_FIXED = {_BOOL: 1, _BYTE: 1, _DOUBLE: 8, _I16: 2, _I32: 4, _I64: 8}

_Value = int | str


class Bmv2RuntimeError(Exception):
    """The runtime could not be reached or refused a call."""


class Bmv2Runtime:
    """A connection to one simple_switch's Thrift port."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout_s: float = 5.0) -> None:
        """Raises Bmv2RuntimeError when nothing answers there."""
        self._where = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise Bmv2RuntimeError(f"BMv2's Thrift port {self._where} does not answer: {error}") from error
        self._stream = self._socket.makefile("rb")
        self._sequence = 0

    def __enter__(self) -> Bmv2Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._socket.close()

    def set_queue_depth(self, packets: int, port: int | None = None, priority: int | None = None) -> None:
        """Capacity in packets of one egress queue, of all of a port, or of every port that already has one."""
        if port is None:
            self._simple_switch("set_all_egress_queue_depths", (_I32, packets))
        elif priority is None:
            self._simple_switch("set_egress_queue_depth", (_I32, port), (_I32, packets))
        else:
            self._simple_switch(
                "set_egress_priority_queue_depth", (_I32, port), (_I32, priority), (_I32, packets)
            )

    def set_queue_rate(
        self, packets_per_s: int, port: int | None = None, priority: int | None = None
    ) -> None:
        """Rate in packets/s of each egress queue (0 = unlimited), for the same choice of queues."""
        if port is None:
            self._simple_switch("set_all_egress_queue_rates", (_I64, packets_per_s))
        elif priority is None:
            self._simple_switch("set_egress_queue_rate", (_I32, port), (_I64, packets_per_s))
        else:
            self._simple_switch(
                "set_egress_priority_queue_rate", (_I32, port), (_I32, priority), (_I64, packets_per_s)
            )

    def elapsed_us(self) -> int:
        """Microseconds since the switch started: the epoch of its P4 timestamps."""
        value = self._simple_switch("get_time_elapsed_us")
        assert isinstance(value, int)
        return value

    def register_read(self, name: str, index: int) -> int:
        """One cell of a register array (context 0)."""
        value = self._call("standard", "bm_register_read", (_I32, 0), (_STRING, name), (_I32, index))
        assert isinstance(value, int)
        return value

    def register_write(self, name: str, index: int, value: int) -> None:
        """Write one cell of a register array (context 0)."""
        self._call("standard", "bm_register_write", (_I32, 0), (_STRING, name), (_I32, index), (_I64, value))

    def _simple_switch(self, method: str, *arguments: tuple[int, _Value]) -> _Value | None:
        return self._call("simple_switch", method, *arguments)

    def _call(self, service: str, method: str, *arguments: tuple[int, _Value]) -> _Value | None:
        self._sequence += 1
        name = f"{service}:{method}".encode()
        message = [struct.pack(">II", _VERSION_CALL, len(name)), name, struct.pack(">I", self._sequence)]
        for number, (kind, value) in enumerate(arguments, 1):
            message.append(struct.pack(">BH", kind, number))
            if isinstance(value, str):
                text = value.encode()
                message.append(struct.pack(">I", len(text)) + text)
            else:
                message.append(struct.pack(">q" if kind == _I64 else ">i", value))
        message.append(bytes([_STOP]))
        try:
            self._socket.sendall(b"".join(message))
            return self._reply(method)
        except (OSError, EOFError, struct.error) as error:
            raise Bmv2RuntimeError(f"{method} at {self._where} failed: {error}") from error

    def _reply(self, method: str) -> _Value | None:
        version, length = struct.unpack(">II", self._read(8))
        self._read(length + 4)
        kind = version & 0xFF
        if kind not in (_TYPE_REPLY, _TYPE_EXCEPTION):
            raise Bmv2RuntimeError(f"{method} at {self._where}: this is not a Thrift server's answer")
        result: _Value | None = None
        problem: str | None = None
        while (field_type := self._read(1)[0]) != _STOP:
            (number,) = struct.unpack(">H", self._read(2))
            value = self._value(field_type)
            if kind == _TYPE_EXCEPTION:
                problem = value if isinstance(value, str) else problem or "refused"
            elif number == 0:
                result = value
            else:
                problem = "refused (wrong port, index or name)"
        if problem is not None:
            raise Bmv2RuntimeError(f"{method} at {self._where}: {problem}")
        return result

    def _value(self, kind: int) -> _Value | None:
        if kind == _STRING:
            (length,) = struct.unpack(">I", self._read(4))
            return self._read(length).decode(errors="replace")
        if kind == _STRUCT:
            while (inner := self._read(1)[0]) != _STOP:
                self._read(2)
                self._value(inner)
            return None
        size = _FIXED.get(kind)
        if size is None:
            raise Bmv2RuntimeError(
                f"Thrift type {kind} in an answer of {self._where} is not one it should send"
            )
        return int.from_bytes(self._read(size), "big", signed=True)

    def _read(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) != count:
            raise EOFError("the switch closed the connection")
        return data
