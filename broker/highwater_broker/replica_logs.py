"""The logs in this broker's folder: opened at start, created, deleted and set aside later.

Damaged files are repaired or left out, and traced as BAD_INPUT_MET.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater_broker.log.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    Claimed,
    OffsetCheckpoint,
    claim_folder,
    metadata_path,
    read_partition_metadata,
    take_clean_shutdown_marker,
    write_clean_shutdown_marker,
    write_partition_metadata,
)
from highwater_broker.log.folders import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    DeletedFolders,
    can_be_hosted,
    list_deleted_folders,
    list_partitions,
    list_strays,
    partition_folder,
    rename_aside,
    topic_aside,
)
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.recovery import Recovery
from highwater_broker.log.refusing import refusing
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import NO_TOPIC_ID, NodeId, Offset, StorageId, TopicId, TopicPartition
from highwater_core.ports import DiskSpace, FileSystem, Trace

NO_ENTRY = Offset(0)


@dataclass(frozen=True, slots=True)
class HostedLog:
    """An open log with the data of its folder and the checkpoints."""

    topic_partition: TopicPartition
    log: Log
    high_watermark: Offset
    topic_id: TopicId
    must_checkpoint: bool = False
    """Whether its written recovery point is beyond its end, or may be after a power loss: see
    `Replica.must_checkpoint`."""


MayGoOn = Callable[[int], Awaitable[bool]]
"""Lets other tasks run from time to time; returns whether the rest must still be done."""


class ReplicaLogs:
    """Opens and closes logs; the four checkpoint files belong to it too."""

    def __init__(
        self,
        files: FileSystem,
        trace: Trace,
        broker_id: NodeId,
        cluster_id: str,
        log_config: Callable[[str], LogConfig],
        fail_points: FailPoints,
        storage: StorageIdentity | None = None,
        registers: Callable[[StorageId], Awaitable[bool]] | None = None,
        suspect: Callable[[], None] = lambda: None,
        name: str = "",
    ) -> None:
        self._files = files
        self._trace = trace
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._log_config = log_config
        self._fail_points = fail_points
        self._storage = storage
        self._registers = registers
        """Returns whether the broker is registered with this storage id, else begins to register.
Without it no loss is ever registered, and a log that lost batches stays closed."""
        self.suspect = suspect
        """Probes the disk that refused an operation."""
        self.name = name
        """The name of the log folder; empty where it is the broker's only one."""
        self.is_failed = False
        """Whether the disk has failed: it is not written until the broker starts again."""
        self.stopped_cleanly = False
        """Whether the broker's last stop was a clean one; known once `claim` returned."""
        self._epochs_are_known = False
        """Whether epoch files have this broker's own epochs: see `Recovery.inspect`."""
        self._checkpoints_are_durable = True
        self.high_watermarks = OffsetCheckpoint(files, HIGH_WATERMARK_CHECKPOINT)
        self.recovery_points = OffsetCheckpoint(files, RECOVERY_POINT_CHECKPOINT)
        self.log_starts = OffsetCheckpoint(files, LOG_START_CHECKPOINT)
        self.cleaned_to = OffsetCheckpoint(files, CLEANER_CHECKPOINT)
        self._unopened: dict[TopicPartition, None] = {}
        """Logs that the disk refused to open at the start, until a replica opens them."""

    def space(self) -> DiskSpace | None:
        """Return the size of the folder's disk, None where it is not known or refused."""
        try:
            return self._files.space("")
        except OSError:
            self.suspect()
            return None

    async def claim(self) -> Claimed:
        """Mark the folder as this broker's, if it is not yet.

        Raises:
            WrongBrokerFolder: it is another broker's.
            OSError: the disk refused.
        """
        if self.name:
            self._files.make_folder("")
        storage = self._storage if self.name else None
        draw_id = storage.draw_folder_id if storage is not None else str
        claimed = await claim_folder(self._files, self._broker_id, self._cluster_id, draw_id)
        self.stopped_cleanly = self._files.exists(CLEAN_SHUTDOWN_MARKER)
        return claimed

    def take_epochs_as_known(self, are_known: bool) -> None:
        self._epochs_are_known = are_known

    async def load(self) -> list[HostedLog]:
        """Open every log of the claimed folder.

        Raises:
            OSError: the disk refused.
        """
        self._checkpoints_are_durable = await self._sync_names()
        clean_shutdown = await take_clean_shutdown_marker(self._files)
        for folder in list_deleted_folders(self._files):
            self._remove_folder(folder)
        for checkpoint in self._checkpoints:
            self._read(checkpoint)
        hosted: list[HostedLog] = []
        for key in list_partitions(self._files):
            opened = await self._open_at_start(key, clean=clean_shutdown)
            if opened is None:
                self._unopened[key] = None
                continue
            hosted.append(opened)
            await self._fail_points.reach(FailPoint.DURING_LOG_RECOVERY)
        return hosted

    def fail_at_start(self, error: OSError) -> None:
        """Note that the folder cannot be used: its contents are unknown."""
        self.is_failed = True
        self._trace.emit(EventKind.LOG_FOLDER_FAILED, folder=self.name, what=str(error))

    def tell_written(self, checkpoint: OffsetCheckpoint, entries: int) -> None:
        """Trace that a checkpoint was written; of several log folders, also in which."""
        kind, name = EventKind.CHECKPOINT_WRITTEN, checkpoint.name
        if self.name:
            self._trace.emit(kind, file=name, entries=entries, folder=self.name)
        else:
            self._trace.emit(kind, file=name, entries=entries)

    def set_aside(self, hosted: HostedLog) -> None:
        """Set a log aside as a stray: a later one of its partition is in another folder."""
        key = str(hosted.topic_partition)
        self.bad_input(key, f"{self.name} and another log folder have it")
        try:
            hosted.log.set_aside()
        except LogRefused as error:
            self.refused(key, error)

    def keep_closed(self, hosted: HostedLog) -> None:
        """Close a log: another folder has one of another topic, and a command must name the topic.

        The checkpoints keep its entries.
        """
        key = hosted.topic_partition
        self.bad_input(str(key), f"{self.name} has topic {hosted.topic_id}, another folder another")
        hosted.log.let_go()
        self._unopened[key] = None

    def has_log_of(self, key: TopicPartition, topic_id: TopicId) -> bool:
        """Return whether the folder has a log of the partition, of no other topic than this.

        Raises:
            OSError: the disk refused.
        """
        return self.has_folder_of(key) and not self._holds_other_topic(key, topic_id)

    def set_aside_closed(self, key: TopicPartition) -> None:
        """Set the log of the partition aside as a stray, if there is one; it is not open.

        Raises:
            OSError: the disk refused.
        """
        if self.has_folder_of(key):
            stray = rename_aside(self._files, partition_folder(key), STRAY_SUFFIX)
            self.bad_input(str(key), f"another topic's folder, now {stray}")
        self._unopened.pop(key, None)

    async def _sync_names(self) -> bool:
        """Sync the checkpoints' names; return whether the disk did.

        A process that was killed between a rename and its sync leaves a visible checkpoint that a
        power loss would replace by the one before.
        """
        try:
            await self._files.sync_folder("")
        except OSError as error:
            self.refused("data folder", error)
            return False
        return True

    async def _open_at_start(self, key: TopicPartition, *, clean: bool) -> HostedLog | None:
        """Return the log in the partition's folder, None where the disk refuses to read it.

        Raises:
            OSError: a loss cannot be noted.
        """
        try:
            metadata = read_partition_metadata(self._files, partition_folder(key))
        except OSError as error:
            self.refused(str(key), error)
            return None
        if metadata.problem:
            self.bad_input(str(key), metadata.problem)
        try:
            recovery = self._inspect(key, self._log_config(key.topic), clean=clean)
            if recovery.has_lost_batches and self._storage is not None:
                await self._storage.renew()
            log = await self._recover(key, recovery)
        except LogRefused as refused:
            self.refused(str(key), refused)
            return None
        return self._hosted(key, log, metadata.topic_id)

    def _hosted(self, key: TopicPartition, log: Log, topic_id: TopicId) -> HostedLog:
        high_watermark = self.high_watermarks.offset_of(key) or NO_ENTRY
        recovery_point = self.recovery_points.offset_of(key) or NO_ENTRY
        must_checkpoint = recovery_point > log.recovery_point or not self._checkpoints_are_durable
        return HostedLog(key, log, high_watermark, topic_id, must_checkpoint)

    @property
    def _checkpoints(self) -> tuple[OffsetCheckpoint, ...]:
        return self.high_watermarks, self.recovery_points, self.log_starts, self.cleaned_to

    def _read(self, checkpoint: OffsetCheckpoint) -> None:
        found = checkpoint.read()
        if found.problem:
            self.bad_input(checkpoint.name, found.problem)

    def _inspect(self, key: TopicPartition, config: LogConfig, *, clean: bool) -> Recovery:
        return Recovery.inspect(
            self._files,
            partition_folder(key),
            config,
            clean_shutdown=clean,
            recovery_point=self.recovery_points.offset_of(key) or NO_ENTRY,
            log_start_offset=self.log_starts.offset_of(key) or NO_ENTRY,
            high_watermark=self.high_watermarks.offset_of(key) or NO_ENTRY,
            epochs_are_known=self._epochs_are_known,
        )

    async def _recover(self, key: TopicPartition, recovery: Recovery) -> Log:
        """Return the open log; records that recovery removed stay removed.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR.
        """
        log, report = Log.recovered(recovery)
        if recovery.changes_names:
            try:
                await self._files.sync_folder(log.folder)
            except OSError as error:
                raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{key}: {error}") from error
        for repair in report.repairs:
            self.bad_input(str(key), repair)
        self._trace.emit(
            EventKind.LOG_RECOVERED,
            topic=key.topic,
            partition=key.partition,
            offset=report.log_end_offset,
            truncated_bytes=report.truncated_bytes,
            clean=report.clean,
        )
        return log

    async def create(self, key: TopicPartition, topic_id: TopicId, config: LogConfig) -> HostedLog:
        """Create the partition's folder, or open one that could not be opened at start.

        A folder of an earlier topic of that name is set aside (KIP-516), and the checkpoints'
        entries of that topic are forgotten. A log that turns out to have lost batches stays closed
        and unchanged while the broker's registration does not show the loss.

        Ordering: the topic's id comes next, then take_as_hosted as the replica begins to serve.
        `sync` makes the folder itself durable.

        Raises:
            LogRefused, OSError: the disk refused.
        """
        if self._holds_other_topic(key, topic_id):
            stray = rename_aside(self._files, partition_folder(key), STRAY_SUFFIX)
            self.bad_input(str(key), f"an earlier topic's folder, now {stray}")
        await self.forget_absent((key,))
        recovery = self._inspect(key, config, clean=False)
        if recovery.has_lost_batches and not await self._has_told_loss():
            raise LogRefused(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{key} has lost batches, which this registration does not say",
            )
        log = await self._recover(key, recovery)
        return self._hosted(key, log, topic_id)

    async def forget_absent(self, keys: Iterable[TopicPartition]) -> None:
        """Remove partitions without a folder from checkpoints: they belonged to earlier topics.

        Raises:
            LogRefused: the disk refused.
        """
        with refusing(self.name):
            absent = [key for key in keys if not self._files.exists(partition_folder(key))]
        for checkpoint in self._checkpoints:
            await checkpoint.forget(absent)

    async def _has_told_loss(self) -> bool:
        """Note a loss of records; return whether the registration shows it too.

        Raises:
            OSError: it cannot be noted.
        """
        if self._storage is None:
            return True
        await self._storage.renew()
        return self._registers is not None and await self._registers(self._storage.storage_id)

    def take_as_hosted(self, key: TopicPartition) -> None:
        """From now on the checkpoints' entries come from the replica itself."""
        self._unopened.pop(key, None)

    @property
    def are_all_open(self) -> bool:
        """Whether every log in the folder was opened: the contents of others are unknown."""
        return not (self._unopened or self.is_failed)

    def unopened(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose logs the disk refused to open at the start."""
        return tuple(self._unopened)

    def has_folder_of(self, key: TopicPartition) -> bool:
        return self._files.exists(partition_folder(key))

    async def write_clean_shutdown_marker(self) -> None:
        """Mark that every log of the folder was flushed and closed."""
        try:
            await write_clean_shutdown_marker(self._files)
        except OSError as error:
            self.refused(CLEAN_SHUTDOWN_MARKER, error)

    def entries_of_unopened(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, Offset]:
        """Return the checkpoint's entries of unopened logs, to be written again.

        Source: I15; KAFKA-1647.
        """
        listed = checkpoint.entries
        return {key: listed[key] for key in self._unopened if key in listed}

    def _holds_other_topic(self, key: TopicPartition, topic_id: TopicId) -> bool:
        """Return whether the partition's folder has another topic id."""
        return self._is_of_other_topic(partition_folder(key), topic_id)

    def _is_of_other_topic(self, folder: str, topic_id: TopicId) -> bool:
        if topic_id == NO_TOPIC_ID:
            return False
        found = read_partition_metadata(self._files, folder).topic_id
        return found not in (NO_TOPIC_ID, topic_id)

    def interrupted_deletions(self) -> DeletedFolders:
        """Return the leftovers of earlier deletions, for all deletions of one command."""
        return DeletedFolders(self._files)

    def delete_leftover(
        self, key: TopicPartition, topic_id: TopicId, interrupted: DeletedFolders
    ) -> None:
        """Delete the folder of a partition whose log is not open, if there is one of that topic.

        Leftovers of an earlier deletion are deleted too: once a replica is confirmed as deleted, no
        further request comes.

        Raises:
            OSError: the disk refused.
        """
        folder = partition_folder(key)
        if not can_be_hosted(key):
            return
        if self._files.exists(folder) and not self._holds_other_topic(key, topic_id):
            deleted = rename_aside(self._files, folder, DELETE_SUFFIX)
            self._unopened.pop(key, None)
            self._files.remove(deleted)
        for deleted in interrupted.of(key):
            self._files.remove(deleted)

    def write_topic_id(self, key: TopicPartition, topic_id: TopicId) -> None:
        """Write the id of a partition that has a folder; `sync_topic_ids` comes next.

        Raises:
            OSError: the disk refused.
        """
        write_partition_metadata(self._files, partition_folder(key), topic_id)

    async def sync_topic_ids(self, keys: Sequence[TopicPartition]) -> bool:
        """Return whether the partitions' ids survive a power loss."""
        folders = [partition_folder(key) for key in keys]
        try:
            await self._files.sync_many([metadata_path(each) for each in folders], folders)
        except OSError as error:
            self.refused(f"the topic ids of {len(keys)} partitions", error)
            return False
        return True

    async def sync(self) -> bool:
        """Make creations, removals and renames of partition folders durable; return whether so."""
        try:
            await self._files.sync_folder("")
        except OSError as error:
            self.refused("data folder", error)
            return False
        return True

    async def delete_strays(self, topics: Iterable[str], may_go_on: MayGoOn) -> bool:
        """Remove strays of topics that are now known to be gone.

        may_go_on is called before each stray, and lets other tasks run; return its last result.
        """
        names = {name for topic in topics for name in (topic, topic_aside(topic))}
        return await self._delete_strays(lambda stray, folder: stray.topic in names, may_go_on)

    async def delete_strays_of_others(
        self,
        topics: Mapping[str, TopicId],
        is_elsewhere: Callable[[TopicPartition], bool],
        may_go_on: MayGoOn,
    ) -> bool:
        """Remove strays of all topics but these, which are all existing ones.

        A stray of one of their names with another topic id is of a deleted topic, too. Also removed
        is a replica of a partition that is assigned to other brokers. Otherwise as delete_strays.
        """
        names = {name: topic for topic in topics for name in (topic_aside(topic), topic)}

        def is_gone(stray: TopicPartition, folder: str) -> bool:
            topic = names.get(stray.topic)
            return (
                topic is None
                or self._is_of_other_topic(folder, topics[topic])
                or is_elsewhere(TopicPartition(topic, stray.partition))
            )

        return await self._delete_strays(is_gone, may_go_on)

    async def _delete_strays(
        self, is_gone: Callable[[TopicPartition, str], bool], may_go_on: MayGoOn
    ) -> bool:
        try:
            for number, (stray, folder) in enumerate(list_strays(self._files)):
                if not await may_go_on(number):
                    return False
                if is_gone(stray, folder):
                    self._remove_folder(folder)
        except OSError as error:
            self.refused("strays", error)
        return True

    def _remove_folder(self, folder: str) -> None:
        """Remove a folder that was set aside; if the disk refuses, it is removed later."""
        try:
            self._files.remove(folder)
        except OSError as error:
            self.refused(folder, error)

    def refused(self, where: str, error: Exception) -> None:
        """Trace a refused operation, and probe the disk."""
        self.bad_input(where, str(error))
        self.suspect()

    def bad_input(self, where: str, what: str) -> None:
        self._trace.emit(EventKind.BAD_INPUT_MET, where=where, what=what)
