"""The lives of topics: epochs and offsets of a topic that is created again begin anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition

Life = tuple[TopicPartition, TopicId]
"""A partition of one of the topics of that name."""

TELLING_DELETIONS = (EventKind.TOPICS_CHANGED, EventKind.TOPIC_DELETED, EventKind.BECAME_LEADER)
"""The kinds of events that show which topics were deleted."""


def deleted_topics(events: Iterable[TraceEvent]) -> set[str]:
    """Return the names of the topics that a controller deleted or noticed as deleted.

    Also of topics that leaders knew by two ids: a controller may die before it traces a deletion.
    """
    found: set[str] = set()
    led: set[tuple[str, TopicId]] = set()
    for event in events:
        if event.kind is EventKind.TOPICS_CHANGED:
            found.update(event.detail.get("deleted", ()))
        elif event.topic is None:
            continue
        elif event.kind is EventKind.TOPIC_DELETED:
            found.add(event.topic)
        elif event.kind is EventKind.BECAME_LEADER and event.topic_id != NO_TOPIC_ID:
            led.add((event.topic, event.topic_id))
    ids = Counter(topic for topic, _ in led)
    return found | {topic for topic, count in ids.items() if count > 1}


class Lives:
    """Tells the lives of a topic apart by its ids."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._deleted = deleted_topics(events)

    def of(self, at: TopicPartition, topic_id: TopicId) -> Life | None:
        """Return the life in which the partition's topic had the id.

        A topic that was never deleted has one life, also if it got its id late. None for a deleted
        topic without an id, whose lives cannot be told apart.
        """
        if at.topic not in self._deleted:
            return at, NO_TOPIC_ID
        return None if topic_id == NO_TOPIC_ID else (at, topic_id)

    def of_event(self, event: TraceEvent) -> Life | None:
        """Return the event's life, None also for an event without a partition."""
        at = event.topic_partition
        return None if at is None else self.of(at, event.topic_id)
