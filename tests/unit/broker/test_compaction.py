"""Which records of a log compaction removes, and which stay, as tables."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from highwater_broker.logic.compaction import (
    DirtyPart,
    NewestOffsets,
    dirtiest,
    dirty_part,
    groups,
    stays,
)
from highwater_core.ids import Offset


@dataclass
class Facts:
    base_offset: int
    next_offset: int
    size_bytes: int = 100
    max_timestamp: int = 1_000


LOG = [Facts(10, 20), Facts(20, 30), Facts(30, 40), Facts(40, 45)]
"""The last one takes appends."""


@pytest.mark.parametrize(
    ("first_dirty", "safe_end", "newest_ms", "found"),
    [
        (10, 45, None, (10, 40, 0, 300)),  # never the active segment
        (20, 45, None, (20, 40, 100, 200)),
        (25, 45, None, (25, 40, 100, 200)),  # the map of the last pass was full within a segment
        (40, 45, None, (40, 40, 300, 0)),
        (10, 39, None, (10, 30, 0, 200)),  # a segment that is not committed as a whole
        (10, 40, None, (10, 40, 0, 300)),
        (10, 19, None, (10, 10, 0, 0)),
        (30, 25, None, (30, 20, 100, 0)),  # the high watermark fell: nothing is dirty
        (0, 45, None, (10, 40, 0, 300)),  # retention removed the first dirty records
        (99, 45, None, (10, 40, 0, 300)),  # the log was begun anew
        (10, 45, 1_000, (10, 40, 0, 300)),
        (10, 45, 999, (10, 10, 0, 0)),
    ],
)
def test_the_part_of_a_log_that_may_be_cleaned(
    first_dirty: int, safe_end: int, newest_ms: int | None, found: tuple[int, int, int, int]
) -> None:
    part = dirty_part(LOG, first_dirty, safe_end_offset=safe_end, newest_timestamp_ms=newest_ms)
    assert part == DirtyPart(Offset(found[0]), Offset(found[1]), *found[2:])


def test_a_newer_segment_keeps_all_after_it_from_being_cleaned() -> None:
    log = [Facts(0, 10), Facts(10, 20, max_timestamp=5_000), Facts(20, 30), Facts(30, 30)]
    part = dirty_part(log, 0, safe_end_offset=30, newest_timestamp_ms=2_000)
    assert (part.end_offset, part.dirty_bytes) == (10, 100)


def part(clean: int, dirty: int) -> DirtyPart:
    return DirtyPart(Offset(0), Offset(10), clean, dirty)


@pytest.mark.parametrize(
    ("parts", "chosen"),
    [
        ([], None),
        ([("a", part(100, 0), 0.0)], None),
        ([("a", part(0, 0), 0.0)], None),
        ([("a", part(100, 1), 0.0)], "a"),
        ([("a", part(50, 50), 0.5)], None),
        ([("a", part(50, 51), 0.5)], "a"),
        ([("a", part(0, 51), 1.0)], None),
        ([("a", part(50, 60), 0.5), ("b", part(10, 90), 0.5), ("c", part(5, 95), 0.99)], "b"),
        ([("a", part(0, 60), 0.5), ("b", part(0, 90), 0.5)], "a"),
    ],
)
def test_the_dirtiest_log_is_cleaned_first(
    parts: list[tuple[str, DirtyPart, float]], chosen: str | None
) -> None:
    found = dirtiest(parts)
    assert (found and found[0]) == chosen


@pytest.mark.parametrize(
    ("max_bytes", "max_offsets", "counts"),
    [(1_000, 1_000, [4]), (200, 1_000, [2, 2]), (199, 1_000, [1] * 4), (50, 1_000, [1] * 4),
     (1_000, 20, [2, 2]), (1_000, 9, [1] * 4)],
)  # fmt: skip
def test_remaining_records_of_several_segments_go_into_one(
    max_bytes: int, max_offsets: int, counts: list[int]
) -> None:
    found = groups(LOG, max_bytes=max_bytes, max_offsets=max_offsets)
    assert [len(each) for each in found] == counts
    assert [segment for each in found for segment in each] == LOG


NEWEST = NewestOffsets(10)
for _offset, _key in enumerate([b"a", b"b", b"a", b""]):
    NEWEST.note(_key, _offset)


@pytest.mark.parametrize(
    ("key", "offset", "has_value", "horizon_ms", "kept"),
    [
        (b"a", 0, True, None, False),
        (b"a", 2, True, None, True),
        (b"a", 3, True, None, True),  # beyond the map's offsets
        (b"b", 1, True, None, True),
        (b"", 2, True, None, False),
        (b"c", 0, True, None, True),
        (None, 0, True, None, True),
        (None, 0, False, 5, True),
        (b"a", 2, False, None, True),  # no pass has seen it before
        (b"a", 2, False, 1_000, True),
        (b"a", 2, False, 999, False),
        (b"a", 0, False, 5_000, False),
        (b"a", 2, True, 5, True),  # the horizon is of others in its batch
    ],
)
def test_of_each_key_the_newest_record_stays(
    key: bytes | None, offset: int, has_value: bool, horizon_ms: int | None, kept: bool
) -> None:
    found = stays(
        key, offset, NEWEST, has_value=has_value, delete_horizon_ms=horizon_ms, now_ms=1_000
    )
    assert found == kept


def test_the_map_is_full_once_it_has_so_many_keys() -> None:
    newest = NewestOffsets(2)
    newest.note(b"a", 0)
    newest.note(b"a", 1)
    assert (len(newest), newest.is_full) == (1, False)
    newest.note(b"b", 2)
    assert newest.is_full
