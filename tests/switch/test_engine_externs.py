"""v1model's externs: counters, registers, meters, random, hashes, checksums, value sets, messages."""

from __future__ import annotations

import binascii
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from p4programs import compiled
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from switch.native.binding import Engine, EngineError
from switch.native.program import Program

_SHAPE = struct.Struct(">BIQQQ16s")
SIZE = _SHAPE.size
COUNT, WRITE, READ, WRITE_WIDE, READ_WIDE, FLIP, BYTE_METER, PACKET_METER, RANDOM = range(9)
CRC16, CRC32, CSUM16, XOR16, IDENTITY, CRC32_BITS, LOOP = range(10, 17)
LOG, ASSERT, IN_SET = 20, 21, 22
CHECKSUM = 30


@dataclass
class Asker:
    """An engine that answers frames."""

    engine: Engine
    now: int = 0
    last: bytes = field(default=b"", repr=False)

    def ask(
        self, op: int, index: int = 0, low: int = 0, high: int = 0, wide: int = 0, tail: bytes = b""
    ) -> int:
        """The `result` field of the answer; `last` keeps the whole frame."""
        data = _SHAPE.pack(op, index, low, high, 0, wide.to_bytes(16, "big")) + tail
        self.engine.rx(1, data, self.now)
        ((_, self.last),) = self.engine.poll(self.now)
        return int(_SHAPE.unpack_from(self.last)[4])

    def name(self, table: dict[str, object], short: str) -> str:
        (found,) = [n for n in table if n.split(".")[-1] == short]
        return found


@pytest.fixture(scope="module")
def program() -> Program:
    json, p4info = compiled("state")
    return Program.from_text(json.read_text(), p4info.read_text())


@pytest.fixture
def asker(program: Program) -> Iterator[Asker]:
    with Engine(program, seed=5) as e:
        e.add_port(1)
        yield Asker(e)


# ---- counters and registers ----


def test_a_counter_counts_packets_and_ingress_bytes(asker: Asker) -> None:
    name = asker.name(asker.engine.program.counters, "plain")
    for tail in (b"", b"x" * 100, b""):
        asker.ask(COUNT, 3, tail=tail)
    assert asker.engine.counter_read(name, 3) == (3, 3 * SIZE + 100)
    asker.engine.counter_write(name, 3, 10, 20)
    asker.ask(COUNT, 3)
    assert asker.engine.counter_read_all(name) == [(0, 0)] * 3 + [(11, 20 + SIZE)] + [(0, 0)] * 4


def test_a_register_keeps_its_width(asker: Asker) -> None:
    name = asker.name(asker.engine.program.registers, "cells")
    asker.ask(WRITE, 2, low=0xFFFF_1234_5678_9ABC)
    assert asker.ask(READ, 2) == 0x1234_5678_9ABC
    assert asker.engine.register_read(name, 2) == 0x1234_5678_9ABC
    asker.engine.register_write(name, 7, 5)
    assert asker.ask(READ, 7) == 5
    assert asker.engine.register_read_all(name) == [0, 0, 0x1234_5678_9ABC, 0, 0, 0, 0, 5]
    asker.engine.register_reset(name)
    assert asker.engine.register_read_all(name) == [0] * 8


def test_a_register_of_128_bits(asker: Asker) -> None:
    name = asker.name(asker.engine.program.registers, "wide_cells")
    value = 0xFEDCBA98_76543210_01234567_89ABCDEF
    asker.ask(WRITE_WIDE, 1, wide=value)
    asker.ask(READ_WIDE, 1)
    assert _SHAPE.unpack_from(asker.last)[5] == value.to_bytes(16, "big")
    assert asker.engine.register_read_all(name) == [0, value, 0, 0]


def test_a_register_of_one_bit(asker: Asker) -> None:
    assert [asker.ask(FLIP, 4) for _ in range(4)] == [0, 1, 0, 1]


def test_indices_out_of_bounds_are_counted_and_do_nothing(asker: Asker) -> None:
    for op in (COUNT, WRITE, READ_WIDE, BYTE_METER):
        asker.ask(op, 8, low=1)
    assert asker.ask(READ, 8) == 0x99  # the destination keeps its value
    asker.ask(COUNT, 2**32 - 1)
    assert asker.engine.faults()["out_of_bounds"] == 6
    assert (
        sum(p for p, _ in asker.engine.counter_read_all(asker.name(asker.engine.program.counters, "plain")))
        == 0
    )


@pytest.mark.parametrize(
    "attempt",
    [
        lambda e, p: e.counter_read(next(iter(p.counters)), 8),
        lambda e, p: e.register_read(next(iter(p.registers)), 8),
        lambda e, p: e.register_write(next(iter(p.registers)), 0, 1 << 48),
        lambda e, p: e.meter_set(next(iter(p.meters)), 4, None),
        lambda e, p: e.meter_set(next(iter(p.meters)), 0, (5, 1, 4, 1)),
    ],
)
def test_control_accesses_out_of_range_are_refused(
    asker: Asker, attempt: Callable[[Engine, Program], object]
) -> None:
    with pytest.raises(EngineError) as caught:
        attempt(asker.engine, asker.engine.program)
    assert caught.value.kind == "invalid"


# ---- meters (RFC 2698, colour-blind) ----


def test_an_unset_meter_is_green(asker: Asker) -> None:
    assert asker.ask(PACKET_METER) == 0


class TwoRates:
    """RFC 2698: from the start on, a token is added CIR (PIR) times a second unless the bucket is full."""

    def __init__(self, cir: int, cburst: int, pir: int, pburst: int, start: int) -> None:
        self.rates = (pir, cir)
        self.bursts = (pburst, cburst)
        self.tokens = [pburst, cburst]
        self.start = self.last = start

    def colour(self, units: int, now: int) -> int:
        for i, rate in enumerate(self.rates):
            added = rate * (now - self.start) // 10**9 - rate * (self.last - self.start) // 10**9
            self.tokens[i] = min(self.bursts[i], self.tokens[i] + added)
        self.last = now
        if self.tokens[0] < units:
            return 2
        self.tokens[0] -= units
        if self.tokens[1] < units:
            return 1
        self.tokens[1] -= units
        return 0


@pytest.mark.parametrize(
    ("op", "short", "rates"),
    [
        (PACKET_METER, "packet_meter", (1_000, 3, 2_000, 5)),
        (BYTE_METER, "byte_meter", (12_500_000, 1_000, 25_000_000, 2_000)),
        (BYTE_METER, "byte_meter", (12_500_000_000, 300, 25_000_000_000, 450)),
    ],
)
def test_a_meter_colours_as_rfc_2698_says(
    asker: Asker, op: int, short: str, rates: tuple[int, int, int, int]
) -> None:
    rng = random.Random(2)
    asker.now = 1_000
    asker.ask(COUNT)
    asker.engine.meter_set(asker.name(asker.engine.program.meters, short), 1, rates)
    reference = TwoRates(*rates, start=1_000)
    seen = set()
    for _ in range(600):
        tail = bytes(rng.randrange(0, 300))
        units = 1 if op == PACKET_METER else SIZE + len(tail)
        asker.now += round(rng.choice([0, 0.1, 0.3, 0.7, 2]) * units * 10**9 / rates[0])
        colour = asker.ask(op, 1, tail=tail)
        assert colour == reference.colour(units, asker.now)
        seen.add(colour)
    assert seen == {0, 1, 2}


def test_a_meter_whose_peak_burst_is_one_packet_colours_a_stream_of_packets_90_ms_apart(asker: Asker) -> None:
    """2 packets/s committed with a burst of 3, 10 packets/s peak with a burst of 1, by hand: the peak bucket has a
    token again at every tenth of a second, so the packet at 90 ms is red; the committed one holds out for 3 packets
    (at 0, 180 and 270 ms) and has one more from 500 ms on (taken at 540 ms) and from 1 s on (1040 ms)."""
    asker.now = 0
    asker.ask(COUNT)
    asker.engine.meter_set(asker.name(asker.engine.program.meters, "packet_meter"), 1, (2, 3, 10, 1))
    colours = {}
    for at in (*range(0, 811, 90), 820, 830, 1040):
        asker.now = at * 1_000_000
        colours[at] = "GYR"[asker.ask(PACKET_METER, 1)]
    assert colours == {
        0: "G", 90: "R", 180: "G", 270: "G", 360: "Y", 450: "Y", 540: "G", 630: "Y", 720: "Y", 810: "Y", 820: "R",
        830: "R", 1040: "G",
    }  # fmt: skip


# ---- random ----


def test_random_stays_within_its_bounds_and_reaches_them(asker: Asker) -> None:
    values = [asker.ask(RANDOM, low=10, high=13) for _ in range(400)]
    assert set(values) == {10, 11, 12, 13}
    assert all(values.count(v) > 60 for v in set(values))


def test_random_over_all_64_bits_and_over_one_value(asker: Asker) -> None:
    assert len({asker.ask(RANDOM, low=0, high=2**64 - 1) >> 48 for _ in range(50)}) > 40
    assert asker.ask(RANDOM, low=77, high=77) == 77


def test_random_with_bounds_turned_round_keeps_the_destination(asker: Asker) -> None:
    assert asker.ask(RANDOM, low=5, high=4) == 0


def test_a_seed_repeats_the_sequence(program: Program) -> None:
    def sequence(seed: int) -> list[int]:
        with Engine(program, seed=seed) as e:
            e.add_port(1)
            asker = Asker(e)
            return [asker.ask(RANDOM, low=0, high=2**32) for _ in range(10)]

    assert sequence(1) == sequence(1) != sequence(2)


# ---- hashes ----


def crc16_arc(data: bytes) -> int:
    """CRC-16/ARC from its definition; the check value of `123456789` is 0xBB3D."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def internet_checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def xor16(data: bytes) -> int:
    """All 16-bit words XORed."""
    total = 0
    for word in struct.unpack(f">{len(data) // 2}H", data):
        total ^= word
    return total


HASHES: dict[int, Callable[[bytes], int]] = {
    CRC16: crc16_arc,
    CRC32: zlib.crc32,
    CSUM16: internet_checksum,
    XOR16: xor16,
    IDENTITY: lambda d: int.from_bytes(d[:8], "big"),
}


@pytest.mark.parametrize("op", HASHES)
def test_a_hash_is_its_algorithm_modulo_the_maximum_plus_the_base(asker: Asker, op: int) -> None:
    for index, wide in ((0, 0), (0x31323334, 0x35363738_39303132_33343536_37383930), (2**32 - 1, 2**128 - 1)):
        data = index.to_bytes(4, "big") + wide.to_bytes(16, "big")
        expected = HASHES[op](data)
        assert asker.ask(op, index, low=0, high=2**64 - 1, wide=wide) == expected % (2**64 - 1)
        assert asker.ask(op, index, low=1_000, high=97, wide=wide) == 1_000 + expected % 97
        assert asker.ask(op, index, low=7, high=0, wide=wide) == 7  # a maximum of 0 counts as 1


def test_hash_inputs_that_are_no_whole_bytes_are_padded_at_the_end(asker: Asker) -> None:
    index, wide = 0b101, 0b1100110
    bits = f"{index:03b}{wide:07b}".ljust(16, "0")
    expected = binascii.crc32(int(bits, 2).to_bytes(2, "big"))
    assert asker.ask(CRC32_BITS, index, low=0, high=2**63, wide=wide) == expected


# ---- checksums ----


@pytest.mark.parametrize("payload", [b"", b"a", b"ab" * 100, bytes(range(251))])
def test_checksums_are_verified_and_updated(asker: Asker, payload: bytes) -> None:
    packet = bytes(IP(src="10.1.2.3", dst="10.4.5.6", ttl=9) / UDP(sport=1, dport=2) / Raw(payload))
    assert asker.ask(CHECKSUM, tail=packet) == 0
    out = asker.last[SIZE:]
    expected = IP(packet)
    expected.ttl = 8
    del expected.chksum
    del expected[UDP].chksum
    wanted = bytes(expected)
    assert out[:26] == wanted[:26]
    # An all-zero UDP checksum is sent as ones by a host (RFC 768); the extern leaves that to the program.
    assert out[26:28] == wanted[26:28] or wanted[26:28] == b"\xff\xff"
    assert out[28:] == wanted[28:]
    broken = bytearray(packet)
    broken[3] ^= 1
    assert asker.ask(CHECKSUM, tail=bytes(broken)) == 1
    assert asker.engine.faults()["checksum_errors"] == 1


# ---- value sets ----


def test_a_parser_value_set_is_filled_at_run_time(asker: Asker) -> None:
    name = asker.name(asker.engine.program.value_sets, "special")
    assert asker.ask(IN_SET, 5) == 0
    members = [
        [("exact", IN_SET), ("exact", 5)],
        [("ternary", 0, 0), ("ternary", 0x100, 0xFF00)],
    ]
    asker.engine.value_set_set(name, members)
    assert [asker.ask(IN_SET, i) for i in (5, 6, 0x1AB)] == [0x5E7, 0, 0x5E7]
    members += [[("exact", 1), ("exact", n)] for n in (1, 2)]
    asker.engine.value_set_set(name, members)
    with pytest.raises(EngineError) as caught:
        asker.engine.value_set_set(name, [*members, [("exact", 1), ("exact", 3)]])
    assert caught.value.kind == "full"
    assert asker.ask(IN_SET, 5) == 0x5E7, "a refused change changes nothing"
    asker.engine.value_set_set(name, [])
    assert asker.ask(IN_SET, 5) == 0


def test_ranges_in_a_value_set_hold_their_ends(asker: Asker) -> None:
    name = asker.name(asker.engine.program.value_sets, "special")
    asker.engine.value_set_set(
        name,
        [
            [("exact", IN_SET), ("range", 5, 300)],
            [("exact", IN_SET), ("range", 1000, 1000)],
        ],
    )
    asked = (4, 5, 300, 301, 999, 1000, 1001)
    assert [asker.ask(IN_SET, i) != 0 for i in asked] == [False, True, True, False, False, True, False]


# ---- loops ----


def test_a_loop_that_does_not_end_ends_the_pass_and_is_counted(asker: Asker) -> None:
    assert asker.ask(LOOP, low=1_000) == 999 * 1_000 // 2
    assert asker.engine.faults()["parser_loops"] == 0
    asker.ask(LOOP, low=2**64 - 1)
    assert asker.engine.faults()["parser_loops"] == 1


# ---- messages ----


def test_log_messages_come_formatted_with_their_time(asker: Asker) -> None:
    asker.now = 44
    asker.ask(LOG, 3, low=2**63)
    assert asker.engine.pending() == {"log"}
    ((message),) = asker.engine.take_log()
    assert (message.time, message.text, message.failed_assert) == (44, f"index 3 of {2**63}", False)


def test_a_failed_assert_is_counted_and_told_and_the_packet_goes_on(asker: Asker) -> None:
    asker.ask(ASSERT, 1)
    assert asker.engine.take_log() == []
    asker.ask(ASSERT, 0)
    ((message),) = asker.engine.take_log()
    assert message.failed_assert and "index" in message.text
    assert asker.engine.faults()["asserts"] == 1


def test_messages_that_nobody_takes_are_bounded_and_counted(asker: Asker) -> None:
    for i in range(2_000):
        asker.ask(LOG, i)
    taken = asker.engine.take_log()
    assert 0 < len(taken) < 2_000
    assert asker.engine.faults()["logs_lost"] == 2_000 - len(taken)
