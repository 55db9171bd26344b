"""One switch under control: connect, program, follow, and start again when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import finsy as fy
from finsy.p4entity import P4EntityList
from finsy.proto import p4r

from controller import queues, reconcile, routing, telemetry
from controller.counters import Cell, cells
from controller.intent import SwitchIntent
from controller.session import Session, SessionError

RETRY_SECONDS = 0.2
"""Between attempts to reach a switch that does not answer."""

OUT_SEND, OUT_START_TIMER, OUT_STOP_TIMER, OUT_RESET_PORT, OUT_RESUME_PORT = range(5)
"""Packet-out operations of p4src/constants.p4."""
_CONTROL_FRAME = bytes(48)
"""The timer packet is this with a 12-byte timer header: 60 bytes, the shortest frame."""

_EVERYTHING = (
    p4r.Entity(table_entry=p4r.TableEntry()),
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            clone_session_entry=p4r.CloneSessionEntry()
        )
    ),
)


def entities(intent: SwitchIntent) -> list[P4EntityList]:
    """Everything a switch is meant to hold."""
    return routing.entities(intent) + queues.entities(intent) + telemetry.entities(intent)


class Device:
    """One switch of the plan. `changed` is called whenever `ready` or `problem` changes."""

    def __init__(
        self,
        intent: SwitchIntent,
        address: str,
        schema: fy.P4Schema,
        emit: Callable[[dict[str, Any]], None],
        changed: Callable[[], None],
    ) -> None:
        self.intent = intent
        self.address = address
        self.problem: str | None = None
        """Why it is not ready, a sentence's second half; None when it is ready or has not been tried yet."""
        self.given_up = False
        """The problem is one that trying again does not solve."""
        self.ready = False
        self.programmed = 0
        """How many times it has been programmed: more than once after a restart."""
        self.packet_outs = 0
        """Packet-outs sent so far, over all sessions. They may still be on their way: nobody acknowledges them."""
        self.packet_ins = 0
        """Packet-ins handled so far, over all sessions."""
        self._schema = schema
        self._emit = emit
        self._changed = changed
        self._session: Session | None = None
        self._desired: list[p4r.Entity] = []
        self._lock = asyncio.Lock()
        self._reported: dict[Cell, tuple[int, int]] = {}

    @property
    def name(self) -> str:
        """The switch's name in the plan."""
        return self.intent.switch.name

    async def follow(self) -> None:
        """Keep the switch programmed until cancelled, or until a problem that trying again does not solve."""
        while not self.given_up:
            session = Session(
                self.address, self.intent.switch.device_id, self._schema, on_packet=self._packet_in
            )
            try:
                await session.open()
                await self._program(session)
                await session.run()
            except SessionError as error:
                self._set(ready=False, problem=str(error), given_up=error.lasting)
                if error.lasting and self.programmed:
                    text = f"{self.name}: {error}; its counters and reports are missing from here on"
                    self._emit({"kind": "note", "text": text})
            finally:
                self._session = None
                self.ready = False
                await session.close()
            await asyncio.sleep(RETRY_SECONDS)

    async def _program(self, session: Session) -> None:
        async with self._lock:
            await session.load_program()
            try:
                desired = session.encode(entities(self.intent))
            except ValueError as error:
                raise SessionError(
                    f"its program is not one that this controller can fill ({error})", lasting=True
                ) from error
            current = await session.read(_EVERYTHING)
            const = {table.id for table in self._schema.tables if table.is_const}
            current = [entity for entity in current if entity.table_entry.table_id not in const]
            await session.write(reconcile.updates(current, desired))
            self.packet_outs += 1
            await session.send_packet(_CONTROL_FRAME, **{"port": 0, "class": 0, "operation": OUT_START_TIMER})
            self._desired = desired
            self._session = session
            self._reported.clear()
            self.programmed += 1
        self._set(ready=True, problem=None)

    def _set(self, *, ready: bool, problem: str | None, given_up: bool = False) -> None:
        self.ready, self.problem, self.given_up = ready, problem, given_up
        self._changed()

    async def change(self, intent: SwitchIntent) -> None:
        """Make the switch hold `intent` from now on; one that is away gets it when it is back. SessionError."""
        if intent == self.intent:
            return
        async with self._lock:
            if self._session is not None:
                desired = self._session.encode(entities(intent))
                await self._session.write(reconcile.updates(self._desired, desired))
                self._desired = desired
            self.intent = intent

    async def operate(self, operation: int, port: int = 0) -> None:
        """Packet-out with an operation for the program; ignored by a switch that is away."""
        if self._session is not None:
            self.packet_outs += 1
            await self._session.send_packet(
                _CONTROL_FRAME, **{"port": port, "class": 0, "operation": operation}
            )

    async def laps(self) -> int:
        """Laps that the timer packet has made; 0 when the switch is away."""
        if self._session is None:
            return 0
        (entity,) = await self._session.read(self._session.encode([fy.P4CounterEntry("laps", index=0)]))
        return int(entity.counter_entry.data.packet_count)

    async def collect(self) -> None:
        """Emit a record for every counter cell whose value is not the one emitted last (0 at first)."""
        for cell, value in (await self.read_cells(cells(self.intent))).items():
            if value != self._reported.get(cell, (0, 0)):
                self._reported[cell] = value
                self._emit(cell.record(self.name, *value))

    async def read_cells(self, chosen: Iterable[Cell]) -> dict[Cell, tuple[int, int]]:
        """(packets, bytes) of counter cells; nothing when the switch is away. SessionError."""
        session = self._session
        if session is None:
            return {}
        wanted = {(self._schema.counters[cell.counter].id, cell.cell): cell for cell in chosen}
        replies = await session.read(
            [
                p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=counter, index=p4r.Index(index=index)))
                for counter, index in wanted
            ]
        )
        return {
            wanted[entry.counter_id, entry.index.index]: (entry.data.packet_count, entry.data.byte_count)
            for entry in (reply.counter_entry for reply in replies)
        }

    def _packet_in(self, payload: bytes, metadata: dict[str, Any]) -> None:
        self.packet_ins += 1
        self._changed()
        if metadata.get("reason") != telemetry.INT_REPORT:
            return
        try:
            record = telemetry.parse_report(payload)
        except telemetry.ReportError as error:
            self._emit({"kind": "note", "text": f"{self.name}: {error}"})
            return
        self._emit({**record, "node": self.name})
