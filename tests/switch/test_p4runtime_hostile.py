"""Hostile clients: whatever they send they get a status, and the switch goes on."""

import json
import random

import grpc
import pytest
from finsy.proto import p4i, p4r
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4runtime_harness import (
    DEVICE_ID,
    Client,
    Served,
    config_of,
    exact,
    lpm,
    optional,
    range_,
    status,
    ternary,
)

from switch.native.p4runtime.device import Stream
from switch.native.p4runtime.errors import BatchError, P4RuntimeError

SLOW = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.fixture(scope="module")
def served():
    served = Served()
    client = Client(served.address)
    client.election_id = None
    client.set_config(config_of("entities"))
    served.client = client
    yield served
    client.close()
    served.close()


def alive(served):
    """The switch still does its work: an entry in, a frame through, the entry out."""
    client = served.client
    client.write()
    mac = 0x0A0000000099
    entry = client.entry("forwarding", [exact(1, mac)], client.action("forward_counted", 2))
    client.delete(table_entry=entry) if client.read(
        table_entry=client.entry("forwarding", entry.match)
    ) else None
    client.set_config(config_of("entities"))
    client.insert(table_entry=entry)
    frame = mac.to_bytes(6, "big") + bytes(8)
    assert served.exchange(1, frame) == [(2, frame)]
    client.delete(table_entry=entry)


def call(served, coroutine):
    """Run a device's method; a refusal is the only exception that may come of it."""
    try:
        return served.run(coroutine)
    except (P4RuntimeError, BatchError) as refused:
        return refused


def samples(client):
    """One valid entity of each kind, as a start for mutation."""
    action = client.action("mark", 1, 2)
    member = p4r.ActionProfileMember(action_profile_id=client.id("next_hops"), member_id=1, action=action)
    group = p4r.ActionProfileGroup(action_profile_id=client.id("next_hops"), group_id=1)
    group.members.add(member_id=1, weight=1, watch_port=b"\1")
    one_shot = p4r.TableAction()
    one_shot.action_profile_action_set.action_profile_actions.add(weight=1).action.CopyFrom(action)
    value_set = p4r.ValueSetEntry(value_set_id=client.id("field_types"))
    value_set.members.add().match.append(exact(1, 5))
    multicast = p4r.MulticastGroupEntry(multicast_group_id=1)
    multicast.replicas.add(port=b"\1", instance=1).backup_replicas.add(port=b"\2", instance=1)
    clone = p4r.CloneSessionEntry(session_id=1, packet_length_bytes=20)
    clone.replicas.add(port=b"\1", instance=1)
    at = p4r.Index(index=1)
    meter = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)
    forward = client.entry("forwarding", [exact(1, 1)], client.action("forward_counted", 1))
    matches = [ternary(1, 1, 1), range_(2, 1, 2), optional(3, 1)]
    return [
        p4r.Entity(table_entry=forward),
        p4r.Entity(table_entry=client.entry("acl", matches, action, priority=3, metadata=b"m")),
        p4r.Entity(table_entry=client.entry("acl", [], action, is_default_action=True)),
        p4r.Entity(table_entry=client.entry("routes", [lpm(1, 1 << 24, 8)], one_shot)),
        p4r.Entity(
            table_entry=client.entry(
                "routes", [lpm(1, 2 << 24, 8)], p4r.TableAction(action_profile_group_id=1)
            )
        ),
        p4r.Entity(action_profile_member=member),
        p4r.Entity(action_profile_group=group),
        p4r.Entity(
            counter_entry={"counter_id": client.id("cells"), "index": at, "data": {"packet_count": 1}}
        ),
        p4r.Entity(meter_entry={"meter_id": client.id("limits"), "index": at, "config": meter}),
        p4r.Entity(
            register_entry={"register_id": client.id("stored"), "index": at, "data": {"bitstring": b"\1"}}
        ),
        p4r.Entity(direct_counter_entry={"table_entry": forward, "data": {"packet_count": 1}}),
        p4r.Entity(direct_meter_entry={"table_entry": client.entry("aging", [exact(1, 1)]), "config": meter}),
        p4r.Entity(value_set_entry=value_set),
        p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": multicast}),
        p4r.Entity(packet_replication_engine_entry={"clone_session_entry": clone}),
        p4r.Entity(digest_entry={"digest_id": client.id("learned_t"), "config": {"max_list_size": 1}}),
    ]


def mutated(data, random_):
    """`data` with a few bytes changed, removed or doubled."""
    data = bytearray(data)
    for _ in range(random_.randint(0, 4)):
        if not data:
            break
        place = random_.randrange(len(data))
        kind = random_.random()
        if kind < 0.5:
            data[place] = random_.choice([0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)])
        elif kind < 0.75:
            del data[place]
        else:
            data[place:place] = data[place : place + random_.randint(1, 8)]
    return bytes(data)


def parsed(message, data):
    try:
        message.ParseFromString(data)
    except Exception:  # protobuf's DecodeError: gRPC refuses such a request itself
        return None
    return message


@SLOW
@given(st.randoms(use_true_random=False), st.sampled_from([1, 1, 2, 3]), st.integers(0, 1))
def test_mutated_writes_and_reads_get_a_status(served, random_, kind, atomicity):
    entities = samples(served.client)
    for _ in range(10):
        entity = parsed(p4r.Entity(), mutated(random_.choice(entities).SerializeToString(), random_))
        if entity is None:
            continue
        update = p4r.Update(type=kind, entity=entity)
        write = p4r.WriteRequest(device_id=DEVICE_ID, updates=[update, update], atomicity=atomicity)
        call(served, served.device.write(write))
        answer = call(served, served.device.read(p4r.ReadRequest(device_id=DEVICE_ID, entities=[entity])))
        if isinstance(answer, tuple):
            for response in answer[0]:
                response.SerializeToString()


def test_after_all_that_the_switch_goes_on(served):
    alive(served)


@SLOW
@given(st.randoms(use_true_random=False))
def test_mutated_stream_messages_get_an_error_or_nothing(served, random_):
    stream = Stream()

    async def receive(request):
        served.device.receive(stream, request)

    metadata = [
        p4r.PacketMetadata(metadata_id=1, value=b"\1"),
        p4r.PacketMetadata(metadata_id=2, value=b"\0"),
    ]
    messages = [
        p4r.StreamMessageRequest(
            arbitration={"device_id": DEVICE_ID, "election_id": {"low": 1}, "role": {"name": "r"}}
        ),
        p4r.StreamMessageRequest(arbitration={"device_id": DEVICE_ID, "election_id": {"low": 2}}),
        p4r.StreamMessageRequest(packet={"payload": bytes(20), "metadata": metadata}),
        p4r.StreamMessageRequest(digest_ack={"digest_id": served.client.id("learned_t"), "list_id": 1}),
    ]
    try:
        for _ in range(20):
            request = parsed(
                p4r.StreamMessageRequest(), mutated(random_.choice(messages).SerializeToString(), random_)
            )
            if request is not None:
                call(served, receive(request))
    finally:
        served.call(served.device.leave, stream)
    served.exchange(1, None)


@settings(SLOW, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_mutated_p4infos_are_accepted_or_refused(served, random_):
    config = config_of("entities")
    p4info = parsed(p4i.P4Info(), mutated(config.p4info.SerializeToString(), random_))
    if p4info is None:
        return
    config.p4info.CopyFrom(p4info)
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=DEVICE_ID, action=p4r.SetForwardingPipelineConfigRequest.VERIFY, config=config
    )
    call(served, served.device.set_config(request))


def _positions(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from _positions(child, (*path, key))


def test_programs_with_one_value_replaced_are_accepted_or_refused(served):
    config = config_of("entities")
    document = json.loads(config.p4_device_config)
    places = [path for path in _positions(document) if path]
    random_ = random.Random(7)
    outcomes = {True: 0, False: 0}
    for path in random_.sample(places, 60):
        broken = json.loads(config.p4_device_config)
        node = broken
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = random_.choice([None, -1, "x", [], {}, 10**9, 1.5, True])
        config.p4_device_config = json.dumps(broken).encode()
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID, action=p4r.SetForwardingPipelineConfigRequest.VERIFY, config=config
        )
        answer = call(served, served.device.set_config(request))
        assert answer is None or answer.message, path
        outcomes[answer is None] += 1
        config = config_of("entities")
    assert outcomes[False] > 10, "most of what was broken matters"


def test_bytes_that_are_no_message_close_the_call_only(served):
    channel = grpc.insecure_channel(served.address)
    for method in ("Write", "Read", "SetForwardingPipelineConfig", "StreamChannel"):
        with status() as refused:
            if method == "Read":
                list(channel.unary_stream(f"/p4.v1.P4Runtime/{method}")(b"\xff\xff\xff"))
            elif method == "StreamChannel":
                list(channel.stream_stream(f"/p4.v1.P4Runtime/{method}")(iter([b"\xff\xff\xff"])))
            else:
                channel.unary_unary(f"/p4.v1.P4Runtime/{method}")(b"\xff\xff\xff")
        assert refused.code is not None
    channel.close()
    alive(served)


def test_a_fault_of_the_switch_is_an_internal_error_and_it_goes_on(served, monkeypatch, caplog):
    async def broken(request):
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr(served.device, "write", broken)
    with status() as refused:
        served.client.write()
    assert refused.code == grpc.StatusCode.INTERNAL
    assert "a wheel came off" in refused.message
    assert "a wheel came off" in caplog.text
    monkeypatch.undo()
    alive(served)


def test_a_client_that_does_not_read_costs_bounded_memory_and_its_losses_are_counted():
    served = Served()
    client = Client(served.address)
    sent = 12_000
    try:
        with client.stream() as stream:
            client.set_config(config_of("entities"))
            for _ in range(sent // 100):
                for _ in range(100):
                    served.engine.rx(1, bytes(12) + b"\x10\x05" + bytes(1400), 0)
                served.exchange(1, None)
            dropped = served.device.packet_ins_dropped
            assert dropped > 0
            assert served.engine.drops()["cpu_queue"] == (0, 0)
            for _ in range(sent - dropped):
                stream.receive("packet")
            served.exchange(1, bytes(12) + b"\x10\x05last")
            assert stream.receive("packet").payload.endswith(b"last")
    finally:
        client.close()
        served.close()
