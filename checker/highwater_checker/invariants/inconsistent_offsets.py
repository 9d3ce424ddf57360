"""Inconsistent offsets: no two clients get different records for one offset.

Source: docs/reference/invariants.md, inconsistent-offsets; I9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import POLL, Acknowledged, HistoryEvent, OperationType
from highwater_checker.lives_of_records import ONLY, UNKNOWN_LIFE, LifeOfRecord
from highwater_checker.wording import Wording
from highwater_core.ids import TopicId

Place = tuple[str, int, int]
"""Topic, partition, offset."""
PlaceInLife = tuple[Place, TopicId]
"""With its life: offsets of a topic that is created again begin anew."""


def check_inconsistent_offsets(
    acknowledged: Iterable[Acknowledged],
    reads: Iterable[HistoryEvent],
    life_of_read: Callable[[HistoryEvent], LifeOfRecord] = lambda _: ONLY,
) -> CheckResult:
    """Find offsets for which two clients, or one twice, got different values.

    acknowledged: of producers with acks=all; records of other producers may be lost after their
    acknowledgement.
    reads: of any consumers.
    life_of_read: the life of its topic in which a record was written. Each life is looked at by
    itself; sends and reads of unknown lives are left out.

    Unlike a comparison with the logs at the end, this also finds records that retention removed,
    and changes that were reversed.
    """
    told: dict[PlaceInLife, tuple[str, str]] = {}
    findings: list[Finding] = []
    for place, value, operation in (
        *_of_sends(acknowledged),
        *_of_reads(reads, life_of_read),
    ):
        first_value, first = told.setdefault(place, (value, operation))
        if first_value != value:
            what = Wording.TOLD_OTHERWISE.filled(value=value, first=first, first_value=first_value)
            findings.append(Finding("inconsistent-offsets", what, *place[0], operation=operation))
    return CheckResult("one offset is one record to everyone", len(told), tuple(findings))


def _of_sends(acknowledged: Iterable[Acknowledged]) -> Iterator[tuple[PlaceInLife, str, str]]:
    for ack in acknowledged:
        if ack.life.life != UNKNOWN_LIFE:
            place = ack.topic, ack.partition, ack.offset
            yield (place, ack.life.life), ack.value, ack.operation


def _of_reads(
    reads: Iterable[HistoryEvent], life_of: Callable[[HistoryEvent], LifeOfRecord]
) -> Iterator[tuple[PlaceInLife, str, str]]:
    for event in reads:
        if event.function == POLL and event.type is OperationType.OK:
            place, life = (event.topic, event.partition, event.offset), life_of(event).life
            if life != UNKNOWN_LIFE:
                yield (place, life), event.value, event.operation
