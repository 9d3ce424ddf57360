"""Members of consumer groups in a cluster: they join, share partitions, commit offsets, leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.members import BROKER_SETTINGS, SESSION_MS, Watched, begin, coordinator, create

Cluster = Any
MakeCluster = Callable[..., Cluster]


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


def test_members_of_a_topic_that_is_created_later_get_its_partitions(
    make_cluster: MakeCluster,
) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.world.start_all()
        first, second = Watched(cluster, "member-0"), Watched(cluster, "member-1")
        await cluster.world.eventually(
            lambda: min(first.member.generation, second.member.generation) > 0,
            60_000,
            "both are members",
        )
        assert (first.assigned, second.assigned) == ({}, {})
        await create(cluster)
        await first.holds(0, 1)
        await second.holds(2, 3)

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
