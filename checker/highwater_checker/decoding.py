"""Decodes a run's batches once, although every replica has them and every check reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from highwater_checker.segments import Batch, Record, records_by_batch

KEPT_MAX_BYTES = 512 * 1024 * 1024
"""About how much memory the decoded records of a run take; those beyond are decoded each time."""
_RECORD_BYTES = 170
"""What a kept record takes beside its key and value: a tuple, its offset and two bytes objects."""


class Decoding:
    """Finds equal batches of one partition's replicas, and keeps the records of each."""

    def __init__(self, kept_max_bytes: int = KEPT_MAX_BYTES) -> None:
        self._left_bytes = kept_max_bytes
        self._known: dict[bytes, Batch] = {}

    def begin_partition(self) -> None:
        """Forget the batches so far: other partitions have other ones."""
        self._known = {}

    def decoded(self, batches: Iterable[Batch], *, is_compacted: bool) -> tuple[Batch, ...]:
        """Return a log's batches, where there was an equal one, that one.

        Raises:
            UnreadableRecords: see records_in.
        """
        shared = (self._known.get(batch.data, batch) for batch in batches)
        return tuple(
            self._keep(batch, records)
            for batch, records in records_by_batch(shared, is_compacted=is_compacted)
        )

    def _keep(self, batch: Batch, records: Iterator[Record]) -> Batch:
        """Read all records, since one may be damaged, and keep them while there is room."""
        if batch.data in self._known:
            if batch.is_compressed:
                deque(records, maxlen=0)  # each log has its own bound
            return batch
        kept: list[Record] = []
        for record in records:
            self._left_bytes -= kept_bytes(record)
            if self._left_bytes >= 0:
                kept.append(record)
        decoded = tuple(kept) if self._left_bytes >= 0 else None
        return self._known.setdefault(batch.data, replace(batch, decoded=decoded))


def kept_bytes(record: Record) -> int:
    """Return about how much memory a kept record takes."""
    _, key, value = record
    return _RECORD_BYTES + len(key or b"") + len(value or b"")
