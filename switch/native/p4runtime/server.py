"""The gRPC face: P4Runtime's six calls on one port per device, all on one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import grpc
from finsy.proto import p4r, p4r_grpc
from grpc.aio import ServicerContext

from switch.native.p4runtime.carrier import Carrier
from switch.native.p4runtime.device import P4RuntimeDevice, Stream
from switch.native.p4runtime.errors import (
    INTERNAL,
    RESOURCE_EXHAUSTED,
    STATUS_DETAILS_KEY,
    BatchError,
    P4RuntimeError,
    grpc_code,
)
from switch.native.p4runtime.tls import Tls

API_VERSION = "1.4.1"
"""P4Runtime version served (Capabilities)."""
MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""A device configuration may be large; the specification recommends this limit."""

_log = logging.getLogger(__name__)


class AddressError(Exception):
    """The server's address cannot be listened on."""


class P4RuntimeServer:
    """The listening server of one device."""

    def __init__(
        self,
        device: P4RuntimeDevice,
        beside: Sequence[grpc.GenericRpcHandler] = (),
        carrier: Carrier | None = None,
    ) -> None:
        """`beside` are services on the same port; `carrier` says when messages arrive (at once without one)."""
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                # gRPC's default lets a second server share a port in silence.
                ("grpc.so_reuseport", 0),
            ]
        )
        self._servicer = _Servicer(device, carrier)
        p4r_grpc.add_P4RuntimeServicer_to_server(self._servicer, self._server)
        self._server.add_generic_rpc_handlers(tuple(beside))

    async def start(self, address: str, tls: Tls | None = None) -> str:
        """Listen on `host:port` (port 0: the system chooses); returns the actual `host:port`.

        Raises AddressError, TlsError.
        """
        host, _, port_text = address.rpartition(":")
        if not host or not port_text.isdecimal() or int(port_text) > 65535:
            raise AddressError(f"gRPC address {address!r} is not HOST:PORT")
        in_use = f"gRPC address {address} is in use or not local to this machine"
        if tls is not None:
            in_use += ", or certificate and key do not belong together"
        credentials = None if tls is None else tls.credentials()
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise AddressError(in_use) from error
        if port == 0:
            raise AddressError(in_use)
        await self._server.start()
        return f"{host}:{port}"

    async def stop(self, grace_s: float = 0.0) -> None:
        """Close the port and every stream."""
        await self._server.stop(grace_s)
        # gRPC says that calls are over before their handlers are; an event loop that ended now would cancel them.
        if self._servicer.streams:
            await asyncio.wait(self._servicer.streams)


class _Servicer(p4r_grpc.P4RuntimeServicer):
    """Turns calls into method calls on the device, and its exceptions into statuses."""

    def __init__(self, device: P4RuntimeDevice, carrier: Carrier | None) -> None:
        self._device = device
        self._carrier = carrier
        self.streams: set[asyncio.Task[None]] = set()
        """Handlers of the streams that are open."""

    async def Write(self, request: p4r.WriteRequest, context: ServicerContext) -> p4r.WriteResponse:
        try:
            async with self._arrived(context):
                await self._device.write(request)
        except Exception as error:
            await _abort(context, error)
        return p4r.WriteResponse()

    async def Read(
        self, request: p4r.ReadRequest, context: ServicerContext
    ) -> AsyncIterator[p4r.ReadResponse]:
        try:
            async with self._arrived(context):
                responses, failed = await self._device.read(request)
        except Exception as error:
            await _abort(context, error)
            return
        for response in responses:
            yield response
        if failed is not None:
            await _abort(context, failed)

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        try:
            async with self._arrived(context):
                await self._device.set_config(request)
        except Exception as error:
            await _abort(context, error)
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        try:
            async with self._arrived(context):
                config = self._device.get_config(request)
        except Exception as error:
            await _abort(context, error)
        return p4r.GetForwardingPipelineConfigResponse(config=config)

    async def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: ServicerContext
    ) -> p4r.CapabilitiesResponse:
        try:
            async with self._arrived(context):
                self._device.capabilities(request)
        except Exception as error:
            await _abort(context, error)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    async def StreamChannel(  # type: ignore[override]  # gRPC also takes a coroutine that writes itself
        self, requests: AsyncIterator[p4r.StreamMessageRequest], context: ServicerContext
    ) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self.streams.add(handler)
        handler.add_done_callback(self.streams.discard)
        channel = None if self._carrier is None else self._carrier.stream(context)
        stream = Stream() if channel is None else Stream(channel.post)
        writer = asyncio.create_task(_write_out((channel or stream).outgoing, context))
        taking = asyncio.create_task(
            self._take(stream, requests if channel is None else channel.arriving(requests))
        )
        stream.end = taking.cancel
        try:
            await asyncio.wait([taking])
            if taking.cancelled():
                raise P4RuntimeError(RESOURCE_EXHAUSTED, "the client leaves too many messages unread")
            await taking
        except Exception as error:
            writer.cancel()
            await _abort(context, error)
        finally:
            taking.cancel()
            self._device.leave(stream)
            writer.cancel()
            if channel is not None:
                channel.close()

    async def _take(self, stream: Stream, requests: AsyncIterator[p4r.StreamMessageRequest]) -> None:
        async for request in requests:
            self._device.receive(stream, request)

    def _arrived(self, context: ServicerContext) -> AbstractAsyncContextManager[object]:
        """Entered when a request has arrived."""
        return nullcontext() if self._carrier is None else self._carrier.request(context)


async def _write_out(messages: asyncio.Queue[p4r.StreamMessageResponse], context: ServicerContext) -> None:
    while True:
        await context.write(await messages.get())


async def _abort(context: ServicerContext, error: Exception) -> None:
    """End the call with the error's status; never returns.

    What is neither a refusal nor a broken connection is a fault of the switch: it is logged, and the device goes on.
    """
    if isinstance(error, BatchError):
        status = error.status()
        metadata = ((STATUS_DETAILS_KEY, status.SerializeToString()),)
        await context.abort(grpc_code(status.code), status.message, metadata)
    if isinstance(error, P4RuntimeError):
        await context.abort(grpc_code(error.code), error.message)
    _log.error("a request failed by a fault of the switch", exc_info=error)
    await context.abort(grpc_code(INTERNAL), f"a fault of the switch, see its log: {error!r}")
