"""The Prometheus endpoint of the switch process."""

import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from bmv2_files import write_pcap
from hosted_switch import HostedSwitch
from p4programs import compiled
from probe import PAUSE, frame
from test_daemon import Process

from switch.native.metrics import _METRICS, MetricsServer, render

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} (-?[0-9.e+-]+)')


def parse(text):
    """Strictly: HELP, TYPE, then samples of that metric; {(name, labels): value}."""
    assert text.endswith("\n")
    values, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert len(line.split(None, 3)) == 4
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == current and kind == ("counter" if name.endswith("_total") else "gauge")
        else:
            match = SAMPLE.fullmatch(line)
            assert match and match[1] == current, line
            labels = tuple(sorted(re.findall(r'([a-z_]+)="([^"]*)"', match[2])))
            assert (match[1], labels) not in values, line
            values[match[1], labels] = float(match[3])
    return values


@pytest.fixture
def hosted():
    switch = HostedSwitch("queues")
    yield switch
    switch.close()


@pytest.fixture
def served(hosted):
    server = MetricsServer(hosted.host.running)
    yield hosted.run(server.start("127.0.0.1:0"))
    hosted.run(server.close())


def get(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def labels(**values):
    return tuple(sorted((name, str(value)) for name, value in values.items()))


def test_ports_queues_pauses_drops_and_tables_are_counted(hosted, served):
    hosted.send(1, frame(3, 0, PAUSE, value=2**40, index=2 * 8 + 3))
    hosted.call(hosted.host.set_queue, "s1", 2, 3, limit_packets=2)
    for _ in range(3):
        hosted.send(1, frame(2, 3, length=100))
    hosted.send(1, frame(77, 1, length=100))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        text, kind = get(served)
        values = parse(text)
        if (
            "xoff_drop_packets_total",
            labels(**{"class": ""}, port="", reason="no_port", switch="s1"),
        ) in values:
            break
    assert kind.startswith("text/plain; version=0.0.4")
    port1, queue = labels(port=1, switch="s1"), labels(**{"class": 3}, port=2, switch="s1")
    assert values["xoff_port_rx_packets_total", port1] == 5
    assert values["xoff_port_up", port1] == 1
    assert values["xoff_queue_bytes", queue] == 200
    assert values["xoff_queue_in_packets_total", queue] == 2
    assert values["xoff_queue_paused", queue] == 1
    assert values["xoff_queue_paused_seconds_total", queue] > 0
    full = labels(**{"class": 3}, port=2, reason="queue_packets", switch="s1")
    assert values["xoff_drop_packets_total", full] == 1 and values["xoff_drop_bytes_total", full] == 100
    drops = {key: value for key, value in values.items() if key[0] == "xoff_drop_packets_total"}
    # The frame that asks for the pause, the third for the full queue, the one for port 77.
    assert sum(drops.values()) == 3
    tables = [key for key in values if key[0] == "xoff_table_hits_total"]
    assert {dict(key[1])["table"] for key in tables} == set(hosted.engine.program.tables)


def test_every_metric_is_named_once_and_a_switch_that_is_killed_is_gone(hosted, served):
    assert {name for name, _ in parse(get(served)[0])} <= {
        f"{name}_total" if kind == "counter" else name for name, (kind, _) in _METRICS.items()
    }
    hosted.run(hosted.host.kill("s1"))
    assert get(served)[0] == "\n"


def test_names_are_escaped():
    class Odd:
        name = 'a"b\\c\nd'

        def __getattr__(self, name):
            raise AssertionError(name)

    import switch.native.metrics as metrics

    samples = metrics._samples
    metrics._samples = lambda switch: [("xoff_port_up", {}, 1)]
    try:
        assert 'switch="a\\"b\\\\c\\nd"' in render([Odd()])
    finally:
        metrics._samples = samples


@pytest.mark.parametrize(
    "request_, status",
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", b"200"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\xff\xfe\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"x" * 20000, None),
    ],
)
def test_requests_of_every_kind_are_answered_or_dropped(served, request_, status):
    host, port = served.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 20) as connection:
        connection.sendall(request_)
        try:
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        except ConnectionResetError:
            answer = b""
    assert answer.split(b" ", 2)[1] == status if status else answer == b""
    assert get(served)[0]


def test_the_process_says_where_it_serves_metrics(tmp_path):
    json_path, p4info = compiled("entities")
    write_pcap(tmp_path / "p1_in.pcap", [(0, bytes(60))])
    process = Process("--use-files", 0, "--metrics-addr", "127.0.0.1:0", "-i", f"1@{tmp_path}/p1", "--name", "s9",
                      "--p4info", p4info, json_path, "--", "--grpc-server-addr", "127.0.0.1:0")  # fmt: skip
    try:
        ready = process.event()
        assert process.event()["frames_in"] == 1
        values = parse(get(ready["metrics"])[0])
        assert values["xoff_port_rx_packets_total", labels(port=1, switch="s9")] == 1
        with pytest.raises(urllib.error.HTTPError):
            get(ready["metrics"], "/")
    finally:
        process.close()


def test_an_address_that_cannot_be_listened_on_is_told(tmp_path):
    json_path, _ = compiled("entities")
    for address in ("nonsense", "203.0.113.1:1", "127.0.0.1:99999"):
        process = Process("--metrics-addr", address, json_path, "--", "--grpc-server-addr", "127.0.0.1:0")
        try:
            event = process.event()
            assert event["event"] == "error" and f"--metrics-addr {address}" in event["message"]
        finally:
            process.close()
