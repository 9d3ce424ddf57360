"""How many tombstones of a group one append takes. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from highwater_broker.coordinator.stored import GroupRecord, OffsetForgotten

MAX_APPENDED_BYTES = 512 * 1024
"""About what one append may take: a log takes batches of a bounded size."""
RECORD_BYTES = 100
"""About what a tombstone takes besides its names."""
_BYTES_A_CHARACTER = 3
Tombstone = TypeVar("Tombstone", bound=GroupRecord)


def parted(group_id: str, tombstones: Sequence[Tombstone]) -> Iterator[Sequence[Tombstone]]:
    """Yield the tombstones, in their order, in parts that a log takes whatever the names."""
    size, begin = 0, 0
    for end, record in enumerate(tombstones, start=1):
        topic = record.topic if isinstance(record, OffsetForgotten) else ""
        size += RECORD_BYTES + _BYTES_A_CHARACTER * (len(group_id) + len(topic))
        if size >= MAX_APPENDED_BYTES or end == len(tombstones):
            yield tombstones[begin:end]
            size, begin = 0, end
