"""The batches of one write, which fit a single segment, and the result of an append."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment_index import MAX_RELATIVE_OFFSET
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import Buffer
from highwater_wire.kafka.compacted_batch import empty_batch
from highwater_wire.kafka.record_batch import Batch, BatchHeader

PlacedBatch = tuple[int, int, int, int]
"""A batch to append: its bytes, first and last offset, largest timestamp."""


class AppendResult(NamedTuple):
    """The records are [base_offset, end_offset). size_bytes 0: they were in the log already."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int


class AppendPart:
    """Batches from base_offset on, and the log's epochs after them.

    A leader may send a follower more batches than the offsets of one segment allow (its index has
    31 bits for each).
    """

    __slots__ = (
        "base_offset",
        "batches",
        "epochs",
        "last_offset",
        "newest_timestamp",
        "sequenced",
        "size_bytes",
    )

    def __init__(self, base_offset: int, epochs: EpochCache) -> None:
        self.base_offset = base_offset
        self.epochs = epochs
        self.batches: list[PlacedBatch] = []
        self.sequenced: list[BatchHeader] = []
        """Idempotent producers' batches, with their offsets in the log."""
        self.size_bytes = 0
        self.last_offset = base_offset - 1
        self.newest_timestamp = -1
        """The last batch's."""

    def can_reach(self, last_offset: int) -> bool:
        """Return whether that offset fits a segment that begins with this part."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def add(
        self, size_bytes: int, last_offset: int, newest_timestamp: int, epochs: EpochCache
    ) -> None:
        """Add the batch that ends with last_offset; epochs: the log's after it."""
        self.batches.append((size_bytes, self.last_offset + 1, last_offset, newest_timestamp))
        self.size_bytes += size_bytes
        self.last_offset = last_offset
        self.newest_timestamp = newest_timestamp
        self.epochs = epochs


def parts_of(
    batches: Iterable[Batch],
    base_offset: Offset,
    epochs: EpochCache,
    highest_epoch: LeaderEpoch | None,
) -> list[AppendPart]:
    """Return a follower's parts of its leader's batches, which must continue its log.

    base_offset and epochs are its log's end and its cache. The first batch above highest_epoch and
    all after it are left out (KAFKA-18723).

    Raises:
        LogRefused: OFFSET_OUT_OF_RANGE: the batches do not begin at the log's end;
            CORRUPT_MESSAGE: they do not follow one another.
    """
    next_offset = base_offset
    parts: list[AppendPart] = []
    for header, data in batches:
        if highest_epoch is not None and header.leader_epoch > highest_epoch:
            break
        if header.base_offset != next_offset:
            error = ErrorCode.CORRUPT_MESSAGE
            if next_offset == base_offset:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            raise LogRefused(error, f"batch at {header.base_offset}, expected {next_offset}")
        if header.leader_epoch != epochs.latest_epoch and header.leader_epoch >= 0:
            epochs = epochs.assign(LeaderEpoch(header.leader_epoch), Offset(next_offset))
        last_offset = header.last_offset
        if not parts or not parts[-1].can_reach(last_offset):
            parts.append(AppendPart(next_offset, epochs))
        parts[-1].add(len(data), last_offset, header.newest_timestamp, epochs)
        if header.has_producer_id:
            parts[-1].sequenced.append(header)
        next_offset = Offset(last_offset + 1)
    return parts


def without_held(batch: Batch, log_end_offset: int) -> Buffer:
    """Return the batch; if it has no records, without the offsets below the log's end.

    The leader's log may be compacted where its follower's is not: one batch may then cover offsets
    on both sides of the follower's end.
    """
    header = batch.header
    is_across = header.base_offset < log_end_offset <= header.last_offset
    if header.record_count or not is_across:
        return batch.data
    return empty_batch(log_end_offset, header.last_offset, header.leader_epoch)
