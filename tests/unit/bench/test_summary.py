"""From samples to numbers."""

from __future__ import annotations

import pytest

from bench.summary import Summary, format_number, format_summary, percentile, ratio, summarize


def test_a_summary_has_the_extremes_the_median_and_the_count() -> None:
    assert summarize([3.0, 1.0, 2.0, 10.0]) == Summary(1.0, 2.5, 10.0, 4)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1.0), (50, 5.0), (51, 6.0), (99, 10.0), (100, 10.0)]
)
def test_a_percentile_is_a_sample_of_the_nearest_rank(percent: int, expected: float) -> None:
    assert percentile([float(number) for number in range(10, 0, -1)], percent) == expected


def test_a_ratio_is_of_medians_and_none_where_theirs_is_0() -> None:
    ours, theirs = Summary(1, 6, 9, 3), Summary(1, 3, 9, 3)
    assert ratio(ours, theirs) == 2
    assert ratio(ours, Summary(0, 0, 0, 3)) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.125, "0.12"), (8.4, "8.40"), (82.14, "82.1"), (640.2, "640"), (12_345.6, "12,346")],
)
def test_numbers_have_about_three_digits(value: float, expected: str) -> None:
    assert format_number(value) == expected


def test_one_sample_is_shown_alone() -> None:
    assert format_summary(summarize([2.0])) == "2.00 (1)"
    assert format_summary(summarize([1.0, 2.0, 4.0])) == "1.00 / 2.00 / 4.00 (3)"
