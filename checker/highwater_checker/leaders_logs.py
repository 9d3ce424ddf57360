"""Which offsets the logs of a partition's leaders had, by their traces. No I/O.

Every leader by its own belief counts: one that was deposed and does not know it answers as well.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from highwater_checker.lives import TELLING_DELETIONS, deleted_topics
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

CLOCKS_NS = 100_000_000
"""So much a client's clock and the nodes' may differ, on one machine."""
TELLING = (
    *TELLING_DELETIONS,
    EventKind.BECAME_FOLLOWER,
    EventKind.LOG_APPENDED,
    EventKind.LOG_START_MOVED,
    EventKind.NODE_STARTED,
    EventKind.NODE_STOPPED,
    EventKind.REPLICA_STOPPED,
)
"""The kinds of events that show leaders' logs."""
_ENDS_A_TERM = (EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STOPPED)


@dataclass(slots=True, eq=False)
class _Term:
    """The time in which a start of a broker led, and its log's end in it, which never falls.

    to_ns: infinite where no event ends it.
    """

    from_ns: int
    end_offset: int
    to_ns: float = math.inf
    appended: list[tuple[int, int]] = field(default_factory=list)
    """(log end, time), ascending."""

    def append(self, end_offset: int, ts_ns: int) -> None:
        if not self.appended or end_offset > self.appended[-1][0]:
            self.appended.append((end_offset, ts_ns))

    def reached_ns(self, offset: int) -> float:
        """Return from when on the log ended at the offset or above, infinity if it never did."""
        if self.end_offset >= offset:
            return -math.inf
        place = bisect_left(self.appended, (offset,))
        return self.appended[place][1] if place < len(self.appended) else math.inf

    def may_have_served(self, offset: int, until_ns: float) -> bool:
        """Return whether it led by then, and its log ended at the offset or above."""
        reached_ns = self.reached_ns(offset)
        return self.from_ns <= until_ns and reached_ns <= until_ns and reached_ns < math.inf


class LeadersLogs:
    """Tells whether a consumer's place may have been out of a leader's range."""

    def __init__(
        self,
        events: Collection[TraceEvent],
        start_wall_ns: int | None,
        log_starts: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """events: all nodes'.

        start_wall_ns: the run's start, None where it is not known.
        log_starts: the highest of the replicas' logs at the end.
        """
        self._start_wall_ns = start_wall_ns
        self._deleted = deleted_topics(events)
        self._terms: dict[TopicPartition, list[_Term]] = {}
        self._starts: dict[TopicPartition, list[tuple[int, int]]] = {}
        self._read(events)
        self._untold = {
            at
            for at, offset in (log_starts or {}).items()
            if offset > max((moved for moved, _ in self._starts.get(at, ())), default=0)
        }
        """Partitions of which the traces lack a move of the log's start."""

    def may_lack(
        self, at: TopicPartition, offset: int, since_ns: int, until_ns: int, kept_ns: int
    ) -> bool:
        """Return whether a leader's log may have begun above the offset, or ended below it.

        Also where nobody can tell: of topics that were deleted, and without a leader's trace. The
        leader that served the record below the offset ended no lower from then on: one whose log
        had not come so far may have refused the offset only if another one served that record.

        Units: times by the clients' clock, from the run's start.
        since_ns: when the record below the offset had been read.
        kept_ns: how much earlier that record may have been fetched.
        """
        if at.topic in self._deleted or at in self._untold:
            return True
        from_ns, served_ns, to_ns = -math.inf, math.inf, math.inf
        if self._start_wall_ns is not None:
            read_ns = self._start_wall_ns + since_ns
            from_ns, served_ns = read_ns - kept_ns - CLOCKS_NS, read_ns + CLOCKS_NS
            to_ns = self._start_wall_ns + until_ns + CLOCKS_NS
        if any(start > offset and ts_ns <= to_ns for start, ts_ns in self._starts.get(at, ())):
            return True
        terms = self._terms.get(at, ())
        led = [each for each in terms if each.from_ns <= to_ns and from_ns <= each.to_ns]
        servers = [each for each in terms if each.may_have_served(offset, served_ns)]
        lacking = [each for each in led if each.reached_ns(offset) > from_ns]
        return not led or any(servers != [each] for each in lacking)

    def _read(self, events: Iterable[TraceEvent]) -> None:
        starts: dict[int, int] = {}
        leading: dict[int, dict[TopicPartition, _Term]] = {}
        for event in sorted(events, key=lambda each: (each.node, each.incarnation, each.seq)):
            own = leading.setdefault(event.node, {})
            is_new = starts.setdefault(event.node, event.incarnation) != event.incarnation
            starts[event.node] = event.incarnation
            if is_new or event.kind is EventKind.NODE_STOPPED:
                for term in own.values():
                    term.to_ns = event.ts_ns
                own.clear()
            at = event.topic_partition
            if at is not None:
                self._take(event, at, own)

    def _take(
        self, event: TraceEvent, at: TopicPartition, own: dict[TopicPartition, _Term]
    ) -> None:
        if event.kind in _ENDS_A_TERM and at in own:
            own.pop(at).to_ns = event.ts_ns
        if event.kind is EventKind.BECAME_LEADER and event.offset is not None:
            own[at] = _Term(event.ts_ns, event.offset)
            self._terms.setdefault(at, []).append(own[at])
        elif event.kind is EventKind.LOG_APPENDED and at in own:
            own[at].append(int(event.detail["end_offset"]), event.ts_ns)
        elif event.kind is EventKind.LOG_START_MOVED and event.offset is not None:
            self._starts.setdefault(at, []).append((event.offset, event.ts_ns))
