"""A topic's configuration at a moment: min.insync.replicas, whether it is compacted, and whether
a replica outside the ISR may lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater_core import znodes
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import EVERY_BROKER, UNCLEAN_ELECTION, ConfigOwner
from highwater_core.config_znodes import config_path
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


def is_unclean_election_allowed(world: World, topic: str) -> bool:
    """Return unclean.leader.election.enable: the topic's, else the one of all brokers."""
    of_all = _configured_of(world, EVERY_BROKER)
    return (of_all | _configured(world, topic)).get(UNCLEAN_ELECTION) == "true"


def _configured(world: World, topic: str) -> dict[str, str]:
    return _configured_of(world, ConfigOwner(ConfigEntity.TOPIC, topic))


def _configured_of(world: World, owner: ConfigOwner) -> dict[str, str]:
    path = config_path(owner)
    found = world.zookeeper.data(path)
    if found is None:
        return {}
    return znodes.decode(znodes.TopicConfigZnode, found[0], path).config


def least_in_sync(world: World, topic: str, replica_count: int) -> int:
    """Return the minimum in effect: never more than the number of replicas (KAFKA-15583)."""
    return min(configured_minimum(world, topic), replica_count)
