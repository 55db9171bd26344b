"""The generators of packets and entries: what they make is understood by the program they make it for."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from finsy.proto import p4r

from compiler import compile_program
from tests.differential.compare import PORTS, Result, _judge, config_of, over_thrift, taken_back
from tests.differential.document import Document
from tests.differential.entries import Entries
from tests.differential.packets import Packets, Values, Walk
from tests.differential.targets import CPU_PORT, Native

PROGRAMS = Path(__file__).parent / "programs"
REFUSED = Path(__file__).parents[1] / "switch" / "programs" / "refused.p4"


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, p4r.ForwardingPipelineConfig]:
    """Compiled programs by name."""
    folder = tmp_path_factory.mktemp("programs")
    made = {}
    for program in (*(PROGRAMS / f"{n}.p4" for n in ("keys", "metering", "checksums", "selector")), REFUSED):
        name, compiled = program.stem, compile_program(program)
        json_path, info_path = folder / f"{name}.json", folder / f"{name}.txtpb"
        json_path.write_text(json.dumps(compiled.json))
        info_path.write_text(compiled.p4info)
        made[name] = config_of(json_path, info_path)
    return made


def test_a_walk_ends_in_every_state_of_the_parser(configs: dict[str, p4r.ForwardingPipelineConfig]) -> None:
    document = Document(json.loads(configs["checksums"].p4_device_config))
    random = Random(1)
    reached = set()
    for _ in range(300):
        walk = Walk(document, Values(document, random), random)
        data, _ = walk.run()
        headers = frozenset(header for (header, _) in walk.where if header in document.headers)
        reached.add((headers & {"ip", "udp", "options", "eth", "tlv[0]", "tlv[2]"}, len(data) > 34))
    assert {name for headers, _ in reached for name in headers} == {
        "ip",
        "udp",
        "options",
        "eth",
        "tlv[0]",
        "tlv[2]",
    }


@pytest.mark.parametrize("name", ["keys", "metering", "selector"])
def test_the_native_switch_takes_every_update_and_entries_are_hit(
    name: str, configs: dict[str, p4r.ForwardingPipelineConfig]
) -> None:
    config = configs[name]
    document, random = Document(json.loads(config.p4_device_config)), Random(3)
    values = Values(document, random)
    native = Native()
    try:
        native.load(config)
        updates = list(Entries(config.p4info, document, values, random, PORTS).updates())
        assert [native.write(update) for update in updates] == [None] * len(updates)
        packets = Packets(document, values, random, PORTS)
        for _ in range(400):
            native.send(*next(packets))
        used = [native.engine.table_stats(table) for table in native.engine.program.tables]
        assert any(stats["hits"] > 20 for stats in used)
        assert name == "metering" or any(stats["misses"] > 20 for stats in used)
    finally:
        native.close()


def test_the_same_seed_gives_the_same_packets(configs: dict[str, p4r.ForwardingPipelineConfig]) -> None:
    document = Document(json.loads(configs["keys"].p4_device_config))

    def some(seed: int) -> list[tuple[int, bytes]]:
        random = Random(seed)
        packets = Packets(document, Values(document, random), random, PORTS)
        return [next(packets) for _ in range(50)]

    assert some(1) == some(1) != some(2)


def test_only_bytes_that_no_clock_changes_are_compared() -> None:
    ours = [[(1, b"\x00\x10\x20\x30\x40\x50\x60")], [(1, b"\x00\x10\x20\x33\x40\x50\x60")]]
    assert _judge(Result("x"), ours, [(1, b"\x00\x10\x20\x99\x41\x50\x60")], False) is None, "a neighbour"
    assert _judge(Result("x"), ours, [(1, b"\x00\x11\x20\x30\x40\x50\x60")], False) is not None
    assert _judge(Result("x"), ours, [(2, ours[0][0][1])], False) is not None, "another port"
    assert _judge(Result("x"), ours, [], False) is not None, "nothing sent"


def test_order_counts_within_a_port_only() -> None:
    sent = [(1, b"a"), (2, b"b"), (1, b"c")]
    assert _judge(Result("x"), [sent], [(2, b"b"), (1, b"a"), (1, b"c")], False) is None
    assert _judge(Result("x"), [sent], [(1, b"c"), (2, b"b"), (1, b"a")], False) is not None


def test_what_one_switch_alone_took_is_taken_back_a_default_action_by_the_programs_own() -> None:
    entry = p4r.Update(type=p4r.Update.INSERT)
    entry.entity.table_entry.table_id = 7
    entry.entity.table_entry.action.action.action_id = 1
    assert taken_back(entry) == p4r.Update(type=p4r.Update.DELETE, entity=entry.entity)
    default = p4r.Update(type=p4r.Update.MODIFY, entity=entry.entity)
    default.entity.table_entry.is_default_action = True
    back = taken_back(default)  # DELETE of a default action is no operation of P4Runtime (9.1)
    assert back.type == p4r.Update.MODIFY
    assert back.entity.table_entry.is_default_action and not back.entity.table_entry.HasField("action")


def test_a_frame_for_the_native_engines_cpu_port_counts_as_sent_there(
    configs: dict[str, p4r.ForwardingPipelineConfig],
) -> None:
    """BMv2 runs without a CPU port, so the frame leaves it through the port of that number."""
    native = Native()
    native.load(configs["refused"])
    frame = CPU_PORT.to_bytes(2, "big") + bytes(30)
    assert native.send(1, frame) == [(CPU_PORT, frame)]
    native.close()


def test_an_action_that_jumps_back_loops_and_one_that_jumps_ahead_does_not(
    configs: dict[str, p4r.ForwardingPipelineConfig],
) -> None:
    root = json.loads(configs["keys"].p4_device_config)

    def document(*targets: str) -> Document:
        jumps = [{"op": "_jump", "parameters": [{"type": "hexstr", "value": target}]} for target in targets]
        return Document({**root, "actions": [{"id": 0, "primitives": jumps}]})

    assert document("0x1", "0x0").loops()
    assert document("0x0").loops()
    assert not document("0x1", "0x2").loops()


def test_registers_too_wide_for_thrift_are_told_as_the_nearest_number() -> None:
    assert over_thrift(1 << 127) == over_thrift(1 << 63) == (1 << 63) - 1
    assert over_thrift(-(1 << 80)) == -(1 << 63)
    assert over_thrift(-5) == -5
