"""The control service: settings and statistics over gRPC, and simple_switch_CLI's commands beside the real one."""

import json
import socket
import subprocess
import sys
import time

import grpc
import pytest
from bmv2_files import tool, write_pcap
from finsy.proto import p4r
from hosted_switch import HostedSwitch
from hypothesis import given, settings
from hypothesis import strategies as st
from p4programs import ROOT, compiled
from p4runtime_harness import Client, config_of, exact
from probe import frame

from switch.cli import UsageError, own_call
from switch.control_client import SERVICE, ControlClient, ControlRefusedError


@pytest.fixture(scope="module")
def shared():
    switch = HostedSwitch()
    yield switch
    switch.close()


@pytest.fixture
def switch():
    switch = HostedSwitch()
    yield switch
    switch.close()


@pytest.fixture
def client(shared):
    with ControlClient(shared.address) as client:
        yield client


# ---- settings ----
def test_a_queue_is_set_and_read_over_the_p4runtime_port(client, shared):
    client.call("SetQueue", port=2, **{"class": 5}, weight=3, rate_bps=10**9, alpha=0.5)
    (queue,) = client.call("GetQueues", port=2, **{"class": 5})["queues"]
    assert (queue["weight"], queue["rate_bps"], queue["alpha"], queue["bytes"]) == (3, 10**9, 0.5, 0)
    assert shared.engine.queue_settings(2, 5).weight == 3
    assert shared.engine.queue_settings(2, 4).weight == 0


def test_a_port_is_set_and_read(client, shared):
    loss = {"direction": "rx", "every": 1}
    answer = client.call("SetPort", port=3, rate_bps=5_000_000, delay_ns=700, loss=loss)
    (port,) = answer["ports"]
    assert (port["rate_bps"], port["delay_ns"], port["up"]) == (5_000_000, 700, True)
    shared.send(3, bytes(60))
    (port,) = client.call("GetPorts", port=3)["ports"]
    assert port["drops"] == {"link_loss": {"packets": 1, "bytes": 60}}
    assert client.call("SetPort", port=3, up=False, loss={})["ports"][0]["up"] is False
    shared.send(3, bytes(70))
    client.call("SetPort", port=3, up=True)
    drops = client.call("GetDrops")["drops"]
    assert drops["link_loss"] == {"packets": 1, "bytes": 60}
    assert drops["port_down"] == {"packets": 1, "bytes": 70}


def test_the_buffer_and_watermarks_are_read_and_reset():
    switch = HostedSwitch("queues")
    try:
        with ControlClient(switch.address) as client:
            assert client.call("GetBuffer")["size"] == 0
            assert client.call("SetBuffer", size=100_000)["size"] == 100_000
            switch.engine.register_write("pause", 2 * 8 + 3, 2**40)
            for _ in range(5):
                switch.send(1, frame(2, 3, length=200))
            assert client.call("GetBuffer")["used"] == 1000
            (queue,) = client.call("GetQueues", port=2, **{"class": 3})["queues"]
            assert (queue["bytes"], queue["watermark_packets"], queue["paused_until"] > 0) == (1000, 5, True)
            switch.engine.register_write("pause", 2 * 8 + 3, 0)
            switch.host.wake(switch.host.find("s1"))
            deadline = time.monotonic() + 20
            while client.call("GetBuffer")["used"] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert client.call("GetBuffer") == {
                "size": 100_000, "used": 0, "watermark": 1000, "guaranteed_used": 0, "headroom_used": 0
            }  # fmt: skip
            client.call("ResetWatermarks")
            assert client.call("GetBuffer")["watermark"] == 0
            (queue,) = client.call("GetQueues", port=2, **{"class": 3})["queues"]
            assert queue["watermark_bytes"] == 0
            assert client.call("GetDrops")["drops"] == {"no_interface": {"packets": 5, "bytes": 1000}}
    finally:
        switch.close()


def test_settings_last_over_a_restart_of_the_switch(switch):
    with ControlClient(switch.address) as client:
        client.call("SetQueue", weight=9, limit_bytes=5000)
        client.call("SetQueue", port=2, limit_bytes=6000)
        client.call("SetQueue", port=2, **{"class": 1}, weight=2)
        client.call("SetQueue", **{"class": 1}, limit_bytes=7000)
        client.call("SetBuffer", size=123)
        client.call("SetPort", port=4, delay_ns=55, rate_bps=66)
    switch.run(switch.host.restart("s1"))
    with ControlClient(switch.address) as client:
        queues = {(q["port"], q["class"]): q for q in client.call("GetQueues")["queues"]}
        assert {q["weight"] for place, q in queues.items() if place != (2, 1)} == {9}
        assert queues[2, 1]["weight"] == 2
        assert {q["limit_bytes"] for (port, cls), q in queues.items() if cls == 1} == {7000}
        assert {q["limit_bytes"] for (port, cls), q in queues.items() if port == 2 and cls != 1} == {6000}
        assert queues[3, 0]["limit_bytes"] == 5000
        assert client.call("GetBuffer")["size"] == 123
        (port,) = client.call("GetPorts", port=4)["ports"]
        assert (port["delay_ns"], port["rate_bps"]) == (55, 66)


@pytest.mark.parametrize(
    "method, request_, complaint",
    [
        ("SetQueue", {"port": 77, "weight": 1}, "there is no port 77; there are 1, 2, 3, 4"),
        ("SetQueue", {"class": 8, "weight": 1}, "class"),
        ("SetQueue", {"weight": 70_000}, "weight 70000 is not a whole number in 0..65535"),
        ("SetQueue", {"weight": True}, "weight is a JSON integer, not true"),
        ("SetQueue", {"wait": 1}, "there is no field 'wait'; the call takes port, class, limit_bytes"),
        ("SetQueue", {"port": 1}, "nothing is set"),
        ("SetPort", {"rate_bps": 1}, "the field port is missing"),
        ("SetPort", {"port": 1, "rate_bps": -1}, "rate_bps -1 is out of range"),
        ("SetPort", {"port": 1, "delay_ns": 10**13}, "a delay is an hour at most"),
        ("SetPort", {"port": 1, "loss": {"probability": 2}}, "lies between 0 and 1"),
        ("SetPort", {"port": 1, "loss": {"direction": "up"}}, "tx, rx or both"),
        ("SetPort", {"port": 1, "loss": {"chance": 1}}, "loss takes direction, probability"),
        ("SetBuffer", {"size": 2**41}, "at most"),
        ("SetBuffer", {"size": 2**70}, "buffer size"),
        ("Command", {"line": 5}, "line is a JSON string, not 5"),
        ("Nothing", {}, "is no native switch"),
    ],
)
def test_a_wrong_request_is_refused_with_a_sentence(client, method, request_, complaint):
    with pytest.raises(ControlRefusedError) as caught:
        client.call(method, **request_)
    assert complaint in str(caught.value)


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_names = st.sampled_from(
    ["port", "class", "weight", "alpha", "rate_bps", "delay_ns", "loss", "up", "size", "line", "probability"]
)


@settings(max_examples=150, deadline=None)
@given(
    method=st.sampled_from(
        [
            "SetPort",
            "SetQueue",
            "SetBuffer",
            "GetPorts",
            "GetQueues",
            "Command",
            "ResetWatermarks",
            "Describe",
        ]
    ),
    data=st.binary(max_size=40)
    | st.dictionaries(_names, _json_values, max_size=4).map(lambda value: json.dumps(value).encode()),
)
def test_no_request_is_a_fault_of_the_switch(shared, method, data):
    with grpc.insecure_channel(shared.address) as channel:
        try:
            json.loads(channel.unary_unary(f"/{SERVICE}/{method}")(data, timeout=20))
        except grpc.RpcError as error:
            assert error.code() in (
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.NOT_FOUND,
                grpc.StatusCode.PERMISSION_DENIED,
            ), error.details()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["table_add", "table_dump", "mc_node_create", "register_write", "meter_set_rates",
                        "set_queue_rate", "mirroring_add", "table_modify", "counter_write", "help"]),
       st.lists(st.text(max_size=6) | st.sampled_from(["forwarding", "acl", "=>", "1", "stored", "-1", "limits", "0x10",
                        "forward_counted", "10.0.0.0&&&255.0.0.0", "1->2", "9" * 5000]), max_size=6))  # fmt: skip
def test_no_command_is_a_fault_of_the_switch(shared, verb, words):
    with ControlClient(shared.address) as client:
        client.command(" ".join([verb, *words]))


# ---- commands, and P4Runtime ----
def test_p4runtime_sees_what_commands_change_and_commands_what_p4runtime_writes(switch):
    p4runtime = Client(switch.address, config_of("entities").p4info)
    p4runtime.election_id = None

    def entries(table):
        return p4runtime.read(table_entry=p4r.TableEntry(table_id=p4runtime.id(table)))

    with ControlClient(switch.address) as client:
        for command in (
            "table_add forwarding forward_counted 00:00:00:00:00:07 => 3",
            "table_add acl mark 10.1.0.0&&&255.255.0.0 1->9 0&&&0 => 2 17 16777000",
            "table_set_default acl mark 1 2",
            "mirroring_add 5 2",
            "mc_mgrp_create 1",
            "mc_node_create 9 2 3",
            "mc_node_associate 1 0",
            "meter_set_rates limits 1 0.001:10 0.002:20",
        ):
            assert client.command(command)[1], command
        (entry,) = entries("forwarding")
        assert entry.match[0].exact.value == b"\x07"
        (entry,) = entries("acl")
        assert entry.priority == 0xFFFFFF - 16777000
        default = p4r.TableEntry(table_id=p4runtime.id("acl"), is_default_action=True)
        (entry,) = p4runtime.read(table_entry=default)
        assert [p.value for p in entry.action.action.params] == [b"\x01", b"\x02"]
        (meter,) = p4runtime.read(
            meter_entry=p4r.MeterEntry(meter_id=p4runtime.id("limits"), index={"index": 1})
        )
        assert (meter.config.cir, meter.config.pburst) == (1000, 20)
        engine_entry = p4r.PacketReplicationEngineEntry(multicast_group_entry={"multicast_group_id": 1})
        (found,) = p4runtime.read(packet_replication_engine_entry=engine_entry)
        group = found.multicast_group_entry
        assert [(r.egress_port, r.instance) for r in group.replicas] == [(2, 9), (3, 9)]

        other = p4runtime.entry("forwarding", [exact(1, 8)], p4runtime.action("drop"))
        p4runtime.insert(table_entry=other)
        assert client.command("table_num_entries forwarding") == (["2"], True)
        dump = client.command("table_dump forwarding")[0]
        assert "Action entry: EntitiesIngress.forward_counted - 03" in dump
        assert "Action entry: EntitiesIngress.drop - " in dump
        assert client.command("table_modify forwarding forward_counted 0 4")[1]
        assert client.command("table_delete forwarding 1")[1]
        (entry,) = entries("forwarding")
        assert entry.action.action.params[0].value == b"\x04"
        p4runtime.delete(table_entry=entry)
        assert client.command("table_num_entries forwarding") == (["0"], True)
        assert client.command("table_clear acl")[1]
        assert entries("acl") == []
        assert client.command("table_reset_default acl")[1]
        (entry,) = p4runtime.read(table_entry=default)
        assert entry.action.action.params == []
    p4runtime.close()


def test_members_and_groups_of_commands_carry_entries_and_are_p4runtimes_too(switch):
    p4runtime = Client(switch.address, config_of("entities").p4info)
    p4runtime.election_id = None
    with ControlClient(switch.address) as client:

        def told(command):
            lines, ok = client.command(command)
            assert ok, lines
            return lines

        assert told("act_prof_create_member next_hops mark 2 0x11") == [
            "Member has been created with handle 0"
        ]
        assert told("act_prof_create_member next_hops mark 3 0x22") == [
            "Member has been created with handle 1"
        ]
        assert told("act_prof_create_group next_hops") == ["Group has been created with handle 0"]
        assert told("act_prof_add_member_to_group next_hops 0 0") == []
        assert told("act_prof_add_member_to_group next_hops 1 0") == []
        assert told("table_indirect_add_with_group routes 10.0.0.0/8 => 0") == [
            "Adding entry to indirect match table EntitiesIngress.routes",
            "Entry has been added with handle 0",
        ]
        assert told("table_indirect_add routes 10.1.0.0/16 => 1")[1] == "Entry has been added with handle 1"
        assert told("table_dump routes")[6:] == [
            "Index: group(0)",
            "**********",
            "Dumping entry 0x1",
            "Match key:",
            "* fields.address      : LPM       0a010000/16",
            "Index: member(1)",
            "==========",
            "MEMBERS",
            "**********",
            "Dumping member 0",
            "Action entry: EntitiesIngress.mark - 02, 11",
            "**********",
            "Dumping member 1",
            "Action entry: EntitiesIngress.mark - 03, 22",
            "==========",
            "GROUPS",
            "**********",
            "Dumping group 0",
            "Members: [0, 1]",
            "==========",
            "Dumping default entry",
            "EMPTY",
            "==========",
        ]
        members = p4runtime.read(action_profile_member=p4r.ActionProfileMember())
        assert [(m.member_id, m.action.params[1].value) for m in members] == [(1, b"\x11"), (2, b"\x22")]
        (group,) = p4runtime.read(action_profile_group=p4r.ActionProfileGroup())
        assert [(m.member_id, m.weight) for m in group.members] == [(1, 1), (2, 1)]
        entries = p4runtime.read(table_entry=p4r.TableEntry(table_id=p4runtime.id("routes")))
        assert [(e.action.action_profile_group_id, e.action.action_profile_member_id) for e in entries] == [
            (group.group_id, 0),
            (0, 2),
        ]
        for refused in (
            "act_prof_delete_member next_hops 0",
            "act_prof_delete_group next_hops 0",
            "act_prof_add_member_to_group next_hops 0 0",
            "act_prof_remove_member_from_group next_hops 5 0",
            "act_prof_create_group members",
            "table_indirect_add forwarding 1 => 0",
            "table_indirect_add_with_group profiled 1 => 0",
        ):
            assert not client.command(refused)[1], refused
        told("act_prof_modify_member next_hops mark 0 => 4 0x33")
        told("act_prof_remove_member_from_group next_hops 1 0")
        assert told("act_prof_dump_group next_hops 0") == ["Dumping group 0", "Members: [0]"]
        assert told("act_prof_dump_member next_hops 0")[1] == "Action entry: EntitiesIngress.mark - 04, 33"
        told("table_indirect_set_default routes 1")
        assert "Index: member(1)" in told("table_dump routes")[-2]
        assert told("table_indirect_delete routes 0") == ["Deleting entry 0 from routes"]
        told("table_indirect_reset_default routes")
        told("table_indirect_delete routes 1")
        told("act_prof_delete_group next_hops 0")
        told("act_prof_delete_member next_hops 0")
        (member,) = p4runtime.read(action_profile_member=p4r.ActionProfileMember())
        assert member.member_id == 2
        assert told("act_prof_create_member next_hops mark 2 1") == ["Member has been created with handle 0"]
    p4runtime.close()


def test_a_parser_value_set_is_filled_by_commands(switch):
    with ControlClient(switch.address) as client:
        assert client.command("show_pvs") == (
            [f"{'EntitiesParser.field_types':30} [compressed bitwidth:16]"],
            True,
        )
        assert client.command("pvs_add field_types 0x7777") == ([], True)
        assert client.command("pvs_add field_types 34952") == ([], True)
        assert client.command("pvs_add field_types 0x7777") == ([], True), "as BMv2: no error"
        assert client.command("pvs_get field_types") == (["7777", "8888"], True)
        p4runtime = Client(switch.address, config_of("entities").p4info)
        (found,) = p4runtime.read(value_set_entry=p4r.ValueSetEntry())
        p4runtime.close()
        assert [m.match[0].exact.value for m in found.members] == [b"\x77\x77", b"\x88\x88"]
        assert client.command("pvs_remove field_types 0x7777") == ([], True)
        assert client.command("pvs_get field_types") == (["8888"], True)
        assert not client.command("pvs_add field_types 65536")[1]
        assert client.command("pvs_clear field_types") == ([], True)
        assert client.command("pvs_get field_types") == ([], True)


def test_a_mirroring_session_copies_to_a_multicast_group(switch):
    with ControlClient(switch.address) as client:
        for command in (
            "mc_mgrp_create 4",
            "mc_node_create 7 2 3",
            "mc_node_associate 4 0",
            "mirroring_add_mc 5 4",
        ):
            assert client.command(command)[1]
        assert client.command("mirroring_get 5") == (["MirroringSessionConfig(port=None, mgid=4)"], True)
        switch.send(1, bytes(12) + b"\x10\x03" + bytes(50))
        left, deadline = 0, time.monotonic() + 10
        while left < 3 and time.monotonic() < deadline:  # the packet thread sends them when its turn comes
            left = client.call("GetDrops")["drops"].get("no_interface", {"packets": 0})["packets"]
        assert left == 3, "the original and two copies left"
        assert client.command("mirroring_delete 5") == ([], True)
        assert not client.command("mirroring_get 5")[1]


def test_custom_crcs_are_set_by_commands():
    switch = HostedSwitch("crc")
    try:
        with ControlClient(switch.address) as client:
            crcs = {bits: name for name, bits in switch.engine.custom_crcs().items()}
            assert client.command(f"set_crc16_parameters {crcs[16]} 0x1021 0 0 false false") == ([], True)
            assert client.command(
                f"set_crc32_parameters {crcs[32]} 0x1EDC6F41 0xffffffff 0xffffffff 1 True"
            ) == ([], True)
            switch.engine.add_port(9)
            switch.engine.rx(1, b"123456789" + bytes(6), time.monotonic_ns())
            for refused in (
                f"set_crc16_parameters {crcs[32]} 1 0 0 0 0",
                "set_crc16_parameters nothing 1 0 0 0 0",
                f"set_crc16_parameters {crcs[16]} 1 0 0",
                f"set_crc16_parameters {crcs[16]} 0x10000 0 0 0 0",
                f"set_crc16_parameters {crcs[16]} 1 0 0 maybe 0",
            ):
                assert not client.command(refused)[1], refused
    finally:
        switch.close()


def test_queue_commands_set_depth_and_rate_in_packets(client, shared):
    assert client.command("set_queue_depth 100 1 2") == ([], True)
    assert client.command("set_queue_rate 5000 1") == ([], True)
    assert shared.engine.queue_settings(1, 2).limit_packets == 100
    assert shared.engine.queue_settings(1, 3).limit_packets == 16384
    assert {shared.engine.queue_settings(1, cls).rate_pps for cls in range(8)} == {5000}
    client.command("set_queue_depth 16384 1 2")
    client.command("set_queue_rate 0 1")


COMMANDS = """\
table_add forwarding forward_counted 00:00:00:00:00:01 => 3
table_add EntitiesIngress.forwarding EntitiesIngress.drop 2 =>
table_add acl mark 10.0.0.0&&&255.0.0.0 1->0x10 5&&&0xff => 2 0x11 10
table_num_entries acl
table_dump acl
table_dump forwarding
table_modify forwarding forward_counted 1 4
table_dump_entry forwarding 1
table_delete forwarding 0
table_dump_entry_from_key forwarding 2
table_set_default acl mark 1 2
table_dump acl
table_reset_default acl
table_clear acl
table_num_entries acl
counter_read EntitiesIngress.cells 2
counter_write EntitiesIngress.cells 2 7 900
counter_read cells 2
counter_read forward_counter 1
counter_reset cells
counter_read cells 2
register_write stored 3 77
register_read stored 3
register_read stored
register_reset stored
register_read stored 3
meter_set_rates limits 1 0.0005:10 0.001:20
meter_get_rates limits 1
meter_array_set_rates limits 0.5:10 1:20
mirroring_add 5 2
mirroring_get 5
mirroring_delete 5
mc_mgrp_create 1
mc_node_create 5 1 2 3
mc_node_associate 1 0
mc_dump
mc_node_update 0 2
mc_node_dissociate 1 0
mc_node_destroy 0
mc_mgrp_destroy 1
set_queue_depth 100
set_queue_depth 100 2
set_queue_rate 1000 2 0
table_add aging read_meter 3 => 1
table_set_timeout aging 0 1000
act_prof_create_member next_hops mark 2 0x11
act_prof_create_member next_hops mark 3 0x22
act_prof_create_group next_hops
act_prof_add_member_to_group next_hops 1 0
act_prof_add_member_to_group next_hops 0 0
table_indirect_add_with_group routes 10.0.0.0/8 => 0
table_indirect_add routes 10.1.0.0/16 => 1
table_dump routes
act_prof_modify_member next_hops mark 0 4 0x33
act_prof_dump next_hops
act_prof_remove_member_from_group next_hops 1 0
act_prof_dump_group next_hops 0
act_prof_dump_member next_hops 0
table_indirect_delete routes 0
table_indirect_delete routes 1
act_prof_delete_group next_hops 0
act_prof_delete_member next_hops 0
show_pvs
pvs_get EntitiesParser.field_types
pvs_clear EntitiesParser.field_types
mirroring_add_mc 6 1
mirroring_get 6
"""


# pvs_add is not among them: simple_switch_CLI 1.15.5 ends at it with a TypeError under Python 3.
@pytest.mark.judge
def test_a_script_prints_what_simple_switch_cli_prints(switch, tmp_path):
    real, cli = tool("simple_switch"), tool("simple_switch_CLI")
    if real is None or cli is None:
        pytest.skip("simple_switch and simple_switch_CLI are not installed")
    write_pcap(tmp_path / "p1_in.pcap", [])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        thrift = probe.getsockname()[1]
    process = subprocess.Popen(
        [real, "--use-files", "100000", "-i", f"1@{tmp_path}/p1", "--thrift-port", str(thrift),
         "--notifications-addr", f"ipc://{tmp_path}/n.ipc", compiled("entities")[0]],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while True:
            done = subprocess.run(
                [cli, "--thrift-port", str(thrift)], input=COMMANDS, capture_output=True, text=True
            )
            if "Could not connect" not in done.stdout:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    own = script(switch.address, COMMANDS)
    assert own.returncode == 0
    greeting, _, expected = done.stdout.partition("RuntimeCmd: ")
    assert greeting.startswith("Obtaining JSON")
    assert own.stdout.partition("RuntimeCmd: ")[2].rstrip() == expected.rstrip()


def script(address, text):
    command = [sys.executable, "-m", "switch.cli", "--grpc", address]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize(
    "command, complaint",
    [
        ("mc_node_create 1 -1", "port -1 is not in 0..511"),
        ("mc_node_create 1 2 2", "a port is given twice"),
        ("mc_node_associate 9 9", "there is no multicast group 9"),
        ("mirroring_add 0 1", "session 0 is not in 1..32767"),
        ("register_read stored 8", "its size is 8"),
        ("table_add acl drop 1&&&2 1->2 0&&&0 =>", "need a priority"),
        ("table_add acl mark 1&&&2 1->2 => 1 2 3", "has 3 key fields, 2 are given"),
        ("table_add forwarding forward_counted 1", "the key ends with =>"),
        ("table_add forwarding mark 1 => 2 3", "there is no action of table EntitiesIngress.forwarding mark"),
        ("counter_read cells", "usage: counter_read COUNTER INDEX"),
    ],
)
def test_a_wrong_command_is_refused_with_a_sentence(client, command, complaint):
    (line,), ok = client.command(command)
    assert not ok and line.startswith("Error: ") and complaint in line


TROUBLED = """\
# a comment
nonsense 1

register_write stored 1 5
register_read stored 1
exit
"""


def test_a_failing_line_of_a_script_is_told_and_the_next_one_tried(shared):
    done = script(
        shared.address, "# a comment\nnonsense 1\n\nregister_write stored 1 5\nregister_read stored 1\nexit\n"
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "Error: there is no command nonsense" in done.stdout
    assert done.stdout.rstrip().endswith("RuntimeCmd: stored[1]= 5\nRuntimeCmd:")


def test_a_command_on_the_command_line_says_by_its_exit_code_whether_it_worked(shared):
    def run(*words):
        command = [sys.executable, "-m", "switch.cli", shared.address, *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
        return done.returncode, done.stdout

    assert run("queue", "set", "port=1", "class=3", "weight=4", "rate=1.5G")[0] == 0
    code, text = run("--json", "queues", "1", "3")
    queue = json.loads(text)["queues"][0]
    assert code == 0 and (queue["weight"], queue["rate_bps"]) == (4, 1_500_000_000)
    assert "1500000000" in run("queues", "1")[1]
    assert run("queue", "set", "port=9", "weight=4") == (
        1,
        "Error: there is no port 9; there are 1, 2, 3, 4, 508, 510\n",
    )
    assert run("table_num_entries", "nothing")[0] == 1


def test_a_client_without_a_switch_says_so():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        with ControlClient(address) as client, pytest.raises(ControlRefusedError) as caught:
            client.call("Describe")
    assert f"no switch answers at {address}" in str(caught.value)


@pytest.mark.parametrize(
    "line, call",
    [
        ("ports", ("GetPorts", {})),
        ("queues 3 5", ("GetQueues", {"port": 3, "class": 5})),
        ("port set 1 rate=2.5G down", ("SetPort", {"port": 1, "rate_bps": 2_500_000_000, "up": False})),
        ("port set 1 delay=1.5us", ("SetPort", {"port": 1, "delay_ns": 1500})),
        ("port set 1 loss=0.5 every=3", ("SetPort", {"port": 1, "loss": {"probability": 0.5, "every": 3}})),
        ("queue set limit=64Ki alpha=0.125", ("SetQueue", {"limit_bytes": 65536, "alpha": 0.125})),
        ("buffer set 9M", ("SetBuffer", {"size": 9_000_000})),
        ("watermarks reset 2", ("ResetWatermarks", {"port": 2})),
        ("table_dump x", None),
    ],
)  # fmt: skip
def test_words_become_calls(line, call):
    assert own_call(line.split()) == call


@pytest.mark.parametrize(
    "line",
    ["port set 1", "port set x up", "port set 1 speed=1", "queue set weight=1.5", "buffer set",
     "queue set rate=1Q", "port set 1 delay=5"]
)  # fmt: skip
def test_words_that_are_no_call_are_refused(line):
    with pytest.raises(UsageError):
        own_call(line.split())
