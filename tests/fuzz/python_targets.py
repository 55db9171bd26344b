"""What reads other people's bytes in Python, as functions of an input: it takes it, or says what is wrong with it.

An exception that the reader does not document is a finding, as is an answer that takes very long. The replay needs
nothing but this file; the search (`python -m tests.fuzz`) needs atheris.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from switch.device_file import DeviceFileError, read_devices
from switch.native import pcap
from switch.native.binding import Engine
from switch.native.cgen import generate
from switch.native.control.controlled import ControlError
from switch.native.control.direct import DirectControl
from switch.native.control.service import ControlService, _object
from switch.native.engine_types import EngineError
from switch.native.p4runtime.device import P4RuntimeDevice, Stream
from switch.native.p4runtime.errors import BatchError, P4RuntimeError
from switch.native.program import Program, ProgramError
from tests.fuzz.build import PROGRAMS, ROOT, compiled, documents
from topologies.fabric import TopologyError
from topologies.hpcc_file import parse_hpcc_topology
from topologies.spec import topology_from_spec
from traffic.errors import TrafficError
from traffic.workloads.hpcc_flow import parse_flows
from xoff.errors import XoffError
from xoff.experiment import from_mapping, load

ENTITIES = "tests/switch/programs/entities"
PORTS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Target:
    """One reader, or several behind one door."""

    one: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    modules: tuple[str, ...]
    """Packages whose coverage guides the search."""


class Bytes:
    """An input taken apart; beyond the end all is zero."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        found = self._data[self._at : self._at + count]
        self._at += count
        return found.ljust(count, b"\0")

    def number(self, count: int) -> int:
        """The next number of that many bytes."""
        return int.from_bytes(self.take(count), "big")

    def block(self) -> bytes:
        """A block behind its length, cut where the input ends."""
        size = self.number(2)
        found = self._data[self._at : self._at + size]
        self._at += size
        return found


# ---- BMv2 JSON ----


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys: list[Any] = []
    if isinstance(node, dict):
        keys = [key for key in node if key != "source_info"]
    elif isinstance(node, list):
        keys = list(range(len(node)))
    for key in keys:
        yield node, key
        yield from _places(node[key])


_VALUES: tuple[Any, ...] = (
    None, 0, 1, -1, 7, 8, 63, 64, 65, 129, 511, 2**31, 2**64, 10**9, 1.5, True, False, "", "x", [], {}, [[]], [None],
    "0x00", "0xff", "-0x1", "0x" + "f" * 40, "0xZZ", {"type": "hexstr", "value": "0x0"}, {"type": "field", "value": []},
)  # fmt: skip


def _change(document: Any, data: Bytes) -> None:
    everything = list(_places(document))
    where, key = everything[data.number(2) % len(everything)]
    action = data.number(1) % 6
    if action == 0:
        where[key] = copy.deepcopy(_VALUES[data.number(1) % len(_VALUES)])
    elif action == 1:
        del where[key]
    elif action == 2:
        other, other_key = everything[data.number(2) % len(everything)]
        where[key] = copy.deepcopy(other[other_key])
    elif action == 3 and isinstance(where, list):
        where.append(copy.deepcopy(where[key]))
    elif action == 4 and isinstance(where[key], int):
        where[key] += data.number(1) - 128
    else:
        where[key] = [where[key]]


def bmv2_json(data: bytes) -> None:
    """A document of the compiler's with changes, or any text, read and turned into C."""
    names = PROGRAMS["engine"]
    take = Bytes(data)
    choice = take.number(1)
    if choice & 128:
        text, info = data[1:].decode(errors="replace"), ""
    else:
        original, info = documents(names[choice % len(names)])
        document = json.loads(original)
        for _ in range(12):
            if not take or not document:
                break
            _change(document, take)
        text = json.dumps(document)
    try:
        generate(Program.from_text(text, info) if info else Program.from_text(text))
    except ProgramError as error:
        assert str(error).strip()


def _json_seeds() -> Iterator[bytes]:
    for place in range(len(PROGRAMS["engine"])):
        yield bytes([place])
        for action in range(6):
            yield bytes([place, place, 17 * action, action, 3, 9])
    yield b"\x80{}"
    yield b"\x80" + b"[" * 5000


# ---- P4Runtime ----


class _Served:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.engine = Engine(None, device_id=3)
        for port in PORTS:
            self.engine.add_port(port)
        self.device = P4RuntimeDevice(3, self.engine, wake=lambda: None, clock=lambda: self.now)
        self.now = 0
        json_text, info = documents(ENTITIES)
        self.config = p4r.ForwardingPipelineConfig(p4_device_config=json_text.encode())
        text_format.Parse(info, self.config.p4info)

    def run(self, coroutine: Any) -> Any:
        try:
            return self.loop.run_until_complete(coroutine)
        except (P4RuntimeError, BatchError) as refused:
            return refused


@functools.cache
def _served() -> _Served:
    return _Served()


def _parsed(message: Any, data: bytes) -> Any:
    try:
        message.ParseFromString(data)
    except DecodeError:  # gRPC refuses such a request itself
        return None
    return message


def p4runtime(data: bytes) -> None:
    """Requests and stream messages, frames between them; at the end the switch still works."""
    served = _served()
    served.run(served.device.load(served.config))
    stream, take = Stream(), Bytes(data)

    async def receive(message: Any) -> None:
        served.device.receive(stream, message)

    async def drain() -> None:
        served.device.drain(served.engine.pending())

    async def leave() -> None:
        served.device.leave(stream)

    while take:
        operation, block = take.number(1) % 8, take.block()
        if operation < 3:
            entity = _parsed(p4r.Entity(), block)
            if entity is not None:
                update = p4r.Update(type=operation + 1, entity=entity)
                served.run(served.device.write(p4r.WriteRequest(device_id=3, updates=[update])))
        elif operation == 3:
            entity = _parsed(p4r.Entity(), block)
            if entity is not None:
                answer = served.run(served.device.read(p4r.ReadRequest(device_id=3, entities=[entity])))
                for response in answer[0] if isinstance(answer, tuple) else ():
                    response.SerializeToString()
        elif operation == 4:
            message = _parsed(p4r.StreamMessageRequest(), block)
            if message is not None:
                served.run(receive(message))
        elif operation == 5:
            message = _parsed(p4r.WriteRequest(), block)
            if message is not None:
                message.device_id = 3
                served.run(served.device.write(message))
        elif operation == 6:
            p4info = _parsed(p4i.P4Info(), block)
            if p4info is not None:
                config = p4r.ForwardingPipelineConfig()
                config.CopyFrom(served.config)
                config.p4info.CopyFrom(p4info)
                verify = p4r.SetForwardingPipelineConfigRequest.VERIFY
                request = p4r.SetForwardingPipelineConfigRequest(device_id=3, action=verify, config=config)
                served.run(served.device.set_config(request))
        else:
            served.now += 1000
            served.engine.rx(PORTS[len(block) % 4], block, served.now)
            served.engine.poll(served.now)
            served.run(drain())
    served.run(leave())
    everything = served.run(
        served.device.read(p4r.ReadRequest(device_id=3, entities=[p4r.Entity(table_entry=p4r.TableEntry())]))
    )
    assert isinstance(everything, tuple), everything


def _p4runtime_seeds() -> Iterator[bytes]:
    config = p4i.P4Info()
    text_format.Parse(documents(ENTITIES)[1], config)

    def block(operation: int, message: Any) -> bytes:
        serialized = message.SerializeToString()
        return bytes([operation]) + len(serialized).to_bytes(2, "big") + serialized

    for table in config.tables:
        for action_ref in table.action_refs:
            action = next(a for a in config.actions if a.preamble.id == action_ref.id)
            entry = p4r.TableEntry(table_id=table.preamble.id, priority=1)
            for field in table.match_fields:
                match = entry.match.add(field_id=field.id)
                value = bytes([1]) if field.bitwidth <= 8 else b"\x01" * 2
                match.exact.value = value
            entry.action.action.action_id = action.preamble.id
            for parameter in action.params:
                entry.action.action.params.add(param_id=parameter.id, value=b"\x01")
            entity = p4r.Entity(table_entry=entry)
            yield block(0, entity) + block(3, entity) + block(1, entity) + block(2, entity)
    for kind, name in (
        ("counter_entry", "counter_id"),
        ("meter_entry", "meter_id"),
        ("register_entry", "register_id"),
        ("value_set_entry", "value_set_id"),
        ("digest_entry", "digest_id"),
        ("action_profile_member", "action_profile_id"),
        ("action_profile_group", "action_profile_id"),
    ):
        for group in (config.counters, config.meters, config.registers, config.value_sets, config.digests,
                      config.action_profiles):  # fmt: skip
            for thing in group:
                entity = p4r.Entity(**{kind: {name: thing.preamble.id}})
                yield block(3, entity) + block(0, entity)
    groups = p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {"multicast_group_id": 1}})
    clones = p4r.Entity(packet_replication_engine_entry={"clone_session_entry": {"session_id": 1}})
    yield block(0, groups) + block(0, clones) + block(3, groups) + block(2, clones)
    primary = p4r.StreamMessageRequest(arbitration={"device_id": 3, "election_id": {"low": 1}})
    out = p4r.StreamMessageRequest(packet={"payload": bytes(20)})
    yield block(4, primary) + block(4, out)
    yield block(6, p4i.P4Info(tables=config.tables[:1]))
    for kind_of_frame in range(0x1000, 0x100B):
        yield bytes([7, 0, 24]) + bytes(12) + kind_of_frame.to_bytes(2, "big") + bytes(10)


# ---- the control service ----

_METHODS = (
    "Describe", "GetPorts", "SetPort", "GetQueues", "SetQueue", "GetBuffer", "SetBuffer", "GetDrops", "GetTables",
    "ResetWatermarks", "Command",
)  # fmt: skip


@functools.cache
def _controlled() -> tuple[Engine, ControlService]:
    engine = Engine(compiled(ENTITIES))
    for port in PORTS:
        engine.add_port(port)
    return engine, ControlService(DirectControl("s1", engine, dict.fromkeys(PORTS)))


def control(data: bytes) -> None:
    """Lines: the letter of a method and its JSON object, or any other line for `Command`."""
    engine, service = _controlled()
    engine.set_pipeline(compiled(ENTITIES))
    for line in data.split(b"\n")[:40]:
        place = line[0] - ord("A") if line else -1
        try:
            if 0 <= place < len(_METHODS):
                json.dumps(service.call(_METHODS[place], _object(line[1:])))
            else:
                service.call("Command", {"line": line.decode(errors="replace")})
        except (ControlError, EngineError, P4RuntimeError) as refused:
            assert str(refused).strip()
    engine.rx(1, bytes(64), 0)
    engine.poll(10**6)


def _control_seeds() -> Iterator[bytes]:
    yield b"A\nB\nD\nF\nH\nI\nJ{}"
    yield b'C{"port": 1, "rate_bps": 1000000, "delay_ns": 5, "up": false}'
    yield b'C{"port": 1, "loss": {"direction": "tx", "probability": 0.5, "every": 2, "seed": 1}}'
    yield b'E{"port": 1, "class": 3, "weight": 4, "rate_bps": 5, "limit_bytes": 3}\nG{"size": 1000}\nD{}'
    yield b'E{"alpha": 0.5, "headroom_bytes": 5, "guaranteed_bytes": 5, "burst_bytes": 5, "rate_pps": 5}'
    engine, _ = _controlled()
    for table, description in engine.program.tables.items():
        for action in description.actions:
            words = " ".join("1" for _ in range(len(description.key)))
            yield f"table_add {table} {action.name} {words} => 1 1\ntable_dump {table}\ntable_delete {table} 0".encode()
    yield b"register_write stored 1 5\nregister_read stored\ncounter_read cells 1\nmeter_set_rates limits 1 0.1:2 0.2:3"
    yield b"mirroring_add 5 2\nmc_mgrp_create 1\nmc_node_create 0 1 2\nmc_node_associate 1 0\nmc_dump\nmirroring_get 5"
    yield b"set_queue_rate 5\nset_queue_depth 7 1 3\nshow_tables\nshow_actions\nshow_ports\nhelp"
    yield b"table_set_default acl drop\ntable_set_timeout aging 0 100\ntable_modify forwarding drop 0\ntable_info acl"


# ---- files ----


def _file(data: bytes, read: Callable[[Path], Any]) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(data)
        file.flush()
        read(Path(file.name))


def _small(spec: str) -> bool:
    """Whether the numbers in it are such that what is asked for can be built in a moment."""
    digits = "".join(c if c.isdigit() else " " for c in spec).split()
    return all(len(d) <= 1 for d in digits)


def _topology(spec: str) -> None:
    if _small(spec):
        topology_from_spec(spec)


_READERS: tuple[tuple[Callable[[bytes], Any], tuple[type[Exception], ...]], ...] = (
    (lambda data: _file(data, read_devices), (DeviceFileError,)),
    (lambda data: parse_hpcc_topology(data.decode(errors="replace")), (TopologyError,)),
    (lambda data: _topology(data.decode(errors="replace")), (TopologyError,)),
    (lambda data: parse_flows(data.decode(errors="replace"), ["h0", "h1", "h2"]), (TrafficError,)),
    (lambda data: _file(data, load), (XoffError,)),
    (lambda data: _file(data, lambda path: list(pcap.read(path))), (pcap.PcapError,)),
)


def files(data: bytes) -> None:
    """The first byte chooses the reader."""
    if not data:
        return
    read, documented = _READERS[data[0] % len(_READERS)]
    try:
        read(data[1:])
    except documented as error:
        assert str(error).strip()


def _file_seeds() -> Iterator[bytes]:
    device = {
        "name": "s1", "device_id": 1, "ports": [{"number": 1, "interface": "e1", "rate_bps": 5, "peer": "s1:2"}],
        "program_json": "p.json", "p4info": "p.txt", "grpc_address": "127.0.0.1:0",
        "queue": {"limit_bytes": 5, "limit_packets": 5},
    }  # fmt: skip
    yield b"\0" + json.dumps([device]).encode()
    yield b"\0" + json.dumps({"devices": [device, device]}).encode()
    links = [
        "0 3 100Gbps 1000ns 0",
        "1 3 1Gbps 1us 0",
        "2 4 1Gbps 1us 0",
        "3 4 4Gbps 1us 0",
        "3 4 4Gbps 1us 0",
    ]
    yield b"\x01" + "\n".join(["5 2 5", "3 4", *links, ""]).encode()
    for spec in ("fattree:k=4", "dragonflyplus:groups=3", "torus:dims=4x4", "ring:n=3", "leafspine:leaves=2,spines=2",
                 "rail:k=4", "fattree:k=4,rate=25G,oversubscription=2:1"):  # fmt: skip
        yield b"\x02" + spec.encode()
    yield b"\x03" + b"3\n0 1 3 100 1000 2.0\n1 2 3 100 500 2.1\n2 0 3 100 1 3\n"
    for path in sorted([*(ROOT / "labs").rglob("*.yaml"), *(ROOT / "tests").rglob("*.yaml")])[:20]:
        yield b"\x04" + path.read_bytes()
    yield b"\x04" + yaml.safe_dump(
        {"name": "a", "topology": "ring:n=3", "workload": "incast:senders=2,bytes=1MiB", "time_scale": 100,
         "duration": "1ms", "actions": [{"at": "10us", "link_down": {"link": ["s1", "s2"]}}], "seed": 4}
    ).encode()  # fmt: skip
    from_mapping({"name": "a"}, "here")
    head = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    yield b"\x05" + head + bytes(8) + (4).to_bytes(4, "little") * 2 + b"abcd"
    yield b"\x05" + bytes.fromhex("4d3cb2a1") + head[4:] + bytes(8) + (4).to_bytes(4, "little") * 2 + b"abcd"


TARGETS = {
    "bmv2_json": Target(bmv2_json, _json_seeds, ("switch.native",)),
    "p4runtime": Target(p4runtime, _p4runtime_seeds, ("switch.native",)),
    "control": Target(control, _control_seeds, ("switch.native",)),
    "files": Target(files, _file_seeds, ("switch", "topologies", "traffic", "xoff")),
}
"""By name."""
