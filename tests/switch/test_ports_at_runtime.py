"""Ports that come and go while the switch runs (`port_add`, `port_remove`), on real interfaces."""

import os
import time

import pytest
from finsy.proto import p4r
from hosted_switch import HostedSwitch
from p4runtime_harness import Client, config_of, exact, status
from veths import veth_pairs

from switch.control_client import ControlClient
from switch.native.sampler import RecordFile

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces")
MAC = 0x0A0000000001
FRAME = MAC.to_bytes(6, "big") + bytes(6) + b"\x90\x00" + bytes(60)


@pytest.fixture
def pairs():
    with veth_pairs("ports", 2) as pairs:
        yield pairs


@pytest.fixture
def switch(tmp_path):
    switch = HostedSwitch(records=RecordFile(tmp_path / "switch.jsonl", 0), sample_s=0.01)
    yield switch
    switch.close()


def forward(switch, port):
    """Frames to MAC leave by `port`."""
    client = Client(switch.address, config_of("entities").p4info)
    client.election_id = None
    entry = client.entry("forwarding", [exact(1, MAC)], client.action("forward_counted", port))
    client.insert(table_entry=entry)
    client.close()


def test_an_added_port_takes_and_sends_frames_and_lasts_over_a_restart(switch, pairs):
    with ControlClient(switch.address) as client:
        assert client.command(f"port_add {pairs.switch(1)} 7") == ([], True)
        assert client.command(f"port_add {pairs.switch(2)} 8") == ([], True)
        lines, _ = client.command("show_ports")
        assert [line.split()[:3] for line in lines if "/s" in line] == [
            ["7", pairs.switch(1), "UP"],
            ["8", pairs.switch(2), "UP"],
        ]
    for _ in range(2):
        forward(switch, 8)
        pairs.host(1).send(FRAME)
        assert pairs.receive(2) == FRAME
        switch.run(switch.host.restart("s1"))


def test_an_added_port_follows_its_link_and_a_group_may_watch_it(switch, pairs):
    with ControlClient(switch.address) as client:
        client.command(f"port_add {pairs.switch(1)} 7")
        pairs.link("h1", "down")
        deadline = time.monotonic() + 20
        while client.call("GetPorts", port=7)["ports"][0]["up"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not client.call("GetPorts", port=7)["ports"][0]["up"]
        p4runtime = Client(switch.address, config_of("entities").p4info)
        p4runtime.election_id = None
        profile = p4runtime.id("next_hops")
        p4runtime.insert(
            action_profile_member=p4r.ActionProfileMember(
                action_profile_id=profile, member_id=1, action=p4runtime.action("mark", 1, 1)
            )
        )
        group = p4r.ActionProfileGroup(action_profile_id=profile, group_id=1)
        group.members.add(member_id=1, weight=1, watch_port=b"\x07")
        p4runtime.insert(action_profile_group=group)
        assert client.command("port_remove 7") == ([], True)
        with status():
            p4runtime.modify(action_profile_group=group)
        p4runtime.close()


def test_a_removed_port_is_gone_and_its_number_and_interface_are_free(switch, pairs):
    with ControlClient(switch.address) as client:
        for _ in range(2):
            assert client.command(f"port_add {pairs.switch(2)} 7") == ([], True)
            assert client.command("port_remove 7") == ([], True)
            assert 7 not in client.call("Describe")["ports"]
        assert client.command(f"port_add {pairs.switch(1)} 8") == ([], True)
        forward(switch, 7)
        pairs.host(1).send(FRAME)
        deadline = time.monotonic() + 20
        while "no_port" not in client.call("GetDrops")["drops"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert client.call("GetDrops")["drops"]["no_port"] == {"packets": 1, "bytes": len(FRAME)}
        assert pairs.receive(2, timeout=0.0) is None
        assert client.command("port_remove 4") == ([], True), "one of those it began with"
        switch.run(switch.host.restart("s1"))
    with ControlClient(switch.address) as client:
        assert client.call("Describe")["ports"] == [1, 2, 3, 8, 508, 510]


@pytest.mark.parametrize(
    "command",
    ["port_add nowhere 7", "port_add lo 1", "port_add lo 508", "port_add lo -1", "port_add lo x", "port_remove 7",
     "port_remove 510", "port_remove 508"],
)  # fmt: skip
def test_a_wrong_port_is_refused_and_nothing_changes(switch, command):
    with ControlClient(switch.address) as client:
        before = client.call("GetPorts")
        assert not client.command(command)[1]
        assert client.call("GetPorts") == before
