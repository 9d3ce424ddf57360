"""The times of each change of a leader, split into its phases; no I/O.

From the fault to the controller's decision, from there to the new leader's own event, to its first
acknowledgement, and until the ISR is whole again. The pipeline's metric M01 has the same of many
runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from highwater.report.faults_in_run import FaultSpan
from highwater_checker.history import Acknowledged
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import INTERNAL_TOPICS

_KINDS = (EventKind.LEADERSHIP_DECIDED, EventKind.BECAME_LEADER, EventKind.ISR_CHANGED)
_MS = 1e6


@dataclass(frozen=True, slots=True)
class FailoverPhases:
    """A leader epoch after a partition's first.

    Units: elected_s from the run's start; else ms. None: it did not happen before the next leader.
    deed: the last fault that acted before, "" without one; it is not certainly the cause.
    detect_ms: from the fault to the decision; None of a fault that came after the decision.
    elect_ms: from there to the leader's own event. first_ack_ms, isr_whole_ms: from that event.
    """

    at: TopicPartition
    leader_epoch: int
    leader: int
    deed: str
    elected_s: float
    detect_ms: float | None
    elect_ms: float | None
    first_ack_ms: float | None
    isr_whole_ms: float | None


@dataclass(slots=True)
class _Epoch:
    """One leader epoch's moments, ns from the run's start."""

    leader_epoch: int
    leader: int
    elected_ns: int
    decided_ns: int | None = None
    next_ns: int | None = None

    def first_of(self, moments: Sequence[int]) -> int | None:
        """Return the first of the moments, which ascend, within this leadership."""
        place = bisect_left(moments, self.elected_ns)
        if place == len(moments):
            return None
        moment = moments[place]
        return moment if self.next_ns is None or moment < self.next_ns else None


def failover_phases(
    traces: Iterable[TraceEvent],
    acknowledged: Iterable[Acknowledged],
    faults: Sequence[FaultSpan],
    start_wall_ns: int | None,
    end_ns: int | None,
) -> list[FailoverPhases]:
    """Return the changes of leaders up to the last look, in the order of their elections.

    Those of the brokers' own topics come last.

    start_wall_ns: the run's start by the nodes' clock; without it nothing has a time in the run.
    end_ns: of the last look, from the run's start: what stopping nodes hand over is no failover.
    """
    if start_wall_ns is None:
        return []
    by_partition: dict[TopicPartition, list[TraceEvent]] = defaultdict(list)
    for event in traces:
        if event.kind in _KINDS and event.topic_partition and event.leader_epoch is not None:
            by_partition[event.topic_partition].append(event)
    acks = _acks_of(acknowledged, by_partition)
    found = [
        _phases(at, epoch, acks[at], whole, faults)
        for at, events in by_partition.items()
        for whole in [_times_of_whole_isr(events, start_wall_ns)]
        for epoch in _epochs(events, start_wall_ns)[1:]
        if end_ns is None or epoch.elected_ns <= end_ns
    ]
    return sorted(
        found, key=lambda each: (each.at.topic in INTERNAL_TOPICS, each.elected_s, each.at)
    )


def _acks_of(
    acknowledged: Iterable[Acknowledged], wanted: Mapping[TopicPartition, object]
) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {at: [] for at in wanted}
    for ack in acknowledged:
        own = found.get(TopicPartition(ack.topic, ack.partition))
        if own is not None:
            own.append(ack.acknowledged_ns)
    for own in found.values():
        own.sort()
    return found


def _epochs(events: Iterable[TraceEvent], start_wall_ns: int) -> list[_Epoch]:
    """Return the partition's leader epochs in which a broker began to lead, ascending."""
    decided: dict[int, int] = {}
    led: dict[int, _Epoch] = {}
    for event in sorted(events, key=lambda event: (event.ts_ns, event.node)):
        number, at_ns = int(event.leader_epoch or 0), event.ts_ns - start_wall_ns
        if event.kind is EventKind.LEADERSHIP_DECIDED:
            decided.setdefault(number, at_ns)
        elif event.kind is EventKind.BECAME_LEADER and number not in led:
            led[number] = _Epoch(number, event.node, at_ns)
    epochs = [led[number] for number in sorted(led)]
    for place, epoch in enumerate(epochs):
        epoch.decided_ns = decided.get(epoch.leader_epoch)
        epoch.next_ns = epochs[place + 1].elected_ns if place + 1 < len(epochs) else None
    return epochs


def _times_of_whole_isr(events: Iterable[TraceEvent], start_wall_ns: int) -> list[int]:
    """Return when a leader told the largest ISR that the partition had, ascending."""
    sizes = [
        (event.ts_ns - start_wall_ns, len(isr))
        for event in events
        if event.kind in (EventKind.BECAME_LEADER, EventKind.ISR_CHANGED)
        and isinstance(isr := event.detail.get("isr"), list)
    ]
    most = max((size for _, size in sizes), default=0)
    return sorted(at_ns for at_ns, size in sizes if size == most)


def _phases(
    at: TopicPartition,
    epoch: _Epoch,
    acks: Sequence[int],
    whole: Sequence[int],
    faults: Sequence[FaultSpan],
) -> FailoverPhases:
    before = [fault for fault in faults if fault.begin_ns <= epoch.elected_ns]
    fault = max(before, key=lambda fault: fault.begin_ns, default=None)
    decided_ns = epoch.decided_ns
    fault_ns = None if fault is None else fault.begin_ns
    if fault_ns is not None and decided_ns is not None and decided_ns < fault_ns:
        fault_ns = None  # the controller did not detect a fault that came after its decision
    return FailoverPhases(
        at,
        epoch.leader_epoch,
        epoch.leader,
        "" if fault is None else fault.deed,
        epoch.elected_ns / 1e9,
        detect_ms=_ms(fault_ns, decided_ns),
        elect_ms=_ms(decided_ns, epoch.elected_ns),
        first_ack_ms=_ms(epoch.elected_ns, epoch.first_of(acks)),
        isr_whole_ms=_ms(epoch.elected_ns, epoch.first_of(whole)),
    )


def _ms(begin_ns: int | None, end_ns: int | None) -> float | None:
    return None if begin_ns is None or end_ns is None else (end_ns - begin_ns) / _MS
