"""Tables of every match kind against a plain search of their entries; profiles, direct counters and meters, ageing."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from p4programs import compiled

from switch.native.binding import Engine, EngineError
from switch.native.program import Program, Table

TABLES = (
    "exact_t", "wide_t", "lpm_t", "lpm6_t", "ternary_t", "ternary6_t", "range_t", "optional_t",
    "signed_t", "counted_t", "metered_t", "profile_t", "selector_t", "ageing_t", "const_t",
)  # fmt: skip
WIDTHS = {
    "op": 8,
    "a": 32,
    "b": 16,
    "c": 128,
    "d": 3,
    "e": 5,
    "s": 8,
    "w": 72,
    "result": 32,
    "wide_result": 128,
    "hit": 8,
    "colour": 8,
}
BITS = sum(WIDTHS.values())


class Answer(NamedTuple):
    """What the table did."""

    result: int
    wide_result: int
    hit: bool
    colour: int


def frame(op: int, **fields: int) -> bytes:
    """A frame that asks table number `op`."""
    value = 0
    for name, width in WIDTHS.items():
        value = value << width | ({**fields, "op": op}.get(name, 0) & ((1 << width) - 1))
    return value.to_bytes(BITS // 8, "big")


def answer(data: bytes) -> Answer:
    """Read one back."""
    value = int.from_bytes(data, "big")
    fields = {}
    for name, width in reversed(WIDTHS.items()):
        fields[name] = value & ((1 << width) - 1)
        value >>= width
    return Answer(fields["result"], fields["wide_result"], bool(fields["hit"]), fields["colour"])


@pytest.fixture(scope="module")
def program() -> Program:
    json, p4info = compiled("tables")
    return Program.from_text(json.read_text(), p4info.read_text())


def full_name(program: Program, short: str) -> str:
    (name,) = [n for n in program.tables if n.split(".")[-1] == short]
    return name


@dataclass
class Asker:
    """An engine and a way to ask its tables."""

    engine: Engine
    now: int = 0

    def __post_init__(self) -> None:
        self.engine.add_port(1)

    def name(self, short: str) -> str:
        return full_name(self.engine.program, short)

    def action(self, short: str) -> str:
        (name,) = {a.name for a in self.engine.program.actions if a.name.split(".")[-1] == short}
        return name

    def ask(self, table: str, **fields: int) -> Answer:
        self.engine.rx(1, frame(TABLES.index(table), **fields), self.now)
        ((_, data),) = self.engine.poll(self.now)
        return answer(data)

    def add(self, table: str, key: list[tuple[Any, ...]], value: int, priority: int = 0) -> int:
        return self.engine.table_add(self.name(table), key, self.action("answer"), [value], priority)


@pytest.fixture
def asker(program: Program) -> Iterator[Asker]:
    with Engine(program) as e:
        yield Asker(e)


# ---- lookups ----


def matches(element: tuple[Any, ...], value: int, width: int) -> bool:
    """One key element against a value, by the definition of its kind."""
    kind = element[0]
    if kind == "exact":
        return bool(value == element[1])
    if kind == "lpm":
        shift = width - element[2]
        return value >> shift == element[1] >> shift
    if kind == "ternary":
        return value & element[2] == element[1] & element[2]
    if kind == "range":
        return bool(element[1] <= value <= element[2])
    return element[1] is None or bool(value == element[1])


def search(
    table: Table, entries: list[tuple[list[tuple[Any, ...]], int, int]], fields: dict[str, int]
) -> int | None:
    """The value of the entry that wins: longest prefix, else highest priority, else the first added."""
    best: tuple[int, int, int] | None = None
    for order, (key, value, priority) in enumerate(entries):
        if all(matches(k, fields[f.field], f.width) for k, f in zip(key, table.key, strict=True)):
            rank = next((k[2] for k in key if k[0] == "lpm"), priority)
            if best is None or rank > best[0]:
                best = (rank, -order, value)
    return None if best is None else best[2]


def few(rng: random.Random, width: int) -> int:
    """Values that meet often: a handful of patterns over the whole width."""
    base = rng.choice([0, (1 << width) - 1, 0x0123456789ABCDEF0123456789ABCDEF & ((1 << width) - 1)])
    return base ^ (rng.choice([0, 1, 1 << (width - 1), rng.getrandbits(width)]))


def random_element(rng: random.Random, kind: str, width: int) -> tuple[Any, ...]:
    value, full = few(rng, width), (1 << width) - 1
    if kind == "lpm":
        prefix = rng.choice([0, 1, width - 1, width, rng.randrange(width + 1)])
        return ("lpm", value & (full ^ (full >> prefix)), prefix)
    if kind == "ternary":
        mask = rng.choice([0, full, full << (width // 2) & full, rng.getrandbits(width)])
        return ("ternary", value & mask, mask)
    if kind == "range":
        low, high = sorted((value, few(rng, width)))
        return ("range", low, high)
    if kind == "optional":
        return ("optional", rng.choice([None, value]))
    return (kind, value)


@pytest.mark.parametrize(
    "name", ["exact_t", "wide_t", "lpm_t", "lpm6_t", "ternary_t", "ternary6_t", "range_t", "optional_t"]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_lookup_finds_what_a_search_through_the_entries_finds(asker: Asker, name: str, seed: int) -> None:
    rng = random.Random(seed)
    table = asker.engine.program.tables[asker.name(name)]
    entries: list[tuple[list[tuple[Any, ...]], int, int]] = []
    handles: list[int] = []
    for step in range(120):
        if handles and rng.random() < 0.25:
            gone = rng.randrange(len(handles))
            asker.engine.table_delete(table.name, handles.pop(gone))
            entries.pop(gone)
        key = [random_element(rng, f.kind, f.width) for f in table.key]
        priority = rng.randrange(1, 6) if table.ranked else 0
        try:
            handles.append(asker.add(name, key, step + 100, priority))
            entries.append((key, step + 100, priority))
        except EngineError as error:
            assert error.kind in ("exists", "full")
        for _ in range(4):
            fields = {f.field: few(rng, f.width) for f in table.key}
            if entries and rng.random() < 0.7:  # near an entry
                near = rng.choice(entries)[0]
                for k, f in zip(near, table.key, strict=True):
                    fields[f.field] = (k[1] or 0) ^ (1 << rng.randrange(f.width) if rng.random() < 0.3 else 0)
            found = search(table, entries, fields)
            got = asker.ask(name, **fields)
            assert got.hit == (found is not None), (fields, entries)
            if found is not None:
                assert got.result == found, (fields, entries)
    assert asker.engine.table_stats(table.name)["entries"] == len(entries)


def test_a_miss_runs_the_default_action(asker: Asker) -> None:
    assert asker.ask("wide_t") == Answer(9, 0, False, 0)
    asker.engine.table_default(asker.name("wide_t"), asker.action("answer"), [1234])
    assert asker.ask("wide_t").result == 1234
    assert asker.engine.table_default_get(asker.name("wide_t")) == (asker.action("answer"), (1234,))
    asker.engine.table_default_reset(asker.name("wide_t"))
    assert asker.ask("wide_t").result == 9


def test_arguments_wider_than_64_bits_arrive_whole(asker: Asker) -> None:
    value = 0x1122334455667788_99AABBCCDDEEFF00
    asker.engine.table_add(asker.name("exact_t"), [("exact", 5), ("exact", 6)], asker.action("wide"), [value])
    assert asker.ask("exact_t", a=5, b=6).wide_result == value


def test_a_signed_key_matches_its_bits(asker: Asker) -> None:
    asker.add("signed_t", [("exact", 0xFE)], 7)
    assert asker.ask("signed_t", s=-2) == Answer(7, 0, True, 0)


def test_const_entries_are_there_in_order_of_appearance_and_cannot_be_changed(asker: Asker) -> None:
    ask = asker.ask
    assert [ask("const_t", b=b, d=d).result for b, d in ((0x0102, 1), (0x0203, 1), (0x0102, 2), (0, 3))] == [
        1,
        3,
        4,
        5,
    ]
    name = asker.name("const_t")
    entries = asker.engine.table_entries(name)
    assert len(entries) == 4 and all(e.const for e in entries)
    for change in (
        lambda: asker.add("const_t", [("ternary", 0, 0), ("exact", 3)], 1, 1),
        lambda: asker.engine.table_delete(name, entries[0].handle),
        lambda: asker.engine.table_modify(name, entries[0].handle, asker.action("answer"), [0]),
        lambda: asker.engine.table_default(name, asker.action("answer"), [0]),
    ):
        with pytest.raises(EngineError) as caught:
            change()
        assert caught.value.kind == "constant"
    asker.engine.table_clear(name)
    assert len(asker.engine.table_entries(name)) == 4


def test_an_entry_can_be_modified_and_deleted(asker: Asker) -> None:
    name = asker.name("exact_t")
    handle = asker.add("exact_t", [("exact", 1), ("exact", 2)], 10)
    asker.engine.table_modify(name, handle, asker.action("answer"), [11])
    assert asker.ask("exact_t", a=1, b=2).result == 11
    entry = asker.engine.table_find(name, [("exact", 1), ("exact", 2)])
    assert entry is not None and (entry.args, entry.handle) == ((11,), handle)
    asker.engine.table_delete(name, handle)
    assert asker.ask("exact_t", a=1, b=2).hit is False
    with pytest.raises(EngineError) as caught:
        asker.engine.table_delete(name, handle)
    assert caught.value.kind == "not_found"


def test_a_table_takes_as_many_entries_as_its_size(asker: Asker) -> None:
    for i in range(16):
        asker.add("signed_t", [("exact", i)], i)
    with pytest.raises(EngineError) as caught:
        asker.add("signed_t", [("exact", 200)], 1)
    assert caught.value.kind == "full"
    asker.engine.table_clear(asker.name("signed_t"))
    asker.add("signed_t", [("exact", 200)], 1)


@pytest.mark.parametrize(
    ("table", "key", "args", "text"),
    [
        ("exact_t", [("exact", 1)], [1], "has 2 key fields, 1 were given"),
        ("exact_t", [("exact", 1 << 32), ("exact", 0)], [1], "does not fit 32 bits"),
        ("exact_t", [("exact", 1), ("ternary", 0, 0)], [1], "is matched by exact, not ternary"),
        ("lpm_t", [("exact", 1), ("lpm", 0, 33)], [1], "prefix length 33 is not in 0..32"),
        ("range_t", [("range", 5, 4), ("ternary", 0, 0), ("range", 0, 1)], [1], "the range 5..4 is empty"),
        ("exact_t", [("exact", 1), ("exact", 0)], [1, 2], "takes 1 arguments, 2 were given"),
        ("exact_t", [("exact", 1), ("exact", 0)], [1 << 32], "does not fit 32 bits"),
        ("profile_t", [("exact", 1)], [1], "refer to members or groups"),
    ],
)
def test_a_wrong_entry_gets_a_sentence(
    asker: Asker, table: str, key: Any, args: list[int], text: str
) -> None:
    with pytest.raises(EngineError, match=text):
        asker.engine.table_add(asker.name(table), key, asker.action("answer"), args)


def test_unknown_names_get_a_sentence(asker: Asker) -> None:
    with pytest.raises(EngineError, match="there is no table 'nowhere'"):
        asker.engine.table_add("nowhere", [], "x", [])
    with pytest.raises(EngineError, match="has no action 'nothing'"):
        asker.engine.table_add(asker.name("exact_t"), [("exact", 1), ("exact", 0)], "nothing", [])


# ---- direct counters and meters ----


def test_a_direct_counter_counts_hits_and_ingress_bytes(asker: Asker) -> None:
    name = asker.name("counted_t")
    handle = asker.engine.table_add(name, [("exact", 3)], asker.action("counted"), [1])
    for a in (3, 3, 4, 3):
        asker.ask("counted_t", a=a)
    assert asker.engine.entry_counter(name, handle) == (3, 3 * BITS // 8)
    asker.engine.entry_counter_set(name, handle, 100, 7)
    asker.ask("counted_t", a=3)
    assert asker.engine.entry_counter(name, handle) == (101, 7 + BITS // 8)


def test_a_direct_meter_colours_by_its_entry(asker: Asker) -> None:
    name, size = asker.name("metered_t"), BITS // 8
    handle = asker.engine.table_add(name, [("exact", 3)], asker.action("metered"), [1])
    assert asker.ask("metered_t", a=3).colour == 0
    asker.engine.entry_meter_set(name, handle, (1, size, 1, 2 * size))
    assert [asker.ask("metered_t", a=3).colour for _ in range(3)] == [0, 1, 2]
    asker.engine.entry_meter_set(name, handle, None)
    assert asker.ask("metered_t", a=3).colour == 0


# ---- action profiles ----


def test_entries_share_a_member_of_an_action_profile(asker: Asker) -> None:
    e, table = asker.engine, asker.name("profile_t")
    (profile,) = [p for p in e.program.profiles if p.endswith("profile")]
    member = e.member_add(profile, asker.action("answer"), [5])
    handles = [e.table_add_indirect(table, [("exact", a)], member=member) for a in (1, 2)]
    assert [asker.ask("profile_t", a=a).result for a in (1, 2, 3)] == [5, 5, 0]
    e.member_modify(profile, member, asker.action("answer"), [6])
    assert [asker.ask("profile_t", a=a).result for a in (1, 2)] == [6, 6]
    with pytest.raises(EngineError) as caught:
        e.member_delete(profile, member)
    assert caught.value.kind == "in_use"
    for handle in handles:
        e.table_delete(table, handle)
    e.member_delete(profile, member)


def test_a_group_spreads_by_hash_and_skips_inactive_members(asker: Asker) -> None:
    e, table = asker.engine, asker.name("selector_t")
    (profile,) = [p for p in e.program.profiles if p.endswith("selector")]
    members = [e.member_add(profile, asker.action("answer"), [v]) for v in (1, 2, 3)]
    group = e.group_add(profile, [(m, 1, True) for m in members])
    e.table_add_indirect(table, [("exact", 1)], group=group)

    def spread() -> dict[int, int]:
        counts: dict[int, int] = {}
        for b in range(0, 65_536, 211):
            result = asker.ask("selector_t", a=1, b=b).result
            counts[result] = counts.get(result, 0) + 1
        return counts

    first = {b: asker.ask("selector_t", a=1, b=b).result for b in range(0, 65_536, 211)}
    assert {
        b: asker.ask("selector_t", a=1, b=b).result for b in range(0, 65_536, 211)
    } == first  # a flow stays where it is
    assert set(spread()) == {1, 2, 3} and min(spread().values()) > 60
    e.group_set(profile, group, [(members[0], 1, True), (members[1], 1, False), (members[2], 3, True)])
    weighted = spread()
    assert set(weighted) == {1, 3} and weighted[3] > 2 * weighted[1]


def test_the_selector_is_crc16_modulo_the_number_of_members(asker: Asker) -> None:
    e, table = asker.engine, asker.name("selector_t")
    (profile,) = [p for p in e.program.profiles if p.endswith("selector")]
    members = [e.member_add(profile, asker.action("answer"), [v]) for v in range(7)]
    e.table_add_indirect(table, [("exact", 1)], group=e.group_add(profile, [(m, 1, True) for m in members]))

    def crc16_arc(data: bytes) -> int:
        crc = 0
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
        return crc

    assert crc16_arc(b"123456789") == 0xBB3D  # the catalogue's check value
    for b in range(0, 65536, 997):
        assert asker.ask("selector_t", a=1, b=b).result == crc16_arc(b.to_bytes(2, "big")) % 7


def test_an_empty_group_runs_the_default(asker: Asker) -> None:
    e, table = asker.engine, asker.name("selector_t")
    (profile,) = [p for p in e.program.profiles if p.endswith("selector")]
    group = e.group_add(profile)
    handle = e.table_add_indirect(table, [("exact", 1)], group=group)
    got = asker.ask("selector_t", a=1)
    assert (got.hit, got.result) == (True, 0)
    with pytest.raises(EngineError) as caught:
        e.group_delete(profile, group)
    assert caught.value.kind == "in_use"
    e.table_delete(table, handle)
    e.group_delete(profile, group)


def test_members_and_groups_that_do_not_exist_are_refused(asker: Asker) -> None:
    e = asker.engine
    (profile,) = [p for p in e.program.profiles if p.endswith("selector")]
    attempts: list[Callable[[], object]] = [
        lambda: e.table_add_indirect(asker.name("selector_t"), [("exact", 1)], group=5),
        lambda: e.table_add_indirect(asker.name("selector_t"), [("exact", 1)], member=5),
        lambda: e.group_add(profile, [(77, 1, True)]),
        lambda: e.member_modify(profile, 9, asker.action("answer"), [1]),
    ]
    for attempt in attempts:
        with pytest.raises(EngineError) as caught:
            attempt()
        assert caught.value.kind == "not_found"


# ---- ageing ----


def test_an_entry_that_is_not_hit_is_reported_once_per_timeout(asker: Asker) -> None:
    e, table = asker.engine, asker.name("ageing_t")
    handle = asker.add("ageing_t", [("exact", 1)], 1)
    e.poll(0)
    e.entry_timeout(table, handle, 10_000_000)
    assert e.next_deadline() == 10_000_000
    e.poll(9_999_999)
    assert e.take_idle_events() == []
    e.poll(10_000_000)
    ((event),) = e.take_idle_events()
    assert (event.table, event.handle, event.time) == (table, handle, 10_000_000)
    asker.now = 15_000_000
    asker.ask("ageing_t", a=1)  # a hit starts it again
    assert e.entry_idle(table, handle) == 0
    e.poll(20_000_000)
    assert e.take_idle_events() == []
    e.poll(25_000_000)
    assert len(e.take_idle_events()) == 1
    e.entry_timeout(table, handle, 0)
    e.poll(10**9)
    assert e.take_idle_events() == [] and e.next_deadline() is None


# ---- size ----


def test_large_tables_stay_fast(asker: Asker) -> None:
    """4,096 prefixes and 4,096 exact entries: a lookup costs about what it costs in a table of one."""

    def cost(table: str, **fields: int) -> float:
        data = frame(TABLES.index(table), **fields)
        start = time.process_time()
        for _ in range(3_000):
            asker.engine.rx(1, data, 0)
            asker.engine.poll(0)
        return time.process_time() - start

    asker.add("exact_t", [("exact", 1), ("exact", 1)], 1)
    small = cost("exact_t", a=1, b=1)
    for i in range(2, 4_097):
        asker.add("exact_t", [("exact", i), ("exact", 1)], i)
        asker.add("lpm_t", [("exact", i % 7), ("lpm", i << 12 & 0xFFFFFFFF, 20)], i)
    assert cost("exact_t", a=4_000, b=1) < 5 * small
    assert cost("lpm_t", a=4_000 << 12, b=4_000 % 7) < 5 * small


def test_a_mask_of_the_key_is_laid_over_entries_too() -> None:
    """p4c writes `key = { a & 5: exact }` as a key with a mask; BMv2 masks packets and entries by it."""
    json_path, p4info = compiled("tables")
    document = json.loads(json_path.read_text())
    (table,) = [t for p in document["pipelines"] for t in p["tables"] if t["name"].endswith("counted_t")]
    table["key"][0]["mask"] = "0x00000005"
    with Engine(Program.from_text(json.dumps(document), p4info.read_text())) as engine:
        asker = Asker(engine)
        name, action = asker.name("counted_t"), asker.action("counted")
        engine.table_add(name, [("exact", 2)], action, [100])
        engine.table_add(name, [("exact", 0xFF)], action, [105])
        with pytest.raises(EngineError) as refused:
            engine.table_add(name, [("exact", 0)], action, [1])
        assert refused.value.kind == "exists"
        seen = [asker.ask("counted_t", a=a).result for a in (0, 2, 5, 7, 0xFA, 1)]
    assert seen == [100, 100, 105, 105, 100, 0]
