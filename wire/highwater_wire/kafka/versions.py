"""The API versions that are offered and served, to clients and to followers.

The profile without tagged fields serves every stock client that the tests use.
Source: KAFKA-18659 for the offered versions of Produce.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater_core.ids import NO_BROKER_EPOCH
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
from highwater_wire.kafka.bounds import MAX_FETCH_STRUCTURES, MAX_STRUCTURES
from highwater_wire.kafka.committed_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from highwater_wire.kafka.config_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from highwater_wire.kafka.group_messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from highwater_wire.kafka.log_dir_messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from highwater_wire.kafka.messages import (
    ApiKey,
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    KafkaRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from highwater_wire.kafka.producer_messages import InitProducerIdRequest, InitProducerIdResponse


@dataclass(frozen=True, slots=True)
class VersionProfile:
    """The versions that one kind of peer may use; ranges are (first, last), both included."""

    name: str
    offered: Mapping[ApiKey, tuple[int, int]]
    """The versions in ApiVersions' answer."""
    unserved_below: Mapping[ApiKey, int]
    """Versions below this one are offered for a client, but not served."""
    max_fetch_structures: int = MAX_STRUCTURES
    """Most topics and partitions in one Fetch."""

    served: frozenset[tuple[int, int]] = field(init=False, repr=False)
    """(API key, version) of the requests that are decoded and answered."""

    def __post_init__(self) -> None:
        pairs = (
            (int(key), version) for key in self.offered for version in self.served_versions(key)
        )
        object.__setattr__(self, "served", frozenset(pairs))

    def served_versions(self, api_key: ApiKey) -> range:
        """Return the served versions of an offered API."""
        first, last = self.offered[api_key]
        return range(max(first, self.unserved_below.get(api_key, first)), last + 1)

    def api_version_ranges(self) -> tuple[ApiVersionRange, ...]:
        """Return the content of an ApiVersions response, by ascending API key."""
        return tuple(ApiVersionRange(int(key), *self.offered[key]) for key in sorted(self.offered))


VERSION_PROFILE = VersionProfile(
    name="nonflex",
    offered={
        # From 0, although 0-2 are unserved: otherwise librdkafka takes the broker for one that
        # knows no compression and sends uncompressed batches (KAFKA-18659).
        ApiKey.PRODUCE: (0, 8),
        ApiKey.FETCH: (4, 11),
        ApiKey.LIST_OFFSETS: (1, 5),
        ApiKey.METADATA: (0, 8),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.API_VERSIONS: (0, 3),
        ApiKey.CREATE_TOPICS: (2, 4),
        ApiKey.DELETE_TOPICS: (1, 3),
        ApiKey.INIT_PRODUCER_ID: (0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 3),
        ApiKey.DESCRIBE_CONFIGS: (1, 3),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
        ApiKey.CREATE_PARTITIONS: (0, 1),
        ApiKey.ELECT_LEADERS: (0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.ALTER_CONFIGS: (0, 1),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 0),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.OFFSET_COMMIT: (2, 9),
        ApiKey.OFFSET_FETCH: (1, 8),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.DESCRIBE_GROUPS: (0, 5),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.DELETE_GROUPS: (0, 2),
    },
    unserved_below={ApiKey.PRODUCE: 3},
)
"""What clients are offered: no version needs topic ids, and none has tagged fields but that of
ApiVersions which some clients insist on (KIP-511), the reassignments' only one (KIP-455),
DescribeLogDirs' from 2 on, of which 4 tells the sizes of disks (KIP-827), InitProducerId's from 2
on, of which 3 carries the id that a producer has (KIP-360), and those of FindCoordinator and of
groups that ask for what no version before could. Of groups' are left out what only the newer group
protocol uses (KIP-848), and OffsetCommit to ZooKeeper."""

REPLICATION_PROFILE = VersionProfile(
    name="replication",
    offered={**VERSION_PROFILE.offered, ApiKey.FETCH: (4, 15)},
    unserved_below=VERSION_PROFILE.unserved_below,
    max_fetch_structures=MAX_FETCH_STRUCTURES,
)
"""The replication listener's: Fetch up to version 15, which carries the follower's broker epoch."""

FETCH_BY_NAME_VERSION = 11
FETCH_BY_NAME_WITH_REPLICA_EPOCH_VERSION = 12
"""The last version with topic names and the first with tagged fields: the follower's broker epoch
is in one of Highwater's own. Kafka has none for it before version 15, and skips unknown tags."""
FETCH_BY_TOPIC_ID_VERSION = 13
"""From here on Fetch names topics by their ids (KIP-516)."""
FETCH_WITH_REPLICA_EPOCH_VERSION = 15
"""From here on a follower's Fetch carries its broker epoch (KIP-903)."""


def replication_version(request: KafkaRequest) -> int:
    """Return the version of this request between brokers.

    A Fetch whose partitions all have topic ids has version 15. Otherwise it is by name: version 12
    with a replica_epoch, version 11 without one (preset v3).
    """
    if isinstance(request, FetchRequest):
        by_id = bool(request.partitions) and all(item.topic_id for item in request.partitions)
        if by_id:
            return FETCH_WITH_REPLICA_EPOCH_VERSION
        has_epoch = request.replica_epoch != NO_BROKER_EPOCH
        return FETCH_BY_NAME_WITH_REPLICA_EPOCH_VERSION if has_epoch else FETCH_BY_NAME_VERSION
    if isinstance(request, OffsetForLeaderEpochRequest):
        return 3
    return REPLICATION_PROFILE.offered[api_key_of(request)][1]


REQUEST_KEYS: Mapping[type[object], ApiKey] = {
    AlterConfigsRequest: ApiKey.ALTER_CONFIGS,
    ApiVersionsRequest: ApiKey.API_VERSIONS,
    CreateTopicsRequest: ApiKey.CREATE_TOPICS,
    DeleteTopicsRequest: ApiKey.DELETE_TOPICS,
    DescribeConfigsRequest: ApiKey.DESCRIBE_CONFIGS,
    DescribeLogDirsRequest: ApiKey.DESCRIBE_LOG_DIRS,
    CreatePartitionsRequest: ApiKey.CREATE_PARTITIONS,
    ElectLeadersRequest: ApiKey.ELECT_LEADERS,
    AlterPartitionReassignmentsRequest: ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest: ApiKey.LIST_PARTITION_REASSIGNMENTS,
    FetchRequest: ApiKey.FETCH,
    FindCoordinatorRequest: ApiKey.FIND_COORDINATOR,
    IncrementalAlterConfigsRequest: ApiKey.INCREMENTAL_ALTER_CONFIGS,
    InitProducerIdRequest: ApiKey.INIT_PRODUCER_ID,
    ListOffsetsRequest: ApiKey.LIST_OFFSETS,
    MetadataRequest: ApiKey.METADATA,
    OffsetForLeaderEpochRequest: ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ProduceRequest: ApiKey.PRODUCE,
    JoinGroupRequest: ApiKey.JOIN_GROUP,
    SyncGroupRequest: ApiKey.SYNC_GROUP,
    HeartbeatRequest: ApiKey.HEARTBEAT,
    LeaveGroupRequest: ApiKey.LEAVE_GROUP,
    OffsetCommitRequest: ApiKey.OFFSET_COMMIT,
    OffsetFetchRequest: ApiKey.OFFSET_FETCH,
    OffsetDeleteRequest: ApiKey.OFFSET_DELETE,
    DescribeGroupsRequest: ApiKey.DESCRIBE_GROUPS,
    ListGroupsRequest: ApiKey.LIST_GROUPS,
    DeleteGroupsRequest: ApiKey.DELETE_GROUPS,
}
RESPONSE_KEYS: Mapping[type[object], ApiKey] = {
    AlterConfigsResponse: ApiKey.ALTER_CONFIGS,
    ApiVersionsResponse: ApiKey.API_VERSIONS,
    CreateTopicsResponse: ApiKey.CREATE_TOPICS,
    DeleteTopicsResponse: ApiKey.DELETE_TOPICS,
    DescribeConfigsResponse: ApiKey.DESCRIBE_CONFIGS,
    DescribeLogDirsResponse: ApiKey.DESCRIBE_LOG_DIRS,
    CreatePartitionsResponse: ApiKey.CREATE_PARTITIONS,
    ElectLeadersResponse: ApiKey.ELECT_LEADERS,
    AlterPartitionReassignmentsResponse: ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsResponse: ApiKey.LIST_PARTITION_REASSIGNMENTS,
    FetchResponse: ApiKey.FETCH,
    FindCoordinatorResponse: ApiKey.FIND_COORDINATOR,
    IncrementalAlterConfigsResponse: ApiKey.INCREMENTAL_ALTER_CONFIGS,
    InitProducerIdResponse: ApiKey.INIT_PRODUCER_ID,
    ListOffsetsResponse: ApiKey.LIST_OFFSETS,
    MetadataResponse: ApiKey.METADATA,
    OffsetForLeaderEpochResponse: ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ProduceResponse: ApiKey.PRODUCE,
    JoinGroupResponse: ApiKey.JOIN_GROUP,
    SyncGroupResponse: ApiKey.SYNC_GROUP,
    HeartbeatResponse: ApiKey.HEARTBEAT,
    LeaveGroupResponse: ApiKey.LEAVE_GROUP,
    OffsetCommitResponse: ApiKey.OFFSET_COMMIT,
    OffsetFetchResponse: ApiKey.OFFSET_FETCH,
    OffsetDeleteResponse: ApiKey.OFFSET_DELETE,
    DescribeGroupsResponse: ApiKey.DESCRIBE_GROUPS,
    ListGroupsResponse: ApiKey.LIST_GROUPS,
    DeleteGroupsResponse: ApiKey.DELETE_GROUPS,
}


def api_key_of(request: KafkaRequest) -> ApiKey:
    """Return the request's API; UnsupportedRequest has none."""
    return REQUEST_KEYS[type(request)]
