"""Triggers of the rows about elected leaders and the controllers that elected them.

Rows 9 (KIP-966), 10 (KIP-106), 13 (KAFKA-6082), 20 (KAFKA-1451).
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.catalogue.story import PartitionStory, Seen, leads, reaches
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_LEADER


def last_in_sync_lost_what_it_committed_alone(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 9: the only ISR member committed records alone, lost them in a crash, and leads.

    Or it has not come back, and is awaited: others have what they committed with it.
    """
    story = PartitionStory(trace, topic, partition)
    for recovered in story.of(EventKind.LOG_RECOVERED):
        alone = _last_alone(story, recovered)
        if alone is None or alone.offset <= recovered.offset:
            continue
        if not reaches(offset, recovered.offset):
            continue
        wanted = alone.offset if offset < 0 else min(alone.offset, offset + 1)
        led = story.led_without(recovered, wanted)
        if led is not None:
            return (
                f"broker {recovered.node}, alone in the ISR, committed up to {alone.offset} in "
                f"epoch {alone.epoch}, came back from a crash with {recovered.offset} and "
                f"{leads(led)}"
            )
    return _awaits_who_is_gone(story, offset)


def _awaits_who_is_gone(story: PartitionStory, offset: int) -> str | None:
    """Return the evidence that nobody may lead but a broker that is gone since."""
    decided = list(story.of(EventKind.LEADERSHIP_DECIDED))
    if not decided or decided[-1].leader != NO_LEADER or len(decided[-1].isr) != 1:
        return None
    last, (awaited,) = decided[-1], decided[-1].isr
    later = (seen for seen in (*story.seen, *story.starts) if seen.place > last.place)
    if any(seen.node == awaited for seen in later):
        return None
    others = {broker for seen in story.of(EventKind.HIGH_WATERMARK_ADVANCED) for broker in seen.isr}
    for other in sorted(others - {awaited}):
        kept = story.surely_held(other, before=last.place)
        if kept > max(offset, 0):
            return (
                f"broker {awaited}, the last in sync, is awaited since epoch {last.epoch} and has "
                f"not come back; {other} has what was committed up to {kept}, and may not lead"
            )
    return None


def _last_alone(story: PartitionStory, recovered: Seen) -> Seen | None:
    """Return the last high watermark before the crash, if the node alone was the ISR then."""
    advanced = [
        seen for seen in story.of(EventKind.HIGH_WATERMARK_ADVANCED) if seen.place < recovered.place
    ]
    if advanced and advanced[-1].isr == (recovered.node,):
        return advanced[-1]
    return None


def elected_from_outside_the_isr(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 10: an unclean election, of a replica that may lack committed records.

    The violation's offset must be at or above the offset up to which the replica surely had all
    committed records.
    """
    story = PartitionStory(trace, topic, partition)
    for decided in story.of(EventKind.LEADERSHIP_DECIDED, EventKind.LEADER_ELECTED):
        if not decided.event.detail.get("unclean"):
            continue
        held = story.surely_held(decided.leader, before=decided.place)
        if not reaches(offset, held):
            continue
        return (
            f"broker {decided.leader} was elected for epoch {decided.epoch} from outside the ISR; "
            f"of the committed records it surely held no more than up to {held}"
        )
    return None


def deposed_controller_wrote(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 13: a controller writes a leadership after a controller of a higher epoch was elected."""
    elected = -1
    for event in trace:
        if event.kind is EventKind.CONTROLLER_ELECTED:
            elected = max(elected, event.controller_epoch or 0)
        elif (
            event.kind is EventKind.LEADERSHIP_DECIDED
            and (event.topic, event.partition) == (topic, partition)
            and event.controller_epoch is not None
            and event.controller_epoch < elected
        ):
            return (
                f"controller {event.node}, of epoch {event.controller_epoch}, decided leader epoch "
                f"{event.leader_epoch} after controller epoch {elected} had begun"
            )
    return None


def waited_for_its_own_znode(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 20: the last elected controller lost its session, opened the next, and nobody acts."""
    elected: TraceEvent | None = None
    has_resigned = is_back = False
    for event in trace:
        if event.kind is EventKind.CONTROLLER_ELECTED:
            elected, has_resigned, is_back = event, False, False
        elif elected is None or (event.node, event.incarnation) != (
            elected.node,
            elected.incarnation,
        ):
            continue
        elif event.kind is EventKind.CONTROLLER_RESIGNED:
            has_resigned = True
        elif event.kind is EventKind.SESSION_OPENED:
            is_back = has_resigned
    if elected is None or not is_back:
        return None
    return (
        f"controller {elected.node}, of epoch {elected.controller_epoch}, opened another session "
        f"once it had resigned; none was elected since"
    )
