"""Operators' work in the middle of a run, on topics, their replicas and configurations.

They send requests to brokers where Highwater serves them, else write into ZooKeeper, as Kafka's
tools did before KIP-500. Each has a client of its own, so that its links can be cut and its
requests time out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from highwater_chaos import faults as f
from highwater_chaos.operator_work import OperatorWork
from highwater_core import znodes
from highwater_core.admin_messages import ConfigEntity, ReassignmentItem
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner
from highwater_core.config_znodes import CONFIG_CHANGE_PREFIX, config_path, encode_config_change
from highwater_core.ids import NO_TOPIC_ID, NodeId, TopicPartition
from highwater_core.ports import (
    BadVersion,
    CallFailed,
    Coordination,
    CoordinationError,
    NodeExists,
    NoNode,
)
from highwater_core.topic_znode import encode_topic
from highwater_simulator.client import SimulatedClient

if TYPE_CHECKING:
    from highwater_simulator.world import World

WITHIN_MS = 5_000
SESSION_MS = 6_000


class Operators:
    """Starts them, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0

    def start(self, work: OperatorWork) -> None:
        self._count += 1
        client = self._world.client(f"operator-{self._count}")
        client.runtime.start("operator", self._do(client, work))

    async def _do(self, client: SimulatedClient, work: OperatorWork) -> None:
        name = client.runtime.node_name
        try:
            match work:
                case f.CreateTopic(topic=topic, partitions=partitions, replication_factor=factor):
                    await client.create_topic(topic, partitions, factor, WITHIN_MS, work.configs)
                    for number in range(work.records):
                        await client.send(topic, 0, f"{name}-{number}", WITHIN_MS)
                case f.ExpandTopic(topic=topic, partitions=partitions):
                    await client.create_partitions(topic, partitions, WITHIN_MS)
                case f.DeleteTopic(topic=topic):
                    await client.delete_topic(topic, WITHIN_MS)
                case f.ChangeConfig(topic=topic, key=key, value=value):
                    session = await self._world.coordination(client).open(SESSION_MS)
                    await change_config(session, topic, {key: value})
                    await session.close()
                case f.ThrottleReplication(topic=topic):
                    session = await self._world.coordination(client).open(SESSION_MS)
                    await _set_config(session, EVERY_BROKER, work.broker_configs)
                    await change_config(session, topic, work.topic_configs)
                    await session.close()
                case f.ChangeFetchers():
                    session = await self._world.coordination(client).open(SESSION_MS)
                    await _set_config(session, EVERY_BROKER, work.broker_configs)
                    await session.close()
                case f.MoveReplicas() if not self._world.controllers:
                    at = TopicPartition(work.topic, work.partition)
                    target = tuple(NodeId(broker) for broker in work.replicas)
                    await client.alter_reassignments((ReassignmentItem(at, target),), WITHIN_MS)
                case f.MoveReplicas(topic=topic, partition=number, replicas=replicas):
                    wanted = znodes.ReassignedPartition(topic, number, list(replicas))
                    session = await self._world.coordination(client).open(SESSION_MS)
                    await _add_job(
                        session, znodes.REASSIGN_PARTITIONS, znodes.ReassignmentsZnode, wanted
                    )
                    await session.close()
                case f.GiveUpMoving(topic=topic, partition=number):
                    item = ReassignmentItem(TopicPartition(topic, number), None)
                    await client.alter_reassignments((item,), WITHIN_MS)
                case f.ElectPreferred(topic=topic, partition=number):
                    session = await self._world.coordination(client).open(SESSION_MS)
                    named = znodes.PartitionName(topic, number)
                    await _add_job(
                        session, znodes.PREFERRED_REPLICA_ELECTION, znodes.PartitionsZnode, named
                    )
                    await session.close()
        except (CallFailed, CoordinationError) as failure:
            self._world.trace.note(name, "gave up", why=str(failure))


async def change_config(session: Coordination, topic: str, changed: dict[str, str]) -> None:
    """Set a configuration of the topic, and notify brokers; nothing without the topic."""
    if await session.exists(znodes.topic_path(topic)) is None:
        return
    await _set_config(session, ConfigOwner(ConfigEntity.TOPIC, topic), changed)


async def _set_config(session: Coordination, owner: ConfigOwner, changed: dict[str, str]) -> None:
    path = config_path(owner)
    try:
        data, _ = await session.get(path)
        config = znodes.decode(znodes.TopicConfigZnode, data, path).config | changed
        await session.set(path, znodes.encode(znodes.TopicConfigZnode(config)))
    except NoNode:
        await session.create(path, znodes.encode(znodes.TopicConfigZnode(changed)))
    await session.create(CONFIG_CHANGE_PREFIX, encode_config_change(owner), sequential=True)


async def _add_job(
    session: Coordination,
    path: str,
    kind: type[znodes.PartitionsZnode | znodes.ReassignmentsZnode],
    job: Any,
) -> None:
    """Write the job into the admin znode, beside the jobs that are in it."""
    while True:
        try:
            await session.create(path, znodes.encode(kind([job])))
        except NodeExists:
            with suppress(NoNode, BadVersion):  # otherwise try again: the controller has written it
                data, stat = await session.get(path)
                listed: list[Any] = [*znodes.decode(kind, data, path).partitions, job]
                await session.set(path, znodes.encode(kind(listed)), stat.node_version)
                return
        else:
            return


async def create_in_zookeeper(
    session: Coordination, topic: str, assignment: dict[int, tuple[NodeId, ...]],
    config: dict[str, str],
) -> None:  # fmt: skip
    """Write a topic without an id; the controller finds it there."""
    await session.ensure_path(znodes.TOPICS)
    await session.ensure_path(znodes.TOPIC_CONFIGS)
    for path, data in (
        (znodes.topic_config_path(topic), znodes.encode(znodes.TopicConfigZnode(config))),
        (znodes.topic_path(topic), encode_topic(assignment, NO_TOPIC_ID)),
    ):
        with suppress(NodeExists):  # written by an earlier try whose answer was lost
            await session.create(path, data)
