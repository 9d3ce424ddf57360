"""Keeps a log's epoch cache in its file, leader-epoch-checkpoint.

Ordering: an entry is in the file's page cache before the first batch of its epoch is in the log's.
So a restarted process finds every epoch with a batch again. An entry without a batch has the offset
at which the epoch would begin, which is right. The file may lack the last such entry, made at an
election: taking over a dead broker's thousand leaderships must not wait for a thousand file
replacements. While that leader lives its cache has the entry; after its death no replica has a
record of the epoch. Content reaches the disk with the log's flush, before the recovery point moves:
after a power loss the file covers all below the recovery point, and the scan from there finds the
rest again. A file torn by a power loss is rebuilt from all batches.
Source: Kafka's LeaderEpochCheckpointFile; KAFKA-7415.
"""

from __future__ import annotations

from itertools import pairwise

from highwater_broker.log.checkpoints import (
    CorruptCheckpoint,
    encode_rows,
    parse_rows,
    read_text,
    write_renamed,
)
from highwater_broker.log.syncing import synced
from highwater_broker.logic.epoch_cache import EpochCache, EpochStart
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import FileSystem
from highwater_wire.kafka.record_batch import MAX_INT32, MAX_INT64

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


class EpochFile:
    """The file of one log's epoch cache."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{EPOCH_CHECKPOINT}"
        self.is_stale = False
        """Whether the file lacks an entry, or has a removed one."""
        self._writes = 0
        self._synced_writes = 0

    def load(self) -> EpochCache | None:
        """Return the cache, or None when there is no file.

        Raises:
            CorruptCheckpoint: the file does not hold an epoch cache.
        """
        text = read_text(self._files, self._path)
        if text is None:
            return None
        try:
            entries = tuple(
                EpochStart(LeaderEpoch(int(epoch)), Offset(int(offset)))
                for epoch, offset in parse_rows(text, columns=2)
            )
        except ValueError as error:
            raise CorruptCheckpoint(str(error)) from None
        for entry, next_entry in pairwise(entries):
            if entry[0] >= next_entry[0] or entry[1] >= next_entry[1]:
                raise CorruptCheckpoint("entries do not increase")
        if entries and (entries[0].leader_epoch < 0 or entries[0].start_offset < 0):
            raise CorruptCheckpoint("a negative epoch or offset")
        if entries and (
            entries[-1].leader_epoch > MAX_INT32 or entries[-1].start_offset > MAX_INT64
        ):
            raise CorruptCheckpoint("an epoch or offset that no answer can carry")
        return EpochCache(entries)

    def store(self, cache: EpochCache) -> None:
        """Replace the file's content, in the page cache.

        Raises:
            OSError: the content is the former one; `sync` will retry.
        """
        self.is_stale = True
        rows = [(str(epoch), str(offset)) for epoch, offset in cache.entries]
        write_renamed(self._files, self._path, encode_rows(rows, columns=2))
        self.is_stale = False
        self._writes += 1

    def remove(self) -> None:
        """Remove the file; the next append or sync stores it again.

        Raises:
            OSError: the disk refused.
        """
        self._files.remove(self._path)
        self.is_stale = True

    def mark_stale(self) -> None:
        """Note that the file has a removed entry, or lacks one; the next sync rewrites it."""
        self.is_stale = True

    async def sync(self, cache: EpochCache) -> bool:
        """Return once the content is on the disk; True when its folder must be synced too."""
        if self.is_stale:
            self.store(cache)
        writes = self._writes
        if self._synced_writes == writes:
            return False
        file = self._files.open(self._path)
        try:
            await synced(file.sync())
        finally:
            file.close()
        self._synced_writes = max(self._synced_writes, writes)
        return True
