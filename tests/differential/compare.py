"""One program on both switches: entries, packets, outputs and state, and what differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

from finsy.proto import p4r
from google.protobuf import text_format

from switch.native.p4runtime.errors import P4RuntimeError
from tests.differential.document import Document
from tests.differential.entries import Entries
from tests.differential.packets import Packets, Values
from tests.differential.targets import SECOND, Bmv2, Died, Endless, Native, Output, Reads

PORTS = (0, 1, 2, 3, 4, 5, 6, 7)
BATCH = 32
"""Packets in flight at BMv2, whose queues hold 64."""
KEPT = 5
"""Differences shown for a program."""
LOOPS = (
    "resubmit",
    "recirculate",
    "clone_ingress_pkt_to_egress",
    "clone_egress_pkt_to_egress",
    "clone_ingress_pkt_to_ingress",
)


@dataclass(frozen=True)
class Given:
    """What is known of a program beforehand."""

    updates: Sequence[p4r.Update] = ()
    frames: Sequence[tuple[int, bytes]] = ()
    least: int = 0
    """Bytes to which shorter frames are lengthened: those that the program's behaviour is defined for."""


@dataclass
class Result:
    """What came of one program."""

    name: str
    packets: int = 0
    sent: int = 0
    """Frames that BMv2 sent."""
    masked: int = 0
    """Packets of which some bytes depend on time or chance and were not compared."""
    left_out: int = 0
    """Packets whose way depends on time or chance."""
    endless: int = 0
    """Packets left out because neither switch would ever be done with them."""
    entries: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Updates that one switch took and the other did not."""
    state: int = 0
    """Cells of counters, registers and digests compared."""
    differences: list[str] = field(default_factory=list)
    count: int = 0
    skipped: str | None = None
    explained: str | None = None

    def differ(self, text: str) -> None:
        """Note a difference."""
        self.count += 1
        if len(self.differences) < KEPT:
            self.differences.append(text)


def config_of(json_path: Path, p4info_path: Path) -> p4r.ForwardingPipelineConfig:
    """The P4Runtime configuration of a compiled program."""
    config = p4r.ForwardingPipelineConfig(p4_device_config=json_path.read_bytes())
    text_format.Parse(p4info_path.read_text(), config.p4info)
    for register in config.p4info.registers:
        # The traffic manager's extension, which BMv2 does not have, stays off.
        del register.preamble.annotations[:]
    return config


def compare(
    name: str,
    config: p4r.ForwardingPipelineConfig,
    executable: str,
    packets: int,
    seed: int,
    given: Given | None = None,
) -> Result:
    """Run a program on both switches, with the updates given or random ones.

    What a field of an invalid header reads as is undefined in P4; the native switch gives what this packet left there,
    else zero. BMv2 is asked to give zero; where that differs, the run is made again with BMv2 as it comes, which gives
    what this or some earlier packet left there.
    """
    first = _compare_once(name, config, executable, packets, seed, given, True)
    if not first.count:
        return first
    again = _compare_once(name, config, executable, packets, seed, given, False)
    if again.count or again.skipped:
        return first
    again.explained = "reads fields of invalid headers, alike as BMv2 leaves them"
    return again


def _compare_once(
    name: str,
    config: p4r.ForwardingPipelineConfig,
    executable: str,
    packets: int,
    seed: int,
    given: Given | None,
    zero: bool,
) -> Result:
    result = Result(name)
    random = Random(f"{name} {seed}")
    document = Document(json.loads(config.p4_device_config))
    native = Native()
    # The same run under other clocks, seeds and loads shows what depends on them. The first clock is ahead by
    # 0x555555 us, so that no byte of a timestamp stays the same; the second has another step.
    others = (
        Native(start=SECOND + 0x555555 * 1000, seed=99),
        Native(start=7_777_777_777, step=3_333_337, rate_bps=10**9, seed=77),
    )
    bmv2 = Bmv2(executable, zero_invalid_reads=zero)
    try:
        _compare(result, config, document, random, (native, *others), bmv2, packets, given or Given())
    except Endless:
        result.skipped = f"packet {result.packets} or the one after never leaves BMv2"
    except Died as death:
        result.skipped = f"BMv2 {death}"
    finally:
        bmv2.close()
        native.close()
        for other in others:
            other.close()
    return result


def _compare(
    result: Result,
    config: p4r.ForwardingPipelineConfig,
    document: Document,
    random: Random,
    natives: tuple[Native, ...],
    bmv2: Bmv2,
    packets: int,
    given: Given,
) -> None:
    refusal = bmv2.load(config)
    try:
        for native in natives:
            native.load(config)
    except P4RuntimeError as error:
        if refusal is None:
            result.differ(f"only the native switch refuses the program: {error.message}")
        else:
            result.skipped = f"both refuse the program: {refusal}"
        return
    if refusal is not None:
        result.skipped = f"BMv2 refuses the program: {refusal}"
        return
    values = Values(document, random)
    written: list[p4r.Update] = []
    entries = Entries(config.p4info, document, values, random, PORTS)
    for update in given.updates:
        entries.learn(update)
    for update in given.updates or entries.updates():
        our_no, their_no = natives[0].write(update), bmv2.write(update)
        for other in natives[1:]:
            other.write(update)
        if (our_no is None) != (their_no is None):
            who = "native refuses" if our_no else "BMv2 refuses"
            kind = update.entity.WhichOneof("entity")
            result.refused[f"{who} {kind}: {our_no or their_no}"] += 1
            taker = bmv2 if our_no else natives[0]
            back = taken_back(update)
            taker.write(back)
            if their_no:
                for other in natives[1:]:
                    other.write(back)
        elif our_no is None:
            result.entries += 1
            written.append(update)
    # Queues are never crowded here, so no clock shows what depends on the time spent in one.
    chance = document.uses("modify_field_rng_uniform") or document.reads("deq_timedelta")
    circles = document.uses(*LOOPS) or document.loops()
    alone = circles or document.egress_state() or document.reads("enq_qdepth", "deq_qdepth")
    probe = Probe(config, written) if circles else None
    source = Packets(document, values, random, PORTS, given.frames)
    left = packets
    while left > 0:
        drawn = islice(source, min(left, 1 if alone else BATCH))
        batch = [(port, frame.ljust(given.least, b"\0")) for port, frame in drawn]
        left -= len(batch)
        if probe is not None and not probe.leaves(batch[0]):
            result.endless += 1
            continue
        try:
            outputs = [[native.send(p, d) for native in natives] for p, d in batch]
        except Endless:
            result.differ(f"packet {result.packets}: never leaves the native switch: {batch[0][1].hex()}")
            return
        seen = bmv2.send(batch)
        for (port, data), ours, theirs in zip(batch, outputs, seen, strict=True):
            result.packets += 1
            result.sent += len(theirs)
            problem = _judge(result, ours, theirs, chance)
            if problem is not None:
                result.differ(f"packet {result.packets - 1}: port {port} {data.hex()}: {problem}")
        if result.count > 200:
            return
    _state(result, [native.reads(config.p4info) for native in natives], bmv2.reads(config.p4info))


def taken_back(update: p4r.Update) -> p4r.Update:
    """What undoes an update that only one switch took; a table's default action becomes the program's again."""
    back = p4r.Update(type=p4r.Update.DELETE, entity=update.entity)
    if update.entity.table_entry.is_default_action:
        back.type = p4r.Update.MODIFY
        back.entity.table_entry.ClearField("action")
    return back


class Probe:
    """A native switch that takes packets first, to leave out those that would circle in both switches for ever."""

    def __init__(self, config: p4r.ForwardingPipelineConfig, updates: Sequence[p4r.Update]) -> None:
        self._config = config
        self._updates = updates
        self._native = self._fresh()

    def _fresh(self) -> Native:
        native = Native()
        native.load(self._config)
        for update in self._updates:
            native.write(update)
        return native

    def _circled(self) -> int:
        """Packets, and runs of a parser or an action, that were stopped."""
        return self._native.engine.drops()["loop"][0] + self._native.engine.faults()["parser_loops"]

    def leaves(self, packet: tuple[int, bytes]) -> bool:
        """Whether the switch is ever done with it."""
        before = self._circled()
        try:
            self._native.send(*packet)
            if self._circled() != before:
                raise Endless
        except Endless:
            self._native.close()
            self._native = self._fresh()
            return False
        return True


def _by_port(outputs: Sequence[Output]) -> list[tuple[int, list[bytes]]]:
    ports: dict[int, list[bytes]] = {}
    for port, data in outputs:
        ports.setdefault(port, []).append(data)
    return sorted(ports.items())


def _judge(result: Result, ours: Sequence[list[Output]], theirs: list[Output], chance: bool) -> str | None:
    """None when BMv2 sent what the native switch sent, port for port and in order per port.

    `ours` has what the native switch sent under each clock; bytes in which they differ, and their neighbours, are
    not compared. `chance`: the program draws random numbers, of which three runs show too little.
    """
    if all(each == theirs for each in ours):
        return None
    mine, *others = [_by_port(each) for each in ours]
    expected = _by_port(theirs)
    shape = [(p, [len(d) for d in f]) for p, f in mine]
    if any([(p, [len(d) for d in f]) for p, f in other] != shape for other in others):
        result.left_out += 1
        return None
    result.masked += any(other != mine for other in others)
    if chance and ours[0] != theirs:
        result.left_out += 1
        return None
    if [(p, [len(d) for d in f]) for p, f in expected] != shape:
        return f"native sends {_shown(mine)}, BMv2 {_shown(expected)}"
    for place, (port, frames) in enumerate(mine):
        for number, frame in enumerate(frames):
            want = expected[place][1][number]
            open_bytes = {
                near
                for other in others
                for i, byte in enumerate(other[place][1][number])
                if byte != frame[i]
                for near in (i - 1, i, i + 1)
            }
            if any(frame[i] != want[i] for i in range(len(frame)) if i not in open_bytes):
                return f"port {port}: native {frame.hex()}, BMv2 {want.hex()}"
    return None


def _shown(ports: list[tuple[int, list[bytes]]]) -> str:
    return str({port: [data.hex() for data in frames] for port, frames in ports})


def over_thrift(value: int) -> int:
    """A register's value as BMv2's Thrift runtime tells it: in 64 bits with a sign, the nearest that fits."""
    return max(-(1 << 63), min(value, (1 << 63) - 1))


def _state(result: Result, ours: Sequence[Reads], theirs: Reads) -> None:
    """Compare what the native switch has under every clock with what BMv2 has."""

    def judge(what: str, values: list[object], other: object) -> None:
        result.state += 1
        if all(v == values[0] for v in values) and values[0] != other:
            result.differ(f"{what}: native {values[0]}, BMv2 {other}")

    for name in sorted(ours[0].counters.keys() | theirs.counters.keys()):
        for index in sorted(ours[0].counters.get(name, {}).keys() | theirs.counters.get(name, {}).keys()):
            cells: list[object] = [r.counters.get(name, {}).get(index, (0, 0)) for r in ours]
            judge(f"counter {name}[{index}]", cells, theirs.counters.get(name, {}).get(index, (0, 0)))
    for name in sorted(ours[0].direct.keys() & theirs.direct.keys()):
        for key in sorted(ours[0].direct[name].keys() | theirs.direct[name].keys()):
            entries: list[object] = [r.direct.get(name, {}).get(key) for r in ours]
            judge(f"direct counter of {name}, {key!r}", entries, theirs.direct[name].get(key))
    for name in sorted(ours[0].registers.keys() & theirs.registers.keys()):
        for index, other in enumerate(theirs.registers[name]):
            judge(f"register {name}[{index}]", [over_thrift(r.registers[name][index]) for r in ours], other)
    for name in sorted(ours[0].digests.keys() | theirs.digests.keys()):
        lists: list[list[bytes]] = [r.digests.get(name, []) for r in ours]
        result.state += len(lists[0])
        told: list[bytes] = theirs.digests.get(name, [])
        steady = all(sorted(each) == sorted(lists[0]) for each in lists)
        # BMv2 loses digests that come faster than its threads hand them on; those it sends must be the same.
        if steady and (Counter(told) - Counter(lists[0]) or len(told) < len(lists[0]) // 2):
            result.differ(f"digests {name}: native sends {len(lists[0])}, BMv2 {len(told)}")
