"""Whether a change of samples is told from noise."""

from __future__ import annotations

import random

import pytest

from bench.confidence import change_of, rank_of_bound


@pytest.mark.parametrize(
    ("before", "after", "rank"),
    [
        (3, 3, None),
        (4, 4, 1),
        (5, 5, 3),
        (8, 8, 14),
        (10, 10, 24),
        (4, 10, 6),
        (20, 20, 128),
    ],
)
def test_the_bound_is_that_of_mann_and_whitneys_tables(
    before: int, after: int, rank: int | None
) -> None:
    assert rank_of_bound(before, after, 0.95) == rank
    assert rank_of_bound(after, before, 0.95) == rank


def test_a_change_has_its_factor_between_its_bounds() -> None:
    change = change_of([100, 101, 99, 102], [110, 112, 109, 111])
    assert change is not None
    assert 1.06 < change.low < change.factor < change.high < 1.14
    assert change.is_told
    assert not change.is_none


@pytest.mark.parametrize(
    ("before", "after"),
    [([], [1.0] * 9), ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), ([0.0] * 9, [1.0] * 9)],
)
def test_too_few_samples_or_none_above_zero_have_no_change(
    before: list[float], after: list[float]
) -> None:
    assert change_of(before, after) is None


def test_samples_that_did_not_change_are_called_changed_as_seldom_as_promised() -> None:
    draw = random.Random(7)  # noqa: S311 - samples, no secret
    told = 0
    for _ in range(400):
        before, after = ([draw.lognormvariate(3, 0.2) for _ in range(8)] for _ in "ba")
        change = change_of(before, after)
        assert change is not None
        told += change.is_told
    assert told <= 0.08 * 400


@pytest.mark.parametrize(("spread", "least"), [(0.02, 0.95), (0.2, 0.0)])
def test_a_change_of_five_percent_is_told_where_the_samples_are_close(
    spread: float, least: float
) -> None:
    draw = random.Random(7)  # noqa: S311 - samples, no secret
    told = 0
    for _ in range(100):
        before = [100 * draw.lognormvariate(0, spread) for _ in range(10)]
        after = [105 * draw.lognormvariate(0, spread) for _ in range(10)]
        change = change_of(before, after)
        told += change is not None and change.is_told
    assert told >= 100 * least
    assert told < 60 or least


def test_many_samples_have_a_bound_that_goes_on_from_the_exact_one() -> None:
    exact, normal = rank_of_bound(50, 50, 0.95), rank_of_bound(51, 51, 0.95)
    assert exact is not None
    assert normal is not None
    assert exact < normal < 1.06 * exact
    assert rank_of_bound(2_000, 2_000, 0.95) is not None
