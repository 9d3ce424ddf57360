"""I19, from traces: no broker compacts its log by records that are not committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicId, TopicPartition

CHECK = "only what is committed is compacted (I19)"
_TELLS_HIGH_WATERMARK = frozenset({EventKind.HIGH_WATERMARK_ADVANCED, EventKind.BECAME_LEADER})


def check_compactions(events: Sequence[TraceEvent]) -> CheckResult:
    """Find compactions up to an offset above every high watermark that was traced before.

    acknowledged_records.py and replica_equality.py check that each key's newest record stays.
    "Before" goes by the nodes' clocks, which must be one, as in committed_before.py. Compactions
    before the partition's first traced high watermark are left out.
    Source: docs/reference/invariants.md, I19.
    """
    findings: list[Finding] = []
    examined = 0
    for own in _by_topic(events):
        highest = -1
        for event in own:
            if event.kind in _TELLS_HIGH_WATERMARK:
                highest = max(highest, _high_watermark(event))
            elif highest >= 0:
                examined += 1
                findings += _beyond(event, highest)
    return CheckResult(CHECK, examined, tuple(findings))


def _beyond(event: TraceEvent, high_watermark: int) -> Iterator[Finding]:
    end_offset = int(event.detail["dirty_end"])
    at = event.topic_partition
    if end_offset <= high_watermark or at is None:
        return
    what = Wording.COMPACTED_UNCOMMITTED.filled(
        node=event.node, offset=end_offset, high_watermark=high_watermark
    )
    yield Finding(
        "I19",
        what,
        at.topic,
        at.partition,
        end_offset,
        event.node,
        traced=(Traced.of(event),),
    )


def _high_watermark(event: TraceEvent) -> int:
    if event.kind is EventKind.BECAME_LEADER:
        return int(event.detail["high_watermark"])
    return -1 if event.offset is None else event.offset


def _by_topic(events: Iterable[TraceEvent]) -> list[list[TraceEvent]]:
    """Return each partition's events by time; at equal times, high watermarks come first."""
    found: dict[tuple[TopicPartition | None, TopicId], list[TraceEvent]] = {}
    for event in events:
        if event.kind in _TELLS_HIGH_WATERMARK or event.kind is EventKind.LOG_COMPACTED:
            found.setdefault((event.topic_partition, event.topic_id), []).append(event)
    return [
        sorted(own, key=lambda each: (each.ts_ns, each.kind is EventKind.LOG_COMPACTED))
        for own in found.values()
    ]
