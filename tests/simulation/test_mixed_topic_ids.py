"""Topics with ids beside one without: a cluster of preset v3 is restarted with preset fenced."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from highwater_chaos.plan import Network, PlanTopology
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, TopicPartition
from highwater_core.ports import Coordination
from highwater_core.topic_znode import decode_topic, encode_topic
from highwater_core.znodes import topic_path
from highwater_simulator.world import World
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
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


@pytest.mark.parametrize("is_away", [False, True], ids=["a controller sees it", "none does"])
def test_a_tool_that_knows_no_ids_costs_no_replica_and_no_record(is_away: bool) -> None:
    """KAFKA-14190. Found: an active controller deleted all replicas; under a later one no broker
    that had been away came back into the ISR."""
    world = World(5, PlanTopology(controllers=1), Network(through_codecs=True))
    client = world.client("client-0")
    (controller,) = world.controllers
    path = topic_path(ORDERS.topic)

    async def topic_id(session: Coordination) -> str:
        return decode_topic((await session.get(path))[0], ORDERS.topic).topic_id

    async def send(value: str) -> None:
        sent = await client.send(ORDERS.topic, ORDERS.partition, value, 10_000)
        assert not sent.error

    async def replicated(what: str) -> None:
        await world.eventually(lambda: world.is_replicated(ORDERS, world.brokers), 60_000, what)

    async def story() -> None:
        world.start_all()
        await create_orders(world, client)
        await send("before")
        session = await SimulatedCoordinationFactory(world.zookeeper, client.runtime).open(60_000)
        known = await topic_id(session)
        assert known
        if is_away:
            world.kill(controller)
            await world.sleep(20_000)
        content = decode_topic((await session.get(path))[0], ORDERS.topic)
        assignment = {at.partition: replicas for at, replicas in content.assignment.items()}
        await session.set(path, encode_topic(assignment, NO_TOPIC_ID))
        if is_away:
            world.start(controller)
        await world.sleep(10_000)
        await send("after")
        for broker in world.brokers:
            world.kill(broker)
            await world.sleep(20_000)
            world.start(broker)
            await replicated(f"without and with broker {broker}")
        assert await topic_id(session) == known
        await send("at the end")

    world.run(story(), 900_000)
    assert not world.trace.events(EventKind.REPLICA_STOPPED)
    world.close()
