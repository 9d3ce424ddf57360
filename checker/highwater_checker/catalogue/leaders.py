"""Triggers of the rows about what a leader believes: its offsets, its ISR and who may join it.

Rows 14 (KAFKA-1382), 19 (KAFKA-1097), 21 (KAFKA-13091), 23 (KIP-207).
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen
from highwater_core.events import EventKind, TraceEvent

_STATE_WRITES = (EventKind.ISR_WRITTEN, EventKind.LEADER_ELECTED)


def own_isr_write_taken_for_anothers(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 14: a leader's ISR write met another version, of a state that nobody else had written."""
    story = PartitionStory(trace, topic, partition)
    for conflict in story.of(EventKind.WRITE_CONFLICTED):
        led = _leadership_of(story, conflict)
        if led is None or _adopted_later(story, conflict):
            continue
        others = [seen for seen in story.of(*_STATE_WRITES) if led.place < seen.place]
        if not any(seen.place < conflict.place for seen in others):
            return (
                f"leader {conflict.node}'s ISR write in epoch {conflict.epoch} met another "
                f"version, though nobody else had written since it led; it adopted none"
            )
    return None


def _leadership_of(story: PartitionStory, seen: Seen) -> Seen | None:
    led = [each for each in story.leaderships() if each.place < seen.place]
    is_leader = bool(led) and (led[-1].node, led[-1].epoch) == (seen.node, seen.epoch)
    return led[-1] if is_leader else None


def _adopted_later(story: PartitionStory, conflict: Seen) -> bool:
    return any(
        (seen.node, seen.epoch) == (conflict.node, conflict.epoch) and seen.place > conflict.place
        for seen in story.of(EventKind.ISR_CHANGED)
    )


def took_back_who_was_moved_away(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 19: a leader proposed an ISR with a replica that a reassignment had taken out of it."""
    story = PartitionStory(trace, topic, partition)
    leaving: tuple[int, ...] = ()
    gone: set[int] = set()
    for seen in story.seen:
        if seen.kind is EventKind.REASSIGNMENT_BEGUN:
            leaving, gone = tuple(seen.event.detail["removing"]), set()
        elif seen.kind in _STATE_WRITES:
            gone = {broker for broker in leaving if broker not in seen.isr}
        elif seen.kind is EventKind.ISR_CHANGE_PROPOSED:
            for broker in seen.isr:
                if broker in gone:
                    return (
                        f"leader {seen.node} proposed the ISR {list(seen.isr)} in epoch "
                        f"{seen.epoch}; a reassignment had taken {broker} out of it"
                    )
    return None


def stayed_at_a_high_watermark_that_its_isr_lets_rise(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 21: a leader learned of a smaller ISR, and its high watermark did not rise."""
    story = PartitionStory(trace, topic, partition)
    end = high_watermark = -1
    members = 0
    stuck: Seen | None = None
    for seen in story.of(
        EventKind.BECAME_LEADER,
        EventKind.LOG_APPENDED,
        EventKind.HIGH_WATERMARK_ADVANCED,
        EventKind.ISR_CHANGED,
    ):
        if seen.kind is EventKind.LOG_APPENDED:
            end = int(seen.event.detail["end_offset"])
        elif seen.kind is EventKind.ISR_CHANGED:
            is_smaller, members = len(seen.isr) < members, len(seen.isr)
            stuck = seen if is_smaller and high_watermark < end else None
        else:
            stuck = None
            is_role = seen.kind is EventKind.BECAME_LEADER
            high_watermark = int(seen.event.detail["high_watermark"]) if is_role else seen.offset
            end = seen.offset if is_role else end
            members = len(seen.isr)
    if stuck is None:
        return None
    return (
        f"leader {stuck.node} learned in epoch {stuck.epoch} that its ISR is {list(stuck.isr)}; "
        f"its high watermark stayed at {high_watermark}, its log goes up to {end}"
    )


def led_below_what_was_committed(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 23: a leader began at a high watermark below an earlier one, and answers with its own.

    The violation's offset is the answer: not below the high watermark with which it began to lead,
    and below what was committed.
    """
    story = PartitionStory(trace, topic, partition)
    for led in reversed(story.leaderships()):
        began = int(led.event.detail["high_watermark"])
        told = max(began, offset)
        committed = story.committed_beyond(told, before=led.place)
        if committed is not None and (offset < 0 or began <= offset):
            return (
                f"broker {led.node} began to lead epoch {led.epoch} at high watermark {began}; "
                f"leader {committed.node} had committed up to {committed.offset} in epoch "
                f"{committed.epoch}"
            )
    return None
