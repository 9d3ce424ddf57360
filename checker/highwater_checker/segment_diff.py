"""The offsets at which replicas' logs differ, in ranges; no I/O.

Batches that all logs have byte by byte are not decoded. Of the others each record is compared with
its leader epoch: logs of which only the batches' borders differ are told apart from logs of other
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from highwater_checker.segment_dump import DumpedRecord, records_of
from highwater_checker.segments import Batch, UnreadableRecords


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """A record as one log has it. unreadable: why it cannot be decoded, "" of one that is."""

    leader_epoch: int
    record: DumpedRecord
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class DifferingRange:
    """Offsets in [start_offset, end_offset) at which the same logs have the same, and others not.

    held: each log's record at start_offset, in the order of the logs; None without one there.
    """

    start_offset: int
    end_offset: int
    held: tuple[HeldRecord | None, ...]

    @property
    def is_of_presence_alone(self) -> bool:
        """Whether the logs that have a record at start_offset have the same one."""
        return len(set(self.held) - {None}) == 1


@dataclass(frozen=True, slots=True)
class LogsCompared:
    """Ranges ascend. are_equal: byte by byte, batch by batch."""

    ranges: tuple[DifferingRange, ...]
    are_equal: bool


def compare_logs(logs: Sequence[Sequence[Batch]]) -> LogsCompared:
    """Return where the logs differ; offsets at which none has a record are not told."""
    common = set.intersection(*({(b.base_offset, b.data) for b in log} for log in logs))
    unlike = [[b for b in log if (b.base_offset, b.data) not in common] for log in logs]
    if not any(unlike):
        return LogsCompared((), are_equal=True)
    held = [_held(batches) for batches in unlike]
    return LogsCompared(tuple(_ranges(held)), are_equal=False)


def _held(batches: Iterable[Batch]) -> dict[int, HeldRecord]:
    found: dict[int, HeldRecord] = {}
    for batch in batches:
        try:
            own = [HeldRecord(batch.leader_epoch, record) for record in records_of(batch)]
        except UnreadableRecords as why:
            own = [_unreadable(batch, str(why))]
        found.update((each.record.offset, each) for each in own)
    return found


def _unreadable(batch: Batch, why: str) -> HeldRecord:
    """Return one record at the batch's first offset, which equals that of equal bytes alone."""
    record = DumpedRecord(batch.base_offset, timestamp_ms=-1, key=None, value=batch.data)
    return HeldRecord(batch.leader_epoch, record, why)


def _ranges(held: Sequence[dict[int, HeldRecord]]) -> Iterable[DifferingRange]:
    begun: DifferingRange | None = None
    pattern: tuple[int, ...] = ()
    for offset in sorted(set(chain.from_iterable(held))):
        here = tuple(log.get(offset) for log in held)
        if len(set(here)) == 1:  # the same record, in a batch of other borders
            continue
        own = (*_pattern(here), *(-1 if each is None else each.leader_epoch for each in here))
        if begun is not None and (begun.end_offset, pattern) == (offset, own):
            begun = DifferingRange(begun.start_offset, offset + 1, begun.held)
            continue
        if begun is not None:
            yield begun
        begun, pattern = DifferingRange(offset, offset + 1, here), own
    if begun is not None:
        yield begun


def _pattern(here: Sequence[HeldRecord | None]) -> tuple[int, ...]:
    """Return for each log the first one that has the same: (0, 0, 2) where the third differs."""
    return tuple(here.index(each) for each in here)
