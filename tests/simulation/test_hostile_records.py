"""Hostile records and configurations harm their own topic only; every broker lives on."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c

from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_simulator.clocks import NS_PER_MS, WALL_CLOCK_START_MS
from highwater_simulator.world import World
from highwater_wire.kafka.codec import encode_response
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from highwater_wire.kafka.record_batch import CRC_START, build_batch

HOSTILE = TopicPartition("hostile", 0)

Cluster = Any
"""conftest.Cluster."""


def batch(world: World, offset: int = 0, **changes: int) -> bytes:
    """Return a batch of one record with the present time, some fields replaced, and a right CRC.

    It is so long that each next batch gets an index entry.
    """
    now_ms = WALL_CLOCK_START_MS + world.kernel.time_ns // NS_PER_MS
    data = bytearray(build_batch([(None, b"x" * 5_000, now_ms)], offset, 0))
    places = {"attributes": (21, ">h"), "last_delta": (23, ">i"), "count": (57, ">i")}
    places |= {"base_timestamp": (27, ">q"), "max_timestamp": (35, ">q")}
    for field, value in changes.items():
        position, layout = places[field]
        struct.pack_into(layout, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(data[CRC_START:]))
    return bytes(data)


async def ask(cluster: Cluster, request: Any, version: int) -> Any:
    """Return the partition's leader's answer, which must be encodable."""
    await cluster.world.eventually(lambda: leads(cluster), 60_000, "a leader")
    node = cluster.world.broker_node(cluster.leader(HOSTILE))
    response = await node.handle_kafka(request, "CLIENT")
    encode_response(response, version, 1)
    return response.partitions[0]


def leads(cluster: Cluster) -> bool:
    state = cluster.world.partition_state(HOSTILE)
    if state is None or state.leader < 0:
        return False
    hosted = cluster.world.hosted(int(state.leader), HOSTILE)
    return hosted is not None and hosted.is_leader


async def produce(cluster: Cluster, records: bytes, acks: int = 1) -> ErrorCode:
    item = ProducePartition(*HOSTILE, records)
    found = await ask(cluster, ProduceRequest(acks, 30_000, (item,)), 8)
    return found.error  # type: ignore[no-any-return]


async def use(cluster: Cluster) -> None:
    """Look offsets up, and fetch the records."""
    for timestamp in (0, 1, 2**62, 2**63 - 1):
        item = ListOffsetsPartition(*HOSTILE, timestamp)
        await ask(cluster, ListOffsetsRequest(NodeId(-1), (item,), 5), 5)
    start = cluster.world.hosted(cluster.leader(HOSTILE), HOSTILE).log_start_offset
    fetch = FetchPartition(*HOSTILE, start, 1 << 20)
    await ask(cluster, FetchRequest(NodeId(-1), 0, 1, 1 << 20, (fetch,)), 11)


HIGH_WATERMARKS_CHECKPOINTED_MS = 11_000
"""Twice the interval of checkpoints, and more."""


async def all_live_through_restarts(cluster: Cluster) -> None:
    world = cluster.world
    for _ in range(2):
        assert all(handle.is_running for handle in world.brokers.values())
        await cluster.send(5)
        await use(cluster)
        await world.sleep(HIGH_WATERMARKS_CHECKPOINTED_MS)  # else v3 may truncate its records
        for broker_id in world.brokers:
            world.kill(broker_id)
        for broker_id in world.brokers:
            world.start(broker_id)
        await cluster.full_isr()
    assert await produce(cluster, batch(world), acks=-1) is ErrorCode.NONE
    await copied_everywhere(cluster)


async def copied_everywhere(cluster: Cluster) -> None:
    world = cluster.world
    await world.eventually(lambda: world.is_replicated(HOSTILE, world.brokers), 60_000, "copies")


async def begin(cluster: Cluster) -> None:
    await cluster.begin(5)
    assert await cluster.client.create_topic(HOSTILE.topic, 1, 3, 60_000) is ErrorCode.NONE


def test_records_that_no_honest_client_sends(cluster: Cluster) -> None:
    async def story(c: Cluster) -> None:
        await begin(c)
        most = 2**31 - 1
        giant = batch(c.world, count=most, last_delta=most - 1, attributes=1)
        for records in (
            batch(c.world) * 4,
            giant,
            giant * 4,
            batch(c.world, base_timestamp=2**63 - 1, max_timestamp=2**63 - 1),
            batch(c.world, base_timestamp=-(2**63), max_timestamp=2**62),
            batch(c.world, max_timestamp=2**62),
            batch(c.world, count=-1),
            batch(c.world, last_delta=-1),
            b"",
        ):
            assert await produce(c, records) is not ErrorCode.NONE
        await all_live_through_restarts(c)

    cluster.run(story)


def test_records_that_an_earlier_builds_leader_took(cluster: Cluster) -> None:
    """Followers copy the records and lead; all brokers restart with them on their disks."""

    async def story(c: Cluster) -> None:
        await begin(c)
        await c.world.eventually(lambda: leads(c), 60_000, "a leader")
        leader = c.world.hosted(c.leader(HOSTILE), HOSTILE)
        most, end = 2**31 - 1, 0
        records = batch(c.world, base_timestamp=-(2**63), max_timestamp=2**63 - 1)
        for _ in range(5):
            end += 1
            records += batch(c.world, end, count=most, last_delta=most - 1, attributes=1)
            end += most - 1
        leader.log.append_as_follower(records, 0)
        leader.changed()
        await copied_everywhere(c)
        await all_live_through_restarts(c)

    cluster.run(story)


@pytest.mark.parametrize("name", ["max.message.bytes", "segment.bytes", "segment.ms"])
def test_the_least_that_a_topic_may_be_configured_with(cluster: Cluster, name: str) -> None:
    async def story(c: Cluster) -> None:
        await c.begin(5)
        least = {"max.message.bytes": "0", "segment.bytes": "14", "segment.ms": "1"}[name]
        error = await c.client.create_topic(HOSTILE.topic, 1, 3, 60_000, ((name, least),))
        assert error is ErrorCode.NONE
        error = await produce(c, batch(c.world))
        assert (
            error.name
            in {
                "max.message.bytes": ("MESSAGE_TOO_LARGE",),
                "segment.bytes": ("RECORD_LIST_TOO_LARGE",),
                "segment.ms": ("NONE",),
            }[name]
        )
        for broker_id in c.world.brokers:
            c.world.kill(broker_id)
        for broker_id in c.world.brokers:
            c.world.start(broker_id)
        await c.full_isr()
        await c.send(5)

    cluster.run(story)
