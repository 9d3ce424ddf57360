"""Replication quotas in a whole cluster: the fetches that they slow down, and the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.fetcher import _Followed
from highwater_broker.partition import Partition
from highwater_core.admin_messages import ConfigEntity, ReassignmentItem
from highwater_core.config_layers import FOLLOWER_THROTTLED_RATE, LEADER_THROTTLED_RATE
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.topic_configs import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement
from highwater_simulator.replicas_on_disk import read_replica
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigOperationType,
)
from highwater_wire.kafka.messages import FetchRequest
from tests.support.verification import verify

Cluster = Any
"""conftest.Cluster."""
MOVED = TopicPartition("moved", 0)
WITHIN_MS = 30_000
RECORDS, VALUE_BYTES = 60, 5_000
RATE = 40_000
PIECE_BYTES = 12_000
"""The bytes of a partition in one fetch: two records."""
SIDES = {
    "leader": (LEADER_THROTTLED_REPLICAS, LEADER_THROTTLED_RATE),
    "follower": (FOLLOWER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_RATE),
}


async def alter(c: Cluster, entity: ConfigEntity, name: str, key: str, value: str | None) -> None:
    kind = ConfigOperationType.DELETE if value is None else ConfigOperationType.SET
    resource = AlteredResource(int(entity), name, (ConfigAlteration(key, kind, value),))
    (result,) = await c.client.alter_configs((resource,), WITHIN_MS)
    assert result.error is ErrorCode.NONE, result.message


async def throttle(c: Cluster, side: str, rate: int | None) -> None:
    """Throttle the topic's replicas on one side; None ends the throttle."""
    replicas_key, rate_key = SIDES[side]
    await alter(c, ConfigEntity.BROKER, "", rate_key, None if rate is None else str(rate))
    await alter(c, ConfigEntity.TOPIC, MOVED.topic, replicas_key, None if rate is None else "*")
    await c.world.sleep(200)  # brokers have read it by then


async def start(c: Cluster, replicas: int, records: int = RECORDS) -> None:
    """Start a topic with records, on the first brokers."""
    c.world.start_all()
    assert await c.client.create_topic(MOVED.topic, 1, replicas, WITHIN_MS) is ErrorCode.NONE
    await send(c, records)


async def send(c: Cluster, count: int, value_bytes: int = VALUE_BYTES) -> int:
    """Send records, one after another; return the duration in ms."""
    begin_ms = c.client.runtime.now_ms()
    for _ in range(count):
        value = f"record-{c.sent:05}-".ljust(value_bytes, ".")
        outcome = await c.client.send(MOVED.topic, 0, value, WITHIN_MS)
        assert outcome.type == "ok"
        c.sent += 1
    return int(c.client.runtime.now_ms() - begin_ms)


def isr(c: Cluster) -> tuple[int, ...]:
    state = c.world.partition_state(MOVED)
    return () if state is None else tuple(int(broker) for broker in state.isr)


async def begin_to_move(c: Cluster) -> Callable[[], bool]:
    """Begin to move the replicas to the two other brokers; return a test whether that is done."""
    target = tuple(NodeId(broker) for broker in c.world.brokers if broker not in isr(c))
    assert len(target) == 2
    await c.client.alter_reassignments((ReassignmentItem(MOVED, target),), WITHIN_MS)
    return lambda: sorted(isr(c)) == sorted(target)


@pytest.fixture
def four(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster(brokers=4, broker_settings={"replica_fetch_max_bytes": PIECE_BYTES})


def run(c: Cluster, story: Callable[[], Any]) -> None:
    c.world.run(story(), 900_000)
    assert verify(c.world, c.client.history, MOVED, isr(c)) == []
    ends = {read_replica(c.world, broker, MOVED).log_end_offset for broker in isr(c)}
    assert ends == {c.sent}


@pytest.mark.parametrize("side", [*SIDES, None])
def test_a_throttled_move_takes_its_bytes_by_the_rate(four: Cluster, side: str | None) -> None:
    """Two replicas are added: the leader sends to both, each follower fetches for one."""
    c = four
    took_ms = -1

    async def story() -> None:
        nonlocal took_ms
        await start(c, 2)
        if side is not None:
            await throttle(c, side, RATE)
        begin_ms = c.client.runtime.now_ms()
        await c.world.eventually(await begin_to_move(c), 60_000, "the move")
        took_ms = c.client.runtime.now_ms() - begin_ms

    run(c, story)
    if side is None:
        assert took_ms < 1_500
    else:
        size_bytes = RECORDS * VALUE_BYTES * (2 if side == "leader" else 1)
        needed_ms = size_bytes * 1_000 // RATE
        assert 0.8 * needed_ms <= took_ms <= 1.3 * needed_ms


@pytest.mark.parametrize("side", SIDES)
def test_a_throttle_that_is_lifted_lets_the_move_end_at_once(four: Cluster, side: str) -> None:
    c = four

    async def story() -> None:
        await start(c, 2)
        await throttle(c, side, 100)
        is_moved = await begin_to_move(c)
        await c.world.sleep(20_000)
        assert not is_moved()
        await throttle(c, side, None)
        await c.world.eventually(is_moved, 3_000, "the move")

    run(c, story)


def test_fetches_of_nothing_but_throttled_partitions_wait(four: Cluster) -> None:
    """The leader holds such a fetch for its longest wait; the followers pause."""
    c = four
    fetches: list[int] = []

    def count(broker: int, request: object, response: object) -> None:
        if isinstance(request, FetchRequest) and request.replica_id >= 0:
            fetches.append(broker)

    async def story() -> None:
        await start(c, 2)
        for side in SIDES:
            await throttle(c, side, 500)
        is_moved = await begin_to_move(c)
        await c.world.sleep(2_000)
        c.world.on_reply = count
        await send(c, 50, 100)  # which ends the waiting fetches of followers in sync, and no others
        fetches.clear()
        await c.world.sleep(20_000)
        idle = len(fetches)
        assert not is_moved()
        assert 0 < idle <= 3 * 20_000 // 500 + 10  # each follower waits half a second each time
        for side in SIDES:
            await throttle(c, side, None)
        await c.world.eventually(is_moved, 3_000, "the move")

    run(c, story)


async def write_in_sync(c: Cluster) -> int:
    """Write to replicas in sync under a very low throttle; return the duration in ms."""
    await start(c, 3)
    for side in SIDES:
        await throttle(c, side, 10)
    return await send(c, RECORDS)


def has_shrunk(c: Cluster) -> bool:
    changes = c.world.trace.events(EventKind.ISR_CHANGED)
    return any(len(each.detail["isr"]) < 3 for each in changes if each.topic_partition == MOVED)


def test_replicas_in_sync_are_not_slowed(make_cluster: Callable[..., Cluster]) -> None:
    c = make_cluster(brokers=3)
    took_ms = -1

    async def story() -> None:
        nonlocal took_ms
        took_ms = await write_in_sync(c)

    run(c, story)
    assert took_ms < RECORDS * 50
    assert sorted(isr(c)) == [0, 1, 2]
    assert not has_shrunk(c)


HOLDS_BACK_WHO_IS_IN_SYNC = {
    "leader": Replacement(
        Partition,
        "holds_back",
        lambda self, replica: (
            self.throttling.as_leader and self._context.quotas.leader.is_exceeded()
        ),
    ),
    "follower": Replacement(
        _Followed, "is_held_back", property(lambda self: self.partition.is_held_back)
    ),
}


@pytest.mark.parametrize("side", SIDES)
def test_a_throttle_that_held_replicas_in_sync_back_would_be_seen(
    make_cluster: Callable[..., Cluster], side: str
) -> None:
    """Planted: the ISR shrinks, and clients wait."""
    c = make_cluster(brokers=3)
    planted = PlantedBug(
        name="in_sync_held_back",
        summary="a throttle holds back who is in sync, too",
        source="own; KIP-73",
        breaks=(),
        shows_under=(FaultFamily.NONE,),
        replacements=(HOLDS_BACK_WHO_IS_IN_SYNC[side],),
    )
    with planted.apply():
        c.world.run(write_in_sync(c), 900_000)
    assert has_shrunk(c)
