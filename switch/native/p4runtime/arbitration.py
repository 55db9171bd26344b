"""Which controller may write: P4Runtime's client arbitration, without streams or time.

For each role the primary is the live client whose election id equals the highest id ever seen; all others
are backups (P4Runtime specification, "Client Arbitration and Controller Replication"). A client is any
hashable object that the caller uses for one open stream; the answers say which client to notify of what.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from finsy.proto import p4r, rpc_status

from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    P4RuntimeError,
)

MAX_STREAMS_PER_ROLE = 16
MAX_ROLES = 1024
"""Roles whose highest election id is remembered at most; of those without clients the oldest are forgotten then."""

Notification = tuple[Hashable, p4r.MasterArbitrationUpdate]


@dataclass
class _Role:
    name: str
    """Empty for the default role."""
    clients: dict[Hashable, int | None] = field(default_factory=dict)
    """Live clients in order of arrival, each with its election id (None = unset, never primary)."""
    highest: int | None = None
    """The highest election id a primary ever had."""

    def primary(self) -> Hashable | None:
        if self.highest is None:
            return None
        for client, election_id in self.clients.items():
            if election_id == self.highest:
                return client
        return None


class Arbitration:
    """The clients of one device."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[str, _Role] = {}
        self._role_of: dict[Hashable, str] = {}

    def update(self, client: Hashable, message: p4r.MasterArbitrationUpdate) -> list[Notification]:
        """Take a client's MasterArbitrationUpdate; returns the notifications to send, in order.

        Raises P4RuntimeError with the code that the stream is to be closed with.
        """
        name = message.role.name if message.HasField("role") else ""
        election_id = _number(message.election_id) if message.HasField("election_id") else None
        if client not in self._role_of:
            if message.device_id != self.device_id:
                raise P4RuntimeError(
                    NOT_FOUND, f"device {message.device_id} is not here; this is device {self.device_id}"
                )
        elif message.device_id != self.device_id:
            raise P4RuntimeError(FAILED_PRECONDITION, "a stream cannot change its device; open another one")
        elif name != self._role_of[client]:
            raise P4RuntimeError(FAILED_PRECONDITION, "a stream cannot change its role; open another one")
        if message.role.HasField("config"):
            # A role's configuration means what was agreed upon beforehand, and nothing was: every role has it all.
            raise P4RuntimeError(INVALID_ARGUMENT, "roles have no configuration here; leave it unset")
        role = self._roles.get(name) or self._new_role(name)
        for other, used in role.clients.items():
            if other != client and election_id is not None and used == election_id:
                raise P4RuntimeError(
                    INVALID_ARGUMENT, f"election id {election_id} is in use by another live controller"
                )
        if client not in role.clients and len(role.clients) >= MAX_STREAMS_PER_ROLE:
            raise P4RuntimeError(
                RESOURCE_EXHAUSTED, f"{MAX_STREAMS_PER_ROLE} controllers are already connected for this role"
            )
        before = role.primary()
        role.clients[client] = election_id
        self._role_of[client] = name
        if election_id is None or (role.highest is not None and election_id < role.highest):
            stepped_down = before == client
            return self._notify(list(role.clients) if stepped_down else [client])
        role.highest = election_id
        others = [other for other in role.clients if other != client]
        return self._notify([*others, client])

    def _new_role(self, name: str) -> _Role:
        if len(self._roles) >= MAX_ROLES:
            unused = next(
                (role.name for role in self._roles.values() if role.name and not role.clients), None
            )
            if unused is None:
                raise P4RuntimeError(RESOURCE_EXHAUSTED, f"there are {MAX_ROLES} roles already")
            del self._roles[unused]
        role = self._roles[name] = _Role(name)
        return role

    def leave(self, client: Hashable) -> list[Notification]:
        """A client's stream ended; returns the notifications for those that remain."""
        name = self._role_of.pop(client, None)
        if name is None:
            return []
        role = self._roles[name]
        was_primary = role.primary() == client
        del role.clients[client]
        return self._notify(list(role.clients)) if was_primary else []

    def primaries(self) -> list[Hashable]:
        """The primary of each role that has one: who receives packet-ins and digests."""
        return [client for role in self._roles.values() if (client := role.primary()) is not None]

    def is_primary(self, client: Hashable) -> bool:
        """Whether the client may send packets and acknowledgements."""
        name = self._role_of.get(client)
        return name is not None and self._roles[name].primary() == client

    def is_known(self, client: Hashable) -> bool:
        """Whether the client has introduced itself."""
        return client in self._role_of

    def check_write(self, role_name: str, election_id: p4r.Uint128 | None) -> None:
        """Whether a request with this role and election id may change the device.

        Without an election id and without any controller connected the request is accepted, as
        simple_switch_grpc does: scripts that only load a program need no stream. Raises P4RuntimeError.
        """
        role = self._roles.get(role_name)
        if role is None or (not role.clients and role.highest is None):
            if role_name:
                raise P4RuntimeError(NOT_FOUND, f"no controller has introduced role {role_name!r}")
            if election_id is None:
                return
            raise P4RuntimeError(PERMISSION_DENIED, "no controller is primary; open a StreamChannel first")
        if election_id is None and not role.clients:
            return
        if role.primary() is None or election_id is None or _number(election_id) != role.highest:
            raise P4RuntimeError(PERMISSION_DENIED, "only the primary controller may change this device")

    def told(self, client: Hashable) -> p4r.MasterArbitrationUpdate:
        """What a live client is told of its role now."""
        role = self._roles[self._role_of[client]]
        primary = role.primary()
        if client == primary:
            status = rpc_status.Status(code=OK, message="you are primary")
        elif primary is not None:
            status = rpc_status.Status(code=ALREADY_EXISTS, message="you are backup")
        else:
            status = rpc_status.Status(code=NOT_FOUND, message="there is no primary")
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id, status=status)
        if role.name:
            update.role.name = role.name
        if role.highest is not None:
            update.election_id.high = role.highest >> 64
            update.election_id.low = role.highest & (1 << 64) - 1
        return update

    def _notify(self, clients: list[Hashable]) -> list[Notification]:
        return [(client, self.told(client)) for client in clients]


def _number(election_id: p4r.Uint128) -> int:
    return (election_id.high << 64) | election_id.low
