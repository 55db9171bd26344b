"""Action profiles and selectors: members, groups with weights and watched ports, and one-shot action sets.

P4Runtime lets a selector be programmed either by members and groups or by one-shot sets, not both at once. A
one-shot set is kept in the engine as a group with members of its own, and read back as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from finsy.proto import p4i, p4r

from switch.native.binding import Engine, EngineError
from switch.native.p4runtime.actions import call_of, message_of
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    P4RuntimeError,
)
from switch.native.p4runtime.info import Action, ActionRef, Info, find
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.translation import Translation

Watch = bytes | int | None
"""A watched port as the client wrote it: byte string, the deprecated number, or nothing."""


@dataclass
class _Member:
    action: Action
    arguments: tuple[int, ...]
    slot: int
    """Its place among the members: the lowest that was free, as BMv2 numbers them."""
    users: int = 0
    """Table entries and groups that refer to it."""


@dataclass
class _GroupMember:
    member: int
    weight: int
    """As written; 0 where the profile disallows weights."""
    watch: Watch
    port: int | None
    """The watched port, None = always active."""


@dataclass
class _Group:
    members: list[_GroupMember]
    max_size: int
    users: int = 0


@dataclass
class OneShot:
    """What a one-shot set became in the engine."""

    group: int
    members: tuple[int, ...]
    message: p4r.ActionProfileActionSet


@dataclass
class _Profile:
    message: p4i.ActionProfile
    actions: dict[int, ActionRef]
    members: dict[int, _Member] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    """Slots below the number of members ever held that are free: a heap."""
    groups: dict[int, _Group] = field(default_factory=dict)
    one_shots: dict[int, list[_GroupMember]] = field(default_factory=dict)
    """Members of the groups that one-shot sets became, by the engine's group id."""

    @property
    def name(self) -> str:
        return self.message.preamble.name


class Profiles:
    """The action profiles of one pipeline."""

    def __init__(self, info: Info, engine: Engine, translation: Translation, ports: PortMap) -> None:
        self._engine = engine
        self._translation = translation
        self._ports = ports
        self._profiles: dict[int, _Profile] = {}
        for profile_id, message in info.profiles.items():
            actions: dict[int, ActionRef] = {}
            for table_id in message.table_ids:
                if table_id in info.tables:
                    actions.update(info.tables[table_id].actions)
            self._profiles[profile_id] = _Profile(message, actions)

    # ---- members ----
    def insert_member(self, message: p4r.ActionProfileMember) -> None:
        """Add a member; raises P4RuntimeError."""
        profile = self._manual(message.action_profile_id)
        _check_id("member", message.member_id)
        if message.member_id in profile.members:
            raise P4RuntimeError(ALREADY_EXISTS, f"{profile.name} has a member {message.member_id} already")
        if profile.message.size and len(profile.members) >= profile.message.size:
            raise P4RuntimeError(
                RESOURCE_EXHAUSTED, f"{profile.name} is full: it holds {profile.message.size} members"
            )
        action, arguments = self._call(profile, message.action)
        self._engine.member_add(profile.name, action.name, arguments, message.member_id)
        slot = heappop(profile.released) if profile.released else len(profile.members)
        profile.members[message.member_id] = _Member(action, arguments, slot)

    def modify_member(self, message: p4r.ActionProfileMember) -> None:
        """Replace a member's action; raises P4RuntimeError."""
        profile = self._manual(message.action_profile_id)
        member = self._member(profile, message.member_id)
        action, arguments = self._call(profile, message.action)
        self._engine.member_modify(profile.name, message.member_id, action.name, arguments)
        member.action, member.arguments = action, arguments

    def delete_member(self, message: p4r.ActionProfileMember) -> None:
        """Delete a member that nothing refers to; raises P4RuntimeError."""
        profile = self._find(message.action_profile_id)
        member = self._member(profile, message.member_id)
        if member.users:
            raise P4RuntimeError(
                FAILED_PRECONDITION,
                f"{profile.name}: member {message.member_id} is still used by {member.users} groups or entries",
            )
        self._engine.member_delete(profile.name, message.member_id)
        heappush(profile.released, profile.members.pop(message.member_id).slot)

    def read_members(self, query: p4r.ActionProfileMember) -> Iterator[p4r.ActionProfileMember]:
        """The member asked for; id 0 means all, profile 0 all profiles. Raises P4RuntimeError."""
        for profile_id, profile in self._selected(query.action_profile_id):
            if query.member_id:
                self._member(profile, query.member_id)
            for member_id, member in profile.members.items():
                if query.member_id in (0, member_id):
                    yield p4r.ActionProfileMember(
                        action_profile_id=profile_id,
                        member_id=member_id,
                        action=message_of(member.action, member.arguments, self._translation),
                    )

    # ---- groups ----
    def insert_group(self, message: p4r.ActionProfileGroup) -> None:
        """Add a group of existing members; raises P4RuntimeError."""
        profile = self._manual(message.action_profile_id)
        self._check_selector(profile)
        _check_id("group", message.group_id)
        if message.group_id in profile.groups:
            raise P4RuntimeError(ALREADY_EXISTS, f"{profile.name} has a group {message.group_id} already")
        limit = profile.message.max_group_size
        if message.max_size < 0 or (limit and not 0 < message.max_size <= limit):
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{profile.name}: max_size {message.max_size} is not in 1..{limit}"
            )
        members = self._group_members(profile, message)
        self._engine.group_add(profile.name, self._in_order(profile, members), message.group_id)
        profile.groups[message.group_id] = _Group(members, message.max_size)
        self._count(profile, members, 1)

    def modify_group(self, message: p4r.ActionProfileGroup) -> None:
        """Replace a group's members; raises P4RuntimeError."""
        profile = self._manual(message.action_profile_id)
        group = self._group(profile, message.group_id)
        if message.max_size != group.max_size:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{profile.name}: max_size of group {message.group_id} is {group.max_size} and cannot change",
            )
        members = self._group_members(profile, message)
        self._engine.group_set(profile.name, message.group_id, self._in_order(profile, members))
        self._count(profile, group.members, -1)
        self._count(profile, members, 1)
        group.members = members

    def delete_group(self, message: p4r.ActionProfileGroup) -> None:
        """Delete a group that no entry refers to; raises P4RuntimeError."""
        profile = self._find(message.action_profile_id)
        group = self._group(profile, message.group_id)
        if group.users:
            raise P4RuntimeError(
                FAILED_PRECONDITION,
                f"{profile.name}: group {message.group_id} is still used by {group.users} table entries",
            )
        self._engine.group_delete(profile.name, message.group_id)
        self._count(profile, group.members, -1)
        del profile.groups[message.group_id]

    def read_groups(self, query: p4r.ActionProfileGroup) -> Iterator[p4r.ActionProfileGroup]:
        """The group asked for; id 0 means all, profile 0 all profiles. Raises P4RuntimeError."""
        for profile_id, profile in self._selected(query.action_profile_id):
            if query.group_id:
                self._group(profile, query.group_id)
            for group_id, group in profile.groups.items():
                if query.group_id not in (0, group_id):
                    continue
                message = p4r.ActionProfileGroup(
                    action_profile_id=profile_id, group_id=group_id, max_size=group.max_size
                )
                for member in group.members:
                    out = message.members.add(member_id=member.member, weight=member.weight)
                    if isinstance(member.watch, bytes):
                        out.watch_port = member.watch
                    elif member.watch is not None:
                        out.watch = member.watch
                yield message

    # ---- what table entries refer to ----
    def use_member(self, profile_id: int, member_id: int, change: int) -> None:
        """A table entry begins (+1) or ends (-1) to refer to a member; raises P4RuntimeError NOT_FOUND."""
        profile = self._manual(profile_id) if change > 0 else self._find(profile_id)
        self._member(profile, member_id).users += change

    def use_group(self, profile_id: int, group_id: int, change: int) -> None:
        """A table entry begins (+1) or ends (-1) to refer to a group; raises P4RuntimeError NOT_FOUND."""
        profile = self._manual(profile_id) if change > 0 else self._find(profile_id)
        self._check_selector(profile)
        self._group(profile, group_id).users += change

    def add_one_shot(
        self, profile_id: int, actions: dict[int, ActionRef], message: p4r.ActionProfileActionSet
    ) -> OneShot:
        """Make the members and the group of a one-shot set; raises P4RuntimeError."""
        profile = self._find(profile_id)
        self._check_selector(profile)
        if profile.members or profile.groups:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{profile.name} has members or groups; one-shot action sets cannot be mixed with them",
            )
        if message.action_selection_mode or message.size_semantics:
            raise P4RuntimeError(
                UNIMPLEMENTED, f"{profile.name}: this switch selects as the program's action selector says"
            )
        calls = []
        written: list[tuple[int, Watch, int | None]] = []
        for item in message.action_profile_actions:
            calls.append(call_of(actions, item.action, self._translation, where=profile.name, default=False))
            self._check_weight(profile, item.weight)
            watch, port = self._watch(item.WhichOneof("watch_kind"), item.watch_port, item.watch)
            written.append((item.weight, watch, port))
        self._check_size(profile, [weight for weight, _, _ in written], 0)
        members: list[_GroupMember] = []
        try:
            for (action, arguments), (weight, watch, port) in zip(calls, written, strict=True):
                member = self._engine.member_add(profile.name, action.name, arguments)
                members.append(_GroupMember(member, weight, watch, port))
            group = self._engine.group_add(profile.name, self._active(members))
        except EngineError:
            for made in members:
                self._engine.member_delete(profile.name, made.member)
            raise
        profile.one_shots[group] = members
        kept = p4r.ActionProfileActionSet()
        for item, (action, arguments) in zip(message.action_profile_actions, calls, strict=True):
            out = kept.action_profile_actions.add()
            out.CopyFrom(item)
            out.action.CopyFrom(message_of(action, arguments, self._translation))
        return OneShot(group, tuple(member.member for member in members), kept)

    def delete_one_shot(self, profile_id: int, one_shot: OneShot) -> None:
        """Remove what `add_one_shot` made, once no entry refers to it."""
        profile = self._profiles[profile_id]
        self._engine.group_delete(profile.name, one_shot.group)
        for member in one_shot.members:
            self._engine.member_delete(profile.name, member)
        del profile.one_shots[one_shot.group]

    def port_changed(self, port: int) -> None:
        """A port went up or down: members that watch it join or leave their groups."""
        for profile in self._profiles.values():
            for group_id, group in profile.groups.items():
                if any(member.port == port for member in group.members):
                    self._engine.group_set(profile.name, group_id, self._in_order(profile, group.members))
            for group_id, members in profile.one_shots.items():
                if any(member.port == port for member in members):
                    self._engine.group_set(profile.name, group_id, self._active(members))

    def _find(self, profile_id: int) -> _Profile:
        if profile_id not in self._profiles:
            find("action profile", {}, profile_id)
        return self._profiles[profile_id]

    def _manual(self, profile_id: int) -> _Profile:
        profile = self._find(profile_id)
        if profile.one_shots:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{profile.name} is programmed with one-shot action sets; members and groups cannot be mixed in",
            )
        return profile

    def _selected(self, profile_id: int) -> list[tuple[int, _Profile]]:
        if profile_id:
            return [(profile_id, self._find(profile_id))]
        return list(self._profiles.items())

    def _call(self, profile: _Profile, message: p4r.Action) -> tuple[Action, tuple[int, ...]]:
        if not message.action_id:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{profile.name}: the member's action is missing")
        return call_of(profile.actions, message, self._translation, where=profile.name, default=False)

    @staticmethod
    def _member(profile: _Profile, member_id: int) -> _Member:
        member = profile.members.get(member_id)
        if member is None:
            raise P4RuntimeError(NOT_FOUND, f"{profile.name} has no member {member_id}")
        return member

    @staticmethod
    def _group(profile: _Profile, group_id: int) -> _Group:
        group = profile.groups.get(group_id)
        if group is None:
            raise P4RuntimeError(NOT_FOUND, f"{profile.name} has no group {group_id}")
        return group

    @staticmethod
    def _check_selector(profile: _Profile) -> None:
        if not profile.message.with_selector:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{profile.name} is an action profile without selector: it has no groups"
            )

    def _group_members(self, profile: _Profile, message: p4r.ActionProfileGroup) -> list[_GroupMember]:
        members: list[_GroupMember] = []
        seen: set[int] = set()
        for item in message.members:
            self._member(profile, item.member_id)
            if item.member_id in seen:
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"{profile.name}: member {item.member_id} is in the group twice; use its weight",
                )
            seen.add(item.member_id)
            self._check_weight(profile, item.weight)
            watch, port = self._watch(item.WhichOneof("watch_kind"), item.watch_port, item.watch)
            members.append(_GroupMember(item.member_id, item.weight, watch, port))
        self._check_size(profile, [member.weight for member in members], message.max_size)
        return members

    @staticmethod
    def _check_weight(profile: _Profile, weight: int) -> None:
        if profile.message.weights_disallowed:
            if weight:
                raise P4RuntimeError(INVALID_ARGUMENT, f"{profile.name} takes no weights; leave weight at 0")
        elif weight < 1:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{profile.name}: weight {weight} must be at least 1")
        most = profile.message.sum_of_members.max_member_weight
        if profile.message.HasField("sum_of_members") and most and weight > most:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{profile.name}: weight {weight} is above {most}")

    @staticmethod
    def _check_size(profile: _Profile, weights: Sequence[int], max_size: int) -> None:
        if profile.message.HasField("sum_of_members"):
            size = len(weights)
        else:
            size = sum(max(1, weight) for weight in weights)
        if max_size and size > max_size:
            raise P4RuntimeError(
                RESOURCE_EXHAUSTED,
                f"{profile.name}: the group has size {size}, above its max_size {max_size}",
            )
        limit = profile.message.max_group_size
        if limit and size > limit:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{profile.name}: the group has size {size}, above max_group_size {limit}"
            )

    def _watch(self, kind: str | None, port: bytes, number: int) -> tuple[Watch, int | None]:
        if kind == "watch_port":
            return port, self._ports.existing(port)
        if kind == "watch":
            return number, self._ports.existing(number)
        return None, None

    def _in_order(self, profile: _Profile, members: Sequence[_GroupMember]) -> list[tuple[int, int, bool]]:
        """As the selector counts them: by the age of the members, however the group lists them (as BMv2 does)."""
        return self._active(sorted(members, key=lambda member: profile.members[member.member].slot))

    def _active(self, members: Sequence[_GroupMember]) -> list[tuple[int, int, bool]]:
        return [
            (member.member, max(1, member.weight), member.port is None or self._ports.is_up(member.port))
            for member in members
        ]

    @staticmethod
    def _count(profile: _Profile, members: Sequence[_GroupMember], change: int) -> None:
        for member in members:
            profile.members[member.member].users += change


def _check_id(what: str, number: int) -> None:
    if not number:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{what} id 0 is not valid")
