"""Leadership goes back and forth between two brokers, of which only one is up at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_simulator.client import SimulatedClient
from highwater_simulator.replicas_on_disk import read_replica
from highwater_simulator.world import World
from tests.support.verification import find_differences

T0 = TopicPartition("t", 0)
UNCLEAN = (("unclean.leader.election.enable", "true"),)


async def write_alone(world: World, client: SimulatedClient, leader: int, *values: str) -> None:
    """Start a broker, wait until it leads, write with acks=1 and kill it."""
    world.start(leader)
    await leads(world, leader)
    for value in values:
        outcome = await client.send("t", 0, value, 30_000, acks=1)
        assert outcome.offset >= 0
    world.kill(leader)
    await world.sleep(10_000)  # its session ends


async def leads(world: World, leader: int) -> None:
    def is_led() -> bool:
        state = world.partition_state(T0)
        return state is not None and int(state.leader) == leader

    await world.eventually(is_led, 30_000, f"broker {leader} leads")


@pytest.mark.parametrize(
    ("truncation", "differs"), [("leader_epoch", False), ("leader_epoch_offset_only", True)]
)
def test_logs_agree_after_fast_leader_changes_only_with_the_epoch_in_the_answer(
    truncation: str, differs: bool, make_cluster: Callable[..., Any]
) -> None:
    """Each broker has epochs that the other one lacks. Source: KIP-279, KAFKA-6361."""
    cluster = make_cluster(brokers=2, controllers=1, toggles={"truncation": truncation})
    world, client = cluster.world, cluster.client

    async def story(c: Any) -> None:
        world.start_all()
        assert await client.create_topic("t", 1, 2, 30_000, UNCLEAN) is ErrorCode.NONE
        await client.send("t", 0, "m0", 30_000)
        await world.eventually(lambda: world.is_replicated(T0, (0, 1)), 30_000, "both have m0")
        world.kill(0)
        world.kill(1)
        await world.sleep(10_000)
        await write_alone(world, client, 1, "b1 first")
        await write_alone(world, client, 0, "b0 first", "b0 second", "b0 third")
        await write_alone(world, client, 1, "b1 second")
        world.start(0)
        await leads(world, 0)
        await client.send("t", 0, "b0 fourth", 30_000, acks=1)
        await client.send("t", 0, "b0 fifth", 30_000, acks=1)
        world.start(1)
        await world.eventually(lambda: world.is_replicated(T0, (0, 1)), 60_000, "a full ISR")

    world.run(story(cluster), 600_000)
    replicas = [read_replica(world, broker, T0) for broker in (0, 1)]
    assert bool(find_differences(replicas)) is differs
