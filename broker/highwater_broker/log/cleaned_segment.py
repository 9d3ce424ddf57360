"""A new segment with the records that compaction keeps of older ones, until it replaces them.

It has a name of its own (`.cleaned`) until all of it is on the disk. One rename then replaces the
first of its source segments; it ends where the last of them ended, so the others are within it. A
crash leaves one of these two states: a recovery removes `.cleaned` files, and segments within the
one before them.
Deviation: Kafka has a third name, `.swap`, since it renames indexes too; here they are rebuilt.
"""

from __future__ import annotations

from highwater_broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_path,
)
from highwater_broker.log.syncing import synced
from highwater_core.ports import FileSystem
from highwater_wire.kafka.record_batch import parse_header

CLEANED_SUFFIX = ".cleaned"


class CleanedSegment(Segment):
    """The kept records of the segments from base_offset on; not read before it replaces them."""

    def __init__(
        self, files: FileSystem, folder: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        """Raises OSError: the disk refused."""
        files.remove(segment_path(folder, base_offset, CLEANED_SUFFIX))
        super().__init__(files, folder, base_offset, index_interval_bytes, CLEANED_SUFFIX)

    def add(self, batch: bytes) -> None:
        """Append a batch.

        Raises:
            OSError: the disk refused.
        """
        self._note(self.write([batch]), parse_header(batch))

    async def sync_batches(self) -> None:
        """Return once all added batches are on the disk, under the temporary name.

        Raises:
            OSError: the disk refused.
        """
        await synced(self.keep_open().file.sync())

    def take_place(self) -> None:
        """Become the segment that begins at base_offset, in place of the present one.

        Ordering: that one's indexes are removed first; a segment without them gets them rebuilt.

        Raises:
            OSError: the disk refused; the other segment is still there.
        """
        path = segment_path(self._folder, self.base_offset, LOG_SUFFIX)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._files.remove(segment_path(self._folder, self.base_offset, suffix))
        self._files.rename(self._path, path)
        self._path = path
        self.rest()  # the file is opened again, by its name

    def discard(self) -> None:
        """Remove the file: the segment is no longer needed.

        Raises:
            OSError: the disk refused; the next start removes it.
        """
        self._is_gone = True
        self.rest()
        self._files.remove(self._path)
