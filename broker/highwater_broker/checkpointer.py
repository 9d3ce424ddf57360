"""The broker's periodic work on its logs: checkpoints, flushes, retention, lagging ISR members.

Source: docs/explanation/replication.md, "High watermark" and "ISR" (shrink every lag/2); V3 design,
section C; KAFKA-1647 (checkpoints list every hosted partition and start after the first
LeaderAndIsr).
"""

from __future__ import annotations

from collections.abc import Mapping

from highwater_broker.log.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    OffsetCheckpoint,
    write_clean_shutdown_marker,
)
from highwater_broker.log.record_batch import LogRefused, NoSpaceLeft
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.roles import Offline
from highwater_broker.settings import BrokerSettings
from highwater_broker.turns import take_turn
from highwater_core.config import Toggles
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import Offset
from highwater_core.ports import FileSystem, Trace
from highwater_core.runtime import Runtime, TaskScope

SEGMENTS_PER_TURN = 8
"""How many of a log are removed, three files each, before others run."""


class Checkpointer:
    """Runs the periodic tasks over whatever partitions there are, and the last flush."""

    def __init__(
        self,
        settings: BrokerSettings,
        toggles: Toggles,
        runtime: Runtime,
        trace: Trace,
        files: FileSystem,
        logs: ReplicaLogs,
        replicas: ReplicaManager,
        fail_points: FailPoints,
    ) -> None:
        self._settings = settings
        self._toggles = toggles
        self._runtime = runtime
        self._trace = trace
        self._files = files
        self._logs = logs
        self._replicas = replicas
        self._fail_points = fail_points

    def start(self, scope: TaskScope) -> None:
        scope.spawn("HighWatermarkCheckpointThread", self._checkpoint_high_watermarks())
        scope.spawn("LogFlusher", self._flush_logs())
        scope.spawn("LogRetention", self._apply_retention())
        scope.spawn("IsrExpiration", self._expire_isrs())
        scope.spawn("LateCheckpoints", self._write_what_is_due())

    # ------------------------------------------------------------ tasks

    async def _checkpoint_high_watermarks(self) -> None:
        await self._replicas.commanded.wait()
        while True:
            await self._runtime.sleep(self._settings.high_watermark_checkpoint_interval_ms)
            await self.write_high_watermarks()

    async def _flush_logs(self) -> None:
        while True:
            await self._runtime.sleep(self._settings.log_flush_interval_ms)
            await self.flush()

    async def _apply_retention(self) -> None:
        """Delete old segments; none of a topic for which more may be set than was read so far."""
        while True:
            await self._runtime.sleep(self._settings.log_retention_check_interval_ms)
            now_ms = self._runtime.wall_clock_ms()
            for number, partition in enumerate(self._replicas.partitions()):
                await take_turn(self._runtime, number)
                key = partition.topic_partition
                if self._replicas.get(key) is partition and self._replicas.knows_settings(
                    key.topic
                ):
                    partition.delete_old_segments(now_ms)
            await self.write_log_starts()

    async def _expire_isrs(self) -> None:
        while True:
            await self._runtime.sleep(max(1, self._settings.replica_lag_time_max_ms // 2))
            self._replicas.maybe_shrink_isrs()

    async def _write_what_is_due(self) -> None:
        """Try again what the disk refused: until then a leader appends nothing."""
        while True:
            await self._runtime.sleep(self._settings.replica_fetch_backoff_max_ms)
            if any(partition.must_checkpoint for partition in self._replicas.partitions()):
                await self.write_recovery_points()

    # ------------------------------------------------------------ what they do

    async def write_high_watermarks(self) -> None:
        """Write the high watermark of every hosted partition.

        Without the fix of KAFKA-1647 those without a role since the start are left out: their
        high watermark is then lost.
        """
        await self._fail_points.reach(FailPoint.BEFORE_HIGH_WATERMARK_CHECKPOINT)
        listed = {
            partition: partition.high_watermark
            for partition in self._replicas.partitions()
            if self._toggles.checkpoint_every_hosted_partition
            or not isinstance(partition.role, Offline)
        }
        await self._write(self._logs.high_watermarks, listed)
        await self._fail_points.reach(FailPoint.AFTER_HIGH_WATERMARK_CHECKPOINT)

    async def flush(self) -> bool:
        """Sync every log, then write what that made safe; return whether all went well."""
        await self._fail_points.reach(FailPoint.BEFORE_LOG_FLUSH)
        all_went_well = True
        for partition in self._replicas.partitions():
            try:
                await partition.log.flush()
            except LogRefused as refused:
                all_went_well = False
                self._logs.refused(str(partition.topic_partition), refused)
        await self.write_recovery_points()
        return all_went_well

    async def write_log_starts(self) -> bool:
        """Write where each log starts, then remove the segments that lie below; return whether
        the starts are on the disk.

        On a full disk the segments go first, and make room. A broker that dies before it has
        written then says that it lost them. Where the disk refuses for another reason they stay.
        """
        refused = await self._write_log_starts_once()
        if isinstance(refused, NoSpaceLeft):
            await self._remove_retired(self._log_starts())
            refused = await self._write_log_starts_once()
        return refused is None

    async def _write_log_starts_once(self) -> LogRefused | None:
        starts = self._log_starts()
        refused = await self._write(self._logs.log_starts, starts)
        if refused is None:
            await self._remove_retired(starts)
        return refused

    def _log_starts(self) -> dict[Partition, Offset]:
        return {partition: partition.log_start_offset for partition in self._replicas.partitions()}

    async def _remove_retired(self, starts: Mapping[Partition, Offset]) -> None:
        """Remove the segments below the starts, some in a turn: clients' topics have thousands."""
        for number, (partition, log_start_offset) in enumerate(starts.items()):
            await take_turn(self._runtime, number)
            try:
                while self._remove_some(partition, log_start_offset) == SEGMENTS_PER_TURN:
                    await self._runtime.sleep(0)
            except LogRefused as refused:
                self._logs.refused(str(partition.topic_partition), refused)

    def _remove_some(self, partition: Partition, log_start_offset: Offset) -> int:
        if partition.log_start_offset < log_start_offset:
            return 0  # the log was begun anew meanwhile: that start is no more on the disk
        return partition.log.remove_retired(log_start_offset, SEGMENTS_PER_TURN)

    async def write_recovery_points(self) -> None:
        """Write where each log starts, and up to where it is known to be on the disk.

        Ordering: where logs start comes first. What lies below was never synced, perhaps, and is
        no part of what a recovery point speaks for; a log that was begun anew may start elsewhere.
        Whoever waits for this may be cancelled: a partition's checkpoint is due until it is done.
        """
        await self._fail_points.reach(FailPoint.BEFORE_RECOVERY_POINT_WRITE)
        listed = self._replicas.partitions()
        due = {partition: partition.checkpoints_due for partition in listed}
        points = {partition: partition.log.recovery_point for partition in listed}
        if not await self.write_log_starts():
            return
        now = {
            each: min(point, each.log.recovery_point)
            for each, point in points.items()
            if self._replicas.get(each.topic_partition) is each  # not another topic's by now
        }
        if await self._write(self._logs.recovery_points, now) is None:
            for partition, count in due.items():
                partition.checkpointed(count)

    async def _write(
        self, checkpoint: OffsetCheckpoint, offsets: Mapping[Partition, Offset]
    ) -> LogRefused | None:
        """Write the partitions' offsets; return why the disk refused to.

        In a folder that failed the checkpoints stay as they are, for the next start.
        """
        if self._logs.is_failed:
            return LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, "the log folder has failed")
        entries = self._logs.entries_of_unopened(checkpoint)
        entries.update((each.topic_partition, offset) for each, offset in offsets.items())
        try:
            is_news = await checkpoint.write(entries)
        except LogRefused as refused:
            self._logs.refused(checkpoint.name, refused)
            return refused
        if is_news:
            self._trace.emit(
                EventKind.CHECKPOINT_WRITTEN, file=checkpoint.name, entries=len(entries)
            )
        return None

    async def finish(self) -> None:
        """Flush and close everything; leave the clean-shutdown marker if all of it worked.

        There is none where a log could not be opened: it may be damaged, or an earlier process
        may have left parts of it in the page cache alone.
        """
        await self.write_high_watermarks()
        is_clean = await self.flush() and self._logs.are_all_open
        for partition in self._replicas.partitions():
            try:
                partition.log.close()
            except LogRefused as refused:
                is_clean = False
                self._logs.refused(str(partition.topic_partition), refused)
        if is_clean:
            try:
                await write_clean_shutdown_marker(self._files)
            except OSError as error:
                self._logs.refused(CLEAN_SHUTDOWN_MARKER, error)
