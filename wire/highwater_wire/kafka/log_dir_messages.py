"""DescribeLogDirs: its request and response, as values.

Source: KIP-113 (log folders), KIP-827 (their disks' total and usable bytes, from version 4 on).
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition

UNKNOWN_BYTES = -1
"""Where nobody can tell the size of a disk."""


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest:
    """partitions None: all that the broker has."""

    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class DescribedReplica:
    """One replica in a log folder.

    offset_lag: how many records its log lacks up to its high watermark.
    is_future: it is to replace the replica of another folder.
    """

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class DescribedLogDir:
    """error KAFKA_STORAGE_ERROR: the folder has failed, and its replicas are not known."""

    error: ErrorCode
    path: str
    replicas: tuple[DescribedReplica, ...] = ()
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse:
    """error: of the request as a whole; versions before 3 have no field for it."""

    error: ErrorCode
    folders: tuple[DescribedLogDir, ...]
