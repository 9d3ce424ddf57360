"""A broker's log folders together: each one's replicas, failed ones, the choice for new replicas.

A new replica goes to the folder with the fewest. The contents of a failed folder are unknown: a
replica that is not new may be there, and is not created elsewhere.
Source: KIP-112; Kafka's LogManager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from highwater_broker.log.checkpoints import Claimed
from highwater_broker.log.folders import DeletedFolders
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.storage_identity import STORAGE_IDENTITY, StorageIdentity
from highwater_broker.replica_logs import HostedLog, MayGoOn, ReplicaLogs
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from highwater_core.ports import DiskSpace

Interrupted = tuple[DeletedFolders, ...]
"""Leftovers of earlier deletions, by folder."""


@dataclass(frozen=True, slots=True)
class FolderContent:
    """A log folder and the replicas in it. space: None where it is not known, or the disk failed.

    name: empty where it is the broker's only one.
    """

    name: str
    is_failed: bool
    replicas: tuple[TopicPartition, ...]
    space: DiskSpace | None


class _Found(NamedTuple):
    """A log that was found at the start."""

    folder: ReplicaLogs
    log: HostedLog

    def progress(self) -> tuple[int, int]:
        log = self.log.log
        return log.epoch_cache.latest_epoch, log.log_end_offset


class LogFolders:
    """Every log of the broker, by its folder.

    Invariant: no replica is in two folders that have not failed.
    """

    def __init__(self, folders: Sequence[ReplicaLogs], storage: StorageIdentity | None) -> None:
        self._folders = tuple(folders)
        self._storage = storage
        self._homes: dict[TopicPartition, ReplicaLogs] = {}
        self._counts = {id(folder): 0 for folder in folders}
        self._contested: dict[TopicPartition, tuple[ReplicaLogs, ...]] = {}
        """Folders with logs of different topics for one partition; none of the logs is open."""
        self._unmade: dict[TopicPartition, None] = {}
        """Replicas that could not be created: they are in no folder, not in a failed one either."""

    # ------------------------------------------------------------ contents

    def sound(self) -> tuple[ReplicaLogs, ...]:
        """Return the folders that serve."""
        return tuple(folder for folder in self._folders if not folder.is_failed)

    @property
    def has_failed(self) -> bool:
        """Whether any folder has failed."""
        return any(folder.is_failed for folder in self._folders)

    def contents(self) -> tuple[FolderContent, ...]:
        """Return every folder with its replicas, sorted by topic and number."""
        replicas: dict[str, list[TopicPartition]] = {}
        for key in sorted(self._homes):
            replicas.setdefault(self._homes[key].name, []).append(key)
        return tuple(
            FolderContent(
                folder.name,
                folder.is_failed,
                tuple(replicas.get(folder.name, ())),
                None if folder.is_failed else folder.space(),
            )
            for folder in self._folders
        )

    @property
    def offline_count(self) -> int:
        """How many replicas are in folders that have failed, as far as it is known."""
        return sum(home.is_failed for home in self._homes.values())

    def fail(self, name: str) -> list[TopicPartition]:
        """Consider the folder failed until the broker starts again; return its replicas."""
        for folder in self._folders:
            folder.is_failed |= folder.name == name
        return sorted(key for key, home in self._homes.items() if home.name == name)

    def home_of(self, key: TopicPartition) -> ReplicaLogs | None:
        """Return the folder that has the replica, None where none is known."""
        return self._folders[0] if len(self._folders) == 1 else self._homes.get(key)

    def may_start(self, key: TopicPartition, *, is_new: bool) -> bool:
        """Return whether the replica is in a serving folder, or may be created in one."""
        home = self._homes.get(key)
        if home is not None:
            return not home.is_failed
        is_nowhere = is_new or key in self._unmade or not self.has_failed
        return bool(self.sound()) and is_nowhere

    # ------------------------------------------------------------ start

    async def load(self) -> list[HostedLog]:
        """Open every log of every folder; a folder that the disk refuses has failed.

        Ordering: the contents' id is settled before any log is opened.

        Raises:
            WrongBrokerFolder: a folder is another broker's.
            OSError: the disk refused all folders, or the note of a loss.
        """
        claimed: dict[str, Claimed] = {}

        async def claim(folder: ReplicaLogs) -> None:
            claimed[folder.name] = await folder.claim()

        await self._do_in_each(claim)
        await self._settle(claimed)
        found: dict[TopicPartition, list[_Found]] = {}

        async def load(folder: ReplicaLogs) -> None:
            for each in await folder.load():
                found.setdefault(each.topic_partition, []).append(_Found(folder, each))

        await self._do_in_each(load)
        hosted: dict[TopicPartition, HostedLog] = {}
        for key, logs in found.items():
            self._take_in(key, logs, hosted)
        for folder in self.sound():
            for key in folder.unopened():
                if key not in hosted:
                    self._put_home(key, folder)
        if not self.has_failed and all(folder.are_all_open for folder in self._folders):
            await self._note_opened()
        return [hosted[key] for key in sorted(hosted)]

    async def _do_in_each(self, do: Callable[[ReplicaLogs], Awaitable[None]]) -> None:
        """Call `do` for each serving folder; a folder whose disk refuses has failed.

        Raises:
            OSError: the last serving folder was refused too.
        """
        for folder in self.sound():
            try:
                await do(folder)
            except OSError as error:
                folder.fail_at_start(error)
                if not self.sound():
                    raise

    async def _settle(self, claimed: Mapping[str, Claimed]) -> None:
        """Find out whether records may be lost: in all folders, or in one by itself.

        A folder that was away while the broker ran is one of these: its logs may have been created
        anew elsewhere, and committed records appended to them.
        """
        storage = self._storage
        if storage is None:
            return
        sound = self.sound()
        await storage.settle(stopped_cleanly=all(each.stopped_cleanly for each in sound))
        named = [folder for folder in sound if folder.name]
        for folder in named:
            found = claimed[folder.name]
            is_known = folder.stopped_cleanly or folder.name in storage.folders_of_boot
            problem = storage.doubt_of(folder.name, found)
            if problem:
                folder.bad_input(folder.name, problem)
            if problem or not (found.was_ours and is_known):
                await storage.renew()
        failed = [folder.name for folder in self._folders if folder.is_failed]
        await storage.note_folders(
            {folder.name: claimed[folder.name].folder_id for folder in named}, failed
        )
        for folder in sound:
            folder.take_epochs_as_known(storage.were_opened)  # before this start: it stays failed

    async def _note_opened(self) -> None:
        if self._storage is None:
            return
        try:
            await self._storage.note_opened()
        except OSError as error:
            self._folders[0].refused(STORAGE_IDENTITY, error)

    def _take_in(
        self, key: TopicPartition, logs: list[_Found], hosted: dict[TopicPartition, HostedLog]
    ) -> None:
        """Host the partition's log; of several, the one with the latest leader epoch.

        The others were created while its folder had failed, or was away. They are set aside as
        strays. Epochs of different topics say nothing about each other: of their logs none is
        hosted until a command names the topic.
        """
        logs.sort(key=_Found.progress, reverse=True)
        topic_ids = {each.log.topic_id for each in logs} - {NO_TOPIC_ID}
        if len(topic_ids) > 1:
            self._contested[key] = tuple(each.folder for each in logs)
            for each in logs:
                each.folder.keep_closed(each.log)
            return
        home, hosted[key] = logs[0]
        self._put_home(key, home)
        for each in logs[1:]:
            each.folder.set_aside(each.log)

    def _decide(self, key: TopicPartition, topic_id: TopicId) -> None:
        """Make the folder with this topic's log the partition's home; others' become strays.

        Without a topic id it is the log with the latest leader epoch.

        Raises:
            LogRefused, OSError: a disk refused; nothing is decided.
        """
        folders = self._contested[key]
        if any(folder.is_failed for folder in folders):
            raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{key}: a log folder has failed")
        home = next((each for each in folders if each.has_log_of(key, topic_id)), None)
        for folder in folders:
            if folder is not home:
                folder.set_aside_closed(key)
        del self._contested[key]
        self.let_go(key)
        if home is not None:
            self._put_home(key, home)

    def set_aside_unlisted(self, listed: Collection[TopicPartition]) -> None:
        """Set all logs aside of partitions that are not listed, and whose topic nobody named."""
        for key in sorted(self._contested):
            folders = self._contested[key]
            if key not in listed and not any(folder.is_failed for folder in folders):
                try:
                    for folder in folders:
                        folder.set_aside_closed(key)
                except OSError as error:
                    self.refused(key, error)
                    continue
                del self._contested[key]
                self.let_go(key)

    def _put_home(self, key: TopicPartition, folder: ReplicaLogs) -> None:
        self.let_go(key)
        self._homes[key] = folder
        self._counts[id(folder)] += 1

    def let_go(self, key: TopicPartition) -> None:
        """Note that the replica's folder was deleted or set aside."""
        home = self._homes.pop(key, None)
        if home is not None:
            self._counts[id(home)] -= 1

    # ------------------------------------------------------------ replicas

    async def create(self, key: TopicPartition, topic_id: TopicId, config: LogConfig) -> HostedLog:
        """Create the partition's folder where the fewest replicas are, or open an unopened one.

        Raises:
            LogRefused, OSError: the disk refused.
        """
        if key in self._contested:
            self._decide(key, topic_id)
        sound = self.sound()
        home = self._homes.get(key)
        if home is None and sound:
            home = min(sound, key=lambda each: self._counts[id(each)])
        if home is None or home.is_failed:
            raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{key}: its log folder has failed")
        if key not in self._homes:
            self._unmade[key] = None
        self._put_home(key, home)
        try:
            hosted = await home.create(key, topic_id, config)
        except (LogRefused, OSError):
            if key in self._unmade:
                self.let_go(key)
            raise
        self._unmade.pop(key, None)
        return hosted

    async def forget_absent(self, keys: Iterable[TopicPartition]) -> None:
        """Remove partitions without a folder from checkpoints: see `ReplicaLogs.forget_absent`."""
        for folder in self.sound():
            await folder.forget_absent(keys)

    def take_as_hosted(self, key: TopicPartition) -> None:
        """From now on the checkpoints' entries come from the replica itself."""
        home = self.home_of(key)
        if home is not None:
            home.take_as_hosted(key)

    def write_topic_id(self, key: TopicPartition, topic_id: TopicId) -> None:
        """Write the id of a partition that has a folder; `sync_topic_ids` comes next.

        Raises:
            OSError: the disk refused.
        """
        self._homes[key].write_topic_id(key, topic_id)

    async def sync_topic_ids(self, keys: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions whose ids survive a power loss."""
        synced: list[TopicPartition] = []
        for folder in self.sound():
            here = [key for key in keys if self._homes.get(key) is folder]
            if here and await folder.sync_topic_ids(here):
                synced += here
        return synced

    async def sync(self) -> bool:
        """Make creations, removals and renames of partition folders durable; return whether so."""
        synced = [await folder.sync() for folder in self.sound()]
        return all(synced)

    def interrupted_deletions(self) -> Interrupted:
        """Return the leftovers of earlier deletions, for all deletions of one command."""
        return tuple(folder.interrupted_deletions() for folder in self._folders)

    def delete_leftover(
        self, key: TopicPartition, topic_id: TopicId, interrupted: Interrupted
    ) -> None:
        """Delete the leftovers of a partition whose log is not open, in every serving folder.

        Raises:
            OSError: the disk refused.
        """
        for folder, deleted in zip(self._folders, interrupted, strict=True):
            if not folder.is_failed:
                folder.delete_leftover(key, topic_id, deleted)
        home = self._homes.get(key)
        if home is not None and not home.has_folder_of(key):
            self.let_go(key)

    async def delete_strays(self, topics: Iterable[str], may_go_on: MayGoOn) -> bool:
        """Remove strays of topics that are gone; see `ReplicaLogs.delete_strays`."""
        names = list(topics)
        for folder in self.sound():
            if not await folder.delete_strays(names, may_go_on):
                return False
        return True

    async def delete_strays_of_others(
        self,
        topics: Mapping[str, TopicId],
        is_elsewhere: Callable[[TopicPartition], bool],
        may_go_on: MayGoOn,
    ) -> bool:
        """Remove strays of all topics but these; see `ReplicaLogs`."""
        for folder in self.sound():
            if not await folder.delete_strays_of_others(topics, is_elsewhere, may_go_on):
                return False
        return True

    # ------------------------------------------------------------ disk errors

    def suspect(self, key: TopicPartition) -> None:
        """Probe the disk that refused an operation on the replica."""
        for folder in self._of(key):
            folder.suspect()

    def refused(self, key: TopicPartition, error: Exception) -> None:
        """Trace the refused operation on the replica, and probe its disk."""
        for folder in self._of(key)[:1]:
            folder.refused(str(key), error)

    def _of(self, key: TopicPartition) -> tuple[ReplicaLogs, ...]:
        home = self._homes.get(key)
        return self.sound() if home is None else (home,)
