"""A topic's configuration at a moment: min.insync.replicas, and whether it is compacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from highwater_core import znodes
from highwater_core.topic_configs import CLEANUP_POLICY

if TYPE_CHECKING:
    from highwater_simulator.world import World

KEY = "min.insync.replicas"
_DEFAULT = 1


def configured_minimum(world: World, topic: str) -> int:
    """Return min.insync.replicas of the topic's configuration in ZooKeeper, else the default."""
    return int(_configured(world, topic).get(KEY, _DEFAULT))


def is_compacted(world: World, topic: str) -> bool:
    """Return whether the topic's cleanup.policy asks for compaction."""
    return "compact" in _configured(world, topic).get(CLEANUP_POLICY, "")


def _configured(world: World, topic: str) -> Mapping[str, str]:
    path = znodes.topic_config_path(topic)
    found = world.zookeeper.data(path)
    if found is None:
        return {}
    return znodes.decode(znodes.TopicConfigZnode, found[0], path).config


def least_in_sync(world: World, topic: str, replica_count: int) -> int:
    """Return the minimum in effect: never more than the number of replicas (KAFKA-15583)."""
    return min(configured_minimum(world, topic), replica_count)
