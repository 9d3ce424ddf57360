"""Collects the commands of one step and sends each broker one request of each kind.

Order per broker: LeaderAndIsr, UpdateMetadata, StopReplica. A batch serves one step and is then
dropped, so an exception leaves no half-filled batch behind (KAFKA-2300).
Source: docs/explanation/replication.md, "The controller", Sending; docs/explanation/presets.md on
is_init.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_controller.broker_channels import BrokerChannel
from highwater_controller.context import Replica
from highwater_controller.eligibility import eligible_leaders
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.term import Term
from highwater_core.ids import (
    DELETION_EPOCH,
    LEADER_DURING_DELETE,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    BrokerEndpoints,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    PartitionMetadata,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)


class RequestBatch:
    """The commands to send, by broker; those to dead brokers are left out."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._leaderships: dict[NodeId, dict[TopicPartition, LeaderAndIsrPartition]] = {}
        self._metadata: dict[NodeId, dict[TopicPartition, PartitionMetadata]] = {}
        self._stops: dict[NodeId, dict[TopicPartition, StopReplicaPartition]] = {}
        self._inits: dict[NodeId, None] = {}
        self._full: dict[NodeId, None] = {}
        """The brokers whose UpdateMetadata lists all partitions."""

    def add_leader_and_isr(
        self, brokers: Iterable[NodeId], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Add the partition's LeaderAndIsr for the brokers, and its metadata for all live brokers.

        Nothing is added while the partition has no leadership.
        """
        item = self._leadership(partition, is_new=is_new)
        if item is None:
            return
        for broker in self._live(brokers):
            self._leaderships.setdefault(broker, {})[partition] = item
        self.add_update_metadata(self._term.context.live_brokers, [partition])

    def add_init(self, brokers: Iterable[NodeId]) -> None:
        """Add the brokers' init command, even an empty one."""
        self._inits.update(dict.fromkeys(self._live(brokers)))

    def add_update_metadata(
        self, brokers: Iterable[NodeId], partitions: Iterable[TopicPartition]
    ) -> None:
        """Add the live brokers, and these partitions' known metadata, for the brokers."""
        items = [item for item in map(self._partition_metadata, partitions) if item is not None]
        for broker in self._live(brokers):
            of_broker = self._metadata.setdefault(broker, {})
            of_broker.update((item.topic_partition, item) for item in items)

    def add_full_metadata(self, brokers: Iterable[NodeId]) -> None:
        """Add all metadata for the brokers, marked as complete.

        It is not marked while a topic or partition is unreadable, and so cannot be listed.
        """
        live = self._live(brokers)
        self.add_update_metadata(live, sorted(self._term.context.assignments))
        if not self._term.context.has_unreadable():
            self._full.update(dict.fromkeys(live))

    def add_stop_replica(self, broker: NodeId, partition: TopicPartition, *, delete: bool) -> None:
        for live in self._live([broker]):
            self._stops.setdefault(live, {})[partition] = StopReplicaPartition(
                topic_partition=partition,
                delete_partition=delete,
                leader_epoch=self._stop_epoch(partition),
                topic_id=self._topic_id(partition),
            )

    def send(self) -> None:
        """Queue the requests, broker by broker."""
        for broker_id in self._term.context.live_brokers:
            channel = self._term.channels.find(broker_id)
            if channel is None:
                continue
            self._send_leaderships(broker_id, channel)
            if broker_id in self._metadata:
                self._send_metadata(broker_id, channel)
            if broker_id in self._stops:
                channel.enqueue(
                    StopReplicaRequest(
                        controller_id=self._term.context.controller_id,
                        controller_epoch=self._term.epoch.controller_epoch,
                        broker_epoch=self._broker_epoch(broker_id),
                        partitions=tuple(self._stops[broker_id].values()),
                        ack_timeout_ms=self._term.settings.command_timeout_ms,
                    )
                )

    # ------------------------------------------------------------ requests

    def _send_leaderships(self, broker_id: NodeId, channel: BrokerChannel) -> None:
        items = self._leaderships.get(broker_id, {})
        is_init = False
        if not channel.is_init_settled and (items or broker_id in self._inits):
            channel.is_init_settled = True
            is_init = not self._term.context.must_withhold_init(broker_id)
            if is_init:
                items = self._hosted_leaderships(broker_id) | items
        if not (items or is_init):
            return
        partitions = tuple(items[partition] for partition in sorted(items))
        channel.enqueue(
            LeaderAndIsrRequest(
                controller_id=self._term.context.controller_id,
                controller_epoch=self._term.epoch.controller_epoch,
                broker_epoch=self._broker_epoch(broker_id),
                is_init=is_init,
                partitions=partitions,
                live_leaders=self._live_leaders(partitions),
                ack_timeout_ms=self._term.settings.command_timeout_ms,
            )
        )

    def _send_metadata(self, broker_id: NodeId, channel: BrokerChannel) -> None:
        channel.enqueue(
            UpdateMetadataRequest(
                controller_id=self._term.context.controller_id,
                controller_epoch=self._term.epoch.controller_epoch,
                broker_epoch=self._broker_epoch(broker_id),
                live_brokers=tuple(self._term.context.live_brokers.values()),
                partitions=tuple(self._metadata[broker_id].values()),
                is_full=broker_id in self._full,
            )
        )

    def _hosted_leaderships(self, broker_id: NodeId) -> dict[TopicPartition, LeaderAndIsrPartition]:
        """Return the leaderships that an init command must list.

        Left out are partitions that never had a leader, of which no broker has a log, and replicas
        whose deletion their broker has confirmed.
        """
        context = self._term.context
        found: dict[TopicPartition, LeaderAndIsrPartition] = {}
        for partition in context.partitions_on(broker_id):
            state = context.replica_state(Replica(partition, broker_id))
            item = self._leadership(partition, is_new=False)
            if item is not None and state != ReplicaState.DELETION_SUCCESSFUL:
                found[partition] = item
        return found

    def _live_leaders(
        self, partitions: tuple[LeaderAndIsrPartition, ...]
    ) -> tuple[BrokerEndpoints, ...]:
        leaders = {item.leader for item in partitions}
        return tuple(
            broker
            for broker_id, broker in self._term.context.live_brokers.items()
            if broker_id in leaders
        )

    # ------------------------------------------------------------ parts of requests

    def _leadership(
        self, partition: TopicPartition, *, is_new: bool
    ) -> LeaderAndIsrPartition | None:
        known = self._term.context.leaderships.get(partition)
        if known is None:
            return None
        return LeaderAndIsrPartition(
            topic_partition=partition,
            leader=known.leadership.leader,
            leader_epoch=known.leadership.leader_epoch,
            isr=known.leadership.isr,
            partition_epoch=known.partition_epoch,
            assigned_replicas=self._term.context.assignments[partition],
            is_new=is_new,
            topic_id=self._topic_id(partition),
            elr=eligible_leaders(self._term, known.leadership),
        )

    def _partition_metadata(self, partition: TopicPartition) -> PartitionMetadata | None:
        context = self._term.context
        known = context.leaderships.get(partition)
        if known is None:
            return None
        is_doomed = context.is_to_be_deleted(partition.topic)
        return PartitionMetadata(
            topic_partition=partition,
            leader=LEADER_DURING_DELETE if is_doomed else known.leadership.leader,
            leader_epoch=known.leadership.leader_epoch,
            isr=known.leadership.isr,
            assigned_replicas=context.assignments[partition],
            partition_epoch=known.partition_epoch,
            topic_id=self._topic_id(partition),
            failed_replicas=context.failed_of(partition),
        )

    def _stop_epoch(self, partition: TopicPartition) -> LeaderEpoch:
        if not self._term.toggles.stop_replica_leader_epoch:
            return NO_EPOCH
        if self._term.context.is_to_be_deleted(partition.topic):
            return DELETION_EPOCH
        known = self._term.context.leaderships.get(partition)
        return NO_EPOCH if known is None else known.leadership.leader_epoch

    def _topic_id(self, partition: TopicPartition) -> TopicId:
        if not self._term.toggles.topic_id:
            return NO_TOPIC_ID
        return self._term.context.topic_id(partition.topic)

    def _broker_epoch(self, broker_id: NodeId) -> BrokerEpoch:
        if not self._term.toggles.broker_epoch:
            return NO_BROKER_EPOCH
        return self._term.context.live_brokers[broker_id].broker_epoch

    def _live(self, brokers: Iterable[NodeId]) -> list[NodeId]:
        live = self._term.context.live_brokers
        return [broker for broker in brokers if broker in live]
