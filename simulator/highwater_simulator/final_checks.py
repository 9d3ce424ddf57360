"""What a run's end must show, by the bytes on the disks and by what clients were told.

Names of anomalies are those of replication.md, "Histories".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.history import HistoryEvent, OperationType
from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.batches import Batch, is_sound, parse_batches
from highwater_simulator.oracle.losses import Excuse
from highwater_simulator.oracle.shadow import LOG_SUFFIX
from highwater_simulator.world import World
from highwater_wire.kafka.record_batch import decode_records


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong at the end, by invariant or anomaly."""

    invariant: str
    message: str
    topic_partition: TopicPartition
    offset: int = -1


@dataclass(frozen=True, slots=True)
class SentBy:
    """A producer's history, its acks, and whether its records may be there twice."""

    history: Sequence[HistoryEvent]
    acks: int
    repeats: bool = True


@dataclass(frozen=True, slots=True)
class ReadBy:
    """The history of a consumer that read all partitions of a topic from their start.

    to_the_end: it lived to read them whole.
    """

    history: Sequence[HistoryEvent]
    topic: str
    to_the_end: bool = True


@dataclass(frozen=True, slots=True)
class Log:
    """What a partition's replicas hold: values by offset, from start_offset on."""

    start_offset: int
    values: Mapping[int, str]

    def at(self, offset: int, expected: str) -> str:
        """Return the value there; what retention may have taken is as expected."""
        return expected if offset < self.start_offset else self.values.get(offset, _NOTHING)


Logs = Mapping[TopicPartition, Log]
_NOTHING = "nothing"


class LogReader:
    """Reads logs from disks; a batch that several replicas hold is decoded once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._values: dict[bytes, tuple[tuple[int, str], ...]] = {}

    def read(self, broker: int, at: TopicPartition) -> tuple[list[tuple[int, str]], Problem | None]:
        """Return (offset, value) of each record in order, and what was unreadable."""
        values: list[tuple[int, str]] = []
        for path, content in self._segments(broker, at):
            end = 0
            for batch in parse_batches(content, 0):
                if not is_sound(content, batch):
                    break
                values.extend(self._decode(content, batch))
                end = batch.position + batch.size_bytes
            if end != len(content):
                what = f"broker {broker}: {path} is damaged from byte {end} on"
                return values, Problem("I3", what, at, values[-1][0] + 1 if values else 0)
        return values, None

    def start_offset(self, broker: int, at: TopicPartition) -> int:
        """Return where the replica's first segment begins."""
        paths = [path for path, _ in self._segments(broker, at)]
        return int(paths[0].rpartition("/")[2].removesuffix(LOG_SUFFIX)) if paths else 0

    def _segments(self, broker: int, at: TopicPartition) -> list[tuple[str, bytes]]:
        disk = self._world.brokers[broker].disk
        paths = [path for path in disk.paths(str(at)) if path.endswith(LOG_SUFFIX)]
        return [(path, bytes(disk.content(path) or b"")) for path in paths]

    def _decode(self, content: bytes, batch: Batch) -> tuple[tuple[int, str], ...]:
        data = content[batch.position : batch.position + batch.size_bytes]
        if data not in self._values:
            self._values[data] = tuple(
                (record.offset, (record.value or b"").decode()) for record in decode_records(data)
            )
        return self._values[data]


def check_end(
    world: World,
    isr_by_partition: Mapping[TopicPartition, Sequence[int]],
    high_watermarks: Mapping[TopicPartition, int],
    senders: Iterable[SentBy],
    readers: Iterable[ReadBy],
    excuses: Sequence[Excuse],
    *,
    retention: bool = False,
) -> Iterator[Problem]:
    """Yield what is wrong with each partition's log and with what clients were told of it.

    retention: old segments may be gone; then nothing is asked of what lies before the last of the
    replicas' first segments.
    """
    reader = LogReader(world)
    logs: dict[TopicPartition, Log] = {}
    for at, isr in isr_by_partition.items():
        found = {broker: reader.read(broker, at) for broker in isr}
        starts = [reader.start_offset(broker, at) for broker in isr] if retention else []
        start_offset = max(starts, default=0)
        kept: list[list[tuple[int, str]]] = []
        for broker, (values, damage) in found.items():
            if damage is not None:
                yield damage
            kept.append([each for each in values if each[0] >= start_offset])
            if kept[-1] != kept[0]:
                yield Problem("I3", f"brokers {isr[0]} and {broker} hold different logs", at)
        logs[at] = Log(start_offset, dict(kept[0]))
    for sender in senders:
        yield from _check_sender(sender, logs, excuses)
    for reader_history in readers:
        yield from _check_reader(reader_history, logs, excuses, high_watermarks)


def _check_sender(sender: SentBy, logs: Logs, excuses: Sequence[Excuse]) -> Iterator[Problem]:
    places: dict[TopicPartition, dict[str, list[int]]] = {at: {} for at in logs}
    for at, log in logs.items():
        for offset, value in log.values.items():
            places[at].setdefault(value, []).append(offset)
    lost = [excuse.topic_partition for excuse in excuses]
    acknowledged_up_to: dict[TopicPartition, int] = {}
    beyond: dict[int, int] = {}
    invoked_ns: dict[int, int] = {}
    for event in sender.history:
        at = TopicPartition(event.topic, event.partition)
        if event.function != "send" or at not in logs:
            continue
        offsets = places[at].get(event.value, [])
        if event.type is OperationType.INVOKE:
            invoked_ns[event.operation_id] = event.time_ns
            beyond[event.operation_id] = acknowledged_up_to.get(at, -1)
            if len(offsets) > 1 and not sender.repeats:
                yield Problem("duplicate", f"{event.value} is at {offsets}", at, offsets[1])
        if event.type is OperationType.FAIL and offsets:
            yield Problem("aborted-read", f"{event.value} failed, and is there", at, offsets[0])
        if event.type is not OperationType.OK:
            continue
        if sender.acks == -1 and at not in lost:
            floor = beyond.get(event.operation_id, -1)
            if event.offset <= floor:
                what = f"{event.value}, sent after offset {floor} was acknowledged, lies before it"
                yield Problem("realtime-send", what, at, event.offset)
            acknowledged_up_to[at] = max(event.offset, acknowledged_up_to.get(at, -1))
        found = logs[at].at(event.offset, event.value)
        if sender.acks == -1 and found != event.value:
            # By when it was written: what was begun after a loss is not excused by it.
            written_ns = invoked_ns.get(event.operation_id, event.time_ns)
            if not any(excuse.covers(at, event.offset, written_ns) for excuse in excuses):
                what = f"acknowledged {event.value[:40]} is lost: {found[:40]}"
                yield Problem("I1", what, at, event.offset)


def _check_reader(
    reader: ReadBy,
    logs: Logs,
    excuses: Sequence[Excuse],
    high_watermarks: Mapping[TopicPartition, int],
) -> Iterator[Problem]:
    """I9: what was read is still there; I1: everything was read that is there."""
    read: dict[TopicPartition, set[int]] = {at: set() for at in logs if at.topic == reader.topic}
    for event in reader.history:
        at = TopicPartition(event.topic, event.partition)
        if event.function != "poll" or event.type is not OperationType.OK or at not in read:
            continue
        read[at].add(event.offset)
        found = logs[at].at(event.offset, event.value)
        if found != event.value and not any(
            excuse.covers(at, event.offset, event.time_ns) for excuse in excuses
        ):
            what = f"{event.value[:40]} was read; there is now {found[:40]}"
            yield Problem("I9", what, at, event.offset)
    for at, offsets in read.items() if reader.to_the_end else ():
        end_offset = high_watermarks.get(at, 0)
        # A reader that was beyond what was lost does not come back to what took its place.
        lost_from = min((each.start_offset for each in excuses if each.topic_partition == at),
                        default=end_offset)  # fmt: skip
        unread = [
            offset for offset in logs[at].values if offset < min(end_offset, lost_from)
            and offset not in offsets
        ]  # fmt: skip
        if unread:
            yield Problem("unseen", f"{len(unread)} records were never read", at, unread[0])
