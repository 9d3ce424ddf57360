"""A small effect of each planted bug of groups, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater_broker.coordinator.committing import fetched
from highwater_broker.coordinator.logic.loaded_records import LoadedRecords
from highwater_broker.coordinator.stored import GroupStored
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetToCommit,
)
from tests.support.groups import GroupWorld
from tests.unit.coordinator.conftest import committed

Probe = Callable[[Any], object]
ITEMS = (OffsetToCommit("t", 0, Offset(5)),)


def _in_a_world(probe: Callable[[GroupWorld], object]) -> Probe:
    def probed(_bench: Any) -> object:
        world = GroupWorld()
        try:
            return probe(world)
        finally:
            world.kernel.close()

    return probed


def assignments_of_two(world: GroupWorld) -> object:
    ids = [world.wait(world.join())[0].member_id for _ in range(2)]
    answers = world.wait(*[world.join(member_id) for member_id in ids])
    leader, generation = answers[0].leader, answers[0].generation
    ids.sort(key=lambda member_id: member_id != leader)
    shares = dict(zip(ids, (b"first", b"second"), strict=True))
    syncs = [world.sync(leader, generation, shares), world.sync(ids[1], generation)]
    return [each.assignment for each in world.wait(*syncs)]


def generation_after_another_joined(world: GroupWorld) -> object:
    (first,) = world.stable()
    second = world.wait(world.join())[0].member_id
    answers = world.wait(world.join(second), world.join(first))
    return [each.generation for each in answers]


def commit(world: GroupWorld, generation: int, member_id: str, instance: str | None) -> object:
    request = OffsetCommitRequest("g", ITEMS, generation, member_id, instance)
    (told,) = world.ask(world.coordinator.commit(request, ITEMS))
    return told.error


def commit_of_a_stranger(world: GroupWorld) -> object:
    world.stable()
    return commit(world, 0, "stranger", None)


def commit_of_a_replaced_member(world: GroupWorld) -> object:
    answer = world.wait(world.join(group_instance_id="a"))[0]
    world.wait(world.sync(answer.member_id, answer.generation, group_instance_id="a"))
    return commit(world, answer.generation, "its former process", "a")


def heartbeat_of_a_stranger(world: GroupWorld) -> object:
    world.stable()
    return world.heartbeat("stranger", 1)


def offsets_fetched_during_an_append(world: GroupWorld) -> object:
    (member,) = world.stable()
    asked = world.start(world.coordinator.commit(OffsetCommitRequest("g", ITEMS, 1, member), ITEMS))
    told = fetched(world.group(), (TopicPartition("t", 0),))
    assert asked.answer is None
    return [each.offset for each in told]


def offset_that_was_committed(world: GroupWorld) -> object:
    (member,) = world.stable()
    world.ask(world.coordinator.commit(OffsetCommitRequest("g", ITEMS, 1, member), ITEMS))
    wanted = GroupToFetch("g", (TopicPartition("t", 0),))
    (told,) = world.coordinator.fetch(wanted).partitions
    return told.offset


def generation_that_was_loaded(_bench: Any) -> object:
    records = LoadedRecords()
    records.apply(committed("g", 1))
    records.apply(GroupStored("g", "consumer", 3, "range", "m"))
    stored = records.groups()["g"].stored
    return None if stored is None else stored.generation


GROUPS: dict[str, tuple[Probe, object, object]] = {
    "leaders_assignment_for_all": (
        _in_a_world(assignments_of_two),
        [b"first", b"second"],
        [b"first", b"first"],
    ),
    "generation_not_advanced": (_in_a_world(generation_after_another_joined), [2, 2], [1, 1]),
    "commit_of_any_generation": (
        _in_a_world(commit_of_a_stranger),
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ),
    "replaced_member_commits": (
        _in_a_world(commit_of_a_replaced_member),
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
    ),
    "heartbeat_of_anybody": (
        _in_a_world(heartbeat_of_a_stranger),
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ),
    "groups_not_loaded": (generation_that_was_loaded, 3, None),
    "offset_told_too_high": (_in_a_world(offset_that_was_committed), 5, 6),
    "offset_shown_before_commit": (_in_a_world(offsets_fetched_during_an_append), [-1], [5]),
}
