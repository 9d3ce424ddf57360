"""The handlers' interfaces to the rest of the broker, as narrow protocols, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from highwater_broker.log_folders import FolderContent
from highwater_broker.partition import Partition
from highwater_core.config_layers import ConfigLayers
from highwater_core.ids import NodeId, ProducerId, TopicPartition
from highwater_core.messages import ControllerCommand, ControllerResponse
from highwater_core.topic_configs import CLEANUP_POLICY, ConfigType
from highwater_wire.kafka.messages import ApiVersionRange

Response = TypeVar("Response", bound=ControllerResponse)


class Listener(StrEnum):
    """A broker's data-plane listeners. EXTERNAL is CLIENT for clients outside the network."""

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


class LogDirs(Protocol):
    """The folders that this broker's replicas are in."""

    def contents(self) -> tuple[FolderContent, ...]: ...


class Controller(Protocol):
    """Calls the active controller; CallFailed when none answers in time."""

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response: ...


class Configs(Protocol):
    """The configurations of topics, hosted here or not, and of this broker."""

    async def topic_layers(self, topic: str) -> ConfigLayers | None:
        """Return all layers for the topic, None when they cannot be read at present."""
        ...

    async def broker_layers(self) -> ConfigLayers | None:
        """Return the layers for a topic without own values, None when they cannot be read."""
        ...


class ProducerIdSource(Protocol):
    """Returns each id once in the cluster's life; None when there is none at present."""

    async def next_id(self) -> ProducerId | None: ...


class TopicSize(Protocol):
    """The number of partitions of `__consumer_offsets`."""

    @property
    def count(self) -> int:
        """The number, 0 while it is not known."""
        ...

    async def learn(self) -> int:
        """Read and return the number, 0 where there is no such topic or no answer now."""
        ...


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
