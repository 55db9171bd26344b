"""Action selectors: which member a hash picks, ids of any size, watched ports, sets in one shot."""

import pytest
from finsy.proto import p4r, rpc_code
from p4runtime_harness import config_of, data, lpm, programmed, status

FLOWS = 48


@pytest.fixture
def client(served):
    with programmed(served, "entities") as client:
        yield client


def member(client, member_id, mark):
    """A member whose flows are marked and leave by port 1."""
    return p4r.ActionProfileMember(
        action_profile_id=client.id("next_hops"), member_id=member_id, action=client.action("mark", 1, mark)
    )


def group(client, group_id, weights, watch=None):
    made = p4r.ActionProfileGroup(action_profile_id=client.id("next_hops"), group_id=group_id)
    for member_id, weight in weights.items():
        out = made.members.add(member_id=member_id, weight=weight)
        if watch and member_id in watch:
            out.watch_port = data(watch[member_id])
    return made


def point_at(client, action):
    client.insert(table_entry=client.entry("routes", [lpm(1, 0x0A000000, 8)], action))


def marks(served):
    """The mark that each flow gets."""
    found = []
    for number in range(FLOWS):
        frame = bytes(12) + b"\x10\x00" + bytes([10, 0, 0, 1]) + number.to_bytes(2, "big") + b"\0\0"
        ((_, out),) = served.exchange(1, frame)
        found.append(out[21])
    return found


def slots(served, client, count):
    """Which of `count` slots each flow's hash picks, told by a group of as many members with weight 1."""
    for n in range(count):
        client.insert(action_profile_member=member(client, n + 1, n))
    client.insert(action_profile_group=group(client, 1, dict.fromkeys(range(1, count + 1), 1)))
    point_at(client, p4r.TableAction(action_profile_group_id=1))
    picked = marks(served)
    assert set(picked) == set(range(count))
    client.set_config(config_of("entities"))
    return picked


def test_weights_are_copies_numbered_as_simple_switch_grpc_numbers_them(served, client):
    """Members 5, 1 and 3 are numbered 0, 1, 2. A group 5:2 1:1 3:3 makes copies in the order of ids: of 3 (numbers 3
    and 4), then of 5 (number 5). So the slots are 5 1 3 3 3 5."""
    picked = slots(served, client, 6)
    for member_id in (5, 1, 3):
        client.insert(action_profile_member=member(client, member_id, member_id))
    client.insert(action_profile_group=group(client, 9, {5: 2, 1: 1, 3: 3}))
    point_at(client, p4r.TableAction(action_profile_group_id=9))
    assert marks(served) == [(5, 1, 3, 3, 3, 5)[slot] for slot in picked]


def test_copies_that_no_group_needs_give_their_numbers_back(served, client):
    """Members 1 and 2 are 0 and 1, copies of 1 are 2 and 3. When the group's weights change to 1:1 2:3, copies of 2 are
    made first (4 and 5), then those of 1 go; a new member 3 is number 2. Slots of 1:1 2:3 3:1: 1 2 3 2 2."""
    picked = slots(served, client, 5)
    for member_id in (1, 2):
        client.insert(action_profile_member=member(client, member_id, member_id))
    client.insert(action_profile_group=group(client, 9, {1: 3, 2: 1}))
    point_at(client, p4r.TableAction(action_profile_group_id=9))
    client.modify(action_profile_group=group(client, 9, {1: 1, 2: 3}))
    client.insert(action_profile_member=member(client, 3, 3))
    client.modify(action_profile_group=group(client, 9, {1: 1, 2: 3, 3: 1}))
    assert marks(served) == [(1, 2, 3, 2, 2)[slot] for slot in picked]


def test_copies_are_shared_by_groups_and_last_as_long_as_one_needs_them(served, client):
    picked = slots(served, client, 4)
    for member_id in (1, 2):
        client.insert(action_profile_member=member(client, member_id, member_id))
    client.insert(action_profile_group=group(client, 8, {1: 3}))
    client.insert(action_profile_group=group(client, 9, {1: 2, 2: 2}))  # copies 2 (of 1) and 4 (of 2)
    point_at(client, p4r.TableAction(action_profile_group_id=9))
    client.delete(action_profile_group=group(client, 8, {}))
    assert marks(served) == [(1, 2, 1, 2)[slot] for slot in picked]


def test_a_one_shot_set_is_numbered_in_the_order_of_its_actions(served, client):
    picked = slots(served, client, 4)
    action = p4r.TableAction()
    for mark, weight in ((7, 1), (8, 2), (9, 1)):
        item = action.action_profile_action_set.action_profile_actions.add(weight=weight)
        item.action.CopyFrom(client.action("mark", 1, mark))
    point_at(client, action)
    assert marks(served) == [(7, 8, 8, 9)[slot] for slot in picked]


def test_ids_of_members_and_groups_are_any_32_bit_numbers(served, client):
    high = 0xFFFFFFFF
    made = member(client, high, 0x5A)
    client.insert(action_profile_member=made)
    client.insert(action_profile_group=group(client, high, {high: 1}))
    point_at(client, p4r.TableAction(action_profile_group_id=high))
    assert set(marks(served)) == {0x5A}
    query = p4r.ActionProfileMember(action_profile_id=made.action_profile_id, member_id=high)
    assert client.read(action_profile_member=query) == [made]
    assert client.read(action_profile_group=p4r.ActionProfileGroup()) == [group(client, high, {high: 1})]


def test_the_same_id_names_a_member_and_a_group(served, client):
    client.insert(action_profile_member=member(client, 5, 1))
    client.insert(action_profile_member=member(client, 6, 2))
    client.insert(action_profile_group=group(client, 5, {6: 1}))
    point_at(client, p4r.TableAction(action_profile_group_id=5))
    assert set(marks(served)) == {2}
    client.modify(
        table_entry=client.entry(
            "routes", [lpm(1, 0x0A000000, 8)], p4r.TableAction(action_profile_member_id=5)
        )
    )
    assert set(marks(served)) == {1}


def test_an_empty_watch_port_watches_nothing_and_an_unknown_one_is_refused(served, client):
    client.insert(action_profile_member=member(client, 1, 1))
    client.insert(action_profile_group=group(client, 9, {1: 1}, watch={1: b""}))
    point_at(client, p4r.TableAction(action_profile_group_id=9))
    assert set(marks(served)) == {1}
    with status() as refused:
        client.modify(action_profile_group=group(client, 9, {1: 1}, watch={1: 77}))
    assert refused.codes == [rpc_code.INVALID_ARGUMENT]


def test_reconciling_keeps_which_member_each_flow_has(served, client):
    for member_id in (9, 4, 7):
        client.insert(action_profile_member=member(client, member_id, member_id))
    client.insert(action_profile_group=group(client, 3, {4: 1, 7: 2, 9: 2}))
    point_at(client, p4r.TableAction(action_profile_group_id=3))
    before = marks(served)
    config = config_of("entities")
    config.p4_device_config += b"\n"
    client.set_config(config, p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT)
    assert marks(served) == before
