"""Streams: arbitration over gRPC, packets in and out, digests with acknowledgement, idle timeouts."""

import time

import grpc
import pytest
from finsy.proto import p4r, rpc_code
from p4runtime_harness import DEVICE_ID, data, exact, programmed, status

PUNT, DIGEST, AGE = 0x1005, 0x1004, 0x1008


@pytest.fixture
def client(served):
    with programmed(served, "entities") as client:
        client.election_id = 1
        yield client


def frame(kind, src=0x0B0000000002, payload=b"payload!"):
    return bytes(6) + src.to_bytes(6, "big") + kind.to_bytes(2, "big") + payload


def entry(client, number):
    return client.entry("forwarding", [exact(1, number)], client.action("drop"))


# ---- arbitration ----
def test_the_first_controller_is_primary_and_the_second_with_a_lower_id_is_not(served, client):
    with client.stream(10) as first, client.stream(5) as second:
        assert first.arbitration.status.code == rpc_code.OK
        assert second.arbitration.status.code == rpc_code.ALREADY_EXISTS
        assert second.arbitration.election_id.low == 10
        client.election_id = 5
        with status() as refused:
            client.insert(table_entry=entry(client, 1))
        assert refused.code == grpc.StatusCode.PERMISSION_DENIED
        client.election_id = 10
        client.insert(table_entry=entry(client, 1))
        first.close()
        assert second.receive("arbitration").status.code == rpc_code.NOT_FOUND
        second.send(
            arbitration=p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=p4r.Uint128(low=11))
        )
        assert second.receive("arbitration").status.code == rpc_code.OK


def test_a_wrong_device_or_a_used_election_id_closes_the_stream(client):
    with client.stream(10):
        for message, code in (
            (p4r.MasterArbitrationUpdate(device_id=9), grpc.StatusCode.NOT_FOUND),
            (
                p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=p4r.Uint128(low=10)),
                grpc.StatusCode.INVALID_ARGUMENT,
            ),
        ):
            call = client.stub.StreamChannel(iter([p4r.StreamMessageRequest(arbitration=message)]))
            with pytest.raises(grpc.RpcError) as closed:
                next(call)
            assert closed.value.code() == code


def test_requests_for_another_device_are_not_found(client):
    with status() as refused:
        client.stub.Write(p4r.WriteRequest(device_id=9))
    assert refused.code == grpc.StatusCode.NOT_FOUND
    with status() as refused:
        list(client.stub.Read(p4r.ReadRequest(device_id=9)))
    assert refused.code == grpc.StatusCode.NOT_FOUND
    with status() as refused:
        client.stub.GetForwardingPipelineConfig(p4r.GetForwardingPipelineConfigRequest(device_id=9))
    assert refused.code == grpc.StatusCode.NOT_FOUND
    with status() as refused:
        client.stub.SetForwardingPipelineConfig(p4r.SetForwardingPipelineConfigRequest(device_id=9))
    assert refused.code == grpc.StatusCode.NOT_FOUND


def test_the_served_version_is_told(client):
    assert client.stub.Capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version.startswith("1.")


def primary_with(election_id):
    return p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=p4r.Uint128(low=election_id))


def test_a_new_primary_is_told_when_what_was_begun_is_done_and_what_waited_is_refused(served, client):
    """P4Runtime, "Rules for Handling MasterArbitrationUpdate", 1.2: stop, tell the others, finish, tell the primary."""
    with client.stream(10) as old, client.stream(5) as new:
        served.run(served.device.lock.acquire())  # a request is being served
        client.election_id = 10
        waiting = client.stub.Write.future(
            p4r.WriteRequest(
                device_id=DEVICE_ID,
                election_id={"low": 10},
                updates=[p4r.Update(type=p4r.Update.INSERT, entity={"table_entry": entry(client, 1)})],
            )
        )
        served.run(_until(lambda: served.device.lock._waiters))
        new.send(arbitration=primary_with(11))
        assert old.receive("arbitration").status.code == rpc_code.ALREADY_EXISTS
        new.send(packet=p4r.PacketOut(payload=b"x", metadata=[p4r.PacketMetadata(metadata_id=77)]))
        assert new.receive("error").canonical_code == rpc_code.INVALID_ARGUMENT, (
            "and no news of being primary yet"
        )
        assert not waiting.done()
        served.call(served.device.lock.release)
        assert new.receive("arbitration").status.code == rpc_code.OK
        with status() as refused:
            waiting.result()
        assert refused.code == grpc.StatusCode.PERMISSION_DENIED
        client.election_id = 11
        client.insert(table_entry=entry(client, 1))


def test_a_primary_that_lost_again_before_it_was_told_never_hears_that_it_was(served, client):
    with client.stream(10) as first, client.stream(5) as second, client.stream(4) as third:
        served.run(served.device.lock.acquire())
        second.send(arbitration=primary_with(11))
        assert first.receive("arbitration").election_id.low == 11
        third.send(arbitration=primary_with(12))
        assert third.receive("arbitration").status.code == rpc_code.ALREADY_EXISTS
        assert second.receive("arbitration").election_id.low == 12
        assert first.receive("arbitration").election_id.low == 12
        served.call(served.device.lock.release)
        told = third.receive("arbitration")
        assert (told.status.code, told.election_id.low) == (rpc_code.OK, 12)
        third.send(arbitration=primary_with(13))
        assert second.receive("arbitration").election_id.low == 13, "nothing came between"


def test_a_backup_takes_over_with_what_was_written_and_all_that_is_reported(served, client):
    with client.stream(10) as old, client.stream(5) as backup, client.stream() as other:
        client.election_id = 10
        client.insert(table_entry=entry(client, 1))
        client.insert(digest_entry=digest_entry(client, max_list_size=1))
        old.close()
        for stream in (backup, other):
            assert stream.receive("arbitration").status.code == rpc_code.NOT_FOUND
        served.exchange(4, frame(PUNT))  # to nobody
        served.run(_until(lambda: served.device.packet_ins_dropped == 1))
        backup.send(arbitration=primary_with(11))
        assert other.receive("arbitration").status.code == rpc_code.ALREADY_EXISTS
        assert backup.receive("arbitration").status.code == rpc_code.OK
        with status() as refused:
            client.insert(table_entry=entry(client, 2))
        assert refused.code == grpc.StatusCode.PERMISSION_DENIED, "the old primary's id is good for nothing"
        client.election_id = 11
        client.insert(table_entry=entry(client, 2))
        assert len(client.read(table_entry=client.entry("forwarding"))) == 2
        served.exchange(4, frame(PUNT))
        assert backup.receive("packet").payload == frame(PUNT)
        served.exchange(2, frame(DIGEST, src=7))
        assert members(backup.receive("digest")) == [[b"\x07", b"\x02"]]


def test_capabilities_of_another_device_are_not_found(client):
    with status() as refused:
        client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=9))
    assert refused.code == grpc.StatusCode.NOT_FOUND
    here = client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=DEVICE_ID))
    assert here == client.stub.Capabilities(p4r.CapabilitiesRequest())


# ---- packets ----
def test_a_punted_frame_reaches_the_primary_with_its_metadata_and_nobody_else(served, client):
    with client.stream(10) as primary, client.stream(5) as backup:
        served.exchange(4, frame(PUNT))
        packet = primary.receive("packet")
        assert packet.payload == frame(PUNT)
        assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\x04"), (2, b"\x05")]
        primary.close()
        assert backup.receive("arbitration").status.code == rpc_code.NOT_FOUND
    served.exchange(4, frame(PUNT))
    served.run(_until(lambda: served.device.packet_ins_dropped == 1))


def test_a_controller_may_answer_every_packet_with_a_write_in_one_thread(served, client):
    with client.stream() as stream:
        for number in range(300):
            served.engine.rx(4, frame(PUNT, payload=number.to_bytes(8, "big")), time.monotonic_ns())
        served.exchange(4, None)
        for number in range(300):
            assert stream.receive("packet").payload.endswith(number.to_bytes(8, "big"))
            client.insert(table_entry=entry(client, 1))
            client.delete(table_entry=entry(client, 1))


async def _until(true):
    import asyncio

    while not true():
        await asyncio.sleep(0.005)


def metadata(*values):
    return [p4r.PacketMetadata(metadata_id=n, value=data(v)) for n, v in enumerate(values, 1)]


def test_a_packet_out_leaves_by_the_port_it_names(served, client):
    with client.stream() as stream:
        stream.send(packet=p4r.PacketOut(payload=frame(0x9000), metadata=metadata(3, 0)))
        out = []
        served.run(_until(lambda: out.extend(served.engine.poll(time.monotonic_ns())) or out))
        assert out == [(3, frame(0x9000))]


def test_a_wrong_packet_out_is_told_to_its_sender(served, client):
    with client.stream(10) as primary, client.stream(5) as backup:
        packet = p4r.PacketOut(payload=b"x", metadata=[p4r.PacketMetadata(metadata_id=7, value=b"\1")])
        primary.send(packet=packet)
        error = primary.receive("error")
        assert error.canonical_code == rpc_code.INVALID_ARGUMENT
        assert error.packet_out.packet_out == packet
        backup.send(packet=p4r.PacketOut(payload=b"x", metadata=metadata(3, 0)))
        assert backup.receive("error").canonical_code == rpc_code.PERMISSION_DENIED
        primary.send(other={})
        assert primary.receive("error").canonical_code == rpc_code.UNIMPLEMENTED


def test_the_longest_packet_out_arrives_and_a_longer_one_is_refused(served, client):
    with client.stream() as stream:
        stream.send(packet=p4r.PacketOut(payload=bytes(9000), metadata=metadata(3, 0)))
        out = []
        served.run(_until(lambda: out.extend(served.engine.poll(time.monotonic_ns())) or out))
        assert [(port, len(f)) for port, f in out] == [(3, 9000)]
        stream.send(packet=p4r.PacketOut(payload=bytes(20000), metadata=metadata(3, 0)))
        assert stream.receive("error").canonical_code == rpc_code.INVALID_ARGUMENT


# ---- digests ----
def digest_entry(client, **config):
    return p4r.DigestEntry(digest_id=client.id("learned_t"), config=p4r.DigestEntry.Config(**config))


def members(digest_list):
    return [[m.bitstring for m in sample.struct.members] for sample in digest_list.data]


MS = 10**6


def test_digests_are_sent_once_until_they_are_acknowledged(served, client):
    with client.stream() as stream:
        served.exchange(2, frame(DIGEST, src=1))  # not enabled yet: nothing comes of it
        config = digest_entry(client, max_list_size=1, ack_timeout_ns=60_000 * MS)
        client.insert(digest_entry=config)
        assert client.read(digest_entry=p4r.DigestEntry()) == [config]
        served.exchange(2, frame(DIGEST, src=7))
        first = stream.receive("digest")
        assert members(first) == [[b"\x07", b"\x02"]]
        served.exchange(2, frame(DIGEST, src=7))  # a duplicate, held back
        served.exchange(2, frame(DIGEST, src=8))
        second = stream.receive("digest")
        assert members(second) == [[b"\x08", b"\x02"]]
        assert second.list_id != first.list_id
        stream.send(digest_ack=p4r.DigestListAck(digest_id=first.digest_id, list_id=first.list_id))
        stream.send(digest_ack=p4r.DigestListAck(digest_id=first.digest_id, list_id=first.list_id))
        assert stream.receive("error").canonical_code == rpc_code.NOT_FOUND, "it was acknowledged already"
        served.exchange(2, frame(DIGEST, src=7))
        assert members(stream.receive("digest")) == [[b"\x07", b"\x02"]]


def test_digests_are_collected_until_the_list_is_full_or_old(served, client):
    with client.stream() as stream:
        client.insert(digest_entry=digest_entry(client, max_list_size=3, max_timeout_ns=100 * MS))
        for src in (1, 2, 3, 4):
            served.exchange(1, frame(DIGEST, src=src))
        assert [m[0] for m in members(stream.receive("digest"))] == [b"\1", b"\2", b"\3"]
        begin = time.monotonic()
        assert [m[0] for m in members(stream.receive("digest"))] == [b"\4"]
        assert time.monotonic() - begin < 5


def test_a_changed_configuration_holds_for_the_digests_that_wait(served, client):
    with client.stream() as stream:
        client.insert(digest_entry=digest_entry(client, max_list_size=10, max_timeout_ns=3600 * 1000 * MS))
        for src in (1, 2):
            served.exchange(1, frame(DIGEST, src=src))
        client.modify(digest_entry=digest_entry(client, max_list_size=2, max_timeout_ns=3600 * 1000 * MS))
        assert [m[0] for m in members(stream.receive("digest"))] == [b"\1", b"\2"]
        served.exchange(1, frame(DIGEST, src=3))
        client.modify(digest_entry=digest_entry(client, max_list_size=2, max_timeout_ns=MS))
        assert [m[0] for m in members(stream.receive("digest"))] == [b"\3"]
        served.exchange(1, frame(DIGEST, src=4))
        client.delete(digest_entry=digest_entry(client))
        client.insert(digest_entry=digest_entry(client, max_list_size=1))
        served.exchange(1, frame(DIGEST, src=5))
        last = [[m[0] for m in members(stream.receive("digest"))]]
        while last[-1] != [b"\5"]:  # that of source 4 may have been sent in time
            last.append([m[0] for m in members(stream.receive("digest"))])
        assert last in ([[b"\5"]], [[b"\4"], [b"\5"]])


def test_without_an_acknowledgement_timeout_equal_digests_of_one_burst_are_all_told(served, client):
    """P4Runtime, "DigestEntry": with ack_timeout_ns 0 the cache is always empty; simple_switch_grpc does the same."""
    with client.stream() as stream:
        client.insert(digest_entry=digest_entry(client, max_list_size=1))
        for _ in range(3):
            served.engine.rx(2, frame(DIGEST, src=7), time.monotonic_ns())
        served.exchange(2, None)
        assert [members(stream.receive("digest")) for _ in range(3)] == [[[b"\x07", b"\x02"]]] * 3


def test_equal_digests_share_a_list_once(served, client):
    with client.stream() as stream:
        client.insert(digest_entry=digest_entry(client, max_list_size=2, max_timeout_ns=60_000 * MS))
        for src in (7, 7, 8, 7, 9):
            served.engine.rx(2, frame(DIGEST, src=src), time.monotonic_ns())
        served.exchange(2, None)
        lists = [[m[0] for m in members(stream.receive("digest"))] for _ in range(2)]
        assert lists == [[b"\x07", b"\x08"], [b"\x07", b"\x09"]]


def test_an_unacknowledged_digest_comes_again_after_its_timeout(served, client):
    with client.stream() as stream:
        client.insert(digest_entry=digest_entry(client, max_list_size=1, ack_timeout_ns=50 * MS))
        served.exchange(1, frame(DIGEST, src=1))
        stream.receive("digest")
        deadline = time.monotonic() + 0.06
        served.run(_until(lambda: time.monotonic() > deadline))
        served.exchange(1, frame(DIGEST, src=1))
        assert members(stream.receive("digest")) == [[b"\1", b"\1"]]


def test_digest_configurations_are_refused_where_they_do_not_fit(served, client):
    with client.stream():
        for write, code in ((client.modify, rpc_code.NOT_FOUND), (client.delete, rpc_code.NOT_FOUND)):
            with status() as refused:
                write(digest_entry=digest_entry(client))
            assert refused.codes == [code]
        client.insert(digest_entry=digest_entry(client))
        with status() as refused:
            client.insert(digest_entry=digest_entry(client))
        assert refused.codes == [rpc_code.ALREADY_EXISTS]
        with status() as refused:
            client.modify(digest_entry=digest_entry(client, max_list_size=-1))
        assert refused.codes == [rpc_code.INVALID_ARGUMENT]
        client.delete(digest_entry=digest_entry(client))
        assert client.read(digest_entry=p4r.DigestEntry()) == []


# ---- idle timeouts ----
def test_an_entry_that_is_not_hit_is_reported_to_the_primary(served, client):
    with client.stream() as stream:
        aged = client.entry(
            "aging", [exact(1, 5)], client.action("read_meter", 2), idle_timeout_ns=20 * MS, metadata=b"m"
        )
        client.insert(table_entry=aged)
        assert client.read(table_entry=client.entry("aging")) == [aged]
        idle = p4r.TableEntry.IdleTimeout()
        (read,) = client.read(table_entry=client.entry("aging", time_since_last_hit=idle))
        assert read.time_since_last_hit.elapsed_ns >= 0
        deadline = time.monotonic() + 0.03
        served.run(_until(lambda: time.monotonic() > deadline))
        served.exchange(1, None)
        notification = stream.receive("idle_timeout_notification")
        assert [e.match[0].exact.value for e in notification.table_entry] == [b"\x05"]
        assert notification.table_entry[0].idle_timeout_ns == 20 * MS
        assert notification.table_entry[0].metadata == b"m"


def test_an_entry_that_stays_idle_is_reported_again_and_another_timeout_counts_from_its_writing(
    served, client
):
    with client.stream() as stream:
        entry_ = client.entry("aging", [exact(1, 5)], client.action("read_meter", 2), idle_timeout_ns=10 * MS)
        client.insert(table_entry=entry_)
        for _ in range(2):
            deadline = time.monotonic() + 0.02
            served.run(_until(lambda deadline=deadline: time.monotonic() > deadline))
            served.exchange(1, None)
            assert stream.receive("idle_timeout_notification").table_entry[0].idle_timeout_ns == 10 * MS
        entry_.idle_timeout_ns = 3600 * 1000 * MS
        client.modify(table_entry=entry_)
        assert client.read(table_entry=client.entry("aging")) == [entry_]
        idle = p4r.TableEntry.IdleTimeout()
        (read,) = client.read(table_entry=client.entry("aging", time_since_last_hit=idle))
        assert read.time_since_last_hit.elapsed_ns < 3600 * 1000 * MS
        deadline = time.monotonic() + 0.03
        served.run(_until(lambda: time.monotonic() > deadline))
        served.exchange(1, None)
        entry_.idle_timeout_ns = 0
        client.modify(table_entry=entry_)
        served.exchange(4, frame(PUNT))
        assert stream.receive("packet").payload == frame(PUNT), "no report came before it"
