"""Throttles the replication of a partition that is moved, and lifts that, by configurations.

Source: KIP-73; Apache Kafka's kafka-reassign-partitions.sh with --throttle, and --verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import alter_configs, describe_configs
from highwater.cluster.partitions import (
    PartitionRefused,
    assigned_replicas,
    list_reassignments,
    reassign,
)
from highwater.errors import HarnessError
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    ConfigOwner,
)
from highwater_core.ids import TopicPartition
from highwater_core.topic_configs import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS
from highwater_wire.kafka.config_messages import ConfigAlteration, ConfigOperationType

_RATES = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE)
_REPLICAS = (LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS)


def throttle_move(
    cluster: Cluster, at: TopicPartition, target: Sequence[int], bytes_per_s: int
) -> None:
    """Throttle the replication that moves the partition's replicas, on each broker that takes part.

    Brokers with a replica are throttled as leaders, brokers that get one as followers.

    Raises:
        ConfigRefused: a configuration could not be set; some may be.
        PartitionRefused: there is no such partition.
    """
    here = [int(broker) for broker in assigned_replicas(cluster, at)]
    coming = [broker for broker in target if broker not in here]
    append = ConfigOperationType.APPEND
    lists = zip(_REPLICAS, (here, coming), strict=True)
    changes = [ConfigAlteration(name, append, _entries(at, brokers)) for name, brokers in lists]
    alter_configs(cluster, _topic(at), tuple(changes))
    rates = tuple(
        ConfigAlteration(name, ConfigOperationType.SET, str(bytes_per_s)) for name in _RATES
    )
    for broker in (*here, *coming):
        alter_configs(cluster, _broker(broker), rates)


def reassign_throttled(
    cluster: Cluster, at: TopicPartition, target: Sequence[int], bytes_per_s: int
) -> None:
    """Start to move the partition's replicas, at no more than that rate.

    The throttle is lifted again where no move has begun, as far as brokers still answer.

    Raises:
        ConfigRefused: a configuration could not be set.
        PartitionRefused: the move did not begin, or the outcome is unknown.
    """
    unknown = [broker for broker in target if broker not in cluster.topology.broker_ids]
    if unknown:
        raise PartitionRefused(f"{at}: the cluster has no broker {unknown[0]}")
    try:
        throttle_move(cluster, at, target, bytes_per_s)
        reassign(cluster, at, target)
    except HarnessError:
        with suppress(HarnessError):
            if not list_reassignments(cluster, [at]):
                lift_throttle(cluster, at)
        raise


def is_throttled(cluster: Cluster, at: TopicPartition) -> bool:
    """Return whether the partition's replicas are in a list of throttled replicas."""
    values = {each.name: each.value or "" for each in describe_configs(cluster, _topic(at))}
    entries = ",".join(values[name] for name in _REPLICAS).split(",")
    return any(entry.startswith(f"{at.partition}:") for entry in entries)


def lift_throttle(cluster: Cluster, at: TopicPartition) -> None:
    """Lift the throttle of the partition's replicas; rates stay while any partition is being moved.

    Raises:
        ConfigRefused: a configuration could not be set; some may be.
    """
    brokers = cluster.topology.broker_ids
    entries = _entries(at, map(int, brokers))
    subtract, delete = ConfigOperationType.SUBTRACT, ConfigOperationType.DELETE
    changes = tuple(ConfigAlteration(name, subtract, entries) for name in _REPLICAS)
    alter_configs(cluster, _topic(at), changes)
    if not list_reassignments(cluster):
        rates = tuple(ConfigAlteration(name, delete, None) for name in _RATES)
        for broker in brokers:
            alter_configs(cluster, _broker(int(broker)), rates)


def _entries(at: TopicPartition, brokers: Iterable[int]) -> str:
    return ",".join(f"{at.partition}:{broker}" for broker in brokers)


def _topic(at: TopicPartition) -> ConfigOwner:
    return ConfigOwner(ConfigEntity.TOPIC, at.topic)


def _broker(broker: int) -> ConfigOwner:
    return ConfigOwner(ConfigEntity.BROKER, str(broker))
