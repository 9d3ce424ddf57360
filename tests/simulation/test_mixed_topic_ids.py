"""Topics with ids beside one without: a cluster of preset v3 is restarted with preset fenced."""

from __future__ import annotations

from msgspec.structs import replace

from highwater_chaos.plan import Network, PlanTopology
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_simulator.world import World
from tests.support.failover_story import ORDERS, create_orders

NEW = tuple(TopicPartition("new", number) for number in range(3))
ALL = (ORDERS, *NEW)


def test_a_topic_without_an_id_stops_the_replication_of_no_other() -> None:
    """The brokers that take over the topic without an id lead partitions of others already."""
    world = World(5, PlanTopology(preset=Preset.V3, controllers=1), Network(through_codecs=True))
    client = world.client("client-0")
    nodes = (*world.controllers, *world.brokers)

    async def replicated(what: str, *partitions: TopicPartition) -> None:
        await world.eventually(
            lambda: all(world.is_replicated(each, world.brokers) for each in partitions),
            60_000,
            what,
        )

    async def story() -> None:
        world.start_all()
        await create_orders(world, client)
        for node in nodes:
            world.kill(node)
        await world.sleep(20_000)
        world.topology = replace(world.topology, preset=Preset.FENCED)
        for node in nodes:
            world.start(node)
        await replicated("the topic without an id", ORDERS)
        at_least_two = (("min.insync.replicas", "2"),)
        error = await client.create_topic("new", len(NEW), 3, 10_000, at_least_two)
        assert error is ErrorCode.NONE
        await replicated("the topic with an id", *ALL)
        state = world.partition_state(ORDERS)
        assert state is not None
        world.kill(int(state.leader))
        await world.sleep(10_000)
        world.start(int(state.leader))
        await replicated("both topics, after another took the lead", *ALL)
        for at in ALL:
            sent = await client.send(at.topic, at.partition, "once more", 10_000)
            assert not sent.error

    world.run(story(), 600_000)
    world.close()
