"""The checker's checks of logs and histories at a schedule's end, with no run folder written.

The judge, which reads a run's folder, cannot see:
- how far a loss by disks goes, and when it was: it excuses all records from the first lost one on;
- that the logs of ISR members are equal beyond the high watermark, once nobody writes;
- the committed end of a partition without a leader, which the oracle knows.
A search has no folders: with one for each schedule, and its verdict, a schedule takes half as long
again. tests/simulation/test_judge_beside_the_oracle.py compares both on a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from highwater_checker import leaders_logs
from highwater_checker.finding import Finding
from highwater_checker.history import Acknowledged, HistoryEvent, Sends, nobody, sends_of
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.deliveries import check_deliveries
from highwater_checker.invariants.duplicates import check_duplicates
from highwater_checker.invariants.generations import has_members
from highwater_checker.invariants.going_on import check_going_on
from highwater_checker.invariants.order import check_order
from highwater_checker.invariants.reads import check_reads
from highwater_checker.invariants.replica_equality import check_replica_equality
from highwater_checker.leaders_logs import LeadersLogs
from highwater_checker.lives import TELLING_DELETIONS, deleted_topics
from highwater_checker.lives_of_records import TELLING, LivesOfRecords
from highwater_checker.segments import DamagedLog, ReplicaLog
from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.losses import Excuse
from highwater_simulator.replicas_on_disk import read_replica
from highwater_simulator.trace_log import TraceLog
from highwater_simulator.world import World


@dataclass(frozen=True, slots=True)
class SentBy:
    """A producer's history, its acks, and whether it was idempotent."""

    history: Sequence[HistoryEvent]
    acks: int
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True)
class ReadBy:
    """The history of a consumer that read all partitions of a topic from their start.

    to_the_end: it lived until it had read all records.
    """

    history: Sequence[HistoryEvent]
    topic: str
    to_the_end: bool = True


ONE_LIFE = LivesOfRecords((), None)
"""Of topics none of which was deleted."""
Logs = Mapping[TopicPartition, ReplicaLog]
"""One log of each partition: the replicas of its ISR have equal logs."""


def check_end(
    world: World,
    isr_by_partition: Mapping[TopicPartition, Sequence[int]],
    high_watermarks: Mapping[TopicPartition, int],
    senders: Iterable[SentBy],
    readers: Iterable[ReadBy],
    excuses: Sequence[Excuse],
    *,
    committed_ends: Mapping[TopicPartition, int] | None = None,
    lives: LivesOfRecords = ONE_LIFE,
    retention: bool = False,
    leaders: Callable[[], LeadersLogs] | None = None,
) -> Iterator[Finding]:
    """Yield the violations in each partition's log and in the clients' histories of it.

    high_watermarks: of the partitions with a leader; consumers can read them to the end.
    committed_ends: committed end offsets of the other partitions; compaction may remove records
    below.
    lives: of the topics that were deleted; the logs need not have the records of a life that is
    over.
    retention: old segments may be gone; then offsets below the highest first segment of the
    replicas are not checked.
    leaders: their logs; None where nobody asks whether consumers go on where they were.
    """
    logs: dict[TopicPartition, ReplicaLog] = {}
    for at, isr in isr_by_partition.items():
        replicas: list[ReplicaLog] = []
        for broker in isr:
            try:
                replicas.append(read_replica(world, broker, at, retention=retention))
            except DamagedLog as damage:
                if not world.brokers[broker].is_running:
                    continue  # its next start would cut what a crash or a flipped bit damaged
                yield Finding("I3", str(damage), at.topic, at.partition, broker=broker)
        if replicas:
            start_offset = max(log.log_start_offset for log in replicas)
            yield from _differences(replicas, start_offset)
            # A reader beyond the lost records does not read the records that took their offsets.
            lost_from = [each.start_offset for each in excuses if each.topic_partition == at]
            committed_end = (committed_ends or {}).get(at, 0)
            end_offset = min([high_watermarks.get(at, committed_end), *lost_from])
            logs[at] = replace(
                replicas[0], high_watermark=end_offset, log_start_offset=start_offset
            )
    sent = list(senders)
    for sender in sent:
        yield from _check_sender(sender, logs, excuses, lives)
    promised = _promised(sent, logs, excuses, lives)
    yield from _check_order(sent, promised)
    lasting = [ack for ack in promised if not ack.life.is_over]
    read = list(readers)
    if leaders is not None:
        yield from _check_going_on(read, leaders, excuses)
    for reader in read:
        yield from _check_reader(reader, logs, excuses, high_watermarks, lives)
        if has_members(reader.history):
            yield from check_deliveries(reader.history, lasting, logs.values()).findings


def leaders_in(trace: TraceLog) -> LeadersLogs:
    """Return what the leaders' logs had, by virtual time."""
    return LeadersLogs(trace.in_virtual_time(*leaders_logs.TELLING), start_wall_ns=0)


def lives_in(trace: TraceLog, topics: Container[str]) -> LivesOfRecords:
    """Return the lives of those of the topics that were deleted, by virtual time."""
    if not any(topic in topics for topic in deleted_topics(trace.events(*TELLING_DELETIONS))):
        return ONE_LIFE
    return LivesOfRecords(trace.in_virtual_time(*TELLING), start_wall_ns=0)


def _differences(replicas: Sequence[ReplicaLog], start_offset: int) -> Iterable[Finding]:
    """Return where replicas differ from the first one, up to the longest one's end."""
    end_offset = max(log.high_watermark for log in replicas)
    whole = [
        replace(log, high_watermark=end_offset, log_start_offset=start_offset) for log in replicas
    ]
    return check_replica_equality(whole).findings


def _check_sender(
    sender: SentBy, logs: Logs, excuses: Sequence[Excuse], lives: LivesOfRecords
) -> Iterator[Finding]:
    history = [event for event in sender.history if _place(event) in logs]
    sends = sends_of(history).with_lives(lives)
    yield from check_duplicates(sends, logs.values(), lambda _: sender.is_idempotent).findings
    if sender.acks == -1:
        yield from _check_acknowledged(sends, logs, excuses)


def _promised(
    senders: Iterable[SentBy], logs: Logs, excuses: Sequence[Excuse], lives: LivesOfRecords
) -> list[Acknowledged]:
    """Return acks=all records that were acknowledged, of partitions without lost records."""
    lost = {excuse.topic_partition for excuse in excuses}
    return [
        ack
        for sender in senders
        if sender.acks == -1
        for ack in sends_of(sender.history).with_lives(lives).acknowledged
        if TopicPartition(ack.topic, ack.partition) in logs.keys() - lost
    ]


def _check_order(senders: Iterable[SentBy], promised: Sequence[Acknowledged]) -> Iterable[Finding]:
    """Return records with an offset below one that was acknowledged before their send.

    An idempotent producer's records are also in the order of their sends.
    """
    in_order = {
        event.process for sender in senders if sender.is_idempotent for event in sender.history
    }
    return check_order(promised, nobody, in_order.__contains__).findings


def _check_acknowledged(sends: Sends, logs: Logs, excuses: Sequence[Excuse]) -> Iterable[Finding]:
    """I1; the time of sending counts: a loss does not excuse records that were sent after it."""
    asked_for = [
        ack
        for ack in sends.acknowledged
        if not ack.life.is_over
        and not any(
            excuse.covers(TopicPartition(ack.topic, ack.partition), ack.offset, ack.invoked_ns)
            for excuse in excuses
        )
    ]
    return check_acknowledged_records(asked_for, logs.values()).findings


def _check_reader(
    reader: ReadBy,
    logs: Logs,
    excuses: Sequence[Excuse],
    led: Container[TopicPartition],
    lives: LivesOfRecords,
) -> Iterator[Finding]:
    """I9: records that were read are still there, and all records of led partitions were read."""
    history = [
        event
        for event in reader.history
        if not any(excuse.covers(_place(event), event.offset, event.time_ns) for excuse in excuses)
    ]
    for is_led in (True, False):
        read = [event for event in history if (_place(event) in led) is is_led]
        own = [
            log for at, log in logs.items() if at.topic == reader.topic and (at in led) is is_led
        ]
        yield from check_reads(
            read,
            own,
            lambda event: lives.of_read(_place(event), event.offset, event.time_ns),
            to_the_end=is_led and reader.to_the_end,
        ).findings


def _check_going_on(
    readers: Iterable[ReadBy], leaders: Callable[[], LeadersLogs], excuses: Sequence[Excuse]
) -> Iterator[Finding]:
    """Yield where consumers left their offsets, but for offsets above lost records."""
    histories: dict[str, list[HistoryEvent]] = {}
    for reader in readers:
        for event in reader.history:  # a group's has those of all its members
            histories.setdefault(event.process, []).append(event)
    for finding in check_going_on(histories.values(), leaders).findings:
        at = TopicPartition(finding.topic, finding.partition)
        if not any(
            each.topic_partition == at and finding.offset >= each.start_offset for each in excuses
        ):
            yield finding


def _place(event: HistoryEvent) -> TopicPartition:
    return TopicPartition(event.topic, event.partition)
