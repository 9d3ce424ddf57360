"""Segments below a log's start whose files still exist: the start must be on the disk first.

The file system may make removals durable in any order. After a power loss an older segment could be
back and a newer one gone. Without the log's start this would look like damage, and the newer, good
segments would be set aside.
"""

from __future__ import annotations

from highwater_broker.log.segment import Segment
from highwater_core.ids import Offset


class RetiredSegments:
    """The oldest segments of one log, which readers no longer find, in order."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []

    def __bool__(self) -> bool:
        return bool(self._segments)

    def take_below(self, offset: int, segments: list[Segment]) -> None:
        """Move the segments that end at or below the offset here, except for the last one."""
        while len(segments) > 1 and segments[1].base_offset <= offset:
            self._segments.append(segments.pop(0))

    def take_all(self) -> list[Segment]:
        """Remove and return them all."""
        taken, self._segments = self._segments, []
        return taken

    def remove_below(self, log_start_offset: Offset, max_segments: int) -> int:
        """Remove the files of segments up to the offset, the oldest first; return their number.

        max_segments: the most segments to remove.

        Raises:
            OSError: the disk refused; the others are kept for the next time.
        """
        removed = 0
        while (
            removed < max_segments
            and self._segments
            and self._segments[0].next_offset <= log_start_offset
        ):
            self._segments[0].remove()
            del self._segments[0]
            removed += 1
        return removed


def remove_newest(segments: list[Segment], *, down_to: int) -> None:
    """Remove the newest segments with their files until so many are left.

    Segments that a power loss leaves are contiguous. So are segments that the disk refuses to
    remove, and they stay listed: otherwise a log that has grown again to such a file would go on
    with it.

    Raises:
        OSError: the disk refused.
    """
    while len(segments) > down_to:
        segments[-1].remove()
        del segments[-1]
