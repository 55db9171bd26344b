"""What passes between a controller's process and the switches of a virtual run, each message at its time.

Theory of operation. What a controller sends to a switch arrives `latency` later, what a switch sends arrives at once.
Simulated time stands still while the controller has anything to do, and it gets one thing at a time: a message,
an answer, or the time that one of its timers waited for.

That it has nothing to do is known, not guessed. Its process says so when its event loop would block, with an account of
its calls (controller/simulated/). When that account agrees with what was received and sent here, nothing is on the
way: each request that it waits for is held here, each stream message that it sent has come, and it has read all
that it was sent, or does not wait for more. Until then its word may be out of date, and another will come.

Order: what the controller sent is carried out by (time of arrival, order of sending); gRPC's own order, which differs
between runs, plays no part. Calls without a number (of a P4Runtime shell, say) pass at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from finsy.proto import p4r
from grpc.aio import ServicerContext

from controller.simulated.calls import CALL_METADATA
from xoff.errors import XoffError

REST_SECONDS = 60.0
"""Wall time within which a controller has nothing left to do; longer means that it does not come to rest."""


class Exchange:
    """The messages of one controller.

    `now` is simulated ns, `listening` says whether a switch serves an address, `drain` takes what switches report.
    """

    def __init__(
        self,
        latency_ns: int,
        now: Callable[[], int],
        listening: Callable[[str], bool],
        drain: Callable[[], None],
    ) -> None:
        self.ready = False
        """The controller has said that the traffic may begin."""
        self._latency = latency_ns
        self._now = now
        self._listening = listening
        self._drain = drain
        self._account: dict[str, Any] | None = None
        self._told = 0
        self._lines = 0
        """How many lines the process has been told."""
        self._changed = asyncio.Event()
        self._outbox: deque[tuple[_Channel, p4r.StreamMessageResponse]] = deque()
        self._held: dict[int, deque[_Held]] = {}
        """By number of the call or stream, in the order in which they came."""
        self._channels: dict[int, _Channel] = {}
        self._seen: set[int] = set()
        self._order: list[int] = []
        self._sequence = 0
        self._tell: Callable[[str], Awaitable[None]] | None = None
        self._failure: asyncio.Future[Any] | None = None

    def join(self, tell: Callable[[str], Awaitable[None]], failure: asyncio.Future[Any]) -> None:
        """The controller's process: how it is told a line, and what raises when it fails."""
        self._tell = tell
        self._failure = failure

    def heard(self, account: dict[str, Any]) -> None:
        """The process has nothing to do, as far as it knows."""
        account["calls"] = {int(number): call for number, call in account["calls"].items()}
        self._order += account["order"]
        self._account = account
        self.ready = self.ready or bool(account["ready"])
        self.stirred()

    async def tell(self, line: str) -> None:
        """Tell the process something (controller/user.py) that it has acted on before anything else happens."""
        assert self._tell is not None
        self._lines += 1
        await self._tell(line)

    def carrier(self) -> _Carrier:
        """The way between one switch and the controller."""
        return _Carrier(self)

    def next_wake(self) -> int | None:
        """When there is something to do even if no switch reports anything, simulated ns."""
        times = [held.due for queue in self._held.values() for held in queue]
        if self._account is not None and not self._account["ended"] and self._account["timer"] is not None:
            times.append(self._account["timer"])
        return min(times, default=None)

    async def settle(self, *, tell_time: bool = False) -> None:
        """Exchange what is due by now, until the controller has nothing left to do.

        With `tell_time` the controller knows the time when this returns, even
        if it had nothing to do: then what breaks a connection next breaks it at this time.
        """
        while True:
            await self._rest()
            self._drain()
            now = self._now()
            timer = self._account["timer"] if self._account is not None else None
            due = self._next_due(now)
            woken = bool(self._outbox or due or (timer is not None and timer <= now) or tell_time)
            if woken and self._told < now and not self._ended():
                self._told = now
                await self.tell(f"now {now}")
            elif self._outbox:
                channel, message = self._outbox.popleft()
                channel.deliver(message)
            elif due is not None:
                await self._carry_out(due)
            else:
                return

    def _ended(self) -> bool:
        return self._account is not None and bool(self._account["ended"])

    def _next_due(self, now: int) -> _Held | None:
        due = [held for queue in self._held.values() for held in queue if held.due <= now]
        return min(due, key=lambda held: (held.due, held.sequence), default=None)

    async def _carry_out(self, held: _Held) -> None:
        """Let it arrive, and wait until the switch has dealt with it; its answer is then on its way."""
        held.arrive()
        await held.dealt_with

    # -- rest

    async def _rest(self) -> None:
        """Until the controller has nothing left to do; XoffError when it fails or does not come to rest."""
        assert self._failure is not None
        try:
            await asyncio.wait_for(self._until_agreed(self._failure), REST_SECONDS)
        except asyncio.TimeoutError:
            raise XoffError(
                f"the controller has not come to rest within {REST_SECONDS:g} s: {self._disagreement()}. In virtual "
                "time it may wait for its switches and for asyncio's timers, nothing else."
            ) from None
        self._number()

    async def _until_agreed(self, failure: asyncio.Future[Any]) -> None:
        while self._disagreement():
            self._changed.clear()
            waiting = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((waiting, failure), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if failure.done():
                failure.result()

    def _disagreement(self) -> str:
        """What the controller's account and this one differ in, in words; empty when they agree."""
        account = self._account
        if account is None:
            return "it has not said anything yet"
        if account["ended"]:
            return ""
        if account["heard"] != self._lines:
            return "it computes, or waits for something else"
        if account["connecting"]:
            return "a connection that it waits for has not come up yet"
        for number, call in account["calls"].items():
            different = self._differs(number, call)
            if different:
                return different
        for number in (*self._channels, *self._held):
            if number not in account["calls"]:
                return "a call that it has given up has not ended yet"
        return ""

    def _differs(self, number: int, call: dict[str, Any]) -> str:
        channel = self._channels.get(number)
        if channel is not None:
            if (
                call["writing"]
                or channel.received != call["sent"]
                or call["half_closed"] != channel.half_closed
            ):
                return "a message to a switch has not come yet"
            if call["reading"] and channel.sent != call["read"]:
                return "it has not read a message of a switch yet"
            return ""
        if number in self._held:
            return ""
        if number in self._seen:
            return "it has not read an answer yet" if call["reading"] else ""
        if call["waits"] and not self._listening(call["to"]):
            return ""  # it waits for a switch that is not there
        return "a call to a switch has not come yet"

    def _number(self) -> None:
        """Give what came since the last rest its place, in the order in which the controller sent it."""
        for number in self._order:
            for held in self._held.get(number, ()):
                if held.sequence < 0:
                    held.sequence = self._sequence
                    self._sequence += 1
                    break
        self._order = []

    # -- for carriers

    def stirred(self) -> None:
        """Something came, went or ended."""
        self._changed.set()

    def hold(self, number: int) -> _Held:
        """Something came from the controller; it arrives at the switch `latency` later."""
        held = _Held(self._now() + self._latency)
        self._held.setdefault(number, deque()).append(held)
        self._seen.add(number)
        self.stirred()
        return held

    def release(self, number: int, held: _Held) -> None:
        """It has been dealt with, or will not be."""
        queue = self._held.get(number)
        if queue is not None and held in queue:
            queue.remove(held)
            if not queue:
                del self._held[number]
        held.done()
        self.stirred()

    def open(self, number: int, channel: _Channel) -> None:
        """A stream was opened."""
        self._channels[number] = channel
        self._seen.add(number)
        self.stirred()

    def close(self, number: int) -> None:
        """A stream is over."""
        self._channels.pop(number, None)
        self.stirred()

    def post(self, channel: _Channel, message: p4r.StreamMessageResponse) -> None:
        """A message for the controller; it gets it in its turn."""
        self._outbox.append((channel, message))


class _Held:
    """One request or message on its way to a switch."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.sequence = -1
        self._arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.dealt_with: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def arrival(self) -> None:
        """Return when it arrives."""
        await asyncio.shield(self._arrived)

    def arrive(self) -> None:
        """It is there."""
        if not self._arrived.done():
            self._arrived.set_result(None)

    def done(self) -> None:
        """The switch has dealt with it."""
        if not self.dealt_with.done():
            self.dealt_with.set_result(None)


class _Carrier:
    """`switch.native.p4runtime.carrier.Carrier` of one switch."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def request(self, context: ServicerContext) -> AbstractAsyncContextManager[object]:
        """As the protocol says."""
        number = _number_of(context)
        return nullcontext() if number is None else self._request(number)

    @asynccontextmanager
    async def _request(self, number: int) -> AsyncIterator[None]:
        held = self._exchange.hold(number)
        try:
            await held.arrival()
            yield
        finally:
            self._exchange.release(number, held)

    def stream(self, context: ServicerContext) -> _Channel | None:
        """As the protocol says."""
        number = _number_of(context)
        return None if number is None else _Channel(self._exchange, number)


class _Channel:
    """`switch.native.p4runtime.carrier.Channel`."""

    def __init__(self, exchange: Exchange, number: int) -> None:
        self.outgoing: asyncio.Queue[p4r.StreamMessageResponse] = asyncio.Queue()
        self.received = 0
        self.sent = 0
        self.half_closed = False
        """The controller will send no more."""
        self._exchange = exchange
        self._number = number
        self._arrivals: asyncio.Queue[tuple[_Held, p4r.StreamMessageRequest] | None] = asyncio.Queue()
        self._held: set[_Held] = set()
        self._closed = False
        self._pump: asyncio.Task[None] | None = None
        exchange.open(number, self)

    async def arriving(
        self, requests: AsyncIterator[p4r.StreamMessageRequest]
    ) -> AsyncIterator[p4r.StreamMessageRequest]:
        """As the protocol says."""
        self._pump = asyncio.create_task(self._take(requests))
        while (item := await self._arrivals.get()) is not None:
            held, request = item
            await held.arrival()
            yield request
            self._release(held)

    async def _take(self, requests: AsyncIterator[p4r.StreamMessageRequest]) -> None:
        async for request in requests:
            held = self._exchange.hold(self._number)
            self._held.add(held)
            self.received += 1
            self._arrivals.put_nowait((held, request))
        self.half_closed = True
        self._arrivals.put_nowait(None)
        self._exchange.stirred()

    def _release(self, held: _Held) -> None:
        self._held.discard(held)
        self._exchange.release(self._number, held)

    def post(self, message: p4r.StreamMessageResponse) -> None:
        """As the protocol says."""
        self._exchange.post(self, message)

    def deliver(self, message: p4r.StreamMessageResponse) -> None:
        """It is the message's turn; nobody is left to read it on a stream that is over."""
        if not self._closed:
            self.sent += 1
            self.outgoing.put_nowait(message)

    def close(self) -> None:
        """As the protocol says."""
        self._closed = True
        if self._pump is not None:
            self._pump.cancel()
        for held in list(self._held):
            self._release(held)
        self._exchange.close(self._number)


def _number_of(context: ServicerContext) -> int | None:
    """The number that the controller gave the call; None for a client that counts nothing."""
    for key, value in context.invocation_metadata() or ():
        if key == CALL_METADATA:
            return int(value)
    return None
