"""Batches of a Write: all or nothing, in order, and for packets at one instant (P4Runtime, "Batch Atomicity")."""

import threading
import time

import grpc
import pytest
from finsy.proto import p4r, rpc_code
from p4runtime_harness import config_of, data, exact, programmed, status, ternary

ATOMIC, ROLLBACK = p4r.WriteRequest.DATAPLANE_ATOMIC, p4r.WriteRequest.ROLLBACK_ON_ERROR
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
KEY = 9
"""What every frame's last byte is, and every key."""
FRAME = bytes([1, 0, 0, 0, 0, 0, 0, 0, 0, KEY])


@pytest.fixture
def client(served):
    with programmed(served, "swap") as client:
        yield client


def update(kind, **entity):
    return p4r.Update(type=kind, entity=p4r.Entity(**entity))


def entry(client, table, version):
    match = ternary(1, KEY, 0xFF) if table == "second" else exact(1, KEY)
    return client.entry(
        table, [match], client.action(f"set_{table}", version), priority=int(table == "second")
    )


def replication(version):
    group = p4r.MulticastGroupEntry(multicast_group_id=1)
    group.replicas.add(port=b"\2", instance=version)
    return p4r.PacketReplicationEngineEntry(multicast_group_entry=group)


def member(client, version):
    return p4r.ActionProfileMember(
        action_profile_id=client.id("members"), member_id=1, action=client.action("set_member", version)
    )


def group(client, version):
    """A group of member 11 or of member 10, which set these bytes less ten."""
    made = p4r.ActionProfileGroup(action_profile_id=client.id("choices"), group_id=1)
    made.members.add(member_id=10 + version, weight=1)
    return made


def value_set(client, version):
    entry = p4r.ValueSetEntry(value_set_id=client.id("special"))
    if version:
        entry.members.add().match.append(exact(1, FRAME[0]))
    return entry


def state(client, version, kind):
    """Updates after which frames show `version` in every byte; `kind` INSERT the first time, MODIFY then."""
    cell = p4r.RegisterEntry(
        register_id=client.id("cells"), index=p4r.Index(index=0), data={"bitstring": data(version)}
    )
    meter = p4r.MeterEntry(meter_id=client.id("limits"), index=p4r.Index(index=0))
    if version:
        meter.config.CopyFrom(p4r.MeterConfig(cir=1, pir=1))  # without a burst every packet is red
    default = client.entry("keyless", action=client.action("set_fallback", version), is_default_action=True)
    return [
        update(MODIFY, value_set_entry=value_set(client, version)),
        update(kind, table_entry=entry(client, "first", version)),
        update(kind, table_entry=entry(client, "second", version)),
        update(kind, action_profile_member=member(client, version)),
        update(kind, action_profile_group=group(client, version)),
        update(MODIFY, table_entry=default),
        update(MODIFY, register_entry=cell),
        update(MODIFY, meter_entry=meter),
        update(MODIFY, counter_entry=p4r.CounterEntry(counter_id=client.id("counted"), data={})),
        update(kind, packet_replication_engine_entry=replication(version)),
    ]


def prepare(client):
    """Members of the selector, and entries that lead to profile and selector."""
    choices = client.id("choices")
    client.write(
        *[
            update(
                INSERT,
                action_profile_member=p4r.ActionProfileMember(
                    action_profile_id=choices,
                    member_id=10 + version,
                    action=client.action("set_chosen", version),
                ),
            )
            for version in (0, 1)
        ]
    )
    client.write(*state(client, 0, INSERT), atomicity=ATOMIC)
    member, chosen = p4r.TableAction(action_profile_member_id=1), p4r.TableAction(action_profile_group_id=1)
    client.insert(table_entry=client.entry("profiled", [exact(1, KEY)], member))
    client.insert(table_entry=client.entry("selected", [exact(1, KEY)], chosen))


def shown(served):
    ((port, frame),) = served.exchange(1, FRAME)
    assert port == 2
    return tuple(frame[:9])


VERSIONS = {(0,) * 9: 0, (1,) * 9: 1}


def test_an_atomic_batch_changes_every_kind_of_entity(served, client):
    prepare(client)
    for version in (0, 1, 0):
        client.write(*state(client, version, MODIFY), atomicity=ATOMIC)
        assert VERSIONS[shown(served)] == version


def test_packets_never_see_a_part_of_an_atomic_batch(served, client):
    """Two threads: one sends packets, 32 at a time without a pause, one changes everything that packets can meet."""
    prepare(client)
    batches = [
        p4r.WriteRequest(device_id=3, updates=state(client, v, MODIFY), atomicity=ATOMIC) for v in (0, 1)
    ]
    wanted, flips, seen = 120_000, 0, {0: 0, 1: 0}
    halves: list[tuple[int, ...]] = []
    done = threading.Event()

    def packets():
        engine, now = served.engine, time.monotonic_ns()
        try:
            while sum(seen.values()) < wanted or flips < 50:
                for _ in range(32):
                    engine.rx(1, FRAME, now)
                for _, frame in engine.poll(now):
                    version = VERSIONS.get(tuple(frame[:9]))
                    if version is None:
                        halves.append(tuple(frame[:9]))
                    else:
                        seen[version] += 1
        finally:
            done.set()

    sender = threading.Thread(target=packets)
    sender.start()
    while not done.is_set():
        served.run(served.device.write(batches[flips % 2]))
        flips += 1
    sender.join()
    assert halves == []
    assert min(seen.values()) > 1000, (seen, flips)


def test_without_atomicity_packets_between_the_updates_see_a_part(served, client):
    """What the test above would find: the same updates as batches of one, with a packet after each."""
    prepare(client)
    versions = []
    for change in state(client, 1, MODIFY):
        client.write(change)
        versions.append(VERSIONS.get(shown(served)))
    assert versions == [None] * 9 + [1]


def test_a_refused_atomic_batch_changes_nothing_and_says_which_update_was_wrong(served, client):
    prepare(client)
    before = everything(client)
    wrong = update(INSERT, table_entry=entry(client, "first", 1))
    updates = state(client, 1, MODIFY)
    for place in (0, 5, len(updates)):
        batch = [*updates[:place], wrong, *updates[place:]]
        for atomicity in (ATOMIC, ROLLBACK):
            with status() as refused:
                client.write(*batch, atomicity=atomicity)
            assert refused.code == grpc.StatusCode.UNKNOWN
            codes = [rpc_code.ABORTED] * len(batch)
            codes[place] = rpc_code.ALREADY_EXISTS
            assert refused.codes == codes
            assert everything(client) == before
            assert VERSIONS[shown(served)] == 0
            before = everything(client)  # the packet has been counted


def everything(client):
    kinds = (
        {"table_entry": p4r.TableEntry()},
        {"action_profile_member": p4r.ActionProfileMember()},
        {"action_profile_group": p4r.ActionProfileGroup()},
        {"counter_entry": p4r.CounterEntry()},
        {"meter_entry": p4r.MeterEntry(counter_data=p4r.MeterCounterData())},
        {"register_entry": p4r.RegisterEntry()},
        {"value_set_entry": p4r.ValueSetEntry()},
        {
            "packet_replication_engine_entry": p4r.PacketReplicationEngineEntry(
                multicast_group_entry=p4r.MulticastGroupEntry()
            )
        },
    )
    return [sorted(str(found) for found in client.read(**kind)) for kind in kinds]


def test_updates_of_one_batch_build_on_each_other(served, client):
    """Delete and insert the same key, a member and the entry that refers to it: in the order of the batch."""
    members = client.id("members")
    new = p4r.ActionProfileMember(
        action_profile_id=members, member_id=7, action=client.action("set_member", 0x77)
    )
    to_it = client.entry("profiled", [exact(1, KEY)], p4r.TableAction(action_profile_member_id=7))
    client.insert(packet_replication_engine_entry=replication(0))
    client.insert(table_entry=entry(client, "first", 1))
    client.write(
        update(DELETE, table_entry=entry(client, "first", 1)),
        update(INSERT, table_entry=entry(client, "first", 2)),
        update(INSERT, action_profile_member=new),
        update(INSERT, table_entry=to_it),
        atomicity=ATOMIC,
    )
    assert shown(served)[1:4] == (2, 0, 0x77)
    with status() as refused:
        client.write(
            update(DELETE, table_entry=to_it),
            update(DELETE, action_profile_member=new),
            update(DELETE, table_entry=entry(client, "first", 1)),
            update(DELETE, table_entry=entry(client, "first", 1)),
            atomicity=ATOMIC,
        )
    assert refused.codes == [rpc_code.ABORTED] * 3 + [rpc_code.NOT_FOUND]
    assert shown(served)[1:4] == (2, 0, 0x77)
    client.write(
        update(DELETE, table_entry=to_it),
        update(DELETE, action_profile_member=new),
        update(DELETE, table_entry=entry(client, "first", 1)),
        atomicity=ATOMIC,
    )
    assert shown(served)[1:4] == (0, 0, 0)


def test_a_table_that_a_batch_would_overfill_is_left_as_it_was(client):
    batch = [
        update(INSERT, table_entry=client.entry("first", [exact(1, n)], client.action("set_first", n)))
        for n in range(17)
    ]
    with status() as refused:
        client.write(*batch, atomicity=ATOMIC)
    assert refused.codes == [rpc_code.ABORTED] * 16 + [rpc_code.RESOURCE_EXHAUSTED]
    client.write(*batch[:16], atomicity=ATOMIC)
    assert len(client.read(table_entry=client.entry("first"))) == 16


def test_a_batch_that_packets_meet_in_ingress_and_in_egress_is_not_called_atomic(client):
    """A packet that waits between the two would see the old and the new."""
    leaving = client.entry("leaving", action=client.action("set_departure", 5), is_default_action=True)
    both = [update(INSERT, table_entry=entry(client, "first", 1)), update(MODIFY, table_entry=leaving)]
    with status() as refused:
        client.write(*both, atomicity=ATOMIC)
    assert refused.code == grpc.StatusCode.UNIMPLEMENTED
    assert refused.errors == []
    assert client.read(table_entry=client.entry("first")) == []
    client.write(*both[1:], atomicity=ATOMIC)
    client.write(*both[:1], atomicity=ATOMIC)


def test_an_atomicity_that_nobody_knows_is_refused(client):
    with status() as refused:
        client.write(update(INSERT, table_entry=entry(client, "first", 1)), atomicity=7)
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert client.read(table_entry=client.entry("first")) == []


def test_an_empty_batch_succeeds_in_every_mode(client):
    for atomicity in (0, ROLLBACK, ATOMIC):
        client.write(atomicity=atomicity)


def test_one_update_is_one_instant_for_packets(served, client):
    """An entry and its meter come together: no packet hits the entry while the meter is still green."""
    client.set_config(config_of("entities"))
    red = p4r.MeterConfig(cir=1, pir=1)
    aged = client.entry("aging", [exact(1, 5)], client.action("read_meter", 2), meter_config=red)
    operations = []
    apply = served.engine._apply
    served.engine._apply = lambda batch: (operations.append(len(batch)), apply(batch))
    client.insert(table_entry=aged)
    assert operations == [2], "the entry and its meter, applied together"
