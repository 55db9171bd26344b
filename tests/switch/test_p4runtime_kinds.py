"""Value sets with every kind of match, and tables that the program fills (P4Runtime, "Preinitialized tables")."""

import pytest
from finsy.proto import p4r, rpc_code
from p4runtime_harness import config_of, exact, programmed, range_, status, ternary

ACTION = p4r.SetForwardingPipelineConfigRequest


@pytest.fixture
def client(served):
    with programmed(served, "kinds") as client:
        yield client


def ask(served, low=0, wide=0, tail=0):
    """(whether the parser knew it, what the tables answered)."""
    frame = low.to_bytes(2, "big") + wide.to_bytes(9, "big") + bytes([tail, 0, 0])
    ((_, out),) = served.exchange(1, frame)
    return out[12], out[13]


# ---- value sets ----
def value_set(client, *members):
    entry = p4r.ValueSetEntry(value_set_id=client.id("members"))
    for member in members:
        entry.members.add().match.extend(member)
    return entry


EDGE = 1 << 64
"""In the second of the two words that a 72-bit number takes."""


def test_ranges_of_a_value_set_hold_their_ends_in_fields_of_any_width(served, client):
    written = value_set(
        client,
        [range_(1, 5, 300), range_(2, EDGE - 1, EDGE + 1), ternary(3, 0x10, 0xF0)],
        [range_(1, 1000, 1000)],
    )
    client.modify(value_set_entry=written)
    assert client.read(value_set_entry=p4r.ValueSetEntry()) == [written]
    for low, wide, tail, known in [
        (5, EDGE, 0x1F, 1),
        (300, EDGE - 1, 0x10, 1),
        (4, EDGE, 0x10, 0),
        (301, EDGE, 0x10, 0),
        (5, EDGE - 2, 0x10, 0),
        (5, EDGE + 1, 0x10, 1),
        (5, EDGE + 2, 0x10, 0),
        (5, EDGE, 0x20, 0),
        (1000, 0, 0xFF, 1),  # fields that are left out match anything
        (999, 0, 0xFF, 0),
    ]:
        assert ask(served, low, wide, tail)[0] == known, (low, wide, tail)


def test_members_of_a_value_set_are_checked_as_table_keys_are(served, client):
    client.modify(value_set_entry=value_set(client, [range_(1, 1, 2)]))
    for member, code in [
        ([range_(1, 2, 1)], rpc_code.INVALID_ARGUMENT),
        ([range_(1, 0, 0xFFFF)], rpc_code.INVALID_ARGUMENT),
        ([range_(1, 0, 0x10000)], rpc_code.OUT_OF_RANGE),
        ([exact(1, 1)], rpc_code.INVALID_ARGUMENT),
        ([range_(9, 1, 2)], rpc_code.INVALID_ARGUMENT),
    ]:
        with status() as refused:
            client.modify(value_set_entry=value_set(client, member))
        assert refused.codes == [code]
    with status() as refused:
        client.modify(value_set_entry=value_set(client, [range_(1, 1, 2)], [range_(1, 1, 2)]))
    assert refused.codes == [rpc_code.ALREADY_EXISTS]
    assert ask(served, low=2)[0] == 1, "what was there before is there still"


# ---- tables that begin with entries ----
def begun(client, value=None, mask=0xF, answer=None, priority=0):
    match = [] if value is None else [ternary(1, value, mask)]
    action = None if answer is None else client.action("answer", answer)
    return client.entry("begun", match, action, priority=priority)


def test_the_programs_entries_are_read_with_falling_priorities(client):
    """P4Runtime, "Constant Tables": p4c gives N entries the priorities N to 1."""
    assert client.read(table_entry=client.entry("begun")) == [
        begun(client, 1, answer=11, priority=3),
        begun(client, 2, answer=12, priority=2),
        begun(client, answer=13, priority=1),
    ]
    (fixed,) = client.read(table_entry=client.entry("fixed"))
    assert fixed.is_const


def test_entries_that_are_not_const_are_a_clients_to_change(served, client):
    assert [ask(served, tail=n)[1] for n in (1, 2, 3)] == [11, 12, 13]
    client.modify(table_entry=begun(client, 1, answer=21, priority=3))
    client.delete(table_entry=begun(client, 2, priority=2))
    client.insert(table_entry=begun(client, 3, answer=33, priority=9))
    assert [ask(served, tail=n)[1] for n in (1, 2, 3)] == [21, 13, 33]
    with status() as refused:
        client.insert(table_entry=begun(client, 1, answer=1, priority=3))
    assert refused.codes == [rpc_code.ALREADY_EXISTS]


def test_entries_of_a_const_table_are_not(served, client):
    for write, entry in [
        (client.insert, client.entry("fixed", [exact(1, 8)], client.action("answer", 1))),
        (client.modify, client.entry("fixed", [exact(1, 7)], client.action("answer", 77))),
        (client.delete, client.entry("fixed", [exact(1, 7)])),
    ]:
        with status() as refused:
            write(table_entry=entry)
        assert refused.codes == [rpc_code.PERMISSION_DENIED]
    assert ask(served, low=7, tail=3)[1] == 77


def test_a_reconciled_program_has_the_entries_that_the_client_left(served, client):
    client.delete(table_entry=begun(client, 2, priority=2))
    client.modify(table_entry=begun(client, 1, answer=21, priority=3))
    before = client.read(table_entry=p4r.TableEntry())
    config = config_of("kinds")
    config.p4_device_config += b"\n"  # other bytes, so it is another program
    client.set_config(config, ACTION.RECONCILE_AND_COMMIT)
    assert client.read(table_entry=p4r.TableEntry()) == before
    assert [ask(served, tail=n)[1] for n in (1, 2, 3)] == [21, 13, 13]
    client.set_config(config, ACTION.VERIFY_AND_COMMIT)
    assert [ask(served, tail=n)[1] for n in (1, 2, 3)] == [11, 12, 13]


# ---- reading by parts of the key ----
def test_a_read_by_match_without_priority_finds_every_priority(client):
    """P4Runtime, "Wildcard Reads": with the default, priorities are not considered."""
    client.insert(table_entry=begun(client, 1, answer=99, priority=50))
    read = client.read(table_entry=begun(client, 1))
    assert [(e.priority, e.action.action.params[0].value) for e in read] == [(3, b"\x0b"), (50, b"\x63")]
    assert [e.priority for e in client.read(table_entry=begun(client, 1, priority=50))] == [50]
    assert client.read(table_entry=begun(client, 1, priority=4)) == []
