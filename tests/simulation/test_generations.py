"""Generations of groups: who is no member of the current one is refused, and the oracle sees it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_planted import planted
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.oracle.violation import InvariantBroken
from highwater_wire.kafka.group_messages import HeartbeatRequest
from tests.support.members import BROKER_SETTINGS, TOPIC, Watched, begin, coordinator

Cluster = Any
MakeCluster = Callable[..., Cluster]
Story = Callable[[Cluster], Coroutine[Any, Any, None]]


async def two_share(cluster: Cluster) -> tuple[Watched, Watched]:
    await begin(cluster)
    first = Watched(cluster, "member-0")
    await first.holds(0, 1, 2, 3)
    second = Watched(cluster, "member-1")
    await first.holds(0, 1)
    await second.holds(2, 3)
    return first, second


async def another_joins(cluster: Cluster) -> None:
    await two_share(cluster)


async def removed_member_goes_on(cluster: Cluster) -> None:
    """It was not heard of for a session timeout, and does not know what became of it."""
    first, second = await two_share(cluster)
    await first.commit(5)
    first.scope.cancel()
    await second.holds(0, 1, 2, 3)
    outcome = await first.member.commit({TopicPartition(TOPIC, 0): 3})
    assert outcome is ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID


async def heartbeat(of: Watched) -> ErrorCode:
    member = of.member
    request = HeartbeatRequest("g", member.generation, member.member_id)
    coordinator = await member._find()
    assert coordinator is not None
    answer = await member._call(coordinator, request)
    return ErrorCode(answer.error)


async def removed_member_is_heard(cluster: Cluster) -> None:
    first, second = await two_share(cluster)
    first.scope.cancel()
    await second.holds(0, 1, 2, 3)
    assert await heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID


async def static_member_is_started_twice(cluster: Cluster) -> None:
    await begin(cluster)
    first = Watched(cluster, "member-0", group_instance_id="a")
    await first.holds(0, 1, 2, 3)
    first.scope.cancel()
    again = Watched(cluster, "member-1", group_instance_id="a")
    await again.holds(0, 1, 2, 3)
    outcome = await first.member.commit({TopicPartition(TOPIC, 0): 3})
    assert outcome is ErrorCode.FENCED_INSTANCE_ID
    await again.commit(5)


async def coordinator_moves(cluster: Cluster) -> None:
    first, second = await two_share(cluster)
    old = coordinator(cluster)
    cluster.world.kill(old)
    await cluster.world.eventually(
        lambda: coordinator(cluster) not in (old, -1), 60_000, "a new coordinator"
    )
    await second.commit(20, partition=2)
    await first.commit(10)


STORIES = (
    another_joins,
    removed_member_goes_on,
    removed_member_is_heard,
    static_member_is_started_twice,
    coordinator_moves,
)


def run(make_cluster: MakeCluster, story: Story) -> None:
    cluster = make_cluster(broker_settings=BROKER_SETTINGS)
    Oracle(cluster.world)
    cluster.world.run(story(cluster), 900_000)


@pytest.mark.parametrize("story", STORIES)
def test_only_members_of_the_current_generation_are_served(
    make_cluster: MakeCluster, story: Story
) -> None:
    run(make_cluster, story)


@pytest.mark.parametrize(
    ("bug", "story", "says"),
    [
        ("leaders_assignment_for_all", another_joins, "has it there"),
        ("generation_not_advanced", another_joins, "has it there"),
        ("commit_of_any_generation", removed_member_goes_on, "accepted OffsetCommitRequest"),
        ("heartbeat_of_anybody", removed_member_is_heard, "accepted HeartbeatRequest"),
        ("replaced_member_commits", static_member_is_started_twice, "had taken the place"),
        ("groups_not_loaded", coordinator_moves, "was assigned before"),
    ],
)
def test_the_oracle_sees_the_mistake(
    make_cluster: MakeCluster, bug: str, story: Story, says: str
) -> None:
    with planted(bug), pytest.raises(InvariantBroken) as broken:
        run(make_cluster, story)
    assert broken.value.violation.invariant == "I21"
    assert says in broken.value.violation.message
