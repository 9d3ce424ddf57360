"""Finds the first record that is not older than a timestamp; reads few batches, decodes one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from highwater_broker.log.record_batch import decode_records, split_batches
from highwater_broker.log.segment import Segment
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import BatchHeader


class FoundOffset(NamedTuple):
    """A record's timestamp in ms, offset and leader epoch."""

    timestamp: int
    offset: Offset
    leader_epoch: LeaderEpoch


def find_by_timestamp(
    segments: Iterable[Segment], timestamp: int, log_start_offset: Offset
) -> FoundOffset | None:
    """Return the first record at or after log_start_offset that is not older, or None.

    Deviation: in a compressed batch the batch's first record stands for all, so that none is
    skipped; Kafka decompresses.

    Raises:
        OSError, LogRefused: the batch could not be read or decoded.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        for position, header in segment.batches_from_timestamp(timestamp):
            if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                continue
            found = _in_batch(segment, position, header, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start_offset: Offset
) -> FoundOffset | None:
    epoch = LeaderEpoch(header.leader_epoch)
    if header.is_compressed:
        offset = max(log_start_offset, Offset(header.base_offset))
        return FoundOffset(header.base_timestamp, offset, epoch)
    (batch,) = split_batches(segment.records(position, position + header.size_bytes).read())
    for record in decode_records(batch.data):
        if record.timestamp >= timestamp and record.offset >= log_start_offset:
            return FoundOffset(record.timestamp, Offset(record.offset), epoch)
    return None
