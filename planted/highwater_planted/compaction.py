"""Planted: compaction takes what it must keep, or is in place before it is on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_broker import log_cleaner
from highwater_broker.log.cleaned_segment import CleanedSegment
from highwater_broker.logic.compaction import (
    DirtyPart,
    NewestOffsets,
    SegmentFacts,
    dirty_part,
)
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_HAS_NEWER = NewestOffsets.has_newer


def _has_newer_or_is_newest(self: NewestOffsets, key: bytes, offset: int) -> bool:
    return _HAS_NEWER(self, key, offset - 1)


def _dirty_up_to_the_end(
    segments: Sequence[SegmentFacts],
    first_dirty_offset: int,
    *,
    safe_end_offset: int,
    newest_timestamp_ms: int | None,
) -> DirtyPart:
    return dirty_part(
        segments,
        first_dirty_offset,
        safe_end_offset=max(safe_end_offset, segments[-1].next_offset),
        newest_timestamp_ms=newest_timestamp_ms,
    )


async def _sync_nothing(self: CleanedSegment) -> None:
    return


BUGS = (
    PlantedBug(
        name="compaction_drops_newest",
        summary="compaction removes the newest record of each key, too",
        source="own; KAFKA-1641",
        breaks=("I19", "I1"),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(NewestOffsets, "has_newer", _has_newer_or_is_newest),),
    ),
    PlantedBug(
        name="compaction_above_high_watermark",
        summary="compaction lets records that are not committed succeed those that are",
        source="own; KAFKA-2235",
        breaks=("I19", "I11", "I3", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(log_cleaner, "dirty_part", _dirty_up_to_the_end),),
    ),
    PlantedBug(
        name="compacted_segment_not_synced",
        summary="a compacted segment takes its place before it is on the disk",
        source="own",
        breaks=("I2", "I4", "I15", "I1"),
        shows_under=(FaultFamily.POWER_LOSS,),
        replacements=(Replacement(CleanedSegment, "sync_batches", _sync_nothing),),
    ),
)
