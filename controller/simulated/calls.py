"""A controller's gRPC calls, accounted for: which it waits for, and what it sent and read on each stream.

The simulation compares this account with its own (xoff/clocks/exchange.py). Where both agree, nothing is on its way
between them: not in a socket, not in one of gRPC's threads. Each call carries its number as metadata, which also
gives calls that arrive together an order of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

CALL_METADATA = "xoff-call"
"""Metadata key of a call's number."""


RECONNECT = [(f"grpc.{which}_reconnect_backoff_ms", 100) for which in ("initial", "min", "max")]
"""Between attempts to reach a switch that is back: gRPC's own second would be one of waiting, on the wall clock."""


class Account:
    """What is open, and what was sent since the last look."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        """Addresses of switches that are not there."""
        self._connecting: list[str] = []
        """Addresses of channels that are waited for."""
        self._last = 0
        self._calls: dict[int, _Entry] = {}
        self._order: list[int] = []

    def open(self, address: str, wait_for_ready: bool, *, stream: bool) -> _Entry:
        """A call begins; it is over when the entry's `close` is called."""
        self._last += 1
        entry = _Entry(self, self._last, address, wait_for_ready, stream)
        self.keep(entry)
        if not stream:
            self._order.append(entry.number)
        return entry

    @contextmanager
    def connecting(self, address: str) -> Iterator[None]:
        """While the controller waits for a connection, which takes no simulated time where the switch is there."""
        self._connecting.append(address)
        try:
            yield
        finally:
            self._connecting.remove(address)

    def sent(self, entry: _Entry) -> None:
        """A message goes out on a stream."""
        entry.sent += 1
        self._order.append(entry.number)

    def keep(self, entry: _Entry) -> None:
        """A call is open, or somebody still waits for what it has to give."""
        self._calls[entry.number] = entry

    def forget(self, entry: _Entry) -> None:
        """A call is over, and nobody waits."""
        self._calls.pop(entry.number, None)

    def take(self) -> dict[str, Any]:
        """The account as plain data: open calls, and the order of what was sent since the last time."""
        order, self._order = self._order, []
        return {
            "order": order,
            "connecting": any(address not in self.down for address in self._connecting),
            "calls": {entry.number: entry.state() for entry in self._calls.values()},
        }


class _Entry:
    """One open call."""

    def __init__(self, account: Account, number: int, address: str, wait: bool, stream: bool) -> None:
        self.number = number
        self.sent = 0
        self.read = 0
        self.half_closed = False
        self._account = account
        self._alone = False
        self._reading = 0
        """How many wait for an answer."""
        self._writing = 0
        """How many wait until a message has been taken."""
        self._over = False
        """Its status is known. Messages that came before may not have been read yet: gRPC's threads tell of both."""
        self._fixed = {"to": address, "waits": wait, "stream": stream}

    def state(self) -> dict[str, Any]:
        """Plain data for the simulation."""
        return {
            **self._fixed,
            "sent": self.sent,
            "read": self.read,
            "reading": self._alone or self._reading > 0,
            "writing": self._writing > 0,
            "half_closed": self.half_closed,
        }

    def wait(self) -> None:
        """Its only answer comes with its status: it is waited for until it is over."""
        self._alone = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While the controller waits for what the call answers."""
        self._reading += 1
        self._account.keep(self)
        try:
            yield
        finally:
            self._reading -= 1
            self._settle()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the controller waits until gRPC has taken a message, which takes no simulated time."""
        self._writing += 1
        self._account.keep(self)
        try:
            yield
        finally:
            self._writing -= 1
            self._settle()

    def _settle(self) -> None:
        if self._over and not self._reading and not self._writing:
            self._account.forget(self)

    def send(self) -> None:
        """A message of a stream goes out."""
        self._account.sent(self)

    def close(self, *_: Any) -> None:
        """The call is over."""
        self._over = True
        self._settle()


def account_for_calls(account: Account) -> None:
    """From now on every channel of `grpc.aio` in this process is accounted for; blocking channels are refused."""
    make = grpc.aio.insecure_channel

    def insecure_channel(target: str, options: Any = None, *arguments: Any, **others: Any) -> Any:
        return _Channel(make(target, [*(options or ()), *RECONNECT], *arguments, **others), target, account)

    def blocking(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError(
            "in virtual time a controller waits for its switches in its event loop: "
            "use grpc.aio (or finsy, which does) instead of blocking gRPC calls"
        )

    grpc.aio.insecure_channel = insecure_channel
    grpc.insecure_channel = blocking
    grpc.secure_channel = blocking


class _Channel:
    """A channel whose calls are accounted for; everything else is the channel's own."""

    def __init__(self, channel: Any, address: str, account: Account) -> None:
        self._channel = channel
        self._address = address
        self._account = account

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def channel_ready(self) -> None:
        with self._account.connecting(self._address):
            await self._channel.channel_ready()

    async def __aenter__(self) -> _Channel:
        await self._channel.__aenter__()
        return self

    async def __aexit__(self, *arguments: Any) -> Any:
        return await self._channel.__aexit__(*arguments)

    def unary_unary(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        make = self._channel.unary_unary(*arguments, **options)

        def call(request: Any, **how: Any) -> Any:
            entry = self._open(how, stream=False)
            entry.wait()
            made = make(request, **how)
            made.add_done_callback(entry.close)
            return made

        return call

    def unary_stream(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        make = self._channel.unary_stream(*arguments, **options)

        def call(request: Any, **how: Any) -> Any:
            entry = self._open(how, stream=False)
            made = make(request, **how)
            made.add_done_callback(entry.close)
            return _Stream(made, entry)

        return call

    def stream_unary(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        raise NotImplementedError("P4Runtime has no calls of this kind")

    def stream_stream(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        make = self._channel.stream_stream(*arguments, **options)

        def call(requests: Any = None, **how: Any) -> Any:
            entry = self._open(how, stream=True)
            made = make(None if requests is None else _counted(requests, entry), **how)
            made.add_done_callback(entry.close)
            return _Stream(made, entry)

        return call

    def _open(self, how: dict[str, Any], *, stream: bool) -> _Entry:
        entry = self._account.open(self._address, bool(how.get("wait_for_ready")), stream=stream)
        if self._address not in self._account.down:
            # It is there: that gRPC has not noticed yet, or tries again only after a while, is not the controller's.
            how["wait_for_ready"] = True
        # A deadline would be one of the wall clock, which goes on while simulated time stands still.
        how.pop("timeout", None)
        how["metadata"] = (*(how.get("metadata") or ()), (CALL_METADATA, str(entry.number)))
        return entry


async def _counted(requests: Any, entry: _Entry) -> AsyncIterator[Any]:
    if hasattr(requests, "__aiter__"):
        async for request in requests:
            entry.send()
            with entry.writing():
                yield request
    else:
        for request in requests:
            entry.send()
            with entry.writing():
                yield request
    entry.half_closed = True


class _Stream:
    """A call with answers to be read one by one; everything that is not accounted for is the call's own."""

    def __init__(self, call: Any, entry: _Entry) -> None:
        self._call = call
        self._entry = entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    async def read(self) -> Any:
        with self._entry.reading():
            message = await self._call.read()
        if message is not grpc.aio.EOF:
            self._entry.read += 1
        return message

    async def write(self, request: Any) -> None:
        self._entry.send()
        with self._entry.writing():
            await self._call.write(request)

    async def done_writing(self) -> None:
        self._entry.half_closed = True
        with self._entry.writing():
            await self._call.done_writing()

    async def initial_metadata(self) -> Any:
        return await self._wait(self._call.initial_metadata)

    async def trailing_metadata(self) -> Any:
        return await self._wait(self._call.trailing_metadata)

    async def code(self) -> Any:
        return await self._wait(self._call.code)

    async def details(self) -> Any:
        return await self._wait(self._call.details)

    async def wait_for_connection(self) -> None:
        await self._wait(self._call.wait_for_connection)

    async def _wait(self, wanted: Callable[[], Awaitable[Any]]) -> Any:
        with self._entry.reading():
            return await wanted()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._answers()

    async def _answers(self) -> AsyncIterator[Any]:
        answers = self._call.__aiter__()
        while True:
            with self._entry.reading():
                try:
                    message = await answers.__anext__()
                except StopAsyncIteration:
                    return
            self._entry.read += 1
            yield message
