"""Members of consumer groups in a cluster: they share partitions, come, go, and commit offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from highwater_client.admin import Admin
from highwater_client.group_member import Assigned, GroupMember, GroupSettings
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC

Cluster = Any
MakeCluster = Callable[..., Cluster]

BROKER_SETTINGS = {"group_initial_rebalance_delay_ms": 500, "offsets_topic_partitions": 1}
TOPIC = "shared"
PARTITIONS = 4
SESSION_MS = 6_000


class Watched:
    """A member, and what it was told."""

    def __init__(self, cluster: Cluster, name: str, **settings: Any) -> None:
        self.world = cluster.world
        client = cluster.world.client(name)
        self.assigned: Mapping[TopicPartition, Offset] = {}
        self.generations: list[int] = []
        self.member = GroupMember(
            client.runtime,
            client.transport,
            client.bootstrap,
            GroupSettings("g", (TOPIC,), **{"session_timeout_ms": SESSION_MS, **settings}),
            client_id=name,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )
        self.scope = client.runtime.scope("member")
        self.running = self.scope.spawn("Member", self.member.run())

    def _assigned(self, told: Assigned) -> None:
        self.assigned = told.positions
        self.generations.append(told.generation)

    def _revoked(self, generation: int) -> None:
        assert generation == self.generations[-1]
        self.assigned = {}

    async def holds(self, *partitions: int) -> None:
        wanted = [TopicPartition(TOPIC, each) for each in partitions]
        await self.world.eventually(
            lambda: self.member.generation >= 0 and sorted(self.assigned) == wanted,
            60_000,
            f"partitions {partitions}, after {self.member.last_error}",
        )

    async def commit(self, offset: int, partition: int = 0) -> None:
        """Commit until it is acknowledged."""
        key = TopicPartition(TOPIC, partition)
        outcomes: list[ErrorCode | None] = []

        async def try_once() -> bool:
            outcomes.append(await self.member.commit({key: offset}))
            return outcomes[-1] is ErrorCode.NONE

        while not await try_once():
            await self.world.sleep(100)
            assert len(outcomes) < 300, f"not committed: {outcomes[-3:]}"


def coordinator(cluster: Cluster) -> int:
    """The broker that coordinates the group: all groups are of one offsets partition here."""
    return int(cluster.leader(TopicPartition(OFFSETS_TOPIC, 0)))


async def begin(cluster: Cluster) -> None:
    """Start all nodes and create the topic that members share."""
    cluster.world.start_all()
    client = cluster.world.client("admin")
    admin = Admin(client.runtime, client.transport, client.bootstrap)
    assert await admin.create_topic(TOPIC, PARTITIONS, 3, 60_000) is ErrorCode.NONE


def run(make_cluster: MakeCluster, story: Any, **settings: Any) -> None:
    cluster = make_cluster(broker_settings={**BROKER_SETTINGS, **settings})
    cluster.world.run(story(cluster), 900_000)


def test_members_share_the_partitions_and_take_over_from_who_leaves(
    make_cluster: MakeCluster,
) -> None:
    async def story(cluster: Cluster) -> None:
        await begin(cluster)
        first = Watched(cluster, "member-0")
        await first.holds(0, 1, 2, 3)
        assert set(first.assigned.values()) == {-1}
        await first.commit(7)
        await first.commit(9, partition=3)
        second = Watched(cluster, "member-1")
        await first.holds(0, 1)
        await second.holds(2, 3)
        assert list(first.assigned.values()) == [7, -1]
        assert list(second.assigned.values()) == [-1, 9]
        await second.commit(10, partition=3)
        first.member.stop()
        await second.holds(0, 1, 2, 3)
        assert list(second.assigned.values()) == [7, -1, -1, 10]
        assert second.generations == sorted(set(second.generations))

    run(make_cluster, story)


def test_a_member_that_crashes_is_replaced_after_its_session(make_cluster: MakeCluster) -> None:
    async def story(cluster: Cluster) -> None:
        await begin(cluster)
        first, second = Watched(cluster, "member-0"), Watched(cluster, "member-1")
        await first.holds(0, 1)
        await second.holds(2, 3)
        began_ms = cluster.client.runtime.now_ms()
        first.scope.cancel()
        await second.holds(0, 1, 2, 3)
        assert cluster.client.runtime.now_ms() - began_ms > SESSION_MS - 2_000

    run(make_cluster, story)


def test_a_static_member_that_is_restarted_keeps_its_partitions(
    make_cluster: MakeCluster,
) -> None:
    async def story(cluster: Cluster) -> None:
        await begin(cluster)
        first = Watched(cluster, "member-0", group_instance_id="a")
        second = Watched(cluster, "member-1", group_instance_id="b")
        await first.holds(*sorted(each.partition for each in first.assigned) or (0, 1))
        await second.holds(2, 3)
        generations = list(second.generations)
        first.scope.cancel()
        again = Watched(cluster, "member-2", group_instance_id="a")
        await again.holds(0, 1)
        assert second.generations == generations

    run(make_cluster, story)


@pytest.mark.parametrize("end", ["kill", "pause"])
def test_members_and_offsets_survive_their_coordinator(make_cluster: MakeCluster, end: str) -> None:
    async def story(cluster: Cluster) -> None:
        await begin(cluster)
        first, second = Watched(cluster, "member-0"), Watched(cluster, "member-1")
        await first.holds(0, 1)
        await second.holds(2, 3)
        for number in range(3):
            await first.commit(10 + number)
            old = coordinator(cluster)
            getattr(cluster.world, end)(old)
            await cluster.world.eventually(
                lambda old=old: coordinator(cluster) not in (old, -1), 60_000, "a new coordinator"
            )
            await second.commit(20 + number, partition=2)
            if end == "pause":
                cluster.world.resume(old)
            else:
                cluster.world.start(old)
            await cluster.world.sleep(5_000)
        third = Watched(cluster, "member-2")
        await first.holds(0, 1)
        await second.holds(2)
        await third.holds(3)
        assert [*first.assigned.values(), *second.assigned.values()] == [12, -1, 22]

    run(make_cluster, story)
