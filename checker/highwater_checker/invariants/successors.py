"""I1: no leader acknowledges a record that its successor's log does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from highwater_checker.contents import one_of_each_partition
from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.history import Acknowledged
from highwater_checker.lives import Life, Lives
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

Events = Mapping[Life, Sequence[TraceEvent]]


def check_successors(
    acknowledged: Iterable[Acknowledged],
    replicas: Iterable[ReplicaLog],
    events: Sequence[TraceEvent],
) -> CheckResult:
    """Find acks=all records that a later leader's log did not reach when its epoch began.

    A record's epoch is that of its batch in the final log. For a record that is not there, it is
    the epoch of the only leader that traced an append at its offset and whose record is not there.
    If several did, only acknowledged_records.py reports the loss. An unclean election or a lost
    disk violates this too. Each life of a topic is checked by itself; a life that is over has no
    final log. Deleted topics without ids are left out.
    Source: docs/reference/invariants.md, I1 and I4.
    """
    lives = Lives(events)
    begun = _of_kind(events, EventKind.BECAME_LEADER, lives)
    appended = _of_kind(events, EventKind.LOG_APPENDED, lives)
    contents = {
        TopicPartition(log.topic, log.partition): _epochs_and_values(log)
        for log in one_of_each_partition(replicas)
    }
    findings: list[Finding] = []
    examined = 0
    for ack in acknowledged:
        at = TopicPartition(ack.topic, ack.partition)
        life = at, ack.life.life
        if at not in contents or life not in begun:
            continue
        examined += 1
        held = {} if ack.life.is_over else contents[at]
        epoch, value = held.get(ack.offset, (None, ""))
        if value != ack.value:
            epoch = _epoch_of_the_lost(appended.get(life, ()), ack.offset, epoch)
        lacking = None if epoch is None else _first_lacking(begun[life], epoch, ack.offset)
        if lacking is not None:
            findings.append(_finding(ack, epoch, appended.get(life, ()), lacking))
    return CheckResult(
        "no leader lacks what older ones acknowledged (I1)", examined, tuple(findings)
    )


def _of_kind(events: Sequence[TraceEvent], kind: EventKind, lives: Lives) -> Events:
    """Return each life's events of the kind, by leader epoch."""
    found: dict[Life, list[TraceEvent]] = {}
    for event in events:
        life = lives.of_event(event)
        if event.kind is kind and life is not None:
            found.setdefault(life, []).append(event)
    return {life: sorted(own, key=_epoch) for life, own in found.items()}


def _epochs_and_values(log: ReplicaLog) -> dict[int, tuple[int | None, str]]:
    return {
        offset: (batch.leader_epoch, (value or b"").decode("utf-8", "replace"))
        for batch in log.batches
        for offset, _, value in batch.records()
    }


def _epoch_of_the_lost(
    appended: Iterable[TraceEvent], offset: int, epoch_now: int | None
) -> int | None:
    epochs = {_epoch(event) for event in _at(appended, offset)} - {epoch_now}
    return epochs.pop() if len(epochs) == 1 else None


def _first_lacking(begun: Iterable[TraceEvent], epoch: int, offset: int) -> TraceEvent | None:
    later = (event for event in begun if _epoch(event) > epoch)
    return next((e for e in later if e.offset is not None and e.offset <= offset), None)


def _at(appended: Iterable[TraceEvent], offset: int) -> Iterator[TraceEvent]:
    for event in appended:
        end_offset = int(event.detail["end_offset"])
        if event.offset is not None and event.offset <= offset < end_offset:
            yield event


def _finding(
    ack: Acknowledged, epoch: int | None, appended: Iterable[TraceEvent], lacking: TraceEvent
) -> Finding:
    appends = tuple(_at(appended, ack.offset))
    message = Wording.SUCCESSOR_LACKS.filled(
        value=ack.value,
        epoch=epoch,
        appends=[(each.node, _epoch(each)) for each in appends],
        broker=lacking.node,
        began=_epoch(lacking),
        end_offset=lacking.offset,
    )
    return Finding(
        "I1",
        message,
        ack.topic,
        ack.partition,
        ack.offset,
        lacking.node,
        ack.operation,
        traced=tuple(map(Traced.of, (*appends, lacking))),
    )


def _epoch(event: TraceEvent) -> int:
    return -1 if event.leader_epoch is None else event.leader_epoch
