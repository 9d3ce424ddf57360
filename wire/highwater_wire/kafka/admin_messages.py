"""Administrators' requests to brokers as values: more partitions, elections, reassignments.

Their parts are core's: brokers forward them unchanged to the controller, and its answers back.
Source: KIP-195, KIP-460, KIP-455.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.admin_messages import (
    OngoingReassignment,
    PartitionResult,
    ReassignmentItem,
    TopicResult,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition

# ---------------------------------------------------------------- CreatePartitions


@dataclass(frozen=True, slots=True)
class PartitionsToCreate:
    """A topic to expand.

    total_count: number of partitions after the expansion.
    assignments: the replicas of each added partition, in their order; None: the controller assigns
    them.
    """

    topic: str
    total_count: int
    assignments: tuple[tuple[NodeId, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    topics: tuple[PartitionsToCreate, ...]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse:
    topics: tuple[TopicResult, ...]


# ---------------------------------------------------------------- ElectLeaders


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    """election_type: Kafka's number, 0 (preferred) before version 1; partitions None: all."""

    election_type: int
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse:
    """error: of the request as a whole; version 0 has no field for it."""

    error: ErrorCode
    partitions: tuple[PartitionResult, ...]


# ---------------------------------------------------------------- reassignments


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsRequest:
    partitions: tuple[ReassignmentItem, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResponse:
    """error and message: of the request as a whole."""

    error: ErrorCode
    message: str | None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsRequest:
    """partitions None: all that are being moved."""

    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsResponse:
    error: ErrorCode
    message: str | None
    partitions: tuple[OngoingReassignment, ...]
