"""What each replica of a partition has at which offsets, and of which leader epoch. No I/O.

From its log at the run's end, or from what its broker told of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from highwater_checker.looks import Look, replicas_of
from highwater_checker.segment_diff import compare_logs
from highwater_checker.segments import Batch, ReplicaLog
from highwater_core.ids import TopicPartition
from highwater_core.messages import ReplicaSnapshot


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets in [start_offset, end_offset) of one leader epoch; None where it is not known."""

    start_offset: int
    end_offset: int
    epoch: int | None


@dataclass(frozen=True, slots=True)
class ReplicaOffsets:
    """A replica's offsets. told_ns: when its broker reported them; None for a log after the run."""

    broker: int
    stretches: tuple[Stretch, ...]
    high_watermark: int
    told_ns: int | None = None

    @property
    def start_offset(self) -> int:
        return self.stretches[0].start_offset if self.stretches else 0

    @property
    def end_offset(self) -> int:
        return self.stretches[-1].end_offset if self.stretches else 0


@dataclass(frozen=True, slots=True)
class Compared:
    """Replicas by broker, and the ranges [start, end) at which they do not have the same."""

    replicas: tuple[ReplicaOffsets, ...]
    differing: tuple[tuple[int, int], ...]


def of_logs(logs: Sequence[ReplicaLog]) -> Compared:
    """Return what the logs have, compared record by record."""
    replicas = tuple(
        ReplicaOffsets(log.broker_id, tuple(_of_batches(log.batches)), log.high_watermark)
        for log in logs
    )
    ranges = compare_logs([log.batches for log in logs]).ranges if len(logs) > 1 else ()
    return Compared(replicas, tuple((each.start_offset, each.end_offset) for each in ranges))


def _of_batches(batches: Iterable[Batch]) -> Iterator[Stretch]:
    """Yield the stretches of batches in a row with one epoch; a compacted log may have gaps."""
    begun: Stretch | None = None
    for batch in batches:
        if begun is not None and (begun.end_offset, begun.epoch) == (
            batch.base_offset,
            batch.leader_epoch,
        ):
            begun = Stretch(begun.start_offset, batch.next_offset, begun.epoch)
            continue
        if begun is not None:
            yield begun
        begun = Stretch(batch.base_offset, batch.next_offset, batch.leader_epoch)
    if begun is not None:
        yield begun


def as_told(looks: Iterable[Look], at: TopicPartition, until_ns: int) -> Compared:
    """Return the last report of each broker on its replica, up to that time, compared by epochs."""
    last: dict[int, tuple[int, ReplicaSnapshot]] = {}
    for look in looks:
        if look.time_ns > until_ns:
            break
        last |= {
            broker: (look.time_ns, replica) for broker, replica in replicas_of(look, at).items()
        }
    replicas = tuple(
        ReplicaOffsets(broker, tuple(_of_snapshot(each)), int(each.high_watermark), told_ns)
        for broker, (told_ns, each) in sorted(last.items())
    )
    return Compared(replicas, tuple(_unlike(replicas)))


def _of_snapshot(replica: ReplicaSnapshot) -> Iterator[Stretch]:
    start, end = int(replica.log_start_offset), int(replica.log_end_offset)
    begins = sorted(
        (max(start, int(first)), int(epoch)) for epoch, first in replica.epoch_cache if first < end
    )
    known_from = begins[0][0] if begins else end
    if start < known_from:
        yield Stretch(start, known_from, None)
    for (first, epoch), (later, _) in pairwise([*begins, (end, -1)]):
        if first < later:
            yield Stretch(first, later, epoch)


def _unlike(replicas: Sequence[ReplicaOffsets]) -> Iterator[tuple[int, int]]:
    """Yield the ranges at which replicas have records of different epochs, or some have none."""
    borders = sorted(
        {
            offset
            for replica in replicas
            for each in replica.stretches
            for offset in (each.start_offset, each.end_offset)
        }
    )
    begun: int | None = None
    for start in borders[:-1]:
        if len({_epoch_at(replica, start) for replica in replicas}) > 1:
            begun = start if begun is None else begun
        elif begun is not None:
            yield begun, start
            begun = None
    if begun is not None:
        yield begun, borders[-1]


def _epoch_at(replica: ReplicaOffsets, offset: int) -> tuple[bool, int | None]:
    """Return whether the replica has a record there, and of which epoch."""
    for each in replica.stretches:
        if each.start_offset <= offset < each.end_offset:
            return True, each.epoch
    return False, None
