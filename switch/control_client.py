"""A client of the native switch's control service (docs/switch.md): ports, queues, buffer, statistics, commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

SERVICE = "xoff.switch.v1.Control"
_TIMEOUT_S = 30.0


class ControlRefusedError(Exception):
    """The switch refused or does not answer; the message says why."""


class ControlClient:
    """A connection to one switch."""

    def __init__(
        self,
        address: str,
        *,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """`address` is the switch's P4Runtime `host:port`. With `ca`, the certificate that vouches for the switch,
        the connection is encrypted; `certificate` and `key` are shown to a switch that asks for them.

        Raises OSError when a file cannot be read.
        """
        self._address = address
        if ca is None:
            self._channel = grpc.insecure_channel(address)
        else:
            credentials = grpc.ssl_channel_credentials(
                ca.read_bytes(),
                None if key is None else key.read_bytes(),
                None if certificate is None else certificate.read_bytes(),
            )
            self._channel = grpc.secure_channel(address, credentials)

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def call(self, method: str, **request: Any) -> dict[str, Any]:
        """One call of the service. Raises ControlRefusedError."""
        try:
            answer = self._channel.unary_unary(f"/{SERVICE}/{method}")(
                json.dumps(request).encode(), timeout=_TIMEOUT_S
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise ControlRefusedError(
                    f"no switch answers at {self._address}: {error.details()}"
                ) from None
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise ControlRefusedError(f"what listens at {self._address} is no native switch") from None
            raise ControlRefusedError(str(error.details())) from None
        result: dict[str, Any] = json.loads(answer)
        return result

    def command(self, line: str) -> tuple[list[str], bool]:
        """A command of simple_switch_CLI: the lines it prints, and whether it succeeded."""
        answer = self.call("Command", line=line)
        return answer["lines"], answer["ok"]
