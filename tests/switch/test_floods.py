"""Memory stays bounded under floods: what is not read is dropped and counted, or who does not read is sent away."""

import asyncio
import ctypes
import gc
import time
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r
from p4programs import compiled
from p4runtime_harness import DEVICE_ID, Client, Served, config_of, status

from switch.native.binding import Engine
from switch.native.compilers import sanitized
from switch.native.metrics import MetricsServer
from switch.native.p4runtime import arbitration, device, digests
from switch.native.program import Program

pytestmark = pytest.mark.skipif(sanitized(), reason="a sanitizer keeps what was freed")

MB = 1 << 20
CPU, DIGEST = b"\x10\x05", b"\x10\x04"
"""Ethertypes with which `entities` sends a frame to the controller and learns its source."""


def resident():
    """Bytes of memory that this process really has, once the C library has given back what it does not use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def program(name):
    json_path, p4info = compiled(name)
    return Program.from_text(json_path.read_text(), p4info.read_text())


def grows(flood, most=4 * MB):
    """The first flood may fill what there is to fill; more of it may not add to that."""
    flood()
    before = resident()
    for _ in range(3):
        flood()
    growth = resident() - before
    assert growth < most, f"{growth / MB:.1f} MB"


@pytest.fixture
def engine():
    engine = Engine(program("entities"))
    for port in (1, 2, 3, 4):
        engine.add_port(port, 1000)  # bit/s: nothing leaves
    yield engine
    engine.close()


def test_full_queues_drop_and_count(engine):
    name = "EntitiesIngress.forwarding"
    for port in (1, 2, 3, 4):
        engine.table_add(name, [("exact", port)], "EntitiesIngress.forward_counted", [port])
    engine.set_queue_limit(bytes=2 * MB, packets=4000)
    sent = 0

    def flood():
        nonlocal sent
        for i in range(16_000):
            engine.rx(1, (i % 4 + 1).to_bytes(6, "big") + bytes(8 + i % 1400), 0)
        sent += 16_000

    grows(flood)
    held = sum(queue.packets for port in (1, 2, 3, 4) for queue in engine.queue_stats(port))
    assert engine.drops()["queue_bytes"][0] + held == sent


@pytest.mark.parametrize(
    ("ethertype", "counted"),
    [(CPU, lambda e: e.drops()["cpu_queue"][0]), (DIGEST, lambda e: e.faults()["digests_lost"])],
)
def test_what_no_controller_takes_is_dropped_and_counted(engine, ethertype, counted):
    number = 0

    def flood():
        nonlocal number
        for _ in range(8_000):
            number += 1
            engine.rx(1, bytes(6) + number.to_bytes(6, "big") + ethertype + bytes(200), number * 1000)
            engine.poll(number * 1000 + 10**12)

    grows(flood)
    assert counted(engine) > 10_000


def test_pauses_and_messages_that_nobody_takes_are_counted_as_lost():
    with Engine(program("state")) as engine:
        engine.add_port(1)
        ask = bytes([20]) + bytes(44)

        def flood():
            for _ in range(20_000):
                engine.rx(1, ask, 0)
            engine.poll(10**12)

        grows(flood)
        assert engine.faults()["logs_lost"] > 10_000


@pytest.fixture
def served():
    served = Served()
    served.client = Client(served.address)
    served.client.election_id = None
    served.client.set_config(config_of("entities"))
    yield served
    served.client.close()
    served.close()


def test_digests_that_are_never_acknowledged_are_forgotten_in_the_end(served, monkeypatch):
    monkeypatch.setattr(digests, "MAX_HELD", 500)
    client = served.client
    config = {"max_list_size": 100, "max_timeout_ns": 2**62, "ack_timeout_ns": 2**62}
    client.insert(digest_entry={"digest_id": client.id("learned_t"), "config": config})
    number = 0

    def learn(count):
        nonlocal number
        for _ in range(count):
            number += 1
            served.engine.rx(1, bytes(6) + number.to_bytes(6, "big") + DIGEST + bytes(46), 0)
        served.exchange(1, None)

    for _ in range(100):
        learn(200)
    (state,) = served.device._pipeline.digests._streams.values()
    assert state.last_list_id == 200
    assert len(state.held) <= 500 and sum(len(s) for _, s in state.unacknowledged.values()) <= 500
    # A list larger than that is never collected.
    client.modify(
        digest_entry={"digest_id": client.id("learned_t"), "config": {**config, "max_list_size": 2**30}}
    )
    learn(700)
    assert len(state.buffer) < 500


def test_a_client_that_asks_without_end_and_reads_nothing_is_sent_away(served, monkeypatch):
    monkeypatch.setattr(device, "STREAM_BACKLOG", 50)

    async def never(messages, context):
        await asyncio.Event().wait()

    monkeypatch.setattr("switch.native.p4runtime.server._write_out", never)
    with served.client.stream_raw() as stream:
        for _ in range(200):
            stream.send(arbitration={"device_id": DEVICE_ID, "election_id": {"low": 1}})
        with pytest.raises(grpc.RpcError) as sent_away:
            next(stream.call)
    assert sent_away.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    monkeypatch.undo()
    assert served.client.read(table_entry=p4r.TableEntry()) is not None


def test_roles_of_clients_that_are_gone_are_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(arbitration, "MAX_ROLES", 10)
    known = arbitration.Arbitration(1)
    message = p4r.MasterArbitrationUpdate(device_id=1, election_id={"low": 5})
    known.update("first", message)
    for number in range(100):
        message.role.name = f"role{number}"
        known.update(number, message)
        known.leave(number)
    assert len(known._roles) == 10 and known.is_primary("first")
    for number in range(200, 209):
        message.role.name = f"role{number}"
        known.update(number, message)
    message.role.name = "one too many"
    with pytest.raises(arbitration.P4RuntimeError, match="10 roles already"):
        known.update(300, message)
    assert all(known.is_primary(number) for number in range(200, 209))


def test_a_read_that_asks_for_everything_again_and_again_is_refused(served, monkeypatch):
    monkeypatch.setattr(device, "MOST_READ", 2_000)
    everything = p4r.Entity(register_entry={"register_id": served.client.id("stored")})
    cells = len(served.client.read(register_entry=everything.register_entry))
    request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[everything] * (3_000 // cells))
    with status() as refused:
        list(served.client.stub.Read(request))
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "ask for fewer" in refused.message


def test_a_message_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr("switch.native.p4runtime.server.MAX_MESSAGE_BYTES", 1 * MB)
    served = Served()
    client = Client(served.address)
    packet = p4r.StreamMessageRequest(packet={"payload": bytes(2 * MB)})

    def flood():
        for _ in range(20):
            with client.stream_raw() as stream:
                stream.send(packet=packet.packet)
                with pytest.raises(grpc.RpcError) as refused:
                    next(stream.call)
                assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    grows(flood, 60 * MB)  # of the 120 MB that were sent meanwhile
    client.close()
    served.close()


def test_clients_come_and_go_without_leaving_anything_behind(served):
    def flood():
        clients = [Client(served.address) for _ in range(20)]
        streams = [client.stream_raw() for client in clients]
        for number, stream in enumerate(streams):
            stream.__enter__().send(arbitration={"device_id": DEVICE_ID, "election_id": {"low": number + 1}})
        for stream in streams:
            stream.__exit__(None, None, None)
        for client in clients:
            client.close()
        deadline = time.monotonic() + 60
        while served.device.arbitration._role_of and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not served.device.arbitration._role_of

    grows(flood, 16 * MB)


def test_the_metrics_address_takes_no_endless_request_and_waits_for_nobody(monkeypatch):
    monkeypatch.setattr("switch.native.metrics._PATIENCE_S", 0.5)

    async def run():
        server = MetricsServer(lambda: [])
        host, _, port = (await server.start("127.0.0.1:0")).rpartition(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(100)]
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /" + b"x" * 10 * MB)
        with suppress(ConnectionResetError):
            assert await reader.read() == b"", "closed without an answer"
        for reader, writer in idle:
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await server.close()

    asyncio.run(run())
