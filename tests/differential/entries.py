"""Random, valid P4Runtime updates for a program: what a controller could have written before the packets come."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from finsy.proto import p4i, p4r

from tests.differential.document import Document, Place
from tests.differential.packets import Values

ENTRIES = 10
"""Entries tried for each table."""
GROUPS = (1, 2, 3)
INSERT, MODIFY = p4r.Update.INSERT, p4r.Update.MODIFY


def canonical(value: int) -> bytes:
    """P4Runtime's byte string of a number."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


class Entries:
    """Makes updates from P4Info; the values that keys match are added to `values`."""

    def __init__(
        self, info: p4i.P4Info, document: Document, values: Values, random: Random, ports: tuple[int, ...]
    ) -> None:
        self.info = info
        self.document = document
        self.values = values
        self.random = random
        self.ports = ports
        self.actions = {a.preamble.id: a for a in info.actions}
        self.profiles = {p.preamble.id: p for p in info.action_profiles}
        self.tables = {t["name"]: t for p in document.root["pipelines"] for t in p["tables"]}
        self.sessions = sorted({1, 2, 3, *document.clone_sessions()})
        self.members: dict[int, list[int]] = {}
        self.groups: dict[int, list[int]] = {}

    def learn(self, update: p4r.Update) -> None:
        """Remember the values that an entry of somebody else's matches."""
        entry = update.entity.table_entry
        table = next((t for t in self.info.tables if t.preamble.id == entry.table_id), None)
        described = self.tables.get(table.preamble.name) if table is not None else None
        if table is None or described is None:
            return
        places = {
            match.id: (key["target"][0], key["target"][1])
            for match, key in zip(table.match_fields, described["key"], strict=False)
        }
        for match in entry.match:
            kind = match.WhichOneof("field_match_type")
            value = match.range.low if kind == "range" else getattr(match, kind or "exact").value
            self.values.add(places[match.field_id], int.from_bytes(value, "big"))

    def updates(self) -> Iterator[p4r.Update]:
        """Every update, in an order in which they can be written."""
        yield from self._replication()
        for profile in self.info.action_profiles:
            yield from self._profile(profile)
        for table in self.info.tables:
            yield from self._table(table)
        for meter in self.info.meters:
            for index in range(min(meter.size, 16)):
                config = self._meter()
                entry = p4r.MeterEntry(meter_id=meter.preamble.id, config=config)
                entry.index.index = index
                yield p4r.Update(type=MODIFY, entity=p4r.Entity(meter_entry=entry))
        for digest in self.info.digests:
            entry = p4r.DigestEntry(digest_id=digest.preamble.id)
            entry.config.max_list_size = 1
            yield p4r.Update(type=INSERT, entity=p4r.Entity(digest_entry=entry))

    def _replication(self) -> Iterator[p4r.Update]:
        r = self.random
        uses = self.document.uses
        for group in GROUPS:
            entry = p4r.PacketReplicationEngineEntry()
            entry.multicast_group_entry.multicast_group_id = group
            self._replicas(entry.multicast_group_entry.replicas, r.choice([1, 2, 3]))
            update = p4r.Update(type=INSERT)
            update.entity.packet_replication_engine_entry.CopyFrom(entry)
            yield update
        if not uses(
            "clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress", "clone_ingress_pkt_to_ingress"
        ):
            return
        for session in self.sessions:
            entry = p4r.PacketReplicationEngineEntry()
            entry.clone_session_entry.session_id = session
            self._replicas(entry.clone_session_entry.replicas, r.choice([1, 1, 2]))
            update = p4r.Update(type=INSERT)
            update.entity.packet_replication_engine_entry.CopyFrom(entry)
            yield update

    def _replicas(self, replicas: object, count: int) -> None:
        # Instances ascend with the ports: PI regroups the replicas by instance.
        for instance, port in enumerate(sorted(self.random.sample([p for p in self.ports if p], count)), 1):
            replicas.add(egress_port=port, instance=instance)  # type: ignore[attr-defined]

    def _meter(self) -> p4r.MeterConfig:
        """A meter whose colours do not depend on time: its buckets are never refilled."""
        committed = self.random.choice([0, 5, 200, 2000])
        return p4r.MeterConfig(cir=0, cburst=committed, pir=0, pburst=2 * committed)

    # ---- values
    def _argument(self, name: str, width: int) -> int:
        r = self.random
        lower = name.lower()
        full = (1 << width) - 1
        if width == 9 or "port" in lower:
            return r.choice([*self.ports, *self.ports, 511]) & full
        if "group" in lower or "mcast" in lower or "mgid" in lower or "grp" in lower:
            return r.choice(GROUPS) & full
        if "session" in lower or "clone" in lower or "mirror" in lower:
            return r.choice(self.sessions) & full
        return r.choice([r.getrandbits(width), r.getrandbits(width), r.randrange(8) & full, full, 0])

    def _action(self, action_id: int) -> p4r.Action:
        action = p4r.Action(action_id=action_id)
        for parameter in self.actions[action_id].params:
            value = self._argument(parameter.name, parameter.bitwidth or 32)
            action.params.add(param_id=parameter.id, value=canonical(value))
        return action

    def _choice(self, table: p4i.Table, default: bool) -> p4r.Action | None:
        unwanted = p4i.ActionRef.TABLE_ONLY if default else p4i.ActionRef.DEFAULT_ONLY
        usable = [ref.id for ref in table.action_refs if ref.scope != unwanted]
        # A parameter without a width holds a string or a translated type, whose numbers are not ours to choose.
        usable = [i for i in usable if all(p.bitwidth for p in self.actions[i].params)]
        return self._action(self.random.choice(usable)) if usable else None

    # ---- action profiles
    def _profile(self, profile: p4i.ActionProfile) -> Iterator[p4r.Update]:
        number = profile.preamble.id
        tables = [t for t in self.info.tables if t.implementation_id == number]
        self.members[number], self.groups[number] = [], []
        for member in range(1, 7):
            action = self._choice(tables[0], False) if tables else None
            if action is None:
                return
            message = p4r.ActionProfileMember(action_profile_id=number, member_id=member, action=action)
            yield p4r.Update(type=INSERT, entity=p4r.Entity(action_profile_member=message))
            self.members[number].append(member)
        if not profile.with_selector:
            return
        for group in range(1, 4):
            made = self._group(number, group)
            yield p4r.Update(type=INSERT, entity=p4r.Entity(action_profile_group=made))
            self.groups[number].append(group)
        # Other weights: copies of members come and go, and with them the places in which a hash finds them.
        for group in self.random.sample(self.groups[number], 2):
            made = self._group(number, group)
            yield p4r.Update(type=MODIFY, entity=p4r.Entity(action_profile_group=made))

    def _group(self, profile: int, group: int) -> p4r.ActionProfileGroup:
        message = p4r.ActionProfileGroup(action_profile_id=profile, group_id=group, max_size=12)
        for member in self.random.sample(self.members[profile], self.random.choice([1, 2, 3, 4])):
            message.members.add(member_id=member, weight=self.random.choice([1, 1, 2, 3]))
        return message

    # ---- tables
    def _table(self, table: p4i.Table) -> Iterator[p4r.Update]:
        r = self.random
        described = self.tables.get(table.preamble.name)
        if described is None:
            return
        indirect = table.implementation_id
        if not indirect and not table.const_default_action_id and r.random() < 0.6:
            action = self._choice(table, True)
            if action is not None:
                entry = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
                entry.action.action.CopyFrom(action)
                yield p4r.Update(type=MODIFY, entity=p4r.Entity(table_entry=entry))
        if table.is_const_table or not table.match_fields or described.get("entries"):
            return
        if any(not f.bitwidth for f in table.match_fields):
            return
        seen = set()
        kinds = {f.match_type for f in table.match_fields}
        ranked = kinds & {p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL}
        limit = min(ENTRIES, int(described.get("max_size", ENTRIES)))
        for number in range(limit):
            entry = p4r.TableEntry(table_id=table.preamble.id)
            for match, key in zip(table.match_fields, described["key"], strict=False):
                self._match(entry, match, key)
            identity = b"".join(m.SerializeToString() for m in entry.match)
            if identity in seen:
                continue
            seen.add(identity)
            if ranked:
                entry.priority = 100 - number if r.random() < 0.5 else 100 + number
            if indirect:
                members, groups = self.members.get(indirect, []), self.groups.get(indirect, [])
                if groups and r.random() < 0.7:
                    entry.action.action_profile_group_id = r.choice(groups)
                elif members:
                    entry.action.action_profile_member_id = r.choice(members)
                else:
                    continue
            else:
                action = self._choice(table, False)
                if action is None:
                    return
                entry.action.action.CopyFrom(action)
            if table.preamble.id in {m.direct_table_id for m in self.info.direct_meters}:
                entry.meter_config.CopyFrom(self._meter())
            yield p4r.Update(type=INSERT, entity=p4r.Entity(table_entry=entry))

    def _match(self, entry: p4r.TableEntry, match: p4i.MatchField, key: dict[str, object]) -> None:
        r = self.random
        width = match.bitwidth
        full = (1 << width) - 1
        target = key["target"]
        assert isinstance(target, list)
        place: Place = (target[0], target[1])
        if place[1] in ("ingress_port", "egress_port", "egress_spec"):
            value = r.choice(self.ports)
        else:
            value = self.values.pick(place, width)
        field = p4r.FieldMatch(field_id=match.id)
        if match.match_type == p4i.MatchField.EXACT:
            field.exact.value = canonical(value)
        elif match.match_type == p4i.MatchField.LPM:
            length = r.choice([0, width, width, width // 2, r.randrange(width + 1)])
            if not length:
                return
            field.lpm.value = canonical(value >> (width - length) << (width - length))
            field.lpm.prefix_len = length
        elif match.match_type == p4i.MatchField.TERNARY:
            mask = r.choice([0, full, full, r.getrandbits(width), full << r.randrange(width + 1) & full])
            if not mask:
                return
            field.ternary.value, field.ternary.mask = canonical(value & mask), canonical(mask)
        elif match.match_type == p4i.MatchField.RANGE:
            low, high = sorted((value, r.choice([value, full, r.getrandbits(width)])))
            if low == 0 and high == full:
                return
            field.range.low, field.range.high = canonical(low), canonical(high)
        elif match.match_type == p4i.MatchField.OPTIONAL:
            if r.random() < 0.3:
                return
            field.optional.value = canonical(value)
        else:
            return
        self.values.add(place, value)
        entry.match.append(field)
