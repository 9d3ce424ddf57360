"""The cluster's metadata for clients: the last state that the controller sent.

Updates are believed: the caller does the fencing by epochs. No I/O, no waiting.
Source: docs/explanation/replication.md, "The controller", ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from highwater_core.ids import (
    LEADER_DURING_DELETE,
    NO_CONTROLLER_EPOCH,
    NO_LEADER,
    NO_TOPIC_ID,
    ControllerEpoch,
    NodeId,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import BrokerEndpoints, PartitionMetadata, UpdateMetadataRequest


class MetadataCache:
    """Live brokers, partitions and the controller, as of the last UpdateMetadata.

    Invariant: a topic is listed exactly while it has a partition; all partitions of a topic are
    of one topic id.
    """

    def __init__(self) -> None:
        self._live_brokers: dict[NodeId, BrokerEndpoints] = {}
        self._topics: dict[str, dict[int, PartitionMetadata]] = {}
        self._names: dict[TopicId, str] = {}
        self._controller_id = NO_LEADER
        self._controller_epoch = NO_CONTROLLER_EPOCH
        self._last_number: tuple[ControllerEpoch, int] = (NO_CONTROLLER_EPOCH, 0)
        self._listeners: list[Callable[[str], None]] = []
        self._when_known: list[Callable[[], None]] = []
        self._when_deleted: list[Callable[[Sequence[TopicPartition]], None]] = []
        self.partition_count = 0
        """Number of known partitions of all topics."""
        self.is_complete = False
        """Whether the controller's last full update listed all partitions: an earlier controller
        may have known topics that the present one cannot read."""

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call the listener with each topic that an update names, after the whole update."""
        self._listeners.append(listener)

    def when_deleted(self, listener: Callable[[Sequence[TopicPartition]], None]) -> None:
        """Call the listener with partitions that an update says are deleted, after the update.

        Those that a full update does not list are not among them: its controller may be unable to
        read their topic.
        """
        self._when_deleted.append(listener)

    def when_known(self, callback: Callable[[], None]) -> None:
        """Call the listener once after the first update, which lists this broker among others."""
        if self._controller_epoch != NO_CONTROLLER_EPOCH:
            callback()
        else:
            self._when_known.append(callback)

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """Apply the controller's update; return the removed partitions, in order.

        A late copy, which its controller has sent again on a new connection, is ignored: later
        updates stay (as in row 16 of the catalogue, for StopReplica). Only a full update shows
        deletions that this broker missed.
        """
        number = request.controller_epoch, request.correlation_id
        if number < self._last_number:
            return ()
        self._last_number = number
        self.is_complete &= request.controller_epoch == self._controller_epoch
        self._controller_id = request.controller_id
        self._controller_epoch = request.controller_epoch
        self._live_brokers = {
            broker.broker_id: broker
            for broker in sorted(request.live_brokers, key=lambda broker: broker.broker_id)
        }
        removed: list[TopicPartition] = []
        touched: dict[str, None] = {}
        for partition in request.partitions:
            touched[partition.topic_partition.topic] = None
            removed.extend(self._put(partition))
        deleted = tuple(removed)
        if request.is_full:
            self.is_complete = True
            removed.extend(self._drop_unlisted(request))
            touched.update(dict.fromkeys(partition.topic for partition in removed))
        for topic in touched:
            for listener in self._listeners:
                listener(topic)
        for when_deleted in self._when_deleted if deleted else ():
            when_deleted(deleted)
        when_known, self._when_known = self._when_known, []
        for callback in when_known:
            callback()
        return tuple(removed)

    def _put(self, partition: PartitionMetadata) -> list[TopicPartition]:
        """Add or remove the partition; return the removed one."""
        topic, topic_id = partition.topic_partition.topic, partition.topic_id
        known_id = self.topic_id(topic)
        is_other_incarnation = NO_TOPIC_ID not in (known_id, topic_id) and known_id != topic_id
        if partition.leader == LEADER_DURING_DELETE:
            return [] if is_other_incarnation else self._remove(topic, [partition])
        removed: list[TopicPartition] = []
        if is_other_incarnation:
            # The topic was deleted and created again while this broker got no update.
            removed = self._remove(topic, self.partitions(topic))
        known = self._topics.setdefault(topic, {})
        self.partition_count += partition.topic_partition.partition not in known
        known[partition.topic_partition.partition] = partition
        if topic_id != NO_TOPIC_ID:
            self._names[topic_id] = topic
        return removed

    def _drop_unlisted(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Remove the partitions that the update does not list; return them."""
        listed = {
            partition.topic_partition
            for partition in request.partitions
            if partition.leader != LEADER_DURING_DELETE
        }
        removed: list[TopicPartition] = []
        for topic in self.topics():
            gone = [each for each in self.partitions(topic) if each.topic_partition not in listed]
            removed.extend(self._remove(topic, gone))
        return removed

    def _remove(self, topic: str, partitions: Iterable[PartitionMetadata]) -> list[TopicPartition]:
        known = self._topics.get(topic, {})
        topic_id = self.topic_id(topic)
        removed = [
            partition.topic_partition
            for partition in partitions
            if known.pop(partition.topic_partition.partition, None) is not None
        ]
        self.partition_count -= len(removed)
        if not known:
            self._topics.pop(topic, None)
            if self._names.get(topic_id) == topic:
                del self._names[topic_id]
        return removed

    # ------------------------------------------------------------ brokers

    @property
    def controller_id(self) -> NodeId:
        """The controller that sent the last update, or NO_LEADER before the first."""
        return self._controller_id

    @property
    def controller_epoch(self) -> ControllerEpoch:
        return self._controller_epoch

    def live_brokers(self) -> tuple[BrokerEndpoints, ...]:
        """Return the live brokers in ascending order of their ids."""
        return tuple(self._live_brokers.values())

    def is_alive(self, broker_id: NodeId) -> bool:
        return broker_id in self._live_brokers

    def endpoints(self, broker_id: NodeId) -> BrokerEndpoints | None:
        """Return the broker's endpoints, or None when it is not live."""
        return self._live_brokers.get(broker_id)

    # ------------------------------------------------------------ topics

    def topics(self) -> tuple[str, ...]:
        """Return the topics' names in ascending order."""
        return tuple(sorted(self._topics))

    def has_topic(self, topic: str) -> bool:
        return topic in self._topics

    def topic_id(self, topic: str) -> TopicId:
        """Return the topic's id; NO_TOPIC_ID when it is unknown or has none."""
        for partition in self._topics.get(topic, {}).values():
            return partition.topic_id
        return NO_TOPIC_ID

    def topic_of(self, topic_id: TopicId) -> str | None:
        """Return the name of the topic that has the id, None before its first update.

        A follower that has its LeaderAndIsr already fetches by the id until then, gets
        UNKNOWN_TOPIC_ID, and retries (as in Kafka).
        """
        return self._names.get(topic_id)

    def partitions(self, topic: str) -> tuple[PartitionMetadata, ...]:
        """Return the topic's partitions in ascending order; empty when it is unknown."""
        known = self._topics.get(topic, {})
        return tuple(known[number] for number in sorted(known))

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        return self._topics.get(topic, {}).get(partition)

    def partition_count_of(self, topic: str) -> int:
        return len(self._topics.get(topic, ()))
