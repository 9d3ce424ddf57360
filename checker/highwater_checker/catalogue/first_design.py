"""Trigger of the row about the first design: a leader takes its whole log for committed (38)."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen, reaches
from highwater_core.events import EventKind, TraceEvent


def took_its_log_for_committed(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 38: a new leader raised its high watermark to its log's end, whoever had the records.

    It had not yet written the ISR that has them: later the records are committed.
    """
    story = PartitionStory(trace, topic, partition)
    for taken in story.of(EventKind.HIGH_WATERMARK_ADVANCED):
        if not taken.event.detail.get("is_taken"):
            continue
        before = _high_watermark_before(story, taken)
        if reaches(offset, before) and not _has_taken_over(story, taken):
            return (
                f"leader {taken.node} took its log up to {taken.offset} for committed in epoch "
                f"{taken.epoch}, at a high watermark of {before}, before it knew who had the "
                f"records"
            )
    return None


def _high_watermark_before(story: PartitionStory, taken: Seen) -> int:
    """Return the high watermark with which the leader of that epoch began."""
    for led in reversed(story.leaderships()):
        if led.node == taken.node and led.place < taken.place:
            return int(led.event.detail.get("high_watermark", 0))
    return 0


def _has_taken_over(story: PartitionStory, taken: Seen) -> bool:
    """Return whether the leader has written an ISR in its epoch."""
    return any(
        seen.node == taken.node and seen.epoch == taken.epoch and seen.place > taken.place
        for seen in story.of(EventKind.ISR_CHANGED)
    )
