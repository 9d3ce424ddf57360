"""A run's traces as slices: a cluster that lives on traced events before the run, too. No I/O.

A long-lived cluster's run has the events since the end of the run before, and of the events before
that those that its checks need: of topics that live on, their epochs, ISRs and high watermarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicId
from highwater_core.numbers import Int32, Int64

Start = tuple[int, int]
"""A node, and the number of one of its starts."""

KEPT_KINDS = frozenset(
    {
        EventKind.BECAME_FOLLOWER,
        EventKind.BECAME_LEADER,
        EventKind.GROUP_LOAD_BEGUN,
        EventKind.GROUP_LOAD_ENDED,
        EventKind.GROUP_UNLOADED,
        EventKind.ISR_CHANGED,
        EventKind.ISR_WRITTEN,
        EventKind.LEADER_ELECTED,
        EventKind.LOG_START_MOVED,
        EventKind.LOG_TRUNCATED,
        EventKind.REPLICA_STOPPED,
    }
)
"""The events of a partition that later events are compared with. Of the high watermarks, which come
with every append, the highest of each epoch is kept too."""


EARLIER_KINDS = KEPT_KINDS | {EventKind.HIGH_WATERMARK_ADVANCED}
"""The kinds of events that a run has of the time before it."""


@dataclass(frozen=True, slots=True)
class TraceBegin:
    """Where the trace of one start of a node begins in this run.

    from_seq: the number of its next event when the run began. earlier: how many events with lower
    numbers the run has, which were kept for its checks.
    """

    node: Int32
    incarnation: Int32
    from_seq: Int64
    earlier: Int32 = 0

    @property
    def start(self) -> Start:
        return self.node, self.incarnation


class Slices:
    """What a run declares of the begin of its traces; without a line for a start, it is whole."""

    def __init__(self, begins: Iterable[TraceBegin] = ()) -> None:
        self._declared = tuple(begins)
        self._begins = {each.start: each for each in self._declared}

    @property
    def starts(self) -> Collection[Start]:
        """The starts whose traces began before the run."""
        return self._begins.keys()

    @property
    def begins(self) -> Collection[TraceBegin]:
        """The begins, one a start: of a start that is declared twice, the last."""
        return self._begins.values()

    def is_earlier(self, event: TraceEvent) -> bool:
        """Return whether the event was traced before the run began."""
        begin = self._begins.get((event.node, event.incarnation))
        return begin is not None and event.seq < begin.from_seq

    def last_starts(self) -> Mapping[int, int]:
        """Return each node's last start before the run."""
        found: dict[int, int] = {}
        for node, incarnation in self._begins:
            found[node] = max(incarnation, found.get(node, incarnation))
        return found

    def gaps(self, events: Sequence[TraceEvent]) -> list[str]:
        """Return for each node's start the first event after a gap, and what else is undeclared.

        A killed node may have lost the end of its trace, which no number shows.
        Source: highwater_core.events, "in each node ordered by seq without gaps".
        """
        due: dict[Start, int] = {start: each.from_seq for start, each in self._begins.items()}
        last: dict[Start, int] = {}
        earlier = dict.fromkeys(self._begins, 0)
        broken: dict[Start, str] = {}
        for event in events:
            start = event.node, event.incarnation
            if self.is_earlier(event):
                earlier[start] += 1
                if event.seq <= last.get(start, -1) and start not in broken:
                    broken[start] = f"{_named(start)}: seq {event.seq} after {last[start]}"
                if event.kind not in EARLIER_KINDS and start not in broken:
                    found = f"seq {event.seq} is of the run, which is declared to begin later"
                    broken[start] = f"{_named(start)}: {found}"
            else:
                if event.seq != due.get(start, 0) and start not in broken:
                    found = f"seq {event.seq} where {due.get(start, 0)} is due"
                    broken[start] = f"{_named(start)}: {found}"
                due[start] = event.seq + 1
            last[start] = event.seq
        return [*self.wrong_declarations(), *broken.values(), *self._wrong_counts(earlier)]

    def wrong_declarations(self) -> list[str]:
        """Return the declarations that no run makes: they would excuse a start's whole trace."""
        counted = Counter(each.start for each in self._declared)
        return [
            *(
                f"{_named(start)}: its begin is declared {count} times"
                for start, count in counted.items()
                if count > 1
            ),
            *(
                f"{_named(each.start)}: declared from seq {each.from_seq}, where it traced nothing "
                "before the run"
                for each in self._declared
                if each.from_seq < 1
            ),
        ]

    def _wrong_counts(self, earlier: Mapping[Start, int]) -> Iterator[str]:
        for start, begin in self._begins.items():
            if earlier[start] != begin.earlier:
                yield (
                    f"{_named(start)}: {earlier[start]} events from before the run, "
                    f"where {begin.earlier} are declared"
                )


WHOLE = Slices()
"""Of a run whose nodes were started for it."""


def kept_events(events: Iterable[TraceEvent], topics: Collection[str]) -> list[TraceEvent]:
    """Return the events that the checks of a later run need, in their order.

    topics: those that live on. Of others, which are gone, no later event is compared with any.
    """
    of_living = [event for event in events if event.topic in topics]
    highest: dict[tuple[object, TopicId, object], TraceEvent] = {}
    for event in of_living:
        if event.kind is EventKind.HIGH_WATERMARK_ADVANCED:
            key = event.topic_partition, event.topic_id, event.leader_epoch
            best = highest.setdefault(key, event)
            if (event.offset or 0) > (best.offset or 0):
                highest[key] = event
    chosen = {id(event) for event in highest.values()}
    return [event for event in of_living if event.kind in KEPT_KINDS or id(event) in chosen]


def _named(start: Start) -> str:
    return f"node {start[0]}, incarnation {start[1]}"
