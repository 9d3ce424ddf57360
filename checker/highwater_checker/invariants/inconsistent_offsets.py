"""Inconsistent offsets: no two clients are told of different records at one offset.

Source: docs/explanation/replication.md, "Histories", "inconsistent-offsets"; "Invariants", I9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged, HistoryEvent, OperationType
from highwater_checker.wording import Wording

Place = tuple[str, int, int]
"""Topic, partition, offset."""


def check_inconsistent_offsets(
    acknowledged: Iterable[Acknowledged], reads: Iterable[HistoryEvent]
) -> CheckResult:
    """Find offsets of which two clients, or one twice, were told different values.

    acknowledged: of producers with acks=all; others may be told of what is lost. reads: of any
    consumers. Unlike a comparison with the logs at the end, this also sees what retention removed
    and what changed and changed back.
    """
    told: dict[Place, tuple[str, str]] = {}
    findings: list[Finding] = []
    for place, value, operation in (*_of_sends(acknowledged), *_of_reads(reads)):
        first_value, first = told.setdefault(place, (value, operation))
        if first_value != value:
            what = Wording.TOLD_OTHERWISE.filled(value=value, first=first, first_value=first_value)
            findings.append(Finding("inconsistent-offsets", what, *place, operation=operation))
    return CheckResult("one offset is one record to everyone", len(told), tuple(findings))


def _of_sends(acknowledged: Iterable[Acknowledged]) -> Iterator[tuple[Place, str, str]]:
    for ack in acknowledged:
        yield (ack.topic, ack.partition, ack.offset), ack.value, ack.operation


def _of_reads(reads: Iterable[HistoryEvent]) -> Iterator[tuple[Place, str, str]]:
    for event in reads:
        if event.function == "poll" and event.type is OperationType.OK:
            yield (event.topic, event.partition, event.offset), event.value, event.operation
