"""The segments of one log, in order, and their replacement by a compacted one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from highwater_broker.log.cleaned_segment import CleanedSegment
from highwater_broker.log.segment import UNSYNCED_OPEN, Segment
from highwater_broker.log.syncing import synced
from highwater_core.check import check
from highwater_core.ports import FileSystem

_BASE_OFFSET = attrgetter("base_offset")


class SegmentList(list[Segment]):
    """The segments of a log; the last one takes the appends.

    Invariant: each begins where the one before it ends.
    """

    def __init__(self, files: FileSystem, folder: str) -> None:
        super().__init__()
        self._files = files
        self._folder = folder
        self._read_last: Segment | None = None
        """The one older segment whose file is kept open for its reader's next read."""
        self._replaced: list[Segment] = []
        """Segments within a compacted one, whose files still exist."""

    def count_from(self, offset: int) -> int:
        """Return the number of segments that begin at or before the offset."""
        return bisect_right(self, offset, key=_BASE_OFFSET)

    def of(self, offset: int) -> Segment:
        """Return the segment with the offset."""
        return self[self.count_from(offset) - 1]

    def keep_open(self, segment: Segment) -> None:
        """Keep an older segment's file open until another one is read."""
        last, self._read_last = self._read_last, segment
        if last and last not in (segment, *self[-UNSYNCED_OPEN - 1 :]):
            last.rest()
        segment.keep_open()

    def size_between(self, start_offset: int, end_offset: int) -> int | None:
        """Return the size of the batches between two offsets that lie in one segment.

        None where end_offset lies in a newer segment than start_offset; a segment's end belongs to
        the one that follows it.

        Raises:
            OSError: the disk refused.
        """
        segment = self.of(start_offset)
        if segment is not self[-1]:
            if end_offset >= segment.next_offset:
                return None
            self.keep_open(segment)
        return segment.position_of(end_offset) - segment.locate(start_offset)[0]

    def next_with_records(self, offset: int, upper_bound_offset: int) -> int:
        """Return where the next batch with records begins, or the offset if that lies in one.

        The offset, too, if there is none below the bound.

        Raises:
            OSError, LogRefused: the disk refused, or bytes on it went bad.
        """
        for segment in self[self.count_from(offset) - 1 :]:
            for _, header in segment.batches_from(offset):
                if header.base_offset >= upper_bound_offset:
                    return offset
                if header.record_count:
                    return max(offset, header.base_offset)
        return offset

    # ------------------------------------------------------------ compaction

    def begin_cleaned(self, base_offset: int, index_interval_bytes: int) -> CleanedSegment:
        """Begin a segment that will replace others.

        Raises:
            OSError: the disk refused.
        """
        return CleanedSegment(self._files, self._folder, base_offset, index_interval_bytes)

    def take_in(self, cleaned: CleanedSegment, replaced: Sequence[Segment]) -> None:
        """Replace the source segments by their compacted one, which is on the disk.

        `remove_replaced` must follow; until then their files exist, except for the first one's.

        Raises:
            OSError: the disk refused; the log is as it was.
        """
        first = self.index(replaced[0])
        place = slice(first, first + len(replaced))
        check(self[place] == list(replaced), "only what is there is replaced")
        check(cleaned.next_offset == replaced[-1].next_offset, "it ends where the others ended")
        cleaned.take_place()
        self[place] = [cleaned]
        for segment in replaced:
            segment.let_go()
        self._replaced += replaced[1:]

    async def settle(self) -> None:
        """Return once the replacements are durable, and the replaced segments are gone.

        Ordering: a power loss that brought back the first replaced segment must find the others.

        Raises:
            OSError: the disk refused; files that are left are removed the next time.
        """
        await synced(self._files.sync_folder(self._folder))
        self.remove_replaced()

    def remove_replaced(self) -> None:
        """Remove the files of segments within a compacted one.

        Called without `settle` only before other segments may begin at their offsets: a power loss
        that undoes all but this removal leaves a log that has lost batches, and that reports it.

        Raises:
            OSError: the disk refused.
        """
        while self._replaced:
            self._replaced[-1].remove()
            del self._replaced[-1]

    def take_all(self) -> list[Segment]:
        """Remove and return them all."""
        taken = list(self)
        self.clear()
        self._replaced.clear()
        return taken
