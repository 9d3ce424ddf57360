"""Generations of groups: requests of former members are refused, and planted bugs are found.

The oracle finds bugs as they happen, the checker in the members' histories.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_checker.invariants.generations import check_generations
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_planted import planted
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.oracle.violation import InvariantBroken
from highwater_wire.kafka.group_messages import HeartbeatRequest
from tests.support.members import BROKER_SETTINGS, TOPIC, Watched, begin, coordinator

Cluster = Any
MakeCluster = Callable[..., Cluster]
FIRST = TopicPartition(TOPIC, 0)


class Members:
    """The members of one group."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.all: list[Watched] = []

    def add(self, **settings: Any) -> Watched:
        self.all.append(Watched(self.cluster, f"member-{len(self.all)}", **settings))
        return self.all[-1]

    async def two_share(self) -> tuple[Watched, Watched]:
        await begin(self.cluster)
        first = self.add()
        await first.holds(0, 1, 2, 3)
        second = self.add()
        await first.holds(0, 1)
        await second.holds(2, 3)
        return first, second


Story = Callable[[Members], Coroutine[Any, Any, object]]


async def another_joins(members: Members) -> object:
    """Return each member's partitions after a second member has joined."""
    await begin(members.cluster)
    first = members.add()
    await first.holds(0, 1, 2, 3)
    members.add()
    await members.cluster.world.sleep(20_000)
    return [sorted(at.partition for at in each.assigned) for each in members.all]


async def removed_member_commits(members: Members) -> object:
    """A member sends no heartbeat for a session timeout, then commits without having rejoined."""
    first, second = await members.two_share()
    await first.commit(5)
    first.scope.cancel()
    await second.holds(0, 1, 2, 3)
    return await first.member.commit({FIRST: 3})


async def removed_member_is_alive(members: Members) -> object:
    first, second = await members.two_share()
    first.scope.cancel()
    await second.holds(0, 1, 2, 3)
    member = first.member
    coordinator = await member._find()
    assert coordinator is not None
    request = HeartbeatRequest("g", member.generation, member.member_id)
    return (await member._call(coordinator, request)).error


async def static_member_is_started_twice(members: Members) -> object:
    await begin(members.cluster)
    first = members.add(group_instance_id="a")
    await first.holds(0, 1, 2, 3)
    first.scope.cancel()
    again = members.add(group_instance_id="a")
    await again.holds(0, 1, 2, 3)
    await again.commit(5)
    return await first.member.commit({FIRST: 3})


async def coordinator_moves(members: Members) -> object:
    first, second = await members.two_share()
    cluster = members.cluster
    old = coordinator(cluster)
    cluster.world.kill(old)
    await cluster.world.eventually(
        lambda: coordinator(cluster) not in (old, -1), 60_000, "a new coordinator"
    )
    await second.commit(20, partition=2)
    await first.commit(10)
    return first.generations == sorted(set(first.generations))


def run(make_cluster: MakeCluster, story: Story, *, has_oracle: bool = True) -> Any:
    """Return the story's result, and the members' histories."""
    cluster = make_cluster(broker_settings=BROKER_SETTINGS)
    members = Members(cluster)
    if has_oracle:
        Oracle(cluster.world)
    told: list[object] = []

    async def told_by_story() -> None:
        told.append(await story(members))

    cluster.world.run(told_by_story(), 900_000)
    return told[0], [event for each in members.all for event in each.recorder.events]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (another_joins, [[0, 1], [2, 3]]),
        (removed_member_commits, ErrorCode.UNKNOWN_MEMBER_ID),
        (removed_member_is_alive, ErrorCode.UNKNOWN_MEMBER_ID),
        (static_member_is_started_twice, ErrorCode.FENCED_INSTANCE_ID),
        (coordinator_moves, True),
    ],
)
def test_only_members_of_the_current_generation_are_served(
    make_cluster: MakeCluster, story: Story, expected: object
) -> None:
    told, history = run(make_cluster, story)
    assert told == expected
    checked = check_generations(history)
    assert (checked.findings, checked.examined > 0) == ((), True)


@pytest.mark.parametrize(
    ("bug", "story", "says"),
    [
        ("leaders_assignment_for_all", another_joins, "has it there"),
        ("generation_not_advanced", another_joins, "has it there"),
        ("commit_of_any_generation", removed_member_commits, "accepted OffsetCommitRequest"),
        ("heartbeat_of_anybody", removed_member_is_alive, "accepted HeartbeatRequest"),
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


@pytest.mark.parametrize(
    ("bug", "story", "says"),
    [
        ("leaders_assignment_for_all", another_joins, "were assigned it"),
        ("generation_not_advanced", another_joins, "were assigned it"),
        ("commit_of_any_generation", removed_member_commits, "had been assigned"),
        ("replaced_member_commits", static_member_is_started_twice, "had taken the place"),
    ],
)
def test_the_checker_finds_the_mistake_in_histories(
    make_cluster: MakeCluster, bug: str, story: Story, says: str
) -> None:
    with planted(bug):
        _, history = run(make_cluster, story, has_oracle=False)
    found = check_generations(history).findings
    assert {each.invariant for each in found} == {"I21"}
    assert says in found[0].message
