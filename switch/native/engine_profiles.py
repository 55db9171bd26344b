"""Action profiles of an engine, by name: members and groups.

What refers to what is counted here too, so that a batch of changes is refused before any of it reaches the engine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from switch.native import abi
from switch.native.engine_base import EngineBase
from switch.native.engine_types import EngineError, uint
from switch.native.journal import Numbers
from switch.native.program import Action, Profile, Program, Table

MAX_GROUP_SLOTS = 1 << 16
"""Sum of weights in a group (profiles.c)."""
MAX_ID = 1 << 20
"""Ids are below this (profiles.c)."""

GroupMember = tuple[int, int, bool]
"""Member, weight, whether it is active."""
Reference = tuple[bool, int]
"""Whether it is to a group, and the id."""


class EngineProfiles(EngineBase):
    """Members and groups."""

    _members: dict[str, dict[int, tuple[str, tuple[int, ...]]]]
    _groups: dict[str, dict[int, tuple[GroupMember, ...]]]
    _users: dict[str, dict[Reference, int]]
    _member_ids: dict[str, Numbers]
    _group_ids: dict[str, Numbers]

    def _forget_profiles(self, program: Program | None) -> None:
        names = [] if program is None else list(program.profiles)
        self._members = {name: {} for name in names}
        self._groups = {name: {} for name in names}
        self._users = {name: {} for name in names}
        self._member_ids = {name: Numbers(self.journal) for name in names}
        self._group_ids = {name: Numbers(self.journal) for name in names}

    @staticmethod
    def _args(action: Action, args: Sequence[int], room: int) -> Any:
        try:
            encoded = action.encode(list(args))
        except ValueError as error:
            raise EngineError("invalid", str(error)) from None
        return abi.words(encoded + [0] * (room - len(encoded)))

    @staticmethod
    def _action(owner: Table | Profile, name: str) -> Action:
        try:
            return owner.action(name)
        except ValueError as error:
            raise EngineError("invalid", str(error)) from None

    def _profile(self, name: str) -> Profile:
        profile = self.program.profiles.get(name)
        if profile is None:
            raise EngineError("not_found", f"there is no action profile '{name}'")
        return profile

    # ---- members ----
    def member_add(self, profile: str, action: str, args: Sequence[int], member: int | None = None) -> int:
        """Add a member (under an id of the caller's choice, or the lowest free one); returns its id.

        EngineError "exists", "full", "invalid".
        """
        p = self._profile(profile)
        chosen = self._action(p, action)
        words = self._args(chosen, args, p.arg_words)
        doing = f"adding a member to action profile '{profile}'"
        with self.batch():
            if len(self._members[profile]) >= p.size:
                raise EngineError("full", f"{doing}: there is no room for another one")
            number = self._number(self._member_ids[profile], member, doing)
            self._change(doing, abi.MEMBER_ADD, object=p.index, id=number, action=chosen.index, words=words)
            self.journal.set(self._members[profile], number, (action, tuple(args)))
        return number

    def member_modify(self, profile: str, member: int, action: str, args: Sequence[int]) -> None:
        """Replace the member's action for every entry and group that refers to it."""
        p = self._profile(profile)
        chosen = self._action(p, action)
        words = self._args(chosen, args, p.arg_words)
        with self.batch():
            self._known_member(p, member)
            self._change(
                f"modifying member {member} of action profile '{profile}'",
                abi.MEMBER_MODIFY,
                object=p.index,
                id=member,
                action=chosen.index,
                words=words,
            )
            self.journal.set(self._members[profile], member, (action, tuple(args)))

    def member_delete(self, profile: str, member: int) -> None:
        """EngineError "in_use" while an entry or group refers to it."""
        p = self._profile(profile)
        doing = f"deleting member {member} of action profile '{profile}'"
        with self.batch():
            self._known_member(p, member)
            if self.member_users(profile, member):
                raise EngineError("in_use", f"{doing}: others still refer to it")
            self._change(doing, abi.MEMBER_DELETE, object=p.index, id=member)
            self.journal.remove(self._members[profile], member)
            self._member_ids[profile].give(member)

    def members(self, profile: str) -> dict[int, tuple[str, tuple[int, ...]]]:
        """Action and arguments of each member, by id."""
        self._profile(profile)
        with self._control:
            return dict(self._members[profile])

    def member_number_take(self, profile: str) -> int:
        """Keep the lowest free id from being given to a member."""
        self._profile(profile)
        return self._member_ids[profile].take()

    def member_number_give(self, profile: str, number: int) -> None:
        """An id that was kept is free again."""
        self._member_ids[profile].give(number)

    def member_users(self, profile: str, member: int) -> int:
        """How many entries, defaults and groups refer to the member."""
        return self._users[profile].get((False, member), 0)

    # ---- groups ----
    def group_add(self, profile: str, members: Iterable[GroupMember] = (), group: int | None = None) -> int:
        """Add a group of (member, weight, active); returns its id."""
        p = self._profile(profile)
        doing = f"adding a group to action profile '{profile}'"
        with self.batch():
            number = self._number(self._group_ids[profile], group, doing)
            self._change(doing, abi.GROUP_ADD, object=p.index, id=number)
            self.journal.set(self._groups[profile], number, ())
            self.group_set(profile, number, members)
        return number

    def group_set(self, profile: str, group: int, members: Iterable[GroupMember]) -> None:
        """Replace the group's members at once: (member, weight, active)."""
        p = self._profile(profile)
        chosen = tuple(members)
        doing = f"members of group {group} of action profile '{profile}'"
        if sum(uint(weight, 32, "weight") for _, weight, _ in chosen) > MAX_GROUP_SLOTS:
            raise EngineError("full", f"{doing}: the sum of weights is {MAX_GROUP_SLOTS} at most")
        if any(not weight for _, weight, _ in chosen):
            raise EngineError("invalid", f"{doing}: a weight is 0")
        with self.batch():
            before = self._known_group(p, group)
            for member, _, _ in chosen:
                self._known_member(p, member)
            self._change(
                doing,
                abi.GROUP_SET,
                object=p.index,
                id=group,
                count=len(chosen),
                ints=abi.ints([member for member, _, _ in chosen]),
                weights=abi.ints([weight for _, weight, _ in chosen]),
                active=(ctypes.c_uint8 * max(1, len(chosen)))(*(int(active) for _, _, active in chosen)),
            )
            for member, _, _ in before:
                self._use(profile, False, member, -1)
            for member, _, _ in chosen:
                self._use(profile, False, member, 1)
            self.journal.set(self._groups[profile], group, chosen)

    def group_delete(self, profile: str, group: int) -> None:
        """EngineError "in_use" while an entry refers to it."""
        p = self._profile(profile)
        doing = f"deleting group {group} of action profile '{profile}'"
        with self.batch():
            for member, _, _ in self._known_group(p, group):
                self._use(profile, False, member, -1)
            if self.group_users(profile, group):
                raise EngineError("in_use", f"{doing}: others still refer to it")
            self._change(doing, abi.GROUP_DELETE, object=p.index, id=group)
            self.journal.remove(self._groups[profile], group)
            self._group_ids[profile].give(group)

    def groups(self, profile: str) -> dict[int, tuple[GroupMember, ...]]:
        """(member, weight, active) of each group, by id."""
        self._profile(profile)
        with self._control:
            return dict(self._groups[profile])

    def group_users(self, profile: str, group: int) -> int:
        """How many entries and defaults refer to the group."""
        return self._users[profile].get((True, group), 0)

    # ---- inside ----
    @staticmethod
    def _number(numbers: Numbers, asked: int | None, doing: str) -> int:
        if asked is None:
            return numbers.take()
        if not 0 <= asked < MAX_ID:
            raise EngineError("invalid", f"{doing}: id {asked} is not in 0..{MAX_ID - 1}")
        if not numbers.claim(asked):
            raise EngineError("exists", f"{doing}: there is one with id {asked} already")
        return asked

    def _known_member(self, profile: Profile, member: int) -> None:
        if member not in self._members[profile.name]:
            raise EngineError("not_found", f"action profile '{profile.name}' has no member {member}")

    def _known_group(self, profile: Profile, group: int) -> tuple[GroupMember, ...]:
        found = self._groups[profile.name].get(group)
        if found is None:
            raise EngineError("not_found", f"action profile '{profile.name}' has no group {group}")
        return found

    def _known(self, profile: Profile, reference: Reference) -> None:
        is_group, number = reference
        if is_group:
            self._known_group(profile, number)
        else:
            self._known_member(profile, number)

    def _use(self, profile: str, is_group: bool, number: int, change: int) -> None:
        users = self._users[profile]
        self.journal.set(users, (is_group, number), users.get((is_group, number), 0) + change)
