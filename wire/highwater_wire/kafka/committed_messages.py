"""Commits, fetches and deletes of groups' offsets, as values for every version.

Source: KIP-98 (no offsets of open transactions), KIP-211 (retention), KIP-496, KIP-709.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset, TopicPartition
from highwater_wire.kafka.group_messages import NO_GENERATION, NO_MEMBER_ID

LATEST_COMMIT_VERSION = 9
NO_RETENTION_MS = -1
"""Of a commit that leaves it to the broker how long the offset is kept."""

# ---------------------------------------------------------------- OffsetCommit


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest:
    """generation -1 and no member id: of a consumer that assigns its partitions itself.

    retention_ms: how long the offsets are to be kept, up to version 4.
    request_version decides how a group that is not there is told (from 9 on).
    """

    group_id: str
    partitions: tuple[OffsetToCommit, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    retention_ms: int = NO_RETENTION_MS
    request_version: int = LATEST_COMMIT_VERSION


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    topic: str
    partition: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse:
    partitions: tuple[CommittedPartition, ...]


# ---------------------------------------------------------------- OffsetFetch


@dataclass(frozen=True, slots=True)
class GroupToFetch:
    """partitions None: all that the group has an offset of."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest:
    """groups: exactly one before version 8."""

    groups: tuple[GroupToFetch, ...]
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """offset -1: nothing is committed."""

    topic: str
    partition: int
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str | None = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchedGroup:
    group_id: str
    error: ErrorCode
    partitions: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse:
    groups: tuple[FetchedGroup, ...]


# ---------------------------------------------------------------- OffsetDelete


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest:
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse:
    """error is about the request as a whole."""

    error: ErrorCode
    partitions: tuple[CommittedPartition, ...] = ()


CommittedRequest = OffsetCommitRequest | OffsetFetchRequest | OffsetDeleteRequest
CommittedResponse = OffsetCommitResponse | OffsetFetchResponse | OffsetDeleteResponse
