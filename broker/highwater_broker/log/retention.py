"""Decides when a segment is full and which old segments retention removes; pure."""

from __future__ import annotations

from collections.abc import Sequence
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
    next_offset: int
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

    Only segments wholly below the high watermark. The last one, which takes appends, too, unless
    it is empty: the log is empty then, and goes on in a new one. A segment whose batches have no
    timestamp, as where compaction has removed all of its records, is as old as the next one that
    has one. 0 where the policy is only to compact.
    Source: Kafka's UnifiedLog.deletableSegments. Deviation: Kafka takes the time at which the file
    was last written where no batch has a timestamp.
    """
    if not config.deletes_old_segments:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    count = 0
    for segment, newest_ms in zip(segments, _newest_ms(segments), strict=True):
        is_expired = (
            config.retention_ms != UNLIMITED
            and newest_ms >= 0
            and now_ms - newest_ms > config.retention_ms
        )
        is_excess = config.retention_bytes != UNLIMITED and excess_bytes >= segment.size_bytes
        may_go = segment.size_bytes > 0 and segment.next_offset <= high_watermark
        if not (may_go and (is_expired or is_excess)):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count


def _newest_ms(segments: Sequence[SegmentFacts]) -> list[int]:
    """Return the timestamp from which each segment's age counts, negative where none is known."""
    found: list[int] = []
    newest_ms = -1
    for segment in reversed(segments):
        if segment.max_timestamp >= 0:
            newest_ms = segment.max_timestamp
        found.append(newest_ms)
    found.reverse()
    return found
