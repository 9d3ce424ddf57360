"""Decides when a segment is full and which old segments retention lets go; pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from highwater_broker.log.log_config import UNLIMITED, LogConfig
from highwater_broker.log.segment_index import MAX_RELATIVE_OFFSET


class SegmentFacts(Protocol):
    """What is known of a segment; timestamps in ms, negative when its batches have none.

    begun_ms is when its first batch came by the broker's clock, negative when nobody knows.
    """

    base_offset: int
    size_bytes: int
    max_timestamp: int
    rolling_timestamp: int
    begun_ms: int


def must_roll(
    config: LogConfig,
    segment: SegmentFacts,
    size_bytes: int,
    last_offset: int,
    max_timestamp: int,
    now_ms: int,
) -> bool:
    """Return whether so many bytes up to last_offset belong into a new segment.

    The age of a segment counts from its first batch's timestamp to the new batch's, or to now_ms
    when that has none. An empty segment takes anything.
    Source: Kafka's LogSegment.shouldRoll. Deviation: it must be that old by the broker's clock
    too, as far as that is known; else a client whose timestamps leap makes a file with each batch.
    """
    if not segment.size_bytes:
        return False
    if segment.size_bytes + size_bytes > config.segment_bytes:
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    is_new = segment.begun_ms >= 0 and now_ms - segment.begun_ms <= config.segment_ms
    if is_new or segment.rolling_timestamp < 0:
        return False
    newest = max_timestamp if max_timestamp >= 0 else now_ms
    return newest - segment.rolling_timestamp > config.segment_ms


def count_deletable(
    config: LogConfig, segments: Sequence[SegmentFacts], now_ms: int, high_watermark: int
) -> int:
    """Return how many of the oldest segments may go, by age or because the log is too large.

    Only segments wholly below the high watermark, and never the last one, which takes appends.
    """
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
