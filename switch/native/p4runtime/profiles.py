"""Action profiles and selectors: members, and groups of them.

P4Runtime's ids are any 32-bit numbers; the engine's are small, and those of members are BMv2's (`selection.py`).
P4Runtime lets a selector be programmed by members and groups or by one-shot sets (`oneshot.py`), not both at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from finsy.proto import p4i, p4r

from switch.native.binding import Engine
from switch.native.p4runtime.actions import call_of, message_of
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    P4RuntimeError,
)
from switch.native.p4runtime.info import Action, ActionRef, Info, find, named_action
from switch.native.p4runtime.oneshot import OneShot, OneShots
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.selection import Share, check_size, in_order, share_of
from switch.native.p4runtime.translation import Translation

_UNWATCHED = Share(1, None, None)


@dataclass(frozen=True)
class _Member:
    action: Action
    arguments: tuple[int, ...]
    numbers: tuple[int, ...]
    """The engine's number of it, then those of its copies."""


@dataclass(frozen=True)
class _Group:
    number: int
    """The engine's."""
    shares: Mapping[int, Share]
    """By member id, in the order in which they were written."""
    max_size: int


class _Profile:
    def __init__(
        self, message: p4i.ActionProfile, actions: dict[int, ActionRef], one_shots: OneShots
    ) -> None:
        self.message = message
        self.name: str = message.preamble.name
        self.actions = actions
        self.one_shots = one_shots
        self.members: dict[int, _Member] = {}
        self.groups: dict[int, _Group] = {}

    def member(self, member_id: int) -> _Member:
        member = self.members.get(member_id)
        if member is None:
            raise P4RuntimeError(NOT_FOUND, f"{self.name} has no member {member_id}")
        return member

    def group(self, group_id: int) -> _Group:
        group = self.groups.get(group_id)
        if group is None:
            raise P4RuntimeError(NOT_FOUND, f"{self.name} has no group {group_id}")
        return group

    def check_selector(self) -> None:
        if not self.message.with_selector:
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"{self.name} is an action profile without selector: it has no groups"
            )


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
            one_shots = OneShots(message, engine, translation, ports)
            self._profiles[profile_id] = _Profile(message, actions, one_shots)

    # ---- members ----
    def write_member(self, update: int, message: p4r.ActionProfileMember) -> None:
        """INSERT, MODIFY or DELETE; raises P4RuntimeError, EngineError. To be called in a batch."""
        if update == p4r.Update.DELETE:
            self._delete_member(message)
            return
        profile = self._manual(message.action_profile_id)
        _check_id("member", message.member_id)
        if update == p4r.Update.INSERT:
            if message.member_id in profile.members:
                raise P4RuntimeError(
                    ALREADY_EXISTS, f"{profile.name} has a member {message.member_id} already"
                )
            if profile.message.size and len(profile.members) >= profile.message.size:
                raise P4RuntimeError(
                    RESOURCE_EXHAUSTED, f"{profile.name} is full: it holds {profile.message.size} members"
                )
            action, arguments = self._call(profile, message.action)
            number = self._engine.member_add(profile.name, action.name, arguments)
            made = _Member(action, arguments, (number,))
        else:
            member = profile.member(message.member_id)
            action, arguments = self._call(profile, message.action)
            self._engine.member_modify(profile.name, member.numbers[0], action.name, arguments)
            made = replace(member, action=action, arguments=arguments)
        self._engine.journal.set(profile.members, message.member_id, made)

    def _delete_member(self, message: p4r.ActionProfileMember) -> None:
        profile = self._find(message.action_profile_id)
        number = profile.member(message.member_id).numbers[0]
        if self._engine.member_users(profile.name, number):
            raise P4RuntimeError(
                FAILED_PRECONDITION,
                f"{profile.name}: member {message.member_id} is still used by groups or entries",
            )
        self._engine.member_delete(profile.name, number)
        self._engine.journal.remove(profile.members, message.member_id)

    def read_members(self, query: p4r.ActionProfileMember) -> Iterator[p4r.ActionProfileMember]:
        """The member asked for; id 0 means all, profile 0 all profiles. Raises P4RuntimeError."""
        for profile_id, profile in self._selected(query.action_profile_id):
            chosen: Iterable[tuple[int, _Member]] = profile.members.items()
            if query.member_id and query.action_profile_id:
                chosen = [(query.member_id, profile.member(query.member_id))]
            for member_id, member in chosen:
                if query.member_id in (0, member_id):
                    yield p4r.ActionProfileMember(
                        action_profile_id=profile_id,
                        member_id=member_id,
                        action=message_of(member.action, member.arguments, self._translation),
                    )

    # ---- groups ----
    def write_group(self, update: int, message: p4r.ActionProfileGroup) -> None:
        """INSERT, MODIFY or DELETE; raises P4RuntimeError, EngineError. To be called in a batch."""
        if update == p4r.Update.DELETE:
            self._delete_group(message)
            return
        profile = self._manual(message.action_profile_id)
        profile.check_selector()
        _check_id("group", message.group_id)
        before: Mapping[int, Share] = {}
        if update == p4r.Update.INSERT:
            self._check_new_group(profile, message)
        else:
            group = profile.group(message.group_id)
            before = group.shares
            if message.max_size != group.max_size:
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"{profile.name}: max_size of group {message.group_id} is {group.max_size}"
                    " and cannot change",
                )
        shares = self._shares(profile, message)
        self._make_copies(profile, before, shares)
        members = self._engine_members(profile, shares)
        if update == p4r.Update.INSERT:
            number = self._engine.group_add(profile.name, members)
        else:
            number = group.number
            self._engine.group_set(profile.name, number, members)
        made = _Group(number, shares, message.max_size)
        self._engine.journal.set(profile.groups, message.group_id, made)
        self._drop_copies(profile, {*before, *shares})

    @staticmethod
    def _check_new_group(profile: _Profile, message: p4r.ActionProfileGroup) -> None:
        if message.group_id in profile.groups:
            raise P4RuntimeError(ALREADY_EXISTS, f"{profile.name} has a group {message.group_id} already")
        limit = profile.message.max_group_size
        if message.max_size < 0 or (limit and not 0 < message.max_size <= limit):
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{profile.name}: max_size {message.max_size} is not in {1 if limit else 0}..{limit or ''}",
            )

    def _delete_group(self, message: p4r.ActionProfileGroup) -> None:
        profile = self._find(message.action_profile_id)
        group = profile.group(message.group_id)
        if self._engine.group_users(profile.name, group.number):
            raise P4RuntimeError(
                FAILED_PRECONDITION,
                f"{profile.name}: group {message.group_id} is still used by table entries",
            )
        self._engine.group_delete(profile.name, group.number)
        self._engine.journal.remove(profile.groups, message.group_id)
        self._drop_copies(profile, group.shares)

    def read_groups(self, query: p4r.ActionProfileGroup) -> Iterator[p4r.ActionProfileGroup]:
        """The group asked for; id 0 means all, profile 0 all profiles. Raises P4RuntimeError."""
        for profile_id, profile in self._selected(query.action_profile_id):
            chosen: Iterable[tuple[int, _Group]] = profile.groups.items()
            if query.group_id and query.action_profile_id:
                chosen = [(query.group_id, profile.group(query.group_id))]
            for group_id, group in chosen:
                if query.group_id not in (0, group_id):
                    continue
                message = p4r.ActionProfileGroup(
                    action_profile_id=profile_id, group_id=group_id, max_size=group.max_size
                )
                for member_id, share in group.shares.items():
                    out = message.members.add(member_id=member_id, weight=share.weight)
                    if isinstance(share.watch, bytes):
                        out.watch_port = share.watch
                    elif share.watch is not None:
                        out.watch = share.watch
                yield message

    def export(self) -> Iterator[p4r.Entity]:
        """All members, then all groups, to INSERT elsewhere.

        Members come in the order of their numbers: elsewhere they get the same ones, unless some between have gone.
        """
        for profile_id, profile in self._profiles.items():
            for member_id, _ in sorted(profile.members.items(), key=lambda item: item[1].numbers):
                query = p4r.ActionProfileMember(action_profile_id=profile_id, member_id=member_id)
                for member in self.read_members(query):
                    yield p4r.Entity(action_profile_member=member)
        for group in self.read_groups(p4r.ActionProfileGroup()):
            yield p4r.Entity(action_profile_group=group)

    # ---- what table entries refer to ----
    def member_number(self, profile_id: int, member_id: int) -> int:
        """The engine's number of a member that an entry is to refer to; raises P4RuntimeError."""
        return self._manual(profile_id).member(member_id).numbers[0]

    def group_number(self, profile_id: int, group_id: int) -> int:
        """The engine's number of a group that an entry is to refer to; raises P4RuntimeError."""
        profile = self._manual(profile_id)
        profile.check_selector()
        return profile.group(group_id).number

    def member_id(self, profile_id: int, number: int) -> int:
        """P4Runtime's id of the engine's member."""
        members = self._profiles[profile_id].members
        return next(member_id for member_id, member in members.items() if member.numbers[0] == number)

    def group_id(self, profile_id: int, number: int) -> int:
        """P4Runtime's id of the engine's group."""
        groups = self._profiles[profile_id].groups
        return next(group_id for group_id, group in groups.items() if group.number == number)

    def add_one_shot(
        self, profile_id: int, actions: Mapping[int, ActionRef], message: p4r.ActionProfileActionSet
    ) -> OneShot:
        """Make a one-shot set; raises P4RuntimeError, EngineError. To be called in a batch."""
        profile = self._find(profile_id)
        profile.check_selector()
        if profile.members or profile.groups:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{profile.name} has members or groups; one-shot action sets cannot be mixed with them",
            )
        return profile.one_shots.add(actions, message)

    def delete_one_shot(self, profile_id: int, one_shot: OneShot) -> None:
        """Remove a one-shot set that no entry refers to any more."""
        self._profiles[profile_id].one_shots.delete(one_shot)

    def port_changed(self, port: int) -> None:
        """A port went up or down: members that watch it join or leave their groups."""
        with self._engine.batch():
            for profile in self._profiles.values():
                for group in profile.groups.values():
                    if any(share.port == port for share in group.shares.values()):
                        members = self._engine_members(profile, group.shares)
                        self._engine.group_set(profile.name, group.number, members)
                profile.one_shots.port_changed(port)

    def adopt(self, name: str) -> None:
        """Take over members and groups that were made or changed in the engine by other means.

        Their ids are the engine's numbers plus one, or the next that are free. Raises P4RuntimeError.
        """
        profile = next((p for p in self._profiles.values() if p.name == name), None)
        if profile is None:
            return
        own = profile.one_shots
        calls = {n: c for n, c in self._engine.members(name).items() if n not in own.members}
        known = {member.numbers[0]: member_id for member_id, member in profile.members.items()}
        for number in known.keys() - calls.keys():
            del profile.members[known.pop(number)]
        for number, (action_name, arguments) in calls.items():
            action = named_action(profile.actions, action_name, name)
            member_id = known.get(number) or _free_id(profile.members, number + 1)
            numbers = profile.members[member_id].numbers if number in known else (number,)
            profile.members[member_id] = _Member(action, arguments, numbers)
        groups = {n: g for n, g in self._engine.groups(name).items() if n not in own.groups}
        known = {group.number: group_id for group_id, group in profile.groups.items()}
        for number in known.keys() - groups.keys():
            del profile.groups[known.pop(number)]
        for number, slots in groups.items():
            group_id = known.get(number) or _free_id(profile.groups, number + 1)
            before = profile.groups.get(group_id)
            shares: dict[int, Share] = {}
            for member, _, _ in slots:
                member_id = next(i for i, m in profile.members.items() if m.numbers[0] == member)
                weight = shares[member_id].weight + 1 if member_id in shares else 1
                kept = _UNWATCHED if before is None else before.shares.get(member_id, _UNWATCHED)
                shares[member_id] = replace(kept, weight=weight)
            profile.groups[group_id] = _Group(number, shares, 0 if before is None else before.max_size)

    # ---- inside ----
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

    def _selected(self, profile_id: int) -> Sequence[tuple[int, _Profile]]:
        if profile_id:
            return [(profile_id, self._find(profile_id))]
        return list(self._profiles.items())

    def _call(self, profile: _Profile, message: p4r.Action) -> tuple[Action, tuple[int, ...]]:
        if not message.action_id:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{profile.name}: the member's action is missing")
        return call_of(profile.actions, message, self._translation, where=profile.name, default=False)

    def _shares(self, profile: _Profile, message: p4r.ActionProfileGroup) -> dict[int, Share]:
        shares: dict[int, Share] = {}
        for item in message.members:
            profile.member(item.member_id)
            if item.member_id in shares:
                raise P4RuntimeError(
                    INVALID_ARGUMENT,
                    f"{profile.name}: member {item.member_id} is in the group twice; use its weight",
                )
            shares[item.member_id] = share_of(profile.message, self._ports, item)
        check_size(profile.message, list(shares.values()), message.max_size)
        return shares

    def _engine_members(self, profile: _Profile, shares: Mapping[int, Share]) -> list[tuple[int, int, bool]]:
        members = [(profile.members[member_id], share) for member_id, share in shares.items()]
        return in_order(((m.numbers[0], m.numbers, share) for m, share in members), self._ports)

    def _make_copies(
        self, profile: _Profile, before: Mapping[int, Share], shares: Mapping[int, Share]
    ) -> None:
        """Numbers for the copies that the shares need, in the order in which PI makes them."""
        for member_id in sorted({*before, *shares}):
            share = shares.get(member_id)
            member = profile.members[member_id]
            missing = 0 if share is None else share.slots - len(member.numbers)
            if missing > 0:
                more = tuple(self._engine.member_number_take(profile.name) for _ in range(missing))
                made = replace(member, numbers=member.numbers + more)
                self._engine.journal.set(profile.members, member_id, made)

    def _drop_copies(self, profile: _Profile, member_ids: Iterable[int]) -> None:
        """Give back the numbers of copies that no group needs any more."""
        for member_id in sorted(member_ids):
            member = profile.members[member_id]
            needed = max(
                (g.shares[member_id].slots for g in profile.groups.values() if member_id in g.shares),
                default=1,
            )
            for number in reversed(member.numbers[needed:]):
                self._engine.member_number_give(profile.name, number)
            if needed < len(member.numbers):
                kept = replace(member, numbers=member.numbers[:needed])
                self._engine.journal.set(profile.members, member_id, kept)


def _check_id(what: str, number: int) -> None:
    if not number:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{what} id 0 is not valid")


def _free_id(taken: Mapping[int, object], first: int) -> int:
    while first in taken:
        first += 1
    return first
