"""I4, I11: what a leader committed is on every leader after it, and no ISR member cuts it off.

Both are told by traces. What counts as committed before an epoch is the highest high watermark that
any leader of an older epoch told, whatever the nodes' clocks say. Within an epoch, who was in the
ISR and what was committed before a cut go by the clocks: they must be one, as those of containers
on one machine are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.lives import Life, Lives
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

CHECK = "leaders have, and members keep, what was committed (I4, I11)"
_TELLS_ISR = frozenset(
    {
        EventKind.BECAME_LEADER,
        EventKind.HIGH_WATERMARK_ADVANCED,
        EventKind.ISR_CHANGED,
        EventKind.ISR_WRITTEN,
    }
)


def check_committed_before(events: Sequence[TraceEvent]) -> CheckResult:
    """Find leaders that began without what was committed, and ISR members that cut it off.

    Looks at BECAME_LEADER and LOG_TRUNCATED, and at what tells of high watermarks and ISRs. Who is
    a member is told by the ISR that was last told of in the epoch before the cut, or with which the
    epoch began. Only where logs end is compared, not what is in them, in each life of a topic;
    deleted topics without ids are left out. What preset v3 is known to lose shows here too, also
    where a late command is obeyed after an unclean election: that broker takes itself for a member.
    Source: docs/explanation/replication.md, "Invariants", I4 and I11.
    """
    findings: list[Finding] = []
    examined = 0
    for (topic_partition, _), own in _by_life(events).items():
        committed = _Committed(own)
        for event in own:
            if event.kind is EventKind.BECAME_LEADER:
                examined += 1
                findings += _leads_without(topic_partition, event, committed)
            elif event.kind is EventKind.LOG_TRUNCATED:
                examined += 1
                findings += _cuts_off(topic_partition, event, committed)
    return CheckResult(CHECK, examined, tuple(findings))


class _Committed:
    """What one partition's leaders committed, and its ISRs, by leader epoch."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._told: dict[int, list[TraceEvent]] = {}
        for event in sorted(events, key=lambda each: each.ts_ns):
            if event.kind in _TELLS_ISR:
                self._told.setdefault(_epoch(event), []).append(event)

    def before(self, leader_epoch: int) -> TraceEvent | None:
        """Return the highest high watermark that leaders of older epochs told, None without one."""
        older = (told for epoch, told in self._told.items() if epoch < leader_epoch)
        return _highest(event for told in older for event in told)

    def before_cut(self, cut: TraceEvent) -> TraceEvent | None:
        """Return the same, or that of the cut's own epoch before the cut if it is higher.

        None if the log was then no ISR member's.
        """
        epoch = _epoch(cut)
        told = self._told.get(epoch, [])
        earlier = [event for event in told if event.ts_ns < cut.ts_ns] or told[:1]
        if not earlier or cut.node not in earlier[-1].detail["isr"]:
            return None
        before = self.before(epoch)
        return _highest(earlier if before is None else (before, *earlier))


def _highest(events: Iterable[TraceEvent]) -> TraceEvent | None:
    """Return the event with the highest high watermark, of equal ones that of the newest epoch."""
    advanced = (event for event in events if event.kind is EventKind.HIGH_WATERMARK_ADVANCED)
    told = (event for event in advanced if event.offset is not None)
    return max(told, key=lambda event: (event.offset, _epoch(event)), default=None)


def _leads_without(
    at: TopicPartition, event: TraceEvent, committed: _Committed
) -> Iterator[Finding]:
    told = committed.before(_epoch(event))
    if told is None or told.offset is None or event.offset is None:
        return
    if event.offset < told.offset:
        what = Wording.BEGAN_WITHOUT.filled(
            broker=event.node,
            leader_epoch=event.leader_epoch,
            offset=event.offset,
            epoch=_epoch(told),
            end_offset=told.offset,
        )
        yield _finding("I4", what, at, event, event.offset, told)


def _cuts_off(at: TopicPartition, event: TraceEvent, committed: _Committed) -> Iterator[Finding]:
    from_offset = int(event.detail["from_offset"])
    told = committed.before_cut(event)
    if told is None or told.offset is None or event.offset is None:
        return
    if event.offset >= min(told.offset, from_offset):
        return
    what = Wording.CUT_OFF_COMMITTED.filled(
        broker=event.node,
        leader_epoch=event.leader_epoch,
        from_offset=from_offset,
        offset=event.offset,
        epoch=_epoch(told),
        end_offset=told.offset,
    )
    yield _finding("I11", what, at, event, event.offset, told)


def _finding(
    invariant: str,
    what: str,
    at: TopicPartition,
    event: TraceEvent,
    offset: int,
    told: TraceEvent,
) -> Finding:
    traced = Traced.of(event), Traced.of(told)
    return Finding(invariant, what, at.topic, at.partition, offset, event.node, traced=traced)


def _by_life(events: Sequence[TraceEvent]) -> dict[Life, list[TraceEvent]]:
    """Return the events of each life of a partition that know their leader epoch."""
    lives = Lives(events)
    found: dict[Life, list[TraceEvent]] = {}
    for event in events:
        life = lives.of_event(event)
        if life is not None and event.leader_epoch is not None:
            found.setdefault(life, []).append(event)
    return found


def _epoch(event: TraceEvent) -> int:
    return -1 if event.leader_epoch is None else event.leader_epoch
