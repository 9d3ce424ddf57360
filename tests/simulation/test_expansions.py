"""Topics get more partitions in a whole cluster, even if the controller dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.admin_messages import ElectionType
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import FailPointAction

Cluster = Any
"""conftest.Cluster."""
TOPIC = "orders"
WITHIN_MS = 30_000


def is_led_and_replicated(c: Cluster, count: int) -> bool:
    return all(
        c.world.is_replicated(TopicPartition(TOPIC, number), c.world.brokers)
        for number in range(count)
    )


async def write_and_read(c: Cluster, partition: int) -> None:
    sent = await c.client.send(TOPIC, partition, f"to-{partition}", WITHIN_MS)
    assert sent.offset == 0
    records = await c.client.read_all(TOPIC, partition, WITHIN_MS)
    assert [record.value for record in records] == [f"to-{partition}".encode()]


def test_added_partitions_serve_clients_at_once_and_the_others_stay(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await c.begin()
        before = c.world.partition_state(TopicPartition(TOPIC, 0))
        given = (tuple(map(NodeId, (0, 1, 2))), tuple(map(NodeId, (2, 1, 0))))
        assert await c.client.create_partitions(TOPIC, 3, WITHIN_MS, given) is ErrorCode.NONE
        metadata = await c.client.metadata((TOPIC,))
        assert [each.leader for each in metadata.topics[0].partitions][1:] == [0, 2]
        assert c.world.partition_state(TopicPartition(TOPIC, 0)) == before
        for partition in (1, 2):
            await write_and_read(c, partition)
        assert await c.client.create_partitions(TOPIC, 3, WITHIN_MS) is ErrorCode.INVALID_PARTITIONS

    cluster.run(story)


@pytest.mark.parametrize("point", [FailPoint.BEFORE_TOPIC_WRITE, FailPoint.AFTER_TOPIC_WRITE])
def test_an_expansion_whose_controller_dies_at_the_write_is_finished_by_the_next(
    cluster: Cluster, point: FailPoint
) -> None:
    errors: list[ErrorCode] = []

    async def story(c: Cluster) -> None:
        await c.begin()
        first = c.controller()
        node = c.world.handle(first).node
        assert node.fail_points.arm(point, FailPointAction.EXIT, count=1) is ErrorCode.NONE
        errors.append(await c.client.create_partitions(TOPIC, 3, 60_000))
        await c.world.eventually(
            lambda: is_led_and_replicated(c, 3), WITHIN_MS, "three replicated partitions"
        )
        assert not c.world.handle(first).is_running
        for partition in (1, 2):
            await write_and_read(c, partition)
        await c.send(5)
        await c.full_isr()

    cluster.run(story)
    # After the write the repeated request finds the requested number of partitions.
    is_written = point is FailPoint.AFTER_TOPIC_WRITE
    assert errors == [ErrorCode.INVALID_PARTITIONS if is_written else ErrorCode.NONE]
    created = cluster.world.trace.events(EventKind.PARTITIONS_CREATED)
    assert len(created) == (not is_written)


def test_partitions_are_added_while_a_broker_is_away_and_it_follows_once_it_is_back(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()

    async def story(c: Cluster) -> None:
        await c.begin()
        away = c.follower()
        c.world.kill(away)
        await c.client.create_partitions(TOPIC, 3, 3_000)
        c.world.start(away)
        error = await c.client.create_partitions(TOPIC, 3, WITHIN_MS)
        assert error in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS)
        await c.world.eventually(
            lambda: is_led_and_replicated(c, 3), 60_000, "three replicated partitions"
        )
        elected = await c.client.elect_leaders(ElectionType.PREFERRED, None, WITHIN_MS)
        assert elected.error is ErrorCode.NONE
        for partition in (1, 2):
            await write_and_read(c, partition)

    cluster.run(story)
