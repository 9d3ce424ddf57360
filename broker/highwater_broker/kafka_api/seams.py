"""What the handlers need of the rest of the broker, as narrow protocols, and their settings."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicId, TopicPartition
from highwater_core.messages import ControllerCommand, ControllerResponse
from highwater_wire.kafka.messages import ApiVersionRange, Records

Response = TypeVar("Response", bound=ControllerResponse)


class Listener(StrEnum):
    """A broker's data-plane listeners. EXTERNAL is CLIENT for those outside the network."""

    CLIENT = "CLIENT"
    EXTERNAL = "EXTERNAL"
    REPLICATION = "REPLICATION"


CLIENT_LISTENERS = (Listener.CLIENT, Listener.EXTERNAL)


class AppendOutcome(Protocol):
    """What became of an append; the offsets count only when error is NONE.

    end_offset is the offset after the appended records: what the high watermark must reach.
    """

    @property
    def error(self) -> ErrorCode: ...
    @property
    def base_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def log_start_offset(self) -> Offset: ...


class ReadOutcome(Protocol):
    """Whole batches from the fetch offset on, and the offsets to tell with them."""

    @property
    def error(self) -> ErrorCode: ...
    @property
    def high_watermark(self) -> Offset: ...
    @property
    def log_start_offset(self) -> Offset: ...
    @property
    def records(self) -> Records: ...


class Partition(Protocol):
    """A partition that this broker hosts. No method awaits."""

    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def topic_id(self) -> TopicId: ...
    @property
    def leader_epoch(self) -> LeaderEpoch: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def high_watermark(self) -> Offset: ...
    @property
    def log_start_offset(self) -> Offset: ...
    @property
    def log_end_offset(self) -> Offset: ...

    def check_leadership(self, current_leader_epoch: LeaderEpoch) -> ErrorCode: ...

    def append(self, records: bytes | memoryview, acks: int, now_ms: int) -> AppendOutcome: ...

    def acks_all_status(self, end_offset: Offset, leader_epoch: LeaderEpoch) -> ErrorCode | None:
        """Return NONE once the high watermark reached end_offset, None while it may."""
        ...

    def read(self, fetch_offset: Offset, max_bytes: int, for_follower: bool) -> ReadOutcome:
        """Return batches up to the log end for a follower, to the high watermark for others."""
        ...

    def record_follower_fetch(
        self, replica_id: NodeId, replica_epoch: BrokerEpoch, fetch_offset: Offset, now_ms: int
    ) -> ErrorCode: ...

    def record_repeated_fetch(self, replica_id: NodeId, now_ms: int) -> bool:
        """Count a fetch like the last one, in a partition that has not changed since.

        False, and nothing is counted, where more than its time is to be noted.
        """
        ...

    def offset_for_leader_epoch(
        self, leader_epoch: LeaderEpoch
    ) -> tuple[ErrorCode, LeaderEpoch, Offset]: ...

    def latest_offset_for_clients(self) -> tuple[ErrorCode, Offset]:
        """Return the high watermark, or OFFSET_NOT_AVAILABLE while it is too low (KIP-207)."""
        ...

    def look_up_timestamp(
        self, timestamp_ms: int
    ) -> Generator[None, None, tuple[ErrorCode, tuple[int, Offset] | None]]:
        """Return time and offset of the first record at or after the timestamp, or None.

        The error is the disk's: what there is cannot be told. It yields after each millisecond's
        work or so; go on only while the partition leads in the epoch in which it was begun.
        """
        ...


class Partitions(Protocol):
    """The partitions that this broker hosts (the replica manager)."""

    def get(self, topic_partition: TopicPartition) -> Partition | None: ...


class Controller(Protocol):
    """Calls the active controller, whichever it is; CallFailed when none answers in time."""

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response: ...


class TopicConfigs(Protocol):
    """The topics' own configurations, hosted here or not."""

    async def topic_overrides(self, topic: str) -> Mapping[str, str] | None:
        """Return what /config/topics/T sets, None when it cannot be read at present."""
        ...


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
    topic_defaults: tuple[tuple[str, str], ...] = ()
    """This broker's own defaults of topic configurations, where they differ from Kafka's."""
    broker_configs: tuple[tuple[str, str], ...] = ()
    """What DescribeConfigs tells of this broker."""
