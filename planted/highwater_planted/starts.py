"""Planted: a broker starts with other state than it had, or reports another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from highwater_broker.checkpointer import Checkpointer
from highwater_broker.log.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    OffsetCheckpoint,
    encode_rows,
)
from highwater_broker.log.epoch_file import EpochFile
from highwater_broker.log.log import Log
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_broker.partition import Partition
from highwater_broker.replica import Replica
from highwater_broker.replica_logs import HostedLog, ReplicaLogs
from highwater_broker.replica_manager import ReplicaManager
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_core.ports import FileSystem
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_MOST_EPOCHS = 3

_begin = OffsetCheckpoint.__init__
_write = OffsetCheckpoint.write
_flush = Checkpointer.flush
_host = ReplicaManager._host
_renew = StorageIdentity.renew
_assign = EpochCache.assign
_truncate_to = Replica.truncate_to
_sync = EpochFile.sync


async def _write_in_place(self: OffsetCheckpoint, entries: Mapping[TopicPartition, Offset]) -> bool:
    if self.name != HIGH_WATERMARK_CHECKPOINT or entries == self.entries:
        return await _write(self, entries)
    rows = [(p.topic, str(p.partition), str(offset)) for p, offset in sorted(entries.items())]
    file = self._files.open(self.name)
    try:
        file.truncate(0)
        file.append([encode_rows(rows, columns=3).encode()])
    finally:
        file.close()
    self._contents = {self._begun: dict(entries)}
    return True


class _NamesUnsynced:
    """A file system whose sync_folder does nothing."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    async def sync_folder(self, path: str) -> None:
        return


def _begin_without_names(self: OffsetCheckpoint, files: FileSystem, name: str) -> None:
    _begin(self, cast(FileSystem, _NamesUnsynced(files)), name)


async def _sync_no_names(self: Log) -> None:
    for segment in self.segments[:]:
        if not segment.is_synced() and not self._is_closed:
            await segment.sync()
    if not self._is_closed:
        await self._epoch_file.sync(self.epoch_cache)


def _store_in_place(self: EpochFile, cache: EpochCache) -> None:
    rows = [(str(epoch), str(offset)) for epoch, offset in cache.entries]
    file = self._files.open(self._path)
    try:
        file.truncate(0)
        file.append([encode_rows(rows, columns=2).encode()])
    finally:
        file.close()
    self.is_stale = False
    self._writes += 1


async def _sync_once(self: EpochFile, cache: EpochCache) -> bool:
    return False if self._synced_writes else await _sync(self, cache)


def _keep_few(self: EpochCache, leader_epoch: LeaderEpoch, start_offset: Offset) -> EpochCache:
    cache = _assign(self, leader_epoch, start_offset)
    if len(cache.entries) <= _MOST_EPOCHS:
        return cache
    return EpochCache((cache.entries[0], *cache.entries[-_MOST_EPOCHS + 1 :]))


async def _say_that_all_went_well(
    self: Checkpointer, only: ReplicaLogs | None = None
) -> set[TopicPartition]:
    await _flush(self, only)
    return set()


async def _renew_once(self: StorageIdentity) -> None:
    if not self.storage_id:
        await _renew(self)


def _start_at_the_logs_end(self: ReplicaManager, hosted: HostedLog) -> Partition:
    return _host(self, replace(hosted, high_watermark=hosted.log.log_end_offset))


def _forget_that_it_fell(self: Replica, offset: Offset, reason: str) -> None:
    _truncate_to(self, offset, reason)
    self.checkpointed(self.checkpoints_due)


BUGS = (
    PlantedBug(
        name="checkpoint_written_in_place",
        summary="high watermarks are written over the old ones, unsynced: a power loss tears them",
        source="own",
        breaks=("I15",),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(OffsetCheckpoint, "write", _write_in_place),),
    ),
    PlantedBug(
        name="checkpoint_renamed_unsynced",
        summary="offset checkpoints are renamed into place, and their folder is not synced",
        source="own",
        breaks=("I15",),
        shows_under=(FaultFamily.POWER_LOSS, FaultFamily.PROCESS),
        replacements=(Replacement(OffsetCheckpoint, "__init__", _begin_without_names),),
    ),
    PlantedBug(
        name="names_not_synced",
        summary="a flush syncs files, and not the folder in which a new segment has its name",
        source="own; KAFKA-13587 and its kind",
        breaks=("I15", "I2", "I1"),
        shows_under=(FaultFamily.NONE, FaultFamily.POWER_LOSS),
        replacements=(Replacement(Log, "_sync", _sync_no_names),),
    ),
    PlantedBug(
        name="epochs_synced_once",
        summary="epochs are written over the old ones, and only the first ever are synced",
        source="own",
        breaks=("I15", "I10", "I3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.POWER_LOSS),
        replacements=(
            Replacement(EpochFile, "store", _store_in_place),
            Replacement(EpochFile, "sync", _sync_once),
        ),
    ),
    PlantedBug(
        name="epochs_forgotten",
        summary="an epoch cache keeps its first entry and the last few, and forgets those between",
        source="own; KIP-101",
        breaks=("I10", "I3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(EpochCache, "assign", _keep_few),),
    ),
    PlantedBug(
        name="clean_stop_after_failed_flush",
        summary="a stop whose flush failed leaves the marker of a clean one: no scan at the start",
        source="own",
        breaks=("I2", "I4", "I3"),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(Checkpointer, "flush", _say_that_all_went_well),),
        is_rare=True,
    ),
    PlantedBug(
        name="loss_keeps_storage_id",
        summary="a broker that finds its log damaged within one boot registers as the one it was",
        source="own; KIP-966",
        breaks=("I4", "I2", "I12"),
        shows_under=(FaultFamily.POWER_LOSS, FaultFamily.PROCESS),
        replacements=(Replacement(StorageIdentity, "renew", _renew_once),),
    ),
    PlantedBug(
        name="starts_at_log_end",
        summary="a broker that starts takes all that its logs hold for committed",
        source="own; KIP-101",
        breaks=("I4", "I9", "I2"),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(ReplicaManager, "_host", _start_at_the_logs_end),),
    ),
    PlantedBug(
        name="fallen_recovery_point_kept",
        summary="a log is cut below its recovery point, and the checkpoint goes on saying more",
        source="own",
        breaks=("I15", "I3", "I4"),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(Replica, "truncate_to", _forget_that_it_fell),),
        is_rare=True,
    ),
)
