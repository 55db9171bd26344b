"""Every P4Runtime entity: written over gRPC, seen in frames, read back as it was written, refused when wrong."""

import grpc
import pytest
from finsy.proto import p4r, rpc_code
from p4runtime_harness import (
    Served,
    data,
    exact,
    lpm,
    optional,
    programmed,
    range_,
    status,
    ternary,
)

MAC = 0x0A0000000001


@pytest.fixture(scope="module")
def served():
    served = Served()
    yield served
    served.close()


@pytest.fixture
def client(served):
    with programmed(served, "entities") as client:
        yield client


def frame(kind, *, dst=MAC, src=0x0B0000000002, fields=None, payload=b"payload!"):
    header = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")
    if fields is not None:
        address, number, small, mark = fields
        header += address.to_bytes(4, "big") + number.to_bytes(2, "big") + bytes([small, mark])
    return header + payload


ROUTE, ACL, FLOOD, CLONE, METER, CELL, AGE, MEMBER, CONST = (
    0x1000,
    0x1001,
    0x1002,
    0x1003,
    0x1006,
    0x1007,
    0x1008,
    0x1009,
    0x100A,
)


def ports(out):
    return [port for port, _ in out]


# ---- table entries ----
def test_an_exact_entry_forwards_is_read_as_written_and_is_gone_when_deleted(served, client):
    entry = client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 2), metadata=b"note")
    assert served.exchange(1, frame(0x9000)) == []
    client.insert(table_entry=entry)
    assert ports(served.exchange(1, frame(0x9000))) == [2]
    assert client.read(table_entry=client.entry("forwarding")) == [entry]
    assert client.read(table_entry=client.entry("forwarding", [exact(1, MAC)])) == [entry]
    assert client.read(table_entry=client.entry("forwarding", [exact(1, MAC + 1)])) == []
    moved = client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 3))
    client.modify(table_entry=moved)
    assert ports(served.exchange(1, frame(0x9000))) == [3]
    assert client.read(table_entry=client.entry("forwarding")) == [moved]
    client.delete(table_entry=client.entry("forwarding", [exact(1, MAC)]))
    assert served.exchange(1, frame(0x9000)) == []
    assert client.read(table_entry=client.entry("forwarding")) == []


def test_byte_strings_of_any_length_are_read_back_canonical(client):
    client.insert(
        table_entry=client.entry(
            "forwarding", [exact(1, b"\0\0" + data(MAC))], client.action("forward_counted", b"\0\0\0\2")
        )
    )
    (entry,) = client.read(table_entry=client.entry("forwarding"))
    assert entry.match[0].exact.value == data(MAC)
    assert entry.action.action.params[0].value == b"\x02"


def test_ternary_range_and_optional_fields_match_by_priority(served, client):
    low = client.entry("acl", [], client.action("mark", 1, 0x11), priority=1)
    high = client.entry(
        "acl",
        [ternary(1, 0x0A000000, 0xFF000000), range_(2, 100, 200), optional(3, 7)],
        client.action("mark", 2, 0x22),
        priority=10,
    )
    client.insert(table_entry=low)
    client.insert(table_entry=high)
    for fields, port in [
        ((0x0A000001, 150, 7, 0), 2),
        ((0x0A000001, 100, 7, 0), 2),
        ((0x0A000001, 200, 7, 0), 2),
        ((0x0A000001, 201, 7, 0), 1),
        ((0x0B000001, 150, 7, 0), 1),
        ((0x0A000001, 150, 8, 0), 1),
    ]:
        out = served.exchange(1, frame(ACL, fields=fields))
        assert ports(out) == [port], fields
        assert out[0][1] == frame(ACL, fields=(*fields[:3], 0x11 * port))
    assert client.read(table_entry=client.entry("acl", priority=10)) == [high]
    assert client.read(table_entry=client.entry("acl")) == [low, high]
    assert client.read(table_entry=client.entry("acl", action=client.action("drop"))) == []
    client.delete(table_entry=client.entry("acl", high.match, priority=10))
    assert ports(served.exchange(1, frame(ACL, fields=(0x0A000001, 150, 7, 0)))) == [1]


def test_a_default_entry_is_modified_read_and_reset(served, client):
    fields = (1, 2, 3, 0)
    assert served.exchange(1, frame(ACL, fields=fields)) == []
    default = client.entry("acl", is_default_action=True)
    (original,) = client.read(table_entry=default)
    assert original.action.action.action_id == client.id("drop")
    changed = client.entry("acl", action=client.action("mark", 4, 0x44), is_default_action=True)
    client.modify(table_entry=changed)
    assert ports(served.exchange(1, frame(ACL, fields=fields))) == [4]
    assert client.read(table_entry=default) == [changed]
    assert client.read(table_entry=client.entry("acl")) == [], "the default entry is not among the others"
    client.modify(table_entry=default)
    assert served.exchange(1, frame(ACL, fields=fields)) == []
    assert client.read(table_entry=default) == [original]


def test_const_entries_are_read_and_cannot_be_changed(served, client):
    assert ports(served.exchange(1, frame(CONST, fields=(0, 7, 0, 0)))) == [2]
    entries = client.read(table_entry=client.entry("fixed"))
    assert [(e.match[0].exact.value, e.is_const) for e in entries] == [(b"\x07", True), (b"\x08", True)]
    assert entries[1].action.action == client.action("mark", 3, 0x88)
    new = client.entry("fixed", [exact(1, 9)], client.action("mark", 1, 1))
    old = client.entry("fixed", [exact(1, 7)], client.action("mark", 1, 1))
    for write, entry in [(client.insert, new), (client.modify, old), (client.delete, old)]:
        with status() as refused:
            write(table_entry=entry)
        assert refused.codes == [rpc_code.PERMISSION_DENIED]
    for fields in ({"metadata": b"m"}, {"controller_metadata": 1}):
        with status() as refused:
            client.modify(table_entry=client.entry("fixed", [exact(1, 7)], **fields))
        assert refused.codes == [rpc_code.PERMISSION_DENIED], "only direct resources may change"
    with status() as refused:
        client.modify(
            table_entry=client.entry("fixed", action=client.action("mark", 1, 1), is_default_action=True)
        )
    assert refused.codes == [rpc_code.PERMISSION_DENIED]


def test_reading_without_a_table_gives_the_entries_of_all(client):
    client.insert(table_entry=client.entry("forwarding", [exact(1, 1)], client.action("drop")))
    client.insert(table_entry=client.entry("acl", [], client.action("drop"), priority=1))
    tables = [entry.table_id for entry in client.read(table_entry=p4r.TableEntry())]
    assert sorted(tables) == sorted([client.id("forwarding"), client.id("acl")] + [client.id("fixed")] * 2)


def test_reading_defaults_without_a_table_gives_those_of_all(client):
    defaults = client.read(table_entry=p4r.TableEntry(is_default_action=True))
    assert {entry.table_id for entry in defaults} == {table.preamble.id for table in client.info.tables}
    assert all(entry.is_default_action for entry in defaults)


def bad_entries(client):
    forward = client.action("forward_counted", 2)
    mark = client.action("mark", 1, 1)
    extra = client.action("forward_counted", 2, 3)
    missing = client.action("forward_counted")
    member = p4r.TableAction(action_profile_member_id=1)
    entry = client.entry
    code = rpc_code
    return {
        "unknown table": (p4r.TableEntry(table_id=0x02FFFFFF), code.INVALID_ARGUMENT),
        "no table": (p4r.TableEntry(), code.INVALID_ARGUMENT),
        "no action": (entry("forwarding", [exact(1, 1)]), code.INVALID_ARGUMENT),
        "action of another table": (entry("forwarding", [exact(1, 1)], mark), code.INVALID_ARGUMENT),
        "member in a direct table": (entry("forwarding", [exact(1, 1)], member), code.INVALID_ARGUMENT),
        "action in an indirect table": (
            entry("profiled", [exact(1, 1)], client.action("forward", 1)),
            code.INVALID_ARGUMENT,
        ),
        "missing parameter": (entry("forwarding", [exact(1, 1)], missing), code.INVALID_ARGUMENT),
        "extra parameter": (entry("forwarding", [exact(1, 1)], extra), code.INVALID_ARGUMENT),
        "parameter too large": (
            entry("forwarding", [exact(1, 1)], client.action("forward_counted", 512)),
            code.OUT_OF_RANGE,
        ),
        "default-only action": (
            entry("forwarding", [exact(1, 1)], client.action("NoAction")),
            code.PERMISSION_DENIED,
        ),
        "exact field missing": (entry("forwarding", [], forward), code.INVALID_ARGUMENT),
        "unknown field": (entry("forwarding", [exact(2, 1)], forward), code.INVALID_ARGUMENT),
        "field twice": (entry("forwarding", [exact(1, 1)] * 2, forward), code.INVALID_ARGUMENT),
        "wrong kind of match": (entry("forwarding", [lpm(1, 1, 48)], forward), code.INVALID_ARGUMENT),
        "match without value": (
            entry("forwarding", [p4r.FieldMatch(field_id=1)], forward),
            code.INVALID_ARGUMENT,
        ),
        "empty value": (entry("forwarding", [exact(1, b"")], forward), code.OUT_OF_RANGE),
        "value too large": (entry("forwarding", [exact(1, 1 << 48)], forward), code.OUT_OF_RANGE),
        "priority where there is none": (
            entry("forwarding", [exact(1, 1)], forward, priority=1),
            code.INVALID_ARGUMENT,
        ),
        "no priority where one is needed": (entry("acl", [], mark), code.INVALID_ARGUMENT),
        "negative priority": (entry("acl", [], mark, priority=-1), code.INVALID_ARGUMENT),
        "bits outside the mask": (
            entry("acl", [ternary(1, 3, 1)], mark, priority=1),
            code.INVALID_ARGUMENT,
        ),
        "mask of zeros": (entry("acl", [ternary(1, 0, 0)], mark, priority=1), code.INVALID_ARGUMENT),
        "range upside down": (entry("acl", [range_(2, 2, 1)], mark, priority=1), code.INVALID_ARGUMENT),
        "range of everything": (
            entry("acl", [range_(2, 0, 0xFFFF)], mark, priority=1),
            code.INVALID_ARGUMENT,
        ),
        "const flag": (entry("forwarding", [exact(1, 1)], forward, is_const=True), code.INVALID_ARGUMENT),
        "default by insert": (
            entry("acl", [], mark, is_default_action=True),
            code.INVALID_ARGUMENT,
        ),
        "timeout in a table without": (
            entry("forwarding", [exact(1, 1)], forward, idle_timeout_ns=1),
            code.INVALID_ARGUMENT,
        ),
        "counter in a table without": (
            entry("acl", [], mark, priority=1, counter_data=p4r.CounterData()),
            code.INVALID_ARGUMENT,
        ),
        "meter in a table without": (
            entry("forwarding", [exact(1, 1)], forward, meter_config=p4r.MeterConfig()),
            code.INVALID_ARGUMENT,
        ),
        "last hit": (
            entry("forwarding", [exact(1, 1)], forward, time_since_last_hit=p4r.TableEntry.IdleTimeout()),
            code.INVALID_ARGUMENT,
        ),
    }


def test_each_wrong_entry_is_refused_with_the_specifications_code(client):
    for name, (entry, code) in bad_entries(client).items():
        with status() as refused:
            client.insert(table_entry=entry)
        assert refused.codes == [code], f"{name}: {refused.errors}"
        assert refused.code == grpc.StatusCode.UNKNOWN
        assert refused.errors[0].message, name
    assert client.read(table_entry=client.entry("forwarding")) == []
    assert client.read(table_entry=client.entry("acl")) == []


def test_prefixes_must_be_whole(client):
    member = p4r.ActionProfileMember(
        action_profile_id=client.id("next_hops"), member_id=1, action=client.action("mark", 1, 1)
    )
    client.insert(action_profile_member=member)
    action = p4r.TableAction(action_profile_member_id=1)
    for match in (lpm(1, 0x0A000001, 24), lpm(1, 0, 0), lpm(1, 0, 33), lpm(1, 0, -1)):
        with status() as refused:
            client.insert(table_entry=client.entry("routes", [match], action))
        assert refused.codes == [rpc_code.INVALID_ARGUMENT]


def test_a_table_takes_as_many_entries_as_its_size(client):
    client.write(
        *[
            p4r.Update(
                type=p4r.Update.INSERT,
                entity=p4r.Entity(
                    table_entry=client.entry("forwarding", [exact(1, n)], client.action("drop"))
                ),
            )
            for n in range(16)
        ]
    )
    with status() as refused:
        client.insert(table_entry=client.entry("forwarding", [exact(1, 99)], client.action("drop")))
    assert refused.codes == [rpc_code.RESOURCE_EXHAUSTED]


# ---- batches ----
def batch(client, *numbers):
    return [
        p4r.Update(
            type=p4r.Update.INSERT,
            entity=p4r.Entity(table_entry=client.entry("forwarding", [exact(1, n)], client.action("drop"))),
        )
        for n in numbers
    ]


def test_a_batch_goes_on_after_an_error_and_reports_each_update(client):
    with status() as refused:
        client.write(*batch(client, 1, 2, 1, 3))
    assert refused.codes == [rpc_code.OK, rpc_code.OK, rpc_code.ALREADY_EXISTS, rpc_code.OK]
    assert len(client.read(table_entry=client.entry("forwarding"))) == 3


def test_a_batch_with_rollback_changes_nothing_when_one_update_fails(served, client):
    keep = client.entry(
        "forwarding",
        [exact(1, 9)],
        client.action("forward_counted", 2),
        counter_data=p4r.CounterData(packet_count=5, byte_count=500),
    )
    client.insert(table_entry=keep)
    before = client.read(table_entry=client.entry("forwarding", counter_data=p4r.CounterData()))
    updates = [
        *batch(client, 1),
        p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(table_entry=keep)),
        *batch(client, 2, 2, 3),
    ]
    with status() as refused:
        client.write(*updates, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    assert refused.codes == [
        rpc_code.ABORTED,
        rpc_code.ABORTED,
        rpc_code.ABORTED,
        rpc_code.ALREADY_EXISTS,
        rpc_code.ABORTED,
    ]
    assert client.read(table_entry=client.entry("forwarding", counter_data=p4r.CounterData())) == before
    client.write(*batch(client, 1, 2), atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    assert len(client.read(table_entry=client.entry("forwarding"))) == 3


def test_updates_without_type_or_entity_are_refused_one_by_one(client):
    with status() as refused:
        client.write(
            p4r.Update(),
            p4r.Update(type=p4r.Update.INSERT),
            p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(extern_entry=p4r.ExternEntry())),
        )
    assert refused.codes == [rpc_code.INVALID_ARGUMENT, rpc_code.INVALID_ARGUMENT, rpc_code.UNIMPLEMENTED]


def test_a_read_batch_returns_what_it_can_and_reports_the_rest(client):
    client.insert(table_entry=client.entry("forwarding", [exact(1, 1)], client.action("drop")))
    request = p4r.ReadRequest(
        device_id=3,
        entities=[
            p4r.Entity(table_entry=client.entry("forwarding")),
            p4r.Entity(),
            p4r.Entity(table_entry=p4r.TableEntry(table_id=77)),
        ],
    )
    call = client.stub.Read(request, timeout=5)
    assert len(next(call).entities) == 1
    with status() as refused:
        next(call)
    assert refused.codes == [rpc_code.OK, rpc_code.INVALID_ARGUMENT, rpc_code.INVALID_ARGUMENT]


# ---- direct resources ----
def test_a_direct_counter_counts_hits_and_is_written_and_read_both_ways(served, client):
    key = client.entry("forwarding", [exact(1, MAC)])
    client.insert(
        table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", 2))
    )
    for _ in range(3):
        served.exchange(1, frame(0x9000))
    size = len(frame(0x9000))
    (entry,) = client.read(table_entry=client.entry("forwarding", counter_data=p4r.CounterData()))
    assert (entry.counter_data.packet_count, entry.counter_data.byte_count) == (3, 3 * size)
    (direct,) = client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key))
    assert (direct.data.packet_count, direct.data.byte_count) == (3, 3 * size)
    assert direct.table_entry == key
    client.modify(
        direct_counter_entry=p4r.DirectCounterEntry(
            table_entry=key, data=p4r.CounterData(packet_count=100, byte_count=7)
        )
    )
    served.exchange(1, frame(0x9000))
    (direct,) = client.read(
        direct_counter_entry=p4r.DirectCounterEntry(table_entry=client.entry("forwarding"))
    )
    assert (direct.data.packet_count, direct.data.byte_count) == (101, 7 + size)
    with status() as refused:
        client.read(
            direct_counter_entry=p4r.DirectCounterEntry(table_entry=client.entry("forwarding", [exact(1, 1)]))
        )
    assert refused.codes == [rpc_code.NOT_FOUND]
    with status() as refused:
        client.insert(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key))
    assert refused.codes == [rpc_code.INVALID_ARGUMENT]


def test_a_direct_meter_colours_the_packets_of_its_entry(served, client):
    # Bursts of 2 and refills of 1 packet per 1000 s: the third packet is not green.
    config = p4r.MeterConfig(cir=0, cburst=2, pir=0, pburst=4)
    config = p4r.MeterConfig(cir=1, cburst=2, pir=1, pburst=4)
    entry = client.entry("aging", [exact(1, 5)], client.action("read_meter", 2), meter_config=config)
    client.insert(table_entry=entry)
    assert [len(served.exchange(1, frame(AGE, src=5))) for _ in range(4)] == [1, 1, 0, 0]
    key = client.entry("aging", [exact(1, 5)])
    (meter,) = client.read(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key))
    assert meter.config == config
    assert not client.read(table_entry=key)[0].HasField("meter_config"), "only when it is asked for"
    client.modify(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key))
    assert [len(served.exchange(1, frame(AGE, src=5))) for _ in range(4)] == [1, 1, 1, 1]
    for wrong in (
        p4r.MeterConfig(cir=-1, cburst=1, pir=1, pburst=1),
        p4r.MeterConfig(cir=2, cburst=1, pir=1, pburst=1),
        p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1, eburst=1),
    ):
        with status() as refused:
            client.modify(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key, config=wrong))
        assert refused.codes == [rpc_code.INVALID_ARGUMENT]


# ---- action profiles ----
def add_member(client, number, port, profile="next_hops"):
    name = "mark" if profile == "next_hops" else "forward"
    action = client.action(name, port, number) if name == "mark" else client.action(name, port)
    client.insert(
        action_profile_member=p4r.ActionProfileMember(
            action_profile_id=client.id(profile), member_id=number, action=action
        )
    )


def group(client, number, *members, max_size=0):
    message = p4r.ActionProfileGroup(
        action_profile_id=client.id("next_hops"), group_id=number, max_size=max_size
    )
    for member in members:
        weight, watch = (1, None) if len(member) < 2 else (member[1], None if len(member) < 3 else member[2])
        out = message.members.add(member_id=member[0], weight=weight)
        if watch is not None:
            out.watch_port = data(watch)
    return message


def spread(served, count=200):
    """How many of `count` flows leave by each port."""
    seen = {}
    for number in range(count):
        for port, _ in served.exchange(1, frame(ROUTE, fields=(0x0A000001, number, 0, 0))):
            seen[port] = seen.get(port, 0) + 1
    return seen


def test_a_member_is_used_modified_and_kept_while_an_entry_uses_it(served, client):
    add_member(client, 7, 2, "members")
    entry = client.entry("profiled", [exact(1, MAC)], p4r.TableAction(action_profile_member_id=7))
    client.insert(table_entry=entry)
    assert client.read(table_entry=client.entry("profiled")) == [entry]
    assert ports(served.exchange(1, frame(MEMBER))) == [2]
    member = p4r.ActionProfileMember(
        action_profile_id=client.id("members"), member_id=7, action=client.action("forward", 3)
    )
    client.modify(action_profile_member=member)
    assert ports(served.exchange(1, frame(MEMBER))) == [3]
    query = p4r.ActionProfileMember(action_profile_id=client.id("members"))
    assert client.read(action_profile_member=query) == [member]
    with status() as refused:
        client.delete(action_profile_member=member)
    assert refused.codes == [rpc_code.FAILED_PRECONDITION]
    client.delete(table_entry=entry)
    client.delete(action_profile_member=member)
    assert client.read(action_profile_member=p4r.ActionProfileMember()) == []


def test_a_group_spreads_flows_by_weight_and_leaves_out_members_whose_port_is_down(served, client):
    for number, port in ((1, 2), (2, 3)):
        add_member(client, number, port)
    made = group(client, 9, (1, 1, 2), (2, 3, 3))
    client.insert(action_profile_group=made)
    assert client.read(action_profile_group=p4r.ActionProfileGroup()) == [made]
    client.insert(
        table_entry=client.entry(
            "routes", [lpm(1, 0x0A000000, 8)], p4r.TableAction(action_profile_group_id=9)
        )
    )
    seen = spread(served)
    assert sum(seen.values()) == 200
    assert 25 <= seen[2] <= 80, "a quarter of the flows, by weight 1 of 4"
    served.call(served.device.port_changed, 3, False)
    assert spread(served) == {2: 200}
    served.call(served.device.port_changed, 3, True)
    assert spread(served) == seen
    with status() as refused:
        client.delete(action_profile_group=made)
    assert refused.codes == [rpc_code.FAILED_PRECONDITION]
    client.modify(action_profile_group=group(client, 9, (2,)))
    assert spread(served) == {3: 200}


def test_flows_choose_by_the_age_of_the_members_however_a_group_lists_them(served, client):
    """As simple_switch_grpc does: a controller that lists the same members anew moves no flow."""
    for number, port in ((5, 2), (1, 3), (3, 4)):
        add_member(client, number, port)
    client.insert(action_profile_group=group(client, 9, (5,), (1,), (3,)))
    client.insert(
        table_entry=client.entry(
            "routes", [lpm(1, 0x0A000000, 8)], p4r.TableAction(action_profile_group_id=9)
        )
    )

    def ways():
        flows = [frame(ROUTE, fields=(0x0A000001, number, 0, 0)) for number in range(60)]
        return [ports(served.exchange(1, flow)) for flow in flows]

    before = ways()
    assert {port for (port,) in before} == {2, 3, 4}
    client.modify(action_profile_group=group(client, 9, (1,), (3,), (5,)))
    assert ways() == before
    client.modify(action_profile_group=group(client, 9, (1,), (3,)))
    client.delete(
        action_profile_member=p4r.ActionProfileMember(action_profile_id=client.id("next_hops"), member_id=5)
    )
    add_member(client, 8, 2)  # takes the place of the one that went
    client.modify(action_profile_group=group(client, 9, (3,), (8,), (1,)))
    assert ways() == before


def test_wrong_members_and_groups_are_refused_with_the_specifications_codes(client):
    add_member(client, 1, 2)
    client.insert(action_profile_group=group(client, 9, (1,), max_size=4))
    next_hops = client.id("next_hops")
    member = p4r.ActionProfileMember
    cases = [
        (client.insert, "member", member(action_profile_id=next_hops, member_id=0), "INVALID_ARGUMENT"),
        (client.insert, "member", member(action_profile_id=next_hops, member_id=1), "ALREADY_EXISTS"),
        (client.insert, "member", member(action_profile_id=next_hops, member_id=2), "INVALID_ARGUMENT"),
        (client.modify, "member", member(action_profile_id=next_hops, member_id=2), "NOT_FOUND"),
        (client.delete, "member", member(action_profile_id=next_hops, member_id=1), "FAILED_PRECONDITION"),
        (client.insert, "member", member(action_profile_id=1, member_id=1), "INVALID_ARGUMENT"),
        (client.insert, "group", group(client, 9, (1,)), "ALREADY_EXISTS"),
        (client.insert, "group", group(client, 0, (1,)), "INVALID_ARGUMENT"),
        (client.insert, "group", group(client, 10, (1, 0)), "INVALID_ARGUMENT"),
        (client.insert, "group", group(client, 10, (1,), (1,)), "INVALID_ARGUMENT"),
        (client.insert, "group", group(client, 10, (5,)), "NOT_FOUND"),
        (client.insert, "group", group(client, 10, (1, 1, 77)), "INVALID_ARGUMENT"),
        (client.modify, "group", group(client, 9, (1,), max_size=5), "INVALID_ARGUMENT"),
        (client.modify, "group", group(client, 9, (1, 5), max_size=4), "RESOURCE_EXHAUSTED"),
        (client.modify, "group", group(client, 10, (1,)), "NOT_FOUND"),
        (client.delete, "group", group(client, 10), "NOT_FOUND"),
    ]
    for write, kind, message, code in cases:
        with status() as refused:
            write(**{f"action_profile_{kind}": message})
        assert refused.codes == [getattr(rpc_code, code)], (kind, message, refused.errors)
    with status() as refused:
        client.insert(
            table_entry=client.entry("routes", [lpm(1, 0, 1)], p4r.TableAction(action_profile_group_id=55))
        )
    assert refused.codes == [rpc_code.NOT_FOUND]


def one_shot(client, *actions):
    action = p4r.TableAction()
    for port, weight in actions:
        item = action.action_profile_action_set.action_profile_actions.add(weight=weight)
        item.action.CopyFrom(client.action("mark", port, port))
    return action


def test_a_one_shot_set_is_a_group_of_its_own_and_read_as_written(served, client):
    entry = client.entry("routes", [lpm(1, 0x0A000000, 8)], one_shot(client, (2, 1), (3, 1), (2, 2)))
    client.insert(table_entry=entry)
    assert client.read(table_entry=client.entry("routes")) == [entry]
    seen = spread(served)
    assert set(seen) == {2, 3}
    assert 25 <= seen[3] <= 80
    assert client.read(action_profile_group=p4r.ActionProfileGroup()) == []
    moved = client.entry("routes", entry.match, one_shot(client, (4, 1)))
    client.modify(table_entry=moved)
    assert spread(served) == {4: 200}
    with status() as refused:
        add_member(client, 1, 2)
    assert refused.codes == [rpc_code.INVALID_ARGUMENT], "one-shot and members cannot be mixed"
    client.delete(table_entry=moved)
    add_member(client, 1, 2)
    with status() as refused:
        client.insert(table_entry=entry)
    assert refused.codes == [rpc_code.INVALID_ARGUMENT]


# ---- counters, meters, registers ----
def test_counters_and_registers_are_read_and_written_by_cell_and_whole(served, client):
    def cells():
        return [
            (c.index.index, c.data.packet_count)
            for c in client.read(counter_entry=p4r.CounterEntry(counter_id=client.id("cells")))
        ]

    out = served.exchange(1, frame(CELL, fields=(0, 0, 5, 0)))
    out += served.exchange(1, frame(CELL, fields=(0, 0, 5, 0)))
    assert [f[14:18] for _, f in out] == [b"\0\0\0\0", b"\0\0\0\x01"]
    assert cells() == [(n, 2 if n == 5 else 0) for n in range(8)]
    client.modify(
        counter_entry=p4r.CounterEntry(
            counter_id=client.id("cells"),
            index=p4r.Index(index=5),
            data=p4r.CounterData(packet_count=40, byte_count=1),
        )
    )
    client.modify(
        register_entry=p4r.RegisterEntry(
            register_id=client.id("stored"),
            index=p4r.Index(index=5),
            data={"bitstring": data(0xDEAD)},
        )
    )
    ((_, sent),) = served.exchange(1, frame(CELL, fields=(0, 0, 5, 0)))
    assert sent[14:18] == bytes.fromhex("0000dead")
    assert cells()[5] == (5, 41)
    stored = client.read(
        register_entry=p4r.RegisterEntry(register_id=client.id("stored"), index=p4r.Index(index=5))
    )
    assert [r.data.bitstring for r in stored] == [b"\xde\xae"]
    whole = p4r.CounterEntry(counter_id=client.id("cells"), data=p4r.CounterData(packet_count=1))
    client.modify(counter_entry=whole)
    assert cells() == [(n, 1) for n in range(8)]
    assert len(client.read(register_entry=p4r.RegisterEntry())) == 8
    assert len(client.read(counter_entry=p4r.CounterEntry())) == 8


@pytest.mark.parametrize(
    ("index", "code"),
    [(8, rpc_code.OUT_OF_RANGE), (-1, rpc_code.INVALID_ARGUMENT), (1 << 40, rpc_code.OUT_OF_RANGE)],
)
def test_an_index_outside_the_array_is_refused(client, index, code):
    at = p4r.Index(index=index)
    for entity in (
        {"counter_entry": p4r.CounterEntry(counter_id=client.id("cells"), index=at)},
        {
            "register_entry": p4r.RegisterEntry(
                register_id=client.id("stored"), index=at, data={"bitstring": b"\1"}
            )
        },
        {"meter_entry": p4r.MeterEntry(meter_id=client.id("limits"), index=at)},
    ):
        with status() as refused:
            client.modify(**entity)
        assert refused.codes == [code]
        with status() as refused:
            client.read(**entity)
        assert refused.codes == [code]


def test_register_values_of_the_wrong_kind_or_width_are_refused(client):
    for value, code in (
        ({"bool": True}, rpc_code.INVALID_ARGUMENT),
        ({"bitstring": b"\1\0\0\0\0"}, rpc_code.OUT_OF_RANGE),
        ({}, rpc_code.INVALID_ARGUMENT),
    ):
        with status() as refused:
            client.modify(
                register_entry=p4r.RegisterEntry(
                    register_id=client.id("stored"), index=p4r.Index(index=1), data=value
                )
            )
        assert refused.codes == [code]


def test_an_indirect_meter_limits_and_is_read_back(served, client):
    meter = p4r.MeterEntry(
        meter_id=client.id("limits"),
        index=p4r.Index(index=1),
        config=p4r.MeterConfig(cir=1, cburst=3, pir=1, pburst=5),
    )
    client.modify(meter_entry=meter)
    assert [len(served.exchange(1, frame(METER))) for _ in range(5)] == [1, 1, 1, 0, 0]
    assert client.read(meter_entry=p4r.MeterEntry(meter_id=meter.meter_id, index=meter.index)) == [meter]
    read = client.read(meter_entry=p4r.MeterEntry(meter_id=meter.meter_id))
    assert [m.HasField("config") for m in read] == [False, True, False, False]
    client.modify(meter_entry=p4r.MeterEntry(meter_id=meter.meter_id))
    assert len(served.exchange(1, frame(METER))) == 1


def colours(message):
    """(packets, bytes) that the meter coloured green, yellow, red."""
    data = message.counter_data
    return [(c.packet_count, c.byte_count) for c in (data.green, data.yellow, data.red)]


def test_a_meter_counts_what_it_colours_until_it_is_cleared(served, client):
    """P4Runtime, "MeterCounterData"; by RFC 2698, bursts of 3 and 5 packets colour 3 green, 2 yellow, the rest red."""
    limits, at = client.id("limits"), p4r.Index(index=1)
    config = p4r.MeterConfig(cir=1, cburst=3, pir=1, pburst=5)
    asked = p4r.MeterEntry(meter_id=limits, index=at, counter_data=p4r.MeterCounterData())
    client.modify(meter_entry=p4r.MeterEntry(meter_id=limits, index=at, config=config))
    for _ in range(7):
        served.exchange(1, frame(METER))
    size = len(frame(METER))
    (read,) = client.read(meter_entry=asked)
    assert colours(read) == [(3, 3 * size), (2, 2 * size), (2, 2 * size)]
    assert not client.read(meter_entry=p4r.MeterEntry(meter_id=limits, index=at))[0].HasField("counter_data")
    client.modify(meter_entry=p4r.MeterEntry(meter_id=limits, index=at))
    served.exchange(1, frame(METER))
    whole = p4r.MeterEntry(meter_id=limits, counter_data=p4r.MeterCounterData())
    read = client.read(meter_entry=whole)
    assert [colours(cell)[0] for cell in read] == [(0, 0), (4, 4 * size), (0, 0), (0, 0)], (
        "a meter without a configuration is executed too, and configuring it clears nothing"
    )
    wrong = p4r.MeterCounterData(red=p4r.CounterData(packet_count=1))
    with status() as refused:
        client.modify(meter_entry=p4r.MeterEntry(meter_id=limits, index=at, counter_data=wrong))
    assert refused.codes == [rpc_code.INVALID_ARGUMENT]
    client.modify(meter_entry=whole)
    assert colours(client.read(meter_entry=asked)[0]) == [(0, 0)] * 3


def test_a_direct_meter_counts_what_it_colours_by_itself_and_with_its_entry(served, client):
    config = p4r.MeterConfig(cir=1, cburst=2, pir=1, pburst=3)
    counts = p4r.MeterCounterData()
    key = client.entry("aging", [exact(1, 5)])
    entry = client.entry("aging", [exact(1, 5)], client.action("read_meter", 2), meter_config=config)
    nothing_to_count = client.entry(
        "aging",
        [exact(1, 5)],
        client.action("read_meter", 2),
        meter_counter_data={"green": {"byte_count": 1}},
    )
    with status() as refused:
        client.insert(table_entry=nothing_to_count)
    assert refused.codes == [rpc_code.INVALID_ARGUMENT]
    client.insert(table_entry=entry)
    for _ in range(5):
        served.exchange(1, frame(AGE, src=5))
    size = len(frame(AGE))
    wanted = [(2, 2 * size), (1, size), (2, 2 * size)]
    (direct,) = client.read(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key, counter_data=counts))
    assert colours(direct) == wanted
    assert direct.config == config
    (plain,) = client.read(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key))
    assert not plain.HasField("counter_data")

    def of_entry():
        (read,) = client.read(table_entry=client.entry("aging", [exact(1, 5)], meter_counter_data=counts))
        green, yellow, red = (
            read.meter_counter_data.green,
            read.meter_counter_data.yellow,
            read.meter_counter_data.red,
        )
        return [(c.packet_count, c.byte_count) for c in (green, yellow, red)]

    assert of_entry() == wanted
    client.modify(table_entry=entry)
    assert of_entry() == wanted, "unset: unchanged"
    cleared = p4r.TableEntry()
    cleared.CopyFrom(entry)
    cleared.meter_counter_data.SetInParent()
    client.modify(table_entry=cleared)
    assert of_entry() == [(0, 0)] * 3
    served.exchange(1, frame(AGE, src=5))
    client.modify(
        direct_meter_entry=p4r.DirectMeterEntry(table_entry=key, config=config, counter_data=counts)
    )
    assert of_entry() == [(0, 0)] * 3
    with status() as refused:
        client.read(table_entry=client.entry("forwarding", meter_counter_data=counts))
    assert refused.codes == [rpc_code.INVALID_ARGUMENT], "it has no meter"


# ---- value sets ----
def test_a_value_set_steers_the_parser_until_it_is_emptied(served, client):
    def members(*numbers):
        entry = p4r.ValueSetEntry(value_set_id=client.id("field_types"))
        for number in numbers:
            entry.members.add().match.append(exact(1, number))
        return entry

    assert served.exchange(1, frame(0x7777)) == []
    client.modify(value_set_entry=members(0x7777, 0x8888))
    assert ports(served.exchange(1, frame(0x7777))) == [4]
    assert client.read(value_set_entry=p4r.ValueSetEntry()) == [members(0x7777, 0x8888)]
    for wrong, code in (
        (members(1, 1), rpc_code.ALREADY_EXISTS),
        (members(1, 2, 3, 4, 5), rpc_code.RESOURCE_EXHAUSTED),
        (members(0x10000), rpc_code.OUT_OF_RANGE),
    ):
        with status() as refused:
            client.modify(value_set_entry=wrong)
        assert refused.codes == [code]
    with status() as refused:
        client.insert(value_set_entry=members(1))
    assert refused.codes == [rpc_code.INVALID_ARGUMENT]
    client.modify(value_set_entry=members())
    assert served.exchange(1, frame(0x7777)) == []


# ---- replication ----
def multicast(number, *replicas, **fields):
    entry = p4r.MulticastGroupEntry(multicast_group_id=number, **fields)
    for port, instance, *backups in replicas:
        replica = entry.replicas.add(port=data(port), instance=instance)
        for backup in backups:
            replica.backup_replicas.add(port=data(backup), instance=instance)
    return {"packet_replication_engine_entry": p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)}


def clone(number, *replicas, **fields):
    entry = p4r.CloneSessionEntry(session_id=number, **fields)
    for port, instance in replicas:
        entry.replicas.add(port=data(port), instance=instance)
    return {"packet_replication_engine_entry": p4r.PacketReplicationEngineEntry(clone_session_entry=entry)}


def test_a_multicast_group_copies_to_its_replicas_with_their_instances(served, client):
    assert served.exchange(1, frame(FLOOD)) == []
    client.insert(**multicast(1, (2, 0x21), (3, 0x31), (3, 0x32), metadata=b"m"))
    out = served.exchange(1, frame(FLOOD))
    assert sorted((port, f[11]) for port, f in out) == [(2, 0x21), (3, 0x31), (3, 0x32)]
    key = "packet_replication_engine_entry"
    assert client.read(**multicast(0)) == [multicast(1, (2, 0x21), (3, 0x31), (3, 0x32), metadata=b"m")[key]]
    client.modify(**multicast(1, (4, 0)))
    assert ports(served.exchange(1, frame(FLOOD))) == [4]
    client.delete(**multicast(1))
    assert served.exchange(1, frame(FLOOD)) == []
    with status() as refused:
        client.read(**multicast(1))
    assert refused.codes == [rpc_code.NOT_FOUND]


def test_a_replica_moves_to_its_backup_while_its_port_is_down(served, client):
    client.insert(**multicast(1, (2, 1, 3, 4)))
    assert ports(served.exchange(1, frame(FLOOD))) == [2]
    served.call(served.device.port_changed, 2, False)
    assert ports(served.exchange(1, frame(FLOOD))) == [3]
    served.call(served.device.port_changed, 3, False)
    assert ports(served.exchange(1, frame(FLOOD))) == [4]
    served.call(served.device.port_changed, 2, True)
    assert ports(served.exchange(1, frame(FLOOD))) == [2]
    served.call(served.device.port_changed, 3, True)


def test_replicas_of_multicast_and_of_clones_with_backups_are_read_in_their_order(served, client):
    client.insert(**multicast(1, (2, 1, 4, 3)))
    (read,) = client.read(**multicast(1))
    (replica,) = read.multicast_group_entry.replicas
    assert [backup.port for backup in replica.backup_replicas] == [b"\4", b"\3"]
    session = p4r.CloneSessionEntry(session_id=5)
    session.replicas.add(port=b"\2", instance=1).backup_replicas.add(port=b"\3", instance=2)
    client.insert(packet_replication_engine_entry={"clone_session_entry": session})
    assert sorted(ports(served.exchange(1, frame(CLONE)))) == [1, 2]
    served.call(served.device.port_changed, 2, False)
    assert sorted(ports(served.exchange(1, frame(CLONE)))) == [1, 3]
    served.call(served.device.port_changed, 2, True)
    assert sorted(ports(served.exchange(1, frame(CLONE)))) == [1, 2]


def test_a_group_and_a_session_of_one_number_are_two_things(served, client):
    """As are replicas of a group with several ports of one instance, and several instances of one port."""
    client.insert(**multicast(5, (2, 1), (3, 1), (2, 7)))
    client.insert(**clone(5, (4, 0)))
    key = "packet_replication_engine_entry"
    assert client.read(**multicast(0)) == [multicast(5, (2, 1), (3, 1), (2, 7))[key]]
    assert client.read(**clone(0)) == [clone(5, (4, 0))[key]]
    client.delete(**multicast(5))
    assert client.read(**clone(0)) == [clone(5, (4, 0))[key]]


def test_a_clone_session_copies_and_truncates(served, client):
    client.insert(**clone(5, (2, 0x25)))
    out = served.exchange(1, frame(CLONE))
    assert sorted(ports(out)) == [1, 2]
    assert {port: f[11] for port, f in out}[2] == 0x25
    client.modify(**clone(5, (2, 0x25), (3, 0), packet_length_bytes=20))
    out = served.exchange(1, frame(CLONE))
    assert sorted((port, len(f)) for port, f in out) == [(1, 22), (2, 20), (3, 20)]
    key = "packet_replication_engine_entry"
    assert client.read(**clone(0)) == [clone(5, (2, 0x25), (3, 0), packet_length_bytes=20)[key]]
    client.delete(**clone(5))
    assert ports(served.exchange(1, frame(CLONE))) == [1]


def test_the_class_of_a_clone_session_is_its_clones_queue(served, client):
    def queues(port):
        return [queue.in_packets for queue in served.engine.queue_stats(port)]

    client.insert(**clone(5, (3, 0), (4, 0), class_of_service=6))
    before = queues(3), queues(4)
    served.exchange(1, frame(CLONE))
    for port, was in zip((3, 4), before, strict=True):
        assert [now - then for now, then in zip(queues(port), was, strict=True)] == [0, 0, 0, 0, 0, 0, 1, 0]
    key = "packet_replication_engine_entry"
    assert client.read(**clone(5)) == [clone(5, (3, 0), (4, 0), class_of_service=6)[key]]
    client.modify(**clone(5, (3, 0)))
    before = queues(3)
    served.exchange(1, frame(CLONE))
    assert [now - then for now, then in zip(queues(3), before, strict=True)] == [1, 0, 0, 0, 0, 0, 0, 0]


def test_wrong_replication_entries_are_refused(client):
    client.insert(**multicast(1, (2, 1)))
    cases = [
        (client.insert, multicast(1, (2, 1)), "ALREADY_EXISTS"),
        (client.modify, multicast(2, (2, 1)), "NOT_FOUND"),
        (client.delete, multicast(2), "NOT_FOUND"),
        (client.insert, multicast(0, (2, 1)), "INVALID_ARGUMENT"),
        (client.insert, multicast(0x10000, (2, 1)), "INVALID_ARGUMENT"),
        (client.insert, multicast(3, (2, 1), (2, 1)), "INVALID_ARGUMENT"),
        (client.insert, multicast(3, (2, 0x10000)), "INVALID_ARGUMENT"),
        (client.insert, multicast(3, (600, 1)), "INVALID_ARGUMENT"),
        (client.insert, multicast(3, (2, 1, 2)), "INVALID_ARGUMENT"),
        (client.insert, clone(0, (2, 1)), "INVALID_ARGUMENT"),
        (client.insert, clone(0x8000, (2, 1)), "INVALID_ARGUMENT"),
        (client.insert, clone(4, (2, 1), class_of_service=8), "INVALID_ARGUMENT"),
        (client.insert, clone(4, (2, 1), packet_length_bytes=-1), "INVALID_ARGUMENT"),
        (
            client.insert,
            {"packet_replication_engine_entry": p4r.PacketReplicationEngineEntry()},
            "INVALID_ARGUMENT",
        ),
    ]
    for write, entity, code in cases:
        with status() as refused:
            write(**entity)
        assert refused.codes == [getattr(rpc_code, code)], (entity, refused.errors)
