"""Traces: what a traced switch tells of a packet is what the program does, and costs nothing unless asked for."""

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4programs import ROOT, compiled
from probe import RECIRCULATE, RECIRCULATE_ALWAYS
from probe import frame as probe_frame

from switch.native.binding import Engine
from switch.native.cgen import generate
from switch.native.program import Program
from switch.native.trace import trace_packet
from switch.trace import TracedSwitch, TraceError

ENTRIES = [
    "table_add forwarding forward_counted 00:00:00:00:00:07 => 3",
    "table_add acl mark 10.0.0.0&&&255.0.0.0 1->0x10 5&&&0xff => 2 0x11 10",
    "mirroring_add 5 2",
    "mc_mgrp_create 1",
    "mc_node_create 7 2 3",
    "mc_node_associate 1 0",
]
ETHERNET = "000000000009000000000001"


@pytest.fixture(scope="module")
def entities():
    json_path, p4info = compiled("entities")
    switch = TracedSwitch(json_path, p4info, entries=ENTRIES)
    yield switch
    switch.close()


def frame(text, payload=40):
    return bytes.fromhex(text) + bytes(payload)


def texts(trace, kind):
    return [step.text for step in trace.steps if step.kind == kind]


def changes(trace, kind):
    return [(c.header, c.field, c.before, c.after) for s in trace.steps if s.kind == kind for c in s.changes]


def test_states_headers_tables_actions_and_fields_are_told_in_order(entities):
    sent = frame(ETHERNET + "1001" + "0a010203 0009 05 00")
    trace = entities.trace(1, sent)
    assert texts(trace, "state") == [
        "parser state start at byte 0",
        "parser state ethernet at byte 0",
        "parser state fields at byte 14",
    ]
    extracted = changes(trace, "state")
    assert ("ethernet", "", 0, 1) in extracted and ("fields", "", 0, 1) in extracted
    assert ("ethernet", "type", 0, 0x1001) in extracted and ("fields", "address", 0, 0x0A010203) in extracted
    assert texts(trace, "parsed") == ["parser accepted: 22 bytes are headers, the rest is payload"]
    (condition,) = [text for text in texts(trace, "condition") if "TYPE_ACL" in text]
    assert condition.startswith("if (hdr.ethernet.type == TYPE_ACL) [entities.p4:") and condition.endswith(
        ": true"
    )
    (table,) = texts(trace, "table")
    assert table == (
        "table EntitiesIngress.acl with hdr.fields.address = 10.1.2.3, hdr.fields.number = 9, "
        "hdr.fields.small = 5: hit, entry 0: EntitiesIngress.mark(port = 2, value = 17 (0x11))"
    )
    assert changes(trace, "statement") == [
        ("standard_metadata", "egress_spec", 0, 2),
        ("fields", "mark", 0, 0x11),
    ]
    assert texts(trace, "queue") == ["taken from queue 0 of port 2; 0 packets were there when it came"]
    assert texts(trace, "headers") == ["22 bytes of headers are put in front of the payload"]
    ((_, port, data),) = trace.sent
    assert (port, data) == (2, sent[:21] + b"\x11" + sent[22:])
    assert trace.drops == {}


def test_a_miss_and_the_reason_of_a_drop_are_told(entities):
    trace = entities.trace(1, frame(ETHERNET + "0800"))
    assert texts(trace, "table") == [
        "table EntitiesIngress.forwarding with hdr.ethernet.dst = 00:00:00:00:00:09: miss: NoAction()"
    ]
    assert trace.drops == {"ingress": 1} and trace.sent == []
    assert trace.text().endswith("dropped: ingress (the program marked it to be dropped in ingress)")


def test_a_short_frame_stops_the_parser_with_its_error(entities):
    trace = entities.trace(1, bytes(9))
    assert texts(trace, "parsed") == [
        "parser stopped by error.PacketTooShort: 0 bytes are headers, the rest is payload"
    ]


def test_copies_of_a_multicast_group_and_clones_are_followed_each(entities):
    trace = entities.trace(1, frame(ETHERNET + "1002"))
    assert "end of ingress: copied to multicast group 1" in texts(trace, "fate")
    assert texts(trace, "egress") == ["egress (copy of a multicast group)"] * 2
    assert sorted(port for _, port, _ in trace.sent) == [2, 3]
    assert [c for c in changes(trace, "statement") if c[0] == "ethernet"] == [("ethernet", "src", 1, 7)] * 2
    trace = entities.trace(1, frame(ETHERNET + "1003"))
    assert "end of ingress: cloned to session 5, to port 1" in texts(trace, "fate")
    assert texts(trace, "egress") == ["egress (normal)", "egress (clone made in ingress)"]
    assert [port for _, port, _ in trace.sent] == [1, 2]


def test_a_packet_for_the_controller_is_told_as_such(entities):
    trace = entities.trace(4, frame(ETHERNET + "1005"))
    assert [port for _, port, _ in trace.sent] == [510]
    assert texts(trace, "cpu")[0].startswith("sent to the controller after ")


def test_a_queue_and_its_drop_are_told():
    json_path, p4info = compiled("queues")
    switch = TracedSwitch(json_path, p4info, entries=["set_queue_depth 0 2 3"])
    try:
        trace = switch.trace(1, probe_frame(2, 3))
        assert trace.drops == {"queue_packets": 1}
        trace = switch.trace(1, probe_frame(2, 5))
        assert texts(trace, "queue") == ["taken from queue 5 of port 2; 0 packets were there when it came"]
        trace = switch.trace(1, probe_frame(2, 5, RECIRCULATE))
        first, *again = texts(trace, "ingress")
        assert first == "ingress (normal)" and set(again) == {"ingress (recirculated)"}
    finally:
        switch.close()


def test_a_program_that_never_comes_to_rest_is_followed_for_a_while():
    json_path, p4info = compiled("queues")
    switch = TracedSwitch(json_path, p4info)
    try:
        switch.engine.set_port_rate(2, 10**6)
        trace = switch.trace(1, probe_frame(2, 5, RECIRCULATE_ALWAYS))
        assert 100 < len(texts(trace, "ingress")) < 4096
    finally:
        switch.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    port=st.sampled_from([1, 4, 510]),
    data=st.builds(
        lambda kind, rest: bytes.fromhex(ETHERNET) + kind.to_bytes(2, "big") + rest,
        st.integers(0x1000, 0x100B) | st.integers(0, 0xFFFF),
        st.binary(max_size=40),
    )
    | st.binary(max_size=60),
)
def test_a_traced_switch_does_what_an_untraced_one_does(entities, port, data):
    json_path, p4info = compiled("entities")
    with Engine(Program.from_text(json_path.read_text(), p4info.read_text())) as plain:
        for number in range(64):
            plain.add_port(number)
        plain.table_add(
            "EntitiesIngress.forwarding", (("exact", 7),), "EntitiesIngress.forward_counted", (3,)
        )
        key = (("ternary", 0x0A000000, 0xFF000000), ("range", 1, 16), ("ternary", 5, 0xFF))
        plain.table_add("EntitiesIngress.acl", key, "EntitiesIngress.mark", (2, 0x11), 10)
        plain.multicast_group_set(1, [(2, 7), (3, 7)])
        plain.clone_session_set(5, 2)
        plain.rx(port, data, 0)
        out = [(p, f) for p, f in plain.poll(10**9)] + [(510, f) for _, f in plain.take_cpu_frames()]
    entities.engine.register_reset("EntitiesIngress.stored")
    trace = entities.trace(port, data)
    assert sorted((p, f) for _, p, f in trace.sent) == sorted(out)
    trace.text()


def test_code_that_was_not_asked_to_tell_has_no_trace_points():
    json_path, p4info = compiled("entities")
    program = Program.from_text(json_path.read_text(), p4info.read_text())
    assert "trace" not in generate(program)
    assert generate(program, traced=True).count("trace(x, P") > 50


def test_an_engine_that_does_not_tell_is_refused():
    json_path, p4info = compiled("entities")
    with (
        Engine(Program.from_text(json_path.read_text(), p4info.read_text())) as engine,
        pytest.raises(ValueError),
    ):
        trace_packet(engine, 1, bytes(60))


def test_a_wrong_entry_is_told_with_its_line():
    json_path, p4info = compiled("entities")
    with pytest.raises(TraceError) as caught:
        TracedSwitch(json_path, p4info, entries=["# mine", "table_add forwarding forward 1 => 2"])
    assert "entry line 2 (table_add forwarding forward 1 => 2): there is no action of table" in str(
        caught.value
    )


def test_a_p4info_that_is_none_is_refused(tmp_path):
    json_path, _ = compiled("entities")
    (tmp_path / "wrong").write_text("root:x:0:0:root:/root:/bin/bash\n")
    with pytest.raises(TraceError, match="wrong is not P4Info text: 1:1"):
        TracedSwitch(json_path, tmp_path / "wrong")


def test_the_command_prints_words_or_json(tmp_path):
    json_path, p4info = compiled("entities")
    (tmp_path / "entries.txt").write_text("\n".join(ENTRIES))

    def run(*words):
        command = [sys.executable, "-m", "switch.trace", json_path, "--p4info", p4info, *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100)

    packet = frame("000000000007" + "000000000001" + "0800").hex()
    words = ("--entries", tmp_path / "entries.txt", "--packet", packet, "--port", "2")
    done = run(*words)
    assert done.returncode == 0
    assert "hit, entry 0: EntitiesIngress.forward_counted(port = 3)" in done.stdout
    story = json.loads(run(*words, "--json").stdout)
    assert story["sent"] == [{"time_ns": 0, "port": 3, "frame": packet}]
    for wrong, complaint in (
        (("--packet", "abc"), "pairs of hexadecimal digits"),
        (("--packet", "00", "--port", "99"), "there is no port 99"),
        (("--packet", "00", "--entries", tmp_path / "none"), "No such file"),
    ):
        done = run(*wrong)
        assert done.returncode == 1 and complaint in done.stderr and done.stdout == ""
