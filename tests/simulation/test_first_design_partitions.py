"""Partitions that are added without a controller (preset v2)."""

from __future__ import annotations

from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    StateChange,
    StateChangeRequest,
    encode_request,
    request_prefix,
)
from highwater_core.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, TopicPartition
from highwater_core.topic_znode import Reassignment, encode_topic
from highwater_core.znodes import topic_path
from tests.support.first_design_cluster import AT, WITHIN_MS, Cluster

ENOUGH_MS = 2_000
Replicas = tuple[tuple[NodeId, ...], ...]


async def add(c: Cluster, total: int, given: Replicas | None = None, topic: str = "t") -> ErrorCode:
    return await c.client.create_partitions(topic, total, ENOUGH_MS, given)


async def led(c: Cluster, count: int) -> None:
    """Wait until the topic has so many partitions, with all replicas in sync."""

    def are() -> bool:
        assignment = c.topic().assignment
        return len(assignment) == count and all(
            c.world.is_replicated(at, replicas) for at, replicas in assignment.items()
        )

    await c.until(are, f"t has {count} partitions")


def test_added_partitions_are_led_and_take_records() -> None:
    async def story(c: Cluster) -> None:
        before = c.replicas()
        assert await add(c, 4) is ErrorCode.NONE
        await led(c, 4)
        assert c.replicas() == before
        for number in range(4):
            outcome = await c.client.send("t", number, "a", WITHIN_MS)
            assert outcome.error == ""
        await c.until(lambda: not any(map(c.queue, c.world.brokers)), "all requests are read")

    cluster = Cluster(4)
    cluster.run(story)
    (created,) = cluster.told(EventKind.PARTITIONS_CREATED)
    assert created.detail["first_partition"] == 1
    assert [len(each) for each in created.detail["assignment"]] == [3, 3, 3]


def test_given_replicas_are_taken_and_a_broker_that_is_down_comes_later() -> None:
    async def story(c: Cluster) -> None:
        down = c.replicas()[0]
        given = tuple(NodeId(each) for each in c.replicas())
        assert await add(c, 2, (given,)) is ErrorCode.NONE
        c.world.kill(down)
        assert await add(c, 3, (given,)) in (
            ErrorCode.NONE,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # its session is over already
        )
        c.world.start(down)
        await c.until(lambda: c.live() == (0, 1, 2), "it is back")
        if len(c.topic().assignment) == 2:
            assert await add(c, 3, (given,)) is ErrorCode.NONE
        await led(c, 3)
        assert c.topic().assignment[TopicPartition("t", 2)] == given

    Cluster().run(story)


def test_what_cannot_be_added_is_refused() -> None:
    async def story(c: Cluster) -> None:
        zero, one, nine = NodeId(0), NodeId(1), NodeId(9)
        assert await add(c, 1) is ErrorCode.INVALID_PARTITIONS
        assert await add(c, 3, topic="nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for given in (((zero, one),), ((zero, one, nine),), ((0, 1, 2), (0, 1, 2))):
            refused = await add(c, 2, given)  # type: ignore[arg-type]
            assert refused is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        content = c.topic()
        moved = {0: Reassignment(adding=(content.assignment[AT][0],))}
        by_number = {at.partition: each for at, each in content.assignment.items()}
        c.world.kill(c.leader())  # nobody ends the move meanwhile
        await c.hand.set(topic_path("t"), encode_topic(by_number, NO_TOPIC_ID, moved))
        assert await add(c, 2) is ErrorCode.REASSIGNMENT_IN_PROGRESS
        assert c.topic().assignment == content.assignment

    Cluster(session_timeout_ms=20_000).run(story)


def test_a_full_queue_refuses_all_of_it() -> None:
    async def story(c: Cluster) -> None:
        old = NodeId(next(each for each in c.replicas() if each != c.leader()))
        given = tuple(NodeId(each) for each in c.replicas())
        c.world.pause(old)
        for number in range(4):
            closing = StateChangeRequest(
                StateChange.CLOSE_REPLICA, TopicPartition("gone", number), LeaderEpoch(0)
            )
            await c.hand.create(request_prefix(old), encode_request(closing), sequential=True)
        assert await add(c, 2, (given,)) is ErrorCode.POLICY_VIOLATION
        assert len(c.topic().assignment) == 1
        c.world.resume(old)

    Cluster(state_change_queue_max_requests=4, session_timeout_ms=9_000).run(story)


def test_a_topic_that_is_deleted_takes_its_added_partitions_along() -> None:
    async def story(c: Cluster) -> None:
        assert await add(c, 3) is ErrorCode.NONE
        await led(c, 3)
        assert await c.client.delete_topic("t", WITHIN_MS) is ErrorCode.NONE
        partitions = [TopicPartition("t", number) for number in range(3)]
        await c.until(
            lambda: (
                not any(
                    c.world.hosted(broker, at) for broker in c.world.brokers for at in partitions
                )
            ),
            "no replica is left",
        )

    Cluster().run(story)
