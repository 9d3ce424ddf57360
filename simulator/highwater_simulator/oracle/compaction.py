"""I19: compaction keeps the newest committed record of each key, and what it keeps as it was.

In a compacted topic a batch on a disk may stand for committed batches that have lost records: for
one of the same offsets, or without any record for several. The oracle goes on as if the committed
ones were there, once it has seen that each record that is missing was succeeded by a committed one
of its key. It reads records by the checker's codec, not by node code.
Source: docs/explanation/replication.md, "Compaction".
"""

from __future__ import annotations

from highwater_checker.segments import Batch as StoredBatch
from highwater_checker.segments import UnreadableRecords
from highwater_simulator.oracle.batches import Batch, Chain

Content = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value by offset."""


class CommittedRecords:
    """The records that were committed in one partition of a compacted topic."""

    def __init__(self) -> None:
        self._records: Content = {}
        self._newest: dict[bytes, int] = {}

    def add(self, batch: Batch, data: bytes) -> None:
        """Take a batch as committed."""
        for offset, (key, value) in _content(batch, data).items():
            self._records[offset] = key, value
            if key is not None:
                self._newest[key] = max(offset, self._newest.get(key, -1))

    def forget_beyond(self, end_offset: int) -> None:
        """Forget the records from the offset on: their loss was excused."""
        kept = {at: record for at, record in self._records.items() if at < end_offset}
        self._records, self._newest = kept, {}
        for offset, (key, _) in kept.items():
            if key is not None:
                self._newest[key] = offset

    def what_is_wrong(self, batch: Batch, data: bytes) -> tuple[int, str] | None:
        """Return the first offset at which the batch is no compaction of committed ones, and why.

        None: it is one.
        """
        try:
            held = _content(batch, data)
        except UnreadableRecords as error:
            return batch.base_offset, str(error)
        for offset in range(batch.base_offset, batch.next_offset):
            committed, found = self._records.get(offset), held.get(offset)
            if found == committed:
                continue
            if found is not None or committed is None:
                return offset, f"{found} where {committed} was committed"
            key = committed[0]
            if key is None or self._newest[key] <= offset:
                return offset, f"{committed} is gone, and is the newest committed of its key"
        return None


def originals_of(batch: Batch, committed: Chain) -> list[Batch]:
    """Return the committed batches that a batch on a disk stands for; none where it cannot.

    They have its offsets and its epoch, as a whole.
    """
    if batch.next_offset > committed.end_offset:
        return []
    found: list[Batch] = []
    next_offset = batch.base_offset
    while next_offset < batch.next_offset:
        original = committed.at(next_offset)
        if original is None or original.leader_epoch != batch.leader_epoch:
            return []
        if not found and original.base_offset < batch.base_offset:
            return []
        found.append(original)
        next_offset = original.next_offset
    return found if next_offset == batch.next_offset else []


def _content(batch: Batch, data: bytes) -> Content:
    stored = StoredBatch(batch.base_offset, batch.next_offset, batch.leader_epoch, data)
    return {offset: (key, value) for offset, key, value in stored.records()}
