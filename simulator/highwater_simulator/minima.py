"""A topic's min.insync.replicas, from its configuration at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater_core import znodes

if TYPE_CHECKING:
    from highwater_simulator.world import World

KEY = "min.insync.replicas"
_DEFAULT = 1


def configured_minimum(world: World, topic: str) -> int:
    """Return the value in the topic's configuration in ZooKeeper, else the default."""
    path = znodes.topic_config_path(topic)
    found = world.zookeeper.data(path)
    if found is None:
        return _DEFAULT
    config = znodes.decode(znodes.TopicConfigZnode, found[0], path).config
    return int(config.get(KEY, _DEFAULT))


def least_in_sync(world: World, topic: str, replica_count: int) -> int:
    """Return the number in effect; more than there are replicas means all (KAFKA-15583)."""
    return min(configured_minimum(world, topic), replica_count)
