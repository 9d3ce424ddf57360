"""A controller that lost only its link to ZooKeeper: brokers ask its successor, and not it.

It learns of its successor when it has a connection again. Until then it answers from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.admin_messages import ListReassignmentsRequest, ListReassignmentsResponse
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition, node_name
from highwater_core.messages import (
    ControllerCommand,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
)
from highwater_simulator.network import Plane
from highwater_simulator.world import World
from highwater_simulator.zookeeper import HOST

T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)
SESSION_MS = 2_000
LAG_MS = 1_000


class Story:
    """Three brokers that have each asked a controller; then it is cut off from ZooKeeper."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.deposed = -1

    async def ask(self, broker: int, request: ControllerCommand, kind: type[Any]) -> Any:
        node = self.world.broker_node(broker)
        assert node is not None
        return await node._commander.call(request, kind, 60_000)

    async def create(self, broker: int, topic: str) -> None:
        request = CreateTopicsRequest((NewTopic(topic, -1, -1, ((2, 1, 0),)),), timeout_ms=20_000)  # type: ignore[arg-type]
        response = await self.ask(broker, request, CreateTopicsResponse)
        assert [each.error for each in response.results] == [ErrorCode.NONE]
        await self.world.eventually(
            lambda: self.world.is_replicated(TopicPartition(topic, 0), self.world.brokers),
            30_000,
            f"{topic} is replicated",
        )

    async def depose(self) -> None:
        """Cut the active controller off from ZooKeeper, when all brokers know where it answers."""
        world = self.world
        world.start_all()
        await self.create(0, T0.topic)
        for broker in world.brokers:
            await self.ask(broker, ListReassignmentsRequest(None), ListReassignmentsResponse)
        self.deposed = self.cluster.controller()
        successor = next(each for each in world.controllers if each != self.deposed)
        world.cut(node_name(self.deposed), HOST, Plane.ZOOKEEPER)

        def has_succeeded() -> bool:
            seen = world.snapshot(successor)
            return seen is not None and seen.active_controller

        await world.eventually(has_succeeded, 30_000, "another controller is active")
        await world.sleep(500)
        believes = world.snapshot(self.deposed)
        assert believes is not None
        assert believes.active_controller

    async def lose_a_follower(self, partition: TopicPartition) -> None:
        """Cut the leader's replication with a follower, and send a record to all."""
        state = self.world.partition_state(partition)
        assert state is not None
        lost = next(each for each in self.world.brokers if each != state.leader)
        self.world.cut(node_name(lost), node_name(state.leader), Plane.REPLICATION)
        sent = await self.cluster.client.send(partition.topic, 0, f"without {lost}", 10_000)
        assert sent.type == "ok", sent
        state = self.world.partition_state(partition)
        assert state is not None
        assert lost not in state.isr


@pytest.fixture
def story(make_cluster: Callable[..., Any]) -> Story:
    return Story(
        make_cluster(
            broker_settings={
                "session_timeout_ms": SESSION_MS,
                "replica_lag_time_max_ms": LAG_MS,
                "min_insync_replicas": 1,
            },
            controller_settings={"session_timeout_ms": SESSION_MS},
        )
    )


def test_the_leader_of_a_topic_that_was_made_since_takes_a_lost_follower_out(story: Story) -> None:
    """Found: it asked the deposed controller again and again, which knew no such topic."""

    async def whole() -> None:
        await story.depose()
        await story.create(0, U0.topic)
        await story.lose_a_follower(U0)

    story.world.run(whole(), 600_000)


def test_the_leader_of_a_topic_that_was_made_again_takes_a_lost_follower_out(
    story: Story,
) -> None:
    """Found: the deposed controller refused its topic id, and it waited for ever for a command."""

    async def whole() -> None:
        await story.depose()
        deleted = await story.ask(0, DeleteTopicsRequest((T0.topic,)), DeleteTopicsResponse)
        assert [each.error for each in deleted.results] == [ErrorCode.NONE]
        await story.create(0, T0.topic)
        await story.lose_a_follower(T0)

    story.world.run(whole(), 600_000)


def test_a_broker_hands_its_leads_over_by_the_successor(story: Story) -> None:
    """The deposed controller does not know the lead, and would answer that there is none."""

    async def whole() -> None:
        await story.depose()
        await story.create(0, U0.topic)
        state = story.world.partition_state(U0)
        assert state is not None
        leader = int(state.leader)
        story.world.request_stop(leader)
        await story.world.eventually(
            lambda: not story.world.handle(leader).is_running, 30_000, "it has stopped"
        )
        state = story.world.partition_state(U0)
        assert state is not None
        assert state.leader != leader

    story.world.run(whole(), 600_000)
