"""Triggers of the later rows, which show with planted mistakes only.

Rows 25 (KAFKA-18723), 26 (KAFKA-10778), 27 (KAFKA-10432), 28 (KAFKA-13407), 29 (KAFKA-13773) and
30 (KAFKA-5634).
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.catalogue.story import TO_HIGH_WATERMARK, PartitionStory, Seen, reaches
from highwater_core.errors import ErrorCode
from highwater_core.events import BY_RETENTION, EventKind, TraceEvent

_WRITES = ("append", "produce")


def took_what_replaced_its_leaders_records(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 25: a follower knew no later epoch when its leader's log got records of one."""
    story = PartitionStory(trace, topic, partition)
    for cut in story.of(EventKind.LOG_TRUNCATED):
        if not reaches(offset, cut.offset):
            continue
        replaced = _appended_from(story, cut)
        if replaced is None:
            continue
        for follower in story.of(EventKind.BECAME_FOLLOWER):
            if follower.leader == cut.node and _is_its_last_before(story, follower, replaced):
                return (
                    f"broker {follower.node} followed {cut.node} in epoch {follower.epoch} when "
                    f"that had cut its log to {cut.offset}, and records of epoch {replaced.epoch} "
                    f"took the place"
                )
    return None


def _appended_from(story: PartitionStory, cut: Seen) -> Seen | None:
    """Return the first append in the cut's epoch, or a later one, at or after the cut."""
    for appended in story.of(EventKind.LOG_APPENDED):
        if appended.epoch >= cut.epoch and appended.offset >= cut.offset:
            return appended
    return None


def _is_its_last_before(story: PartitionStory, follower: Seen, appended: Seen) -> bool:
    """Return whether the follower's role is of an earlier epoch, and its last up to the append."""
    following = story.next_role(follower)
    is_last = following is None or following.place > appended.place
    return follower.epoch < appended.epoch and follower.place < appended.place and is_last


def went_on_after_a_refused_write(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 26: the disk refused a write, and the same process appended to the log afterwards."""
    story = PartitionStory(trace, topic, partition)
    for refused in story.of(EventKind.REQUEST_REFUSED):
        detail = refused.event.detail
        if (
            detail["error"] != ErrorCode.KAFKA_STORAGE_ERROR.name
            or detail["request"] not in _WRITES
        ):
            continue
        for appended in story.of(EventKind.LOG_APPENDED):
            if (
                appended.node == refused.node
                and appended.place > refused.place
                and story.restarted(refused.node, after=refused.place, before=appended.place)
                is None
                and reaches(offset, appended.offset)
            ):
                return (
                    f"the disk of broker {refused.node} refused a write, and the log went on at "
                    f"{appended.offset}"
                )
    return None


def cut_what_it_had_recovered(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 27: a log of epoch 0 was recovered whole, and then cut to the high watermark."""
    story = PartitionStory(trace, topic, partition)
    for cut in story.of(EventKind.LOG_TRUNCATED):
        if cut.event.detail.get("reason") != TO_HIGH_WATERMARK or not reaches(offset, cut.offset):
            continue
        for recovered in story.of(EventKind.LOG_RECOVERED):
            is_before = recovered.node == cut.node and recovered.place < cut.place
            if is_before and recovered.offset > cut.offset and not _wrote_later(story, recovered):
                return (
                    f"broker {cut.node} recovered its log of epoch 0 up to {recovered.offset}, and "
                    f"cut it to {cut.offset}, its high watermark"
                )
    return None


def _wrote_later(story: PartitionStory, recovered: Seen) -> bool:
    """Return whether records of a later epoch than 0 may be in the recovered log."""
    return any(
        seen.epoch > 0 and seen.place < recovered.place for seen in story.of(EventKind.LOG_APPENDED)
    )


def nobody_followed_a_controller(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 28: the last elected controller's term is over, and no other has begun."""
    elected: TraceEvent | None = None
    ended = ""
    for event in trace:
        if event.kind is EventKind.CONTROLLER_ELECTED:
            elected, ended = event, ""
        elif elected is not None and event.node == elected.node:
            if event.kind is EventKind.CONTROLLER_RESIGNED:
                ended = f"resigned: {event.detail.get('reason', '')}"
            elif event.kind is EventKind.NODE_STARTED:
                ended = "was started again"
    if elected is None or not ended:
        return None
    return (
        f"controller {elected.node}, of epoch {elected.controller_epoch}, {ended}; none was "
        f"elected since"
    )


def clean_stop_with_an_unopened_log(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 29: a start could not open the log, and the next start took the stop for a clean one."""
    refused: dict[int, TraceEvent] = {}
    name = f"{topic}-{partition}"
    for event in trace:
        if event.kind is EventKind.BAD_INPUT_MET and event.detail.get("where") == name:
            refused.setdefault(event.node, event)
        elif event.kind is EventKind.LOG_RECOVERED and (event.topic, event.partition) == (
            topic,
            partition,
        ):
            earlier = refused.pop(event.node, None)
            is_next = earlier is not None and earlier.incarnation < event.incarnation
            if is_next and event.detail.get("clean") and reaches(offset, event.offset or 0):
                return (
                    f"broker {event.node} could not open the log at one start; at the next one, "
                    f"after a stop that counts as clean, it ends at {event.offset}"
                )
    return None


def removed_what_is_not_committed(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 30: retention moved a leader's log start beyond its high watermark."""
    story = PartitionStory(trace, topic, partition)
    committed: dict[int, int] = {}
    for seen in story.seen:
        if seen.kind is EventKind.BECAME_LEADER:
            committed[seen.node] = int(seen.event.detail.get("high_watermark", 0))
        elif seen.kind is EventKind.HIGH_WATERMARK_ADVANCED:
            committed[seen.node] = seen.offset
        elif seen.kind in (EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STOPPED):
            committed.pop(seen.node, None)
        elif (
            seen.kind is EventKind.LOG_START_MOVED
            and seen.event.detail.get("reason") == BY_RETENTION
            and seen.offset > committed.get(seen.node, seen.offset)
        ):
            return (
                f"leader {seen.node} removed records up to {seen.offset} by retention, and had "
                f"committed up to {committed[seen.node]}"
            )
    return None
