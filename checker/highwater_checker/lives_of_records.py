"""Finds the topic's life in which a record was acknowledged or read; clients tell no topic id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from highwater_checker.lives import deleted_topics
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition

ONLY_LIFE = NO_TOPIC_ID
"""The life of a topic that was never deleted."""
UNKNOWN_LIFE = TopicId("?")
_BEGIN = (EventKind.LEADER_ELECTED, EventKind.BECAME_LEADER)
"""The events that begin a life: before them no record is acknowledged."""
TELLING = (*_BEGIN, EventKind.LOG_APPENDED, EventKind.TOPIC_DELETED, EventKind.TOPICS_CHANGED)
"""The kinds of events that show lives."""


@dataclass(frozen=True, slots=True)
class LifeOfRecord:
    """life: the topic's id; a number for a topic without ids.
    is_over: whether the logs at the run's end need not have its records: the life ended before, or
    is unknown."""

    life: TopicId = ONLY_LIFE
    is_over: bool = False


ONLY = LifeOfRecord()
UNKNOWN = LifeOfRecord(UNKNOWN_LIFE, is_over=True)


@dataclass(frozen=True, slots=True)
class _Span:
    """The time of a life, by the nodes' wall clock. to_ns: None where it goes on."""

    life: TopicId
    from_ns: int
    to_ns: int | None

    def meets(self, from_ns: int, to_ns: int) -> bool:
        return self.from_ns <= to_ns and (self.to_ns is None or from_ns <= self.to_ns)


class _Ends:
    """The highest end offset that one life's leaders had traced by a time."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._ends: list[int] = []

    def add(self, at_ns: int, end_offset: int) -> None:
        """Ordering: by time."""
        self._times.append(at_ns)
        self._ends.append(max(end_offset, self._ends[-1] if self._ends else 0))

    def at(self, at_ns: int) -> int:
        """Return the highest end offset until then, 0 before any."""
        count = bisect_right(self._times, at_ns)
        return self._ends[count - 1] if count else 0


class LivesOfRecords:
    """Finds the lives of sends and reads by leaders' trace events, and by times.

    The life is that of the only topic whose leaders traced an append at the record's offset between
    its send and its acknowledgement, or before it was read: a consumer may return a record long
    after it was fetched. Without such an append it is the only topic that existed meanwhile.
    So a leader that does not know of a deletion is recognised by its appends. Otherwise the life is
    unknown. Clients' and nodes' clocks must be one, as on containers of one machine.
    """

    def __init__(self, events: Sequence[TraceEvent], start_wall_ns: int | None) -> None:
        """start_wall_ns: the run's start; None where unknown."""
        self._start_wall_ns = start_wall_ns
        self._spans: dict[str, list[_Span]] = {}
        self._appends: dict[TopicPartition, list[TraceEvent]] = {}
        self._ends: dict[TopicPartition, dict[TopicId, _Ends]] = {}
        for topic, told in _by_topic(events).items():
            self._spans[topic] = _spans_of(told)
            for event in told:
                at = event.topic_partition
                if event.kind is EventKind.LOG_APPENDED and at is not None:
                    self._appends.setdefault(at, []).append(event)
                    for life in self._lives_of(event, at):
                        ends = self._ends.setdefault(at, {}).setdefault(life, _Ends())
                        ends.add(event.ts_ns, int(event.detail["end_offset"]))

    @property
    def untold(self) -> list[str]:
        """Return the topics with several lives of which none is known."""
        return list(self._spans) if self._start_wall_ns is None else []

    def of(
        self, at: TopicPartition, offset: int, invoked_ns: int, acknowledged_ns: int
    ) -> LifeOfRecord:
        """Return the life in which a record at the offset was acknowledged.

        Units: times by the clients' clock, from the run's start.
        """
        start_ns = self._start_wall_ns or 0
        from_ns, to_ns = start_ns + invoked_ns, start_ns + acknowledged_ns
        return self._only(at, set(self._appended(at, offset, from_ns, to_ns)), from_ns, to_ns)

    def of_read(self, at: TopicPartition, offset: int, read_ns: int) -> LifeOfRecord:
        """Return the life of a record that a consumer returned from the offset.

        Units: the time by the clients' clock, from the run's start.
        """
        to_ns = (self._start_wall_ns or 0) + read_ns
        written = {life for life, ends in self._ends.get(at, {}).items() if ends.at(to_ns) > offset}
        if written:
            # Of the newest topic a leader that was killed may have left its last append untraced.
            begun = [span.life for span in self._spans[at.topic] if span.from_ns <= to_ns]
            written.update(begun[-1:])
        return self._only(at, written, 0, to_ns)

    def _only(
        self, at: TopicPartition, lives: set[TopicId], from_ns: int, to_ns: int
    ) -> LifeOfRecord:
        """Return the only one of the lives; without any, the only one that existed in that time."""
        spans = self._spans.get(at.topic)
        if spans is None:
            return ONLY
        if self._start_wall_ns is None:
            return UNKNOWN
        lives = lives or {span.life for span in spans if span.meets(from_ns, to_ns)}
        if len(lives) != 1:
            return UNKNOWN
        life = lives.pop()
        return LifeOfRecord(
            life, all(each.to_ns is not None for each in spans if each.life == life)
        )

    def _appended(
        self, at: TopicPartition, offset: int, from_ns: int, to_ns: int
    ) -> Iterator[TopicId]:
        """Yield the lives with a leader's traced append at the offset in that time."""
        appends = self._appends.get(at, [])
        first = bisect_left(appends, from_ns, key=lambda event: event.ts_ns)
        last = bisect_right(appends, to_ns, key=lambda event: event.ts_ns)
        for event in appends[first:last]:
            is_there = event.offset is not None and event.offset <= offset
            if not is_there or int(event.detail["end_offset"]) <= offset:
                continue
            yield from self._lives_of(event, at)

    def _lives_of(self, event: TraceEvent, at: TopicPartition) -> Iterator[TopicId]:
        """Yield the event's topic id; without one, the lives that existed at its time."""
        if event.topic_id != NO_TOPIC_ID:
            yield event.topic_id
        else:
            spans = self._spans[at.topic]
            yield from (span.life for span in spans if span.meets(event.ts_ns, event.ts_ns))


def _by_topic(events: Sequence[TraceEvent]) -> dict[str, list[TraceEvent]]:
    """Return the events on each deleted topic, by time."""
    found: dict[str, list[TraceEvent]] = {topic: [] for topic in sorted(deleted_topics(events))}
    if not found:
        return {}
    for event in sorted(events, key=lambda each: each.ts_ns):
        if event.kind not in TELLING:
            continue
        named = event.detail.get("deleted", ()) if event.topic is None else (event.topic,)
        for topic in named:
            if topic in found:
                found[topic].append(event)
    return found


def _spans_of(told: Sequence[TraceEvent]) -> list[_Span]:
    """Return a topic's lives in their order: by its ids, or by its deletions where it has none."""
    begun: dict[TopicId, int] = {}
    deleted: dict[TopicId, int] = {}
    vanished: list[int] = []
    for event in told:
        is_end = event.kind in (EventKind.TOPICS_CHANGED, EventKind.TOPIC_DELETED)
        if is_end and event.topic_id == NO_TOPIC_ID:
            vanished.append(event.ts_ns)
        elif is_end:
            deleted.setdefault(event.topic_id, event.ts_ns)
        elif event.kind in _BEGIN and event.topic_id != NO_TOPIC_ID:
            begun.setdefault(event.topic_id, event.ts_ns)
    if not begun:
        return _between(vanished)
    starts = [*begun.values(), None]
    spans = []
    for (life, from_ns), next_ns in zip(begun.items(), starts[1:], strict=True):
        gone = next((at_ns for at_ns in vanished if at_ns >= from_ns), None)
        ends = (deleted.get(life), gone, next_ns)
        spans.append(_Span(life, from_ns, min((e for e in ends if e is not None), default=None)))
    return spans


def _between(deletions: Sequence[int]) -> list[_Span]:
    """Return the lives before, between and after the deletions, numbered from 1."""
    edges = list(dict.fromkeys(deletions))
    return [
        _Span(TopicId(str(number)), from_ns, to_ns)
        for number, (from_ns, to_ns) in enumerate(
            zip((0, *edges), (*edges, None), strict=True), start=1
        )
    ]
