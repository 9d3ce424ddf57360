"""What the handlers need of the rest of the broker, as narrow protocols, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from highwater_broker.partition import Partition
from highwater_core.config_layers import ConfigLayers
from highwater_core.ids import NodeId, ProducerId, TopicPartition
from highwater_core.messages import ControllerCommand, ControllerResponse
from highwater_core.topic_configs import CLEANUP_POLICY
from highwater_wire.kafka.messages import ApiVersionRange

Response = TypeVar("Response", bound=ControllerResponse)


class Listener(StrEnum):
    """A broker's data-plane listeners. EXTERNAL is CLIENT for those outside the network."""

    CLIENT = "CLIENT"
    EXTERNAL = "EXTERNAL"
    REPLICATION = "REPLICATION"


CLIENT_LISTENERS = (Listener.CLIENT, Listener.EXTERNAL)


class Partitions(Protocol):
    """The partitions that this broker hosts (the replica manager)."""

    def get(self, topic_partition: TopicPartition) -> Partition | None: ...

    def has_failed(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition's replica here is in a log folder that failed."""
        ...


class Controller(Protocol):
    """Calls the active controller, whichever it is; CallFailed when none answers in time."""

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response: ...


class Configs(Protocol):
    """What is set for topics, hosted here or not, and for this broker."""

    async def topic_layers(self, topic: str) -> ConfigLayers | None:
        """Return all that counts for the topic, None when it cannot be read at present."""
        ...

    async def broker_layers(self) -> ConfigLayers | None:
        """Return what counts for a topic that sets nothing, None when it cannot be read."""
        ...


class ProducerIdSource(Protocol):
    """Gives each id once in the cluster's life; None when there is none at present."""

    async def next_id(self) -> ProducerId | None: ...


class TopicSize(Protocol):
    """How many partitions `__consumer_offsets` has."""

    @property
    def count(self) -> int:
        """0 while it is not known."""
        ...

    async def learn(self) -> int:
        """Return the number, 0 where there is no such topic or nobody says so now."""
        ...


@dataclass(frozen=True, slots=True)
class OffsetsTopicSettings:
    """min_insync_replicas 0: the brokers' own counts."""

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
    """api_versions: what ApiVersions tells clients, from the codec's version profile."""

    node_id: NodeId
    cluster_id: str
    api_versions: tuple[ApiVersionRange, ...]
    default_partition_count: int = 1
    default_replication_factor: int = 1
    fetch_response_max_bytes: int = 50 * 1024 * 1024
    """A response never carries more, save a first batch that is larger."""
    high_watermark_linger_ms: int = 5
    """How long a follower's fetch with nothing new but the high watermark waits for records."""
    request_wait_max_ms: int = 300_000
    """No request waits longer, whatever it asks for."""
    broker_configs: tuple[tuple[str, str], ...] = ()
    """What this broker was started with and DescribeConfigs tells."""
    offsets_topic: OffsetsTopicSettings = OffsetsTopicSettings()
