"""One P4Runtime session with one switch: arbitration, pipeline, writes, reads, packets.

It sits on finsy's client and schema rather than on `finsy.Switch`: a fabric has many switches with one program, so
the schema is shared, and a switch that restarts must be programmed again within a second, without back-off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import finsy as fy
from finsy.p4entity import P4EntityList, encode_entities
from finsy.proto import U128, p4r

UPDATES_PER_WRITE = 500

PacketHandler = Callable[[bytes, dict[str, Any]], None]
"""Called with a packet-in's payload and its metadata by name."""


class SessionError(Exception):
    """The switch refused or went away; the text is a sentence without the switch's name."""

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting
        """Trying again as before cannot help."""


def pipeline_schema(p4info: Any, program: Any) -> fy.P4Schema:
    """The schema that all sessions of one program share (paths of P4Info text and BMv2 JSON)."""
    return fy.P4Schema(p4info, program)


class Session:
    """A connection on which this controller is the primary.

    Not reusable: after `run` has ended, make another.
    """

    def __init__(
        self, address: str, device_id: int, schema: fy.P4Schema, on_packet: PacketHandler | None = None
    ) -> None:
        self._device_id = device_id
        self._schema = schema
        self._on_packet = on_packet
        # Later controllers outrank earlier ones, so that one that was killed never keeps its successor out.
        self._election_id = time.time_ns()
        self._client = fy.P4Client(address, wait_for_ready=False)

    async def open(self) -> None:
        """Connect and become primary."""
        await self._client.open(schema=self._schema, complete_request=self._complete)
        try:
            await self._client.send(
                p4r.StreamMessageRequest(
                    arbitration=p4r.MasterArbitrationUpdate(
                        device_id=self._device_id, election_id=U128.encode(self._election_id)
                    )
                )
            )
            while True:
                message = await self._client.receive()
                if message.WhichOneof("update") == "arbitration":
                    break
        except fy.P4ClientError as error:
            raise _session_error(error) from error
        except RuntimeError as error:
            raise SessionError("it closed the connection", lasting=False) from error
        if message.arbitration.status.code != 0:
            raise SessionError(
                "another controller with a higher election id is in charge of it", lasting=True
            )

    async def close(self) -> None:
        """Disconnect; the switch keeps what it was programmed with."""
        await self._client.close()

    async def run(self) -> None:
        """Take packet-ins until the switch goes away (SessionError)."""
        try:
            while True:
                self._handle(await self._client.receive())
        except fy.P4ClientError as error:
            raise _session_error(error) from error
        except RuntimeError as error:
            raise SessionError("it closed the connection", lasting=False) from error

    def _handle(self, message: p4r.StreamMessageResponse) -> None:
        kind = message.WhichOneof("update")
        if kind == "packet" and self._on_packet is not None:
            metadata = self._schema.controller_packet_metadata["packet_in"].decode(message.packet.metadata)
            self._on_packet(message.packet.payload, metadata)
        elif kind == "arbitration" and message.arbitration.status.code != 0:
            raise SessionError("another controller has taken charge of it", lasting=True)

    async def load_program(self) -> bool:
        """Install the program unless the switch says it already runs this very one; True when it was installed."""
        try:
            reply = await self._client.request(
                p4r.GetForwardingPipelineConfigRequest(
                    device_id=self._device_id,
                    response_type=p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY,
                )
            )
            if reply.config.cookie.cookie == self._schema.p4cookie:
                return False
        except fy.P4ClientError as error:
            if error.code != fy.GRPCStatusCode.FAILED_PRECONDITION:
                raise _session_error(error) from error
        try:
            await self._client.request(
                p4r.SetForwardingPipelineConfigRequest(
                    device_id=self._device_id,
                    action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                    config=self._schema.get_pipeline_config(),
                )
            )
        except fy.P4ClientError as error:
            raise _session_error(error) from error
        return True

    def encode(self, entities: Iterable[P4EntityList]) -> list[p4r.Entity]:
        """Protobuf entities, by the names of P4Info. ValueError on a name or value that it does not have."""
        return encode_entities(entities, self._schema)

    async def read(self, wanted: Sequence[p4r.Entity]) -> list[p4r.Entity]:
        """Entities that match any of `wanted` (an empty id is a wildcard)."""
        result: list[p4r.Entity] = []
        request = p4r.ReadRequest(device_id=self._device_id, entities=wanted)
        try:
            async for reply in self._client.request_iter(request):
                result += reply.entities
        except fy.P4ClientError as error:
            raise _session_error(error) from error
        return result

    async def write(self, updates: Sequence[p4r.Update]) -> None:
        """Apply in order, in as few requests as reasonable."""
        for start in range(0, len(updates), UPDATES_PER_WRITE):
            batch = updates[start : start + UPDATES_PER_WRITE]
            try:
                await self._client.request(p4r.WriteRequest(device_id=self._device_id, updates=batch))
            except fy.P4ClientError as error:
                raise _session_error(error, batch, self._schema) from error

    async def send_packet(self, payload: bytes, **metadata: int) -> None:
        """Packet-out with the program's packet-out header fields."""
        try:
            await self._client.send(fy.P4PacketOut(payload, **metadata).encode_update(self._schema))
        except fy.P4ClientError as error:
            raise _session_error(error) from error

    def _complete(self, message: Any) -> None:
        if isinstance(message, (p4r.WriteRequest, p4r.SetForwardingPipelineConfigRequest)):
            message.election_id.CopyFrom(U128.encode(self._election_id))


def _session_error(
    error: fy.P4ClientError, batch: Sequence[p4r.Update] = (), schema: fy.P4Schema | None = None
) -> SessionError:
    lasting = error.code not in (
        fy.GRPCStatusCode.UNAVAILABLE,
        fy.GRPCStatusCode.CANCELLED,
        fy.GRPCStatusCode.DEADLINE_EXCEEDED,
    )
    text = error.message or error.code.name
    for index, detail in error.details.items():
        text = detail.message or detail.canonical_code.name
        if index < len(batch) and schema is not None:
            text = f"{_describe(batch[index], schema)}: {text}"
        break
    return SessionError(f"{error.code.name.lower()}: {text}", lasting=lasting)


def _describe(update: p4r.Update, schema: fy.P4Schema) -> str:
    verb = p4r.Update.Type.Name(update.type).lower()
    kind = str(update.entity.WhichOneof("entity")).replace("_", " ")
    if update.entity.WhichOneof("entity") == "table_entry":
        entry = update.entity.table_entry
        return f"{verb} of an entry of table {schema.tables[entry.table_id].alias}"
    return f"{verb} of a {kind}"
