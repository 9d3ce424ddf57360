"""DescribeLogDirs: what each of this broker's log folders has, and whether it has failed.

No replica is ever moved from one folder of a broker to another one here, so none is a future one.
Source: KIP-113, KIP-827.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_broker.kafka_api.rest_of_broker import LogDirs, Partitions
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.log_folders import FolderContent
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka.log_dir_messages import (
    UNKNOWN_BYTES,
    DescribedLogDir,
    DescribedReplica,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class DescribeLogDirsHandler:
    """Answers DescribeLogDirs; a replica that is not here is left out."""

    def __init__(
        self, log_dirs: LogDirs, partitions: Partitions, data_folder: str, turns: Turns
    ) -> None:
        self._log_dirs = log_dirs
        self._partitions = partitions
        self._data_folder = data_folder
        self._turns = turns

    async def handle(
        self, request: DescribeLogDirsRequest, listener: str
    ) -> DescribeLogDirsResponse:
        named = None if request.partitions is None else frozenset(request.partitions)
        contents = self._log_dirs.contents()
        async with self._turns.alone(sum(len(each.replicas) for each in contents)):
            folders = [await self._describe(each, named) for each in contents]
        return DescribeLogDirsResponse(ErrorCode.NONE, tuple(folders))

    async def _describe(
        self, content: FolderContent, named: frozenset[TopicPartition] | None
    ) -> DescribedLogDir:
        path = f"{self._data_folder}/{content.name}" if content.name else self._data_folder
        if content.is_failed:
            return DescribedLogDir(ErrorCode.KAFKA_STORAGE_ERROR, path)
        wanted = [each for each in content.replicas if named is None or each in named]
        found = await self._turns.each(self._describe_replica, wanted)
        total_bytes, usable_bytes = content.space or (UNKNOWN_BYTES, UNKNOWN_BYTES)
        return DescribedLogDir(
            ErrorCode.NONE, path, tuple(_those_here(found)), total_bytes, usable_bytes
        )

    def _describe_replica(self, key: TopicPartition) -> DescribedReplica | None:
        partition = self._partitions.get(key)
        if partition is None:  # its log could not be opened, or has gone meanwhile
            return None
        lag = max(0, partition.high_watermark - partition.log_end_offset)
        return DescribedReplica(key, partition.log.size_bytes, lag)


def _those_here(found: Iterable[DescribedReplica | None]) -> Iterable[DescribedReplica]:
    return (each for each in found if each is not None)
