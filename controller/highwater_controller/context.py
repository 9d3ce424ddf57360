"""The active controller's view: brokers, topics, leaderships, and states of partitions and
replicas. Data and look-ups only; no messages and no reads.

A context lives for one term of office: the next controller loads its own from ZooKeeper.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_core.config_layers import ConfigOwner
from highwater_core.ids import (
    NO_STORAGE_ID,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    NodeId,
    PartitionEpoch,
    StorageId,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import BrokerEndpoints
from highwater_core.ports import Stat
from highwater_core.topic_znode import Reassignment
from highwater_core.znodes import PartitionLeadership


@dataclass(frozen=True, order=True, slots=True)
class Replica:
    """One broker's replica of one partition."""

    topic_partition: TopicPartition
    broker_id: NodeId


@dataclass(frozen=True, slots=True)
class VersionedLeadership:
    """A partition state znode as last read or written, with its ZooKeeper version."""

    leadership: PartitionLeadership
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True)
class ListedReassignments:
    """The content of /admin/reassign_partitions, as this term last read or wrote it."""

    czxid: int
    node_version: int
    targets: Mapping[TopicPartition, tuple[NodeId, ...]]

    def is_as_in(self, stat: Stat) -> bool:
        return (self.czxid, self.node_version) == (stat.czxid, stat.node_version)

    def written_on(self, stat: Stat) -> ListedReassignments:
        """Return it after a write of this term on that version; still unknown if it was."""
        version = self.node_version + 1 if self.is_as_in(stat) else self.node_version
        return replace(self, node_version=version)

    def without(self, gone: Set[TopicPartition]) -> ListedReassignments:
        left = {at: target for at, target in self.targets.items() if at not in gone}
        return replace(self, targets=left)


NOTHING_LISTED = ListedReassignments(-1, -1, {})


@dataclass(slots=True)
class ControllerContext:
    """The controller's view of the cluster, for one term.

    Invariants: no two topics have one id, since brokers identify a log by it; every key of
    leaderships and partition_states is assigned; live_brokers sorts by id; a broker that shuts down
    is still live, but may not be elected.
    """

    controller_id: NodeId
    controller_epoch: ControllerEpoch
    trigger: str = "Failover"
    """The event or request that is being handled, traced with each change of state."""
    live_brokers: dict[NodeId, BrokerEndpoints] = field(default_factory=dict)
    storage_ids: dict[BrokerEpoch, StorageId] = field(default_factory=dict)
    """The storage ids, by registration."""
    shutting_down: set[NodeId] = field(default_factory=set)
    suspected: set[NodeId] = field(default_factory=set)
    """Live brokers that seem to have died, while leads are taken from them."""
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    _topics_by_id: dict[TopicId, str] = field(default_factory=dict)
    _assignments: dict[TopicPartition, tuple[NodeId, ...]] = field(default_factory=dict)
    _partitions_by_topic: dict[str, list[TopicPartition]] = field(default_factory=dict)
    """Sorted: a cluster may have thousands of topics, and each is looked for by its name."""
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    """The reassignments of partitions whose replicas are being moved."""
    listed_reassignments: ListedReassignments = NOTHING_LISTED
    ended_reassignments: dict[TopicPartition, None] = field(default_factory=dict)
    """Listed partitions whose reassignments are over, to be removed from the znode."""
    leaderships: dict[TopicPartition, VersionedLeadership] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replica_states: dict[Replica, ReplicaState] = field(default_factory=dict)
    failed_replicas: set[Replica] = field(default_factory=set)
    """Replicas that the disks of their live brokers refuse, by the brokers' answers."""
    topics_to_delete: dict[str, None] = field(default_factory=dict)
    """In the order of the requests."""
    deletions_after_reassignment: dict[str, None] = field(default_factory=dict)
    """Topics that are deleted once none of their replicas is being moved."""
    topics_ineligible_for_deletion: set[str] = field(default_factory=set)
    refused_deletions: dict[str, None] = field(default_factory=dict)
    """Deletions that a live broker could not carry out: they are tried again after a while."""
    failed_deletions: dict[str, str] = field(default_factory=dict)
    """Reasons by topic: these deletions wait for another request, or the next term."""
    _taken_in: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By topic: its znode's creation and last change, as its content was last taken in."""
    odd_topics: set[str] = field(default_factory=set)
    """Invalid names of topics in ZooKeeper: left out, and traced."""
    unreadable_topics: set[str] = field(default_factory=set)
    unreadable_partitions: set[TopicPartition] = field(default_factory=set)
    """Partitions with malformed znodes: left out until they are repaired."""
    unwritable_topics: set[str] = field(default_factory=set)
    """Topics whose znodes are too large for a write: their moves end once they are repaired."""

    broker_configs: dict[ConfigOwner, Mapping[str, str]] = field(default_factory=dict)
    """The configurations of each broker and of all brokers, as last read."""
    config_changes: dict[str, int] = field(default_factory=dict)
    """The handled announcements in /config/changes, and when each was read, in ms."""

    # ------------------------------------------------------------ brokers

    def set_live(self, brokers: Iterable[BrokerEndpoints]) -> None:
        """Replace the live brokers."""
        self.live_brokers = {
            broker.broker_id: broker
            for broker in sorted(brokers, key=lambda broker: broker.broker_id)
        }
        self.shutting_down &= set(self.live_brokers)
        self.failed_replicas = {
            each for each in self.failed_replicas if each.broker_id in self.live_brokers
        }

    @property
    def leaving(self) -> frozenset[NodeId]:
        """The live brokers that shut down, or are suspected."""
        return frozenset(self.shutting_down | self.suspected)

    def electable(self) -> frozenset[NodeId]:
        """Return the live brokers that neither shut down nor are suspected."""
        return frozenset(self.live_brokers) - self.leaving

    def electable_for(self, partition: TopicPartition) -> frozenset[NodeId]:
        """Return the electable brokers whose disks do not refuse their replica of the partition."""
        return self.electable().difference(self.failed_of(partition))

    def failed_of(self, partition: TopicPartition) -> tuple[NodeId, ...]:
        """Return the live brokers whose disks refuse their replica of the partition."""
        if not self.failed_replicas:
            return ()
        return tuple(
            broker
            for broker in self.assignments.get(partition, ())
            if Replica(partition, broker) in self.failed_replicas
        )

    def broker_epoch(self, broker_id: NodeId) -> BrokerEpoch | None:
        broker = self.live_brokers.get(broker_id)
        return None if broker is None else broker.broker_epoch

    def storage_id(self, broker_id: NodeId) -> StorageId:
        """Return the live broker's storage id, NO_STORAGE_ID if it registered none."""
        broker_epoch = self.broker_epoch(broker_id)
        if broker_epoch is None:
            return NO_STORAGE_ID
        return self.storage_ids.get(broker_epoch, NO_STORAGE_ID)

    # ------------------------------------------------------------ topics

    def topics(self) -> list[str]:
        """Return the topics' names, sorted."""
        return sorted(self.topic_ids)

    def is_known(self, topic: str) -> bool:
        return topic in self.topic_ids

    def topic_id(self, topic: str) -> TopicId:
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def topic_with_id(self, topic_id: TopicId) -> str | None:
        """Return the known topic that has the id; None for NO_TOPIC_ID, which many may have."""
        return self._topics_by_id.get(topic_id)

    def set_topic_id(self, topic: str, topic_id: TopicId) -> None:
        self._forget_topic_id(topic)
        self.topic_ids[topic] = topic_id
        if topic_id != NO_TOPIC_ID:
            self._topics_by_id[topic_id] = topic

    def _forget_topic_id(self, topic: str) -> None:
        self._topics_by_id.pop(self.topic_ids.pop(topic, NO_TOPIC_ID), None)

    def take_in(self, topic: str, stat: Stat) -> None:
        """Note that the whole content of the topic's znode is known as of this version."""
        self._taken_in[topic] = (stat.czxid, stat.mzxid)

    def is_as_taken_in(self, topic: str, stat: Stat) -> bool:
        """Return whether the topic's znode says nothing new, and nothing is to be done about it."""
        return (
            self._taken_in.get(topic) == (stat.czxid, stat.mzxid)
            and topic not in self.unreadable_topics
            and topic not in self.unwritable_topics
        )

    def is_to_be_deleted(self, topic: str) -> bool:
        return topic in self.topics_to_delete

    def is_being_reassigned(self, topic: str) -> bool:
        """Return whether a replica of the topic is being moved."""
        return any(partition.topic == topic for partition in self.reassignments)

    @property
    def assignments(self) -> Mapping[TopicPartition, tuple[NodeId, ...]]:
        """All of a partition's replicas, with those that a reassignment adds or removes."""
        return self._assignments

    def assign(self, partition: TopicPartition, replicas: tuple[NodeId, ...]) -> None:
        """Replace the partition's replicas; it need not be known."""
        if partition not in self._assignments:
            insort(self._partitions_by_topic.setdefault(partition.topic, []), partition)
        self._assignments[partition] = replicas

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions, in ascending order."""
        return tuple(self._partitions_by_topic.get(topic, ()))

    def replicas_of_partitions(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [
            Replica(partition, broker)
            for partition in partitions
            for broker in self.assignments[partition]
        ]

    def replicas_of(self, topic: str) -> list[Replica]:
        return self.replicas_of_partitions(self.partitions_of(topic))

    def forget_topic(self, topic: str) -> None:
        for partition in self._partitions_by_topic.pop(topic, ()):
            for broker in self._assignments.pop(partition):
                self.replica_states.pop(Replica(partition, broker), None)
                self.failed_replicas.discard(Replica(partition, broker))
            self.reassignments.pop(partition, None)
            self.leaderships.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.unreadable_partitions.discard(partition)
        self._forget_topic_id(topic)
        self._taken_in.pop(topic, None)
        self.topics_to_delete.pop(topic, None)
        self.deletions_after_reassignment.pop(topic, None)
        self.topics_ineligible_for_deletion.discard(topic)
        self.refused_deletions.pop(topic, None)
        self.failed_deletions.pop(topic, None)
        self.unreadable_topics.discard(topic)
        self.unwritable_topics.discard(topic)

    # ------------------------------------------------------------ partitions and replicas

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: Replica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def leader_of(self, partition: TopicPartition) -> NodeId | None:
        """Return the leader, perhaps NO_LEADER; None when the partition has no leadership."""
        known = self.leaderships.get(partition)
        return None if known is None else known.leadership.leader

    def has_live_leader(self, partition: TopicPartition) -> bool:
        """Return whether it has a leader that is live, and whose disk does not refuse it."""
        leader = self.leader_of(partition)
        return leader in self.live_brokers and (
            Replica(partition, leader) not in self.failed_replicas
        )

    def partitions_on(self, broker_id: NodeId) -> list[TopicPartition]:
        return sorted(
            partition for partition, assigned in self.assignments.items() if broker_id in assigned
        )

    def replicas_on(self, broker_ids: Iterable[NodeId]) -> list[Replica]:
        return [
            Replica(partition, broker)
            for broker in broker_ids
            for partition in self.partitions_on(broker)
        ]

    def replicas_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [
            replica for replica in self.replicas_of(topic) if self.replica_state(replica) == state
        ]

    def partitions_without_leader(self) -> list[TopicPartition]:
        """Return the New and Offline partitions of topics that are not being deleted."""
        return sorted(
            partition
            for partition, state in self.partition_states.items()
            if state in (PartitionState.NEW, PartitionState.OFFLINE)
            and not self.is_to_be_deleted(partition.topic)
        )

    def has_unreadable(self) -> bool:
        """Return whether there is a topic or a partition whose znode is unreadable."""
        return bool(self.unreadable_topics or self.unreadable_partitions)

    def must_withhold_init(self, broker_id: NodeId) -> bool:
        """Return whether a partition is unreadable that an init command to the broker must list."""
        return bool(self.unreadable_topics) or any(
            broker_id in self.assignments.get(partition, ())
            for partition in self.unreadable_partitions
        )
