"""The controller's data: fixed-point numbers, group numbers, counter cells, the order of updates."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import finsy as fy
import pytest
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from controller import device as controller_device
from controller.counters import cells
from controller.fixedpoint import FRACTION_BITS, FixedPointError, byte_ticks, pause_ticks, red_slope
from controller.intent import SwitchIntent
from controller.queues import required_timer_hz
from controller.reconcile import key_of, updates
from controller.routing import group_ids
from tests.fabric.native import Built
from tests.fabric.plans import LOSSLESS, star
from topologies.plan import ClassPolicy

RATES = st.integers(1_000_000, 800 * 10**9)
CLOCKS = st.sampled_from([10**6, 10**9])


@given(rate=RATES, clock=CLOCKS, quanta=st.integers(1, 0xFFFF))
def test_a_pause_is_its_quanta_rounded_up_to_a_tick(rate: int, clock: int, quanta: int) -> None:
    program = (quanta * pause_ticks(rate, clock) + (1 << FRACTION_BITS) - 1) >> FRACTION_BITS
    exact = Fraction(quanta * 512 * clock, rate)
    assert -(-exact.numerator // exact.denominator) - program in (0, 1)
    if exact.denominator == 1 and quanta < 100:
        assert program == exact


@pytest.mark.parametrize(
    ("rate", "clock", "ticks"), [(10**9, 10**9, 512), (10**7, 10**6, 51.2), (100 * 10**9, 10**9, 5.12)]
)
def test_a_quantum_is_512_bit_times(rate: int, clock: int, ticks: float) -> None:
    assert pause_ticks(rate, clock) == int(Fraction(str(ticks)) * (1 << FRACTION_BITS))
    assert byte_ticks(rate, clock) == pause_ticks(rate, clock) // 64


def test_a_link_too_slow_for_the_clock_is_refused() -> None:
    with pytest.raises(FixedPointError, match="too slow"):
        pause_ticks(10_000, 10**9)


@given(kmin=st.integers(0, 10**6), span=st.integers(1, 10**7), pmax=st.floats(0.001, 1.0))
def test_the_slope_gives_pmax_at_kmax(kmin: int, span: int, pmax: float) -> None:
    policy = ClassPolicy(False, ecn_kmin_bytes=kmin, ecn_kmax_bytes=kmin + span, ecn_pmax=pmax)
    at_kmax = (span * red_slope(policy) >> 8) / 2**32
    assert at_kmax <= pmax and pmax - at_kmax < max(1e-3 * pmax, 2e-5)


def test_required_timer_rate_visits_each_port_four_times_a_pause() -> None:
    plan = star(4, rate_bps=100 * 10**9, classes={3: replace(LOSSLESS, pause_quanta=0xFFFF)})
    pause_s = 0xFFFF * 5.12e-9
    assert required_timer_hz(plan, plan.switches[0]) == pytest.approx(4 * 4 / pause_s)
    lossy = star(4, classes={0: ClassPolicy(lossless=False)})
    assert required_timer_hz(lossy, lossy.switches[0]) == 0.0


def intent(**groups: tuple[int, ...]) -> SwitchIntent:
    plan = star(8, groups={f"10.{100 + i}.0.0/16": ports for i, ports in enumerate(groups.values())})
    return SwitchIntent.of_plan(plan, plan.switches[0], 10**6)


def test_a_groups_number_does_not_depend_on_other_groups() -> None:
    alone = group_ids(intent(a=(2, 3)))
    together = group_ids(intent(a=(2, 3), b=(2, 4), c=(5, 6, 7), d=(2, 3)))
    assert len(together) == 3 and len(set(together.values())) == 3
    assert together[2, 3] == alone[2, 3]
    assert all(0 < number < 1 << 16 for number in together.values())


def test_cells_are_distinct_and_within_their_counters(built: Built) -> None:
    schema = built.schema()
    found = list(cells(intent(a=(2, 3))))
    assert len({(cell.counter, cell.cell) for cell in found}) == len(found)
    assert len({(cell.name, cell.port, cell.cls, cell.drop) for cell in found}) == len(found)
    assert all(0 <= cell.cell < schema.counters[cell.counter].size for cell in found)


def encoded(built: Built, value: SwitchIntent) -> list[p4r.Entity]:
    return fy.p4entity.encode_entities(controller_device.entities(value), built.schema())


def test_nothing_is_written_where_nothing_changed(built: Built) -> None:
    entities = encoded(built, intent(a=(2, 3)))
    assert updates(entities, entities) == []


def test_leading_zeros_are_no_difference(built: Built) -> None:
    entities = encoded(built, intent(a=(2, 3)))
    padded = [p4r.Entity.FromString(entity.SerializeToString()) for entity in entities]
    for entity in padded:
        for field in entity.table_entry.match:
            if field.HasField("exact"):
                field.exact.value = b"\0\0" + field.exact.value
        for param in entity.table_entry.action.action.params:
            param.value = b"\0" + param.value
    assert updates(padded, entities) == []


def test_references_are_made_before_their_users_and_removed_after_them(built: Built) -> None:
    nothing: list[p4r.Entity] = []
    full = encoded(built, intent(a=(2, 3), b=(4, 5)))
    order = {"member": 0, "group": 1, "entry": 2, "default": 3, "clone": 4}

    def kinds(batch: list[p4r.Update]) -> list[int]:
        return [order[str(key_of(update.entity)[0])] for update in batch]

    made = updates(nothing, full)
    assert kinds(made) == sorted(kinds(made))
    removed = updates(full, nothing)
    assert {update.type for update in removed} == {p4r.Update.DELETE}
    assert kinds(removed) == sorted(kinds(removed), reverse=True)


def test_a_changed_route_touches_that_route_and_its_group_only(built: Built) -> None:
    before = intent(a=(2, 3), b=(4, 5))
    after = replace(before, routes={**before.routes, "10.101.0.0/16": (4, 5, 6)})
    changed = updates(encoded(built, before), encoded(built, after))
    schema = built.schema()
    told = [
        (p4r.Update.Type.Name(u.type), schema.tables[u.entity.table_entry.table_id].alias)
        for u in changed
        if u.entity.HasField("table_entry")
    ]
    assert sorted(told) == [
        ("DELETE", "adaptive_group"),
        ("DELETE", "next_hop_group"),
        ("INSERT", "adaptive_group"),
        ("INSERT", "next_hop_group"),
        ("MODIFY", "ipv4_lpm"),
    ]


def test_two_values_for_one_key_are_refused(built: Built) -> None:
    entities = encoded(built, intent(a=(2, 3)))
    with pytest.raises(ValueError, match="two different values"):
        updates([], [*entities, entities[0]])
