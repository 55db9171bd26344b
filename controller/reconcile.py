"""Reconcile: the P4Runtime updates that turn what a switch holds into what it is meant to hold.

The order is safe for traffic: what others refer to comes first, what nothing refers to any more goes last, so that
at no moment a route points to a group, or a group to a member, that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from finsy.proto import p4r

Key = tuple[object, ...]

_ORDER = {"member": 0, "group": 1, "entry": 2, "default": 3, "clone": 4, "multicast": 5}


def updates(current: Iterable[p4r.Entity], desired: Sequence[p4r.Entity]) -> list[p4r.Update]:
    """Inserts and modifications in order of dependency, then deletions in the opposite one.

    Default actions cannot be read back from every server, so they are always written. Const entries do not belong
    in `current`. Raises ValueError when `desired` has one thing twice.
    """
    have = {key_of(entity): entity for entity in current}
    want: dict[Key, p4r.Entity] = {}
    for entity in desired:
        key = key_of(entity)
        if key in want:
            raise ValueError(f"two different values are meant for {key}")
        want[key] = entity
    result: list[p4r.Update] = []
    for key, entity in sorted(want.items(), key=lambda item: _ORDER[str(item[0][0])]):
        old = have.get(key)
        if key[0] == "default":
            if old is None or not _same(old, entity):
                result.append(p4r.Update(type=p4r.Update.MODIFY, entity=entity))
        elif old is None:
            result.append(p4r.Update(type=p4r.Update.INSERT, entity=entity))
        elif not _same(old, entity):
            result.append(p4r.Update(type=p4r.Update.MODIFY, entity=entity))
    stale = [(key, entity) for key, entity in have.items() if key not in want and key[0] != "default"]
    for _, entity in sorted(stale, key=lambda item: -_ORDER[str(item[0][0])]):
        result.append(p4r.Update(type=p4r.Update.DELETE, entity=entity))
    return result


def key_of(entity: p4r.Entity) -> Key:
    """What makes an entity the same one: kind, table, match and priority, or id."""
    kind = entity.WhichOneof("entity")
    if kind == "table_entry":
        entry = entity.table_entry
        if entry.is_default_action:
            return ("default", entry.table_id)
        return ("entry", entry.table_id, entry.priority, *sorted(_match(field) for field in entry.match))
    if kind == "action_profile_member":
        member = entity.action_profile_member
        return ("member", member.action_profile_id, member.member_id)
    if kind == "action_profile_group":
        group = entity.action_profile_group
        return ("group", group.action_profile_id, group.group_id)
    if kind == "packet_replication_engine_entry":
        replication = entity.packet_replication_engine_entry
        if replication.WhichOneof("type") == "clone_session_entry":
            return ("clone", replication.clone_session_entry.session_id)
        return ("multicast", replication.multicast_group_entry.multicast_group_id)
    raise ValueError(f"the controller does not manage P4Runtime entities of kind {kind}")


def _match(field: p4r.FieldMatch) -> tuple[object, ...]:
    kind = field.WhichOneof("field_match_type")
    if kind == "exact":
        return (field.field_id, kind, _number(field.exact.value))
    if kind == "lpm":
        return (field.field_id, kind, _number(field.lpm.value), field.lpm.prefix_len)
    if kind == "ternary":
        return (field.field_id, kind, _number(field.ternary.value), _number(field.ternary.mask))
    if kind == "range":
        return (field.field_id, kind, _number(field.range.low), _number(field.range.high))
    return (field.field_id, kind, _number(field.optional.value))


def _number(value: bytes) -> int:
    """Byte strings may or may not carry leading zeros; their values compare."""
    return int.from_bytes(value, "big")


def _same(a: p4r.Entity, b: p4r.Entity) -> bool:
    kind = a.WhichOneof("entity")
    if kind == "table_entry":
        return _actions(a.table_entry.action) == _actions(b.table_entry.action)
    if kind == "action_profile_member":
        return _action(a.action_profile_member.action) == _action(b.action_profile_member.action)
    if kind == "action_profile_group":
        return _members(a.action_profile_group) == _members(b.action_profile_group)
    return _replicas(a) == _replicas(b)


def _action(action: p4r.Action) -> tuple[object, ...]:
    return (action.action_id, *sorted((p.param_id, _number(p.value)) for p in action.params))


def _actions(action: p4r.TableAction) -> tuple[object, ...]:
    kind = action.WhichOneof("type")
    if kind == "action":
        return (kind, *_action(action.action))
    if kind == "action_profile_member_id":
        return (kind, action.action_profile_member_id)
    if kind == "action_profile_group_id":
        return (kind, action.action_profile_group_id)
    return (kind, action.SerializeToString(deterministic=True))


def _members(group: p4r.ActionProfileGroup) -> list[tuple[int, int]]:
    return sorted((member.member_id, member.weight) for member in group.members)


def _replicas(entity: p4r.Entity) -> object:
    replication = entity.packet_replication_engine_entry
    if replication.WhichOneof("type") == "clone_session_entry":
        entry = replication.clone_session_entry
        ports = sorted((_port(replica), replica.instance) for replica in entry.replicas)
        return (ports, entry.class_of_service, entry.packet_length_bytes)
    return sorted(
        (_port(replica), replica.instance) for replica in replication.multicast_group_entry.replicas
    )


def _port(replica: p4r.Replica) -> int:
    if replica.WhichOneof("port_kind") == "port":
        return _number(replica.port)
    return int(replica.egress_port)
