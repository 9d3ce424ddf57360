"""The leader's next high watermark, as a table."""

from __future__ import annotations

import pytest

from highwater_broker.logic.high_watermark import (
    follower_high_watermark,
    is_frozen,
    needed_in_sync,
    next_high_watermark,
)
from highwater_core.ids import NO_OFFSET, Offset


@pytest.mark.parametrize(
    ("current", "leader_end", "required", "frozen", "expected"),
    [
        pytest.param(3, 9, (), False, 9, id="alone, the leader commits all"),
        pytest.param(3, 9, (7, 8), False, 7, id="the slowest required replica counts"),
        pytest.param(3, 9, (12,), False, 9, id="never beyond the leader's own end"),
        pytest.param(5, 9, (4,), False, 5, id="never down within a leadership"),
        pytest.param(5, 9, (NO_OFFSET,), False, 5, id="an unknown follower holds it"),
        pytest.param(5, 9, (9,), True, 5, id="frozen below min.insync.replicas"),
    ],
)
def test_high_watermark_is_the_least_end_and_only_rises(
    current: int, leader_end: int, required: tuple[int, ...], frozen: bool, expected: int
) -> None:
    ends = tuple(Offset(each) for each in required)
    assert next_high_watermark(Offset(current), Offset(leader_end), ends, frozen=frozen) == expected


@pytest.mark.parametrize(
    ("in_sync", "minimum", "factor", "waits", "expected"),
    [
        (1, 2, 3, True, True),
        (2, 2, 3, True, False),
        (1, 2, 3, False, False),
        (1, 1, 3, True, False),
        (3, 2, 3, True, False),
        pytest.param(3, 4, 3, True, False, id="a minimum that no ISR can reach"),
        pytest.param(2, 4, 3, True, True, id="but all replicas there are must be in sync"),
    ],
)
def test_frozen_only_below_min_isr_and_only_with_the_toggle(
    in_sync: int, minimum: int, factor: int, waits: bool, expected: bool
) -> None:
    needed = needed_in_sync(minimum, factor)
    assert is_frozen(in_sync, needed, 0, waits_for_min_isr=waits) is expected
    assert is_frozen(in_sync, needed, 1, waits_for_min_isr=waits) is waits


@pytest.mark.parametrize(("told", "end", "expected"), [(5, 9, 5), (12, 9, 9), (0, 9, 0)])
def test_follower_takes_the_leaders_word_up_to_its_own_end(
    told: int, end: int, expected: int
) -> None:
    assert follower_high_watermark(Offset(told), Offset(end)) == expected
