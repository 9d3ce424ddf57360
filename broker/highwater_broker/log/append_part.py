"""What one write appends: whole batches that a single segment can hold; what an append did."""

from __future__ import annotations

from typing import NamedTuple

from highwater_broker.log.segment_index import MAX_RELATIVE_OFFSET
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_core.ids import Offset

PlacedBatch = tuple[int, int, int, int]
"""A batch to append: its bytes, first and last offset, largest timestamp."""


class AppendResult(NamedTuple):
    """The records appended are [base_offset, end_offset)."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int


class AppendPart:
    """Batches from base_offset on, and the epochs once they are in the log.

    A follower is given as many batches as its leader likes: more, perhaps, than the offsets of
    one segment (its index has 31 bits for each).
    """

    __slots__ = (
        "base_offset",
        "batches",
        "epochs",
        "last_offset",
        "newest_timestamp",
        "size_bytes",
    )

    def __init__(self, base_offset: int, epochs: EpochCache) -> None:
        self.base_offset = base_offset
        self.epochs = epochs
        self.batches: list[PlacedBatch] = []
        self.size_bytes = 0
        self.last_offset = base_offset - 1
        self.newest_timestamp = -1
        """The last batch's."""

    def can_reach(self, last_offset: int) -> bool:
        """Return whether a segment that begins with this part has room for that offset."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def add(
        self, size_bytes: int, last_offset: int, newest_timestamp: int, epochs: EpochCache
    ) -> None:
        """Add the batch that ends with last_offset, and with which the epochs are these."""
        self.batches.append((size_bytes, self.last_offset + 1, last_offset, newest_timestamp))
        self.size_bytes += size_bytes
        self.last_offset = last_offset
        self.newest_timestamp = newest_timestamp
        self.epochs = epochs
