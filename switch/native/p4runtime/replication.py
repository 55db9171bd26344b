"""The packet replication engine: multicast groups (with backup replicas) and clone sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from finsy.proto import p4r

from switch.native.binding import Engine
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    P4RuntimeError,
)
from switch.native.p4runtime.portmap import PortMap

MAX_GROUP_ID = 0xFFFF
"""v1model's mcast_grp is bit<16>."""
MAX_SESSION_ID = 0x7FFF
"""As simple_switch: clone session ids are 15 bits."""
MAX_INSTANCE = 0xFFFF
"""v1model's egress_rid is bit<16>."""


@dataclass
class _Replica:
    choices: tuple[tuple[int, int], ...]
    """(port, instance), the preferred one first, then its backups."""


@dataclass
class _Group:
    message: p4r.MulticastGroupEntry
    replicas: list[_Replica]


@dataclass
class _Session:
    message: p4r.CloneSessionEntry
    replicas: list[_Replica]


class Replication:
    """The multicast groups and clone sessions of one device."""

    def __init__(self, engine: Engine, ports: PortMap) -> None:
        self._engine = engine
        self._ports = ports
        self._groups: dict[int, _Group] = {}
        self._sessions: dict[int, _Session] = {}

    def write(self, update: int, entry: p4r.PacketReplicationEngineEntry) -> None:
        """Apply an INSERT, MODIFY or DELETE; raises P4RuntimeError."""
        kind = entry.WhichOneof("type")
        if kind == "multicast_group_entry":
            self._write_group(update, entry.multicast_group_entry)
        elif kind == "clone_session_entry":
            self._write_session(update, entry.clone_session_entry)
        else:
            raise P4RuntimeError(INVALID_ARGUMENT, "the replication entry is neither a group nor a session")

    def read(self, query: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """The group or session asked for; id 0 means all of the kind. Raises P4RuntimeError."""
        kind = query.WhichOneof("type")
        if kind == "multicast_group_entry":
            wanted = query.multicast_group_entry.multicast_group_id
            if wanted and wanted not in self._groups:
                raise P4RuntimeError(NOT_FOUND, f"there is no multicast group {wanted}")
            for group_id, group in self._groups.items():
                if wanted in (0, group_id):
                    yield p4r.PacketReplicationEngineEntry(multicast_group_entry=group.message)
        elif kind == "clone_session_entry":
            wanted = query.clone_session_entry.session_id
            if wanted and wanted not in self._sessions:
                raise P4RuntimeError(NOT_FOUND, f"there is no clone session {wanted}")
            for session_id, session in self._sessions.items():
                if wanted in (0, session_id):
                    yield p4r.PacketReplicationEngineEntry(clone_session_entry=session.message)
        else:
            raise P4RuntimeError(INVALID_ARGUMENT, "the replication entry is neither a group nor a session")

    def export(self) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """All of them, to insert elsewhere."""
        yield from self.read(
            p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
        )
        yield from self.read(p4r.PacketReplicationEngineEntry(clone_session_entry=p4r.CloneSessionEntry()))

    def clear(self) -> None:
        """Delete all of them."""
        for group_id in list(self._groups):
            self._engine.multicast_group_delete(group_id)
            del self._groups[group_id]
        for session_id in list(self._sessions):
            self._engine.clone_session_delete(session_id)
            del self._sessions[session_id]

    def port_changed(self, port: int) -> None:
        """A port went up or down: replicas that have a backup move to their best port that is up."""
        with self._engine.batch():
            for group_id, group in self._groups.items():
                if _depend(group.replicas, port):
                    self._engine.multicast_group_set(group_id, self._chosen(group.replicas))
            for session_id, session in self._sessions.items():
                if _depend(session.replicas, port):
                    self._set_session(session_id, session)

    def _write_group(self, update: int, entry: p4r.MulticastGroupEntry) -> None:
        group_id = entry.multicast_group_id
        _check_existence("multicast group", group_id, group_id in self._groups, update)
        if not 0 < group_id <= MAX_GROUP_ID:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"multicast group id {group_id} is not in 1..{MAX_GROUP_ID}"
            )
        if update == p4r.Update.DELETE:
            self._engine.multicast_group_delete(group_id)
            self._engine.journal.remove(self._groups, group_id)
            return
        replicas = self._replicas(f"multicast group {group_id}", entry.replicas)
        self._engine.multicast_group_set(group_id, self._chosen(replicas))
        kept = p4r.MulticastGroupEntry()
        kept.CopyFrom(entry)
        self._engine.journal.set(self._groups, group_id, _Group(kept, replicas))

    def _write_session(self, update: int, entry: p4r.CloneSessionEntry) -> None:
        session_id = entry.session_id
        _check_existence("clone session", session_id, session_id in self._sessions, update)
        if not 0 < session_id <= MAX_SESSION_ID:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"clone session id {session_id} is not in 1..{MAX_SESSION_ID}"
            )
        if update == p4r.Update.DELETE:
            self._engine.clone_session_delete(session_id)
            self._engine.journal.remove(self._sessions, session_id)
            return
        where = f"clone session {session_id}"
        if entry.class_of_service >= self._engine.priority_queues:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{where}: class_of_service {entry.class_of_service} is not in"
                f" 0..{self._engine.priority_queues - 1}",
            )
        if entry.packet_length_bytes < 0:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: packet_length_bytes is negative")
        kept = p4r.CloneSessionEntry()
        kept.CopyFrom(entry)
        session = _Session(kept, self._replicas(where, entry.replicas))
        self._set_session(session_id, session)
        self._engine.journal.set(self._sessions, session_id, session)

    def _set_session(self, session_id: int, session: _Session) -> None:
        self._engine.clone_session_set(
            session_id,
            self._chosen(session.replicas),
            truncate=session.message.packet_length_bytes,
            cls=session.message.class_of_service,
        )

    def _replicas(self, where: str, messages: Sequence[p4r.Replica]) -> list[_Replica]:
        replicas = []
        seen: set[tuple[int, int]] = set()
        for message in messages:
            choices = [self._replica(where, message)]
            for backup in message.backup_replicas:
                choice = self._ports.number(backup.port), _instance(where, backup.instance)
                if choice[0] in [port for port, _ in choices]:
                    raise P4RuntimeError(
                        INVALID_ARGUMENT, f"{where}: a replica and its backups share port {choice[0]}"
                    )
                choices.append(choice)
            for choice in choices:
                if choice in seen:
                    raise P4RuntimeError(
                        INVALID_ARGUMENT, f"{where}: port {choice[0]}, instance {choice[1]} is given twice"
                    )
                seen.add(choice)
            replicas.append(_Replica(tuple(choices)))
        return replicas

    def _replica(self, where: str, message: p4r.Replica) -> tuple[int, int]:
        kind = message.WhichOneof("port_kind")
        if kind is None:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a replica has no port")
        port = self._ports.number(message.port if kind == "port" else message.egress_port)
        return port, _instance(where, message.instance)

    def _chosen(self, replicas: Sequence[_Replica]) -> list[tuple[int, int]]:
        return [
            next((choice for choice in replica.choices if self._ports.is_up(choice[0])), replica.choices[0])
            for replica in replicas
        ]


def _depend(replicas: Sequence[_Replica], port: int) -> bool:
    """Whether where the replicas go depends on the port's state."""
    return any(len(r.choices) > 1 and port in [choice[0] for choice in r.choices] for r in replicas)


def _instance(where: str, instance: int) -> int:
    if instance > MAX_INSTANCE:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: instance {instance} is above {MAX_INSTANCE}")
    return instance


def _check_existence(what: str, number: int, exists: bool, update: int) -> None:
    if update == p4r.Update.INSERT and exists:
        raise P4RuntimeError(ALREADY_EXISTS, f"{what} {number} exists already")
    if update != p4r.Update.INSERT and not exists and number:
        raise P4RuntimeError(NOT_FOUND, f"there is no {what} {number}")
