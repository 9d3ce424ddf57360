"""A leader cannot read one partition's records: followers and consumers of others go on.

It makes no difference whether records are read when the answer leaves or sent from their file.
"""

from __future__ import annotations

import pytest

from highwater_chaos.faults import DiskOperation
from highwater_chaos.plan import Network, PlanTopology
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, LeaderEpoch, Offset, TopicPartition
from highwater_core.ports import CallFailed
from highwater_simulator.client import SimulatedClient
from highwater_simulator.world import CLIENT_PORT, EXTERNAL_PORT, World
from highwater_wire.kafka.messages import CONSUMER, FetchPartition, FetchRequest, FetchResponse

TOPICS = tuple(f"x{number}" for number in range(7))
WITHIN_MS = 60_000


async def led_by_one(world: World, client: SimulatedClient) -> tuple[int, list[str]]:
    """Return a broker and at least three topics that it leads, with a record in each."""
    world.start_all()
    led: dict[int, list[str]] = {}
    for topic in TOPICS:
        assert await client.create_topic(topic, 1, 3, WITHIN_MS) is ErrorCode.NONE
        assert not (await client.send(topic, 0, "first", WITHIN_MS)).error
        state = world.partition_state(TopicPartition(topic, 0))
        assert state is not None
        led.setdefault(int(state.leader), []).append(topic)
    return max(led.items(), key=lambda item: len(item[1]))


async def read_all(
    world: World, reader: SimulatedClient, leader: int, topics: list[str], port: int
) -> dict[str, ErrorCode]:
    """Return each topic's error for a consumer of all; topics without errors have records."""
    items = tuple(FetchPartition(topic, 0, Offset(0), 1 << 20, LeaderEpoch(-1)) for topic in topics)
    request = FetchRequest(CONSUMER, 100, 1, 1 << 20, items)
    for _ in range(2):
        try:
            response = await reader.transport.call(
                Endpoint(world.brokers[leader].name, port), "r", request, 5_000
            )
        except CallFailed:
            continue  # a file that fails while it is sent ends one connection
        assert isinstance(response, FetchResponse)
        for each in response.partitions:
            assert bool(each.records) is (each.error is ErrorCode.NONE)
        return {each.topic: each.error for each in response.partitions}
    raise AssertionError("no answer")


@pytest.mark.parametrize("sends_file_from_bytes", [1, 1 << 20], ids=["sent", "read"])
def test_one_unreadable_batch_stops_nothing_else_of_its_leader(sends_file_from_bytes: int) -> None:
    world = World(
        1,
        PlanTopology(brokers=3, controllers=1),
        Network(sends_file_from_bytes=sends_file_from_bytes),
    )

    client = world.client("writer")
    reader = world.client("reader")

    async def story() -> None:
        leader, (bad, *sound) = await led_by_one(world, client)
        world.brokers[leader].disk.fail(DiskOperation.READ, within=f"{bad}-0/")
        assert (await client.send(bad, 0, "never replicated", 2_000)).error
        for topic in sound:
            assert not (await client.send(topic, 0, "second", 5_000)).error
        await world.sleep(40_000)
        for topic in sound:
            state = world.partition_state(TopicPartition(topic, 0))
            assert state is not None
            assert len(state.isr) == 3
        expected = {bad: ErrorCode.KAFKA_STORAGE_ERROR, **dict.fromkeys(sound, ErrorCode.NONE)}
        for port in (CLIENT_PORT, EXTERNAL_PORT):
            assert (
                await read_all(world, reader, leader, [sound[0], bad, *sound[1:]], port) == expected
            )

    try:
        world.run(story(), 600_000)
    finally:
        world.close()
