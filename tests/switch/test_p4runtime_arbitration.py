"""Client arbitration, by the rules of the P4Runtime specification (section of that name)."""

import pytest
from finsy.proto import p4r

from switch.native.p4runtime.arbitration import MAX_STREAMS_PER_ROLE, Arbitration
from switch.native.p4runtime.errors import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    P4RuntimeError,
)

DEVICE = 3


def update(election_id=None, device_id=DEVICE, role=None):
    message = p4r.MasterArbitrationUpdate(device_id=device_id)
    if election_id is not None:
        message.election_id.low = election_id
    if role is not None:
        message.role.name = role
    return message


def told(notifications):
    return [(client, message.status.code) for client, message in notifications]


def refused_code(arbitration, client, message):
    with pytest.raises(P4RuntimeError) as refused:
        arbitration.update(client, message)
    return refused.value.code


def test_the_highest_election_id_is_primary_and_the_others_are_told():
    arbitration = Arbitration(DEVICE)
    assert told(arbitration.update("a", update(5))) == [("a", OK)]
    assert told(arbitration.update("b", update(4))) == [("b", ALREADY_EXISTS)]
    notifications = arbitration.update("c", update(6))
    assert told(notifications) == [("a", ALREADY_EXISTS), ("b", ALREADY_EXISTS), ("c", OK)]
    assert {message.election_id.low for _, message in notifications} == {6}
    assert arbitration.primaries() == ["c"]


def test_when_the_primary_leaves_nobody_is_promoted_until_it_asks_with_an_id_as_high():
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    arbitration.update("b", update(4))
    assert told(arbitration.leave("a")) == [("b", NOT_FOUND)]
    assert arbitration.primaries() == []
    assert told(arbitration.update("b", update(4))) == [("b", NOT_FOUND)]
    assert told(arbitration.update("b", update(5))) == [("b", OK)]
    assert arbitration.leave("nobody") == []


def test_a_primary_that_lowers_its_id_steps_down_and_everybody_is_told():
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    arbitration.update("b", update(4))
    assert told(arbitration.update("a", update(3))) == [("a", NOT_FOUND), ("b", NOT_FOUND)]


def test_without_an_election_id_a_client_is_never_primary():
    arbitration = Arbitration(DEVICE)
    notifications = arbitration.update("a", update(None))
    assert told(notifications) == [("a", NOT_FOUND)]
    assert not notifications[0][1].HasField("election_id"), "there has not been any primary"
    assert told(arbitration.update("b", update(0))) == [("a", ALREADY_EXISTS), ("b", OK)]


def test_roles_are_arbitrated_apart():
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    assert told(arbitration.update("b", update(1, role="stats"))) == [("b", OK)]
    assert arbitration.primaries() == ["a", "b"]
    arbitration.check_write("stats", p4r.Uint128(low=1))
    with pytest.raises(P4RuntimeError) as refused:
        arbitration.check_write("stats", p4r.Uint128(low=5))
    assert refused.value.code == PERMISSION_DENIED


def test_streams_are_closed_with_the_codes_of_the_specification():
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    assert refused_code(arbitration, "b", update(1, device_id=4)) == NOT_FOUND
    assert refused_code(arbitration, "b", update(5)) == INVALID_ARGUMENT
    assert refused_code(arbitration, "a", update(5, device_id=4)) == FAILED_PRECONDITION
    assert refused_code(arbitration, "a", update(5, role="other")) == FAILED_PRECONDITION
    for number in range(MAX_STREAMS_PER_ROLE - 1):
        arbitration.update(number, update(None))
    assert refused_code(arbitration, "one too many", update(1)) == RESOURCE_EXHAUSTED
    assert told(arbitration.update("of another role", update(1, role="stats"))) == [("of another role", OK)]
    arbitration.leave(0)
    assert told(arbitration.update("one too many", update(1))) == [("one too many", ALREADY_EXISTS)]


def test_a_role_with_a_configuration_is_refused_since_none_was_agreed_upon():
    arbitration = Arbitration(DEVICE)
    with_config = update(5, role="stats")
    with_config.role.config.Pack(p4r.Uint128(low=1))
    assert refused_code(arbitration, "a", with_config) == INVALID_ARGUMENT
    arbitration.update("a", update(5, role="stats"))
    assert refused_code(arbitration, "a", with_config) == INVALID_ARGUMENT


def test_a_primary_that_introduces_itself_again_is_told_and_so_are_the_others():
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    arbitration.update("b", update(4))
    assert told(arbitration.update("a", update(5))) == [("b", ALREADY_EXISTS), ("a", OK)]


def test_a_backup_may_take_the_id_of_a_primary_that_is_gone_and_not_of_one_that_lives():
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    arbitration.update("b", update(4))
    assert refused_code(arbitration, "b", update(5)) == INVALID_ARGUMENT
    arbitration.leave("a")
    assert told(arbitration.update("c", update(5))) == [("b", ALREADY_EXISTS), ("c", OK)]
    with pytest.raises(P4RuntimeError) as refused:
        arbitration.check_write("", p4r.Uint128(low=4))
    assert refused.value.code == PERMISSION_DENIED


def test_the_highest_id_is_remembered_when_all_have_left():
    """P4Runtime, "Client Arbitration Update": only a full restart forgets it."""
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    arbitration.leave("a")
    ((_, message),) = arbitration.update("b", update(4))
    assert (message.status.code, message.election_id.low) == (NOT_FOUND, 5)
    assert told(arbitration.update("c", update(5, role="stats"))) == [("c", OK)], "each role has its own"


def test_an_id_that_the_client_itself_uses_may_be_used_in_another_role():
    arbitration = Arbitration(DEVICE)
    assert told(arbitration.update("a", update(5))) == [("a", OK)]
    assert told(arbitration.update("b", update(5, role="stats"))) == [("b", OK)]
    arbitration.check_write("", p4r.Uint128(low=5))
    arbitration.check_write("stats", p4r.Uint128(low=5))


def test_an_election_id_uses_all_its_128_bits():
    arbitration = Arbitration(DEVICE)
    high = p4r.MasterArbitrationUpdate(device_id=DEVICE, election_id=p4r.Uint128(high=1, low=0))
    arbitration.update("a", update(2**64 - 1))
    assert told(arbitration.update("b", high)) == [("a", ALREADY_EXISTS), ("b", OK)]


@pytest.mark.parametrize(
    ("role", "election_id", "code"),
    [
        ("", 5, None),
        ("", 4, PERMISSION_DENIED),
        ("", 6, PERMISSION_DENIED),
        ("", None, PERMISSION_DENIED),
        ("unheard of", 5, NOT_FOUND),
    ],
)
def test_only_the_primary_may_write(role, election_id, code):
    arbitration = Arbitration(DEVICE)
    arbitration.update("a", update(5))
    arbitration.update("b", update(4))
    number = None if election_id is None else p4r.Uint128(low=election_id)
    if code is None:
        arbitration.check_write(role, number)
        return
    with pytest.raises(P4RuntimeError) as refused:
        arbitration.check_write(role, number)
    assert refused.value.code == code


def test_a_device_without_controllers_takes_requests_without_an_election_id_only():
    # simple_switch_grpc does the same, and loading scripts rely on it.
    arbitration = Arbitration(DEVICE)
    arbitration.check_write("", None)
    with pytest.raises(P4RuntimeError) as refused:
        arbitration.check_write("", p4r.Uint128(low=1))
    assert refused.value.code == PERMISSION_DENIED
