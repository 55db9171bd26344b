"""What a selector's group is made of: members with weights and watched ports, in the order in which a hash counts them.

The order is simple_switch_grpc's, so that the same hash picks the same member there: BMv2 numbers members by the
lowest number that is free and counts those of a group by number; a member of weight w has w numbers, its own and those
of w - 1 copies, which are made when a group first needs them and shared by groups (PI, `action_prof_mgr.cpp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from switch.native.engine_profiles import GroupMember
from switch.native.p4runtime.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, P4RuntimeError
from switch.native.p4runtime.portmap import PortMap

Watch = bytes | int | None
"""A watched port as the client wrote it: byte string, the deprecated number, or nothing."""


@dataclass(frozen=True)
class Share:
    """A member's part in a group."""

    weight: int
    """As written; 0 where the profile disallows weights."""
    watch: Watch
    port: int | None
    """The watched port, None = always active."""

    @property
    def slots(self) -> int:
        """How many of the group's slots it has."""
        return max(1, self.weight)


def share_of(
    profile: p4i.ActionProfile,
    ports: PortMap,
    item: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction,
) -> Share:
    """The share that a message describes; raises P4RuntimeError."""
    name, most = profile.preamble.name, profile.sum_of_members.max_member_weight
    if profile.weights_disallowed and item.weight:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{name} takes no weights; leave weight at 0")
    if not profile.weights_disallowed and item.weight < 1:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: weight {item.weight} must be at least 1")
    if profile.HasField("sum_of_members") and most and item.weight > most:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{name}: weight {item.weight} is above {most}")
    kind = item.WhichOneof("watch_kind")
    if kind == "watch_port":
        if item.watch_port:
            return Share(item.weight, item.watch_port, ports.existing(item.watch_port))
    elif kind == "watch" and item.watch:
        return Share(item.weight, item.watch, ports.existing(item.watch))
    return Share(item.weight, None, None)


def check_size(profile: p4i.ActionProfile, shares: Sequence[Share], max_size: int) -> None:
    """Raises P4RuntimeError when a group of these would be too large; `max_size` 0 = not limited by the client."""
    name, limit = profile.preamble.name, profile.max_group_size
    if profile.HasField("sum_of_members"):
        size = len(shares)
    else:
        size = sum(share.slots for share in shares)
    if max_size and size > max_size:
        raise P4RuntimeError(
            RESOURCE_EXHAUSTED, f"{name}: the group has size {size}, above its max_size {max_size}"
        )
    if limit and size > limit:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{name}: the group has size {size}, above max_group_size {limit}"
        )


def in_order(members: Iterable[tuple[int, Sequence[int], Share]], ports: PortMap) -> list[GroupMember]:
    """A group as the engine takes it, of (member, its numbers, its share)."""
    slots = [
        (number, member, share.port is None or ports.is_up(share.port))
        for member, numbers, share in members
        for number in numbers[: share.slots]
    ]
    return [(member, 1, active) for _, member, active in sorted(slots)]
