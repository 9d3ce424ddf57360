"""A ZooKeeper that lost its data: brokers keep their logs, and say why they end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater_chaos.plan import PlanTopology
from highwater_checker.stories.entries import Note
from highwater_core.ids import TopicPartition
from highwater_simulator.world import World

T = TopicPartition("orders", 0)
RECORDS = 20


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1, PlanTopology())
    yield made
    made.close()


def log_bytes(world: World) -> dict[int, int]:
    """Return the size of the topic's segments on each broker's disk."""
    found = {}
    for broker in world.brokers:
        files = world.handle(broker).disk.files()
        segments = [path for path in files if path.endswith(".log") and f"{T}/" in path]
        found[broker] = sum(len(files[path]) for path in segments)
    return found


async def write(world: World) -> dict[int, int]:
    """Start the cluster and write to the topic; return the size of its logs."""
    world.start_all()
    client = world.client("client-0")
    await client.create_topic(T.topic, 1, 3, 30_000)
    for number in range(RECORDS):
        await client.send(T.topic, 0, f"record-{number}", 30_000)
    await world.eventually(lambda: world.is_replicated(T, world.brokers), 30_000, "replicated")
    written = log_bytes(world)
    assert all(written.values())
    return written


def ended(world: World) -> dict[str, str]:
    """Return why nodes could not go on, by name."""
    notes = (each.event for each in world.trace.entries if isinstance(each.event, Note))
    return {note.who: note.detail["why"] for note in notes if note.what == "cannot start"}


def test_brokers_that_start_beside_an_empty_zookeeper_keep_their_logs(world: World) -> None:
    """Found: its controller listed no topics, and every log of every broker was removed."""

    async def story() -> None:
        written = await write(world)
        for node in (*world.brokers, *world.controllers):
            world.request_stop(node)
        await world.sleep(20_000)
        world.zookeeper.lose_data()
        for node in (*world.brokers, *world.controllers):
            world.start(node)
        await world.sleep(60_000)
        assert log_bytes(world) == written
        assert sorted(ended(world)) == ["broker-0", "broker-1", "broker-2"]
        assert "it lost its data" in ended(world)["broker-0"]

    world.run(story(), 900_000)


def test_running_brokers_whose_zookeeper_loses_its_data_end_with_their_logs(world: World) -> None:
    async def story() -> None:
        written = await write(world)
        world.zookeeper.lose_data()
        await world.sleep(60_000)
        assert log_bytes(world) == written
        assert sorted(ended(world)) == ["broker-0", "broker-1", "broker-2"]
        assert "it lost its data" in ended(world)["broker-0"]

    world.run(story(), 900_000)
