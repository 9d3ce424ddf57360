"""Segments below a log's start whose files are still there: the start must be on the disk first.

A removal is durable before or after others, as the file system likes. After a power loss an older
segment could be back and one between gone; without the log's start nobody could tell this from
damage, and the newer, good segments would be set aside.
"""

from __future__ import annotations

from highwater_broker.log.segment import Segment
from highwater_core.ids import Offset


class RetiredSegments:
    """The oldest segments of one log, which no reader finds any more, in order."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []

    def __bool__(self) -> bool:
        return bool(self._segments)

    def add(self, *segments: Segment) -> None:
        self._segments += segments

    def take_all(self) -> list[Segment]:
        """Return them, and have none from now on."""
        taken, self._segments = self._segments, []
        return taken

    def remove_below(self, log_start_offset: Offset, max_segments: int) -> int:
        """Remove the files of those that end at or below the offset, the oldest first, at most so
        many; return how many.

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
    """Remove the newest segments and their files until so many are left.

    What a power loss leaves of them is contiguous. So is what the disk does not let go of, and it
    stays listed: else a log that has grown again to where such a file begins would go on with it.

    Raises:
        OSError: the disk refused.
    """
    while len(segments) > down_to:
        segments[-1].remove()
        del segments[-1]
