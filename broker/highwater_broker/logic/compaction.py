"""Decides the part of a compacted log to clean, the order of logs, and which records stay; pure.

The clean part of a log was cleaned before, from its start to the first dirty offset. A pass notes
the newest offset of each key in the dirty part, as far as its map has room, then rewrites both
parts up to there: records of a key below its newest offset are removed.
Source: Kafka's LogCleanerManager.grabFilthiestCompactedLog and Cleaner.shouldRetainRecord; KIP-58
(min.compaction.lag.ms), KIP-534 (delete horizon).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol, TypeVar

from highwater_core.ids import Offset

K = TypeVar("K")
S = TypeVar("S", bound="SegmentFacts")

_HASH_BYTES = 16
"""Keys with an equal hash would count as one, and the older one's record would be lost."""


class SegmentFacts(Protocol):
    """A segment [base_offset, next_offset); max_timestamp is in ms, negative without any."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class DirtyPart:
    """What a pass may clean: [first_dirty_offset, end_offset), and all before it once more."""

    first_dirty_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes that a pass reads."""
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)


def dirty_part(
    segments: Sequence[SegmentFacts],
    first_dirty_offset: int,
    *,
    safe_end_offset: int,
    newest_timestamp_ms: int | None,
) -> DirtyPart:
    """Return the part of a log's segments that may be cleaned; the last one takes appends.

    That are segments below safe_end_offset: records that are not committed, or perhaps not on the
    disk, may be lost later, and must not remove others before.
    newest_timestamp_ms: segments with a newer record are left out; None: no limit.
    A first dirty offset that is not in the log counts as its start: the log began anew.
    """
    start_offset, active_offset = segments[0].base_offset, segments[-1].base_offset
    if not start_offset <= first_dirty_offset <= active_offset:
        first_dirty_offset = start_offset
    end_offset = start_offset
    clean_bytes = dirty_bytes = 0
    for segment in segments[:-1]:
        is_new = newest_timestamp_ms is not None and segment.max_timestamp > newest_timestamp_ms
        if segment.next_offset > safe_end_offset or is_new:
            break
        end_offset = segment.next_offset
        if segment.next_offset <= first_dirty_offset:
            clean_bytes += segment.size_bytes
        else:
            dirty_bytes += segment.size_bytes
    return DirtyPart(Offset(first_dirty_offset), Offset(end_offset), clean_bytes, dirty_bytes)


def dirtiest(parts: Iterable[tuple[K, DirtyPart, float]]) -> tuple[K, DirtyPart] | None:
    """Return which log to clean: the dirtiest of those dirtier than their least ratio.

    Among equals the first; None when all are clean enough.
    """
    enough = [(key, part) for key, part, least in parts if part.ratio > least]
    return max(enough, key=lambda each: each[1].ratio, default=None)


def groups(segments: Iterable[S], *, max_bytes: int, max_offsets: int) -> list[list[S]]:
    """Return runs of segments, each with few enough bytes and offsets for one segment."""
    found: list[list[S]] = []
    size_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        if (
            not found
            or size_bytes > max_bytes
            or segment.next_offset - found[-1][0].base_offset > max_offsets
        ):
            found.append([])
            size_bytes = segment.size_bytes
        found[-1].append(segment)
    return found


class NewestOffsets:
    """The newest offset of each key in a pass, by the key's hash; of bounded size."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._keys_max

    def note(self, key: bytes, offset: int) -> None:
        """Note a record; offsets ascend."""
        self._offsets[_hash(key)] = offset

    def has_newer(self, key: bytes, offset: int) -> bool:
        """Return whether a newer record of the key was noted."""
        return self._offsets.get(_hash(key), -1) > offset


def _hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=_HASH_BYTES).digest()


def stays(
    key: bytes | None,
    offset: int,
    newest: NewestOffsets,
    *,
    has_value: bool,
    delete_horizon_ms: int | None,
    now_ms: int,
) -> bool:
    """Return whether a record stays in the log.

    A record without a value shows readers the deletion of its key: it stays until the horizon,
    which its batch has from the first pass on. A record without a key stays, since no newer one can
    replace it (deviation: Kafka drops it).
    """
    if key is None:
        return True
    is_over = not has_value and delete_horizon_ms is not None and now_ms > delete_horizon_ms
    return not is_over and not newest.has_newer(key, offset)
