"""What carries P4Runtime's messages where time is simulated: it says when each of them arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from finsy.proto import p4r
from grpc.aio import ServicerContext


class Channel(Protocol):
    """One StreamChannel."""

    outgoing: asyncio.Queue[p4r.StreamMessageResponse]
    """What is to be written to the client now."""

    def arriving(
        self, requests: AsyncIterator[p4r.StreamMessageRequest]
    ) -> AsyncIterator[p4r.StreamMessageRequest]:
        """What the client sent, each message when it arrives; asking for the next means that the last is dealt with."""

    def post(self, message: p4r.StreamMessageResponse) -> None:
        """Take a message to the client: it comes out of `outgoing` in its turn."""

    def close(self) -> None:
        """The stream is over."""


class Carrier(Protocol):
    """The way between one switch and its clients."""

    def request(self, context: ServicerContext) -> AbstractAsyncContextManager[object]:
        """Entered when a request of any other call arrives, left when the switch has dealt with it."""

    def stream(self, context: ServicerContext) -> Channel | None:
        """A stream is opened; None: its messages arrive at once."""
