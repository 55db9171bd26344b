"""`--links memory`: switches of one process joined without the kernel."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from p4programs import compiled
from probe import frame

from switch.device import DeviceSpec, PortSpec
from switch.device_file import DeviceFileError, read_devices, write_devices
from switch.native.node import SwitchHost
from switch.native.options import OptionsError, parse_options

TIMEOUT = 30.0


def device(name, number, peers, rate=0, delay_ns=0):
    """Ports 1 and 2; `peers`: port -> `NAME:PORT`. Frames go out of port 2 (the frame says so)."""
    json_path, p4info = compiled("queues")
    ports = tuple(PortSpec(port, f"nowhere-{name}-{port}" if port in peers else None, rate, delay_ns, peers.get(port))
                  for port in (1, 2))  # fmt: skip
    return DeviceSpec(name, number, ports, json_path, p4info, "127.0.0.1:0")


def chain(count, **link):
    """s1 to s`count`, port 2 of each joined to port 1 of the next."""
    devices = []
    for i in range(1, count + 1):
        peers = {1: f"s{i - 1}:2"} if i > 1 else {}
        if i < count:
            peers[2] = f"s{i + 1}:1"
        devices.append(device(f"s{i}", i, peers, **link))
    return devices


class Joined:
    """A host with these switches, on an event loop in a thread of its own."""

    def __init__(self, devices):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self._start(devices))

    async def _start(self, devices):
        self.host = SwitchHost(links_in_memory=True)
        await self.host.start()
        for spec in devices:
            await self.host.add(spec)

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT)

    def engine(self, name):
        return self.host.find(name).running.engine

    def send(self, name, *frames):
        for data in frames:
            self.engine(name).rx(1, data, time.monotonic_ns())
        self.host.wake(self.host.find(name))

    def sent(self, name, packets):
        """Wait until port 2 has sent so many packets."""
        deadline = time.monotonic() + TIMEOUT
        while (found := self.engine(name).port_stats(2).tx_packets) < packets and time.monotonic() < deadline:
            time.sleep(0.005)
        return found

    def close(self):
        self.run(self.host.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()


@pytest.fixture
def joined():
    hosts = []

    def start(devices):
        hosts.append(Joined(devices))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def test_frames_cross_a_chain_of_switches_and_each_is_counted_everywhere(joined):
    host = joined(chain(12))
    host.send("s1", *(frame(2, i % 8, length=100 + i) for i in range(500)))
    assert host.sent("s12", 500) == 500
    octets = sum(100 + i for i in range(500))
    for i in range(1, 13):
        stats = host.engine(f"s{i}").port_stats(2)
        assert (stats.tx_packets, stats.tx_bytes) == (500, octets)
        if i > 1:
            stats = host.engine(f"s{i}").port_stats(1)
            assert (stats.rx_packets, stats.rx_bytes) == (500, octets)
    running = host.host.find("s12").running
    deadline = time.monotonic() + TIMEOUT
    while running.loop.unattached(running.number) != (500, octets) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert running.loop.unattached(running.number) == (500, octets)  # nothing is behind the last port


def test_links_in_memory_keep_their_rate_and_delay(joined):
    host = joined(chain(2, rate=8_000_000, delay_ns=50_000_000))
    began = time.monotonic()
    host.send("s1", *[frame(2, length=976)] * 100)
    assert host.sent("s2", 100) == 100
    # 100 ms for 100 frames of 1000 wire bytes on the first link, 50 ms on the way.
    assert time.monotonic() - began >= 0.148


def test_a_switch_that_is_killed_loses_what_is_sent_to_it_and_is_joined_again_when_restarted(joined):
    host = joined(chain(3))
    host.run(host.host.kill("s2"))
    host.send("s1", *[frame(2)] * 10)
    running = host.host.find("s1").running
    deadline = time.monotonic() + TIMEOUT
    while running.loop.unattached(running.number)[0] < 10 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert running.loop.unattached(running.number)[0] == 10
    host.run(host.host.restart("s2"))
    host.send("s1", *[frame(2)] * 7)
    assert host.sent("s3", 7) == 7


def test_frames_that_go_round_for_ever_leave_the_control_threads_their_turn(joined):
    host = joined([device("s1", 1, {1: "s2:2", 2: "s2:1"}), device("s2", 2, {1: "s1:2", 2: "s1:1"})])
    host.send("s1", *[frame(2)] * 200)
    assert host.sent("s2", 20_000) >= 20_000
    began = time.monotonic()
    host.run(host.host.kill("s2"))
    assert time.monotonic() - began < 10


def test_a_switch_may_be_joined_to_itself(joined):
    host = joined([device("s1", 1, {1: "s1:2", 2: "s1:1"})])
    host.send("s1", frame(2))
    assert host.sent("s1", 1000) >= 1000


def test_peers_that_do_not_agree_are_refused(tmp_path):
    one, two = chain(2)
    path = tmp_path / "devices.json"
    write_devices(path, [one, two])
    assert read_devices(path) == (one, two)
    for wrong, complaint in (
        ("s9:1", "port s1:2 has the peer s9:1, there is no such port"),
        ("s2:2", "port s1:2 has the peer s2:2, whose peer is None"),
        ("s2", "there is no such port"),
    ):
        write_devices(path, [replace(one, ports=(one.ports[0], replace(one.ports[1], peer=wrong))), two])
        with pytest.raises(DeviceFileError) as caught:
            read_devices(path)
        assert complaint in str(caught.value)


def test_links_in_memory_take_one_thread():
    with pytest.raises(OptionsError) as caught:
        parse_options("--devices d.json --links memory --threads 2".split())
    assert "--threads 1" in str(caught.value)
    assert parse_options("--devices d.json".split()).links == "veth"
