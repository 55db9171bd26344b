"""The packet loop: real frames between veths and engines, in C."""

import json
import select
import threading
import time

import pytest
from p4programs import compiled
from veths import veth_pairs

from switch.link import wire_time_ps
from switch.native.binding import Engine
from switch.native.packetloop import PacketLoop, PacketLoopError
from switch.native.ports import PortError, kernel_drops, open_port
from switch.native.program import Program
from switch.native.sampler import RecordFile, Sampler

pytestmark = pytest.mark.root

MAC = 0x0A0000000001


@pytest.fixture(scope="module")
def program():
    json_path, p4info = compiled("entities")
    return Program.from_text(json_path.read_text(), p4info.read_text())


@pytest.fixture(scope="module")
def made_pairs():
    with veth_pairs("loop", 4) as pairs:
        yield pairs


@pytest.fixture
def pairs(made_pairs):
    made_pairs.listen()
    return made_pairs


@pytest.fixture
def loop():
    loop = PacketLoop()
    loop.start()
    yield loop
    loop.close()


class Attached:
    """An engine whose ports 1 to n are the switch's ends of the pairs; everything goes to port 2."""

    def __init__(self, loop, program, pairs, ports=(1, 2), rate=0):
        self.loop = loop
        self.engine = Engine(program)
        self.sockets = {port: open_port(pairs.switch(port)) for port in ports}
        for port in ports:
            self.engine.add_port(port, rate)
        self.engine.table_add(
            "EntitiesIngress.forwarding", [("exact", MAC)], "EntitiesIngress.forward_counted", [2]
        )
        self.number = loop.add_device(self.engine)

    def join(self):
        for port, sock in reversed(self.sockets.items()):  # the way out first
            self.loop.add_port(self.number, port, sock.fileno())
        return self

    def close(self):
        self.loop.remove_device(self.number)
        self.engine.close()
        for sock in self.sockets.values():
            sock.close()


@pytest.fixture
def attached(loop, program, pairs):
    attached = Attached(loop, program, pairs).join()
    yield attached
    attached.close()


def frame(size=64, kind=b"\x90\x00", tag=b""):
    head = MAC.to_bytes(6, "big") + bytes.fromhex("020000000009") + tag + kind
    return head + bytes(n & 0xFF for n in range(size - len(head)))


@pytest.mark.parametrize("size", [14, 15, 60, 64, 1500, 9000, 9230])
def test_a_frame_of_any_size_goes_through_byte_for_byte(attached, pairs, size):
    pairs.host(1).send(frame(size))
    assert pairs.receive(2) == frame(size)


@pytest.mark.parametrize("tag", ["81000064", "8100e064", "88a80007", "88a8000781000064"])
def test_vlan_tags_that_the_kernel_takes_out_are_put_back(attached, pairs, tag):
    tagged = frame(100, tag=bytes.fromhex(tag))
    pairs.host(1).send(tagged)
    out = pairs.host(2)
    out.setsockopt(263, 8, 0)  # the test's own socket: what the kernel took out it tells beside the frame
    assert select.select([out], [], [], 5)[0]
    out.setsockopt(263, 8, 1)
    received, ancillary, _, _ = out.recvmsg(2000, 100)
    assert _with_tag(received, ancillary) == tagged


def _with_tag(received, ancillary):
    for level, kind, data in ancillary:
        if (level, kind) == (263, 8):
            state = int.from_bytes(data[0:4], "little")
            if state & 16:
                tpid = int.from_bytes(data[18:20], "little") if state & 64 else 0x8100
                tci = int.from_bytes(data[16:18], "little")
                return received[:12] + tpid.to_bytes(2, "big") + tci.to_bytes(2, "big") + received[12:]
    return received


def test_a_burst_keeps_its_order(attached, pairs):
    frames = [frame(200 + number % 50) + number.to_bytes(4, "big") for number in range(2000)]
    for one in frames:
        pairs.host(1).send(one)
    assert pairs.receive_all(2, len(frames)) == frames


def test_frames_leave_at_the_ports_rate_and_not_faster(loop, program, pairs):
    rate, size, count = 20_000_000, 1000, 100
    attached = Attached(loop, program, pairs, rate=rate).join()
    try:
        begin = time.monotonic_ns()
        for _ in range(count):
            pairs.host(1).send(frame(size))
        frames = pairs.receive_all(2, count)
        took = time.monotonic_ns() - begin
        assert len(frames) == count
        ideal = count * wire_time_ps(size, rate) / 1000
        assert ideal <= took < 2 * ideal
    finally:
        attached.close()


def test_a_port_that_goes_down_is_counted_and_works_again(attached, pairs):
    pairs.link("s2", "down")
    pairs.host(1).send(frame(100))
    _until(lambda: attached.loop.port_stats(attached.number, 2).tx_down == 1)
    stats = attached.loop.port_stats(attached.number, 2)
    assert (stats.tx_down, stats.tx_down_bytes, stats.downs) == (1, 100, 1)
    pairs.link("s2", "up")
    pairs.host(1).send(frame(101))
    assert pairs.receive(2) == frame(101)


def test_a_frame_beyond_the_mtu_is_counted_and_the_next_one_goes(attached, pairs):
    pairs.link("s2", "mtu", "1000")
    try:
        pairs.host(1).send(frame(2000))
        pairs.host(1).send(frame(500))
        assert pairs.receive(2) == frame(500)
        stats = attached.loop.port_stats(attached.number, 2)
        assert (stats.tx_mtu, stats.tx_mtu_bytes) == (1, 2000)
    finally:
        pairs.link("s2", "mtu", "9216")


def test_an_interface_that_is_deleted_harms_nobody_else(loop, program):
    with veth_pairs("gone", 4) as pairs:
        attached = Attached(loop, program, pairs, ports=(1, 2, 3)).join()
        pairs.link("s3", "down")
        from veths import ip

        ip("-n", pairs.namespace, "link", "delete", "s3")
        pairs.host(1).send(frame(64))
        assert pairs.receive(2) == frame(64)
        attached.close()


def test_what_the_kernel_drops_is_a_drop_of_the_switch(loop, program, pairs, tmp_path):
    attached = Attached(loop, program, pairs)
    attached.sockets[1].setsockopt(1, 8, 20_000)  # SO_RCVBUF: room for a few frames
    kernel_drops(attached.sockets[1])
    for _ in range(1000):
        pairs.host(1).send(frame(1000))
    records = RecordFile(tmp_path / "switch.jsonl", 0)
    sampler = Sampler("s1", attached.engine, [1, 2], attached.sockets, loop, attached.number, records)
    attached.join()
    _until(lambda: attached.engine.port_stats(1).rx_packets > 0)
    sampler.sample(time.monotonic_ns())
    records.close()
    passed = attached.engine.port_stats(1).rx_packets
    attached.close()
    drops = [json.loads(line) for line in (tmp_path / "switch.jsonl").read_text().splitlines()]
    (drop,) = [record for record in drops if record["kind"] == "drop"]
    assert (drop["node"], drop["port"], drop["reason"]) == ("s1", 1, "kernel_rx")
    assert drop["packets"] == 1000 - passed > 0


def test_frames_for_a_port_without_an_interface_are_counted(attached, pairs):
    attached.engine.add_port(4)
    attached.engine.table_default("EntitiesIngress.acl", "EntitiesIngress.mark", [4, 1])
    pairs.host(1).send(frame(100, kind=b"\x10\x01"))
    _until(lambda: attached.loop.unattached(attached.number) == (1, 100))


def test_frames_for_the_cpu_wake_the_control_thread(attached, pairs):
    pairs.host(1).send(frame(100, kind=b"\x10\x05"))
    assert select.select([attached.loop.event_fd()], [], [], 5)[0]
    assert attached.loop.take_pending() == [attached.number]
    ((_, taken),) = attached.engine.take_cpu_frames()
    assert taken[2:] == frame(100, kind=b"\x10\x05")
    assert not select.select([attached.loop.event_fd()], [], [], 0)[0]
    pairs.host(1).send(frame(100, kind=b"\x10\x05"))
    assert select.select([attached.loop.event_fd()], [], [], 5)[0]


def test_a_device_leaves_under_traffic_and_its_neighbour_goes_on(loop, program, pairs):
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            pairs.host(3).send(frame(64))

    neighbour = Attached(loop, program, pairs, ports=(1, 2)).join()
    sender = threading.Thread(target=flood)
    sender.start()
    try:
        for _ in range(30):
            Attached(loop, program, pairs, ports=(3, 4)).join().close()
    finally:
        stop.set()
        sender.join()
    pairs.host(1).send(frame(77))
    assert pairs.receive(2) == frame(77)
    neighbour.close()


def test_the_loop_refuses_what_is_not_there(loop, attached):
    with pytest.raises(PacketLoopError, match="no such device"):
        loop.remove_device(77)
    with pytest.raises(PacketLoopError, match="port 5 is not in the packet loop"):
        loop.port_stats(attached.number, 5)
    with pytest.raises(PacketLoopError, match="port 1 cannot join"):
        loop.add_port(attached.number, 1, attached.sockets[1].fileno())


def test_an_interface_that_cannot_be_opened_is_named(pairs):
    for name, says in (
        ("nope0", "interface nope0 does not exist"),
        (f"{pairs.namespace}/nope0", "nope0 does not exist"),
        ("no-such-namespace/s1", "network namespace no-such-namespace does not exist"),
    ):
        with pytest.raises(PortError, match=says):
            open_port(name)


def _until(true, timeout=10.0):
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)
