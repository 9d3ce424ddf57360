"""Which topics were deleted in a run: the epochs and offsets of a name that returns begin anew."""

from __future__ import annotations

from collections.abc import Iterable

from highwater_core.events import EventKind, TraceEvent


def deleted_topics(events: Iterable[TraceEvent]) -> set[str]:
    """Return the names of the topics that a controller saw or made disappear."""
    found: set[str] = set()
    for event in events:
        if event.kind is EventKind.TOPICS_CHANGED:
            found.update(event.detail.get("deleted", ()))
        elif event.kind is EventKind.TOPIC_DELETED and event.topic is not None:
            found.add(event.topic)
    return found
