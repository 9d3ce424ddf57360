"""One partition's story in the trace: its leaders, committed offsets, and log ends.

Followers do not trace what they append; a log's end is known only where an event shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_LEADER, NO_TOPIC_ID

Trigger = Callable[[Sequence[TraceEvent], str, int, int], str | None]
"""Takes a trace in causal order and the topic, partition and offset of a violation. Without a
partition the topic is "" and the partition -1; without an offset the offset is -1. Returns the
evidence in one sentence, or None where the trigger is not in the trace.
"""

TO_HIGH_WATERMARK = "to the high watermark"
EPOCH_UNKNOWN = f"{TO_HIGH_WATERMARK}: its leader knows no epoch"
"""How the reason of a cut begins for which the leader was asked in vain."""

SHOWS_LOG_END = frozenset(
    {
        EventKind.BECAME_LEADER,
        EventKind.BECAME_FOLLOWER,
        EventKind.REPLICA_STARTED,
        EventKind.LOG_RECOVERED,
        EventKind.LOG_TRUNCATED,
        EventKind.FETCHER_STARTED,
        EventKind.FETCHER_STOPPED,
    }
)


_ROLES = (EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STOPPED)


@dataclass(frozen=True, slots=True)
class Seen:
    """An event and its place in the trace."""

    place: int
    event: TraceEvent

    @property
    def node(self) -> int:
        return self.event.node

    @property
    def epoch(self) -> int:
        return -1 if self.event.leader_epoch is None else self.event.leader_epoch

    @property
    def offset(self) -> int:
        return -1 if self.event.offset is None else self.event.offset

    @property
    def kind(self) -> EventKind:
        return self.event.kind

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(self.event.detail.get("isr", ()))

    @property
    def leader(self) -> int:
        return int(self.event.detail.get("leader", -1))


class PartitionStory:
    """A partition's events in the last life of its topic, and the starts of all nodes.

    A life ends with its deletion. Events of another topic id than that of the last leader are of
    another life, whenever they were traced.
    """

    def __init__(self, trace: Sequence[TraceEvent], topic: str, partition: int) -> None:
        self.seen: list[Seen] = []
        self.starts: list[Seen] = []
        for place, event in enumerate(trace):
            if event.kind is EventKind.NODE_STARTED:
                self.starts.append(Seen(place, event))
            elif event.topic == topic and event.partition == partition:
                self.seen.append(Seen(place, event))
            elif ends_topic(event, topic):
                self.seen = [seen for seen in self.seen if _outlives(seen.event, event)]
        led = [seen.event.topic_id for seen in self.leaderships()]
        last = next((each for each in reversed(led) if each != NO_TOPIC_ID), NO_TOPIC_ID)
        if last != NO_TOPIC_ID:
            own = (last, NO_TOPIC_ID)
            self.seen = [seen for seen in self.seen if seen.event.topic_id in own]

    def of(self, *kinds: EventKind) -> Iterator[Seen]:
        """Yield the partition's events of these kinds, in order."""
        return (seen for seen in self.seen if seen.kind in kinds)

    # ------------------------------------------------------------ committed records

    def committed_beyond(self, offset: int, *, before: int) -> Seen | None:
        """Return the first event before that place in which a high watermark passes the offset."""
        for seen in self.of(EventKind.HIGH_WATERMARK_ADVANCED):
            if seen.place < before and seen.offset > offset:
                return seen
        return None

    def committed_by_others(self, cut: Seen) -> Seen | None:
        """Return a high watermark above the cut: records that the cut removed were committed.

        A high watermark counts in three cases: a leader reported it before the cut; its leader's
        epoch is older than the cut's; its leader counted the records while the follower had them.
        """
        for seen in self.of(EventKind.HIGH_WATERMARK_ADVANCED):
            is_earlier = seen.place < cut.place or seen.epoch < cut.epoch
            if seen.offset > cut.offset and (is_earlier or self._counts_cut_records(seen, cut)):
                return seen
        return None

    def _counts_cut_records(self, seen: Seen, cut: Seen) -> bool:
        """Return whether a leader may have committed records by the log end from before the cut.

        seen: the leader's high watermark.
        The leader must have led when the follower, before the cut, began to fetch from it, and
        every epoch since: a leader that goes on keeps the log ends that it knows.
        """
        if cut.node not in seen.isr or seen.offset > int(cut.event.detail.get("from_offset", -1)):
            return False
        is_known, led = False, -1
        for each in self.of(*_ROLES, EventKind.REPLICA_STARTED, EventKind.FETCHER_STARTED):
            if each.place >= (seen.place if each.node == seen.node else cut.place):
                continue
            if each.node == seen.node:
                goes_on = each.kind is EventKind.BECAME_LEADER and each.epoch == led + 1
                is_known, led = is_known and goes_on, each.epoch
            elif each.node == cut.node and each.kind is EventKind.FETCHER_STARTED:
                is_known = each.event.detail["leader"] == seen.node
        return is_known

    def surely_held(self, node: int, *, before: int) -> int:
        """Return the offset below which the node surely had all committed records at that place.

        A node has the records that were committed while it was in the ISR. A truncation lowers the
        offset to where the log was cut. A restart lowers it to 0 until the log's end is seen.
        """
        held, epoch, since_start = 0, -1, 0
        for seen in sorted((*self.seen, *self.starts), key=lambda each: each.place):
            if seen.place >= before:
                break
            if seen.kind is EventKind.HIGH_WATERMARK_ADVANCED:
                if seen.epoch >= epoch and node in (seen.node, *seen.isr):
                    held = max(held, seen.offset)
            elif seen.node == node:
                if seen.kind is EventKind.NODE_STARTED:
                    since_start, held = held, 0
                elif seen.kind is EventKind.LOG_RECOVERED:
                    held = min(max(since_start, held), seen.offset)
                elif seen.kind in SHOWS_LOG_END:
                    held, epoch = min(held, seen.offset), max(epoch, seen.epoch)
                elif _deletes(seen):
                    held = 0
        return held

    # ------------------------------------------------------------ log ends

    def highest_end(self, node: int, *, before: int) -> int:
        """Return the node's log end by the events before that place; -1 if no event shows it.

        Whoever is added to the ISR has what its leader has committed.
        """
        end = -1
        committed: dict[int, int] = {}
        isrs: dict[int, tuple[int, ...]] = {}
        for seen in self.seen:
            if seen.place >= before:
                break
            if seen.kind is EventKind.HIGH_WATERMARK_ADVANCED:
                if node == seen.node or node in seen.isr:
                    end = max(end, seen.offset)
                committed[seen.node], isrs[seen.node] = seen.offset, seen.isr
            elif seen.kind is EventKind.ISR_CHANGED and seen.node in committed:
                if node in seen.isr and node not in isrs[seen.node]:
                    end = max(end, committed[seen.node])
                isrs[seen.node] = seen.isr
            elif seen.node == node:
                if seen.kind is EventKind.LOG_APPENDED:
                    end = int(seen.event.detail["end_offset"])
                elif seen.kind in SHOWS_LOG_END:
                    end = seen.offset
                elif _deletes(seen):
                    end = -1
        return end

    def led_without(self, cut: Seen, end_offset: int) -> Seen | None:
        """Return the event by which the cut's node leads though its log is short of end_offset.

        That is its next BECAME_LEADER, or the last decision if it elects the node, or nobody and
        the node alone is in sync. None if an event in between shows the log at end_offset again.
        """
        for seen in self.seen:
            if seen.place <= cut.place:
                continue
            if seen.kind is EventKind.BECAME_LEADER and seen.node == cut.node:
                return seen if seen.offset < end_offset else None
            if self._shows_back(seen, cut, end_offset):
                return None
        return self._decided_for(cut.node, after=cut.place)

    def is_back(self, cut: Seen, end_offset: int) -> bool:
        """Return whether an event after the cut shows the node's log at end_offset again."""
        return any(
            self._shows_back(seen, cut, end_offset) for seen in self.seen if seen.place > cut.place
        )

    def _shows_back(self, seen: Seen, cut: Seen, end_offset: int) -> bool:
        """Return whether the event shows the log of the cut's node at end_offset.

        A high watermark of a leader that still counts the log end from before the cut does not. Nor
        does one of a leader from which the node has fetched nothing since its crash.
        """
        if seen.kind is EventKind.HIGH_WATERMARK_ADVANCED:
            is_counted = cut.node in (seen.node, *seen.isr) and seen.epoch >= cut.epoch
            if not is_counted or seen.offset < end_offset:
                return False
            if cut.kind is EventKind.LOG_RECOVERED:
                return self._has_fetched_since(cut, seen)
            return not self._counts_cut_records(seen, cut)
        return seen.node == cut.node and seen.kind in SHOWS_LOG_END and seen.offset >= end_offset

    def _has_fetched_since(self, cut: Seen, committed: Seen) -> bool:
        """Return whether the cut's node itself committed, or began to fetch from who did."""
        return committed.node == cut.node or any(
            each.node == cut.node
            and each.event.detail["leader"] == committed.node
            and cut.place < each.place < committed.place
            for each in self.of(EventKind.FETCHER_STARTED)
        )

    def _decided_for(self, node: int, *, after: int) -> Seen | None:
        decided = [seen for seen in self.of(EventKind.LEADERSHIP_DECIDED) if seen.place > after]
        if not decided:
            return None
        last = decided[-1]
        is_awaited = last.leader == NO_LEADER and last.isr == (node,)
        return last if last.leader == node or is_awaited else None

    # ------------------------------------------------------------ roles

    def leaderships(self) -> list[Seen]:
        """Return every BECAME_LEADER, in order."""
        return list(self.of(EventKind.BECAME_LEADER))

    def next_role(self, told: Seen) -> Seen | None:
        """Return the node's next role in the partition, or its next stop; None if there is none."""
        for seen in self.of(*_ROLES):
            if seen.node == told.node and seen.place > told.place:
                return seen
        return None

    def latest_epoch(self, *, before: int | None = None) -> int:
        """Return the highest leader epoch of all events, or of those before that place."""
        return max(
            (seen.epoch for seen in self.seen if before is None or seen.place < before), default=-1
        )

    def restarted(self, node: int, *, after: int, before: int) -> Seen | None:
        """Return the node's first start between the two places in the trace."""
        for start in self.starts:
            if start.node == node and after < start.place < before:
                return start
        return None


def leads(led: Seen) -> str:
    """Return in words what led_without found: the node led, or it alone is to."""
    did = "led" if led.kind is EventKind.BECAME_LEADER else "is to lead"
    return f"{did} epoch {led.epoch}"


def _deletes(seen: Seen) -> bool:
    return seen.kind is EventKind.REPLICA_STOPPED and bool(seen.event.detail.get("deleted"))


def _outlives(event: TraceEvent, deletion: TraceEvent) -> bool:
    """Return whether the event is of another life than the one that was deleted."""
    ids = event.topic_id, deletion.topic_id
    return NO_TOPIC_ID not in ids and event.topic_id != deletion.topic_id


def ends_topic(event: TraceEvent, topic: str) -> bool:
    """Return whether the event says that the topic was deleted, or that its znode is gone."""
    if event.kind is EventKind.TOPIC_DELETED:
        return event.topic == topic
    return event.kind is EventKind.TOPICS_CHANGED and topic in event.detail.get("deleted", ())


def reaches(offset: int, lost_from: int) -> bool:
    """Return whether the violation's offset is one of those lost; offset -1, of none, always is."""
    return offset < 0 or lost_from <= offset
