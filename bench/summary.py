"""Samples to numbers: minimum, median, maximum, and ratios. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """The samples of one measure, in its unit."""

    minimum: float
    median: float
    maximum: float
    count: int


def summarize(samples: Sequence[float]) -> Summary:
    """Return the summary of one sample or more."""
    return Summary(min(samples), statistics.median(samples), max(samples), len(samples))


def percentile(samples: Sequence[float], percent: int) -> float:
    """Return the smallest sample that at least `percent` of all do not exceed (nearest rank)."""
    ordered = sorted(samples)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank, 1) - 1]


def ratio(ours: Summary, theirs: Summary) -> float | None:
    """Return our median over theirs; None where theirs is 0."""
    return ours.median / theirs.median if theirs.median else None


def format_number(value: float) -> str:
    """Return three significant digits, thousands whole and separated: 0.93, 8.4, 82.1, 12,345."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def format_summary(summary: Summary) -> str:
    """Return "min / median / max (n)", or the value alone when there is one sample."""
    if summary.count == 1:
        return f"{format_number(summary.median)} (1)"
    values = (summary.minimum, summary.median, summary.maximum)
    return f"{' / '.join(map(format_number, values))} ({summary.count})"
