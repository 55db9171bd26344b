"""Action profiles as simple_switch_CLI prints them."""

from __future__ import annotations

from switch.native.binding import Engine
from switch.native.control.literals import LiteralError, plain
from switch.native.program import Profile, Table


def profile_of(engine: Engine, table: Table) -> Profile | None:
    """The profile of an indirect table."""
    profiles = engine.program.profiles.values()
    return next((profile for profile in profiles if profile.index == table.profile), None)


def dumped(engine: Engine, profile: Profile) -> list[str]:
    """All members, and all groups of a selector."""
    lines = ["==========", "MEMBERS"]
    for member in sorted(engine.members(profile.name)):
        lines += ["**********", *member_lines(engine, profile, member)]
    if profile.selector is not None:
        lines += ["==========", "GROUPS"]
        for group in sorted(engine.groups(profile.name)):
            lines += ["**********", *group_lines(engine, profile, group)]
    return lines


def member_lines(engine: Engine, profile: Profile, member: int) -> list[str]:
    """One member; raises LiteralError when there is none of that handle."""
    found = engine.members(profile.name).get(member)
    if found is None:
        raise LiteralError(f"action profile {profile.name} has no member {member}")
    data = ", ".join(plain(argument) for argument in found[1])
    return [f"Dumping member {member}", f"Action entry: {found[0]} - {data}"]


def group_lines(engine: Engine, profile: Profile, group: int) -> list[str]:
    """One group; raises LiteralError when there is none of that handle."""
    found = engine.groups(profile.name).get(group)
    if found is None:
        raise LiteralError(f"action profile {profile.name} has no group {group}")
    members = ", ".join(str(member) for member, _, _ in found)
    return [f"Dumping group {group}", f"Members: [{members}]"]
