"""Delta debugging of lists and numbers."""

from __future__ import annotations

import pytest

from highwater_simulator.minimal import SIMPLE_NUMBERS, minimal_number, minimal_subset


@pytest.mark.parametrize(
    ("count", "needed"),
    [(1, ()), (1, (0,)), (2, (1,)), (8, (2, 5)), (12, (0, 6, 11)), (5, (0, 1, 2, 3, 4)), (0, ())],
)
def test_the_subset_has_exactly_the_needed_elements(count: int, needed: tuple[int, ...]) -> None:
    found = minimal_subset(range(count), lambda kept: set(needed) <= set(kept))
    assert found == needed


def test_one_of_several_causes_is_kept_and_none_can_be_left_out() -> None:
    def fails(kept: tuple[int, ...]) -> bool:
        return {1, 9} <= set(kept) or {4, 6} <= set(kept)

    found = minimal_subset(range(12), fails)
    assert fails(found)
    assert len(found) == 2


def test_subset_asks_few_questions_of_a_long_list() -> None:
    asked: list[tuple[int, ...]] = []

    def fails(kept: tuple[int, ...]) -> bool:
        asked.append(kept)
        return 17 in kept

    assert minimal_subset(range(64), fails) == (17,)
    assert len(asked) < 40


@pytest.mark.parametrize(
    ("value", "least", "threshold", "found"),
    [
        (437, 0, 0, 0),
        (437, 0, 3, 5),
        (437, 0, 150, 200),
        (437, 0, 300, 437),
        (437, 1, 0, 1),
        (0, 0, 0, 0),
        (-500, 0, -500, -500),
    ],
)
def test_number_is_the_least_simple_one_that_fails(
    value: int, least: int, threshold: int, found: int
) -> None:
    assert minimal_number(value, lambda number: number >= threshold, least) == found


def test_simple_numbers_rise() -> None:
    assert list(SIMPLE_NUMBERS) == sorted(set(SIMPLE_NUMBERS))
    assert SIMPLE_NUMBERS[:7] == (0, 1, 2, 5, 10, 20, 50)
