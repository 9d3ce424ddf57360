"""Decides when a segment is full and which old segments retention removes; pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from highwater_broker.log.append_part import AppendPart
from highwater_broker.log.log_config import UNLIMITED, LogConfig
from highwater_broker.log.segment_index import MAX_RELATIVE_OFFSET

FREE_SEGMENTS = 200
"""Number of segments of any size that a log may have: each costs memory and open files."""
SMALL_SEGMENT_BYTES = 1024 * 1024
"""With more segments, each grows to this size; Kafka 4.0 allows no smaller ones (KIP-1030)."""


class SegmentFacts(Protocol):
    """The facts of a segment; timestamps in ms, negative when its batches have none.

    begun_ms: when its first batch came by the broker's clock, negative when unknown.
    """

    base_offset: int
    size_bytes: int
    max_timestamp: int
    rolling_timestamp: int
    begun_ms: int


def must_roll(
    config: LogConfig, segment: SegmentFacts, segment_count: int, part: AppendPart, now_ms: int
) -> bool:
    """Return whether these batches belong into a new segment; now_ms is wall clock time.

    The age of a segment counts from its first batch's timestamp to the new batches', or to now_ms
    when they have none. An empty segment takes any batches.
    Source: Kafka's LogSegment.shouldRoll. Deviations, to bound the number of files: it must be that
    old by the broker's clock too, as far as known, since clients choose timestamps; and a log with
    FREE_SEGMENTS begins further ones only after segments of SMALL_SEGMENT_BYTES.
    """
    if not segment.size_bytes:
        return False
    if part.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    size_bytes = segment.size_bytes + part.size_bytes
    if segment_count >= FREE_SEGMENTS and size_bytes <= SMALL_SEGMENT_BYTES:
        return False
    if size_bytes > config.segment_bytes:
        return True
    is_new = segment.begun_ms >= 0 and now_ms - segment.begun_ms <= config.segment_ms
    if is_new or segment.rolling_timestamp < 0:
        return False
    newest = part.newest_timestamp if part.newest_timestamp >= 0 else now_ms
    return newest - segment.rolling_timestamp > config.segment_ms


def count_deletable(
    config: LogConfig, segments: Sequence[SegmentFacts], now_ms: int, high_watermark: int
) -> int:
    """Return how many of the oldest segments to remove, by age or because the log is too large.

    Only segments wholly below the high watermark, and never the last one, which takes appends.
    0 where the policy is only to compact.
    """
    if not config.deletes_old_segments:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    count = 0
    for segment, next_segment in pairwise(segments):
        is_expired = (
            config.retention_ms != UNLIMITED
            and segment.max_timestamp >= 0
            and now_ms - segment.max_timestamp > config.retention_ms
        )
        is_excess = config.retention_bytes != UNLIMITED and excess_bytes >= segment.size_bytes
        if next_segment.base_offset > high_watermark or not (is_expired or is_excess):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count
