"""Commands about action profiles: members, groups, and the entries of tables that refer to them."""

from __future__ import annotations

from switch.native.control.command_base import Lines, named
from switch.native.control.literals import LiteralError, key, number
from switch.native.control.profile_text import dumped, group_lines, member_lines, profile_of
from switch.native.control.table_commands import TableCommands, arguments_of
from switch.native.program import Action, Profile, Table


class ProfileCommands(TableCommands):
    """Members and groups have BMv2's handles, the lowest that is free."""

    # ---- members ----
    def do_act_prof_create_member(self, name: str, action: str, *words: str) -> Lines:
        """act_prof_create_member PROFILE ACTION [PARAMETER…]"""
        profile = self._profile(name)
        chosen = self._action_in(profile, action)
        arguments = arguments_of(chosen, list(words))
        handle = self._engine.member_add(profile.name, chosen.name, arguments)
        self._switch.profile_changed(profile.name)
        return [f"Member has been created with handle {handle}"]

    def do_act_prof_delete_member(self, name: str, member: str) -> Lines:
        """act_prof_delete_member PROFILE MEMBER"""
        profile = self._profile(name)
        self._engine.member_delete(profile.name, number(member, "member"))
        self._switch.profile_changed(profile.name)
        return []

    def do_act_prof_modify_member(self, name: str, action: str, member: str, *words: str) -> Lines:
        """act_prof_modify_member PROFILE ACTION MEMBER [=>] [PARAMETER…]"""
        profile = self._profile(name)
        chosen = self._action_in(profile, action)
        arguments = arguments_of(chosen, [word for word in words if word != "=>"])
        self._engine.member_modify(profile.name, number(member, "member"), chosen.name, arguments)
        self._switch.profile_changed(profile.name)
        return []

    # ---- groups ----
    def do_act_prof_create_group(self, name: str) -> Lines:
        """act_prof_create_group PROFILE"""
        profile = self._selector(name)
        handle = self._engine.group_add(profile.name)
        self._switch.profile_changed(profile.name)
        return [f"Group has been created with handle {handle}"]

    def do_act_prof_delete_group(self, name: str, group: str) -> Lines:
        """act_prof_delete_group PROFILE GROUP"""
        profile = self._selector(name)
        self._engine.group_delete(profile.name, number(group, "group"))
        self._switch.profile_changed(profile.name)
        return []

    def do_act_prof_add_member_to_group(self, name: str, member: str, group: str) -> Lines:
        """act_prof_add_member_to_group PROFILE MEMBER GROUP"""
        profile, added = self._selector(name), number(member, "member")
        slots = self._slots(profile, group)
        if any(slot[0] == added for slot in slots):
            raise LiteralError(f"member {added} is in the group already")
        self._set_group(profile, group, [*slots, (added, 1, True)])
        return []

    def do_act_prof_remove_member_from_group(self, name: str, member: str, group: str) -> Lines:
        """act_prof_remove_member_from_group PROFILE MEMBER GROUP"""
        profile, removed = self._selector(name), number(member, "member")
        slots = self._slots(profile, group)
        if all(slot[0] != removed for slot in slots):
            raise LiteralError(f"member {removed} is not in the group")
        self._set_group(profile, group, [slot for slot in slots if slot[0] != removed])
        return []

    # ---- what is there ----
    def do_act_prof_dump(self, name: str) -> Lines:
        """act_prof_dump PROFILE"""
        return dumped(self._engine, self._profile(name))

    def do_act_prof_dump_member(self, name: str, member: str) -> Lines:
        """act_prof_dump_member PROFILE MEMBER"""
        return member_lines(self._engine, self._profile(name), number(member, "member"))

    def do_act_prof_dump_group(self, name: str, group: str) -> Lines:
        """act_prof_dump_group PROFILE GROUP"""
        return group_lines(self._engine, self._selector(name), number(group, "group"))

    def do_table_dump_member(self, name: str, member: str) -> Lines:
        """table_dump_member TABLE MEMBER"""
        return member_lines(self._engine, self._profile_of(self._table(name)), number(member, "member"))

    def do_table_dump_group(self, name: str, group: str) -> Lines:
        """table_dump_group TABLE GROUP"""
        return group_lines(self._engine, self._profile_of(self._table(name)), number(group, "group"))

    # ---- entries of indirect tables ----
    def do_table_indirect_add(self, name: str, *words: str) -> Lines:
        """table_indirect_add TABLE KEY… => MEMBER [PRIORITY]"""
        return self._add_indirect(self._table(name), list(words), "member")

    def do_table_indirect_add_with_group(self, name: str, *words: str) -> Lines:
        """table_indirect_add_with_group TABLE KEY… => GROUP [PRIORITY]"""
        return self._add_indirect(self._table(name), list(words), "group")

    def do_table_indirect_delete(self, name: str, handle: str) -> Lines:
        """table_indirect_delete TABLE HANDLE"""
        table = self._table(name)
        self._profile_of(table)
        return self.do_table_delete(name, handle)

    def do_table_indirect_set_default(self, name: str, member: str) -> Lines:
        """table_indirect_set_default TABLE MEMBER"""
        table = self._table(name)
        self._engine.table_default_indirect(table.name, member=number(member, "member"))
        self._switch.table_changed(table.name)
        return []

    def do_table_indirect_set_default_with_group(self, name: str, group: str) -> Lines:
        """table_indirect_set_default_with_group TABLE GROUP"""
        table = self._table(name)
        self._engine.table_default_indirect(table.name, group=number(group, "group"))
        self._switch.table_changed(table.name)
        return []

    def do_table_indirect_reset_default(self, name: str) -> Lines:
        """table_indirect_reset_default TABLE"""
        self._profile_of(self._table(name))
        return self.do_table_reset_default(name)

    def _add_indirect(self, table: Table, words: list[str], what: str) -> Lines:
        self._profile_of(table)
        priority = self._priority(table, words)
        if len(words) < 2 or words[-2] != "=>":
            raise LiteralError(f"the key ends with => and the {what}'s handle")
        elements, handle = key(table, words[:-2]), number(words[-1], what)
        reference = {what: handle}
        added = self._engine.table_add_indirect(table.name, elements, priority=priority, **reference)
        self._switch.table_changed(table.name)
        return [
            f"Adding entry to indirect match table {table.name}",
            f"Entry has been added with handle {added}",
        ]

    # ---- inside ----
    def _profile(self, name: str) -> Profile:
        return self._program.profiles[named(self._program.profiles, name, "action profile")]

    def _selector(self, name: str) -> Profile:
        profile = self._profile(name)
        if profile.selector is None:
            raise LiteralError(f"action profile {profile.name} has no selector, so no groups")
        return profile

    @staticmethod
    def _action_in(profile: Profile, name: str) -> Action:
        actions = {action.name: action for table in profile.tables for action in table.actions}
        return actions[named(actions, name, f"action of action profile {profile.name}")]

    def _slots(self, profile: Profile, group: str) -> list[tuple[int, int, bool]]:
        found = self._engine.groups(profile.name).get(number(group, "group"))
        if found is None:
            raise LiteralError(f"action profile {profile.name} has no group {group}")
        return list(found)

    def _set_group(self, profile: Profile, group: str, slots: list[tuple[int, int, bool]]) -> None:
        self._engine.group_set(profile.name, number(group, "group"), sorted(slots))
        self._switch.profile_changed(profile.name)

    def _profile_of(self, table: Table) -> Profile:
        found = profile_of(self._engine, table)
        if found is None:
            raise LiteralError(f"table {table.name} is not indirect: its entries run actions themselves")
        return found
