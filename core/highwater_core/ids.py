"""The types of ids, epochs and offsets, and their sentinels."""

from __future__ import annotations

from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
"""Brokers count from 0, controllers from 1000."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Raised by one on each controller write of a partition's leader or ISR."""
ControllerEpoch = NewType("ControllerEpoch", int)
"""Raised by one on each controller election."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""The czxid of the broker's registration znode (KIP-380)."""
PartitionEpoch = NewType("PartitionEpoch", int)
"""The ZooKeeper version of a partition's state znode."""
Offset = NewType("Offset", int)
"""A record's place in a partition's log; ranges are half-open."""
TopicId = NewType("TopicId", str)
"""A topic incarnation's id, 32 hex digits (KIP-516); empty when the preset has none."""
ProducerId = NewType("ProducerId", int)
"""An idempotent producer's, never given twice in a cluster (KIP-98)."""
StorageId = NewType("StorageId", str)
"""The id of a broker's log contents: a new one whenever they may have lost records."""

FIRST_CONTROLLER_ID = NodeId(1000)
NO_LEADER = NodeId(-1)
LEADER_DURING_DELETE = NodeId(-2)
"""The leader that UpdateMetadata names while a topic is being deleted."""
NO_EPOCH = LeaderEpoch(-1)
"""A request without a leader epoch, or an unknown epoch."""
DELETION_EPOCH = LeaderEpoch(-2)
"""StopReplica's leader epoch when its topic is being deleted: newer than any (KIP-570)."""
NO_CONTROLLER_EPOCH = ControllerEpoch(0)
NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_PARTITION_EPOCH = PartitionEpoch(-1)
NO_OFFSET = Offset(-1)
NO_TOPIC_ID = TopicId("")
NO_STORAGE_ID = StorageId("")


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def named(cls, text: str) -> TopicPartition:
        """Return the partition of a name such as "orders-0"; of any other, ValueError."""
        topic, _, number = text.rpartition("-")
        return cls(topic, int(number))


class Endpoint(NamedTuple):
    """Where a listener answers; the simulator's transport knows the same hosts and ports."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def is_controller(node_id: int) -> bool:
    return node_id >= FIRST_CONTROLLER_ID


def node_name(node_id: int) -> str:
    """Return the name of a node in plans, reports and folders: broker-1, controller-1000."""
    return f"{'controller' if is_controller(node_id) else 'broker'}-{node_id}"
