"""What a refused batch takes back: dictionaries, attributes, numbers that were handed out."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switch.native.binding import Engine, EngineError
from switch.native.journal import Journal, Numbers
from switch.native.program import Program

STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "remove", "put", "take", "claim", "give"]), st.integers(0, 9)),
    max_size=40,
)


class World:
    """Something of each kind that is changed through a journal."""

    def __init__(self, before):
        self.journal = Journal()
        self.mapping = {}
        self.owner = SimpleNamespace(value=0)
        self.numbers = Numbers(self.journal)
        self.held = set()
        for step in before:
            self.do(*step)

    def do(self, what, number):
        if what == "set":
            self.journal.set(self.mapping, number, object())
        elif what == "remove" and number in self.mapping:
            self.journal.remove(self.mapping, number)
        elif what == "put":
            self.journal.put(self.owner, "value", number)
        elif what == "take":
            self.held = self.held | {self.numbers.take()}
        elif what == "claim":
            free = number not in self.held
            assert self.numbers.claim(number) == free
            self.held = self.held | {number}
        elif what == "give" and number in self.held:
            self.numbers.give(number)
            self.held = self.held - {number}


@given(STEPS)
def test_numbers_are_the_lowest_that_are_free(steps):
    world = World(steps)
    for _ in range(12):
        lowest = next(n for n in range(100) if n not in world.held)
        assert world.numbers.take() == lowest
        world.held = world.held | {lowest}


@given(STEPS, STEPS)
def test_what_was_done_while_the_journal_was_open_is_taken_back(before, inside):
    world, untouched = World(before), World(before)
    mapping, value, held = dict(world.mapping), world.owner.value, world.held
    world.journal.open()
    for step in inside:
        world.do(*step)
    world.journal.take_back()
    assert world.mapping == mapping
    assert world.owner.value == value
    assert [world.numbers.take() for _ in range(12)] == [untouched.numbers.take() for _ in range(12)]
    assert held == untouched.held


@given(STEPS, STEPS)
def test_what_is_kept_is_as_if_there_were_no_journal(before, inside):
    world, plain = World(before), World([*before, *inside])
    world.journal.open()
    for step in inside:
        world.do(*step)
    world.journal.keep()
    assert world.mapping.keys() == plain.mapping.keys()
    assert world.held == plain.held
    assert [world.numbers.take() for _ in range(12)] == [plain.numbers.take() for _ in range(12)]


@pytest.fixture
def engine():
    from p4programs import compiled

    json, p4info = compiled("entities")
    with Engine(Program.from_text(json.read_text(), p4info.read_text())) as engine:
        yield engine


FORWARDING, HOPS = "EntitiesIngress.forwarding", "EntitiesIngress.next_hops"
ROUTES, FORWARD, MARK = (
    "EntitiesIngress.routes",
    "EntitiesIngress.forward_counted",
    "EntitiesIngress.mark",
)


def test_a_batch_that_fails_leaves_the_engine_and_what_is_known_of_it_as_they_were(engine):
    kept = engine.table_add(FORWARDING, [("exact", 1)], FORWARD, [1])
    member = engine.member_add(HOPS, MARK, [1, 2])
    with pytest.raises(EngineError, match="exists already"), engine.batch():
        engine.table_delete(FORWARDING, kept)
        assert engine.table_add(FORWARDING, [("exact", 2)], FORWARD, [2]) == kept, "handles are used again"
        with engine.batch():
            group = engine.group_add(HOPS, [(member, 1, True)])
            engine.table_add_indirect(ROUTES, [("lpm", 0, 0)], group=group)
        assert engine.group_users(HOPS, group) == 1
        engine.table_add(FORWARDING, [("exact", 2)], FORWARD, [3])
    assert [entry.key for entry in engine.table_entries(FORWARDING)] == [(("exact", 1),)]
    assert engine.table_entries(ROUTES) == []
    assert engine.groups(HOPS) == {}
    assert engine.table_stats(FORWARDING)["entries"] == 1
    assert engine.entry_counter(FORWARDING, kept) == (0, 0)
    engine.member_delete(HOPS, member)
    assert engine.table_add(FORWARDING, [("exact", 2)], FORWARD, [2]) == kept + 1


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("not_found", lambda e: e.table_delete(FORWARDING, 7)),
        ("constant", lambda e: e.table_delete("EntitiesIngress.fixed", 0)),
        ("constant", lambda e: e.table_default("EntitiesIngress.fixed", MARK, [1, 1])),
        ("not_found", lambda e: e.table_add_indirect(ROUTES, [("lpm", 0, 0)], member=3)),
        ("not_found", lambda e: e.group_add(HOPS, [(3, 1, True)])),
        ("not_found", lambda e: e.group_set(HOPS, 3, [])),
        ("invalid", lambda e: e.entry_meter_set(FORWARDING, 0, None)),
        ("not_found", lambda e: e.entry_timeout(FORWARDING, 0, 5)),
        ("invalid", lambda e: e.meter_set("EntitiesIngress.limits", 4, None)),
        ("invalid", lambda e: e.meter_set("EntitiesIngress.limits", 0, (1, 1, 10**13 + 1, 1))),
        ("invalid", lambda e: e.counter_write("EntitiesIngress.cells", 8, 0, 0)),
        ("invalid", lambda e: e.clone_session_set(1 << 15, 1)),
        ("invalid", lambda e: e.clone_session_set(1, 1, cls=8)),
        ("full", lambda e: e.value_set_set("EntitiesParser.field_types", [[("exact", n)] for n in range(5)])),
        ("full", lambda e: [e.table_add(FORWARDING, [("exact", n)], FORWARD, [n]) for n in range(17)]),
    ],
)  # fmt: skip
def test_what_the_engine_would_refuse_is_refused_before_it_joins_a_batch(engine, kind, call):
    """So the engine applies a batch whole: it never meets a refusal half-way."""
    with pytest.raises(EngineError) as refused, engine.batch():
        engine.register_write("EntitiesIngress.stored", 0, 9)
        call(engine)
        engine._apply = None  # not reached
    assert refused.value.kind == kind
    assert engine.register_read("EntitiesIngress.stored", 0) == 0
