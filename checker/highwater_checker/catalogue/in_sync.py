"""Triggers of the rows about joining the ISR: 7 (KAFKA-7128) and 8 (KIP-903, KAFKA-14140)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen, reaches
from highwater_core.events import EventKind, TraceEvent


def joined_below_the_start_of_the_epoch(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 7: a follower joined at a high watermark below an earlier leader's."""
    story = PartitionStory(trace, topic, partition)
    for proposal, joining in _expansions(story):
        began = _leadership_of(story, proposal)
        if began is None:
            continue
        high_watermark = _high_watermark_at(story, began, proposal)
        if high_watermark >= began.offset or not reaches(offset, high_watermark):
            continue
        committed = story.committed_beyond(high_watermark, before=proposal.place)
        if committed is not None:
            return (
                f"leader {proposal.node} took {joining} into the ISR of epoch {proposal.epoch} at "
                f"high watermark {high_watermark}, below the epoch's start {began.offset}; leader "
                f"{committed.node} had committed up to {committed.offset} in epoch "
                f"{committed.epoch}"
            )
    return None


def member_restarted_before_its_isr_was_written(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 8: a broker joined the ISR by the fetches of its earlier incarnation.

    Either it restarted before the leader knew that the ISR was written. Or it had restarted before
    the proposal and not yet fetched: the leader counted a late fetch. For a violation without an
    offset, also a member that the controller believes dead or shutting down (KAFKA-14140).
    """
    story = PartitionStory(trace, topic, partition)
    if offset < 0 and (evidence := _dead_member(trace, story)):
        return evidence
    for proposal, joining in _expansions(story):
        adopted = _adoption(story, proposal)
        end = len(trace) if adopted is None else adopted.place
        start = story.restarted(joining, after=proposal.place, before=end)
        if start is None:
            start = _start_without_fetch(story, joining, proposal)
        if start is None:
            continue
        back = _end_after_restart(story, joining, start.place)
        if back is not None and not reaches(offset, back):
            continue
        return (
            f"leader {proposal.node} proposed {joining} for the ISR of epoch {proposal.epoch} for "
            f"what its incarnation before {start.event.incarnation} had fetched; that one came "
            f"back with {'nothing yet' if back is None else f'its log up to {back}'}"
        )
    return None


def _dead_member(trace: Sequence[TraceEvent], story: PartitionStory) -> str | None:
    """Return the evidence that a leader added a broker that the controller believes gone.

    The controller still believes it, so no event will remove that member. It heard of the broker's
    end before the ISR was written: it had no member to remove.
    """
    for proposal, broker in reversed(tuple(_expansions(story))):
        adopted = _adoption(story, proposal)
        gone = _gone(trace, broker)
        place = proposal.place if adopted is None else adopted.place
        if gone is not None and _is_known(trace, gone, place):
            return (
                f"leader {proposal.node} took {broker} into the ISR of epoch {proposal.epoch} "
                f"when controller {gone.node} held it for gone: {gone.kind.value}"
            )
    return None


def _is_known(trace: Sequence[TraceEvent], gone: TraceEvent, before: int) -> bool:
    """Return whether the controller knew before that place what the event says.

    A new controller reads who lives when it is elected, and says so when its failover ends.
    """
    elected: int | None = None
    for place, event in enumerate(trace):
        if event is gone:
            if gone.kind is EventKind.FAILOVER_COMPLETED and elected is not None:
                return elected < before
            return place < before
        if event.kind is EventKind.CONTROLLER_ELECTED and event.node == gone.node:
            elected = place
    return False


def _gone(trace: Sequence[TraceEvent], broker: int) -> TraceEvent | None:
    """Return the event since which the controller believes the broker gone, None if it does not.

    It removes the broker from ISRs at that event; a new controller, when its failover ends.
    """
    gone: TraceEvent | None = None
    for event in trace:
        if event.kind is EventKind.SHUTDOWN_BEGUN and event.detail["broker"] == broker:
            gone = event
        elif event.kind is EventKind.BROKERS_CHANGED:
            if broker in event.detail["dead"]:
                gone = event
            if broker in (*event.detail["new"], *event.detail["bounced"]):
                gone = None
        elif event.kind is EventKind.CONTROLLER_ELECTED:
            gone = None
        elif event.kind is EventKind.FAILOVER_COMPLETED:
            gone = None if broker in event.detail["brokers"] else event
    return gone


def _expansions(story: PartitionStory) -> Iterator[tuple[Seen, int]]:
    """Yield each proposal with each broker that it adds to the ISR known before it."""
    known: tuple[int, ...] = ()
    for seen in story.of(
        EventKind.BECAME_LEADER, EventKind.ISR_CHANGED, EventKind.ISR_CHANGE_PROPOSED
    ):
        if seen.kind is not EventKind.ISR_CHANGE_PROPOSED:
            known = seen.isr
            continue
        for broker in seen.isr:
            if broker not in known and broker != seen.node:
                yield seen, broker


def _leadership_of(story: PartitionStory, proposal: Seen) -> Seen | None:
    for led in reversed(story.leaderships()):
        if led.node == proposal.node and led.place < proposal.place:
            return led
    return None


def _high_watermark_at(story: PartitionStory, began: Seen, proposal: Seen) -> int:
    """Return the leader's high watermark when it made the proposal."""
    known = int(began.event.detail.get("high_watermark", 0))
    for seen in story.of(EventKind.HIGH_WATERMARK_ADVANCED):
        if seen.node == began.node and began.place < seen.place < proposal.place:
            known = max(known, seen.offset)
    return known


def _adoption(story: PartitionStory, proposal: Seen) -> Seen | None:
    """Return the event that ended the proposal: its leader's next ISR, proposal or role."""
    for seen in story.of(
        EventKind.ISR_CHANGED,
        EventKind.ISR_CHANGE_PROPOSED,
        EventKind.BECAME_LEADER,
        EventKind.BECAME_FOLLOWER,
    ):
        if seen.node == proposal.node and seen.place > proposal.place:
            return seen
    return None


def _start_without_fetch(story: PartitionStory, broker: int, proposal: Seen) -> Seen | None:
    """Return the broker's last start before the proposal if it has not fetched since."""
    starts = [
        start for start in story.starts if start.node == broker and start.place < proposal.place
    ]
    if not starts:
        return None
    fetches = any(
        seen.node == broker and starts[-1].place < seen.place < proposal.place
        for seen in story.of(EventKind.FETCHER_STARTED)
    )
    return None if fetches else starts[-1]


def _end_after_restart(story: PartitionStory, broker: int, after: int) -> int | None:
    """Return the lowest log end that the broker's events after that place show."""
    ends = [
        seen.offset
        for seen in story.of(
            EventKind.LOG_RECOVERED, EventKind.REPLICA_STARTED, EventKind.LOG_TRUNCATED
        )
        if seen.node == broker and seen.place > after
    ]
    return min(ends, default=None)
