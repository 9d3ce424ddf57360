"""The segments of one log, in order, and how a compacted one takes the place of others."""

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
    """What the log consists of; the last one takes the appends.

    Invariant: each begins where the one before it ends.
    """

    def __init__(self, files: FileSystem, folder: str) -> None:
        super().__init__()
        self._files = files
        self._folder = folder
        self._read_last: Segment | None = None
        """The one older segment whose file is kept open: its reader comes back."""
        self._replaced: list[Segment] = []
        """Segments that lie within a compacted one, whose files are still there."""

    def count_from(self, offset: int) -> int:
        """Return how many begin at the offset or before."""
        return bisect_right(self, offset, key=_BASE_OFFSET)

    def of(self, offset: int) -> Segment:
        """Return the segment that holds the offset."""
        return self[self.count_from(offset) - 1]

    def keep_open(self, segment: Segment) -> None:
        """Keep an older segment's file open until another one is read."""
        last, self._read_last = self._read_last, segment
        if last and last not in (segment, *self[-UNSYNCED_OPEN - 1 :]):
            last.rest()
        segment.keep_open()

    # ------------------------------------------------------------ compaction

    def begin_cleaned(self, base_offset: int, index_interval_bytes: int) -> CleanedSegment:
        """Begin a segment that is to take others' place.

        Raises:
            OSError: the disk refused.
        """
        return CleanedSegment(self._files, self._folder, base_offset, index_interval_bytes)

    def take_in(self, cleaned: CleanedSegment, replaced: Sequence[Segment]) -> None:
        """Put a compacted segment, which is on the disk, in place of those that it was made of.

        `remove_replaced` must follow; until then their files are there, but for the first one's.

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
        """Return once compacted segments have their place for good, and the others are gone.

        Ordering: a power loss that brought back the first of the others must find the rest.

        Raises:
            OSError: the disk refused; some of the files are left, for the next time.
        """
        await synced(self._files.sync_folder(self._folder))
        self.remove_replaced()

    def remove_replaced(self) -> None:
        """Remove the files of segments that lie within a compacted one.

        At once only before others may begin where they do: a power loss that undoes it all but for
        this leaves a log that has lost batches, and that says so.

        Raises:
            OSError: the disk refused.
        """
        while self._replaced:
            self._replaced[-1].remove()
            del self._replaced[-1]

    def take_all(self) -> list[Segment]:
        """Return them, and have none from now on."""
        taken = list(self)
        self.clear()
        self._replaced.clear()
        return taken
