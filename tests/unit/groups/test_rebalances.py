"""Members join, sync, leave and fail: the answers, and their order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.group_messages import (
    GroupProtocol,
    LeavingMember,
    SyncGroupRequest,
)
from tests.support.groups import PARTITION, GroupWorld

E = ErrorCode


# ---------------------------------------------------------------- joining


def test_a_member_without_an_id_is_sent_back_with_one(world: GroupWorld) -> None:
    (answer,) = world.wait(world.join())
    assert answer.error is E.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("c-")
    (joined,) = world.wait(world.join(answer.member_id))
    assert (joined.error, joined.member_id) == (E.NONE, answer.member_id)
    assert (joined.generation, joined.leader) == (1, answer.member_id)
    assert [each.metadata for each in joined.members] == [b"r"]


def test_an_old_client_joins_without_knowing_its_id_first(world: GroupWorld) -> None:
    (answer,) = world.wait(world.join(request_version=3))
    assert (answer.error, answer.generation) == (E.NONE, 1)


def test_the_first_rebalance_waits_for_more_members(make_world: Callable[..., GroupWorld]) -> None:
    world = make_world(initial_rebalance_delay_ms=3_000)
    first = world.join(request_version=3)
    world.pass_ms(2_000)
    second = world.join(request_version=3)
    one, other = world.wait(first, second)
    assert (one.generation, other.generation) == (1, 1)
    # The second came in the first delay, and put it off once.
    assert (first.took_ms, second.took_ms) == (6_000, 4_000)
    assert len(one.members) == 2
    assert other.members == ()


def test_it_is_put_off_no_longer_than_the_rebalance_timeout(
    make_world: Callable[..., GroupWorld],
) -> None:
    world = make_world(initial_rebalance_delay_ms=3_000)
    asked = []
    for _ in range(12):
        asked.append(world.join(request_version=3, rebalance_timeout_ms=8_000))
        world.pass_ms(1_000)
    world.wait(*asked[:8])
    assert asked[0].took_ms == 8_000


def test_a_member_that_comes_later_makes_a_new_generation(world: GroupWorld) -> None:
    (first,) = world.stable()
    (pending,) = world.wait(world.join())
    second = world.join(pending.member_id)
    assert world.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS
    assert second.answer is None
    again = world.join(first)
    one, other = world.wait(again, second)
    assert (one.generation, other.generation, one.leader) == (2, 2, first)
    assert {each.member_id for each in one.members} == {first, pending.member_id}


def test_members_that_do_not_join_again_in_time_are_left_behind(world: GroupWorld) -> None:
    first, second = world.stable(2, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    again = world.join(second, protocols=(GroupProtocol("range", b"other"),))
    (answer,) = world.wait(again)
    assert again.took_ms == 60_000, "the longest of the members' rebalance timeouts"
    assert (answer.generation, answer.leader) == (2, second)
    assert world.heartbeat(first, 1) is E.UNKNOWN_MEMBER_ID


def test_a_member_whose_answer_was_lost_gets_it_again(world: GroupWorld) -> None:
    _, follower = world.stable(2)
    (answer,) = world.wait(world.join(follower))
    assert (answer.error, answer.generation, answer.members) == (E.NONE, 1, ())


def test_the_leader_that_joins_again_makes_a_rebalance(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    asked = world.join(leader)
    assert asked.answer is None
    assert world.heartbeat(follower, 1) is E.REBALANCE_IN_PROGRESS
    assert [each.generation for each in world.wait(asked, world.join(follower))] == [2, 2]


def test_a_second_join_of_the_same_member_answers_the_first(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    first = world.join(leader)
    second = world.join(leader)
    assert world.wait(first)[0].error is E.REBALANCE_IN_PROGRESS
    assert [each.generation for each in world.wait(second, world.join(follower))] == [2, 2]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, E.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, E.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_is_refused_leaves_no_group(
    world: GroupWorld, fields: dict[str, object], error: ErrorCode
) -> None:
    (answer,) = world.wait(world.join(**fields))
    assert answer.error is error
    assert world.coordinator.groups() == ()


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocols": (GroupProtocol("sticky", b""),)}]
)
def test_who_knows_no_common_protocol_is_refused(
    world: GroupWorld, fields: dict[str, object]
) -> None:
    world.stable()
    (answer,) = world.wait(world.join(**fields))
    assert answer.error is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_nobody(make_world: Callable[..., GroupWorld]) -> None:
    world = make_world(initial_rebalance_delay_ms=100, max_size=2)
    world.stable(2)
    (answer,) = world.wait(world.join())
    assert answer.error is E.GROUP_MAX_SIZE_REACHED


def test_an_id_that_was_given_out_and_not_used_is_forgotten(world: GroupWorld) -> None:
    (pending,) = world.wait(world.join())
    world.pass_ms(10_001)
    (answer,) = world.wait(world.join(pending.member_id))
    assert answer.error is E.UNKNOWN_MEMBER_ID


def test_ids_that_are_asked_for_and_never_used_are_bounded(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater_broker.coordinator.group.MAX_PENDING_IDS", 5)
    asked = [world.join() for _ in range(6)]
    told = [each.error for each in world.wait(*asked)]
    assert told == [E.MEMBER_ID_REQUIRED] * 5 + [E.GROUP_MAX_SIZE_REACHED]
    (member,) = world.wait(world.join(asked[0].answer.member_id))
    assert member.error is E.NONE
    world.pass_ms(60_000)
    group = world.group()
    assert group is not None
    assert group.pending_ids == {}


def test_hundreds_of_groups_are_taken_over_and_given_up(world: GroupWorld) -> None:
    asked = [world.join(group_id=f"g{n}", request_version=3) for n in range(200)]
    members = world.wait(*asked)
    for number, member in enumerate(members):
        request = SyncGroupRequest(f"g{number}", 1, member.member_id)
        world.start(world.coordinator.sync(request))
    world.pass_ms(10)
    world.coordinator.resign(PARTITION)
    world.coordinator = world.make_coordinator()
    world.coordinator.take_over(PARTITION, world.log.loaded())
    listed = world.coordinator.listed(("Stable",), ()).groups
    assert len(listed) == 200
    world.pass_ms(10_001)
    assert world.coordinator.listed(("Stable",), ()).groups == ()


def test_a_rebalance_waits_for_an_id_that_was_given_out(world: GroupWorld) -> None:
    (member,) = world.stable()
    world.wait(world.join())
    asked = world.join(member, protocols=(GroupProtocol("range", b"other"),))
    world.wait(asked)
    assert 9_000 < asked.took_ms <= 10_000


# ---------------------------------------------------------------- syncing


def test_followers_are_answered_once_the_assignment_is_in_the_log(world: GroupWorld) -> None:
    ids = [world.wait(world.join())[0].member_id for _ in range(2)]
    one, other = world.wait(*[world.join(each) for each in ids])
    leader, follower = (ids[0], ids[1]) if one.leader == ids[0] else (ids[1], ids[0])
    waiting = world.sync(follower, 1)
    assert waiting.answer is None
    world.log.commit_ms = 50
    led = world.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert world.log.stored("g") is not None
    assert led.answer is None
    told = world.wait(led, waiting)
    assert [each.assignment for each in told] == [b"L", b"F"]
    assert [(each.protocol_type, each.protocol) for each in told] == [("consumer", "range")] * 2
    stored = world.log.stored("g")
    assert stored is not None
    assert {each.member_id: each.assignment for each in stored.members} == {
        leader: b"L",
        follower: b"F",
    }
    assert other.generation == stored.generation == 1


def test_a_rebalance_that_begins_while_the_log_is_written_counts(world: GroupWorld) -> None:
    (pending,) = world.wait(world.join())
    member = pending.member_id
    world.wait(world.join(member))
    world.log.commit_ms = 1_000
    led = world.sync(member, 1, {member: b"1"})
    late = world.join(request_version=3)
    assert world.wait(led)[0].error is E.REBALANCE_IN_PROGRESS
    world.pass_ms(2_000)
    one, _ = world.wait(world.join(member), late)
    assert one.generation == 2


def test_a_log_that_takes_nothing_makes_the_members_join_again(world: GroupWorld) -> None:
    (member,) = world.stable()
    world.wait(world.join(member))
    world.log.append_error = E.COORDINATOR_NOT_AVAILABLE
    (told,) = world.wait(world.sync(member, 2, {member: b"2"}))
    assert told.error is E.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(member, 2) is E.REBALANCE_IN_PROGRESS
    world.log.append_error = E.MESSAGE_TOO_LARGE
    world.wait(world.join(member))
    (told,) = world.wait(world.sync(member, 3, {member: b"3"}))
    assert told.error is E.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("member_id", "generation", "fields", "error"),
    [
        ("nobody", 1, {}, E.UNKNOWN_MEMBER_ID),
        (None, 0, {}, E.ILLEGAL_GENERATION),
        (None, 1, {"protocol": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (None, 1, {"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (None, 1, {"group_instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_is_refused(
    world: GroupWorld,
    member_id: str | None,
    generation: int,
    fields: dict[str, object],
    error: ErrorCode,
) -> None:
    (member,) = world.stable()
    (told,) = world.wait(world.sync(member_id or member, generation, **fields))
    assert told.error is error


def test_members_that_do_not_sync_are_removed(world: GroupWorld) -> None:
    ids = [world.wait(world.join())[0].member_id for _ in range(2)]
    fields = {"rebalance_timeout_ms": 20_000, "session_timeout_ms": 60_000}
    answers = world.wait(*[world.join(each, **fields) for each in ids])
    leader = answers[0].leader
    late = next(each for each in ids if each != leader)
    world.wait(world.sync(leader, 1, {leader: b"L", late: b"F"}))
    world.pass_ms(20_001)
    assert world.heartbeat(late, 1) is E.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1) is E.REBALANCE_IN_PROGRESS


def test_a_sync_keeps_its_member_alive(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    for _ in range(3):
        world.pass_ms(6_000)
        assert world.heartbeat(leader, 1) is E.NONE
        assert world.wait(world.sync(follower, 1))[0].error is E.NONE


def test_a_generation_has_one_assignment_in_the_log(world: GroupWorld) -> None:
    """The leader lost its connection, joined again and assigned otherwise.

    Else a member that is answered by the next coordinator would have another one's partitions.
    """
    (leader,) = world.stable()
    world.wait(world.join(leader))
    world.log.commit_ms = 1_000
    first = world.sync(leader, 2, {leader: b"first"})
    (again,) = world.wait(world.join(leader))
    assert again.generation == 2
    second = world.sync(leader, 2, {leader: b"second"})
    told = world.wait(first, second)
    assert [each.error for each in told] == [E.REBALANCE_IN_PROGRESS, E.NONE]
    world.pass_ms(2_000)
    stored = world.log.stored("g")
    assert stored is not None
    assert told[1].assignment == stored.members[0].assignment == b"first"


# ---------------------------------------------------------------- heartbeats and leaving


def test_a_member_that_is_not_heard_of_fails(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    for _ in range(4):
        world.pass_ms(4_000)
        world.heartbeat(leader, 1)
    assert world.heartbeat(follower, 1) is E.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1) is E.REBALANCE_IN_PROGRESS
    (again,) = world.wait(world.join(leader))
    assert [each.member_id for each in again.members] == [leader]
    assert ("group_member_expired", {"group": "g", "generation": 1, "member": follower}) in (
        world.trace.events
    )


def test_the_last_member_that_fails_leaves_an_empty_group_in_the_log(world: GroupWorld) -> None:
    world.stable()
    world.pass_ms(80_000)
    group, stored = world.group(), world.log.stored("g")
    assert group is not None
    assert stored is not None
    assert (group.state, stored.generation, stored.members) == (GroupState.EMPTY, 2, ())


def test_a_heartbeat_of_another_generation_is_refused(world: GroupWorld) -> None:
    (member,) = world.stable()
    assert world.heartbeat(member, 1) is E.NONE
    assert world.heartbeat(member, 0) is E.ILLEGAL_GENERATION
    assert world.heartbeat("nobody", 1) is E.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_is_missed_at_once(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    assert world.leave(LeavingMember(leader), LeavingMember("nobody")) == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
    ]
    asked = world.join(follower)
    (again,) = world.wait(asked)
    assert (again.leader, again.generation, asked.took_ms) == (follower, 2, 0)


def test_an_id_that_was_given_out_leaves_without_a_rebalance(world: GroupWorld) -> None:
    (member,) = world.stable()
    (pending,) = world.wait(world.join())
    assert world.leave(LeavingMember(pending.member_id)) == [E.NONE]
    assert world.heartbeat(member, 1) is E.NONE
    (pending,) = world.wait(world.join())
    again = world.join(member)
    assert again.answer is None
    assert world.leave(LeavingMember(pending.member_id)) == [E.NONE]
    assert world.wait(again, within_ms=1)[0].generation == 2


# ---------------------------------------------------------------- static members


def test_a_static_member_that_is_restarted_takes_its_place_without_a_rebalance(
    world: GroupWorld,
) -> None:
    static = {"group_instance_id": "i"}
    (first,) = world.wait(world.join(**static))
    assert first.member_id.startswith("i-")
    world.wait(world.sync(first.member_id, 1, {first.member_id: b"A"}, **static))
    (again,) = world.wait(world.join(**static))
    assert (again.generation, again.skip_assignment) == (1, True)
    assert again.member_id == again.leader != first.member_id
    assert world.heartbeat(first.member_id, 1, "i") is E.FENCED_INSTANCE_ID
    (told,) = world.wait(world.sync(again.member_id, 1, **static))
    assert told.assignment == b"A"
    stored = world.log.stored("g")
    assert stored is not None
    assert [each.member_id for each in stored.members] == [again.member_id]


def test_an_old_client_does_not_learn_that_it_leads(world: GroupWorld) -> None:
    static = {"group_instance_id": "i"}
    (first,) = world.wait(world.join(**static))
    world.wait(world.sync(first.member_id, 1, {first.member_id: b"A"}, **static))
    (again,) = world.wait(world.join(request_version=8, **static))
    assert (again.leader, again.members) == (first.member_id, ())


def test_a_restart_that_the_log_does_not_take_is_taken_back(world: GroupWorld) -> None:
    static = {"group_instance_id": "i"}
    (first,) = world.wait(world.join(**static))
    world.wait(world.sync(first.member_id, 1, {first.member_id: b"A"}, **static))
    world.log.append_error = E.COORDINATOR_NOT_AVAILABLE
    (again,) = world.wait(world.join(**static))
    assert again.error is E.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(first.member_id, 1, "i") is E.NONE


def test_a_static_member_that_waits_is_fenced_by_its_second_start(world: GroupWorld) -> None:
    static = {"group_instance_id": "i"}
    first = world.join(**static)
    second = world.join(**static)
    one, other = world.wait(first, second)
    assert (one.error, other.error) == (E.FENCED_INSTANCE_ID, E.NONE)


def test_a_static_member_is_removed_by_its_instance(world: GroupWorld) -> None:
    (first,) = world.wait(world.join(group_instance_id="i"))
    assert world.leave(LeavingMember("", "j")) == [E.UNKNOWN_MEMBER_ID]
    assert world.leave(LeavingMember("", "i")) == [E.NONE]
    assert world.heartbeat(first.member_id, 1, "i") is E.UNKNOWN_MEMBER_ID


# ---------------------------------------------------------------- immigration and emigration


def test_who_waits_is_sent_away_when_the_coordinator_resigns(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    joining = world.join(leader)
    world.log.refusals["g"] = E.NOT_COORDINATOR
    world.coordinator.resign(PARTITION + 1)
    assert joining.answer is None
    world.coordinator.resign(PARTITION)
    assert world.wait(joining)[0].error is E.NOT_COORDINATOR
    assert world.heartbeat(follower, 1) is E.NOT_COORDINATOR
    assert world.coordinator.groups() == ()
    world.pass_ms(600_000)
    assert world.log.stored("g").generation == 1, "its timers are dead with it"  # type: ignore[union-attr]


def test_a_sync_that_waits_for_the_log_is_sent_away_too(world: GroupWorld) -> None:
    (member,) = world.stable()
    world.wait(world.join(member))
    world.log.commit_ms = 1_000
    syncing = world.sync(member, 2, {member: b"2"})
    world.coordinator.resign(PARTITION)
    assert world.wait(syncing)[0].error is E.NOT_COORDINATOR
    world.pass_ms(2_000)


def test_another_broker_goes_on_where_the_first_left_off(world: GroupWorld) -> None:
    leader, follower = world.stable(2)
    world.coordinator.resign(PARTITION)
    world.coordinator = world.make_coordinator()
    world.coordinator.take_over(PARTITION, world.log.loaded())
    assert world.heartbeat(follower, 1) is E.NONE
    (told,) = world.wait(world.sync(follower, 1))
    assert told.assignment == follower.encode()
    world.pass_ms(9_000)
    assert world.heartbeat(leader, 1) is E.NONE
    world.pass_ms(9_000)
    assert world.heartbeat(follower, 1) is E.UNKNOWN_MEMBER_ID


def test_a_join_that_goes_on_after_its_client_went_away(world: GroupWorld) -> None:
    """Its connection is lost: nobody hears the answer, and the group goes on."""
    leader, follower = world.stable(2)
    asked = world.join(leader)
    world.scope.cancel()
    world.pass_ms(0)
    (told,) = world.wait(world.join(follower))
    assert asked.answer is None
    assert told.generation == 2
