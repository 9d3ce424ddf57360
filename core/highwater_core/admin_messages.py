"""Clients' administrative requests as values; brokers forward them to the active controller.

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
    """The result for one partition of a request; message explains an error."""

    topic_partition: TopicPartition
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The result for one topic of a request; message explains an error."""

    name: str
    error: ErrorCode
    message: str = ""


# ---------------------------------------------------------------- more partitions


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic that is to have more partitions.

    total_count: of all its partitions.
    assignment: the replicas of each added partition, in ascending order of the partitions,
    preferred replica first; empty: the controller assigns them.
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
    """The kind of leader that a client requests; the numbers are Kafka's."""

    PREFERRED = 0
    """The head of the assignment, if it is live and in sync."""
    UNCLEAN = 1
    """Any live replica, where no ISR member is live; records may be lost."""


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    """partitions: None for all."""

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
    """replicas: the target, preferred first; None cancels the reassignment under way."""

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
    """An operation on one configuration; the numbers are Kafka's (KIP-339)."""

    SET = 0
    DELETE = 1
    """Remove the value; the default applies."""
    APPEND = 2
    """Add to a list the entries that it lacks."""
    SUBTRACT = 3
    """Remove these entries from a list."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """value is "" where the operation is DELETE."""

    name: str
    operation: ConfigOperation
    value: str = ""


class ConfigEntity(IntEnum):
    """The kind of a configuration's owner; the numbers are Kafka's resource types."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class AlteredConfig:
    """name: the topic's, or the broker's id as text; "" is every broker's.

    replaces_all: remove all other values (AlterConfigs).
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
