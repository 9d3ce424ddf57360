"""Puts the parts of group coordination together: ownership, log, coordinator and expiry."""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.coordinator.expiry import OffsetExpiry
from highwater_broker.coordinator.offsets_log import OffsetsLog
from highwater_broker.coordinator.ownership import Ownership
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.coordinator.topic_size import OffsetsTopicSize
from highwater_broker.current_session import CurrentSession
from highwater_broker.kafka_api.rest_of_broker import Partitions
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.purgatory import Purgatory
from highwater_broker.settings import BrokerSettings
from highwater_core.fail_points import FailPoints
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.ports import Ports
from highwater_core.runtime import TaskScope


class GroupService:
    """Group coordination on one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        ports: Ports,
        partitions: Partitions,
        purgatory: Purgatory,
        metadata: MetadataCache,
        session: CurrentSession,
        fail_points: FailPoints,
    ) -> None:
        runtime = ports.runtime
        self.topic_size = OffsetsTopicSize(session, ports.trace)
        metadata.listen(lambda topic: self._forget_size(metadata, topic))
        self.ownership = Ownership(runtime, partitions, purgatory, self.topic_size, fail_points)
        log = OffsetsLog(self.ownership, purgatory, runtime, settings.offsets_commit_timeout_ms)
        self.coordinator = GroupCoordinator(
            GroupSettings(
                min_session_timeout_ms=settings.group_min_session_timeout_ms,
                max_session_timeout_ms=settings.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                max_size=settings.group_max_size,
                offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            ),
            ports,
            log,
            self.ownership,
            self.ownership.partition_of,
        )
        self.ownership.serve(self.coordinator)
        metadata.when_deleted(self.coordinator.partitions_deleted)
        self._expiry = OffsetExpiry(
            runtime,
            ports.trace,
            log,
            self.coordinator.groups,
            self.coordinator.delete,
            retention_ms=settings.offsets_retention_ms,
            check_interval_ms=settings.offsets_retention_check_interval_ms,
        )

    def _forget_size(self, metadata: MetadataCache, topic: str) -> None:
        """Forget the topic's number of partitions when the topic is deleted."""
        if topic == OFFSETS_TOPIC and not metadata.has_topic(topic):
            self.topic_size.forget()

    def start(self, scope: TaskScope) -> None:
        """Start the timers and the expiry of offsets."""
        self.coordinator.start()
        scope.spawn("OffsetExpiry", self._expiry.run())

    def role_changed(self, topic_partition: TopicPartition) -> None:
        """Load or give up the partition's groups, according to its role."""
        self.ownership.role_changed(topic_partition)
