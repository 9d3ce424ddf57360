"""What clients ask of the cluster by way of a broker, as values: the active controller decides.

Their protobuf forms are in proto/highwater_wire/v1/controller_control.proto.
Source: KIP-195 (CreatePartitions), KIP-460 (ElectLeaders), KIP-455 (reassignments),
KIP-339 (IncrementalAlterConfigs).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What became of one partition of a request; message explains an error."""

    topic_partition: TopicPartition
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of one topic of a request; message explains an error."""

    name: str
    error: ErrorCode
    message: str = ""


# ---------------------------------------------------------------- more partitions


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic that is to have more partitions.

    total_count: how many it is to have in all.
    assignment: the replicas of the added ones, in ascending order of the partitions and preferred
    first; empty to let the controller assign them.
    """

    topic: str
    total_count: int
    assignment: tuple[tuple[NodeId, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    topics: tuple[NewPartitions, ...]
    validate_only: bool = False
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse:
    """error NOT_CONTROLLER when the answering node is not active; results in request order."""

    error: ErrorCode
    results: tuple[TopicResult, ...] = ()


# ---------------------------------------------------------------- elections


class ElectionType(IntEnum):
    """Which leader a client asks for; the numbers are Kafka's."""

    PREFERRED = 0
    """The head of the assignment, if it is live and in sync."""
    UNCLEAN = 1
    """Any live replica where no other may lead; records may be lost."""


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    """partitions: None for all that there are."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse:
    """results in request order; where all were meant, of those that an election was held for."""

    error: ErrorCode
    results: tuple[PartitionResult, ...] = ()


# ---------------------------------------------------------------- reassignments


@dataclass(frozen=True, slots=True)
class ReassignmentItem:
    """replicas: the target, preferred first; None gives up the reassignment under way."""

    topic_partition: TopicPartition
    replicas: tuple[NodeId, ...] | None


@dataclass(frozen=True, slots=True)
class AlterReassignmentsRequest:
    partitions: tuple[ReassignmentItem, ...]
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class AlterReassignmentsResponse:
    """error NOT_CONTROLLER when the answering node is not active; results in request order."""

    error: ErrorCode
    results: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ListReassignmentsRequest:
    """partitions: None for all whose replicas are being moved."""

    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """replicas: all of them, the target's first; adding and removing are among them."""

    topic_partition: TopicPartition
    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class ListReassignmentsResponse:
    """Sorted by topic and partition; partitions that are not being moved are left out."""

    error: ErrorCode
    reassignments: tuple[OngoingReassignment, ...] = ()


# ---------------------------------------------------------------- configurations


class ConfigOperation(IntEnum):
    """What is done to one configuration; the numbers are Kafka's (KIP-339)."""

    SET = 0
    DELETE = 1
    """It has its default again."""
    APPEND = 2
    """To a list: the entries that it lacks are added."""
    SUBTRACT = 3
    """From a list: these entries go."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """value is "" where the operation is DELETE."""

    name: str
    operation: ConfigOperation
    value: str = ""


class ConfigEntity(IntEnum):
    """Whose configuration it is; the numbers are Kafka's resource types."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class AlteredConfig:
    """name: the topic's, or the broker's id as text; "" is every broker's.

    replaces_all: whatever else was set is no longer (AlterConfigs).
    """

    entity: ConfigEntity
    name: str
    changes: tuple[ConfigChange, ...]
    replaces_all: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    configs: tuple[AlteredConfig, ...]
    validate_only: bool = False
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class ConfigResult:
    entity: ConfigEntity
    name: str
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse:
    """error NOT_CONTROLLER when the answering node is not active; results in request order."""

    error: ErrorCode
    results: tuple[ConfigResult, ...] = ()
