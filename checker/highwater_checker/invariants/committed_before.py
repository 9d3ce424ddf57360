"""I4, I11: committed records are on every later leader, and no ISR member truncates them.

Both are checked in traces. Committed before an epoch is the highest high watermark that any leader
of an older epoch traced, regardless of the nodes' clocks. Within an epoch, the ISR and the
committed offset at a truncation go by the clocks, which must be one, as on containers of one
machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.lives import Life, Lives
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

CHECK = "leaders have, and members keep, committed records (I4, I11)"
_TELLS_ISR = frozenset(
    {
        EventKind.BECAME_LEADER,
        EventKind.HIGH_WATERMARK_ADVANCED,
        EventKind.ISR_CHANGED,
        EventKind.ISR_WRITTEN,
    }
)


def check_committed_before(events: Sequence[TraceEvent]) -> CheckResult:
    """Find leaders that began without committed records, and ISR members that truncated them.

    Examines BECAME_LEADER and LOG_TRUNCATED, and all events with high watermarks and ISRs. The
    members are those of the last ISR in the epoch before the truncation, or of the epoch's first
    ISR. Only the ends of logs are compared, not their contents, in each life of a topic; deleted
    topics without ids are left out. Records that preset v3 loses by its known flaws are found too,
    also where a broker obeys a late command after an unclean election and counts itself as a
    member.
    Source: docs/reference/invariants.md, I4 and I11.
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
    """One partition's committed offsets and ISRs, by leader epoch."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._told: dict[int, list[TraceEvent]] = {}
        for event in sorted(events, key=lambda each: each.ts_ns):
            if event.kind in _TELLS_ISR:
                self._told.setdefault(_epoch(event), []).append(event)

    def before(self, leader_epoch: int) -> TraceEvent | None:
        """Return the highest high watermark that leaders of older epochs traced, None if none."""
        older = (told for epoch, told in self._told.items() if epoch < leader_epoch)
        return _highest(event for told in older for event in told)

    def before_cut(self, cut: TraceEvent) -> TraceEvent | None:
        """Return the same, or the truncation's own epoch's high watermark before it, if higher.

        None if the replica was no ISR member then.
        """
        epoch = _epoch(cut)
        told = self._told.get(epoch, [])
        earlier = [event for event in told if event.ts_ns < cut.ts_ns] or told[:1]
        if not earlier or cut.node not in earlier[-1].detail["isr"]:
            return None
        before = self.before(epoch)
        return _highest(earlier if before is None else (before, *earlier))


def _highest(events: Iterable[TraceEvent]) -> TraceEvent | None:
    """Return the event with the highest high watermark, among equal ones of the newest epoch."""
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
    """Return the events with a leader epoch, by life of the partition."""
    lives = Lives(events)
    found: dict[Life, list[TraceEvent]] = {}
    for event in events:
        life = lives.of_event(event)
        if life is not None and event.leader_epoch is not None:
            found.setdefault(life, []).append(event)
    return found


def _epoch(event: TraceEvent) -> int:
    return -1 if event.leader_epoch is None else event.leader_epoch
