"""Forwarding pipeline configurations: verified, saved, committed, reconciled, read back."""

import json

import grpc
import pytest
from finsy.proto import p4r
from p4runtime_harness import Client, config_of, exact, lpm, status

ACTION = p4r.SetForwardingPipelineConfigRequest
MAC = 0x0A0000000001


@pytest.fixture
def client(served):
    client = Client(served.address)
    client.election_id = None
    yield client
    client.close()


def frame():
    return MAC.to_bytes(6, "big") + bytes(6) + b"\x90\x00payload"


def insert(client, port=2):
    client.insert(
        table_entry=client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", port))
    )


def entries(client):
    return client.read(table_entry=client.entry("forwarding", counter_data=p4r.CounterData()))


def test_nothing_can_be_written_or_read_before_a_pipeline_is_set(client):
    client.info = config_of("entities").p4info
    for call in (lambda: insert(client), lambda: entries(client)):
        with status() as refused:
            call()
        assert refused.code == grpc.StatusCode.FAILED_PRECONDITION
    assert client.get_config() == p4r.ForwardingPipelineConfig()


def test_a_committed_pipeline_runs_and_is_read_back_in_the_parts_asked_for(served, client):
    config = config_of("entities", cookie=77)
    client.set_config(config)
    insert(client)
    assert [port for port, _ in served.exchange(1, frame())] == [2]
    kinds = p4r.GetForwardingPipelineConfigRequest
    assert client.get_config() == config
    assert client.get_config(kinds.COOKIE_ONLY) == p4r.ForwardingPipelineConfig(cookie=config.cookie)
    assert client.get_config(kinds.P4INFO_AND_COOKIE) == p4r.ForwardingPipelineConfig(
        cookie=config.cookie, p4info=config.p4info
    )
    assert client.get_config(kinds.DEVICE_CONFIG_AND_COOKIE) == p4r.ForwardingPipelineConfig(
        cookie=config.cookie, p4_device_config=config.p4_device_config
    )


def test_committing_again_clears_every_state(served, client):
    client.set_config(config_of("entities"))
    insert(client)
    group = p4r.MulticastGroupEntry(multicast_group_id=1)
    client.insert(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
    )
    client.set_config(config_of("entities"))
    assert entries(client) == []
    assert served.exchange(1, frame()) == []
    query = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
    assert client.read(packet_replication_engine_entry=query) == []


def test_verifying_changes_nothing(served, client):
    client.set_config(config_of("entities", cookie=1))
    insert(client)
    client.set_config(config_of("entities", cookie=2), ACTION.VERIFY)
    assert client.get_config().cookie.cookie == 1
    assert len(entries(client)) == 1
    assert [port for port, _ in served.exchange(1, frame())] == [2]


def test_a_saved_pipeline_is_written_to_before_it_is_committed(served, client):
    client.set_config(config_of("entities", cookie=1))
    insert(client, 2)
    client.set_config(config_of("entities", cookie=2), ACTION.VERIFY_AND_SAVE)
    assert entries(client) == [], "requests refer to the saved pipeline"
    insert(client, 3)
    assert [port for port, _ in served.exchange(1, frame())] == [2], "packets still see the committed one"
    client.set_config(None, ACTION.COMMIT)
    assert [port for port, _ in served.exchange(1, frame())] == [3]
    assert client.get_config().cookie.cookie == 2
    assert len(entries(client)) == 1


def test_reconciling_keeps_entries_counters_groups_and_registers(served, client):
    client.set_config(config_of("entities", cookie=1))
    insert(client)
    served.exchange(1, frame())
    client.modify(
        register_entry=p4r.RegisterEntry(
            register_id=client.id("stored"), index=p4r.Index(index=4), data={"bitstring": b"\x09"}
        )
    )
    before = entries(client)
    assert before[0].counter_data.packet_count == 1
    changed = config_of("entities", cookie=2)
    document = json.loads(changed.p4_device_config)
    document["program"] = "another name"  # a different program, as far as bytes can tell
    changed.p4_device_config = json.dumps(document).encode()
    client.set_config(changed, ACTION.RECONCILE_AND_COMMIT)
    assert entries(client) == before
    assert [port for port, _ in served.exchange(1, frame())] == [2]
    stored = client.read(
        register_entry=p4r.RegisterEntry(register_id=client.id("stored"), index=p4r.Index(index=4))
    )
    assert stored[0].data.bitstring == b"\x09"
    client.set_config(config_of("entities", cookie=3), ACTION.RECONCILE_AND_COMMIT)
    assert client.get_config().cookie.cookie == 3
    assert entries(client)[0].counter_data.packet_count == 2


def test_a_program_that_cannot_keep_the_entries_is_not_reconciled(served, client):
    config = config_of("entities", cookie=1)
    client.set_config(config)
    insert(client)
    narrower = config_of("entities", cookie=2)
    for table in narrower.p4info.tables:
        if table.preamble.name.endswith("forwarding"):
            table.match_fields[0].bitwidth = 8
    with status() as refused:
        client.set_config(narrower, ACTION.RECONCILE_AND_COMMIT)
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert "do not fit the new program" in refused.message
    assert client.get_config() == config
    assert [port for port, _ in served.exchange(1, frame())] == [2]


def bad_configs():
    good = config_of("entities")
    p4info, document = good.p4info, good.p4_device_config
    twice = config_of("entities")
    twice.p4info.tables.append(twice.p4info.tables[0])
    strange = config_of("entities")
    strange.p4info.tables[0].match_fields[0].match_type = 0
    fewer = config_of("entities")
    del fewer.p4info.tables[0].match_fields[:]
    return {
        "empty": p4r.ForwardingPipelineConfig(),
        "no JSON": p4r.ForwardingPipelineConfig(p4info=p4info),
        "no P4Info": p4r.ForwardingPipelineConfig(p4_device_config=document),
        "not JSON": p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=b"\xff\xfe\x00"),
        "cut JSON": p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=document[:-100]),
        "other JSON": p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=b"{}"),
        "a list": p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=b"[1, 2]"),
        "table twice": twice,
        "match kind": strange,
        "other key": fewer,
    }


@pytest.mark.parametrize("action", [ACTION.VERIFY, ACTION.VERIFY_AND_SAVE, ACTION.VERIFY_AND_COMMIT])
def test_a_bad_configuration_is_an_invalid_argument_and_changes_nothing(served, client, action):
    config = config_of("entities", cookie=1)
    client.set_config(config)
    insert(client)
    for name, bad in bad_configs().items():
        with status() as refused:
            client.set_config(bad, action)
        assert refused.code == grpc.StatusCode.INVALID_ARGUMENT, name
        assert refused.message, name
    assert client.get_config() == config
    assert len(entries(client)) == 1


def test_actions_that_make_no_sense_are_refused(client):
    for action, config, code in (
        (ACTION.UNSPECIFIED, config_of("entities"), grpc.StatusCode.INVALID_ARGUMENT),
        (ACTION.COMMIT, None, grpc.StatusCode.NOT_FOUND),
        (ACTION.COMMIT, config_of("entities"), grpc.StatusCode.INVALID_ARGUMENT),
        (ACTION.VERIFY_AND_COMMIT, None, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with status() as refused:
            client.set_config(config, action)
        assert refused.code == code


def test_json_wrapped_as_older_clients_do_is_understood(served, client):
    # p4.tmp.P4DeviceConfig { bool reassign = 1; Extras extras = 2; bytes device_data = 3; }
    config = config_of("entities")
    document = config.p4_device_config
    size, varint = len(document), b""
    while size >= 0x80:
        varint, size = varint + bytes([size & 0x7F | 0x80]), size >> 7
    config.p4_device_config = b"\x08\x01\x1a" + varint + bytes([size]) + document
    client.set_config(config)
    insert(client)
    assert [port for port, _ in served.exchange(1, frame())] == [2]


def test_a_backup_controller_may_not_set_the_pipeline(client):
    with client.stream(10):
        client.election_id = 5
        with status() as refused:
            client.set_config(config_of("entities"))
        assert refused.code == grpc.StatusCode.PERMISSION_DENIED
        client.election_id = 10
        client.set_config(config_of("entities"))


def test_entries_of_a_lost_controller_stay(served, client):
    client.set_config(config_of("entities"))
    client.election_id = 1
    with client.stream():
        insert(client)
    assert [port for port, _ in served.exchange(1, frame())] == [2]
    with status() as refused:
        insert(client)
    assert refused.code == grpc.StatusCode.PERMISSION_DENIED


def test_a_port_that_goes_down_while_the_program_changes_is_down_for_the_new_one(served, client, monkeypatch):
    client.set_config(config_of("entities", cookie=1))
    profile = client.id("next_hops")
    for number, port in ((1, 2), (2, 3)):
        member = p4r.ActionProfileMember(
            action_profile_id=profile, member_id=number, action=client.action("mark", port, port)
        )
        client.insert(action_profile_member=member)
    group = p4r.ActionProfileGroup(action_profile_id=profile, group_id=1)
    group.members.add(member_id=1, weight=1, watch_port=b"\2")
    group.members.add(member_id=2, weight=1, watch_port=b"\3")
    client.insert(action_profile_group=group)
    to_group = p4r.TableAction(action_profile_group_id=1)
    client.insert(table_entry=client.entry("routes", [lpm(1, 0x0A000000, 8)], to_group))
    load = served.engine.set_pipeline

    def load_while_a_port_fails(program):
        load(program)
        served.call(served.device.port_changed, 2, False)

    monkeypatch.setattr(served.engine, "set_pipeline", load_while_a_port_fails)
    other = config_of("entities", cookie=2)
    other.p4_device_config += b"\n"
    client.set_config(other, ACTION.RECONCILE_AND_COMMIT)
    for number in range(8):
        flow = bytes(12) + b"\x10\x00" + bytes([10, 0, 0, 1]) + number.to_bytes(2, "big") + bytes(2)
        assert [port for port, _ in served.exchange(1, flow)] == [3]
