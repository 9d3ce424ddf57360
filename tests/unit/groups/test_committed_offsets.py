"""Committed offsets: who may commit, the record before the answer, fetches and deletions."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from highwater_broker.coordinator.stored import GroupForgotten, OffsetCommitted, OffsetForgotten
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetToCommit,
)
from highwater_wire.kafka.group_messages import GroupProtocol, LeavingMember
from tests.support.groups import PARTITION, Asked, GroupWorld

E = ErrorCode
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LONG = "x" * 5_000
READS_T = struct.pack(">hih1si", 0, 1, 1, b"t", -1)


def commit(world: GroupWorld, offset: int, *partitions: TopicPartition, **fields: Any) -> Asked:
    items = tuple(OffsetToCommit(*each, Offset(offset)) for each in partitions or (T0,))
    request = OffsetCommitRequest(fields.pop("group_id", "g"), items, **fields)
    return world.start(world.coordinator.commit(request, items))


def errors(world: GroupWorld, asked: Asked) -> list[ErrorCode]:
    return [each.error for each in world.wait(asked)[0]]


def offsets(world: GroupWorld, partitions: Any = None, group_id: str = "g") -> dict[Any, int]:
    found = world.coordinator.fetch(GroupToFetch(group_id, partitions))
    assert found.error is E.NONE
    return {TopicPartition(each.topic, each.partition): each.offset for each in found.partitions}


def test_a_consumer_without_a_group_commits_and_fetches(world: GroupWorld) -> None:
    assert offsets(world, (T0,)) == {T0: -1}
    assert errors(world, commit(world, 5, T0, T1)) == [E.NONE, E.NONE]
    assert offsets(world) == {T0: 5, T1: 5}
    assert offsets(world, (T1, U0)) == {T1: 5, U0: -1}
    (listed,) = world.coordinator.listed((), ()).groups
    assert (listed.group_id, listed.protocol_type, listed.state) == ("g", "", "Empty")


def test_the_empty_id_is_one_too(world: GroupWorld) -> None:
    assert errors(world, commit(world, 5, group_id="")) == [E.NONE]
    assert offsets(world, None, "") == {T0: 5}


def test_an_offset_is_fetched_only_once_it_is_in_the_log(world: GroupWorld) -> None:
    world.wait(commit(world, 5))
    world.log.commit_ms = 100
    asked = commit(world, 6)
    world.pass_ms(50)
    assert (asked.answer, offsets(world)) == (None, {T0: 5})
    assert errors(world, asked) == [E.NONE]
    assert offsets(world) == {T0: 6}


def test_a_commit_whose_client_went_away_is_seen_as_the_log_has_it(world: GroupWorld) -> None:
    world.log.commit_ms = 100
    commit(world, 6)
    world.scope.cancel()
    world.pass_ms(200)
    assert offsets(world) == {T0: 6}


@pytest.mark.parametrize(
    ("of_log", "told"),
    [
        (E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_an_offset_that_the_log_refuses_is_not_committed(
    world: GroupWorld, of_log: ErrorCode, told: ErrorCode
) -> None:
    world.log.append_error = of_log
    assert errors(world, commit(world, 5, T0, T1)) == [told, told]
    assert world.coordinator.groups() == (), "a group of which nothing is left"


def test_a_group_is_kept_while_its_first_commit_is_on_its_way(world: GroupWorld) -> None:
    """Beside it a commit that is refused whole, and a join: neither leaves anything."""
    world.log.commit_ms = 1_000
    first = commit(world, 5)
    refused = OffsetCommitRequest("g", (item := OffsetToCommit("t", 1, Offset(6), metadata=LONG),))
    assert errors(world, world.start(world.coordinator.commit(refused, (item,)))) == [
        E.OFFSET_METADATA_TOO_LARGE
    ]
    assert world.wait(world.join(protocols=()))[0].error is E.INCONSISTENT_GROUP_PROTOCOL
    assert errors(world, first) == [E.NONE]
    assert offsets(world) == {T0: 5}


def test_text_that_is_too_long_costs_its_own_partition_only(world: GroupWorld) -> None:
    items = (
        OffsetToCommit("t", 0, Offset(1), LeaderEpoch(3), "x" * 4_097),
        OffsetToCommit("t", 1, Offset(2), LeaderEpoch(4), "x" * 4_096),
        OffsetToCommit("u", 0, Offset(3)),
    )
    request = OffsetCommitRequest("g", items)
    asked = world.start(world.coordinator.commit(request, items))
    assert errors(world, asked) == [E.OFFSET_METADATA_TOO_LARGE, E.NONE, E.NONE]
    (one, other) = world.coordinator.fetch(GroupToFetch("g", None)).partitions
    assert (one.offset, one.leader_epoch, one.metadata) == (2, 4, "x" * 4_096)
    assert (other.offset, other.leader_epoch, other.metadata) == (3, -1, "")


def test_only_members_of_the_generation_commit(world: GroupWorld) -> None:
    (member,) = world.stable()
    assert errors(world, commit(world, 5)) == [E.UNKNOWN_MEMBER_ID]
    assert errors(world, commit(world, 5, generation=0, member_id=member)) == [E.ILLEGAL_GENERATION]
    assert errors(world, commit(world, 5, generation=1, member_id="x")) == [E.UNKNOWN_MEMBER_ID]
    assert errors(world, commit(world, 5, generation=1, member_id=member)) == [E.NONE]
    world.wait(world.join(member))
    refused = commit(world, 6, generation=2, member_id=member)
    assert errors(world, refused) == [E.REBALANCE_IN_PROGRESS]
    assert offsets(world) == {T0: 5}


def test_a_commit_keeps_its_member_alive(world: GroupWorld) -> None:
    (member,) = world.stable()
    for offset in range(5):
        world.pass_ms(8_000)
        assert errors(world, commit(world, offset, generation=1, member_id=member)) == [E.NONE]


@pytest.mark.parametrize(
    ("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_no_group_commits_nothing(
    world: GroupWorld, version: int, error: ErrorCode
) -> None:
    asked = commit(world, 5, generation=3, member_id="m", request_version=version)
    assert errors(world, asked) == [error]


def test_a_commit_may_say_how_long_it_is_kept(world: GroupWorld) -> None:
    world.wait(commit(world, 5, retention_ms=1_000), commit(world, 6, T1))
    kept, other = (each for each in world.log.records if isinstance(each, OffsetCommitted))
    assert kept.expire_timestamp_ms == kept.commit_timestamp_ms + 1_000
    assert other.expire_timestamp_ms is None


@pytest.mark.parametrize(
    ("error", "to_sync", "to_heartbeat"),
    [
        (E.NOT_COORDINATOR, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        # Java's consumer and aiokafka end with an error when these requests answer a load.
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.REBALANCE_IN_PROGRESS, E.NONE),
    ],
)
def test_who_does_not_own_the_group_says_so(
    world: GroupWorld, error: ErrorCode, to_sync: ErrorCode, to_heartbeat: ErrorCode
) -> None:
    world.wait(commit(world, 5))
    world.log.refusals["g"] = error
    assert errors(world, commit(world, 6)) == [error]
    assert world.coordinator.fetch(GroupToFetch("g", None)).error is error
    assert world.coordinator.describe("g").error is error
    assert world.ask(world.coordinator.delete("g")) is error
    assert world.ask(world.coordinator.delete_offsets("g", (T0,))).error is error
    assert world.wait(world.join())[0].error is error
    assert world.wait(world.sync("m", 1))[0].error is to_sync
    assert world.heartbeat("m", 1) is to_heartbeat


# ---------------------------------------------------------------- deleting


def test_offsets_of_topics_that_no_member_reads_are_deleted(world: GroupWorld) -> None:
    (member,) = world.stable(protocols=(GroupProtocol("range", READS_T),))
    world.wait(commit(world, 5, T0, U0, generation=1, member_id=member))
    answer = world.ask(world.coordinator.delete_offsets("g", (T0, U0)))
    assert [each.error for each in answer.partitions] == [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE]
    assert offsets(world) == {T0: 5}
    assert world.log.records[-1] == OffsetForgotten("g", *U0)
    assert world.leave(LeavingMember(member)) == [E.NONE]
    answer = world.ask(world.coordinator.delete_offsets("g", (T0, T1)))
    assert [each.error for each in answer.partitions] == [E.NONE, E.NONE]
    assert offsets(world) == {}


def test_of_a_group_that_is_none_nothing_is_deleted(world: GroupWorld) -> None:
    assert world.ask(world.coordinator.delete_offsets("g", (T0,))).error is E.GROUP_ID_NOT_FOUND
    world.stable(protocol_type="connect")
    assert world.ask(world.coordinator.delete_offsets("g", (T0,))).error is E.NON_EMPTY_GROUP


def test_a_group_is_deleted_once_it_has_no_members(world: GroupWorld) -> None:
    assert world.ask(world.coordinator.delete("g")) is E.GROUP_ID_NOT_FOUND
    (member,) = world.stable()
    world.wait(commit(world, 5, T0, T1, generation=1, member_id=member))
    assert world.ask(world.coordinator.delete("g")) is E.NON_EMPTY_GROUP
    world.leave(LeavingMember(member))
    world.pass_ms(10)
    assert world.ask(world.coordinator.delete("g")) is E.NONE
    assert world.log.records[-3:] == [
        OffsetForgotten("g", *T0),
        OffsetForgotten("g", *T1),
        GroupForgotten("g"),
    ]
    assert (world.coordinator.groups(), world.log.loaded()) == ((), {})
    assert world.coordinator.describe("g").state == "Dead"


def test_a_group_whose_tombstones_the_log_does_not_take_is_still_there(world: GroupWorld) -> None:
    world.wait(commit(world, 5))
    world.log.append_error = E.COORDINATOR_NOT_AVAILABLE
    assert world.ask(world.coordinator.delete("g")) is E.COORDINATOR_NOT_AVAILABLE
    assert offsets(world) == {T0: 5}
    world.log.append_error = E.NONE
    assert errors(world, commit(world, 6)) == [E.NONE]


def test_a_group_is_not_used_while_its_tombstones_are_on_their_way(world: GroupWorld) -> None:
    """Else the log, if it does not take them, has two groups of one id."""
    world.wait(commit(world, 5))
    world.log.append_error, world.log.commit_ms = E.COORDINATOR_NOT_AVAILABLE, 1_000
    deleting = world.start(world.coordinator.delete("g"))
    world.log.append_error = E.NONE
    assert errors(world, commit(world, 6, T1)) == [E.COORDINATOR_NOT_AVAILABLE]
    assert world.wait(world.join())[0].error is E.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat("m", 1) is E.COORDINATOR_NOT_AVAILABLE
    assert world.ask(world.coordinator.delete("g")) is E.COORDINATOR_NOT_AVAILABLE
    assert world.coordinator.describe("g").state == "Dead"
    assert world.wait(deleting) == [E.COORDINATOR_NOT_AVAILABLE]
    assert errors(world, commit(world, 6, T1)) == [E.NONE]
    assert offsets(world) == {T0: 5, T1: 6}


def test_a_deletion_that_fails_after_a_resignation_brings_nothing_back(world: GroupWorld) -> None:
    world.wait(commit(world, 5))
    world.log.append_error, world.log.commit_ms = E.COORDINATOR_NOT_AVAILABLE, 1_000
    deleting = world.start(world.coordinator.delete("g"))
    world.coordinator.resign(PARTITION)
    world.log.refusals["g"] = E.NOT_COORDINATOR
    world.wait(deleting)
    assert world.coordinator.groups() == ()


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_deletion_includes_a_commit_on_its_way(world: GroupWorld, is_whole: bool) -> None:
    """Else the next coordinator has an offset again that is gone here."""
    world.wait(commit(world, 4, T1))
    world.log.commit_ms = 1_000
    committing = commit(world, 5, T0)
    groups = world.coordinator
    deleting = world.start(groups.delete("g") if is_whole else groups.delete_offsets("g", (T0,)))
    world.wait(committing, deleting)
    left = {} if is_whole else {T1: 4}
    loaded = world.log.loaded()
    assert offsets(world) == left
    assert {at: each.offset for g in loaded.values() for at, each in g.offsets.items()} == left


def test_offsets_of_deleted_partitions_are_forgotten(world: GroupWorld) -> None:
    world.wait(commit(world, 4, T1, U0))
    world.wait(commit(world, 4, T0, group_id="h"))
    world.log.commit_ms = 1_000
    committing = commit(world, 5, T0)
    world.pass_ms(1)
    world.coordinator.partitions_deleted((T0, T1, TopicPartition("x", 0)))
    world.pass_ms(0)
    again = commit(world, 1, T0)  # in the next topic of that name
    world.wait(committing, again)
    world.pass_ms(1_000)
    assert offsets(world) == {U0: 4, T0: 1}
    assert [each.group_id for each in world.coordinator.groups()] == ["g"]
    loaded = world.log.loaded()
    assert {at: each.offset for at, each in loaded["g"].offsets.items()} == {U0: 4, T0: 1}
    assert list(loaded) == ["g"]


def test_an_offset_that_is_committed_between_two_parts_of_a_deletion_stays(
    world: GroupWorld,
) -> None:
    """In a topic that was deleted and made anew, whose tombstones need several appends."""
    many = tuple(TopicPartition("t" * 200, number) for number in range(2_000))
    first, last = many[0], many[-1]
    world.wait(commit(world, 1, *many))
    world.log.commit_ms = 10
    world.coordinator.partitions_deleted(many)
    world.pass_ms(1)
    assert errors(world, commit(world, 77, first, last)) == [E.NONE, E.NONE]
    assert offsets(world, (first, last)) == {first: 77, last: 77}
    world.pass_ms(1_000)
    assert offsets(world) == {first: 77, last: 77}
    loaded = world.log.loaded()["g"].offsets
    assert {at: each.offset for at, each in loaded.items()} == {first: 77, last: 77}


def test_an_id_that_was_given_out_is_gone_with_its_group(world: GroupWorld) -> None:
    """The group comes back without it: no rebalance waits for an id whose timer is over."""
    world.wait(commit(world, 5))
    (pending,) = world.wait(world.join())
    world.log.append_error = E.COORDINATOR_NOT_AVAILABLE
    assert world.ask(world.coordinator.delete("g")) is E.COORDINATOR_NOT_AVAILABLE
    world.log.append_error = E.NONE
    assert world.wait(world.join(pending.member_id))[0].error is E.UNKNOWN_MEMBER_ID
    leader, follower = world.stable(2)
    again = [world.join(leader), world.join(follower)]
    assert [each.generation for each in world.wait(*again, within_ms=1)] == [2, 2]


def test_ten_thousand_tombstones_go_in_batches_that_a_log_takes(world: GroupWorld) -> None:
    many = tuple(TopicPartition("t" * 200, number) for number in range(10_000))
    world.wait(commit(world, 1, *many))
    sizes: list[int] = []
    append = world.log.append

    async def noted(group_id: str, records: Any) -> ErrorCode:
        sizes.append(len(records))
        return await append(group_id, records)

    world.log.append = noted  # type: ignore[method-assign]
    assert world.ask(world.coordinator.delete("g")) is E.NONE
    assert sum(sizes) == 10_000
    assert max(sizes) < 1_000


# ---------------------------------------------------------------- looking


def test_groups_are_listed_by_state_and_type(world: GroupWorld) -> None:
    world.stable()
    world.wait(commit(world, 1, group_id="alone"))
    listed = world.coordinator.listed
    assert [(each.group_id, each.state) for each in listed((), ()).groups] == [
        ("alone", "Empty"),
        ("g", "Stable"),
    ]
    assert [each.group_id for each in listed(("stable", "Dead"), ("Classic",)).groups] == ["g"]
    assert listed((), ("consumer",)).groups == ()
    assert listed((), ()).error is E.NONE
    world.log.loading = True
    assert listed((), ()).error is E.COORDINATOR_LOAD_IN_PROGRESS


def test_a_stable_group_is_described_with_assignments(world: GroupWorld) -> None:
    (member,) = world.stable()
    described = world.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.protocol) == (
        "Stable",
        "consumer",
        "range",
    )
    ((told,),) = [described.members]
    assert (told.member_id, told.client_id, told.client_host) == (member, "c", "/h")
    assert (told.metadata, told.assignment) == (b"r", member.encode())
    world.join(member)
    described = world.coordinator.describe("g")
    assert (described.state, described.protocol) == ("CompletingRebalance", "")
    assert [each.assignment for each in described.members] == [b""]


def test_committed_offsets_are_there_after_the_coordinator_moved(world: GroupWorld) -> None:
    (member,) = world.stable()
    world.wait(commit(world, 5, generation=1, member_id=member))
    world.wait(commit(world, 9, T1, group_id="alone"))
    world.coordinator.resign(PARTITION)
    world.coordinator = world.make_coordinator()
    world.coordinator.take_over(PARTITION, world.log.loaded())
    assert offsets(world) == {T0: 5}
    assert offsets(world, None, "alone") == {T1: 9}
    assert errors(world, commit(world, 6, generation=1, member_id=member)) == [E.NONE]
