"""Follows a replica's log by the bytes on its disk: its batches, and their losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from highwater_simulator.disk import Disk, joined
from highwater_simulator.disk_tree import FileNode, FolderNode
from highwater_simulator.oracle.batches import EMPTY, Batch, Chain, is_sound, parse_batches
from highwater_simulator.oracle.checkpoint_text import read_rows

LOG_SUFFIX = ".log"
EPOCHS_NAME = "leader-epoch-checkpoint"


class _Place(NamedTuple):
    """Where a batch of the chain is: in which file, and as which batch on the disk."""

    path: str
    batch: Batch


class ReplicaShadow:
    """One replica's batches, in the order of its segments.

    held_end: the offset below which it has all committed records.
    lost_from: the first committed offset that a disk fault lost and that is still missing.
    cut_from: the first committed offset that its broker truncated and that is still missing.

    A log may begin above offset 0, by retention or because its leader's log does. Records below its
    start count as held. While a part of the earlier log is left, these are its earlier records;
    else they are the committed ones, since only committed records are removed at a log's start.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        committed_below: Callable[[int], int] = lambda offset: EMPTY,
        stands_for: Callable[[Batch, bytes], Sequence[Batch]] = lambda batch, data: (batch,),
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._committed_below = committed_below
        """Returns the chain value of the committed records below an offset."""
        self._stands_for = stands_for
        """Returns the batches that one of a compacted log stands for."""
        self._home = next(iter(disk.replica_folders(folder)), joined(disk.log_folders[0], folder))
        """The path of its folder: in the log folder where a segment was created last, while it is
        there. A topic that is created again while one log folder has failed leaves logs in two."""
        self.chain = Chain()
        self._former = Chain()
        """The log before it was begun anew: a power loss may bring it back."""
        self._places: list[_Place] = []
        self._parsed: dict[str, int] = {}
        self._verifies = False
        """Whether its disk may have damaged the log, so that rescans check CRCs."""
        self.is_of_deleted_topic = False
        self.is_stale = False
        """Whether files changed their names since the folder was read: rescan reads it again."""
        self.held_end = 0
        self.lost_from: int | None = None
        self._lost_to = 0
        """Where the log ended before disk faults lost records."""
        self.cut_from: int | None = None

    @property
    def home(self) -> str:
        """The path of its folder."""
        return self._home

    @property
    def log_folder(self) -> str:
        """The log folder that it is in, "" for a broker's only one."""
        return self._disk.in_log_folder(self._home)[0]

    @property
    def end_offset(self) -> int:
        return self.chain.end_offset

    @property
    def log_end_offset(self) -> int | None:
        """The offset at which its broker appends next; None where there is no segment.

        Without any batch it is the last segment's base offset.
        """
        if self.chain.batches or not self._parsed:
            return self.end_offset if self.chain.batches else None
        return _base_offset(max(self._parsed))

    # ------------------------------------------------------------ following the disk

    def appended(self, path: str, added: Callable[[Batch, int], None]) -> None:
        """Parse the bytes appended to a segment; `added` gets each batch and its chain value."""
        content = self._disk.content(path)
        if content is None or self.is_stale or not self._is_at_home(path):
            return
        for batch in parse_batches(content, self._parsed.get(path, 0)):
            if not self.chain.batches:
                self._begin_at(batch.base_offset, self.chain)
            for original in self._originals(batch, content):
                chain = self.chain.append(original)
                self._places.append(_Place(path, batch))
                added(original, chain)
            self._parsed[path] = batch.position + batch.size_bytes

    def _originals(self, batch: Batch, content: bytearray) -> Sequence[Batch]:
        """Return the batches that a compacted one replaces; out of its place, the batch itself."""
        if batch.base_offset != self.end_offset:
            return (batch,)
        return self._stands_for(batch, _bytes_of(batch, content))

    def _begin_at(self, offset: int, before: Chain) -> None:
        """Begin the log at the offset. before: its chain until now."""
        known = before if _tells_of(before, offset) else self._former
        if _tells_of(known, offset):
            seed = known.chain_below(offset)
        else:
            seed = self._committed_below(offset)
        if before.batches and known is not before:
            self._former = before
        self.chain = Chain(offset, seed)

    def _begin_segment(self, path: str, before: Chain) -> None:
        """Add a segment; the first one, and one that leaves a gap, begins the log anew."""
        if not self._parsed or self._leaves_a_gap(path):
            self._places = []
            self._begin_at(_base_offset(path), before)
        self._parsed[path] = 0

    def truncated(self, path: str) -> None:
        """Drop the batches that a segment no longer holds."""
        if self.is_stale or not self._is_at_home(path):
            return
        content = self._disk.content(path)
        size_bytes = 0 if content is None else len(content)
        count = len(self._places)
        while count and self._places[count - 1].path == path:
            batch = self._places[count - 1].batch
            if batch.position + batch.size_bytes <= size_bytes:
                break
            count -= 1
        self.chain.keep(count)
        del self._places[count:]
        self._parsed[path] = min(self._parsed.get(path, 0), size_bytes)
        if not count:
            self.is_of_deleted_topic = False

    def renamed(self, path: str) -> None:
        """Note that a file or the folder was created, renamed or removed."""
        if not self._is_at_home(path):
            if isinstance(self._disk.find(path), FileNode):
                self._home, self.is_stale = path.rpartition("/")[0], True
            return
        content = self._disk.content(path)
        is_next_segment = (
            path.endswith(LOG_SUFFIX)
            and path not in self._parsed
            and all(path > known for known in self._parsed)
            and content is not None
            and not content
        )
        if is_next_segment:
            self._begin_segment(path, self.chain)
        else:
            self.is_stale = True

    def _is_at_home(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self._home}/")

    def rescan(self, added: Callable[[Batch, int], None], *, verify: bool = False) -> None:
        """Read the folder anew; with verify, up to the first batch whose CRC is wrong.

        Once verified, every later rescan verifies: files may change their names before the broker
        cuts the damaged batches off. A rescan that verifies leaves out segments wholly below the
        log's start: a power loss brought them back.
        """
        self.is_stale = False
        self._verifies |= verify
        self._read_folder(added, verify=self._verifies)
        if not self.chain.batches:
            self.is_of_deleted_topic = False

    def _read_folder(self, added: Callable[[Batch, int], None], *, verify: bool) -> None:
        places = self._disk.replica_folders(self._folder)
        if places and self._home not in places:
            self._home = places[0]
        folder = self._disk.find(self._home)
        entries = folder.entries if isinstance(folder, FolderNode) else {}
        before = self.chain
        self.chain, self._places, self._parsed = Chain(), [], {}
        names = sorted(
            name
            for name, node in entries.items()
            if name.endswith(LOG_SUFFIX) and isinstance(node, FileNode)
        )
        while verify and len(names) > 1 and _base_offset(names[1]) <= before.start_offset:
            del names[0]
        for number, name in enumerate(names):
            path = f"{self._home}/{name}"
            if self._is_replaced(name, names[number + 1 :]):
                continue
            if verify and self._parsed and self._leaves_a_gap(name):
                self._parsed[path] = 0
                return
            self._begin_segment(path, before)
            self.appended(path, added)
            if verify and self._drop_damaged(path):
                if not self.chain.batches:  # the damaged batch's offset is no start either
                    self._begin_at(_base_offset(names[0]), before)
                return

    def _is_replaced(self, segment: str, later: Sequence[str]) -> bool:
        """Return whether a compacted segment has taken its place: the log goes on behind that."""
        is_within = bool(self._parsed) and _base_offset(segment) < self.end_offset
        return is_within and self.end_offset in map(_base_offset, later)

    def _leaves_a_gap(self, segment: str) -> bool:
        """Return whether the segment begins elsewhere than where the log ends."""
        return _base_offset(segment) != self.end_offset

    def _drop_damaged(self, path: str) -> bool:
        """Drop the segment's batches from the first damaged one on; return whether there is one.

        Later appends are parsed from there on, without a look at CRCs. That is sound, since a
        broker cuts the damage before it appends: plans damage only bytes that every start checks.
        """
        content = self._disk.content(path) or b""
        places = [place.path for place in self._places]
        first = places.index(path) if path in places else len(places)
        next_offset = _base_offset(path)
        before: Batch | None = None
        for index in range(first, len(self._places)):
            batch = self._places[index].batch
            if batch is before:
                continue
            before = batch
            is_next, next_offset = batch.base_offset == next_offset, batch.next_offset
            if not (is_next and is_sound(content, batch)):
                self.chain.keep(index)
                del self._places[index:]
                self._parsed[path] = batch.position
                return True
        return self._parsed[path] < len(content)

    def durable_end(self, incarnation: int, log_start_offset: int = 0) -> int:
        """Return the offset below which that incarnation may consider its batches durable.

        log_start_offset: the one on the disk; batches below it need not be durable.
        Synced bytes are durable. Bytes whose fsync failed in an earlier incarnation count too: the
        kernel takes their pages for clean, and a process that did not get the error cannot know.
        """
        end_offset = max(self.chain.start_offset, log_start_offset)
        synced = {path: self._synced_size(path, incarnation) for path in self._parsed}
        for path, batch in self._places:
            if batch.next_offset <= log_start_offset:
                continue
            if batch.position + batch.size_bytes > synced.get(path, 0):
                break
            end_offset = batch.next_offset
        return end_offset

    def _synced_size(self, path: str, incarnation: int) -> int:
        """Return how many bytes a power loss leaves of the file; 0 if its name is not durable.

        Where it leaves the file that was compacted instead, that has all the more.
        """
        node, durable = self._disk.find(path), self._disk.durable_file(path)
        if not isinstance(node, FileNode) or durable is None:
            return 0
        if durable is not node and _synced_as_told(durable, incarnation) < len(durable.content):
            return 0
        return _synced_as_told(node, incarnation)

    def missing_epochs(self, start_offset: int, end_offset: int, incarnation: int) -> list[int]:
        """Return the epochs of the batches there that a power loss could take from the epoch file.

        The list is empty where a power loss leaves no readable epoch file: the next start then
        rebuilds it from all batches.
        """
        node = self._disk.durable_file(f"{self._home}/{EPOCHS_NAME}")
        if node is None:
            return []
        content = bytes(node.content[: _synced_as_told(node, incarnation)]) + node.lost_tail
        rows = read_rows(content)
        if rows is None:
            return []
        listed = [int(epoch) for epoch, _ in rows]
        missing: list[int] = []
        last = -1
        for batch in self.chain.batches:
            if batch.next_offset > end_offset:
                break
            if batch.base_offset >= start_offset and batch.leader_epoch != last:
                last = batch.leader_epoch
                if last not in listed:
                    missing.append(last)
        return missing

    # ------------------------------------------------------------ committed records

    def data_of(self, index: int) -> tuple[Batch, bytes]:
        """Return the batch of that number in the chain as it is on the disk, and its bytes."""
        path, batch = self._places[index]
        return batch, _bytes_of(batch, self._disk.content(path) or b"")

    def holds(self, committed: Chain, end_offset: int) -> bool:
        """Return whether the log has every committed batch below end_offset, unchanged."""
        if end_offset <= self.chain.start_offset:
            return True
        return self.end_offset >= end_offset and (
            self.chain.chain_below(end_offset) == committed.chain_below(end_offset)
        )

    def note_held(self, committed: Chain) -> None:
        """Bring held_end up to date, and forget losses that have come back."""
        end_offset = min(self.end_offset, committed.end_offset)
        if not self.holds(committed, end_offset):
            end_offset = self.chain.first_difference(committed, end_offset)
        self.held_end = end_offset
        lost_to = min(self._lost_to, committed.end_offset)
        if self.lost_from is not None and self.lost_from < end_offset < lost_to:
            self.lost_from = end_offset  # a part of them has come back
        self.lost_from = self._still_missing(self.lost_from, end_offset)
        self._lost_to = 0 if self.lost_from is None else self._lost_to
        self.cut_from = self._still_missing(self.cut_from, end_offset)

    def _still_missing(self, from_offset: int | None, held_end: int) -> int | None:
        """Return the first missing offset from the log's start on; None if all are back."""
        if from_offset is None:
            return None
        from_offset = max(from_offset, self.chain.start_offset)
        return None if held_end > from_offset else from_offset

    def lost_by_disk(self, offset: int) -> bool:
        """Return whether a disk fault lost the record at the offset."""
        return self.lost_from is not None and self.lost_from <= offset

    def forget_beyond(self, end_offset: int) -> None:
        """Forget the records from end_offset on, held or lost: their loss was excused."""
        self.held_end = min(self.held_end, end_offset)
        if self.lost_from is not None and self.lost_from >= end_offset:
            self.lost_from, self._lost_to = None, 0
        if self.cut_from is not None and self.cut_from >= end_offset:
            self.cut_from = None

    def note_lost_by_disk(self, before: Chain) -> None:
        """Remember the offset from which a disk fault lost records.

        before: the log before the fault. All of its records from the first difference on are lost.
        The log need not be shorter: where a truncation is undone, older batches are back. It may
        also end below its former start: where a removed segment is back and the next one is gone.
        """
        first_difference = self.chain.first_difference(before, before.end_offset)
        kept_end = min(first_difference, self.end_offset)
        if kept_end < before.end_offset:
            self.lost_from = _lower(self.lost_from, kept_end)
            self._lost_to = max(self._lost_to, before.end_offset)
            self.held_end = min(self.held_end, kept_end)

    def note_cut(self) -> None:
        """Remember that its broker cut off committed records, from held_end on."""
        self.cut_from = _lower(self.cut_from, self.held_end)


def _bytes_of(batch: Batch, content: bytes | bytearray) -> bytes:
    return bytes(content[batch.position : batch.position + batch.size_bytes])


def _base_offset(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(LOG_SUFFIX))


def _synced_as_told(node: FileNode, incarnation: int) -> int:
    is_unknown = node.unsyncable_from is not None and node.failure_told_to < incarnation
    return len(node.content) if is_unknown else node.synced_size


def _lower(known: int | None, offset: int) -> int:
    return offset if known is None else min(known, offset)


def _tells_of(chain: Chain, offset: int) -> bool:
    """Return whether the chain has a value for the records below the offset."""
    if chain.batches:
        return chain.start_offset <= offset < chain.end_offset
    return chain.start_offset == offset
