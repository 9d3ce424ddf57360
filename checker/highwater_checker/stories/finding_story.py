"""The story of one finding of a finished run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from highwater_checker.finding import Traced
from highwater_checker.stories.entries import PLAN, STARTED, Entry, Note
from highwater_checker.stories.story import (
    MOST_ENTRIES,
    UNTOLD,
    Story,
    cut,
    joined,
    outcome_of_send,
)
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC

_BEFORE = frozenset({EventKind.BECAME_LEADER, EventKind.ISR_CHANGED, EventKind.ISR_WRITTEN})
"""Events that say who led, and with which ISR, as the faults began."""
_LEAST = frozenset(
    {
        EventKind.BAD_INPUT_MET,
        EventKind.FETCHER_STARTED,
        EventKind.FETCHER_STOPPED,
        EventKind.ISR_CHANGE_PROPOSED,
        EventKind.REQUEST_REFUSED,
    }
)
"""Events that a story leaves out where it would be too long."""
_OF_GROUPS = frozenset(kind for kind in EventKind if kind.value.startswith("group_"))


@dataclass(frozen=True, slots=True)
class Subject:
    """What a story is about.

    at: a partition, None for all of them. shown: the events that show the finding.
    of_groups: it is about a group's offsets or members, too.
    """

    at: TopicPartition | None
    shown: Collection[Traced]
    of_groups: bool = False

    def is_shown(self, entry: Entry) -> bool:
        return isinstance(entry.event, TraceEvent) and Traced.of(entry.event) in self.shown

    def has(self, event: TraceEvent) -> bool:
        """Return whether the event is about it."""
        if event.kind in _OF_GROUPS or event.topic == OFFSETS_TOPIC:
            return self.of_groups or self.at is None or event.topic == self.at.topic
        if self.at is None or event.topic is None:
            return True
        return event.topic == self.at.topic and event.partition in (self.at.partition, None)


def story_of_finding(entries: Sequence[Entry], about: Subject) -> Story:
    """Return the story of a finding: who led before the first fault, then all up to the last entry.

    entries: in order; the last is the finding. Events that show it, and operations of clients that
    the entries have by name, are told whatever their kind, and whenever they were.
    """
    begin = next((n for n, each in enumerate(entries) if each.who == PLAN), 0)
    told = [*_before(entries[:begin], about)]
    told += [each for each in entries[begin:] if _is_told(each, about)]
    if len(told) > MOST_ENTRIES:
        told = [each for each in told if not _is_least(each) or about.is_shown(each)]
    return cut(list(joined(told)), lambda entry: about.is_shown(entry) or _is_named(entry))


def _is_told(entry: Entry, about: Subject) -> bool:
    event = entry.event
    if isinstance(event, Note) or about.is_shown(entry):
        return True
    return event.kind not in UNTOLD and about.has(event)


def _is_named(entry: Entry) -> bool:
    """Return whether it is an operation of a client that the entries have by name."""
    event = entry.event
    if not isinstance(event, Note) or entry.who == PLAN or event.what == STARTED:
        return False
    return not outcome_of_send(entry) and "records" not in event.detail


def _is_least(entry: Entry) -> bool:
    return isinstance(entry.event, TraceEvent) and entry.event.kind in _LEAST


def _before(entries: Sequence[Entry], about: Subject) -> list[Entry]:
    """Return who led as the faults began, with which ISR, and what shows the finding."""
    kept: list[Entry] = []
    newest: dict[tuple[TopicPartition | None, EventKind], Entry] = {}
    for entry in entries:
        event = entry.event
        if about.is_shown(entry) or _is_named(entry):
            kept.append(entry)
        elif isinstance(event, TraceEvent) and event.kind in _BEFORE and about.has(event):
            newest[event.topic_partition, event.kind] = entry
    return sorted([*kept, *newest.values()], key=lambda each: each.at_ns)
