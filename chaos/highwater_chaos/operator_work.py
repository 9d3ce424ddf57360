"""An operator's work in the middle of a run: steps of a plan that are no faults."""

from __future__ import annotations

from highwater_chaos.fault_base import FaultBase
from highwater_core.config_layers import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    REPLICA_FETCHERS,
    UNLIMITED_RATE,
)
from highwater_core.topic_configs import (
    EVERY_REPLICA,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
)


class CreateTopic(FaultBase, frozen=True, tag="create_topic"):
    """No fault of the cluster's, but what an operator does in the middle of it all."""

    phrase = "create topic {topic}"
    topic: str
    partitions: int = 1
    replication_factor: int = 3
    records: int = 0
    """Records that are then written to its first partition."""
    min_insync_replicas: int = 1

    @property
    def configs(self) -> tuple[tuple[str, str | None], ...]:
        """The topic's configuration, without defaults."""
        minimum = str(self.min_insync_replicas)
        return (("min.insync.replicas", minimum),) if minimum != "1" else ()


class ExpandTopic(FaultBase, frozen=True, tag="expand_topic"):
    """As create_topic: a topic gets more partitions, so many in all (KIP-195).

    The plan's clients keep to the partitions that its workload gives the topic.
    """

    phrase = "expand topic {topic} to {partitions} partitions"
    topic: str
    partitions: int


class DeleteTopic(FaultBase, frozen=True, tag="delete_topic"):
    """As create_topic: an operator's work."""

    phrase = "delete topic {topic}"
    topic: str


class ChangeConfig(FaultBase, frozen=True, tag="change_config"):
    """As create_topic: a topic is configured; the simulator writes the znodes."""

    phrase = "set {key} of topic {topic} to {value}"
    topic: str
    key: str
    value: str


class MoveReplicas(FaultBase, frozen=True, tag="move_replicas"):
    """As create_topic: to brokers, preferred first; the simulator writes the admin znode."""

    phrase = "move {topic}-{partition} to brokers {replicas}"
    topic: str
    replicas: tuple[int, ...]
    partition: int = 0


class GiveUpMoving(FaultBase, frozen=True, tag="give_up_moving"):
    """As create_topic: a partition's reassignment is given up (KIP-455)."""

    phrase = "give up moving {topic}-{partition}"
    topic: str
    partition: int = 0


class ElectPreferred(FaultBase, frozen=True, tag="elect_preferred"):
    """As create_topic; the simulator writes the admin znode."""

    phrase = "have the preferred replica of {topic}-{partition} lead"
    topic: str
    partition: int = 0


class ThrottleReplication(FaultBase, frozen=True, tag="throttle_replication"):
    """As create_topic: a topic's replicas are throttled on every broker, or for None no longer."""

    phrase = "throttle topic {topic}'s replication to {bytes_per_s} bytes/s"
    topic: str
    bytes_per_s: int | None = None

    @property
    def topic_configs(self) -> dict[str, str]:
        replicas = "" if self.bytes_per_s is None else EVERY_REPLICA
        return {LEADER_THROTTLED_REPLICAS: replicas, FOLLOWER_THROTTLED_REPLICAS: replicas}

    @property
    def broker_configs(self) -> dict[str, str]:
        rate = str(UNLIMITED_RATE if self.bytes_per_s is None else self.bytes_per_s)
        return {LEADER_THROTTLED_RATE: rate, FOLLOWER_THROTTLED_RATE: rate}


class ChangeFetchers(FaultBase, frozen=True, tag="change_fetchers"):
    """As create_topic: num.replica.fetchers of every broker is set, while they serve."""

    phrase = "give every broker {count} fetchers for each leader"
    count: int

    @property
    def broker_configs(self) -> dict[str, str]:
        return {REPLICA_FETCHERS: str(self.count)}


OperatorWork = (
    CreateTopic
    | ExpandTopic
    | DeleteTopic
    | ChangeConfig
    | MoveReplicas
    | GiveUpMoving
    | ElectPreferred
    | ThrottleReplication
    | ChangeFetchers
)
