"""Triggers of the rows about the first design.

Rows 38 (a leader takes its whole log for committed) and 39 (a deleted topic's leader leads on).
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen, ends_topic
from highwater_core.events import EventKind, TraceEvent


def took_its_log_for_committed(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 38: a new leader raised its high watermark to its log's end, whoever had the records.

    Records are committed by other means too: by an earlier leader, whose ISR had them; by this one,
    once it has written the ISR that has them; or by the next one, if that began with all of them
    and has written its ISR. The row excuses none of these.
    """
    story = PartitionStory(trace, topic, partition)
    for taken in _taken(story):
        before = max(_high_watermark_before(story, taken), _committed_before(story, taken))
        is_among = offset < 0 or before <= offset < taken.offset
        if is_among and before < taken.offset and not _are_committed_since(story, taken):
            return (
                f"leader {taken.node} took its log up to {taken.offset} for committed in epoch "
                f"{taken.epoch}, at a high watermark of {before}, before it knew who had the "
                f"records"
            )
    return None


def _taken(story: PartitionStory) -> list[Seen]:
    """Return each time that a leader took its log for committed."""
    return [
        seen
        for seen in story.of(EventKind.HIGH_WATERMARK_ADVANCED)
        if seen.event.detail.get("is_taken")
    ]


def _high_watermark_before(story: PartitionStory, taken: Seen) -> int:
    """Return the high watermark with which the leader of that epoch began."""
    for led in reversed(story.leaderships()):
        if led.node == taken.node and led.place < taken.place:
            return int(led.event.detail.get("high_watermark", 0))
    return 0


def _committed_before(story: PartitionStory, taken: Seen) -> int:
    """Return the offset up to which earlier leaders have committed: each of an ISR that it wrote.

    A leader that took its log and wrote no ISR has committed nothing.
    """
    doubtful = {
        seen.epoch for seen in _taken(story) if not _has_written(story, seen.node, seen.epoch)
    }
    return max(
        (
            seen.offset
            for seen in story.of(EventKind.HIGH_WATERMARK_ADVANCED)
            if seen.place < taken.place and seen.epoch < taken.epoch and seen.epoch not in doubtful
        ),
        default=0,
    )


def _are_committed_since(story: PartitionStory, taken: Seen) -> bool:
    """Return whether the leader has written an ISR in its epoch, or the next one with its log."""
    if _has_written(story, taken.node, taken.epoch):
        return True
    following = [led for led in story.leaderships() if led.epoch > taken.epoch]
    if not following or following[0].offset < taken.offset:
        return False
    return _has_written(story, following[0].node, following[0].epoch)


def _has_written(story: PartitionStory, leader: int, epoch: int) -> bool:
    return any(
        (seen.node, seen.epoch) == (leader, epoch) for seen in story.of(EventKind.ISR_CHANGED)
    )


# ---------------------------------------------------------------- row 39


def leads_a_deleted_topic(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 39: two brokers lead in one leader epoch, one of them since before a deletion.

    A broker that became a follower, stopped its replica or started again leads no longer. Two that
    lead the topic of one life are another bug.
    """
    lives, found = 0, None
    leading: dict[int, tuple[int, int | None]] = {}
    for event in trace:
        if ends_topic(event, topic):
            lives += 1
        elif event.kind is EventKind.NODE_STARTED:
            leading.pop(event.node, None)
        elif (event.topic, event.partition) != (topic, partition):
            continue
        elif event.kind in (EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STOPPED):
            leading.pop(event.node, None)
        elif event.kind is EventKind.BECAME_LEADER:
            for other, (life, leader_epoch) in leading.items():
                if other == event.node or leader_epoch != event.leader_epoch:
                    continue
                if life == lives:
                    return None
                found = (
                    f"broker {event.node} leads the new topic {topic} in leader epoch "
                    f"{leader_epoch}, and broker {other} that of the same name which was deleted: "
                    f"it has not heard of the deletion"
                )
            leading[event.node] = lives, event.leader_epoch
    return found
