"""The broker's periodic work on its logs: checkpoints, flushes, retention, lagging ISR members.

Source: docs/explanation/replication.md, "High watermark" and "ISR" (shrink every lag/2); V3 design,
section C; KAFKA-1647 (checkpoints list every hosted partition and start after the first
LeaderAndIsr).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from highwater_broker.log.checkpoints import OffsetCheckpoint
from highwater_broker.log.record_batch import LogRefused, NoSpaceLeft
from highwater_broker.log_folders import LogFolders
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.roles import Offline
from highwater_broker.settings import BrokerSettings
from highwater_broker.turns import take_turn
from highwater_core.config import Toggles
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import Offset, TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime, TaskScope

CheckpointOf = Callable[[ReplicaLogs], OffsetCheckpoint]
"""One of the three checkpoints of a folder."""
_HIGH_WATERMARKS: CheckpointOf = attrgetter("high_watermarks")
_RECOVERY_POINTS: CheckpointOf = attrgetter("recovery_points")
_LOG_STARTS: CheckpointOf = attrgetter("log_starts")

SEGMENTS_PER_TURN = 8
"""Segments of a log, three files each, that are removed before other tasks run."""


class Checkpointer:
    """Runs the periodic tasks over all partitions, and the last flush."""

    def __init__(
        self,
        settings: BrokerSettings,
        toggles: Toggles,
        runtime: Runtime,
        trace: Trace,
        logs: LogFolders,
        replicas: ReplicaManager,
        fail_points: FailPoints,
    ) -> None:
        self._settings = settings
        self._toggles = toggles
        self._runtime = runtime
        self._trace = trace
        self._logs = logs
        self._replicas = replicas
        self._fail_points = fail_points

    def start(self, scope: TaskScope) -> None:
        """Begin with the work, in each folder by itself: a slow disk holds up no other's."""
        folders = self._logs.sound()
        for folder in folders:
            scope.spawn("HighWatermarkCheckpointThread", self._checkpoint_high_watermarks(folder))
        for folder in folders:
            scope.spawn("LogFlusher", self._flush_logs(folder))
        for folder in folders:
            scope.spawn("LogRetention", self._apply_retention(folder))
        scope.spawn("IsrExpiration", self._expire_isrs())
        for folder in folders:
            scope.spawn("LateCheckpoints", self._write_what_is_due(folder))

    # ------------------------------------------------------------ tasks

    async def _checkpoint_high_watermarks(self, folder: ReplicaLogs) -> None:
        await self._replicas.commanded.wait()
        while True:
            await self._runtime.sleep(self._settings.high_watermark_checkpoint_interval_ms)
            await self.write_high_watermarks(folder)

    async def _flush_logs(self, folder: ReplicaLogs) -> None:
        while True:
            await self._runtime.sleep(self._settings.log_flush_interval_ms)
            await self.flush(folder)

    async def _apply_retention(self, folder: ReplicaLogs) -> None:
        """Delete old segments, and forget idle producers.

        A topic whose configuration may not have been read yet keeps its segments.
        """
        while True:
            await self._runtime.sleep(self._settings.log_retention_check_interval_ms)
            now_ms = self._runtime.wall_clock_ms()
            for number, partition in enumerate(self._partitions(folder)):
                await take_turn(self._runtime, number)
                key = partition.topic_partition
                if self._replicas.get(key) is partition and self._replicas.knows_settings(
                    key.topic
                ):
                    self._delete_old_segments(partition, now_ms)
                partition.expire_producers(now_ms, self._settings.producer_id_expiration_ms)
            await self.write_log_starts(folder)

    def _delete_old_segments(self, partition: Partition, now_ms: int) -> None:
        try:
            partition.delete_old_segments(now_ms)
        except LogRefused as refused:
            self._logs.refused(partition.topic_partition, refused)

    async def _expire_isrs(self) -> None:
        while True:
            await self._runtime.sleep(max(1, self._settings.replica_lag_time_max_ms // 2))
            self._replicas.maybe_shrink_isrs()

    async def _write_what_is_due(self, folder: ReplicaLogs) -> None:
        """Retry refused checkpoint writes: until they succeed a leader appends no record."""
        while True:
            await self._runtime.sleep(self._settings.replica_fetch_backoff_max_ms)
            if any(partition.must_checkpoint for partition in self._partitions(folder)):
                await self.write_recovery_points(folder)

    # ------------------------------------------------------------ their steps
    # Each is for one folder, or for all of them, one after another.

    def _folders(self, only: ReplicaLogs | None) -> tuple[ReplicaLogs, ...]:
        return self._logs.sound() if only is None else (only,)

    def _partitions(self, only: ReplicaLogs | None) -> tuple[Partition, ...]:
        return tuple(
            partition
            for partition in self._replicas.partitions()
            if only in (None, self._logs.home_of(partition.topic_partition))
        )

    async def write_high_watermarks(self, only: ReplicaLogs | None = None) -> None:
        """Write the high watermark of every hosted partition.

        Without the fix of KAFKA-1647 those without a role since the start are left out: their
        high watermark is then lost.
        """
        await self._fail_points.reach(FailPoint.BEFORE_HIGH_WATERMARK_CHECKPOINT)

        def high_watermark_of(partition: Partition) -> Offset | None:
            is_listed = self._toggles.checkpoint_every_hosted_partition
            if is_listed or not isinstance(partition.role, Offline):
                return partition.high_watermark
            return None

        for folder in self._folders(only):
            await self._write(folder, _HIGH_WATERMARKS, high_watermark_of)
        await self._fail_points.reach(FailPoint.AFTER_HIGH_WATERMARK_CHECKPOINT)

    async def flush(self, only: ReplicaLogs | None = None) -> set[TopicPartition]:
        """Sync every log, then write recovery points; return the logs that the disk refused."""
        await self._fail_points.reach(FailPoint.BEFORE_LOG_FLUSH)
        unflushed: set[TopicPartition] = set()
        for partition in self._partitions(only):
            try:
                await partition.log.flush()
            except LogRefused as refused:
                unflushed.add(partition.topic_partition)
                self._logs.refused(partition.topic_partition, refused)
        await self.write_recovery_points(only)
        return unflushed

    async def write_log_starts(self, only: ReplicaLogs | None = None) -> bool:
        """Write log starts, then remove segments below; return whether the starts are on the disk.

        On a full disk the segments are removed first, to make room. A broker that dies before the
        write then registers as having lost them. If the disk refuses for another reason they stay.
        """
        are_written = [await self._write_log_starts(folder) for folder in self._folders(only)]
        return all(are_written)

    async def _write_log_starts(self, folder: ReplicaLogs) -> bool:
        refused = await self._write_log_starts_once(folder)
        if isinstance(refused, NoSpaceLeft):
            starts = {each: each.log_start_offset for each in self._partitions(folder)}
            await self._remove_retired(starts)
            refused = await self._write_log_starts_once(folder)
        return refused is None

    async def _write_log_starts_once(self, folder: ReplicaLogs) -> LogRefused | None:
        written: dict[Partition, Offset] = {}

        def log_start_of(partition: Partition) -> Offset:
            written[partition] = partition.log_start_offset
            return written[partition]

        refused = await self._write(folder, _LOG_STARTS, log_start_of)
        if refused is None:
            await self._remove_retired(written)
        return refused

    async def _remove_retired(self, starts: Mapping[Partition, Offset]) -> None:
        """Remove the segments below the starts, some in a turn: topics may have thousands."""
        for number, (partition, log_start_offset) in enumerate(starts.items()):
            await take_turn(self._runtime, number)
            try:
                while self._remove_some(partition, log_start_offset) == SEGMENTS_PER_TURN:
                    await self._runtime.sleep(0)
            except LogRefused as refused:
                self._logs.refused(partition.topic_partition, refused)

    def _remove_some(self, partition: Partition, log_start_offset: Offset) -> int:
        if partition.log_start_offset < log_start_offset:
            return 0  # the log began anew meanwhile: that start is no longer on the disk
        return partition.log.remove_retired(log_start_offset, SEGMENTS_PER_TURN)

    async def write_recovery_points(self, only: ReplicaLogs | None = None) -> None:
        """Write each log's start, and its recovery point.

        Ordering: log starts first. Records below a start may never have been synced, and a recovery
        point does not cover them; a log that began anew may start elsewhere. The caller may be
        cancelled: a partition's checkpoint is due until it is written.
        """
        await self._fail_points.reach(FailPoint.BEFORE_RECOVERY_POINT_WRITE)
        for folder in self._folders(only):
            await self._write_recovery_points(folder)

    async def _write_recovery_points(self, folder: ReplicaLogs) -> None:
        listed = self._partitions(folder)
        due = {partition: partition.checkpoints_due for partition in listed}
        points = {partition: partition.log.recovery_point for partition in listed}
        if not await self._write_log_starts(folder):
            return

        def point_now(partition: Partition) -> Offset:
            # One that is hosted since has no log start on the disk yet: all of it is checked.
            return min(points.get(partition, Offset(0)), partition.log.recovery_point)

        if await self._write(folder, _RECOVERY_POINTS, point_now) is None:
            for partition, count in due.items():
                partition.checkpointed(count)

    async def _write(
        self,
        folder: ReplicaLogs,
        checkpoint_of: CheckpointOf,
        offset_of: Callable[[Partition], Offset | None],
    ) -> LogRefused | None:
        """Write the offsets of the folder's hosted partitions into it; return its disk's error.

        offset_of: None for a partition that is left out. In a folder that failed the checkpoints
        stay as they are, for the next start.

        Ordering: the partitions and offsets are those of this moment. While another folder was
        written, a log of this one may have been cut, deleted or created.
        """
        if folder not in self._logs.sound():
            return None
        here = {
            partition: offset
            for partition in self._partitions(folder)
            if (offset := offset_of(partition)) is not None
        }
        return await self._write_in(folder, checkpoint_of(folder), here)

    async def _write_in(
        self, folder: ReplicaLogs, checkpoint: OffsetCheckpoint, offsets: Mapping[Partition, Offset]
    ) -> LogRefused | None:
        entries = folder.entries_of_unopened(checkpoint)
        entries.update((each.topic_partition, offset) for each, offset in offsets.items())
        try:
            is_news = await checkpoint.write(entries)
        except LogRefused as refused:
            folder.refused(checkpoint.name, refused)
            return refused
        if is_news:
            folder.tell_written(checkpoint, len(entries))
        return None

    async def finish(self) -> None:
        """Flush and close all logs; leave a clean-shutdown marker in each folder without an error.

        A folder whose log could not be opened has none: the log may be damaged, or parts of it may
        be in the page cache alone.
        """
        await self.write_high_watermarks()
        unclean = await self.flush()
        for partition in self._replicas.partitions():
            try:
                partition.log.close()
            except LogRefused as refused:
                unclean.add(partition.topic_partition)
                self._logs.refused(partition.topic_partition, refused)
        homes = [self._logs.home_of(key) for key in sorted(unclean)]
        for folder in self._logs.sound():
            if folder.are_all_open and folder not in homes:
                await folder.write_clean_shutdown_marker()
