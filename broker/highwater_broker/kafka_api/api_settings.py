"""The settings of the handlers of requests."""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.ids import NodeId
from highwater_core.topic_configs import CLEANUP_POLICY, ConfigType
from highwater_wire.kafka.messages import ApiVersionRange


@dataclass(frozen=True, slots=True)
class OffsetsTopicSettings:
    """min_insync_replicas 0: as the brokers' own setting."""

    partition_count: int = 6
    replication_factor: int = 3
    min_insync_replicas: int = 0
    segment_bytes: int = 100 * 1024 * 1024

    def config(self) -> tuple[tuple[str, str], ...]:
        """Return the topic's own configuration."""
        values = {CLEANUP_POLICY: "compact", "segment.bytes": str(self.segment_bytes)}
        if self.min_insync_replicas:
            values["min.insync.replicas"] = str(self.min_insync_replicas)
        return tuple(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class KafkaApiSettings:
    """api_versions: the versions for ApiVersions' answer, from the codec's version profile."""

    node_id: NodeId
    cluster_id: str
    api_versions: tuple[ApiVersionRange, ...]
    default_partition_count: int = 1
    default_replication_factor: int = 1
    auto_create_topics: bool = False
    fetch_response_max_bytes: int = 50 * 1024 * 1024
    """Most bytes of a response, except for a larger first batch."""
    high_watermark_linger_ms: int = 5
    """How long a follower's fetch with only a new high watermark waits for records."""
    request_wait_max_ms: int = 300_000
    """The longest wait of any request."""
    data_folder: str = ""
    """What holds the broker's log folders."""
    broker_configs: tuple[tuple[str, ConfigType, str], ...] = ()
    """The settings of this broker's start for DescribeConfigs."""
    offsets_topic: OffsetsTopicSettings = OffsetsTopicSettings()
