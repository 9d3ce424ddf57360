"""The logs in this broker's folder: opened at start, created, deleted and set aside later.

Everything that is found damaged is repaired or left out, and traced as BAD_INPUT_MET.
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
from highwater_broker.log.storage_identity import StorageIdentity
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import NO_TOPIC_ID, NodeId, Offset, StorageId, TopicId, TopicPartition
from highwater_core.ports import FileSystem, Trace

NO_ENTRY = Offset(0)


@dataclass(frozen=True, slots=True)
class HostedLog:
    """An open log with what its folder and the checkpoints say of it."""

    topic_partition: TopicPartition
    log: Log
    high_watermark: Offset
    topic_id: TopicId
    must_checkpoint: bool = False
    """Whether its written recovery point is beyond its end, or may be after a power loss: see
    `Replica.must_checkpoint`."""


MayGoOn = Callable[[int], Awaitable[bool]]
"""Lets others run at a number of deeds; whether the rest is still to be done."""


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
        """Returns whether the broker is registered with the contents, else begins to register so.

        Without it no loss is ever registered, and a log that lost batches stays closed."""
        self.suspect = suspect
        """Has the disk looked at that refused something."""
        self.name = name
        """Of a folder of its own; empty where it is the broker's only one."""
        self.is_failed = False
        """Whether the disk serves no more: nothing is written until the broker starts again."""
        self.stopped_cleanly = False
        """Whether the broker's last stop was a clean one; known once `claim` returned."""
        self._epochs_are_known = False
        """Whether epoch files tell what this broker wrote: see `Recovery.inspect`."""
        self._checkpoints_are_durable = True
        self.high_watermarks = OffsetCheckpoint(files, HIGH_WATERMARK_CHECKPOINT)
        self.recovery_points = OffsetCheckpoint(files, RECOVERY_POINT_CHECKPOINT)
        self.log_starts = OffsetCheckpoint(files, LOG_START_CHECKPOINT)
        self.cleaned_to = OffsetCheckpoint(files, CLEANER_CHECKPOINT)
        self._unopened: dict[TopicPartition, None] = {}
        """Logs that the disk refused to open at the start, until a replica has them."""

    async def claim(self) -> bool:
        """Make the folder this broker's; return whether it was already.

        Raises:
            WrongBrokerFolder: it is another broker's.
            OSError: the disk refused.
        """
        if self.name:
            self._files.make_folder("")
        was_ours = await claim_folder(self._files, self._broker_id, self._cluster_id)
        self.stopped_cleanly = self._files.exists(CLEAN_SHUTDOWN_MARKER)
        return was_ours

    def take_epochs_as_known(self, are_known: bool) -> None:
        self._epochs_are_known = are_known

    async def load(self) -> list[HostedLog]:
        """Open every log of the folder, which is claimed.

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
        """Take note that the folder cannot be used: what is in it is not known."""
        self.is_failed = True
        self._trace.emit(EventKind.LOG_FOLDER_FAILED, folder=self.name, what=str(error))

    def set_aside(self, hosted: HostedLog) -> None:
        """Set a log aside as a stray: a later one of its partition is in another folder."""
        key = str(hosted.topic_partition)
        self.bad_input(key, f"{self.name} and another log folder have it")
        try:
            hosted.log.set_aside()
        except LogRefused as error:
            self.refused(key, error)

    async def _sync_names(self) -> bool:
        """Make durable what the checkpoints' names stand for; return whether the disk did.

        A process that was killed between a rename and its sync leaves a checkpoint that is seen,
        and which a power loss would replace by the one before.
        """
        try:
            await self._files.sync_folder("")
        except OSError as error:
            self.refused("data folder", error)
            return False
        return True

    async def _open_at_start(self, key: TopicPartition, *, clean: bool) -> HostedLog | None:
        """Return what is in the partition's folder, None where the disk refuses to say.

        Raises:
            OSError: a loss cannot be written down.
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
        """Return the open log; what its recovery took away does not come back.

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

        One that is left of an earlier topic of that name is set aside (KIP-516), and what the
        checkpoints say of that topic is forgotten. One that turns out to have lost batches stays
        closed, and as it is, while the broker is registered as one that lost nothing.

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
        """Have no checkpoint list those that have no folder: it was an earlier topic's partition.

        Raises:
            LogRefused: the disk refused.
        """
        absent = [key for key in keys if not self._files.exists(partition_folder(key))]
        for checkpoint in self._checkpoints:
            await checkpoint.forget(absent)

    async def _has_told_loss(self) -> bool:
        """Write down that something is lost; return whether the registration says so, too.

        Raises:
            OSError: it cannot be written down.
        """
        if self._storage is None:
            return True
        await self._storage.renew()
        return self._registers is not None and await self._registers(self._storage.storage_id)

    def take_as_hosted(self, key: TopicPartition) -> None:
        """From now on the replica itself says what the checkpoints list of it."""
        self._unopened.pop(key, None)

    @property
    def are_all_open(self) -> bool:
        """Whether every log that there is here was opened: nobody knows what others hold."""
        return not (self._unopened or self.is_failed)

    def unopened(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose logs the disk refused to open at the start."""
        return tuple(self._unopened)

    def has_folder_of(self, key: TopicPartition) -> bool:
        return self._files.exists(partition_folder(key))

    async def write_clean_shutdown_marker(self) -> None:
        """Say that every log of the folder was flushed and closed."""
        try:
            await write_clean_shutdown_marker(self._files)
        except OSError as error:
            self.refused(CLEAN_SHUTDOWN_MARKER, error)

    def entries_of_unopened(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, Offset]:
        """Return what the checkpoint says of logs that no replica has, to be written again.

        Source: I15; KAFKA-1647.
        """
        listed = checkpoint.entries
        return {key: listed[key] for key in self._unopened if key in listed}

    def _holds_other_topic(self, key: TopicPartition, topic_id: TopicId) -> bool:
        """Return whether the partition's folder says that it is of another topic id."""
        return self._is_of_other_topic(partition_folder(key), topic_id)

    def _is_of_other_topic(self, folder: str, topic_id: TopicId) -> bool:
        if topic_id == NO_TOPIC_ID:
            return False
        found = read_partition_metadata(self._files, folder).topic_id
        return found not in (NO_TOPIC_ID, topic_id)

    def interrupted_deletions(self) -> DeletedFolders:
        """Return what earlier deletions left, for all that one command deletes."""
        return DeletedFolders(self._files)

    def delete_leftover(
        self, key: TopicPartition, topic_id: TopicId, interrupted: DeletedFolders
    ) -> None:
        """Delete the folder of a partition whose log is not open, if there is one of that topic.

        What an earlier deletion left goes too: whoever is told that a replica is deleted asks no
        more.

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

    async def sync(self) -> None:
        """Make creations, removals and renames of partition folders durable."""
        try:
            await self._files.sync_folder("")
        except OSError as error:
            self.refused("data folder", error)

    async def delete_strays(self, topics: Iterable[str], may_go_on: MayGoOn) -> bool:
        """Remove what was set aside of topics that are now known to be gone.

        may_go_on is asked before each of the strays, and lets others run; return its last word.
        """
        names = {name for topic in topics for name in (topic, topic_aside(topic))}
        return await self._delete_strays(lambda stray, folder: stray.topic in names, may_go_on)

    async def delete_strays_of_others(
        self,
        topics: Mapping[str, TopicId],
        is_elsewhere: Callable[[TopicPartition], bool],
        may_go_on: MayGoOn,
    ) -> bool:
        """Remove what was set aside of any topic but these, which are all that there are.

        One of their names with another topic id is of a topic that is gone, too. So is a replica
        of a partition of theirs that is elsewhere. Else as before.
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
        """Remove a folder that is aside; what the disk refuses is removed another time."""
        try:
            self._files.remove(folder)
        except OSError as error:
            self.refused(folder, error)

    def refused(self, where: str, error: Exception) -> None:
        """Trace what the disk refused, and have it looked at."""
        self.bad_input(where, str(error))
        self.suspect()

    def bad_input(self, where: str, what: str) -> None:
        self._trace.emit(EventKind.BAD_INPUT_MET, where=where, what=what)
