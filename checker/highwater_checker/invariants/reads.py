"""I9: records that a consumer read were committed and stay unchanged, and it read all records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from highwater_checker.compaction import Newest, is_succeeded, newest_of_keys
from highwater_checker.contents import values_by_offset
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import POLL, HistoryEvent, OperationType
from highwater_checker.lives_of_records import ONLY, UNKNOWN_LIFE, LifeOfRecord
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording
from highwater_core.ids import TopicId

CHECK = "records read are stored, and stored records are read (I9)"

Place = tuple[str, int, int]
"""Topic, partition, offset."""


def check_reads(
    history: Sequence[HistoryEvent],
    replicas: Iterable[ReplicaLog],
    life_of: Callable[[HistoryEvent], LifeOfRecord] = lambda _: ONLY,
    *,
    to_the_end: bool = True,
    of_topic: str | None = None,
) -> CheckResult:
    """Find records that one consumer read and that a replica does not have there, or the reverse.

    history: of one consumer, which has read every partition of its topic (None: of each) from its
    start, and to its end unless to_the_end is False: records that a killed consumer has not read
    are no finding. Records below a replica's log_start_offset were removed by retention and are not
    required. Records at its high watermark and above cannot have been read. Where the client
    reports the high watermark of an answer, its records must be below it. In a compacted topic a
    record may be gone, or never read, if there is a newer one of its key.
    life_of: the life of its topic in which a record was written. Records of a life that is over or
    unknown need not be there. An offset that was read in any life counts as read: a consumer may
    keep its position when its topic is made again.
    Source: docs/reference/invariants.md, I9; unseen.
    """
    reads = _reads_of(history, life_of)
    findings = list(reads.findings)
    for replica in replicas:
        newest = newest_of_keys([replica])
        read = reads.lasting.get((replica.topic, replica.partition), {})
        findings.extend(_differences(replica, read, newest))
        if to_the_end and of_topic in (None, replica.topic):
            findings.extend(_unread(replica, reads, newest))
    return CheckResult(CHECK, len(reads.places), tuple(findings))


@dataclass(slots=True)
class _Reads:
    """The records that one consumer read.

    places: of every read.
    lasting: of each partition the first read of each offset, in the life that goes on.
    findings: of reads that contradict an earlier read, or their own answer's high watermark.
    """

    places: set[Place] = field(default_factory=set)
    lasting: dict[tuple[str, int], dict[int, HistoryEvent]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def _reads_of(
    history: Iterable[HistoryEvent], life_of: Callable[[HistoryEvent], LifeOfRecord]
) -> _Reads:
    reads = _Reads()
    first_values: dict[tuple[Place, TopicId], str] = {}
    for event in history:
        if event.function != POLL or event.type is not OperationType.OK:
            continue
        place, value, life = _place(event), event.value, life_of(event)
        reads.places.add(place)
        first = first_values.setdefault((place, life.life), value)
        if first != value and life.life != UNKNOWN_LIFE:
            what = Wording.READ_TWICE.filled(first_value=first, value=value)
            reads.findings.append(_finding("I9", place, what, operation=event.operation))
        if not life.is_over:
            own = reads.lasting.setdefault((event.topic, event.partition), {})
            own.setdefault(event.offset, event)
        if 0 <= event.high_watermark <= event.offset:
            what = Wording.READ_UNCOMMITTED.filled(value=value, high_watermark=event.high_watermark)
            reads.findings.append(_finding("I9", place, what, operation=event.operation))
    return reads


def _differences(
    replica: ReplicaLog, read: dict[int, HistoryEvent], newest: Newest
) -> Iterable[Finding]:
    """Yield the records of the replica's partition that were read and are not there.

    read: the reads by offset.
    """
    held = values_by_offset(replica) if read else {}
    for offset, event in read.items():
        if offset not in held and is_succeeded(event.key.encode(), offset, newest):
            continue
        if replica.must_hold(offset) and held.get(offset) != event.value:
            what = Wording.READ_AND_GONE.filled(
                value=event.value, broker=replica.broker_id, held=held.get(offset)
            )
            yield _finding("I9", _place(event), what, replica.broker_id, event.operation)


def _unread(replica: ReplicaLog, reads: _Reads, newest: Newest) -> Iterable[Finding]:
    """Yield the committed records that were not read.

    A record with a newer one of its key may have been compacted away where the consumer read.
    """
    for batch in replica.batches:
        for offset, key, value in batch.records():
            place = replica.topic, replica.partition, offset
            is_offered = replica.log_start_offset <= offset < replica.high_watermark
            if is_offered and place not in reads.places and not is_succeeded(key, offset, newest):
                shown = (value or b"").decode("utf-8", "replace")
                what = Wording.NEVER_READ.filled(value=shown, broker=replica.broker_id)
                yield _finding("unseen", place, what, replica.broker_id)


def _place(event: HistoryEvent) -> Place:
    return event.topic, event.partition, event.offset


def _finding(
    invariant: str, place: Place, message: str, broker: int = -1, operation: str = ""
) -> Finding:
    return Finding(invariant, message, *place, broker, operation)
