"""Planted: checkpoints, flushes, recovery and deletion do less than they must."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from highwater_broker.checkpointer import Checkpointer
from highwater_broker.log.checkpoints import HIGH_WATERMARK_CHECKPOINT, Checkpoint, OffsetCheckpoint
from highwater_broker.log.log import Log
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment import Segment
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_core.ids import Offset, TopicId, TopicPartition
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_write = Checkpointer._write_in
_read = OffsetCheckpoint.read
_scan = Segment.scan


async def _list_led_only(
    self: Checkpointer,
    folder: ReplicaLogs,
    checkpoint: OffsetCheckpoint,
    offsets: Mapping[Partition, Offset],
) -> LogRefused | None:
    if checkpoint.name == HIGH_WATERMARK_CHECKPOINT:
        offsets = {each: offset for each, offset in offsets.items() if each.is_leader}
    return await _write(self, folder, checkpoint, offsets)


async def _write_no_high_watermarks(self: Checkpointer, only: ReplicaLogs | None = None) -> None:
    return


def _forget_high_watermarks(self: OffsetCheckpoint) -> Checkpoint:
    return Checkpoint({}) if self.name == HIGH_WATERMARK_CHECKPOINT else _read(self)


async def _sync_nothing(self: Log) -> None:
    return


def _scan_headers_only(
    self: Segment, from_offset: int, *, check_crc: bool, **options: Any
) -> Iterator[Any]:
    return _scan(self, from_offset, check_crc=False, **options)


def _is_never_another_topics(self: ReplicaLogs, key: TopicPartition, topic_id: TopicId) -> bool:
    return False


BUGS = (
    PlantedBug(
        name="checkpoint_lists_led_partitions_only",
        summary="followed partitions are left out of the high watermark checkpoint",
        source="KAFKA-1647",
        breaks=("I15",),
        shows_under=(FaultFamily.NONE, FaultFamily.PROCESS),
        replacements=(Replacement(Checkpointer, "_write_in", _list_led_only),),
    ),
    PlantedBug(
        name="checkpoint_skipped",
        summary="no high watermark is ever checkpointed",
        source="own",
        breaks=("I15",),
        shows_under=(FaultFamily.NONE,),
        replacements=(
            Replacement(Checkpointer, "write_high_watermarks", _write_no_high_watermarks),
        ),
    ),
    PlantedBug(
        name="checkpoint_not_read",
        summary="a broker starts with high watermark 0, whatever its checkpoint says",
        source="own; KAFKA-1647",
        breaks=("I15",),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(OffsetCheckpoint, "read", _forget_high_watermarks),),
    ),
    PlantedBug(
        name="flush_lies",
        summary="a flush moves the recovery point, and syncs nothing",
        source="own",
        breaks=("I1", "I3", "I2"),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(Log, "_sync", _sync_nothing),),
        is_rare=True,
    ),
    PlantedBug(
        name="recovery_keeps_torn_batch",
        summary="recovery checks no CRC: a batch that a power loss tore stays in the log",
        source="own",
        breaks=("I3", "I2"),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(Segment, "scan", _scan_headers_only),),
    ),
    PlantedBug(
        name="deleted_log_reused",
        summary="a deleted topic's log stays, and the topic that is created next goes on with it",
        source="KIP-516, KAFKA-10545",
        breaks=("I13", "I9", "I3"),
        shows_under=(FaultFamily.TOPICS,),
        replacements=(
            Replacement(Log, "delete", Log.close),
            Replacement(ReplicaLogs, "_holds_other_topic", _is_never_another_topics),
        ),
    ),
)
