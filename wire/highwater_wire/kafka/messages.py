"""Kafka's data-plane requests and responses as values, the same for every version of an API.

A field that a version lacks has its default. highwater_wire.kafka.codec converts both ways;
there is no I/O and no wire format here. Records are opaque v2 record batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_OFFSET,
    NO_TOPIC_ID,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicId,
)
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from highwater_wire.kafka.committed_messages import CommittedRequest, CommittedResponse
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from highwater_wire.kafka.group_messages import GroupRequest, GroupResponse
from highwater_wire.kafka.log_dir_messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest, InitProducerIdResponse

ACKS_ALL = -1
CONSUMER = NodeId(-1)
"""The replica id of a fetch by a client."""

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


class ApiKey(IntEnum):
    """The APIs that brokers answer."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    ALTER_CONFIGS = 33
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47


class RecordsView(Protocol):
    """Whole record batches that lie in a segment file; a listener may send them by sendfile.

    They can be read at once, before other code runs. To send them later, borrow them first: a
    truncation may remove them, and other bytes take their place.
    """

    def __len__(self) -> int: ...

    def read(self) -> bytes: ...

    def file_range(self) -> tuple[int, int, int] | None:
        """Return (file descriptor, position, length), or None where there is no descriptor."""
        ...

    def borrow(self, take_back: Callable[[], None]) -> None:
        """Call take_back, once, just before the bytes change; afterwards they must not be sent."""
        ...

    def give_back(self, take_back: Callable[[], None]) -> None:
        """End the loan: all bytes were sent, or no more will be."""
        ...


Records = bytes | memoryview | RecordsView


# ---------------------------------------------------------------- ApiVersions


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """The client's name for itself and its version (KIP-511); None before version 3."""

    client_software_name: str | None = None
    client_software_version: str | None = None


@dataclass(frozen=True, slots=True)
class ApiVersionRange:
    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    error: ErrorCode
    api_keys: tuple[ApiVersionRange, ...]


# ---------------------------------------------------------------- Metadata


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """topics: None for all, an empty tuple for none (version 0: empty for all)."""

    topics: tuple[str, ...] | None
    allow_auto_topic_creation: bool = False


@dataclass(frozen=True, slots=True)
class MetadataBroker:
    broker_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class MetadataPartition:
    error: ErrorCode
    partition: int
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline_replicas: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataTopic:
    error: ErrorCode
    name: str
    partitions: tuple[MetadataPartition, ...] = ()
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: NodeId
    topics: tuple[MetadataTopic, ...]


# ---------------------------------------------------------------- Produce


PRODUCE_PARTITION_BYTES = 400
"""Memory of a partition of a decoded request besides its records, about."""


@dataclass(frozen=True, slots=True)
class ProducePartition:
    """records: a view can be read until the request's handler waits for the first time."""

    topic: str
    partition: int
    records: bytes | memoryview | None


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """acks: 0, 1 or -1 (all); with 0 no response is sent. partitions in request order."""

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None


def expects_response(request: object) -> bool:
    """Return whether the request has a response: a produce with acks 0 has none."""
    return not (isinstance(request, ProduceRequest) and request.acks == 0)


@dataclass(frozen=True, slots=True)
class ProducePartitionResult:
    topic: str
    partition: int
    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    partitions: tuple[ProducePartitionResult, ...]


# ---------------------------------------------------------------- Fetch


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """From version 13 on the frame has topic_id instead of topic. A decoded request's topic is then
    empty, and the broker finds it by its id; a result must have the same topic_id."""

    topic: str
    partition: int
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch = NO_EPOCH
    log_start_offset: Offset = NO_OFFSET
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """replica_id CONSUMER for clients; replica_epoch is the follower's broker epoch (v12, v15)."""

    replica_id: NodeId
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: tuple[FetchPartition, ...]
    replica_epoch: BrokerEpoch = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class FetchPartitionResult:
    topic: str
    partition: int
    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    records: Records = b""
    topic_id: TopicId = NO_TOPIC_ID

    def unreadable(self) -> FetchPartitionResult:
        """Return the answer that replaces this one when its records cannot be read."""
        return FetchPartitionResult(
            self.topic, self.partition, ErrorCode.KAFKA_STORAGE_ERROR, topic_id=self.topic_id
        )


@dataclass(frozen=True, slots=True)
class FetchResponse:
    partitions: tuple[FetchPartitionResult, ...]
    error: ErrorCode = ErrorCode.NONE


# ---------------------------------------------------------------- ListOffsets


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """timestamp in ms since 1970, LATEST_TIMESTAMP or EARLIEST_TIMESTAMP."""

    topic: str
    partition: int
    timestamp: int
    current_leader_epoch: LeaderEpoch = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest:
    """request_version: decides between OFFSET_NOT_AVAILABLE (v5) and LEADER_NOT_AVAILABLE."""

    replica_id: NodeId
    partitions: tuple[ListOffsetsPartition, ...]
    request_version: int = 5


@dataclass(frozen=True, slots=True)
class ListOffsetsResult:
    topic: str
    partition: int
    error: ErrorCode
    timestamp: int = -1
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse:
    partitions: tuple[ListOffsetsResult, ...]


# ---------------------------------------------------------------- OffsetForLeaderEpoch


@dataclass(frozen=True, slots=True)
class EpochPartition:
    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch = NO_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest:
    replica_id: NodeId
    partitions: tuple[EpochPartition, ...]


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    """leader_epoch and end_offset are -1 when the leader does not know (undefined)."""

    topic: str
    partition: int
    error: ErrorCode
    leader_epoch: LeaderEpoch = NO_EPOCH
    end_offset: Offset = NO_OFFSET


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochResponse:
    partitions: tuple[EpochEndOffset, ...]


# ---------------------------------------------------------------- topics


@dataclass(frozen=True, slots=True)
class TopicToCreate:
    """partition_count or replication_factor -1: the broker's default (v4)."""

    name: str
    partition_count: int
    replication_factor: int
    assignments: tuple[tuple[int, tuple[NodeId, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    topics: tuple[TopicToCreate, ...]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTopicsResponse:
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    names: tuple[str, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    name: str
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse:
    topics: tuple[DeletedTopic, ...]


# ---------------------------------------------------------------- FindCoordinator


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    """key_type 0 is a group, 1 a transaction; up to version 3 there is one key (KIP-699)."""

    keys: tuple[str, ...]
    key_type: int = 0


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    """Who coordinates what the key names; with an error, node_id is -1."""

    key: str
    error: ErrorCode
    message: str | None
    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse:
    """One for each key of the request, in its order."""

    coordinators: tuple[FoundCoordinator, ...]


@dataclass(frozen=True, slots=True)
class UnsupportedRequest:
    """A request whose API key or version is not served; the answer is UNSUPPORTED_VERSION."""

    api_key: int
    api_version: int


KafkaRequest = (
    ApiVersionsRequest
    | MetadataRequest
    | ProduceRequest
    | FetchRequest
    | ListOffsetsRequest
    | OffsetForLeaderEpochRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | DescribeConfigsRequest
    | DescribeLogDirsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | FindCoordinatorRequest
    | InitProducerIdRequest
    | GroupRequest
    | CommittedRequest
    | UnsupportedRequest
)
KafkaResponse = (
    ApiVersionsResponse
    | MetadataResponse
    | ProduceResponse
    | FetchResponse
    | ListOffsetsResponse
    | OffsetForLeaderEpochResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | DescribeConfigsResponse
    | DescribeLogDirsResponse
    | CreatePartitionsResponse
    | ElectLeadersResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | AlterConfigsResponse
    | IncrementalAlterConfigsResponse
    | FindCoordinatorResponse
    | InitProducerIdResponse
    | GroupResponse
    | CommittedResponse
)


@dataclass(frozen=True, slots=True)
class HangUp:
    """Instead of a response: the connection is closed, so that the client tries another broker."""

    why: str


KafkaAnswer = KafkaResponse | HangUp | None
"""A handler's result; None where the protocol has no response (Produce with acks=0)."""
