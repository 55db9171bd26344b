"""One-shot action sets: kept in the engine as a group with members of its own, and read back as written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from switch.native.binding import Engine
from switch.native.p4runtime.actions import call_of, message_of
from switch.native.p4runtime.errors import UNIMPLEMENTED, P4RuntimeError
from switch.native.p4runtime.info import ActionRef
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.selection import Share, check_size, in_order, share_of
from switch.native.p4runtime.translation import Translation


@dataclass(frozen=True)
class OneShot:
    """What a one-shot set became in the engine."""

    group: int
    members: tuple[tuple[int, tuple[int, ...], Share], ...]
    """Engine's member, its numbers in the order of selection, its share."""
    message: p4r.ActionProfileActionSet


class OneShots:
    """The one-shot sets of one action selector."""

    def __init__(
        self, message: p4i.ActionProfile, engine: Engine, translation: Translation, ports: PortMap
    ) -> None:
        self._message = message
        self._engine = engine
        self._translation = translation
        self._ports = ports
        self._sets: dict[int, OneShot] = {}
        """By the engine's group."""

    def __bool__(self) -> bool:
        return bool(self._sets)

    @property
    def members(self) -> set[int]:
        """The engine's members that belong to one-shot sets."""
        return {member for found in self._sets.values() for member, _, _ in found.members}

    @property
    def groups(self) -> set[int]:
        """The engine's groups that are one-shot sets."""
        return set(self._sets)

    def add(self, actions: Mapping[int, ActionRef], message: p4r.ActionProfileActionSet) -> OneShot:
        """Make the members and the group of a set; raises P4RuntimeError, EngineError. To be called in a batch."""
        name = self._message.preamble.name
        if message.action_selection_mode or message.size_semantics:
            raise P4RuntimeError(
                UNIMPLEMENTED, f"{name}: this switch selects as the program's action selector says"
            )
        items = message.action_profile_actions
        calls = [
            call_of(actions, item.action, self._translation, where=name, default=False) for item in items
        ]
        shares = [share_of(self._message, self._ports, item) for item in items]
        check_size(self._message, shares, 0)
        members = []
        for (action, arguments), share in zip(calls, shares, strict=True):
            member = self._engine.member_add(name, action.name, arguments)
            copies = [self._engine.member_number_take(name) for _ in range(share.slots - 1)]
            members.append((member, (member, *copies), share))
        group = self._engine.group_add(name, in_order(members, self._ports))
        kept = p4r.ActionProfileActionSet()
        for item, (action, arguments) in zip(items, calls, strict=True):
            out = kept.action_profile_actions.add()
            out.CopyFrom(item)
            out.action.CopyFrom(message_of(action, arguments, self._translation))
        made = OneShot(group, tuple(members), kept)
        self._engine.journal.set(self._sets, group, made)
        return made

    def delete(self, one_shot: OneShot) -> None:
        """Remove what `add` made, once no entry refers to it."""
        name = self._message.preamble.name
        self._engine.group_delete(name, one_shot.group)
        for member, numbers, _ in one_shot.members:
            self._engine.member_delete(name, member)
            for copy in numbers[1:]:
                self._engine.member_number_give(name, copy)
        self._engine.journal.remove(self._sets, one_shot.group)

    def port_changed(self, port: int) -> None:
        """A port went up or down."""
        for group, made in self._sets.items():
            if _watched(port, [share for _, _, share in made.members]):
                self._engine.group_set(
                    self._message.preamble.name, group, in_order(made.members, self._ports)
                )


def _watched(port: int, shares: Sequence[Share]) -> bool:
    return any(share.port == port for share in shares)
