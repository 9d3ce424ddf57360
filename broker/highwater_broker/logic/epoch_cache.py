"""The start of each leader epoch in a log, as far as known; pure values.

Source: KIP-101, KIP-279, KAFKA-7415; docs/explanation/replication.md, "Truncation".
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from highwater_core.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset


class EpochStart(NamedTuple):
    """The first offset that a leader wrote, or could have written, in its epoch."""

    leader_epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The end of an epoch: the start of the next one, or the log's end."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


UNDEFINED_END = EpochEnd(NO_EPOCH, NO_OFFSET)


@dataclass(frozen=True, slots=True)
class EpochCache:
    """The epochs of one log; every change returns a new cache, or the same when nothing changes.

    Invariant: strictly increasing in epoch and in start offset (I10).
    """

    entries: tuple[EpochStart, ...] = ()

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The last entry's epoch, NO_EPOCH when there is none."""
        return self.entries[-1].leader_epoch if self.entries else NO_EPOCH

    def assign(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> EpochCache:
        """Return the cache in which the epoch begins at start_offset.

        The latest epoch keeps its earlier start. Entries that are not strictly below the new one
        are dropped: their records are gone, or (truncation to the high watermark only) they
        contradict the leader's.
        """
        if self.entries:
            latest = self.entries[-1]
            if latest.leader_epoch == leader_epoch and latest.start_offset <= start_offset:
                return self
        kept = len(self.entries)
        while kept and (
            self.entries[kept - 1].leader_epoch >= leader_epoch
            or self.entries[kept - 1].start_offset >= start_offset
        ):
            kept -= 1
        return EpochCache((*self.entries[:kept], EpochStart(leader_epoch, start_offset)))

    def end_offset_for(self, leader_epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd:
        """Return the largest known epoch that is not above the requested one, and its end.

        UNDEFINED_END when the requested epoch is above all known ones, or NO_EPOCH. Below the first
        entry the requested epoch itself is returned, with the first entry's start (KAFKA-7415).
        """
        if leader_epoch == NO_EPOCH or not self.entries:
            return UNDEFINED_END
        if leader_epoch == self.latest_epoch:
            return EpochEnd(leader_epoch, log_end_offset)
        next_larger = bisect_right(self.entries, leader_epoch, key=_epoch_of)
        if next_larger == len(self.entries):
            return UNDEFINED_END
        end_offset = self.entries[next_larger].start_offset
        if next_larger == 0:
            return EpochEnd(leader_epoch, end_offset)
        return EpochEnd(self.entries[next_larger - 1].leader_epoch, end_offset)

    def epoch_of_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch of the record at the offset, NO_EPOCH below the first."""
        index = bisect_right(self.entries, offset, key=_start_of)
        return self.entries[index - 1].leader_epoch if index else NO_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> EpochCache:
        """Return the cache without the entries that begin at end_offset or later."""
        if not self.entries or self.entries[-1].start_offset < end_offset:
            return self
        return EpochCache(tuple(e for e in self.entries if e.start_offset < end_offset))

    def truncate_from_start(self, start_offset: Offset) -> EpochCache:
        """Return the cache of a log that now begins at start_offset.

        The epoch of start_offset stays, beginning there.
        """
        if not self.entries or self.entries[0].start_offset >= start_offset:
            return self
        later = tuple(e for e in self.entries if e.start_offset > start_offset)
        holding = self.entries[len(self.entries) - len(later) - 1]
        return EpochCache((EpochStart(holding.leader_epoch, start_offset), *later))


def _epoch_of(entry: EpochStart) -> LeaderEpoch:
    return entry.leader_epoch


def _start_of(entry: EpochStart) -> Offset:
    return entry.start_offset
